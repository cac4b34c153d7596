//! Machine: checks label selectors, and matches labels against them.

use serde_json::Value;

use super::check;
use super::field_path::FieldPath;
use super::fill::elements;

/// Checks a label selector. An absent selector passes (upstream: `ValidateLabelSelector`).
pub(crate) fn check(at: &FieldPath<'_>) {
    if !at.is_set() {
        return;
    }
    check::labels(&at.at("matchLabels"));
    for expression in at.at("matchExpressions").items() {
        check_operator(&expression);
        check::qualified(&expression.at("key"));
        expression.at("values").each(check::label_value);
    }
}

/// Checks the operator of an expression, and that the operator's values are there.
pub(crate) fn check_operator(expression: &FieldPath<'_>) {
    let [operator, values] = expression.parts(["operator", "values"]);
    match operator.text() {
        "In" | "NotIn" => values.need("must be specified when `operator` is 'In' or 'NotIn'"),
        "Exists" | "DoesNotExist" => {
            let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            values.deny_filled(detail);
        }
        _ => operator.invalid_text("not a valid selector operator"),
    }
}

/// Returns whether a valid selector matches these labels. A null selector matches none, an empty selector all.
pub fn selects(selector: &Value, labels: &Value) -> bool {
    if selector.is_null() {
        return false;
    }
    let mut wanted = selector["matchLabels"].as_object().into_iter().flatten();
    let mut expressions = elements(&selector["matchExpressions"]).iter();
    wanted.all(|(key, value)| labels.get(key) == Some(value))
        && expressions.all(|expression| {
            let found = labels.get(expression["key"].as_str().unwrap_or_default());
            let listed = found.is_some_and(|found| elements(&expression["values"]).contains(found));
            match expression["operator"].as_str().unwrap_or_default() {
                "In" => listed,
                "NotIn" => !listed,
                "Exists" => found.is_some(),
                "DoesNotExist" => found.is_none(),
                _ => false,
            }
        })
}

/// Returns whether a selector has no requirements.
pub(crate) fn is_empty(at: &FieldPath<'_>) -> bool {
    at.at("matchLabels").is_empty() && at.at("matchExpressions").is_empty()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_selector_matches_labels_that_meet_all_requirements() {
        let selects = |selector: Value| selects(&selector, &json!({"a": "1", "b": "2"}));
        assert!(!selects(json!(null)) && selects(json!({})));
        assert!(selects(json!({"matchLabels": {"a": "1"}})));
        assert!(!selects(json!({"matchLabels": {"a": "1", "c": "3"}})));
        for (operator, key, values, expected) in [
            ("In", "a", json!(["1", "2"]), true),
            ("In", "c", json!(["1"]), false),
            ("NotIn", "a", json!(["1"]), false),
            ("NotIn", "c", json!(["1"]), true),
            ("Exists", "b", json!([]), true),
            ("DoesNotExist", "b", json!([]), false),
        ] {
            let one = json!({"key": key, "operator": operator, "values": values});
            assert_eq!(
                selects(json!({"matchExpressions": [one]})),
                expected,
                "{operator} {key}"
            );
        }
    }
}
