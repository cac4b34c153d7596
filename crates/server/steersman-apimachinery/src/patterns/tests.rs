//! Tests of patterns in Go's syntax.

use proptest::prelude::*;
use serde_json::Value;

use super::{MOST_COMPILED, compile, mistake, translate};

/// The messages are those in the tests of Go's `regexp` and `regexp/syntax`.
#[test]
fn syntax_errors_have_the_messages_of_go() {
    for (pattern, expected) in [
        ("*", "missing argument to repetition operator: `*`"),
        ("a|*", "missing argument to repetition operator: `*`"),
        ("(+?)", "missing argument to repetition operator: `+?`"),
        ("(abc", "missing closing ): `(abc`"),
        ("abc)", "unexpected ): `abc)`"),
        ("x[a-z", "missing closing ]: `[a-z`"),
        ("[z-a]", "invalid character class range: `z-a`"),
        ("[[:foo:]]", "invalid character class range: `[:foo:]`"),
        ("\\p{Foo}", "invalid character class range: `\\p{Foo}`"),
        ("abc\\", "trailing backslash at end of expression: ``"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("a*+", "invalid nested repetition operator: `*+`"),
        ("a{2}{3}?", "invalid nested repetition operator: `{2}{3}?`"),
        ("a{2,1}", "invalid repeat count: `{2,1}`"),
        ("a{1001}", "invalid repeat count: `{1001}`"),
        ("((a{100}){0,}){11}", "invalid repeat count: `{11}`"),
        ("((a{100}){11}b)", "invalid repeat count: `{11}`"),
        (
            "(x|(a{2}){,3}|(?:b{501})+){2}?",
            "invalid repeat count: `{2}?`",
        ),
        ("\\q", "invalid escape sequence: `\\q`"),
        ("\\1", "invalid escape sequence: `\\1`"),
        ("(?P<n", "invalid named capture: `(?P<n`"),
        ("(?P<a-b>x)", "invalid named capture: `(?P<a-b>`"),
        ("(?!x)", "invalid or unsupported Perl syntax: `(?!`"),
        ("(?=x)", "invalid or unsupported Perl syntax: `(?=`"),
    ] {
        assert_eq!(mistake(pattern).as_deref(), Some(expected), "{pattern}");
    }
}

#[test]
fn patterns_that_go_accepts_have_no_error() {
    for pattern in [
        "", "^a(b|c)*$", "a{2}", "a{,3}", "a{x", "{", "[]a]", "[^]]", "[a-]", "[\\]a]",
        "\\.\\-\\/", "(?i)a", "(?i-s:a)+", "(?P<n>a)", "(?<n>a)", "\\pL\\p{Greek}\\p{^Greek}",
        "\\Q**\\E*", "[[:alpha:][:^digit:]]", "a*?", "\\x41\\x{1F600}", "[\\x41-\\x5a]",
        "^[0-9]+%$", "é+",
    ] {
        assert_eq!(mistake(pattern), None, "{pattern}");
    }
}

/// The expected answers are those of Go's `regexp` for these patterns and texts.
#[test]
fn patterns_match_as_those_of_go() {
    let recorded = include_str!("recorded.txt").lines();
    assert!(recorded.clone().count() > 500);
    for line in recorded.filter(|line| !line.starts_with('#')) {
        let case: Value = serde_json::from_str(line).unwrap();
        let (pattern, text) = (case[0].as_str().unwrap(), case[1].as_str().unwrap());
        let found = match compile(pattern, MOST_COMPILED) {
            Ok(compiled) => match compiled.find(text) {
                Some(found) => serde_json::json!([found.start(), found.end()]),
                None => Value::Null,
            },
            Err(why) => Value::from(why),
        };
        assert_eq!(found, case[2], "{pattern:?} on {text:?}");
    }
}

/// CEL-3: a pattern without an error compiles. SRV-3: a deep pattern overflows no stack, and a large pattern is
/// refused.
#[test]
fn deep_and_large_patterns_are_refused() {
    let nested = |open: &str, close: &str, depth: usize| {
        format!("{}a{}", open.repeat(depth), close.repeat(depth))
    };
    assert_eq!(mistake(&nested("(", ")", 999)), None);
    let deep = mistake(&nested("(", ")", 1000)).unwrap();
    assert!(deep.starts_with("expression nests too deeply: `(((("));
    for (open, close, depth) in [("(", ")", 999), ("(?:b", ")*", 480), ("(?:b|", ")c", 330)] {
        let pattern = nested(open, close, depth);
        assert!(compile(&pattern, MOST_COMPILED).is_ok(), "{open}");
    }
    assert_eq!(mistake(&nested("(?:", ")", 5000)), None);
    assert!(mistake(&nested("(?:b", ")*", 5000)).is_some());
    assert!(compile("\\pL{1000}", MOST_COMPILED).is_ok());
    let large = compile("\\pL{1000}", 1 << 20).unwrap_err();
    assert_eq!(large, "expression too large: `\\pL{1000}`");
    assert_eq!(mistake("\\pL{1000}"), None);
    let large = "(\\pL\\PL\\pN\\PN){1000}".repeat(20);
    let why = mistake(&large).unwrap();
    assert!(why.starts_with("expression too large: `(\\pL"), "{why}");
}

proptest! {
    /// The crate `regex` accepts the translation of every accepted pattern.
    #[test]
    fn every_translation_is_a_pattern(pattern in "[-ab1é()\\[\\]{}*+?|^$.:,&~#<>=!iPQEdDwWsSbBxpL\\\\ ]{0,12}") {
        if let Ok(translated) = translate(&pattern) {
            let built = regex_syntax_of(&translated);
            prop_assert!(built.is_ok(), "{pattern:?} became {translated:?}: {built:?}");
        }
    }
}

fn regex_syntax_of(translated: &str) -> Result<(), regex::Error> {
    match regex::Regex::new(translated) {
        Err(wrong @ regex::Error::Syntax(_)) => Err(wrong),
        _ => Ok(()),
    }
}
