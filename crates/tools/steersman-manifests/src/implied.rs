//! Machine: the rules that the declarations of an operator imply, whatever its tests observed.

use steersman_description::{DescribedController, DescribedKind};
use steersman_object::PolicyRule;

use crate::definition::OwnKind;
use crate::operator::Operator;
use crate::rule_reason::{RuleOrigin, RuleReason};
use crate::rule_set::RuleSet;

/// The verbs that a cache, and a live read of an object, need on a kind.
pub(crate) const READ: &[&str] = &["get", "list", "watch"];

/// The verbs that a desired set needs on its children: of the cache, of server-side apply, and of pruning.
const OWN: &[&str] = &["get", "list", "watch", "create", "patch", "delete"];

/// The verbs that a recorder needs on Events.
const RECORD: &[&str] = &["create", "patch"];

const DEFINITIONS: &str = "apiextensions.k8s.io";
const WEBHOOKS: &str = "admissionregistration.k8s.io";
pub(crate) const EVENTS: &str = "events.k8s.io";

/// Returns the rules that the caches and controllers need (MANIFEST-3).
pub(crate) fn work(operator: &Operator) -> RuleSet {
    let mut rules = RuleSet::default();
    let controllers = &operator.description.controllers;
    for controller in controllers {
        rules.merge(&of_controller(operator, controller));
    }
    // If a controller also needs the kind, its reason is more specific.
    let cached = operator
        .description
        .kinds
        .iter()
        .filter(|kind| !controllers.iter().any(|one| reads(one, kind)))
        .map(|kind| on(kind, READ));
    rules.merge(&implied("the cache holds them", cached));
    if !controllers.is_empty() {
        let finalizers = operator
            .own
            .iter()
            .map(|own| part(&own.group, &own.plural, "finalizers", &["update"]));
        let reason = "owner references to them may block their deletion";
        rules.merge(&implied(reason, finalizers));
        rules.merge(&events("controllers record Events"));
    }
    rules
}

fn of_controller(operator: &Operator, controller: &DescribedController) -> RuleSet {
    let name = &controller.name;
    let reason =
        |text: &str| RuleReason::new(RuleOrigin::Implied, format!("the controller {name} {text}"));
    let mut rules = RuleSet::default();
    if let Some(primary) = &controller.primary {
        let DescribedKind { group, plural, .. } = primary;
        rules.add_for(&on(primary, READ), &reason("reconciles them"));
        if let Some(own) = operator.own_kind(group, plural) {
            rules.add_for(&on(primary, &["patch"]), &reason("sets their finalizers"));
            if own.has_subresource("status") {
                let status = part(group, plural, "status", &["update", "patch"]);
                rules.add_for(&status, &reason("writes their status"));
            }
        } else if !controller.owned.is_empty() {
            // Some clusters, such as OpenShift, check references with blockOwnerDeletion
            // (OwnerReferencesPermissionEnforcement).
            let finalizers = part(group, plural, "finalizers", &["update"]);
            let blocks = reason("writes owner references that may block their deletion");
            rules.add_for(&finalizers, &blocks);
        }
    }
    for owned in &controller.owned {
        rules.add_for(&on(owned, OWN), &reason("owns them"));
    }
    let watched = controller.watched.iter();
    let others = watched.filter(|kind| {
        controller.primary.as_ref() != Some(kind) && !controller.owned.contains(kind)
    });
    for watched in others {
        rules.add_for(&on(watched, READ), &reason("watches them"));
    }
    rules
}

fn reads(controller: &DescribedController, kind: &DescribedKind) -> bool {
    let primary = controller.primary.iter();
    let mut kinds = primary.chain(&controller.owned).chain(&controller.watched);
    kinds.any(|read| (&read.group, &read.plural) == (&kind.group, &kind.plural))
}

/// Returns the rules for Events about cluster-scoped objects.
pub(crate) fn cluster_events(operator: &Operator) -> RuleSet {
    let is_about_cluster = |controller: &DescribedController| match &controller.primary {
        Some(primary) => !primary.namespaced,
        None => controller.watched.iter().any(|kind| !kind.namespaced),
    };
    let mut controllers = operator.description.controllers.iter();
    if controllers.any(is_about_cluster) {
        events("Events about objects without a namespace are here")
    } else {
        RuleSet::default()
    }
}

/// Returns the rules that the leader needs to install the definitions and migrate their objects.
pub(crate) fn definitions(operator: &Operator) -> RuleSet {
    if operator.own.is_empty() {
        return RuleSet::default();
    }
    let names: Vec<String> = operator.own.iter().map(OwnKind::name).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let resource = "customresourcedefinitions";
    let create = PolicyRule::new(DEFINITIONS, &[resource], &["create"]);
    let write = PolicyRule::new(DEFINITIONS, &[resource], &["get", "patch"]).named(&names);
    let stored = part(DEFINITIONS, resource, "status", &["patch"]).named(&names);
    let migrations = PolicyRule::new(
        "storagemigration.k8s.io",
        &["storageversionmigrations"],
        &["create", "get", "delete"],
    );
    // Objects are migrated in all namespaces. A definition with a single version has nothing to migrate: while a
    // removed version still has objects, it stays listed as not served.
    let is_limited = |own: &OwnKind| {
        let namespaces = operator.namespaces_of(&own.group, &own.plural);
        !operator.options.namespaces.is_empty() || !namespaces.is_empty()
    };
    let own = operator.own.iter();
    let migrated = own.filter(|own| !is_limited(own) || !own.is_namespaced || own.has_versions);
    let objects =
        migrated.map(|own| PolicyRule::new(&own.group, &[&own.plural], &["list", "patch"]));
    let mut rules = implied("the leader installs the definitions", [create, write]);
    let migration = [stored, migrations].into_iter().chain(objects);
    rules.merge(&implied("the leader migrates stored objects", migration));
    rules
}

/// Returns the rules that the leader needs to inject its authority into webhook configurations.
pub(crate) fn webhook_configurations(operator: &Operator) -> RuleSet {
    let resources = [
        (true, "mutatingwebhookconfigurations"),
        (false, "validatingwebhookconfigurations"),
    ];
    let injected = resources
        .into_iter()
        .filter(|(mutates, _)| operator.has_webhooks(*mutates) && !operator.uses_cert_manager());
    let rules = injected.map(|(_, resource)| {
        let rule = PolicyRule::new(WEBHOOKS, &[resource], &["get", "patch"]);
        rule.named(&[&operator.name])
    });
    implied("the leader injects its authority", rules)
}

pub(crate) fn leader_election() -> RuleSet {
    let verbs = &["get", "create", "update"];
    let lease = PolicyRule::new("coordination.k8s.io", &["leases"], verbs);
    let mut rules = events("a change of the leader or of shards is an Event");
    rules.merge(&implied("the replicas elect their leader", [lease]));
    let verbs = &["get", "list", "watch", "create", "update", "delete"];
    let leases = PolicyRule::new("coordination.k8s.io", &["leases"], verbs);
    rules.merge(&implied(
        "with --shards, the replicas share the work",
        [leases],
    ));
    rules
}

/// Returns the rules that built-in certificates need, in the operator's namespace.
pub(crate) fn certificates(secret: &str) -> RuleSet {
    let create = PolicyRule::new("", &["secrets"], &["create"]);
    let write = PolicyRule::new("", &["secrets"], &["get", "update"]).named(&[secret]);
    let reason = "the certificates of the webhooks are in this Secret";
    implied(reason, [create, write])
}

/// Returns the rules that the metrics server needs to check its clients.
pub(crate) fn metrics_auth() -> RuleSet {
    let reviews = [
        ("authentication.k8s.io", "tokenreviews"),
        ("authorization.k8s.io", "subjectaccessreviews"),
    ];
    let rules = reviews.map(|(group, resource)| PolicyRule::new(group, &[resource], &["create"]));
    implied("the server of the metrics checks its readers", rules)
}

fn events(reason: &str) -> RuleSet {
    implied(reason, [PolicyRule::new(EVENTS, &["events"], RECORD)])
}

fn implied(reason: &str, implied: impl IntoIterator<Item = PolicyRule>) -> RuleSet {
    let reason = RuleReason::new(RuleOrigin::Implied, reason);
    let mut rules = RuleSet::default();
    for rule in implied {
        rules.add_for(&rule, &reason);
    }
    rules
}

fn on(kind: &DescribedKind, verbs: &[&str]) -> PolicyRule {
    PolicyRule::new(&kind.group, &[&kind.plural], verbs)
}

fn part(group: &str, plural: &str, part: &str, verbs: &[&str]) -> PolicyRule {
    PolicyRule::new(group, &[&format!("{plural}/{part}")], verbs)
}
