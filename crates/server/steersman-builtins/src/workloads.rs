//! Machine: Deployments, ReplicaSets, StatefulSets, DaemonSets, ControllerRevisions and
//! ReplicationControllers.

pub(crate) mod batch;
pub mod autoscaling;
pub(crate) mod autoscaler;
pub(crate) mod budget;
mod defaults;
mod stateful;

use serde_json::{Value, json};

use crate::Strategy;
use crate::fields::check;
use crate::fields::field_path::{Errors, FieldPath};
use crate::fields::selector;
use crate::pod;

const MISMATCH: &str = "`selector` does not match template `labels`";

/// The strategy of `Deployment` in `apps/v1`.
pub(super) const DEPLOYMENT: Strategy = Strategy {
    defaults: defaults::deployment,
    validate: deployment,
    warnings: |new, old| pod::template_warnings(new, old, "spec.template"),
    validate_status: |new, old| {
        let mut errors = Errors::default();
        let parts = ["updatedReplicas", "readyReplicas", "availableReplicas"];
        let more = ["unavailableReplicas", "terminatingReplicas"];
        counts(new, &parts, &more, "readyReplicas", &mut errors);
        collisions(new, old, &mut errors);
        errors
    },
    ..Strategy::PLAIN
};

/// The strategy of `ReplicaSet` in `apps/v1`.
pub(super) const REPLICA_SET: Strategy = Strategy {
    defaults: defaults::replica_set,
    validate: replica_set,
    warnings: |new, old| pod::template_warnings(new, old, "spec.template"),
    validate_status: replica_status,
    ..Strategy::PLAIN
};

pub(super) const CONTROLLER_REVISION: Strategy = Strategy {
    validate: |object, old| {
        let mut errors = Errors::default();
        let (data, revision) = (
            FieldPath::root(object).at("data"),
            FieldPath::root(object).at("revision"),
        );
        if !data.is_set() {
            errors.required(&data, "data is mandatory");
        }
        check::not_negative(&revision, &mut errors);
        if let Some(old) = old {
            check::immutable(&data, &old["data"], &mut errors);
        }
        errors
    },
    ..Strategy::PLAIN
};

/// The strategy of `ReplicationController` in `core/v1`.
pub(super) const REPLICATION_CONTROLLER: Strategy = Strategy {
    defaults: defaults::controller,
    validate: controller,
    warnings: |new, old| pod::template_warnings(new, old, "spec.template"),
    validate_status: replica_status,
    ..Strategy::PLAIN
};

/// The strategy of `StatefulSet` in `apps/v1`.
pub(super) const STATEFUL_SET: Strategy = Strategy {
    defaults: defaults::stateful_set,
    validate: stateful::check,
    warnings: |new, old| pod::template_warnings(new, old, "spec.template"),
    validate_status: |new, old| {
        let mut errors = Errors::default();
        let parts = [
            "readyReplicas",
            "currentReplicas",
            "updatedReplicas",
            "availableReplicas",
        ];
        counts(new, &parts, &[], "status.readyReplicas", &mut errors);
        collisions(new, old, &mut errors);
        errors
    },
    ..Strategy::PLAIN
};

/// The strategy of `DaemonSet` in `apps/v1`.
pub(super) const DAEMON_SET: Strategy = Strategy {
    defaults: defaults::daemon_set,
    prepare: defaults::count_templates,
    validate: daemon_set,
    warnings: |new, old| pod::template_warnings(new, old, "spec.template"),
    validate_status: |new, old| {
        let mut errors = Errors::default();
        let status = FieldPath::root(new).at("status");
        for field in [
            "currentNumberScheduled",
            "numberMisscheduled",
            "desiredNumberScheduled",
            "numberReady",
            "observedGeneration",
            "updatedNumberScheduled",
            "numberAvailable",
            "numberUnavailable",
            "collisionCount",
        ] {
            check::not_negative(&status.at(field), &mut errors);
        }
        collisions(new, old, &mut errors);
        errors
    },
    ..Strategy::PLAIN
};

/// Checks that a selector is present and not empty. Returns whether the selector is valid.
fn check_selector(spec: &FieldPath<'_>, empty: &str, errors: &mut Errors) -> bool {
    let at = spec.at("selector");
    let before = errors.len();
    if !at.is_set() {
        errors.required(&at, "");
        return true;
    }
    selector::check(&at, errors);
    let valid = errors.len() == before;
    if selector::is_empty(&at) {
        errors.invalid(&at, empty);
    }
    valid
}

/// Checks the rules for templates in addition to those for Pods (upstream:
/// `ValidatePodTemplateSpecForReplicaSet`).
fn check_template(spec: &FieldPath<'_>, kind: &str, errors: &mut Errors) {
    let template = spec.at("template");
    check_match(spec, errors);
    pod::check_template(&template, errors);
    check_endless(&template, kind, errors);
}

fn check_match(spec: &FieldPath<'_>, errors: &mut Errors) {
    let labels = spec.down("template.metadata.labels");
    let at = spec.at("selector");
    // The check of the selector has refused an empty selector already.
    let empty = at.is_set() && selector::is_empty(&at);
    if !empty && !selector::selects(at.value(), labels.value()) {
        errors.invalid(&labels, MISMATCH);
    }
}

/// Checks that the Pods of a template run without a deadline and always restart.
fn check_endless(template: &FieldPath<'_>, kind: &str, errors: &mut Errors) {
    let restarts = template.down("spec.restartPolicy");
    if restarts.text() != "Always" {
        errors.not_supported(&restarts, &["Always"]);
    }
    let deadline = template.down("spec.activeDeadlineSeconds");
    if deadline.is_set() {
        let detail = format!("activeDeadlineSeconds in {kind} is not Supported");
        errors.forbidden(&deadline, &detail);
    }
}

/// Checks a Deployment. Upstream: `ValidateDeploymentSpec`.
fn deployment(new: &Value, old: Option<&Value>) -> Errors {
    let mut errors = Errors::default();
    let spec = FieldPath::root(new).at("spec");
    check::not_negative(&spec.at("replicas"), &mut errors);
    let valid = check_selector(
        &spec,
        "empty selector is invalid for deployment",
        &mut errors,
    );
    if valid {
        check_template(&spec, "ReplicaSet", &mut errors);
    } else {
        errors.invalid(&spec.at("selector"), "invalid label selector");
    }
    check_deployment_strategy(&spec.at("strategy"), &mut errors);
    let ready = spec.at("minReadySeconds");
    check::not_negative(&ready, &mut errors);
    check::not_negative(&spec.at("revisionHistoryLimit"), &mut errors);
    let deadline = spec.at("progressDeadlineSeconds");
    check::not_negative(&deadline, &mut errors);
    if deadline
        .number()
        .is_some_and(|seconds| seconds <= ready.int())
    {
        errors.invalid(&deadline, "must be greater than minReadySeconds");
    }
    keep_selector(&spec, old, &mut errors);
    errors
}

/// Checks that an update keeps the selector, which is immutable since `apps/v1`.
fn keep_selector(spec: &FieldPath<'_>, old: Option<&Value>, errors: &mut Errors) {
    if let Some(old) = old {
        check::immutable(&spec.at("selector"), &old["spec"]["selector"], errors);
    }
}

fn check_deployment_strategy(strategy: &FieldPath<'_>, errors: &mut Errors) {
    let rolling = strategy.at("rollingUpdate");
    match strategy.at("type").text() {
        "Recreate" => {
            if rolling.is_set() {
                let detail = "may not be specified when strategy `type` is 'Recreate'";
                errors.forbidden(&rolling, detail);
            }
        }
        "RollingUpdate" => {
            let (unavailable, surge) = (rolling.at("maxUnavailable"), rolling.at("maxSurge"));
            check::number_or_percent(&unavailable, errors);
            check::number_or_percent(&surge, errors);
            let none = |field: &FieldPath<'_>| check::number_or_percent_value(field) == 0;
            if none(&unavailable) && none(&surge) {
                errors.invalid(&unavailable, "may not be 0 when `maxSurge` is 0");
            }
            check::at_most_hundred_percent(&unavailable, errors);
        }
        _ => unknown_strategy(strategy, &["Recreate", "RollingUpdate"], errors),
    }
}

/// Adds the error for an unknown strategy type. The error shows the whole strategy as Go prints its
/// internal type.
fn unknown_strategy(strategy: &FieldPath<'_>, known: &[&str], errors: &mut Errors) {
    errors.not_supported_written(strategy, &strategy_written(strategy), known);
}

fn strategy_written(strategy: &FieldPath<'_>) -> String {
    let rolling = strategy.at("rollingUpdate");
    let written = if rolling.is_set() {
        let number = |name: &str| match rolling.at(name).value() {
            Value::Null => json!(0),
            value => value.clone(),
        };
        match rolling.at("partition").number() {
            Some(partition) => format!(
                "{{\"Partition\":{partition},\"MaxUnavailable\":{}}}",
                rolling.at("maxUnavailable").value()
            ),
            None => format!(
                "{{\"MaxUnavailable\":{},\"MaxSurge\":{}}}",
                number("maxUnavailable"),
                number("maxSurge")
            ),
        }
    } else {
        "null".to_owned()
    };
    let kind = Value::from(strategy.at("type").text());
    format!("{{\"Type\":{kind},\"RollingUpdate\":{written}}}")
}

/// Checks a ReplicaSet. Upstream: `ValidateReplicaSetSpec`.
fn replica_set(new: &Value, old: Option<&Value>) -> Errors {
    let mut errors = Errors::default();
    let spec = FieldPath::root(new).at("spec");
    check::not_negative(&spec.at("replicas"), &mut errors);
    check::not_negative(&spec.at("minReadySeconds"), &mut errors);
    // As in the real server, the message says "deployment".
    let valid = check_selector(
        &spec,
        "empty selector is invalid for deployment",
        &mut errors,
    );
    if valid {
        check_template(&spec, "ReplicaSet", &mut errors);
    } else {
        errors.invalid(&spec.at("selector"), "invalid label selector");
    }
    keep_selector(&spec, old, &mut errors);
    errors
}

/// Checks a ReplicationController. Upstream: `ValidateReplicationControllerSpec`.
fn controller(new: &Value, _: Option<&Value>) -> Errors {
    let mut errors = Errors::default();
    let spec = FieldPath::root(new).at("spec");
    check::not_negative(&spec.at("minReadySeconds"), &mut errors);
    let at = spec.at("selector");
    if at.is_empty() {
        errors.required(&at, "");
    }
    check::not_negative(&spec.at("replicas"), &mut errors);
    let template = spec.at("template");
    if !template.is_set() {
        errors.required(&template, "");
        return errors;
    }
    let labels = template.down("metadata.labels");
    let mut wanted = at.value().as_object().into_iter().flatten();
    if !wanted.all(|(key, value)| labels.value().get(key) == Some(value)) {
        errors.invalid(&labels, MISMATCH);
    }
    pod::check_template(&template, &mut errors);
    check_endless(&template, "ReplicationController", &mut errors);
    errors
}

/// Checks a DaemonSet. Upstream: `ValidateDaemonSetSpec`.
fn daemon_set(new: &Value, old: Option<&Value>) -> Errors {
    let mut errors = Errors::default();
    let spec = FieldPath::root(new).at("spec");
    let at = spec.at("selector");
    selector::check(&at, &mut errors);
    let labels = spec.down("template.metadata.labels");
    if errors.is_empty() && !selector::selects(at.value(), labels.value()) {
        errors.invalid(&labels, MISMATCH);
    }
    if at.is_set() && selector::is_empty(&at) {
        errors.invalid(&at, "empty selector is invalid for daemonset");
    }
    let template = spec.at("template");
    pod::check_template(&template, &mut errors);
    check_endless(&template, "DaemonSet", &mut errors);
    check::not_negative(&spec.at("minReadySeconds"), &mut errors);
    check_daemon_strategy(&spec.at("updateStrategy"), &mut errors);
    check::not_negative(&spec.at("revisionHistoryLimit"), &mut errors);
    keep_selector(&spec, old, &mut errors);
    errors
}

fn check_daemon_strategy(strategy: &FieldPath<'_>, errors: &mut Errors) {
    match strategy.at("type").text() {
        "OnDelete" => {}
        "RollingUpdate" => {
            let rolling = strategy.at("rollingUpdate");
            let (unavailable, surge) = (rolling.at("maxUnavailable"), rolling.at("maxSurge"));
            for field in [&unavailable, &surge] {
                check::number_or_percent(field, errors);
            }
            for field in [&unavailable, &surge] {
                check::at_most_hundred_percent(field, errors);
            }
            let some = |field: &FieldPath<'_>| check::number_or_percent_value(field) != 0;
            match (some(&unavailable), some(&surge)) {
                (true, true) => {
                    let detail = "may not be set when maxUnavailable is non-zero";
                    errors.invalid(&surge, detail);
                }
                (false, false) => {
                    errors.required(&unavailable, "cannot be 0 when maxSurge is 0");
                }
                _ => {}
            }
        }
        _ => unknown_strategy(strategy, &["RollingUpdate", "OnDelete"], errors),
    }
}

/// Checks the numbers of Pods in a status: none is negative, and no part is larger than the whole.
fn counts(object: &Value, parts: &[&str], more: &[&str], ready: &str, errors: &mut Errors) {
    let status = FieldPath::root(object).at("status");
    let all = ["observedGeneration", "replicas"];
    for field in all.iter().chain(parts).chain(more) {
        check::not_negative(&status.at(field), errors);
    }
    check::not_negative(&status.at("collisionCount"), errors);
    let whole = status.at("replicas").int();
    for field in parts {
        if status.at(field).int() > whole {
            let number = json!(status.at(field).int());
            let detail = "cannot be greater than status.replicas";
            errors.invalid_as(&status.at(field), &number, detail);
        }
    }
    let available = status.at("availableReplicas");
    if available.int() > status.at("readyReplicas").int() {
        errors.invalid(&available, &format!("cannot be greater than {ready}"));
    }
}

fn replica_status(new: &Value, _: &Value) -> Errors {
    let mut errors = Errors::default();
    let parts = ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"];
    counts(
        new,
        &parts,
        &["terminatingReplicas"],
        "readyReplicas",
        &mut errors,
    );
    errors
}

/// Checks that the count of hash collisions does not decrease.
fn collisions(new: &Value, old: &Value, errors: &mut Errors) {
    let count = FieldPath::root(new).down("status.collisionCount");
    if count.int() < old["status"]["collisionCount"].as_i64().unwrap_or_default() {
        errors.invalid_as(&count, &json!(count.int()), "cannot be decremented");
    }
}

#[cfg(test)]
mod tests;
