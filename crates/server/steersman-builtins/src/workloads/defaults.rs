//! Machine: fills in the defaults of the kinds in `apps`, and of ReplicationControllers.

use serde_json::{Value, json};

use crate::fields::fill::{complete, complete_given, given, lacks, list, part, put, set};
use crate::pod;
use crate::storage::claim;

/// The annotation with the generation of a DaemonSet's template.
const GENERATION: &str = "deprecated.daemonset.template.generation";

pub(super) fn deployment(object: &mut Value) {
    let Some(spec) = part(object, "spec") else {
        return;
    };
    let defaults = json!({
        "replicas": 1,
        "revisionHistoryLimit": 10,
        "progressDeadlineSeconds": 600,
        "strategy": {"type": "RollingUpdate"},
    });
    complete(spec, defaults);
    let rolling = json!({"maxUnavailable": "25%", "maxSurge": "25%"});
    complete_rolling(&mut spec["strategy"], &rolling);
    pod::complete_template(spec);
}

/// Completes the settings of a strategy of type `RollingUpdate`.
fn complete_rolling(strategy: &mut Value, defaults: &Value) {
    if strategy["type"] == "RollingUpdate" {
        complete(strategy, json!({"rollingUpdate": defaults}));
    }
}

pub(super) fn replica_set(object: &mut Value) {
    complete_replicas(object);
    if let Some(spec) = given(object, "spec") {
        pod::complete_template(spec);
    }
}

fn complete_replicas(object: &mut Value) {
    let defaults = json!({"spec": {"replicas": 1}, "status": {"replicas": 0}});
    complete(object, defaults);
}

/// Selector and labels of a ReplicationController default to the labels of the template.
pub(super) fn controller(object: &mut Value) {
    let labels = object.pointer("/spec/template/metadata/labels").cloned();
    if let Some(labels) = labels {
        if let Some(spec) = part(object, "spec") {
            set(spec, "selector", labels.clone());
        }
        if let Some(metadata) = part(object, "metadata") {
            set(metadata, "labels", labels);
        }
    }
    complete_replicas(object);
    if object["spec"]["template"].is_object() {
        pod::complete_template(&mut object["spec"]);
    }
}

pub(super) fn stateful_set(object: &mut Value) {
    let defaults = json!({
        "spec": {
            "replicas": 1,
            "podManagementPolicy": "OrderedReady",
            "revisionHistoryLimit": 10,
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
            "updateStrategy": {},
        },
        "status": {"replicas": 0, "availableReplicas": 0},
    });
    complete(object, defaults);
    let Some(spec) = given(object, "spec") else {
        return;
    };
    if let Some(strategy) = given(spec, "updateStrategy") {
        // A strategy with a type has no default for the struct of the type.
        if lacks(strategy, "type") {
            let defaults = json!({"type": "RollingUpdate", "rollingUpdate": {}});
            complete(strategy, defaults);
        }
        if strategy["type"] == "RollingUpdate" {
            complete_given(strategy, "rollingUpdate", json!({"partition": 0}));
        }
    }
    for claim in list(spec, "volumeClaimTemplates") {
        let defaults = json!({
            "kind": "PersistentVolumeClaim",
            "apiVersion": "v1",
            "status": {"phase": "Pending"},
            "spec": {},
        });
        complete(claim, defaults);
        if let Some(spec) = given(claim, "spec") {
            claim::spec_defaults(spec);
        }
    }
    pod::complete_template(spec);
}

pub(super) fn daemon_set(object: &mut Value) {
    // A client's annotation stays until the server counts the generations.
    let defaults = json!({
        "metadata": {"annotations": {GENERATION: "0"}},
        "spec": {"revisionHistoryLimit": 10, "updateStrategy": {"type": "RollingUpdate"}},
        "status": {
            "currentNumberScheduled": 0,
            "numberMisscheduled": 0,
            "desiredNumberScheduled": 0,
            "numberReady": 0,
        },
    });
    complete(object, defaults);
    if let Some(spec) = given(object, "spec") {
        let rolling = json!({"maxUnavailable": 1, "maxSurge": 0});
        complete_rolling(&mut spec["updateStrategy"], &rolling);
        pod::complete_template(spec);
    }
}

/// Counts the generations of the template in an annotation.
pub(super) fn count_templates(new: &mut Value, old: Option<&Value>) {
    let count_of = |object: &Value| -> i64 {
        let text = object["metadata"]["annotations"][GENERATION].as_str();
        text.and_then(|text| text.parse().ok()).unwrap_or_default()
    };
    let count = match old {
        // A create may begin with a later count, as that of a DaemonSet from a backup.
        None => count_of(new).max(1),
        Some(old) => count_of(old) + i64::from(old["spec"]["template"] != new["spec"]["template"]),
    };
    if let Some(metadata) = part(new, "metadata")
        && let Some(annotations) = part(metadata, "annotations")
    {
        put(annotations, GENERATION, json!(count.to_string()));
    }
}
