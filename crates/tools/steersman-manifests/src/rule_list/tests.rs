//! Tests parsing the files of rules.

use serde_json::json;

use super::RuleList;
use crate::files::{EXTRA, OBSERVED};
use crate::yaml;
use steersman_object::PolicyRule;

fn text_of(observed: &RuleList) -> String {
    yaml::document(&json!({"rules": observed.rules()}))
}

fn refused(text: &str) -> String {
    RuleList::parse(OBSERVED, text).unwrap_err().to_string()
}

#[test]
fn the_file_has_one_sorted_rule_per_resource() {
    let text = "\
# A comment.
rules:
- apiGroups: [apps, '']
  resources: [deployments, configmaps]
  verbs: [patch, get]
- apiGroups: ['']
  resources: [secrets]
  resourceNames: [a]
  verbs: [update]
- nonResourceURLs: [/metrics]
  verbs: [get]
";
    let expected = "\
rules:
- apiGroups: [\"\"]
  resources: [configmaps]
  verbs: [get, patch]
- apiGroups: [\"\"]
  resources: [deployments]
  verbs: [get, patch]
- apiGroups: [\"\"]
  resources: [secrets]
  resourceNames: [a]
  verbs: [update]
- apiGroups: [apps]
  resources: [configmaps]
  verbs: [get, patch]
- apiGroups: [apps]
  resources: [deployments]
  verbs: [get, patch]
- nonResourceURLs: [/metrics]
  verbs: [get]
";
    let observed = RuleList::parse(OBSERVED, text).unwrap();
    assert_eq!(text_of(&observed), expected);
    assert_eq!(RuleList::parse(OBSERVED, expected).unwrap(), observed);
}

#[test]
fn an_empty_file_has_no_rules() {
    for text in ["", "# nothing\n", "rules: []\n"] {
        assert_eq!(
            RuleList::parse(OBSERVED, text).unwrap(),
            RuleList::default(),
            "{text}"
        );
    }
    let written = text_of(&RuleList::default());
    assert_eq!(
        RuleList::parse(OBSERVED, &written).unwrap(),
        RuleList::default()
    );
}

#[test]
fn rules_can_be_collected() {
    let rules = [
        PolicyRule::new("", &["pods"], &["get"]),
        PolicyRule::new("", &["pods"], &["list"]),
    ];
    let observed: RuleList = rules.into_iter().collect();
    assert_eq!(
        observed.rules(),
        [PolicyRule::new("", &["pods"], &["get", "list"])]
    );
}

#[test]
fn an_incomplete_rule_is_refused_with_its_line() {
    let cases = [
        ("resources: [pods]\n  apiGroups: ['']", "has no verbs"),
        ("resources: [pods]\n  verbs: [get]", "has no `apiGroups`"),
        ("apiGroups: ['']\n  verbs: [get]", "has no `resources`"),
        (
            "verbs: [get]\n  resources: [a]\n  nonResourceURLs: [/b]",
            "divide it",
        ),
        (
            "verbs: [get]\n  apiGroups: ['']\n  nonResourceURLs: [/b]",
            "neither",
        ),
    ];
    for (rule, problem) in cases {
        let good = "- apiGroups: ['']\n  resources: [pods]\n  verbs: [get]";
        let refused = refused(&format!("rules:\n{good}\n- {rule}\n"));
        let start = "rbac.observed.yaml, line 5: rule 2 ";
        assert!(
            refused.starts_with(start) && refused.contains(problem),
            "{refused}"
        );
    }
}

#[test]
fn a_text_that_is_no_list_of_rules_is_refused_with_its_line() {
    for text in [
        "rules:\n- verb: [get]\n", "rules:\n  - [\n", "rules: []\nrule: []\n", "- a\n",
    ] {
        let refused = refused(text);
        assert!(
            refused.starts_with("rbac.observed.yaml: ") && refused.contains(" at line "),
            "{refused}"
        );
        // The harness does not overwrite a broken file, so the error tells how to repair it.
        let remedy = "; correct the line, or delete the file and run all tests";
        assert!(refused.ends_with(remedy), "{refused}");
        // For the file that a user writes, the remedy is not to run the tests.
        let refused = RuleList::parse(EXTRA, text).unwrap_err().to_string();
        assert!(refused.starts_with("rbac.extra.yaml: "), "{refused}");
        assert!(refused.ends_with("; correct the line"), "{refused}");
    }
}
