//! Tests that merged rules are short and grant the same permissions.

use std::collections::BTreeSet;

use proptest::prelude::{Strategy, prop, proptest};
use steersman_apimachinery::verbs::VERBS;

use super::{ANY, RuleSet, targets};
use steersman_object::PolicyRule;

fn set(rules: &[PolicyRule]) -> RuleSet {
    RuleSet::default().with(rules)
}

#[test]
fn resources_of_a_group_with_equal_verbs_are_one_rule() {
    let rules = set(&[
        PolicyRule::new("", &["services"], &["patch", "get"]),
        PolicyRule::new("", &["configmaps"], &["get"]),
        PolicyRule::new("", &["configmaps"], &["patch"]),
        PolicyRule::new("apps", &["deployments"], &["get", "patch"]),
    ]);
    let expected = [
        PolicyRule::new("", &["configmaps", "services"], &["get", "patch"]),
        PolicyRule::new("apps", &["deployments"], &["get", "patch"]),
    ];
    assert_eq!(rules.merged(), expected);
    assert_eq!(rules.single().len(), 3);
}

#[test]
fn names_with_equal_verbs_are_one_rule() {
    let rules = set(&[
        PolicyRule::new("", &["secrets"], &["get", "update"]).named(&["b"]),
        PolicyRule::new("", &["secrets"], &["update", "get"]).named(&["a"]),
    ]);
    let expected = [PolicyRule::new("", &["secrets"], &["get", "update"]).named(&["a", "b"])];
    assert_eq!(rules.merged(), expected);
}

#[test]
fn a_verb_on_all_objects_is_not_repeated_for_one_object() {
    let rules = set(&[
        PolicyRule::new("", &["secrets"], &["get", "update"]).named(&["a"]),
        PolicyRule::new("", &["secrets"], &["get"]),
    ]);
    let expected = [
        PolicyRule::new("", &["secrets"], &["get"]),
        PolicyRule::new("", &["secrets"], &["update"]).named(&["a"]),
    ];
    assert_eq!(rules.merged(), expected);
}

#[test]
fn verbs_stand_in_their_usual_order() {
    let verbs = [
        "use", "deletecollection", "delete", "create", "watch", "list", "get", "approve",
    ];
    let rules = set(&[PolicyRule::new("", &["pods"], &verbs)]).merged();
    let expected = "get list watch create delete deletecollection approve use";
    assert_eq!(rules[0].verbs.join(" "), expected);
}

#[test]
fn paths_have_rules_of_their_own() {
    let url = |url: &str| PolicyRule {
        non_resource_urls: vec![url.to_owned()],
        verbs: vec!["get".to_owned()],
        ..PolicyRule::default()
    };
    let rules = set(&[url("/metrics"), url("/livez")]).merged();
    assert_eq!(rules.len(), 1);
    assert_eq!(rules[0].non_resource_urls, ["/livez", "/metrics"]);
}

/// A permission for comparisons: the target and the verb.
type Permission = (String, String);

fn permissions(rules: &[PolicyRule]) -> BTreeSet<Permission> {
    let pairs = rules.iter().flat_map(|rule| {
        let targets = targets(rule).into_iter();
        targets.flat_map(|target| {
            rule.verbs
                .iter()
                .map(move |verb| (format!("{target:?}"), verb.clone()))
        })
    });
    pairs.collect()
}

/// Returns whether the rules grant a verb on an object, by the decision of Kubernetes.
fn grants(rules: &[PolicyRule], group: &str, resource: &str, name: &str, verb: &str) -> bool {
    let has = |list: &[String], text: &str| list.iter().any(|one| one == text);
    rules.iter().any(|rule| {
        has(&rule.api_groups, group)
            && has(&rule.resources, resource)
            && (rule.resource_names.is_empty() || has(&rule.resource_names, name))
            && (has(&rule.verbs, verb) || has(&rule.verbs, ANY))
    })
}

const GROUPS: [&str; 2] = ["", "apps"];
const RESOURCES: [&str; 3] = ["a", "b", "a/status"];
const NAMES: [&str; 3] = ["x", "y", "z"];

fn rules() -> impl Strategy<Value = Vec<PolicyRule>> {
    let some = |from: &'static [&'static str], least: usize| {
        prop::sample::subsequence(from, least..=from.len()).prop_shuffle()
    };
    let verbs: &[&str] = &[
        "get", "list", "watch", "create", "update", "patch", "use", "*",
    ];
    let verbs = prop::sample::subsequence(verbs, 1..4).prop_shuffle();
    let rule = (
        some(&GROUPS, 1),
        some(&RESOURCES, 1),
        some(&NAMES, 0),
        verbs,
    );
    let rule = rule.prop_map(|(groups, resources, names, verbs)| {
        let mut rule = PolicyRule::new("", &resources, &verbs).named(&names);
        rule.api_groups = groups.iter().map(|&group| group.to_owned()).collect();
        rule
    });
    prop::collection::vec(rule, 0..8)
}

proptest! {
    // MANIFEST-1: merged rules grant exactly what their sources grant.
    #[test]
    fn merged_rules_grant_what_their_sources_grant(rules in rules()) {
        for written in [set(&rules).merged(), set(&rules).single()] {
            for group in GROUPS {
                for resource in RESOURCES {
                    for name in NAMES {
                        for verb in VERBS.iter().chain(&["use", "other"]) {
                            let (before, now) = (
                                grants(&rules, group, resource, name, verb),
                                grants(&written, group, resource, name, verb),
                            );
                            proptest::prop_assert_eq!(before, now, "{} {} {} {}", group, resource, name, verb);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn merging_again_changes_nothing_and_the_order_of_the_sources_does_not_count(rules in rules()) {
        let merged = set(&rules).merged();
        proptest::prop_assert_eq!(&set(&merged).merged(), &merged);
        let mut reversed = rules;
        reversed.reverse();
        proptest::prop_assert_eq!(&set(&reversed).merged(), &merged);
    }

    #[test]
    fn merged_rules_are_sorted_and_state_each_permission_once(rules in rules()) {
        let merged = set(&rules).merged();
        let mut sorted = merged.clone();
        sorted.sort_by(|a, b| super::key(a).cmp(&super::key(b)));
        proptest::prop_assert_eq!(&sorted, &merged);
        let stated: usize = merged.iter().map(|rule| targets(rule).len() * rule.verbs.len()).sum();
        proptest::prop_assert_eq!(stated, permissions(&merged).len());
    }
}
