//! Words: the rules in a file, such as the rules that an operator needed in its tests.

use serde::Deserialize;
use serde_saphyr::Spanned;
use steersman_object::PolicyRule;

use crate::error::Error;
use crate::files::{EXTRA, OBSERVED};
use crate::rule_reason::{RuleOrigin, RuleReason};
use crate::rule_set::RuleSet;

#[cfg(test)]
mod tests;

/// The rules in `rbac.observed.yaml`, which an operator's tests write, or in `rbac.extra.yaml`, which a user writes.
///
/// ```
/// use steersman_manifests::{RuleList, PolicyRule};
///
/// let mut rules = RuleList::default();
/// rules.add(&PolicyRule::new("apps", &["deployments"], &["patch"]));
/// rules.add(&PolicyRule::new("apps", &["deployments"], &["get"]));
/// assert_eq!(rules.rules(), [PolicyRule::new("apps", &["deployments"], &["get", "patch"])]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleList {
    set: RuleSet,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleFile {
    #[serde(default)]
    rules: Vec<Spanned<PolicyRule>>,
}

impl RuleList {
    /// Parses a file of rules; errors name `file`. Without rules, the file counts as empty. Rules of `rbac.extra.yaml`
    /// count as written by hand, and all others as observed.
    ///
    /// # Errors
    ///
    /// [`Error::RuleFile`] for a text that is not a list of rules; [`Error::Rule`] for a rule without verbs, groups or
    /// resources, or with both resources and paths.
    pub fn parse(file: &str, text: &str) -> Result<Self, Error> {
        let mut rules = Self::default();
        let mut lines = text.lines().map(str::trim);
        if lines.all(|line| line.is_empty() || line.starts_with('#')) {
            return Ok(rules);
        }
        let read: RuleFile = serde_saphyr::from_str(text).map_err(|error| Error::RuleFile {
            file: file.to_owned(),
            problem: one_line(&error),
            remedy: match file == OBSERVED {
                true => "correct the line, or delete the file and run all tests",
                false => "correct the line",
            },
        })?;
        let reason = match file == EXTRA {
            true => RuleReason::new(RuleOrigin::ByHand, EXTRA),
            false => RuleReason::observed(),
        };
        for (index, rule) in read.rules.iter().enumerate() {
            if let Some(problem) = problem(&rule.value) {
                return Err(Error::Rule {
                    file: file.to_owned(),
                    line: rule.referenced.line(),
                    number: index + 1,
                    problem: problem.to_owned(),
                });
            }
            rules.set.add_for(&rule.value, &reason);
        }
        Ok(rules)
    }

    /// Adds the permissions of a rule, as observed.
    pub fn add(&mut self, rule: &PolicyRule) {
        self.set.add_for(rule, &RuleReason::observed());
    }

    /// Adds the rules of another file.
    pub fn merge(&mut self, other: &Self) {
        self.set.merge(&other.set);
    }

    /// Returns the rules: one per group and resource, sorted.
    pub fn rules(&self) -> Vec<PolicyRule> {
        RuleSet::default().with(&self.set.merged()).single()
    }

    pub(crate) fn set(&self) -> &RuleSet {
        &self.set
    }
}

impl FromIterator<PolicyRule> for RuleList {
    fn from_iter<I: IntoIterator<Item = PolicyRule>>(all: I) -> Self {
        let mut rules = Self::default();
        all.into_iter().for_each(|rule| rules.add(&rule));
        rules
    }
}

/// Returns the problem of an invalid rule, with the remedy.
fn problem(rule: &PolicyRule) -> Option<&'static str> {
    let has_resources = !rule.resources.is_empty();
    let has_urls = !rule.non_resource_urls.is_empty();
    if rule.verbs.is_empty() {
        Some("has no verbs: add `verbs`, or remove the rule")
    } else if has_resources && has_urls {
        Some("has `resources` and `nonResourceURLs`: divide it into two rules")
    } else if !has_resources && !has_urls {
        Some("has no `resources` and no `nonResourceURLs`: add one of them")
    } else if has_resources && rule.api_groups.is_empty() {
        Some("has no `apiGroups`: add them; the core group is \"\"")
    } else if has_urls && !(rule.api_groups.is_empty() && rule.resource_names.is_empty()) {
        Some("has `nonResourceURLs`, and so neither `apiGroups` nor `resourceNames`: remove them")
    } else {
        None
    }
}

/// Returns the position and the problem of an error, without the quoted lines.
fn one_line(error: &serde_saphyr::Error) -> String {
    let text = error.without_snippet().to_string();
    let line = text.lines().next().unwrap_or_default();
    line.trim_start_matches("error: ").to_owned()
}
