//! Machine: Deployments, ReplicaSets, StatefulSets, DaemonSets, ControllerRevisions and ReplicationControllers.

pub(crate) mod batch;
pub mod autoscaling;
pub(crate) mod autoscaler;
pub(crate) mod budget;
mod defaults;
mod stateful;

use serde_json::Value;

use crate::fields::go_value::GoType::{self, Number, Pointer, Struct, Text};
use crate::fields::{FieldPath, check, selector};
use crate::{Strategy, pod};

const MISMATCH: &str = "`selector` does not match template `labels`";

const ROLLING: GoType = Struct(&[("maxUnavailable", Number), ("maxSurge", Number)]);
const STRATEGY: GoType = Struct(&[("type", Text), ("rollingUpdate", Pointer(&ROLLING))]);

pub(super) const DEPLOYMENT: Strategy = Strategy {
    defaults: defaults::deployment,
    validate: deployment,
    warn: |new, old| pod::warn_of_template(new, old, "spec.template"),
    validate_status: |new, old| {
        let parts = ["updatedReplicas", "readyReplicas", "availableReplicas"];
        let more = ["unavailableReplicas", "terminatingReplicas"];
        counts(new, &parts, &more, "readyReplicas");
        collisions(new, old);
    },
    ..Strategy::PLAIN
};

pub(super) const REPLICA_SET: Strategy = Strategy {
    defaults: defaults::replica_set,
    validate: replica_set,
    warn: |new, old| pod::warn_of_template(new, old, "spec.template"),
    validate_status: replica_status,
    ..Strategy::PLAIN
};

pub(super) const CONTROLLER_REVISION: Strategy = Strategy {
    validate: |object, old| {
        let data = object.at("data");
        data.need_set("data is mandatory");
        check::not_negative(&object.at("revision"));
        check::immutable(&data, old.map(|old| &old["data"]));
    },
    ..Strategy::PLAIN
};

pub(super) const REPLICATION_CONTROLLER: Strategy = Strategy {
    defaults: defaults::controller,
    validate: controller,
    warn: |new, old| pod::warn_of_template(new, old, "spec.template"),
    validate_status: replica_status,
    ..Strategy::PLAIN
};

pub(super) const STATEFUL_SET: Strategy = Strategy {
    defaults: defaults::stateful_set,
    validate: stateful::check,
    warn: |new, old| pod::warn_of_template(new, old, "spec.template"),
    validate_status: |new, old| {
        let parts = [
            "readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas",
        ];
        counts(new, &parts, &[], "status.readyReplicas");
        collisions(new, old);
    },
    ..Strategy::PLAIN
};

pub(super) const DAEMON_SET: Strategy = Strategy {
    defaults: defaults::daemon_set,
    prepare: defaults::count_templates,
    validate: daemon_set,
    warn: |new, old| pod::warn_of_template(new, old, "spec.template"),
    validate_status: |new, old| {
        let counts = [
            "currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled",
            "numberReady", "observedGeneration", "updatedNumberScheduled", "numberAvailable",
            "numberUnavailable", "collisionCount",
        ];
        check::not_negative_members(&new.at("status"), &counts);
        collisions(new, old);
    },
    ..Strategy::PLAIN
};

/// Checks that a selector is present and not empty. Returns whether the selector is valid.
fn check_selector(spec: &FieldPath<'_>, empty: &str) -> bool {
    let at = spec.at("selector");
    if !at.need_set("") {
        return true;
    }
    let valid = at.passes(selector::check);
    if selector::is_empty(&at) {
        at.invalid(empty);
    }
    valid
}

/// Checks selector and template (upstream: `ValidatePodTemplateSpecForReplicaSet`).
fn check_selector_and_template(spec: &FieldPath<'_>) {
    if !check_selector(spec, "empty selector is invalid for deployment") {
        return spec.at("selector").invalid("invalid label selector");
    }
    let template = spec.at("template");
    check_match(spec);
    pod::check_template(&template);
    check_endless(&template, "ReplicaSet");
}

fn check_match(spec: &FieldPath<'_>) {
    let labels = spec.down("template.metadata.labels");
    let at = spec.at("selector");
    // The check of the selector has refused an empty selector already.
    let empty = at.is_set() && selector::is_empty(&at);
    if !empty && !selector::selects(at.value(), labels.value()) {
        labels.invalid(MISMATCH);
    }
}

/// Checks that the Pods of a template run without a deadline and always restart.
fn check_endless(template: &FieldPath<'_>, kind: &str) {
    let restarts = template.down("spec.restartPolicy");
    if restarts.text() != "Always" {
        restarts.not_supported(&["Always"]);
    }
    let deadline = template.down("spec.activeDeadlineSeconds");
    deadline.deny(&format!("activeDeadlineSeconds in {kind} is not Supported"));
}

/// Checks a Deployment. Upstream: `ValidateDeploymentSpec`.
fn deployment(new: &FieldPath<'_>, old: Option<&Value>) {
    let spec = new.at("spec");
    check::not_negative(&spec.at("replicas"));
    check_selector_and_template(&spec);
    check_deployment_strategy(&spec.at("strategy"));
    let ready = spec.at("minReadySeconds");
    check::not_negative(&ready);
    check::not_negative(&spec.at("revisionHistoryLimit"));
    let deadline = spec.at("progressDeadlineSeconds");
    check::not_negative(&deadline);
    if deadline
        .number()
        .is_some_and(|seconds| seconds <= ready.int())
    {
        deadline.invalid("must be greater than minReadySeconds");
    }
    keep_selector(&spec, old);
}

/// Checks that an update keeps the selector, which is immutable since `apps/v1`.
fn keep_selector(spec: &FieldPath<'_>, old: Option<&Value>) {
    let before = old.map(|old| &old["spec"]["selector"]);
    check::immutable(&spec.at("selector"), before);
}

fn check_deployment_strategy(strategy: &FieldPath<'_>) {
    let rolling = strategy.at("rollingUpdate");
    match strategy.at("type").text() {
        "Recreate" => rolling.deny("may not be specified when strategy `type` is 'Recreate'"),
        "RollingUpdate" => {
            let [unavailable, surge] = rolling.parts(["maxUnavailable", "maxSurge"]);
            check::number_or_percent(&unavailable);
            check::number_or_percent(&surge);
            let none = |field: &FieldPath<'_>| check::number_or_percent_value(field) == 0;
            if none(&unavailable) && none(&surge) {
                unavailable.invalid("may not be 0 when `maxSurge` is 0");
            }
            check::at_most_hundred_percent(&unavailable);
        }
        _ => unknown_strategy(strategy, &["Recreate", "RollingUpdate"]),
    }
}

/// Adds the error for an unknown strategy type, which shows the whole strategy.
fn unknown_strategy(strategy: &FieldPath<'_>, known: &[&str]) {
    strategy.not_supported_written(&strategy.printed(&STRATEGY), known);
}

/// Checks a ReplicaSet. Upstream: `ValidateReplicaSetSpec`.
fn replica_set(new: &FieldPath<'_>, old: Option<&Value>) {
    let spec = new.at("spec");
    check::not_negative_members(&spec, &["replicas", "minReadySeconds"]);
    check_selector_and_template(&spec);
    keep_selector(&spec, old);
}

/// Checks a ReplicationController. Upstream: `ValidateReplicationControllerSpec`.
fn controller(new: &FieldPath<'_>, _: Option<&Value>) {
    let spec = new.at("spec");
    check::not_negative(&spec.at("minReadySeconds"));
    let at = spec.at("selector");
    at.need("");
    check::not_negative(&spec.at("replicas"));
    let template = spec.at("template");
    if !template.need_set("") {
        return;
    }
    let labels = template.down("metadata.labels");
    let mut wanted = at.value().as_object().into_iter().flatten();
    if !wanted.all(|(key, value)| labels.value().get(key) == Some(value)) {
        labels.invalid(MISMATCH);
    }
    pod::check_template(&template);
    check_endless(&template, "ReplicationController");
}

/// Checks a DaemonSet. Upstream: `ValidateDaemonSetSpec`.
fn daemon_set(new: &FieldPath<'_>, old: Option<&Value>) {
    let spec = new.at("spec");
    let at = spec.at("selector");
    selector::check(&at);
    let labels = spec.down("template.metadata.labels");
    if at.error_count() == 0 && !selector::selects(at.value(), labels.value()) {
        labels.invalid(MISMATCH);
    }
    if at.is_set() && selector::is_empty(&at) {
        at.invalid("empty selector is invalid for daemonset");
    }
    let template = spec.at("template");
    pod::check_template(&template);
    check_endless(&template, "DaemonSet");
    check::not_negative(&spec.at("minReadySeconds"));
    check_daemon_strategy(&spec.at("updateStrategy"));
    check::not_negative(&spec.at("revisionHistoryLimit"));
    keep_selector(&spec, old);
}

fn check_daemon_strategy(strategy: &FieldPath<'_>) {
    match strategy.at("type").text() {
        "OnDelete" => {}
        "RollingUpdate" => {
            let rolling = strategy.at("rollingUpdate");
            let both = rolling.parts(["maxUnavailable", "maxSurge"]);
            both.iter().for_each(check::number_or_percent);
            both.iter().for_each(check::at_most_hundred_percent);
            let [unavailable, surge] = both;
            let some = |field: &FieldPath<'_>| check::number_or_percent_value(field) != 0;
            match (some(&unavailable), some(&surge)) {
                (true, true) => surge.invalid("may not be set when maxUnavailable is non-zero"),
                (false, false) => unavailable.required("cannot be 0 when maxSurge is 0"),
                _ => {}
            }
        }
        _ => unknown_strategy(strategy, &["RollingUpdate", "OnDelete"]),
    }
}

/// Checks the numbers of Pods in a status: none is negative, and no part is larger than the whole.
fn counts(object: &FieldPath<'_>, parts: &[&str], more: &[&str], ready: &str) {
    let status = object.at("status");
    check::not_negative_members(&status, &["observedGeneration", "replicas"]);
    check::not_negative_members(&status, parts);
    check::not_negative_members(&status, more);
    check::not_negative(&status.at("collisionCount"));
    let whole = status.at("replicas").int();
    for part in parts.iter().map(|field| status.at(field)) {
        part.at_most(whole, "cannot be greater than status.replicas");
    }
    let detail = format!("cannot be greater than {ready}");
    let most = status.at("readyReplicas").int();
    status.at("availableReplicas").at_most(most, &detail);
}

fn replica_status(new: &FieldPath<'_>, _: &Value) {
    let parts = ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"];
    counts(new, &parts, &["terminatingReplicas"], "readyReplicas");
}

fn collisions(new: &FieldPath<'_>, old: &Value) {
    let before = old["status"]["collisionCount"].as_i64().unwrap_or_default();
    let count = new.down("status.collisionCount");
    count.at_least(before, "cannot be decremented");
}

#[cfg(test)]
mod tests;
