//! Machine: parses the warnings of a server, and remembers the logged ones.

use std::collections::{HashSet, VecDeque};

use http::HeaderMap;
use http::header::WARNING;

/// The number of different logged warnings to remember; the oldest is forgotten first.
const REMEMBERED: usize = 512;
/// The limits of one answer: the number of warnings, and the characters of one warning. The rest is left out.
const PER_ANSWER: usize = 64;
const LONGEST: usize = 4096;

/// A warning in an answer: a deprecated version, a field without effect, the advice of a webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Warning {
    /// The method and the path of the request.
    pub request: String,
    /// The text of the warning.
    pub text: String,
}

/// The logged warnings, up to a bound.
#[derive(Debug, Default)]
pub(crate) struct SeenWarnings {
    texts: HashSet<String>,
    order: VecDeque<String>,
}

impl SeenWarnings {
    pub(crate) fn note(&mut self, text: &str) -> bool {
        if !self.texts.insert(text.to_owned()) {
            return false;
        }
        self.order.push_back(text.to_owned());
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.texts.remove(&oldest);
        }
        true
    }
}

/// Returns the texts of the `Warning` headers with code 299, which Kubernetes uses (KEP-1693).
pub(crate) fn texts(headers: &HeaderMap) -> Vec<String> {
    let mut texts = Vec::new();
    for value in headers.get_all(WARNING) {
        let mut rest = String::from_utf8_lossy(value.as_bytes()).into_owned();
        while let Some((code, text, after)) = next(&rest) {
            if code == "299" && !text.is_empty() && texts.len() < PER_ANSWER {
                texts.push(text);
            }
            rest = after;
        }
    }
    texts
}

/// Parses the first warning of a header (RFC 7234, 5.5): a code, an agent, a quoted text, and an optional quoted date.
fn next(header: &str) -> Option<(String, String, String)> {
    let header = header.trim_start_matches([' ', ',']);
    let (code, rest) = header.split_once(' ')?;
    let (_agent, rest) = rest.trim_start().split_once(' ')?;
    let (text, rest) = quoted(rest.trim_start())?;
    let rest = rest.trim_start();
    let rest = match quoted(rest) {
        Some((_date, rest)) => rest,
        None => rest,
    };
    Some((code.to_owned(), text, rest.to_owned()))
}

fn quoted(text: &str) -> Option<(String, &str)> {
    let mut out = String::new();
    let mut letters = text.strip_prefix('"')?.char_indices();
    while let Some((at, letter)) = letters.next() {
        let letter = match letter {
            '"' => return Some((out, &text[at + 2..])),
            '\\' => letters.next()?.1,
            other => other,
        };
        if out.len() < LONGEST && !letter.is_control() {
            out.push(letter);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    fn read(values: &[&str]) -> Vec<String> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(WARNING, HeaderValue::from_str(value).unwrap());
        }
        texts(&headers)
    }

    #[test]
    fn warnings_are_unquoted_and_other_codes_left_out() {
        assert_eq!(
            read(&[r#"299 - "v1beta1 is \"old\" \\ gone""#]),
            [r#"v1beta1 is "old" \ gone"#]
        );
        assert_eq!(
            read(&[
                r#"299 - "a", 199 - "b" "Wed, 21 Oct 2026 07:28:00 GMT", 299 kube "c""#,
                r#"299 - "d""#
            ]),
            ["a", "c", "d"]
        );
        for nothing in [
            "", "299", "299 -", "299 - text", r#"299 - "open"#, r#"299 - """#,
        ] {
            assert!(read(&[nothing]).is_empty(), "{nothing}");
        }
    }

    #[test]
    fn a_warning_is_new_again_after_many_others() {
        let mut said = SeenWarnings::default();
        assert!(said.note("a") && !said.note("a"));
        for n in 0..REMEMBERED {
            assert!(said.note(&n.to_string()));
        }
        assert!(said.note("a"));
        assert_eq!(said.texts.len(), said.order.len());
    }

    proptest! {
        #[test]
        fn any_header_ends(value in "[ -~]{0,60}") {
            read(&[&value]);
        }
    }
}
