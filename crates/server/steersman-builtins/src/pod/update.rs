//! Machine: checks which fields of an existing Pod change.

use serde_json::{Map, Value, json};

use crate::fields::FieldPath;
use crate::fields::fill::{self, elements, is_nothing, lacks};
use crate::fields::go_value::{NODE_TERMS, TERM};

use super::{containers, scheduling};

/// The message of the real server, which appends a difference of Go values.
const RULE: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// Flags with the default `false`: `false` and an absent flag are equal.
const OFF: [&str; 9] = [
    "hostIPC", "hostNetwork", "hostPID", "optional", "readOnly", "stdin", "stdinOnce", "tty",
    "publishNotReadyAddresses",
];

/// Keeps the node name that a scheduler set, if an update leaves the name out.
pub(super) fn keep(new: &mut Value, old: &Value) {
    let node = &old["spec"]["nodeName"];
    if let Some(spec) = new.get_mut("spec").filter(|_| !node.is_null()) {
        fill::set(spec, "nodeName", node.clone());
    }
}

/// Checks an update of a Pod through the main resource (upstream: `ValidatePodUpdate`).
pub(super) fn check(new: &FieldPath<'_>, old: &FieldPath<'_>) {
    let (before, after) = (old.at("spec"), new.at("spec"));
    for field in ["containers", "initContainers"] {
        let listed = after.at(field);
        if before.at(field).len() != listed.len() {
            return listed.forbidden("pod updates may not add or remove containers");
        }
        listed.each(|container| {
            container.at("image").need("");
            containers::check_image(container);
        });
    }
    if !check_deadline(&after, &before) {
        return;
    }
    let tolerations = after.at("tolerations");
    if kept(before.at("tolerations").value(), tolerations.value()) {
        scheduling::check_tolerations(&tolerations);
    } else {
        let detail = "existing toleration can not be modified except its tolerationSeconds";
        tolerations.forbidden(detail);
    }
    check_gates(&after.at("schedulingGates"), &before.at("schedulingGates"));
    let mut compared = after.value().clone();
    let (before, after) = (before.value(), after.value());
    for field in ["containers", "initContainers"] {
        put_back_images(&mut compared, before, field);
    }
    for field in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
        fill::copy(&mut compared, before, field);
    }
    let grace = |spec: &Value| spec["terminationGracePeriodSeconds"].as_i64();
    if grace(before).is_some_and(i64::is_negative) && grace(after) == Some(1) {
        fill::copy(&mut compared, before, "terminationGracePeriodSeconds");
    }
    // An update may narrow the node selector and the node affinity of a Pod with scheduling gates.
    if !lacks(before, "schedulingGates") {
        let selector = new.down("spec.nodeSelector");
        let mut wanted = before["nodeSelector"].as_object().into_iter().flatten();
        if !wanted.all(|(key, value)| selector.value().get(key) == Some(value)) {
            let detail =
                "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
            selector.invalid(detail);
        }
        check_node_affinity(&new.at("spec"), &old.at("spec"));
        fill::copy(&mut compared, before, "nodeSelector");
        put_back_node_affinity(&mut compared, before);
    }
    if meant(&compared) != meant(before) {
        new.at("spec").forbidden(RULE);
    }
}

/// Checks the ephemeral containers (upstream: `ValidatePodEphemeralContainersUpdate`).
pub(super) fn check_ephemeral(new: &FieldPath<'_>, old: &FieldPath<'_>) {
    let after = new.down("spec.ephemeralContainers");
    for before in old.down("spec.ephemeralContainers").items() {
        let name = before.at("name");
        let mut listed = after.items();
        let what = match listed.find(|one| one.at("name").text() == name.text()) {
            None => "removed",
            Some(same) if meant(same.value()) != meant(before.value()) => "changed",
            Some(_) => continue,
        };
        let name = name.value();
        let detail = format!("existing ephemeral containers {name} may not be {what}\n");
        after.forbidden(&detail);
    }
}

fn put_back_images(spec: &mut Value, before: &Value, field: &str) {
    let old = elements(&before[field]).iter();
    let new = spec.get_mut(field).and_then(Value::as_array_mut);
    for (container, old) in new.into_iter().flatten().zip(old) {
        fill::copy(container, old, "image");
    }
}

fn put_back_node_affinity(spec: &mut Value, before: &Value) {
    let old = &before["affinity"];
    match spec.get_mut("affinity") {
        Some(affinity) => fill::copy(affinity, old, "nodeAffinity"),
        None if old.is_null() => {}
        None => fill::put(
            spec,
            "affinity",
            json!({"nodeAffinity": old["nodeAffinity"]}),
        ),
    }
}

/// Checks the deadline. Returns whether the remaining checks are still needed.
fn check_deadline(after: &FieldPath<'_>, before: &FieldPath<'_>) -> bool {
    let field = after.at("activeDeadlineSeconds");
    let old = before.at("activeDeadlineSeconds").number();
    let (detail, go_on) = match (old, field.number()) {
        (_, Some(new)) if !(0..=i64::from(i32::MAX)).contains(&new) => {
            ("must be between 0 and 2147483647, inclusive", false)
        }
        (Some(old), Some(new)) if new > old => {
            ("must be less than or equal to previous value", false)
        }
        (Some(_), None) => ("must not update from a positive integer to nil value", true),
        _ => return true,
    };
    field.invalid(detail);
    go_on
}

/// Checks that an update only removes scheduling gates.
fn check_gates(after: &FieldPath<'_>, before: &FieldPath<'_>) {
    for gate in after.items() {
        let at = gate.at("name");
        let name = at.text();
        if !before.items().any(|one| one.at("name").text() == name) {
            let detail =
                format!("only deletion is allowed, but found new scheduling gate '{name}'");
            at.forbidden(&detail);
        }
    }
}

/// Checks that an update only adds requirements (upstream: `validateNodeAffinityMutation`).
fn check_node_affinity(after: &FieldPath<'_>, before: &FieldPath<'_>) {
    const TERMS: &str =
        "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms";
    let (after, before) = (after.down(TERMS), before.down(TERMS));
    if before.is_empty() {
        return;
    }
    if after.len() != before.len() {
        let detail = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        return after.invalid_printed(&NODE_TERMS, detail);
    }
    for (new, old) in after.items().zip(before.items()) {
        let parts = ["matchExpressions", "matchFields"];
        let nothing = parts.iter().all(|part| old.at(part).is_empty());
        let added = |part: &str| {
            let [new, old] = [&new, &old].map(|term| elements(&term.value()[part]));
            new.starts_with(old) && (!nothing || new.is_empty())
        };
        if !parts.iter().all(|part| added(part)) {
            let detail = "only additions are allowed (no mutations or deletions)";
            new.invalid_printed(&TERM, detail);
        }
    }
}

/// Returns whether the update keeps all tolerations, without regard to `tolerationSeconds`.
fn kept(before: &Value, after: &Value) -> bool {
    let shown = |tolerations: &Value| -> Vec<Value> {
        let all = elements(tolerations).iter();
        all.map(|one| {
            let mut one = one.clone();
            fill::drop(&mut one, "tolerationSeconds");
            meant(&one)
        })
        .collect()
    };
    let after = shown(after);
    shown(before).iter().all(|one| after.contains(one))
}

/// Returns a value without the members that equal their default.
pub(super) fn meant(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let said = fields.iter().filter(|(name, value)| {
                let off = **value == Value::Bool(false) && OFF.contains(&name.as_str());
                !off && value.as_str() != Some("")
            });
            let said: Map<String, Value> = said
                .map(|(name, value)| (name.clone(), meant(value)))
                .filter(|(_, value)| !is_nothing(value))
                .collect();
            Value::Object(said)
        }
        Value::Array(items) => items.iter().map(meant).collect(),
        other => other.clone(),
    }
}
