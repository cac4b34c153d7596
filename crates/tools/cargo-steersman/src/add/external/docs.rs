//! Machine: makes doc comments from the descriptions in a schema.

use serde_json::Value;

const WIDTH: usize = 100;

/// Returns the doc comment for a schema: its description and its enum values, escaped so that Markdown shows them as
/// plain text.
pub(super) fn doc_lines(schema: &Value, indent: &str) -> String {
    let mut paragraphs: Vec<String> = Vec::new();
    let description = schema["description"].as_str().unwrap_or_default();
    for paragraph in split(description) {
        let words: Vec<String> = paragraph.split_whitespace().map(plain).collect();
        paragraphs.extend(wrapped(&words, indent));
    }
    let values = schema["enum"].as_array().into_iter().flatten();
    let values: Vec<String> = values.map(|value| plain(&value.to_string())).collect();
    if !values.is_empty() {
        let text = format!("One of {}.", values.join(", "));
        let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        paragraphs.extend(wrapped(&words, indent));
    }
    paragraphs.join(&format!("{indent}///\n"))
}

/// Splits a text into paragraphs. A line that begins like a list item is a paragraph of its own.
fn split(text: &str) -> Vec<String> {
    let mut paragraphs = vec![String::new()];
    for line in text.lines().map(str::trim) {
        if line.is_empty() || line.starts_with(ITEM) || line.starts_with("* ") {
            paragraphs.push(String::new());
        }
        let line = line
            .strip_prefix("* ")
            .map_or_else(|| line.to_owned(), |rest| format!("{ITEM}{rest}"));
        if let Some(last) = paragraphs.last_mut() {
            *last += &line;
            last.push(' ');
        }
    }
    paragraphs
}

const ITEM: &str = "- ";

/// Wraps the words of a paragraph into doc comment lines; `None` without words.
fn wrapped(words: &[String], indent: &str) -> Option<String> {
    let is_item = words.first().is_some_and(|first| first == ITEM.trim_end());
    let mut lines = String::new();
    let mut line = String::new();
    let mut end = |line: &mut String| {
        let text = match (is_item, lines.is_empty()) {
            (true, true) => line.clone(),
            (true, false) => format!("  {}", begin(line)),
            (false, _) => begin(line),
        };
        lines += &format!("{indent}/// {text}\n");
        line.clear();
    };
    for word in words {
        if !line.is_empty() && indent.len() + line.len() + word.len() + 8 > WIDTH {
            end(&mut line);
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line += word;
    }
    if !line.is_empty() {
        end(&mut line);
    }
    (!lines.is_empty()).then_some(lines)
}

/// Escapes the characters of a word that have a meaning in Markdown.
fn plain(word: &str) -> String {
    let is_link = word.starts_with("http://") || word.starts_with("https://");
    if is_link && !word.contains(['<', '>']) {
        let link = word.trim_end_matches(['.', ',', ';', ':', ')', '"', '\'']);
        return format!("<{link}>{}", &word[link.len()..]);
    }
    let mut text = String::new();
    for letter in word.chars() {
        if r"<>[]`*_\#|~&".contains(letter) {
            text.push('\\');
        }
        text.push(letter);
    }
    text
}

/// Escapes the start of a line that Markdown would read as a list item.
fn begin(line: &str) -> String {
    let rest = line.trim_start_matches(|letter: char| letter.is_ascii_digit());
    let digits = line.len() - rest.len();
    match rest.chars().next() {
        Some('.' | ')') if digits > 0 => format!("{}\\{rest}", &line[..digits]),
        Some('-' | '+' | '=') if digits == 0 => format!("\\{line}"),
        _ => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_description_is_plain_text() {
        let schema = json!({
            "description": "See https://example.com/a_b.\n  - `one`\n  - two\n\n\n```\ncode\n```\n1. x",
            "enum": ["A", 1],
        });
        let expected = "/// See <https://example.com/a_b>.\n///\n/// - \\`one\\`\n///\n/// - two\n///\n\
                        /// \\`\\`\\` code \\`\\`\\` 1. x\n///\n/// One of \"A\", 1.\n";
        assert_eq!(doc_lines(&schema, ""), expected);
        assert_eq!(doc_lines(&json!({}), ""), "");
        let long = json!({"description": format!("{} - {} 1. b", "a".repeat(90), "b".repeat(90))});
        for line in doc_lines(&long, "    ").lines() {
            assert!(line.len() <= WIDTH, "{line}");
            assert!(
                !line.starts_with("    /// -") && !line.starts_with("    /// 1."),
                "{line}"
            );
        }
    }
}
