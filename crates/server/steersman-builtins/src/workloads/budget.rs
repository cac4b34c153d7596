//! Machine: PodDisruptionBudgets (upstream: `pkg/apis/policy/validation`).

use serde_json::json;

use crate::Strategy;
use crate::fields::fill::{part, set};
use crate::fields::go_value::GoType::{self, Plain, Struct};
use crate::fields::{FieldPath, check, selector};

pub(crate) const DISRUPTION_BUDGET: Strategy = Strategy {
    defaults: |object| {
        part(object, "spec");
        if let Some(status) = part(object, "status") {
            for count in COUNTS {
                set(status, count, json!(0));
            }
        }
    },
    validate: |object, _| check_spec(&object.at("spec")),
    validate_status: |object, _| {
        let status = object.at("status");
        check::conditions(&status.at("conditions"));
        check::not_negative_members(&status, &COUNTS);
    },
    ..Strategy::PLAIN
};

const COUNTS: [&str; 4] = [
    "disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods",
];

const SPEC: GoType = Struct(&[
    ("minAvailable", Plain),
    ("selector", Plain),
    ("maxUnavailable", Plain),
    ("unhealthyPodEvictionPolicy", Plain),
]);

fn check_spec(spec: &FieldPath<'_>) {
    let (least, most) = (spec.at("minAvailable"), spec.at("maxUnavailable"));
    let (selector, policy) = (spec.at("selector"), spec.at("unhealthyPodEvictionPolicy"));
    if least.is_set() && most.is_set() {
        let detail = "minAvailable and maxUnavailable cannot be both set";
        spec.invalid_printed(&SPEC, detail);
    }
    for at in [least, most].iter().filter(|at| at.is_set()) {
        check::number_or_percent(at);
        check::at_most_hundred_percent(at);
    }
    selector::check(&selector);
    check::optional(&policy, &["AlwaysAllow", "IfHealthyBudget"]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_numbers_are_refused_with_the_whole_spec() {
        let budget = json!({"spec": {"minAvailable": 1, "maxUnavailable": "150%"}});
        let errors = crate::validate(&DISRUPTION_BUDGET, &budget, None);
        let fields: Vec<&str> = errors.iter().map(|error| error.field.as_str()).collect();
        assert_eq!(fields, ["spec", "spec.maxUnavailable"]);
        assert!(errors[0].message.contains("\"Selector\":null"));
    }

    #[test]
    fn the_status_counts_from_zero() {
        let mut budget = json!({});
        (DISRUPTION_BUDGET.defaults)(&mut budget);
        assert_eq!(budget["status"]["expectedPods"], 0);
    }
}
