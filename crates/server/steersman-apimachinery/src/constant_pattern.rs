//! Words: constant patterns of texts.

use std::sync::LazyLock;

use regex::Regex;

/// A constant pattern in the syntax of the crate `regex`, compiled at its first use; `None` if it does not compile.
pub type ConstantPattern = LazyLock<Option<Regex>>;

/// Returns whether a text matches a constant pattern. No text matches a pattern that does not compile, so a test of
/// each pattern has a text that it accepts.
pub fn is_match(pattern: &ConstantPattern, text: &str) -> bool {
    pattern
        .as_ref()
        .is_some_and(|compiled| compiled.is_match(text))
}
