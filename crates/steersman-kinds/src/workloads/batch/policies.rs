//! Machine: checks the failure and success policies of Jobs.

use serde_json::Value;

use crate::fields::check;
use crate::fields::field_path::{Errors, FieldPath};

use super::indexes;

/// Checks the policies of a Job's spec.
pub(super) fn check(spec: &FieldPath<'_>, errors: &mut Errors) {
    let failure = spec.at("podFailurePolicy");
    if failure.is_set() {
        check_failure(spec, &failure.at("rules"), errors);
    }
    let success = spec.at("successPolicy");
    if success.is_set() {
        if spec.at("completionMode").text() == "Indexed" {
            check_success(spec, &success.at("rules"), errors);
        } else {
            let written = written_success(&success);
            errors.invalid_written(&success, &written, "requires indexed completion mode");
        }
    }
    let replacement = spec.at("podReplacementPolicy");
    if replacement.is_set() {
        let known: &[&str] = if failure.is_set() {
            &["Failed"]
        } else {
            &["Failed", "TerminatingOrFailed"]
        };
        check::one_of(&replacement, known, errors);
    }
}

/// Checks that an update keeps the failure policy.
pub(super) fn same_failure(spec: &FieldPath<'_>, old: &FieldPath<'_>, errors: &mut Errors) {
    let policy = spec.at("podFailurePolicy");
    if policy.value() != old.at("podFailurePolicy").value() {
        errors.invalid_written(&policy, &written_failure(&policy), check::IMMUTABLE);
    }
}

/// Checks that an update keeps the success policy.
pub(super) fn same_success(spec: &FieldPath<'_>, old: &FieldPath<'_>, errors: &mut Errors) {
    let policy = spec.at("successPolicy");
    if policy.value() != old.at("successPolicy").value() {
        errors.invalid_written(&policy, &written_success(&policy), check::IMMUTABLE);
    }
}

/// Prints a success policy as Go prints its internal type.
fn written_success(policy: &FieldPath<'_>) -> String {
    written_rules(policy, |rule| {
        format!(
            "{{\"SucceededIndexes\":{},\"SucceededCount\":{}}}",
            rule.at("succeededIndexes").value(),
            rule.at("succeededCount").value()
        )
    })
}

/// Prints a failure policy as Go prints its internal type.
fn written_failure(policy: &FieldPath<'_>) -> String {
    written_rules(policy, |rule| {
        let codes = rule.at("onExitCodes");
        let written_codes = if codes.is_set() {
            format!(
                "{{\"ContainerName\":{},\"Operator\":{},\"Values\":{}}}",
                codes.at("containerName").value(),
                Value::from(codes.at("operator").text()),
                codes.at("values").value()
            )
        } else {
            "null".to_owned()
        };
        let conditions = rule.at("onPodConditions");
        let patterns: Vec<String> = conditions
            .items()
            .map(|one| {
                let text = |field: &str| Value::from(one.at(field).text());
                let (kind, status) = (text("type"), text("status"));
                format!("{{\"Type\":{kind},\"Status\":{status}}}")
            })
            .collect();
        let written_conditions = if conditions.is_set() {
            format!("[{}]", patterns.join(","))
        } else {
            "null".to_owned()
        };
        let action = Value::from(rule.at("action").text());
        format!(
            "{{\"Action\":{action},\"OnExitCodes\":{written_codes},\"OnPodConditions\":{written_conditions}}}"
        )
    })
}

fn written_rules(policy: &FieldPath<'_>, rule: impl FnMut(FieldPath<'_>) -> String) -> String {
    if !policy.is_set() {
        return "null".to_owned();
    }
    let all: Vec<String> = policy.at("rules").items().map(rule).collect();
    format!("{{\"Rules\":[{}]}}", all.join(","))
}

/// Checks that a text is one of the known values. The error of an absent text lists all values.
fn required(at: &FieldPath<'_>, known: &[&str], errors: &mut Errors) {
    if at.is_empty() {
        let all: Vec<String> = known.iter().map(|one| format!("\"{one}\"")).collect();
        errors.required(at, &format!("valid values: [{}]", all.join(" ")));
    } else {
        check::one_of(at, known, errors);
    }
}

/// Checks a failure policy. Upstream: `validatePodFailurePolicy`.
fn check_failure(spec: &FieldPath<'_>, rules: &FieldPath<'_>, errors: &mut Errors) {
    if rules.len() > 20 {
        errors.too_many(rules, 20);
    }
    for rule in rules.items() {
        let action = rule.at("action");
        if action.text() == "FailIndex" {
            if !spec.at("backoffLimitPerIndex").is_set() {
                errors.invalid(&action, "requires the backoffLimitPerIndex to be set");
            }
        } else {
            required(
                &action,
                &["Count", "FailIndex", "FailJob", "Ignore"],
                errors,
            );
        }
        let (codes, conditions) = (rule.at("onExitCodes"), rule.at("onPodConditions"));
        if codes.is_set() {
            check_codes(spec, &codes, errors);
        }
        if conditions.len() > 20 {
            errors.too_many(&conditions, 20);
        }
        for pattern in conditions.items() {
            check::qualified(&pattern.at("type"), errors);
            required(&pattern.at("status"), &["False", "True", "Unknown"], errors);
        }
        match (codes.is_set(), conditions.is_empty()) {
            (true, false) => errors.invalid_bare(
                &rule,
                "specifying both OnExitCodes and OnPodConditions is not supported",
            ),
            (false, true) => errors.invalid_bare(
                &rule,
                "specifying one of OnExitCodes and OnPodConditions is required",
            ),
            _ => {}
        }
    }
}

fn check_codes(spec: &FieldPath<'_>, codes: &FieldPath<'_>, errors: &mut Errors) {
    let operator = codes.at("operator");
    required(&operator, &["In", "NotIn"], errors);
    let name = codes.at("containerName");
    let known = |field: &str| {
        let mut containers = spec.down("template.spec").at(field).items();
        containers.any(|one| one.at("name").text() == name.text())
    };
    if name.is_set() && !known("containers") && !known("initContainers") {
        let detail = "must be one of the container or initContainer names in the pod template";
        errors.invalid(&name, detail);
    }
    let values = codes.at("values");
    if values.is_empty() {
        errors.invalid(&values, "at least one value is required");
    } else if values.len() > 255 {
        errors.too_many(&values, 255);
    }
    let mut seen: Vec<i64> = Vec::new();
    for value in values.items() {
        let number = value.int();
        if operator.text() == "In" && number == 0 {
            errors.invalid(&value, "must not be 0 for the In operator");
        }
        if seen.contains(&number) {
            errors.duplicate(&value);
        }
        seen.push(number);
    }
    if !seen.is_sorted() {
        errors.invalid(&values, "must be ordered");
    }
}

/// Checks a success policy. Upstream: `validateSuccessPolicy`.
fn check_success(spec: &FieldPath<'_>, rules: &FieldPath<'_>, errors: &mut Errors) {
    let completions = spec.at("completions").int();
    if rules.is_empty() {
        let detail = "at least one rules must be specified when the successPolicy is specified";
        errors.required(rules, detail);
    }
    if rules.len() > 20 {
        errors.too_many(rules, 20);
    }
    for rule in rules.items() {
        let (indexes, count) = (rule.at("succeededIndexes"), rule.at("succeededCount"));
        if !indexes.is_set() && !count.is_set() {
            let detail = "at least one of succeededCount or succeededIndexes must be specified";
            errors.required(&rule, detail);
        }
        let mut total = 0;
        if indexes.is_set() {
            if indexes.len() > 64 * 1024 {
                errors.too_long(&indexes, 64 * 1024);
            }
            match indexes::count(indexes.text(), completions) {
                Ok(found) => total = found,
                Err(why) => {
                    errors.invalid(&indexes, &format!("error parsing succeededIndexes: {why}"));
                }
            }
        }
        let Some(number) = count.number() else {
            continue;
        };
        check::not_negative(&count, errors);
        if number > completions {
            let detail = format!(
                "must be less than or equal to {completions} (the number of specified completions)"
            );
            errors.invalid_as(&count, &Value::from(number), &detail);
        }
        if indexes.is_set() && number > total {
            let detail = format!(
                "must be less than or equal to {total} (the number of indexes in the specified succeededIndexes field)"
            );
            errors.invalid_as(&count, &Value::from(number), &detail);
        }
    }
}
