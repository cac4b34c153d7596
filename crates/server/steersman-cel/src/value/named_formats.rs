//! Words: the named formats that `format.dns1123Label()` and similar functions return.

use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use regex::Regex;
use steersman_apimachinery::constant_pattern::{ConstantPattern, is_match};
use steersman_apimachinery::names;
use steersman_apimachinery::names::NameRule;

use super::addresses::Url;
use super::times;

/// A named format, such as `dns1123Label`, which validates strings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamedFormat(&'static (&'static str, u64));

/// The names of the formats, each with the length, in characters, of its longest regular expression. The cost of
/// `validate` depends on this length.
const FORMATS: &[(&str, u64)] = &[
    ("dns1123Label", 30),
    ("dns1123Subdomain", 60),
    ("dns1035Label", 30),
    ("qualifiedName", 60),
    ("dns1123LabelPrefix", 30),
    ("dns1123SubdomainPrefix", 60),
    ("dns1035LabelPrefix", 30),
    ("labelValue", 40),
    ("uri", 1103),
    ("uuid", 70),
    ("byte", 84),
    // As in Kubernetes, checking a date costs as much as checking a date with a time.
    ("date", 71),
    ("datetime", 71),
];

impl NamedFormat {
    pub(crate) fn find(name: &str) -> Option<Self> {
        FORMATS.iter().find(|(known, _)| *known == name).map(Self)
    }

    pub(crate) fn longest_pattern(self) -> u64 {
        self.0.1
    }

    /// Returns why a string is invalid in this format; empty for a valid string.
    pub(crate) fn check(self, text: &str) -> Vec<String> {
        let unless = |fine: bool, why: &str| {
            if fine {
                Vec::new()
            } else {
                vec![why.to_owned()]
            }
        };
        let (name, prefix) = match self.0.0.strip_suffix("Prefix") {
            Some(name) => (name, true),
            None => (self.0.0, false),
        };
        // A prefix for generated names may end with a dash, a whole name may not. So a letter replaces the dash.
        let padded;
        let text = if prefix && text.ends_with('-') {
            padded = format!("{}a", &text[..text.len() - 1]);
            padded.as_str()
        } else {
            text
        };
        match name {
            "dns1123Label" => names::check_name(NameRule::Label, text),
            "dns1123Subdomain" => names::check_name(NameRule::Subdomain, text),
            "dns1035Label" => names::check_name(NameRule::Label1035, text),
            "qualifiedName" => names::check_key(text),
            "labelValue" => names::check_label_value(text),
            "uri" => Url::parse(text).err().into_iter().collect(),
            "uuid" => unless(is_match(&UUID, text), "does not match the UUID format"),
            "byte" => unless(
                !text.is_empty() && STANDARD.decode(text).is_ok(),
                "invalid base64",
            ),
            "date" => unless(text.parse::<jiff::civil::Date>().is_ok(), "invalid date"),
            _ => unless(is_date_time(text), "invalid datetime"),
        }
    }
}

/// The regular expression of a UUID, in which each dash may be absent.
static UUID: ConstantPattern =
    LazyLock::new(|| Regex::new("^[0-9a-fA-F]{8}-?(?:[0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}$").ok());

/// Returns whether a text is an RFC 3339 time; `t` and `z` in lower case are allowed.
fn is_date_time(text: &str) -> bool {
    times::rfc3339(&text.to_ascii_uppercase()).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_checked_against_formats() {
        let wrong = |name: &str, text: &str| NamedFormat::find(name).unwrap().check(text).len();
        for (name, good, bad) in [
            ("dns1123Label", "a-b", "A"),
            ("dns1123LabelPrefix", "a-", "-a"),
            ("uuid", "123e4567-e89b-12d3-a456-426614174000", "x"),
            ("byte", "aGk=", "*"),
            ("date", "2024-01-01", "2024-13-01"),
            ("datetime", "2024-01-01T00:00:00Z", "2024-01-01"),
            ("uri", "https://a/b", "a b"),
            ("labelValue", "", "-"),
            ("qualifiedName", "a.b/c", "a/b/c"),
        ] {
            assert_eq!(
                (wrong(name, good), wrong(name, bad).min(1)),
                (0, 1),
                "{name}"
            );
        }
    }
}
