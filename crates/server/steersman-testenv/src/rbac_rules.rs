//! Machine: RBAC rules as a set of verbs per resource, and their YAML.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Deserialize;
use steersman_apimachinery::verbs::position;
use thiserror::Error;

/// Words that YAML 1.1 reads as a boolean or as null.
const YAML_WORDS: [&str; 9] = ["true", "false", "yes", "no", "on", "off", "y", "n", "null"];

/// RBAC rules: the verbs that they allow for each resource.
///
/// Shown as YAML: one rule per resource, sorted by group and resource.
///
/// ```
/// # use steersman_testenv::RbacRules;
/// let mut rules = RbacRules::default();
/// rules.allow("apps", "deployments/scale", "patch");
/// rules.allow("", "configmaps", "watch");
/// rules.allow("", "configmaps", "list");
/// assert_eq!(
///     rules.to_string(),
///     r#"rules:
/// - apiGroups: [""]
///   resources: [configmaps]
///   verbs: [list, watch]
/// - apiGroups: [apps]
///   resources: [deployments/scale]
///   verbs: [patch]
/// "#
/// );
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RbacRules {
    verbs: BTreeMap<(String, String), BTreeSet<String>>,
}

/// The reason why a text is no set of rules, with the line and the column.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct RbacSyntaxError(String);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RulesDocument {
    rules: Vec<RuleDocument>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RuleDocument {
    api_groups: Vec<String>,
    resources: Vec<String>,
    verbs: Vec<String>,
}

// === impl RbacRules ===

impl RbacRules {
    /// Reads YAML with the one member `rules`. A rule for several groups or resources becomes one rule for each.
    ///
    /// # Errors
    /// If the text is no YAML, or a rule has members other than `apiGroups`, `resources` and `verbs`.
    pub fn parse(text: &str) -> Result<Self, RbacSyntaxError> {
        let document: RulesDocument =
            serde_saphyr::from_str(text).map_err(|error| one_line(&error))?;
        let mut rules = Self::default();
        for rule in document.rules {
            for group in &rule.api_groups {
                for resource in &rule.resources {
                    for verb in &rule.verbs {
                        rules.allow(group, resource, verb);
                    }
                }
            }
        }
        Ok(rules)
    }

    /// Adds a verb for a resource, such as `deployments` or `deployments/status`. The group is empty for core.
    pub fn allow(&mut self, group: &str, resource: &str, verb: &str) {
        let resource = (group.to_owned(), resource.to_owned());
        let verbs = self.verbs.entry(resource).or_default();
        verbs.insert(verb.to_owned());
    }

    /// Adds all verbs of other rules.
    pub fn merge(&mut self, other: Self) {
        for (resource, verbs) in other.verbs {
            self.verbs.entry(resource).or_default().extend(verbs);
        }
    }

    /// Returns whether there is no rule.
    pub fn is_empty(&self) -> bool {
        self.verbs.is_empty()
    }

    /// Returns a ClusterRole with these rules as YAML.
    pub fn cluster_role(&self, name: &str) -> String {
        let lead = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata:\n";
        format!("{lead}  name: {}\n{self}", scalar(name))
    }
}

impl fmt::Display for RbacRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.verbs.is_empty() {
            return f.write_str("rules: []\n");
        }
        f.write_str("rules:\n")?;
        for ((group, resource), verbs) in &self.verbs {
            let mut verbs: Vec<&str> = verbs.iter().map(String::as_str).collect();
            verbs.sort_by_key(|verb| position(verb));
            let verbs: Vec<String> = verbs.into_iter().map(scalar).collect();
            writeln!(f, "- apiGroups: [{}]", scalar(group))?;
            writeln!(f, "  resources: [{}]", scalar(resource))?;
            writeln!(f, "  verbs: [{}]", verbs.join(", "))?;
        }
        Ok(())
    }
}

/// Writes a text as YAML, in quotes unless it is a plain word in every version of YAML.
fn scalar(text: &str) -> String {
    let is_safe = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '/' | '_');
    let is_plain = text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.chars().all(is_safe)
        && !YAML_WORDS.contains(&text.to_ascii_lowercase().as_str());
    if is_plain {
        text.to_owned()
    } else {
        // JSON's strings are YAML's.
        serde_json::Value::from(text).to_string()
    }
}

/// Returns the problem and its position, without the drawing of the lines around it.
fn one_line(error: &serde_saphyr::Error) -> RbacSyntaxError {
    let text = error.without_snippet().to_string();
    let first = text.lines().next().unwrap_or_default();
    RbacSyntaxError(first.trim_start_matches("error: ").to_owned())
}

#[cfg(test)]
mod tests {
    use steersman_apimachinery::verbs::VERBS;

    use super::*;

    const ROLE: &str = r#"apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: operator
rules:
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get, list, watch, create, update, patch, delete, deletecollection, bind, escalate]
- apiGroups: [""]
  resources: [pods/exec]
  verbs: ["*"]
- apiGroups: [example.com]
  resources: [websites]
  verbs: [get]
"#;

    fn rules() -> RbacRules {
        let mut rules = RbacRules::default();
        rules.allow("example.com", "websites", "get");
        rules.allow("", "pods/exec", "*");
        for verb in ["escalate", "bind"]
            .into_iter()
            .chain(VERBS.into_iter().rev())
        {
            rules.allow("", "configmaps", verb);
        }
        rules
    }

    #[test]
    fn a_role_is_sorted_whatever_the_order_of_its_permissions() {
        assert_eq!(rules().cluster_role("operator"), ROLE);
    }

    #[test]
    fn rules_that_are_written_are_read_again() {
        assert_eq!(RbacRules::parse(&rules().to_string()), Ok(rules()));
        let none = RbacRules::default();
        assert_eq!(none.to_string(), "rules: []\n");
        assert_eq!(RbacRules::parse(&none.to_string()), Ok(none));
    }

    #[test]
    fn words_that_yaml_reads_otherwise_are_quoted() {
        for (text, written) in [
            ("", r#""""#),
            ("*", r#""*""#),
            ("no", r#""no""#),
            ("1st", r#""1st""#),
            ("a: b", r#""a: b""#),
            ("system:node", r#""system:node""#),
            ("apps", "apps"),
        ] {
            assert_eq!(scalar(text), written);
        }
    }

    #[test]
    fn a_rule_for_several_resources_becomes_one_for_each() {
        let text = r#"
# A comment.
rules:
- apiGroups: ["", apps]
  resources: [a, b]
  verbs:
  - get
"#;
        let mut expected = RbacRules::default();
        for (group, resource) in [("", "a"), ("", "b"), ("apps", "a"), ("apps", "b")] {
            expected.allow(group, resource, "get");
        }
        assert_eq!(RbacRules::parse(text), Ok(expected));
    }

    #[test]
    fn a_merge_is_the_union() {
        let mut all = rules();
        let mut more = RbacRules::default();
        more.allow("example.com", "websites", "patch");
        more.allow("example.com", "websites/status", "patch");
        all.merge(more);
        let text = all.to_string();
        let end = "  resources: [websites]\n  verbs: [get, patch]\n- apiGroups: [example.com]\n  \
                   resources: [websites/status]\n  verbs: [patch]\n";
        assert!(text.ends_with(end), "{text}");
    }

    #[test]
    fn an_error_names_the_place() {
        for (text, line, word) in [
            ("rules:\n- apiGroups: [\"\"\n", "line", ""),
            (
                "rules:\n- apiGroups: [\"\"]\n  resources: [a]\n  verbs: get\n",
                "line 4",
                "",
            ),
            (
                "rules:\n- apiGroups: [\"\"]\n  resources: [a]\n  resourceNames: [b]\n  verbs: [get]\n",
                "line 4",
                "resourceNames",
            ),
            ("rule: []\n", "line 1", "rule"),
            ("", "line 1", ""),
        ] {
            let problem = RbacRules::parse(text).unwrap_err().to_string();
            assert!(
                problem.contains(line) && problem.contains(word),
                "{text:?}: {problem}"
            );
            assert!(!problem.contains('\n'), "{problem}");
        }
    }
}
