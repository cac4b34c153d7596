//! The rule `log_lines`: a log line that a page quotes is a message that the code logs at that level.

use super::docs::spans;
use super::lexer::{Source, close, offset, tokens};
use super::tree::{File, Tree, Violation};

/// The levels of quoted lines, with the macro of each.
const LEVELS: [(&str, &str); 3] = [("WARN ", "warn"), ("INFO ", "info"), ("ERROR ", "error")];

struct Quote<'a> {
    at: usize,
    level: &'static str,
    /// The literal parts of the message, in their order.
    parts: Vec<&'a str>,
}

/// The string literals in one call of a macro that logs.
struct Call {
    level: String,
    literals: String,
}

/// Checks the quoted log lines of all pages of the guide against the calls of log macros.
pub(crate) fn check(tree: &Tree) -> Vec<Violation> {
    let sources = tree.files().filter(|file| is_source(file));
    let calls: Vec<Call> = sources.flat_map(|file| calls(&file.text)).collect();
    let mut found = Vec::new();
    let is_page = |file: &&File| file.path.ends_with(".md") && file.path.contains("/guide/");
    for page in tree.files().filter(is_page) {
        for quote in quotes(&page.text) {
            let mut of_level = calls.iter().filter(|call| call.level == quote.level);
            if !of_level.any(|call| has(&call.literals, &quote.parts)) {
                let problem = format!("quotes {:?}, which no `{}!` logs", quote.parts, quote.level);
                let remedy = "quote the message of the code, with its level";
                found.push(page.violation(quote.at, problem, remedy));
            }
        }
    }
    found
}

fn is_source(file: &File) -> bool {
    file.path.ends_with(".rs") && file.path.starts_with("crates/") && !file.is_test()
}

/// Returns the log lines in the code spans and the fenced blocks of a page.
fn quotes(page: &str) -> Vec<Quote<'_>> {
    let fenced = page.split("```").skip(1).step_by(2).flat_map(str::lines);
    let fenced = fenced.map(|line| (offset(page, line), line));
    spans(page)
        .chain(fenced)
        .filter_map(|(at, text)| quote(at, text))
        .collect()
}

/// Returns the message of a log line, without its spans and its fields.
fn quote(at: usize, text: &str) -> Option<Quote<'_>> {
    let (begin, level) = LEVELS.iter().find(|(begin, _)| text.starts_with(begin))?;
    let mut message = &text[begin.len()..];
    // The spans of a line: `reconcile{controller=…}: `.
    while let Some((span, rest)) = message.split_once("}: ") {
        if !span.contains('{') {
            break;
        }
        message = rest;
    }
    let end = fields_begin(message);
    let parts = message[..end].split('…').map(str::trim);
    let parts: Vec<&str> = parts.filter(|part| !part.is_empty()).collect();
    Some(Quote { at, level, parts })
}

/// Returns the offset of the first field, such as ` kind=…`; without fields the length of the text.
fn fields_begin(text: &str) -> usize {
    let is_part = |char: char| char.is_ascii_lowercase() || char == '_';
    let mut at = 0;
    for word in text.split_inclusive(' ') {
        let name = word.split_once('=').map_or("", |(name, _)| name);
        if !name.is_empty() && name.chars().all(is_part) {
            return at;
        }
        at += word.len();
    }
    text.len()
}

fn calls(text: &str) -> Vec<Call> {
    let source = Source::of(text);
    let list = tokens(&source.code);
    let text = |index: usize| list.get(index).map_or("", |token| token.text);
    let starts = (0..list.len()).filter(|at| text(at + 1) == "!" && text(at + 2) == "(");
    let calls = starts.filter_map(|at| {
        let (_, level) = LEVELS.iter().find(|(_, level)| *level == text(at))?;
        let end = close(&list, at + 2);
        let end = list.get(end).map_or(source.literals.len(), |next| next.at);
        Some(Call {
            level: (*level).to_owned(),
            literals: joined(&source.literals[list[at].at..end]),
        })
    });
    calls.collect()
}

/// Joins the lines of literals, as the compiler does after a backslash, and drops their escapes.
fn joined(literals: &str) -> String {
    let lines = literals.lines().map(str::trim);
    let lines = lines.map(|line| line.strip_suffix('\\').unwrap_or(line));
    lines.collect::<String>().replace('\\', "")
}

/// Returns whether the text has all parts, in their order.
fn has(text: &str, parts: &[&str]) -> bool {
    let mut rest = text;
    parts.iter().all(|part| match rest.split_once(part) {
        Some((_, after)) => {
            rest = after;
            true
        }
        None => false,
    })
}

#[cfg(test)]
mod tests {
    use super::{check, quote};
    use crate::tidy::tree::Tree;

    fn found(page: &str, code: &str) -> usize {
        let files = [
            ("crates/framework/x/guide/a.md", page),
            ("crates/framework/x/src/a.rs", code),
        ];
        check(&Tree::of(&files)).len()
    }

    #[test]
    fn a_quote_has_the_message_and_the_level_of_a_call() {
        let code = "fn a() { warn!(kind = %f(), \"it is \\\n    gone {why}, \\\"x\\\"\"); }";
        for (page, violations) in [
            ("`WARN it is gone … kind=… why=…`", 0),
            ("`WARN it is … \"x\"`", 0),
            ("```text\nWARN it is gone\nkind=a\n```\n", 0),
            ("`WARN it was gone`", 1),
            ("`INFO it is gone`", 1),
            ("```text\nERROR other\n```\n", 1),
            ("`it was gone`", 0),
        ] {
            assert_eq!(found(page, code), violations, "{page}");
        }
        assert_eq!(
            found("`WARN it`", "#[cfg(debug)] fn a() { debug!(\"it\"); }"),
            1
        );
    }

    #[test]
    fn spans_and_fields_are_no_message() {
        let line = "ERROR reconcile{controller=… id=…}: reconcile failed error=… retry_in=5ms";
        assert_eq!(quote(0, line).unwrap().parts, ["reconcile failed"]);
        assert_eq!(quote(0, "ERROR … a b").unwrap().parts, ["a b"]);
    }
}
