//! Machine: PodDisruptionBudgets (upstream: `pkg/apis/policy/validation`).

use serde_json::json;
use steersman_apimachinery::status::FieldError;

use crate::Strategy;
use crate::fields::check;
use crate::fields::field_path::{Errors, FieldPath};
use crate::fields::fill::{part, set};
use crate::fields::selector;

pub(crate) const DISRUPTION_BUDGET: Strategy = Strategy {
    defaults: |object| {
        part(object, "spec");
        if let Some(status) = part(object, "status") {
            for count in COUNTS {
                set(status, count, json!(0));
            }
        }
    },
    validate: |object, _| {
        let mut errors = Errors::default();
        check_spec(&FieldPath::root(object).at("spec"), &mut errors);
        errors
    },
    validate_status: |object, _| {
        let mut errors = Errors::default();
        let status = FieldPath::root(object).at("status");
        check::conditions(&status.at("conditions"), &mut errors);
        for count in COUNTS {
            check::not_negative(&status.at(count), &mut errors);
        }
        errors
    },
    ..Strategy::PLAIN
};

const COUNTS: [&str; 4] = [
    "disruptionsAllowed",
    "currentHealthy",
    "desiredHealthy",
    "expectedPods",
];

fn check_spec(spec: &FieldPath<'_>, errors: &mut Errors) {
    let (least, most) = (spec.at("minAvailable"), spec.at("maxUnavailable"));
    let (selector, policy) = (spec.at("selector"), spec.at("unhealthyPodEvictionPolicy"));
    if least.is_set() && most.is_set() {
        let shown = format!(
            "{{\"MinAvailable\":{},\"Selector\":{},\"MaxUnavailable\":{},\"UnhealthyPodEvictionPolicy\":{}}}",
            least.value(),
            selector.value(),
            most.value(),
            policy.value()
        );
        let detail = "minAvailable and maxUnavailable cannot be both set";
        errors.push(FieldError::invalid(spec.path(), &shown, detail));
    }
    for at in [least, most].iter().filter(|at| at.is_set()) {
        check::number_or_percent(at, errors);
        check::at_most_hundred_percent(at, errors);
    }
    selector::check(&selector, errors);
    if policy.is_set() {
        check::one_of(&policy, &["AlwaysAllow", "IfHealthyBudget"], errors);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_numbers_are_refused_with_the_whole_spec() {
        let budget = json!({"spec": {"minAvailable": 1, "maxUnavailable": "150%"}});
        let errors: Vec<FieldError> = (DISRUPTION_BUDGET.validate)(&budget, None).into();
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
