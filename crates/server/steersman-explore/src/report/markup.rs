//! Machine: writes texts into XML and HTML.

use crate::story::clean;

/// Returns a text as the content of an element or as a quoted attribute, in XML and in HTML. Characters that XML 1.0
/// forbids are replaced.
pub(crate) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for char in clean(text).chars() {
        match char {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            char => escaped.push(char),
        }
    }
    escaped
}

/// Returns a text as a quoted attribute that keeps its line breaks.
pub(crate) fn escaped_attribute(text: &str) -> String {
    escaped(text).replace('\n', "&#10;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_and_forbidden_characters_are_escaped() {
        let text = "<script>'a' & \"b\"]]>\u{0}\u{b}\u{fffe}\n";
        assert_eq!(
            escaped(text),
            "&lt;script&gt;&#39;a&#39; &amp; &quot;b&quot;]]&gt;\u{fffd}\u{fffd}\u{fffd}\n"
        );
        assert_eq!(escaped_attribute("a\nb"), "a&#10;b");
    }
}
