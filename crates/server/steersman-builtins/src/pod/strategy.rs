//! Machine: sets fields of new Pods, and keeps fields in status writes (upstream: `pkg/registry/core/pod/strategy.go`).

use serde_json::{Value, json};

use crate::fields::fill::{copy, elements, lacks, list, put, set};

use super::profiles;

/// Adds the condition for scheduling gates, and expands the label keys of selectors.
pub(super) fn create(pod: &mut Value) {
    let gated = !elements(&pod["spec"]["schedulingGates"]).is_empty();
    let made = pod["metadata"]["creationTimestamp"].clone();
    if gated && let Some(status) = pod.get_mut("status") {
        let condition = json!({
            "type": "PodScheduled", "status": "False", "lastProbeTime": null,
            "lastTransitionTime": made, "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
        });
        put(status, "conditions", json!([condition]));
    }
    let labels = pod["metadata"]["labels"].clone();
    if let Some(spec) = pod.get_mut("spec") {
        for kind in ["podAffinity", "podAntiAffinity"] {
            let Some(affinity) = spec.pointer_mut(&format!("/affinity/{kind}")) else {
                continue;
            };
            for term in list(affinity, "requiredDuringSchedulingIgnoredDuringExecution") {
                follow(term, &labels);
            }
            for weighted in list(affinity, "preferredDuringSchedulingIgnoredDuringExecution") {
                if let Some(term) = weighted.get_mut("podAffinityTerm") {
                    follow(term, &labels);
                }
            }
        }
        for constraint in list(spec, "topologySpreadConstraints") {
            follow(constraint, &labels);
        }
    }
    profiles::fill(pod);
}

/// Makes `podIP` and the first of `podIPs` equal. If they differ, `podIP` wins (upstream:
/// `Convert_v1_PodStatus_To_core_PodStatus`).
fn agree(status: &mut Value) {
    if !status.is_object() {
        return;
    }
    if !lacks(status, "podIP") && status["podIP"] != status["podIPs"][0]["ip"] {
        let all = json!([{ "ip": status["podIP"] }]);
        put(status, "podIPs", all);
    }
    if !lacks(status, "podIPs") {
        let first = status["podIPs"][0]["ip"].clone();
        put(status, "podIP", first);
    }
}

/// Adds requirements for the Pod's own labels to a selector, by its label keys.
fn follow(term: &mut Value, labels: &Value) {
    if !term["labelSelector"].is_object() {
        return;
    }
    let mut added = Vec::new();
    for (field, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
        let keys = elements(&term[field]).iter();
        for key in keys.filter_map(Value::as_str) {
            if let Some(value) = labels.get(key) {
                added.push(json!({"key": key, "operator": operator, "values": [value]}));
            }
        }
    }
    if !added.is_empty() {
        let selector = &mut term["labelSelector"];
        set(selector, "matchExpressions", json!([]));
        if let Some(all) = selector["matchExpressions"].as_array_mut() {
            all.extend(added);
        }
    }
}

/// Keeps owner references, and what older kubelets leave out, in a write to the status.
pub(super) fn keep(new: &mut Value, old: &Value) {
    if let Some(metadata) = new.get_mut("metadata") {
        copy(metadata, &old["metadata"], "ownerReferences");
    }
    let before = &old["status"];
    let Some(status) = new.get_mut("status").filter(|status| status.is_object()) else {
        return;
    };
    agree(status);
    for field in ["qosClass", "observedGeneration"] {
        if !before[field].is_null() {
            set(status, field, before[field].clone());
        }
    }
    let mut seen: Vec<&Value> = elements(&before["conditions"]).iter().collect();
    for condition in list(status, "conditions") {
        let same = seen.iter().position(|one| one["type"] == condition["type"]);
        let generation = same.map(|at| &seen.remove(at)["observedGeneration"]);
        if let Some(generation) = generation.filter(|generation| !generation.is_null()) {
            set(condition, "observedGeneration", generation.clone());
        }
    }
}
