//! Machine: checks the node selectors of Pods, volumes and devices.

use super::field_path::FieldPath;
use super::{check, selector};

/// Checks a node selector (upstream: `ValidateNodeSelector`).
pub(crate) fn check_node_selector(at: &FieldPath<'_>) {
    let terms = at.at("nodeSelectorTerms");
    terms.need("must have at least one node selector term");
    terms.each(|term| check_node_term(term, false));
}

/// Checks a term. `any_value` accepts values that are no label values, as in preferred terms.
pub(crate) fn check_node_term(term: &FieldPath<'_>, any_value: bool) {
    for one in term.at("matchExpressions").items() {
        let values = one.at("values");
        if !matches!(one.at("operator").text(), "Gt" | "Lt") {
            selector::check_operator(&one);
        } else if values.len() != 1 {
            values.required("must be specified single value when `operator` is 'Lt' or 'Gt'");
        }
        check::qualified(&one.at("key"));
        if !any_value {
            values.each(check::label_value);
        }
    }
    for one in term.at("matchFields").items() {
        let [key, operator, values] = one.parts(["key", "operator", "values"]);
        if !matches!(operator.text(), "In" | "NotIn") {
            operator.invalid_text("not a valid selector operator");
        } else if values.len() != 1 {
            let detail =
                "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
            values.required(detail);
        }
        if key.text() == "metadata.name" {
            values.each(check::subdomain);
        } else {
            key.invalid_text("not a valid field selector key");
        }
    }
}
