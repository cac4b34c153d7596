//! Machine: the rules that the declarations of an operator imply. They hold whatever its tests saw.

use steersman_cli::description::{DescribedController, DescribedKind};
use steersman_object::PolicyRule;

use crate::definition::OwnKind;
use crate::operator::Operator;
use crate::rule_reason::RuleReason;
use crate::rule_set::RuleSet;

/// The verbs with which a cache holds a kind, and clients read one object live.
pub(crate) const READ: &[&str] = &["get", "list", "watch"];

/// The verbs on the children of a desired set: those of the cache, of server-side apply, and of pruning.
const OWN: &[&str] = &["get", "list", "watch", "create", "patch", "delete"];

/// The verbs with which a recorder of Events writes.
const RECORD: &[&str] = &["create", "patch"];

const DEFINITIONS: &str = "apiextensions.k8s.io";
const WEBHOOKS: &str = "admissionregistration.k8s.io";
pub(crate) const EVENTS: &str = "events.k8s.io";

/// Returns the rules of the caches and controllers (MANIFEST-3).
pub(crate) fn work(operator: &Operator) -> RuleSet {
    let mut rules = RuleSet::default();
    for controller in &operator.controllers {
        rules.merge(&of_controller(operator, controller));
    }
    let reason = RuleReason::implied("the cache holds them");
    for kind in &operator.kinds {
        // The reason of a controller says more.
        if !operator.controllers.iter().any(|one| reads(one, kind)) {
            rules.add_for(&on(kind, READ), Some(&reason));
        }
    }
    if operator.has_controllers() {
        let reason = RuleReason::implied("owner references to them may block their deletion");
        for own in &operator.own {
            rules.add_for(
                &part(&own.group, &own.plural, "finalizers", &["update"]),
                Some(&reason),
            );
        }
        rules.merge(&events("controllers record Events"));
    }
    rules
}

fn of_controller(operator: &Operator, controller: &DescribedController) -> RuleSet {
    let name = &controller.name;
    let reason = |text: &str| RuleReason::implied(format!("the controller {name} {text}"));
    let mut rules = RuleSet::default();
    if let Some(primary) = &controller.primary {
        let DescribedKind { group, plural, .. } = primary;
        rules.add_for(&on(primary, READ), Some(&reason("reconciles them")));
        if let Some(own) = operator.own_kind(group, plural) {
            rules.add_for(
                &on(primary, &["patch"]),
                Some(&reason("sets their finalizers")),
            );
            if own.has_subresource("status") {
                let status = part(group, plural, "status", &["update", "patch"]);
                rules.add_for(&status, Some(&reason("writes their status")));
            }
        } else if !controller.owned.is_empty() {
            // A cluster may check references with blockOwnerDeletion (OwnerReferencesPermissionEnforcement), as
            // OpenShift does.
            let finalizers = part(group, plural, "finalizers", &["update"]);
            let blocks = reason("writes owner references that may block their deletion");
            rules.add_for(&finalizers, Some(&blocks));
        }
    }
    for owned in &controller.owned {
        rules.add_for(&on(owned, OWN), Some(&reason("owns them")));
    }
    let watched = controller.watched.iter();
    let others = watched.filter(|kind| {
        controller.primary.as_ref() != Some(kind) && !controller.owned.contains(kind)
    });
    for watched in others {
        rules.add_for(&on(watched, READ), Some(&reason("watches them")));
    }
    rules
}

/// Returns whether the rules of a controller let it read a kind.
fn reads(controller: &DescribedController, kind: &DescribedKind) -> bool {
    let primary = controller.primary.iter();
    let mut kinds = primary.chain(&controller.owned).chain(&controller.watched);
    kinds.any(|read| (&read.group, &read.plural) == (&kind.group, &kind.plural))
}

/// Returns the rules for Events about objects without a namespace.
pub(crate) fn cluster_events(operator: &Operator) -> RuleSet {
    let is_about_cluster = |controller: &DescribedController| match &controller.primary {
        Some(primary) => !primary.namespaced,
        None => controller.watched.iter().any(|kind| !kind.namespaced),
    };
    match operator.controllers.iter().any(is_about_cluster) {
        true => events("Events about objects without a namespace are here"),
        false => RuleSet::default(),
    }
}

/// Returns the rules with which the leader installs the definitions and migrates their objects.
pub(crate) fn definitions(operator: &Operator) -> RuleSet {
    let mut rules = RuleSet::default();
    if operator.own.is_empty() {
        return rules;
    }
    let names: Vec<String> = operator.own.iter().map(OwnKind::name).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let installs = RuleReason::implied("the leader installs the definitions");
    let resource = "customresourcedefinitions";
    let create = PolicyRule::new(DEFINITIONS, &[resource], &["create"]);
    rules.add_for(&create, Some(&installs));
    let write = PolicyRule::new(DEFINITIONS, &[resource], &["get", "patch"]).named(&names);
    rules.add_for(&write, Some(&installs));
    let migrates = RuleReason::implied("the leader migrates stored objects");
    let stored = part(DEFINITIONS, resource, "status", &["patch"]).named(&names);
    rules.add_for(&stored, Some(&migrates));
    let migrations = PolicyRule::new(
        "storagemigration.k8s.io",
        &["storageversionmigrations"],
        &["create", "get", "delete"],
    );
    rules.add_for(&migrations, Some(&migrates));
    // Stored objects are migrated in all namespaces. A definition with one version has none to migrate; one that loses
    // its last old version keeps it as not served until the objects are migrated.
    let is_limited = |own: &OwnKind| {
        let namespaces = operator.namespaces_of(&own.group, &own.plural);
        !operator.options.namespaces.is_empty() || !namespaces.is_empty()
    };
    let own = operator.own.iter();
    for own in own.filter(|own| !is_limited(own) || !own.is_namespaced || own.has_versions) {
        let objects = PolicyRule::new(&own.group, &[&own.plural], &["list", "patch"]);
        rules.add_for(&objects, Some(&migrates));
    }
    rules
}

/// Returns the rules with which the leader injects its authority into the configurations of its webhooks.
pub(crate) fn webhook_configurations(operator: &Operator) -> RuleSet {
    let resources = [
        (true, "mutatingwebhookconfigurations"),
        (false, "validatingwebhookconfigurations"),
    ];
    let reason = RuleReason::implied("the leader injects its authority");
    let mut rules = RuleSet::default();
    for (mutates, resource) in resources {
        if operator.has_webhooks(mutates) && !operator.uses_cert_manager() {
            let rule = PolicyRule::new(WEBHOOKS, &[resource], &["get", "patch"]);
            rules.add_for(&rule.named(&[&operator.name]), Some(&reason));
        }
    }
    rules
}

/// Returns the rules of the leader election, in the operator's namespace.
pub(crate) fn leader_election() -> RuleSet {
    let verbs = &["get", "create", "update"];
    let lease = PolicyRule::new("coordination.k8s.io", &["leases"], verbs);
    let mut rules = events("a change of the leader is an Event");
    rules.add_for(
        &lease,
        Some(&RuleReason::implied("the replicas elect their leader")),
    );
    rules
}

/// Returns the rules of the built-in certificates, in the operator's namespace.
pub(crate) fn certificates(secret: &str) -> RuleSet {
    let reason = RuleReason::implied("the certificates of the webhooks are in this Secret");
    let create = PolicyRule::new("", &["secrets"], &["create"]);
    let write = PolicyRule::new("", &["secrets"], &["get", "update"]).named(&[secret]);
    let rules = RuleSet::default().with_for(&create, &reason);
    rules.with_for(&write, &reason)
}

/// Returns the rules with which the server of the metrics checks the readers.
pub(crate) fn metrics_auth() -> RuleSet {
    let reason = RuleReason::implied("the server of the metrics checks its readers");
    let create = |group: &str, resource: &str| PolicyRule::new(group, &[resource], &["create"]);
    let tokens = create("authentication.k8s.io", "tokenreviews");
    let access = create("authorization.k8s.io", "subjectaccessreviews");
    let rules = RuleSet::default().with_for(&tokens, &reason);
    rules.with_for(&access, &reason)
}

fn events(reason: &str) -> RuleSet {
    let rule = PolicyRule::new(EVENTS, &["events"], RECORD);
    RuleSet::default().with_for(&rule, &RuleReason::implied(reason))
}

fn on(kind: &DescribedKind, verbs: &[&str]) -> PolicyRule {
    PolicyRule::new(&kind.group, &[&kind.plural], verbs)
}

fn part(group: &str, plural: &str, part: &str, verbs: &[&str]) -> PolicyRule {
    PolicyRule::new(group, &[&format!("{plural}/{part}")], verbs)
}
