//! Words: constant patterns of texts.

use std::sync::LazyLock;

use regex::Regex;

/// A constant pattern, compiled at its first use.
pub(crate) type Pattern = LazyLock<Option<Regex>>;

/// Returns whether a text matches a constant pattern. The tests check that all compile.
pub(crate) fn is_match(pattern: &Pattern, text: &str) -> bool {
    let compiled = pattern.as_ref();
    compiled.is_some_and(|compiled| compiled.is_match(text))
}
