//! Machine: what a server warns of, and whether it was said before.

use std::collections::{HashSet, VecDeque};

use http::HeaderMap;
use http::header::WARNING;

/// So many different warnings are remembered; the oldest is said again first.
const REMEMBERED: usize = 512;
/// An answer may hold so many, and each may be so long; what goes beyond is left out.
const PER_ANSWER: usize = 64;
const LONGEST: usize = 4096;

/// A warning that came with an answer: a deprecated version, a field that does nothing, a webhook's advice.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Warning {
    /// What was asked: the method and the path.
    pub request: String,
    /// What the server says.
    pub text: String,
}

/// The warnings said before, bounded.
#[derive(Debug, Default)]
pub(crate) struct SeenWarnings {
    texts: HashSet<String>,
    order: VecDeque<String>,
}

impl SeenWarnings {
    /// Notes a text; true where it is new.
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

/// The texts of the `Warning` headers with code 299, the one that Kubernetes uses (KEP-1693).
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

/// The first warning of a header (RFC 7234, 5.5): a code, an agent, a quoted text, maybe a quoted date.
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

/// A quoted string and what follows it.
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
    fn texts_are_unquoted_and_other_codes_left_out() {
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
            "",
            "299",
            "299 -",
            "299 - text",
            r#"299 - "open"#,
            r#"299 - """#,
        ] {
            assert!(read(&[nothing]).is_empty(), "{nothing}");
        }
    }

    #[test]
    fn a_text_is_new_once_until_many_others_came() {
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
