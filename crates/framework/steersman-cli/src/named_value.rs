//! Words: parses booleans, numbers, shares, delays, namespaces and object keys in the notation of flags.

use std::time::Duration;

use steersman_object::{ObjectKey, parse_duration};

/// The maximal length of a namespace in bytes: that of a DNS label (RFC 1123).
const LONGEST: usize = 63;

/// Parses a boolean in the notation of Go's `strconv.ParseBool`.
pub(crate) fn parse_bool(text: &str) -> Result<bool, String> {
    match text.trim() {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err("the allowed values are true, t, 1, false, f and 0".to_owned()),
    }
}

/// Parses a namespace; an empty name means all namespaces.
pub(crate) fn parse_namespace(text: &str) -> Result<String, String> {
    let name = text.trim();
    let is_inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let is_label = name.len() <= LONGEST
        && name.chars().all(is_inner)
        && !name.starts_with('-')
        && !name.ends_with('-');
    match is_label {
        true => Ok(name.to_owned()),
        false => Err(format!(
            "a namespace has at most {LONGEST} lower-case letters, digits and dashes, and begins and ends with a \
             letter or a digit"
        )),
    }
}

pub(crate) fn parse_key(text: &str) -> Result<ObjectKey, String> {
    let parts = text.trim().split_once('/');
    let is_name = |name: &str| {
        let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c);
        !name.is_empty() && name.chars().all(is_part)
    };
    match parts {
        Some((namespace, name))
            if !namespace.is_empty() && parse_namespace(namespace).is_ok() && is_name(name) =>
        {
            Ok(ObjectKey::namespaced(namespace, name))
        }
        _ => Err("write it as NAMESPACE/NAME".to_owned()),
    }
}

pub(crate) fn parse_workers(text: &str) -> Result<usize, String> {
    match text.trim().parse() {
        Ok(0) | Err(_) => Err("the number is at least 1".to_owned()),
        Ok(workers) => Ok(workers),
    }
}

pub(crate) fn parse_share(text: &str) -> Result<f64, String> {
    let share = text.trim().parse().ok();
    let share = share.filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "a share is a number from 0 to 1, such as 0.01".to_owned())
}

pub(crate) fn parse_delay(text: &str) -> Result<Duration, String> {
    match parse_duration(text)? {
        Duration::ZERO => Err("the delay is greater than zero".to_owned()),
        delay => Ok(delay),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_a_namespace_and_a_name() {
        let key = ObjectKey::namespaced("shop", "hooks.tls");
        assert_eq!(parse_key(" shop/hooks.tls "), Ok(key));
        for text in [
            "", "shop", "/hooks", "shop/", "shop/a/b", "Shop/a", "shop/A",
        ] {
            assert!(parse_key(text).is_err(), "{text}");
        }
    }

    #[test]
    fn booleans_are_read_as_go_reads_them() {
        for text in ["1", "t", "T", "true", "TRUE", "True"] {
            assert_eq!(parse_bool(text), Ok(true), "{text}");
        }
        for text in ["0", "f", "F", "false", "FALSE", "False"] {
            assert_eq!(parse_bool(text), Ok(false), "{text}");
        }
        for text in ["", "yes", "tRUE", "2"] {
            assert!(parse_bool(text).unwrap_err().contains("true"), "{text}");
        }
    }

    #[test]
    fn a_namespace_is_a_dns_label() {
        for (text, name) in [("web", "web"), (" shop ", "shop"), ("a-1", "a-1"), ("", "")] {
            assert_eq!(parse_namespace(text).as_deref(), Ok(name), "{text}");
        }
        let long = "a".repeat(64);
        for text in ["Web", "-a", "a-", "a.b", "a b", "a/b", "ä", &long] {
            assert!(parse_namespace(text).is_err(), "{text}");
        }
    }
}
