//! Machine: checks affinities, tolerations, scheduling gates and topology spread constraints of Pods.

use std::collections::HashSet;

use steersman_apimachinery::names;

use crate::fields::node_selector::{check_node_selector, check_node_term};
use crate::fields::{FieldPath, check, selector};

pub(super) const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
pub(super) const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
const NO_SELECTOR: &str = "must not be specified when labelSelector is not set";
const EFFECTS: &[&str] = &["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// Checks the affinities of a Pod (upstream: `validateAffinity`).
pub(super) fn check_affinity(at: &FieldPath<'_>) {
    let node = at.at("nodeAffinity");
    let required = node.at(REQUIRED);
    required.if_set(check_node_selector);
    for term in node.at(PREFERRED).items() {
        check_weight(&term);
        check_node_term(&term.at("preference"), true);
    }
    for field in ["podAffinity", "podAntiAffinity"] {
        let pods = at.at(field);
        pods.at(REQUIRED).each(check_pod_term);
        for term in pods.at(PREFERRED).items() {
            check_weight(&term);
            check_pod_term(&term.at("podAffinityTerm"));
        }
    }
}

fn check_weight(term: &FieldPath<'_>) {
    let weight = term.at("weight");
    if !(1..=100).contains(&weight.int()) {
        weight.invalid_as(weight.int(), "must be in the range 1-100");
    }
}

/// Checks one term of a Pod affinity (upstream: `validatePodAffinityTerm`).
fn check_pod_term(term: &FieldPath<'_>) {
    selector::check(&term.at("labelSelector"));
    selector::check(&term.at("namespaceSelector"));
    for namespace in term.at("namespaces").items() {
        let at = term.at("namespace").with(namespace.value());
        check::label(&at);
    }
    check_label_keys(term);
    term.at("topologyKey").need("can not be empty");
    check::qualified(&term.at("topologyKey"));
}

fn check_label_keys(term: &FieldPath<'_>) {
    let labels = term.at("labelSelector");
    let (matched, others) = (term.at("matchLabelKeys"), term.at("mismatchLabelKeys"));
    for keys in [&matched, &others] {
        if labels.is_set() {
            keys.each(check::qualified);
        } else {
            keys.deny_filled(NO_SELECTOR);
        }
    }
    // As upstream, errors about merged keys name the term.
    check_merged(&term.with(matched.value()), &labels);
    let others: HashSet<&str> = others.items().map(|key| key.text()).collect();
    for key in matched.items() {
        if others.contains(key.text()) {
            key.invalid("exists in both matchLabelKeys and mismatchLabelKeys");
        }
    }
}

/// Refuses keys of `matchLabelKeys` to which the selector has a requirement of the client.
fn check_merged(keys: &FieldPath<'_>, labels: &FieldPath<'_>) {
    let plain = labels.at("matchLabels");
    let mut seen: HashSet<&str> = plain.entries().map(|(key, _)| key).collect();
    for expression in labels.at("matchExpressions").items() {
        let key = expression.at("key").text();
        if !seen.insert(key)
            && let Some(listed) = keys.items().filter(|one| one.text() == key).last()
        {
            listed.invalid("exists in both matchLabelKeys and labelSelector");
        }
    }
}

/// Checks tolerations (upstream: `ValidateTolerations`).
pub(crate) fn check_tolerations(at: &FieldPath<'_>) {
    for one in at.items() {
        let (key, operator, effect) = (one.at("key"), one.at("operator"), one.at("effect"));
        key.if_filled(check::qualified);
        if key.is_empty() && operator.text() != "Exists" {
            operator.invalid_text("operator must be Exists when `key` is empty, which means \"match all values and all keys\"");
        }
        if one.at("tolerationSeconds").is_set() && effect.text() != "NoExecute" {
            effect.invalid_text("effect must be 'NoExecute' when `tolerationSeconds` is set");
        }
        let value = one.at("value").text();
        match operator.text() {
            "Equal" | "" => {
                let wrong = names::check_label_value(value);
                if !wrong.is_empty() {
                    operator.invalid_as(value, &wrong.join(";"));
                }
            }
            "Exists" if value.is_empty() => {}
            "Exists" => {
                operator.invalid_as(value, "value must be empty when `operator` is 'Exists'");
            }
            _ => operator.not_supported(&["Equal", "Exists"]),
        }
        effect.if_filled(|effect| check::one_of(effect, EFFECTS));
    }
}

/// Checks scheduling gates (upstream: `validateSchedulingGates`).
pub(super) fn check_gates(gates: &FieldPath<'_>) {
    let mut seen = HashSet::new();
    for gate in gates.items() {
        let name = gate.at("name");
        gate.invalid_each(name.text(), names::check_key(name.text()));
        gate.with(name.value()).unique(&mut seen);
    }
}

/// Checks topology spread constraints (upstream: `validateTopologySpreadConstraints`).
pub(super) fn check_spreading(at: &FieldPath<'_>) {
    let all: Vec<FieldPath<'_>> = at.items().collect();
    for (index, one) in all.iter().enumerate() {
        let [key, when, skew] = one.parts(["topologyKey", "whenUnsatisfiable", "maxSkew"]);
        skew.at_least(1, "must be greater than zero");
        key.need("can not be empty");
        check::one_of(&when, &["DoNotSchedule", "ScheduleAnyway"]);
        let same = |other: &FieldPath<'_>| {
            other.at("topologyKey").text() == key.text()
                && other.at("whenUnsatisfiable").text() == when.text()
        };
        if all.iter().skip(index + 1).any(same) {
            let field = one.named("{topologyKey, whenUnsatisfiable}", None);
            field.duplicate_as(format!("{{{}, {}}}", key.text(), when.text()));
        }
        let domains = one.at("minDomains");
        if let Some(number) = domains.number() {
            if number <= 0 {
                domains.invalid("must be greater than zero");
            }
            if when.text() != "DoNotSchedule" {
                let detail = format!(
                    "can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {}",
                    when.text()
                );
                domains.invalid(&detail);
            }
        }
        for field in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            check::optional(&one.at(field), &["Honor", "Ignore"]);
        }
        let [keys, labels] = one.parts(["matchLabelKeys", "labelSelector"]);
        if !labels.is_set() {
            keys.deny_filled(NO_SELECTOR);
        }
        keys.each(check::qualified);
        check_merged(&keys, &labels);
        selector::check(&labels);
    }
}
