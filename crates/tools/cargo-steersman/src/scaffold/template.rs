//! Machine: fills the templates of generated files.

use std::collections::BTreeMap;
use std::ops::Range;

use super::Files;

pub(super) type Values = BTreeMap<&'static str, String>;

/// Removes the sections, the texts between `{{#name}}` and `{{/name}}`, that are off, and all marks. A line with
/// nothing but a mark is removed.
fn with_sections(text: &str, sections: &[(&str, bool)]) -> String {
    let mut text = text.to_owned();
    for (name, is_on) in sections {
        let (begin, end) = (format!("{{{{#{name}}}}}"), format!("{{{{/{name}}}}}"));
        while let Some(first) = text.find(&begin).map(|at| mark(&text, at, begin.len())) {
            let Some(at) = text[first.end..].find(&end) else {
                break;
            };
            let last = mark(&text, first.end + at, end.len());
            let inside = match is_on {
                true => text[first.end..last.start].to_owned(),
                false => String::new(),
            };
            text.replace_range(first.start..last.end, &inside);
        }
    }
    text
}

/// Returns the range of a mark, or of its whole line if the line has nothing but the mark.
fn mark(text: &str, at: usize, length: usize) -> Range<usize> {
    let start = text[..at].rfind('\n').map_or(0, |before| before + 1);
    let end = at + length;
    match text[start..at].trim().is_empty() && text[end..].starts_with('\n') {
        true => start..end + 1,
        false => at..end,
    }
}

pub(super) fn owned<const N: usize>(values: [(&'static str, &str); N]) -> Values {
    values.map(|(name, value)| (name, value.to_owned())).into()
}

/// Applies the sections to templates, and replaces each `{{name}}` in paths and texts by its value.
pub(super) fn filled(
    templates: &[(&str, &str)],
    values: &Values,
    sections: &[(&str, bool)],
) -> Files {
    let fill = |text: &str| {
        let fill_one = |text: String, (name, value): (&&str, &String)| {
            text.replace(&format!("{{{{{name}}}}}"), value)
        };
        values.iter().fold(text.to_owned(), fill_one)
    };
    let files = templates.iter().map(|(path, content)| {
        let path = fill(path);
        (path.into(), fill(&with_sections(content, sections)))
    });
    files.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_are_kept_or_removed_with_their_lines() {
        let text = "a {{#x}}1 {{/x}}b\n  {{#x}}\n  2\n  {{#y}}\n  3\n  {{/y}}\n  {{/x}}\nc\n";
        let with = |x, y| with_sections(text, &[("x", x), ("y", y)]);
        assert_eq!(with(true, true), "a 1 b\n  2\n  3\nc\n");
        assert_eq!(with(true, false), "a 1 b\n  2\nc\n");
        assert_eq!(with(false, true), "a b\nc\n");
    }
}
