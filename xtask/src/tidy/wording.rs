//! The rule `wording`: comments, documents, messages and names of functions hold no refused word.
//!
//! `wording/refused.txt` lists the words and phrases. They treat things as persons or count without
//! a unit, so that a reader has to guess the noun.

use super::docs::without_code;
use super::lexer::{Source, is_word, line, offset, tokens, without};
use super::tree::{File, Tree, Violation};

const REFUSED: &str = include_str!("wording/refused.txt");

struct Phrase {
    words: Vec<&'static str>,
    remedy: &'static str,
}

pub(crate) fn check(tree: &Tree) -> Vec<Violation> {
    let refused = refused();
    tree.files()
        .flat_map(|file| check_file(file, &refused))
        .collect()
}

fn refused() -> Vec<Phrase> {
    let lines = REFUSED.lines().filter(|line| !line.starts_with('#'));
    let phrases = lines.filter_map(|line| line.split_once(": "));
    phrases
        .map(|(phrase, remedy)| Phrase {
            words: phrase.split(' ').collect(),
            remedy,
        })
        .collect()
}

fn check_file(file: &File, refused: &[Phrase]) -> Vec<Violation> {
    let mut found: Vec<(usize, &Phrase)> = Vec::new();
    for view in views(file) {
        found.extend(search(&view.to_ascii_lowercase(), refused));
    }
    if file.path.ends_with(".rs") {
        found.extend(functions(&file.text, refused));
    }
    found.sort_by_key(|(at, _)| *at);
    let violations = found.into_iter().map(|(at, phrase)| {
        let problem = format!("says `{}`", phrase.words.join(" "));
        let line = line(&file.text, at);
        Violation::new(&file.path, line, problem, phrase.remedy)
    });
    violations.collect()
}

/// Returns the texts of a file that are written for readers. Each has the offsets of the file.
fn views(file: &File) -> Vec<String> {
    let name = file.name();
    if name.ends_with(".rs") {
        let source = Source::of(&file.text);
        return vec![
            without_code(&source.comments),
            without_code(&source.literals),
        ];
    }
    if name.ends_with(".md") {
        return vec![without_code(&file.text)];
    }
    if name.ends_with(".toml") || file.path.starts_with(".ci/") {
        let lines = file.text.split_inclusive('\n');
        let code = lines.filter(|line| !line.trim_start().starts_with('#'));
        return vec![without(&file.text, code)];
    }
    Vec::new()
}

/// Finds the phrases in a text. Between the words of a phrase may be blanks, line ends and the marks
/// of a comment; a word beside a colon, as in the name of a user, does not count.
fn search<'a>(text: &str, refused: &'a [Phrase]) -> Vec<(usize, &'a Phrase)> {
    let words = text.split(|char: char| !is_word(char) && char != '\'');
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    let mut found = Vec::new();
    for (index, first) in words.iter().enumerate() {
        for phrase in refused {
            let span = words.get(index..index + phrase.words.len());
            let Some(span) = span.filter(|span| *span == phrase.words) else {
                continue;
            };
            let joined = span.windows(2).all(|pair| {
                let between = &text[offset(text, pair[0]) + pair[0].len()..offset(text, pair[1])];
                between
                    .chars()
                    .all(|char| char.is_whitespace() || "/!#*>".contains(char))
            });
            let at = offset(text, first);
            let before = text[..at].chars().next_back();
            let is_part = before.is_some_and(|char| ":-_".contains(char));
            if joined && !is_part {
                found.push((at, phrase));
            }
        }
    }
    found
}

/// Finds the phrases in the names of functions, tests included.
fn functions<'a>(text: &str, refused: &'a [Phrase]) -> Vec<(usize, &'a Phrase)> {
    let source = Source::of(text);
    let tokens = tokens(&source.code);
    let names = tokens.windows(2).filter(|pair| pair[0].text == "fn");
    let mut found = Vec::new();
    for name in names.map(|pair| pair[1]) {
        let parts: Vec<&str> = name.text.split('_').collect();
        for phrase in refused {
            let mut windows = parts.windows(phrase.words.len());
            if windows.any(|window| window == phrase.words.as_slice()) {
                found.push((name.at, phrase));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{Tree, check, refused};

    fn messages(path: &str, text: &str) -> Vec<String> {
        let found = check(&Tree::of(&[(path, text)]));
        found
            .iter()
            .map(|violation| violation.of_rule("wording"))
            .collect()
    }

    #[test]
    fn every_refused_phrase_fails_in_a_comment_and_in_a_document() {
        for phrase in refused() {
            let words = phrase.words.join(" ");
            for (path, text) in [
                ("xtask/src/a.rs", format!("// The {words} of it.\n")),
                ("docs/a.md", format!("The {words} of it.\n")),
                ("xtask/Cargo.toml", format!("# The {words} of it.\n")),
            ] {
                let said = messages(path, &text);
                let expected = format!("{path}:1: [wording] says `{words}`");
                assert!(
                    said.iter().any(|line| line.starts_with(&expected)),
                    "{said:?}"
                );
            }
        }
    }

    #[test]
    fn a_phrase_over_two_lines_fails() {
        let refused = concat!("so", " many");
        for (path, text) in [
            (
                "xtask/src/a.rs",
                refused.replace(' ', "\n    /// ").replace("so", "/// So"),
            ),
            ("docs/a.md", refused.replace(' ', "\n")),
        ] {
            assert_eq!(messages(path, &text).len(), 1, "{text}");
        }
    }

    #[test]
    fn a_message_and_the_name_of_a_function_fail() {
        let word = concat!("no", "body");
        let message = format!("fn f() {{ fail(\"{word} is there\") }}");
        let name = format!("#[test]\nfn {word}_is_told() {{}}");
        for text in [message, name] {
            assert_eq!(messages("xtask/src/a.rs", &text).len(), 1, "{text}");
        }
    }

    #[test]
    fn names_and_code_spans_pass() {
        let word = concat!("no", "body");
        for (path, text) in [
            ("xtask/src/a.rs", format!("// The user `{word}`.\n")),
            ("xtask/src/a.rs", format!("let user = \"system:{word}\";\n")),
            (
                "docs/a.md",
                format!("The user `{word}`.\n```text\n{word}\n```\n"),
            ),
            ("xtask/Cargo.toml", format!("user = \"{word}\"\n")),
        ] {
            assert_eq!(messages(path, &text), Vec::<String>::new(), "{text}");
        }
    }
}
