//! Machine: checks the node selectors of Pods, volumes and devices.

use steersman_apimachinery::names;

use super::check;
use super::field_path::{Errors, FieldPath};
use super::selector;

/// Checks a node selector (upstream: `ValidateNodeSelector`).
pub(crate) fn check_node_selector(at: &FieldPath<'_>, errors: &mut Errors) {
    let terms = at.at("nodeSelectorTerms");
    if terms.is_empty() {
        errors.required(&terms, "must have at least one node selector term");
    }
    for term in terms.items() {
        check_node_term(&term, false, errors);
    }
}

/// Checks one term of a node selector. `any_value` accepts values that are no label values, as upstream does in
/// preferred terms.
pub(crate) fn check_node_term(term: &FieldPath<'_>, any_value: bool, errors: &mut Errors) {
    for one in term.at("matchExpressions").items() {
        let values = one.at("values");
        match one.at("operator").text() {
            "Gt" | "Lt" => {
                if values.len() != 1 {
                    let detail = "must be specified single value when `operator` is 'Lt' or 'Gt'";
                    errors.required(&values, detail);
                }
            }
            _ => selector::check_operator(&one, errors),
        }
        check::qualified(&one.at("key"), errors);
        for value in values.items().filter(|_| !any_value) {
            check::add_messages(&value, names::check_label_value(value.text()), errors);
        }
    }
    for one in term.at("matchFields").items() {
        let (key, values) = (one.at("key"), one.at("values"));
        if matches!(one.at("operator").text(), "In" | "NotIn") {
            if values.len() != 1 {
                let detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
                errors.required(&values, detail);
            }
        } else {
            errors.invalid_text(&one.at("operator"), "not a valid selector operator");
        }
        if key.text() == "metadata.name" {
            for value in values.items() {
                check::subdomain(&value, errors);
            }
        } else {
            errors.invalid_text(&key, "not a valid field selector key");
        }
    }
}
