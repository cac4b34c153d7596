//! Reading the file of observed rules.

use serde_json::json;

use super::Observed;
use crate::rule::PolicyRule;
use crate::yaml;

fn text_of(observed: &Observed) -> String {
    yaml::document(&json!({"rules": observed.rules()}))
}

fn refused(text: &str) -> String {
    Observed::parse(text).unwrap_err().to_string()
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
    let observed = Observed::parse(text).unwrap();
    assert_eq!(text_of(&observed), expected);
    assert_eq!(Observed::parse(expected).unwrap(), observed);
}

#[test]
fn an_empty_file_has_no_rules() {
    for text in ["", "# nothing\n", "rules: []\n"] {
        assert_eq!(
            Observed::parse(text).unwrap(),
            Observed::default(),
            "{text}"
        );
    }
    let written = text_of(&Observed::default());
    assert_eq!(Observed::parse(&written).unwrap(), Observed::default());
}

#[test]
fn rules_can_be_collected() {
    let rules = [
        PolicyRule::new("", &["pods"], &["get"]),
        PolicyRule::new("", &["pods"], &["list"]),
    ];
    let observed: Observed = rules.into_iter().collect();
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
        let start = "the observed rules, line 5: rule 2 ";
        assert!(
            refused.starts_with(start) && refused.contains(problem),
            "{refused}"
        );
    }
}

#[test]
fn a_text_that_is_no_list_of_rules_is_refused_with_its_line() {
    for text in [
        "rules:\n- verb: [get]\n",
        "rules:\n  - [\n",
        "rules: []\nrule: []\n",
        "- a\n",
    ] {
        let refused = refused(text);
        assert!(
            refused.contains("line") && refused.contains("correct the line"),
            "{refused}"
        );
    }
}
