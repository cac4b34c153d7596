//! Machine: decides the rules of an operator's roles, and the scope of each.

use std::sync::LazyLock;

use steersman_object::PolicyRule;
use steersman_schema::builtin::built_in;
use steersman_schema::resource::Resource;

use crate::definition::OwnKind;
use crate::implied::{self, READ};
use crate::operator::Operator;
use crate::rule_reason::RuleReason;
use crate::rule_set::RuleSet;

/// The built-in kinds of Kubernetes.
static BUILT_IN: LazyLock<Vec<Resource>> = LazyLock::new(built_in);

/// Cluster-scoped resources that no stable API serves by default, or that only exist in rules: users to impersonate,
/// and signers to approve for.
const OTHERS: &[(&str, &str)] = &[
    ("", "groups"),
    ("", "users"),
    ("authentication.k8s.io", "uids"),
    ("authentication.k8s.io", "userextras"),
    ("certificates.k8s.io", "clustertrustbundles"),
    ("certificates.k8s.io", "signers"),
    ("resource.k8s.io", "devicetaintrules"),
];

const DEFAULT: &str = "default";

/// Unites the implied rules, the rules declared in code, and the rules of files (MANIFEST-1). Returns the permissions of
/// the operator's account (MANIFEST-2): those everywhere, and those in single namespaces if a kind is limited to some.
pub(crate) fn of_account(
    operator: &Operator,
    files: &RuleSet,
) -> (RuleSet, Vec<(String, RuleSet)>) {
    let (implied, limited) = limited(operator, implied::work(operator));
    let mut work = implied;
    work.merge(&declared(operator));
    let mut of_files = files.clone();
    for (_, rules) in &limited {
        of_files.remove_observed(rules);
    }
    work.merge(&of_files);
    let mut parts = implied::definitions(operator);
    parts.merge(&implied::webhook_configurations(operator));
    let namespaces = &operator.options.namespaces;
    if namespaces.is_empty() {
        work.merge(&parts);
        return (work, limited);
    }
    let (watched, mut everywhere) =
        work.partition(|group, resource| is_namespaced(operator, group, resource));
    everywhere.merge(&parts);
    let roles = namespaces
        .iter()
        .map(|name| (name.clone(), watched.clone()));
    let mut by_namespace: Vec<(String, RuleSet)> = roles.collect();
    let events = implied::cluster_events(operator);
    if !events.is_empty() {
        add_in(&mut by_namespace, DEFAULT, &events);
    }
    for (name, rules) in &limited {
        add_in(&mut by_namespace, name, rules);
    }
    (everywhere, by_namespace)
}

/// MANIFEST-4: divides rules by scope: those for all namespaces, and those for the namespaces in which the cache holds
/// the kind.
fn limited(operator: &Operator, rules: RuleSet) -> (RuleSet, Vec<(String, RuleSet)>) {
    let mut by_namespace = Vec::new();
    let mut rest = rules;
    let mut take = |group: &str, plural: &str, namespaces: &[String]| {
        let is_of_kind = |of: &str, resource: &str| of == group && plural_of(resource) == plural;
        let (chosen, others) = std::mem::take(&mut rest).partition(is_of_kind);
        rest = others;
        if !chosen.is_empty() {
            for name in namespaces {
                add_in(&mut by_namespace, name, &chosen);
            }
        }
    };
    for kind in &operator.description.limited_kinds {
        take(&kind.group, &kind.plural, &kind.namespaces);
    }
    // A controller records Events in the namespaces of the objects that it reconciles.
    if let Some(namespaces) = operator.namespaces_of_primaries() {
        let namespaces: Vec<String> = namespaces.into_iter().collect();
        take(implied::EVENTS, "events", &namespaces);
    }
    by_namespace.sort_by(|(a, _), (b, _)| a.cmp(b));
    (rest, by_namespace)
}

fn add_in(by_namespace: &mut Vec<(String, RuleSet)>, namespace: &str, rules: &RuleSet) {
    match by_namespace.iter_mut().find(|(name, _)| name == namespace) {
        Some((_, present)) => present.merge(rules),
        None => by_namespace.push((namespace.to_owned(), rules.clone())),
    }
}

/// Returns the plural name of a resource without its subresource.
fn plural_of(resource: &str) -> &str {
    resource.split('/').next().unwrap_or_default()
}

/// Returns the rules that the controllers declare in their code.
fn declared(operator: &Operator) -> RuleSet {
    let mut rules = RuleSet::default();
    for controller in &operator.description.controllers {
        for needed in &controller.needed_rules {
            let reason = RuleReason::declared(&controller.name, &needed.reason);
            rules.add_for(&needed.rule, &reason);
        }
    }
    rules
}

/// Returns whether a resource is namespaced. An unknown resource counts as namespaced.
fn is_namespaced(operator: &Operator, group: &str, resource: &str) -> bool {
    let plural = plural_of(resource);
    let mut kinds = operator.description.kinds.iter();
    if let Some(kind) = kinds.find(|kind| kind.group == group && kind.plural == plural) {
        return kind.namespaced;
    }
    if let Some(own) = operator.own_kind(group, plural) {
        return own.is_namespaced;
    }
    let mut built_in = BUILT_IN.iter();
    match built_in.find(|kind| kind.group == group && kind.plural == plural) {
        Some(kind) => kind.namespaced,
        None => !OTHERS.contains(&(group, plural)),
    }
}

/// A role for users of a kind: its verbs.
pub(crate) struct UserRole {
    /// The part of the role's name for this sort of user.
    pub(crate) user: &'static str,
    verbs: &'static [&'static str],
    scale: &'static [&'static str],
}

/// The roles for users of the operator's kinds. The verbs on the status are those of kubebuilder.
pub(crate) const USER_ROLES: &[UserRole] = &[
    UserRole {
        user: "admin",
        verbs: &["*"],
        scale: &["*"],
    },
    UserRole {
        user: "editor",
        verbs: &[
            "get", "list", "watch", "create", "update", "patch", "delete",
        ],
        scale: &["get", "update", "patch"],
    },
    UserRole {
        user: "viewer",
        verbs: READ,
        scale: &["get"],
    },
];

/// Returns the rules of a role for users of a kind. If the kind has the subresource `scale`, they include it, for
/// `kubectl scale` and autoscalers.
pub(crate) fn of_users(own: &OwnKind, role: &UserRole) -> RuleSet {
    let part = |name: &str| format!("{}/{name}", own.plural);
    let mut rules = vec![PolicyRule::new(&own.group, &[&own.plural], role.verbs)];
    if own.has_subresource("status") {
        rules.push(PolicyRule::new(&own.group, &[&part("status")], &["get"]));
    }
    if own.has_subresource("scale") {
        rules.push(PolicyRule::new(&own.group, &[&part("scale")], role.scale));
    }
    RuleSet::default().with(&rules)
}

/// Returns the rule for a user that reads the metrics.
pub(crate) fn metrics_reader() -> RuleSet {
    RuleSet::default().with(&[PolicyRule {
        non_resource_urls: vec!["/metrics".to_owned()],
        verbs: vec!["get".to_owned()],
        ..PolicyRule::default()
    }])
}
