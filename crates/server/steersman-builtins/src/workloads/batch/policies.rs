//! Machine: checks the failure and success policies of Jobs.

use serde_json::Value;

use crate::fields::check;
use crate::fields::field_path::{Errors, FieldPath};
use crate::fields::go_value::GoType::{self, List, Plain, Pointer, Struct, Text};
use crate::fields::go_value::print;

use super::indexes;

const EXIT_CODES: GoType = Struct(&[
    ("ContainerName", "containerName", Plain),
    ("Operator", "operator", Text),
    ("Values", "values", Plain),
]);

const POD_CONDITION: GoType = Struct(&[("Type", "type", Text), ("Status", "status", Text)]);

const FAILURE_RULE: GoType = Struct(&[
    ("Action", "action", Text),
    ("OnExitCodes", "onExitCodes", Pointer(&EXIT_CODES)),
    ("OnPodConditions", "onPodConditions", List(&POD_CONDITION)),
]);

const FAILURE_RULES: GoType = Struct(&[("Rules", "rules", List(&FAILURE_RULE))]);

/// A failure policy.
const FAILURE_POLICY: GoType = Pointer(&FAILURE_RULES);

const SUCCESS_RULE: GoType = Struct(&[
    ("SucceededIndexes", "succeededIndexes", Plain),
    ("SucceededCount", "succeededCount", Plain),
]);

const SUCCESS_RULES: GoType = Struct(&[("Rules", "rules", List(&SUCCESS_RULE))]);

/// A success policy.
const SUCCESS_POLICY: GoType = Pointer(&SUCCESS_RULES);

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
            let written = print(&SUCCESS_POLICY, success.value());
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
    let field = "podFailurePolicy";
    let (policy, old) = (spec.at(field), old.at(field));
    check::immutable_struct(&policy, old.value(), &FAILURE_POLICY, errors);
}

/// Checks that an update keeps the success policy.
pub(super) fn same_success(spec: &FieldPath<'_>, old: &FieldPath<'_>, errors: &mut Errors) {
    let field = "successPolicy";
    let (policy, old) = (spec.at(field), old.at(field));
    check::immutable_struct(&policy, old.value(), &SUCCESS_POLICY, errors);
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
