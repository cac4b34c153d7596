//! Machine: checks the failure and success policies of Jobs.

use crate::fields::go_value::GoType::{self, List, Plain, Pointer, Struct, Text};
use crate::fields::{FieldPath, check};

use super::indexes;

const EXIT_CODES: GoType = Struct(&[
    ("containerName", Plain),
    ("operator", Text),
    ("values", Plain),
]);

const POD_CONDITION: GoType = Struct(&[("type", Text), ("status", Text)]);

const FAILURE_RULE: GoType = Struct(&[
    ("action", Text),
    ("onExitCodes", Pointer(&EXIT_CODES)),
    ("onPodConditions", List(&POD_CONDITION)),
]);

const FAILURE_RULES: GoType = Struct(&[("rules", List(&FAILURE_RULE))]);

pub(super) const FAILURE_POLICY: GoType = Pointer(&FAILURE_RULES);

const SUCCESS_RULE: GoType = Struct(&[("succeededIndexes", Plain), ("succeededCount", Plain)]);

const SUCCESS_RULES: GoType = Struct(&[("rules", List(&SUCCESS_RULE))]);

pub(super) const SUCCESS_POLICY: GoType = Pointer(&SUCCESS_RULES);

pub(super) fn check(spec: &FieldPath<'_>) {
    let failure = spec.at("podFailurePolicy");
    failure.if_set(|failure| check_failure(spec, &failure.at("rules")));
    let success = spec.at("successPolicy");
    if success.is_set() {
        if spec.at("completionMode").text() == "Indexed" {
            check_success(spec, &success.at("rules"));
        } else {
            success.invalid_printed(&SUCCESS_POLICY, "requires indexed completion mode");
        }
    }
    let replacement = spec.at("podReplacementPolicy");
    if replacement.is_set() {
        let known: &[&str] = if failure.is_set() {
            &["Failed"]
        } else {
            &["Failed", "TerminatingOrFailed"]
        };
        check::one_of(&replacement, known);
    }
}

/// Checks that a text is one of the known values. The error of an absent text lists all values.
fn required(at: &FieldPath<'_>, known: &[&str]) {
    if at.is_empty() {
        let all: Vec<String> = known.iter().map(|one| format!("\"{one}\"")).collect();
        at.required(&format!("valid values: [{}]", all.join(" ")));
    } else {
        check::one_of(at, known);
    }
}

/// Checks a failure policy. Upstream: `validatePodFailurePolicy`.
fn check_failure(spec: &FieldPath<'_>, rules: &FieldPath<'_>) {
    rules.has_too_many(20);
    for rule in rules.items() {
        let action = rule.at("action");
        if action.text() == "FailIndex" {
            if !spec.at("backoffLimitPerIndex").is_set() {
                action.invalid("requires the backoffLimitPerIndex to be set");
            }
        } else {
            required(&action, &["Count", "FailIndex", "FailJob", "Ignore"]);
        }
        let (codes, conditions) = (rule.at("onExitCodes"), rule.at("onPodConditions"));
        codes.if_set(|codes| check_codes(spec, codes));
        conditions.has_too_many(20);
        for pattern in conditions.items() {
            check::qualified(&pattern.at("type"));
            required(&pattern.at("status"), &["False", "True", "Unknown"]);
        }
        match (codes.is_set(), conditions.is_empty()) {
            (true, false) => rule
                .invalid_bare("specifying both OnExitCodes and OnPodConditions is not supported"),
            (false, true) => {
                rule.invalid_bare("specifying one of OnExitCodes and OnPodConditions is required")
            }
            _ => {}
        }
    }
}

fn check_codes(spec: &FieldPath<'_>, codes: &FieldPath<'_>) {
    let operator = codes.at("operator");
    required(&operator, &["In", "NotIn"]);
    let name = codes.at("containerName");
    let known = |field: &str| {
        let mut containers = spec.down("template.spec").at(field).items();
        containers.any(|one| one.at("name").text() == name.text())
    };
    if name.is_set() && !known("containers") && !known("initContainers") {
        name.invalid("must be one of the container or initContainer names in the pod template");
    }
    let values = codes.at("values");
    if values.is_empty() {
        values.invalid("at least one value is required");
    } else {
        values.has_too_many(255);
    }
    let mut seen: Vec<i64> = Vec::new();
    for value in values.items() {
        let number = value.int();
        if operator.text() == "In" && number == 0 {
            value.invalid("must not be 0 for the In operator");
        }
        if seen.contains(&number) {
            value.duplicate();
        }
        seen.push(number);
    }
    if !seen.is_sorted() {
        values.invalid("must be ordered");
    }
}

/// Checks a success policy. Upstream: `validateSuccessPolicy`.
fn check_success(spec: &FieldPath<'_>, rules: &FieldPath<'_>) {
    let completions = spec.at("completions").int();
    let detail = "at least one rules must be specified when the successPolicy is specified";
    rules.need(detail);
    rules.has_too_many(20);
    for rule in rules.items() {
        let (indexes, count) = (rule.at("succeededIndexes"), rule.at("succeededCount"));
        if !indexes.is_set() && !count.is_set() {
            rule.required("at least one of succeededCount or succeededIndexes must be specified");
        }
        let mut total = 0;
        if indexes.is_set() {
            if indexes.len() > 64 * 1024 {
                indexes.too_long(64 * 1024);
            }
            match indexes::count(indexes.text(), completions) {
                Ok(found) => total = found,
                Err(why) => {
                    indexes.invalid(&format!("error parsing succeededIndexes: {why}"));
                }
            }
        }
        let Some(number) = count.number() else {
            continue;
        };
        check::not_negative(&count);
        if number > completions {
            let detail = format!(
                "must be less than or equal to {completions} (the number of specified completions)"
            );
            count.invalid_as(number, &detail);
        }
        if indexes.is_set() && number > total {
            let detail = format!(
                "must be less than or equal to {total} (the number of indexes in the specified succeededIndexes field)"
            );
            count.invalid_as(number, &detail);
        }
    }
}
