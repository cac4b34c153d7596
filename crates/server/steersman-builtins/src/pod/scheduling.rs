//! Machine: checks affinities, tolerations, scheduling gates and topology spread constraints of
//! Pods.

use std::collections::{HashMap, HashSet};

use serde_json::Value;
use steersman_apimachinery::names;

use crate::fields::check;
use crate::fields::field_path::{Errors, FieldPath};
use crate::fields::node_selector::{check_node_selector, check_node_term};
use crate::fields::selector;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
const EFFECTS: &[&str] = &["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// Checks the affinities of a Pod (upstream: `validateAffinity`).
pub(super) fn check_affinity(at: &FieldPath<'_>, errors: &mut Errors) {
    let node = at.at("nodeAffinity");
    let required = node.at(REQUIRED);
    if required.is_set() {
        check_node_selector(&required, errors);
    }
    for term in node.at(PREFERRED).items() {
        check_weight(&term, errors);
        check_node_term(&term.at("preference"), true, errors);
    }
    for field in ["podAffinity", "podAntiAffinity"] {
        let pods = at.at(field);
        for term in pods.at(REQUIRED).items() {
            check_pod_term(&term, errors);
        }
        for term in pods.at(PREFERRED).items() {
            check_weight(&term, errors);
            check_pod_term(&term.at("podAffinityTerm"), errors);
        }
    }
}

fn check_weight(term: &FieldPath<'_>, errors: &mut Errors) {
    let weight = term.at("weight");
    if !(1..=100).contains(&weight.int()) {
        let number = Value::from(weight.int());
        errors.invalid_as(&weight, &number, "must be in the range 1-100");
    }
}

/// Checks one term of a Pod affinity (upstream: `validatePodAffinityTerm`).
fn check_pod_term(term: &FieldPath<'_>, errors: &mut Errors) {
    selector::check(&term.at("labelSelector"), errors);
    selector::check(&term.at("namespaceSelector"), errors);
    for namespace in term.at("namespaces").items() {
        for detail in names::check_label(namespace.text()) {
            errors.invalid_as(&term.at("namespace"), namespace.value(), &detail);
        }
    }
    check_label_keys(term, errors);
    let key = term.at("topologyKey");
    if key.is_empty() {
        errors.required(&key, "can not be empty");
    }
    check::qualified(&key, errors);
}

fn check_label_keys(term: &FieldPath<'_>, errors: &mut Errors) {
    let labels = term.at("labelSelector");
    let (matched, others) = (term.at("matchLabelKeys"), term.at("mismatchLabelKeys"));
    for keys in [&matched, &others] {
        if !keys.is_empty() && !labels.is_set() {
            let detail = "must not be specified when labelSelector is not set";
            errors.forbidden(keys, detail);
            continue;
        }
        for key in keys.items() {
            check::qualified(&key, errors);
        }
    }
    // As upstream, errors about merged keys name the term.
    check_merged(
        &FieldPath::new(term.path(), matched.value()),
        &labels,
        errors,
    );
    let others: HashSet<&str> = others.items().map(|key| key.text()).collect();
    for key in matched.items() {
        if others.contains(key.text()) {
            errors.invalid(&key, "exists in both matchLabelKeys and mismatchLabelKeys");
        }
    }
}

/// Refuses keys of `matchLabelKeys` that the selector has twice. The server adds one requirement
/// for each of these keys to the selector, so a second requirement comes from the client.
fn check_merged(keys: &FieldPath<'_>, labels: &FieldPath<'_>, errors: &mut Errors) {
    let listed: HashMap<&str, FieldPath<'_>> =
        keys.items().map(|key| (key.text(), key.clone())).collect();
    let plain = labels.at("matchLabels");
    let mut seen: HashSet<&str> = plain.entries().map(|(key, _)| key).collect();
    for expression in labels.at("matchExpressions").items() {
        let key = expression.at("key").text();
        if !seen.insert(key)
            && let Some(key) = listed.get(key)
        {
            errors.invalid(key, "exists in both matchLabelKeys and labelSelector");
        }
    }
}

/// Checks tolerations (upstream: `ValidateTolerations`).
pub(crate) fn check_tolerations(at: &FieldPath<'_>, errors: &mut Errors) {
    for one in at.items() {
        let (key, operator, effect) = (one.at("key"), one.at("operator"), one.at("effect"));
        if !key.is_empty() {
            check::qualified(&key, errors);
        }
        if key.is_empty() && operator.text() != "Exists" {
            let detail = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            errors.invalid_text(&operator, detail);
        }
        if one.at("tolerationSeconds").is_set() && effect.text() != "NoExecute" {
            let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            errors.invalid_text(&effect, detail);
        }
        let value = one.at("value");
        let shown = Value::from(value.text());
        match operator.text() {
            "Equal" | "" => {
                let wrong = names::check_label_value(value.text());
                if !wrong.is_empty() {
                    errors.invalid_as(&operator, &shown, &wrong.join(";"));
                }
            }
            "Exists" => {
                if !value.is_empty() {
                    let detail = "value must be empty when `operator` is 'Exists'";
                    errors.invalid_as(&operator, &shown, detail);
                }
            }
            _ => errors.not_supported(&operator, &["Equal", "Exists"]),
        }
        if !effect.is_empty() {
            check::one_of(&effect, EFFECTS, errors);
        }
    }
}

/// Checks scheduling gates (upstream: `validateSchedulingGates`).
pub(super) fn check_gates(gates: &FieldPath<'_>, errors: &mut Errors) {
    let mut seen = Vec::new();
    for gate in gates.items() {
        let name = gate.at("name");
        for detail in names::check_key(name.text()) {
            errors.invalid_as(&gate, &Value::from(name.text()), &detail);
        }
        if seen.contains(&name.text()) {
            errors.duplicate_as(&gate, name.value());
        }
        seen.push(name.text());
    }
}

/// Checks topology spread constraints (upstream: `validateTopologySpreadConstraints`).
pub(super) fn check_spreading(at: &FieldPath<'_>, errors: &mut Errors) {
    let all: Vec<FieldPath<'_>> = at.items().collect();
    for (index, one) in all.iter().enumerate() {
        let (key, when) = (one.at("topologyKey"), one.at("whenUnsatisfiable"));
        let skew = one.at("maxSkew");
        if skew.int() <= 0 {
            let number = Value::from(skew.int());
            errors.invalid_as(&skew, &number, "must be greater than zero");
        }
        if key.is_empty() {
            errors.required(&key, "can not be empty");
        }
        check::one_of(&when, &["DoNotSchedule", "ScheduleAnyway"], errors);
        let same = |other: &FieldPath<'_>| {
            other.at("topologyKey").text() == key.text()
                && other.at("whenUnsatisfiable").text() == when.text()
        };
        if all.iter().skip(index + 1).any(same) {
            let shown = Value::from(format!("{{{}, {}}}", key.text(), when.text()));
            let field = one.named("{topologyKey, whenUnsatisfiable}", None);
            errors.duplicate_as(&field, &shown);
        }
        let domains = one.at("minDomains");
        if let Some(number) = domains.number() {
            if number <= 0 {
                errors.invalid(&domains, "must be greater than zero");
            }
            if when.text() != "DoNotSchedule" {
                let detail = format!(
                    "can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {}",
                    when.text()
                );
                errors.invalid(&domains, &detail);
            }
        }
        for field in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            if one.at(field).is_set() {
                check::one_of(&one.at(field), &["Honor", "Ignore"], errors);
            }
        }
        let keys = one.at("matchLabelKeys");
        let labels = one.at("labelSelector");
        if !keys.is_empty() && !labels.is_set() {
            let detail = "must not be specified when labelSelector is not set";
            errors.forbidden(&keys, detail);
        }
        for key in keys.items() {
            check::qualified(&key, errors);
        }
        check_merged(&keys, &labels, errors);
        selector::check(&labels, errors);
    }
}
