//! Machine: fills in the defaults of the kinds in `apps`, and of ReplicationControllers.

use serde_json::{Value, json};

use crate::fields::fill::{given, lacks, list, part, set};
use crate::pod;
use crate::storage::claim;

/// The annotation with the generation of a DaemonSet's template.
const GENERATION: &str = "deprecated.daemonset.template.generation";

pub(super) fn deployment(object: &mut Value) {
    let Some(spec) = part(object, "spec") else {
        return;
    };
    set(spec, "replicas", json!(1));
    set(spec, "revisionHistoryLimit", json!(10));
    set(spec, "progressDeadlineSeconds", json!(600));
    if let Some(strategy) = part(spec, "strategy") {
        set(strategy, "type", json!("RollingUpdate"));
        if strategy["type"] == "RollingUpdate"
            && let Some(rolling) = part(strategy, "rollingUpdate")
        {
            set(rolling, "maxUnavailable", json!("25%"));
            set(rolling, "maxSurge", json!("25%"));
        }
    }
    pod::complete_template(spec);
}

pub(super) fn replica_set(object: &mut Value) {
    if let Some(spec) = part(object, "spec") {
        set(spec, "replicas", json!(1));
        pod::complete_template(spec);
    }
    if let Some(status) = part(object, "status") {
        set(status, "replicas", json!(0));
    }
}

/// Fills in the defaults of a ReplicationController. Selector and labels default to the labels of
/// the template.
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
    if let Some(spec) = part(object, "spec") {
        set(spec, "replicas", json!(1));
        if spec["template"].is_object() {
            pod::complete_template(spec);
        }
    }
    if let Some(status) = part(object, "status") {
        set(status, "replicas", json!(0));
    }
}

pub(super) fn stateful_set(object: &mut Value) {
    if let Some(spec) = part(object, "spec") {
        set(spec, "replicas", json!(1));
        set(spec, "podManagementPolicy", json!("OrderedReady"));
        set(spec, "revisionHistoryLimit", json!(10));
        if let Some(policy) = part(spec, "persistentVolumeClaimRetentionPolicy") {
            set(policy, "whenDeleted", json!("Retain"));
            set(policy, "whenScaled", json!("Retain"));
        }
        if let Some(strategy) = part(spec, "updateStrategy") {
            // A strategy with a type has no default for the struct of the type.
            if lacks(strategy, "type") {
                set(strategy, "type", json!("RollingUpdate"));
                part(strategy, "rollingUpdate");
            }
            if strategy["type"] == "RollingUpdate"
                && let Some(rolling) = given(strategy, "rollingUpdate")
            {
                set(rolling, "partition", json!(0));
            }
        }
        for one in list(spec, "volumeClaimTemplates") {
            set(one, "kind", json!("PersistentVolumeClaim"));
            set(one, "apiVersion", json!("v1"));
            if let Some(status) = part(one, "status") {
                set(status, "phase", json!("Pending"));
            }
            if let Some(spec) = part(one, "spec") {
                claim::spec_defaults(spec);
            }
        }
        pod::complete_template(spec);
    }
    if let Some(status) = part(object, "status") {
        set(status, "replicas", json!(0));
        set(status, "availableReplicas", json!(0));
    }
}

pub(super) fn daemon_set(object: &mut Value) {
    // The server counts the generations of the template. A client's annotation stays until the
    // server replaces it.
    if let Some(metadata) = part(object, "metadata")
        && let Some(annotations) = part(metadata, "annotations")
    {
        set(annotations, GENERATION, json!("0"));
    }
    if let Some(spec) = part(object, "spec") {
        set(spec, "revisionHistoryLimit", json!(10));
        if let Some(strategy) = part(spec, "updateStrategy") {
            set(strategy, "type", json!("RollingUpdate"));
            if strategy["type"] == "RollingUpdate"
                && let Some(rolling) = part(strategy, "rollingUpdate")
            {
                set(rolling, "maxUnavailable", json!(1));
                set(rolling, "maxSurge", json!(0));
            }
        }
        pod::complete_template(spec);
    }
    if let Some(status) = part(object, "status") {
        for count in [
            "currentNumberScheduled",
            "numberMisscheduled",
            "desiredNumberScheduled",
            "numberReady",
        ] {
            set(status, count, json!(0));
        }
    }
}

/// Counts the generations of the template in an annotation, which replaces a field of the API's
/// first versions.
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
        && let Some(annotations) = annotations.as_object_mut()
    {
        annotations.insert(GENERATION.to_owned(), json!(count.to_string()));
    }
}
