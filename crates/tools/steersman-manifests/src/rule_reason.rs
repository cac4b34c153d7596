//! Words: the reason of a rule.

use std::fmt;

/// The reason why a role grants a verb: the origin of the rule, and what needs it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct RuleReason {
    /// The origin of the rule.
    pub origin: RuleOrigin,
    /// What needs the rule, such as "the controller website owns them", where "them" is the resource.
    pub text: String,
}

/// The origin of a rule. The first of several origins is stated, because implied rules do not depend on tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RuleOrigin {
    /// The declarations of the program imply the rule.
    Implied,
    /// The code of a controller declares the rule.
    Declared,
    /// A user wrote the rule into `rbac.extra.yaml`.
    ByHand,
    /// The tests of the operator observed that it needs the rule.
    Observed,
}

impl RuleReason {
    pub(crate) fn new(origin: RuleOrigin, text: impl Into<String>) -> Self {
        let text = text.into();
        Self { origin, text }
    }

    pub(crate) fn declared(controller: &str, text: &str) -> Self {
        let text = format!("the controller {controller} {}", in_one_line(text));
        Self::new(RuleOrigin::Declared, text)
    }

    pub(crate) fn observed() -> Self {
        Self::new(RuleOrigin::Observed, "the tests saw the requests")
    }
}

impl fmt::Display for RuleReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let origin = match self.origin {
            RuleOrigin::Implied => "implied",
            RuleOrigin::Declared => "declared",
            RuleOrigin::ByHand => "by hand",
            RuleOrigin::Observed => "observed",
        };
        write!(f, "{origin}: {}", self.text)
    }
}

/// Returns a text without line breaks, because a line break would end a comment.
fn in_one_line(text: &str) -> String {
    let words = text.split(|char: char| char.is_control() || char == ' ');
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    words.join(" ")
}
