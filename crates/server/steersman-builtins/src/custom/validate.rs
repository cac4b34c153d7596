//! Machine: checks a value against a structural schema, with kube-apiserver's messages.

use std::cell::RefCell;
use std::collections::HashMap;

use serde_json::Value;
use steersman_apimachinery::go;
use steersman_apimachinery::status::FieldError;
use steersman_cel::structural::Structural;
use steersman_schema::types::type_name;

use super::formats;
use crate::fields::{FieldPath, Findings};

mod numbers;

use numbers::{check_number, is_same, number_text, value_text};

/// Checks only `status`, as a write to the status subresource does.
#[must_use]
pub(crate) fn validate_status(
    schema: &Structural,
    status: &Value,
    old: Option<&Value>,
) -> Vec<FieldError> {
    let schema = schema.properties.get("status");
    schema.map_or_else(Vec::new, |schema| {
        validate_at(schema, status, old, "status")
    })
}

/// Checks a value at the path `field`, which is empty for a whole object. Values inside that equal those of the old
/// value pass without a check.
#[must_use]
pub(crate) fn validate_at(
    schema: &Structural,
    value: &Value,
    old: Option<&Value>,
    field: &str,
) -> Vec<FieldError> {
    Findings::errors(value, |root| {
        check(schema, &root.shown_at(field, root.value()), old);
    })
}

/// Checks a value. Returns the number of checked rules, which ranks alternatives.
fn check(schema: &Structural, at: &FieldPath<'_>, old: Option<&Value>) -> usize {
    let before = at.error_count();
    let looked_at = check_value(schema, at, old);
    if at.error_count() > before && !at.is_root() && old == Some(at.value()) {
        at.truncate_errors(before);
    }
    looked_at
}

/// Checks the rules in the order of upstream's validators.
fn check_value(schema: &Structural, at: &FieldPath<'_>, old: Option<&Value>) -> usize {
    let rules = &schema.rules;
    if !at.is_set() {
        if !schema.nullable {
            check_type(schema, at);
        }
        check_allowed(schema, at);
        return 1;
    }
    check_type(schema, at);
    let mut looked_at = 1 + check_combinators(schema, at);
    match at.value() {
        Value::Array(items) => {
            if let Some(sub) = &schema.items {
                let old = Known::of(schema, old);
                for item in at.items() {
                    looked_at += check(sub, &item, old.find(item.value()));
                }
            }
            check_size(items.len(), rules.items, "items", at);
        }
        Value::String(text) => check_text(schema, text, at),
        Value::Number(number) => {
            if let Some(number) = number.as_f64() {
                check_number(schema, number, at);
            }
        }
        Value::Null | Value::Bool(_) | Value::Object(_) => {}
    }
    check_allowed(schema, at);
    if let Value::Object(members) = at.value() {
        check_size(members.len(), rules.properties, "properties", at);
        let old = old.filter(|_| rules.map_type != "atomic");
        for (name, member) in members {
            let named = schema.properties.get(name);
            if let Some(sub) = named.or_else(|| schema.additional.schema()) {
                let old = old.and_then(|old| old.get(name));
                looked_at += check(sub, &at.named(name, Some(member)), old);
            }
        }
        for name in &rules.required {
            if !members.contains_key(name) {
                at.at(name).required("");
            }
        }
    }
    looked_at
}

fn check_allowed(schema: &Structural, at: &FieldPath<'_>) {
    let (allowed, value) = (&schema.rules.allowed, at.value());
    if !allowed.is_empty() && !allowed.iter().any(|one| is_same(value, one)) {
        // Upstream also quotes values that are not strings: `supported values: "1", "2"`.
        let shown = allowed.iter().map(|one| match one {
            Value::String(text) => go::quote(text),
            other => go::quote(&number_text(other)),
        });
        let allowed: Vec<String> = shown.collect();
        let value = value_text(value);
        at.push(FieldError::not_supported(at.path(), &value, &allowed));
    }
}

/// The old items of a list of type `map` by their keys, and the names of the key fields.
struct Known<'a>(HashMap<String, &'a Value>, &'a [String]);

impl<'a> Known<'a> {
    fn of(schema: &'a Structural, old: Option<&'a Value>) -> Self {
        let keys = schema.rules.list_map_keys.as_slice();
        let old = old.filter(|_| schema.rules.list_type == "map" && !keys.is_empty());
        let items = old.and_then(Value::as_array).into_iter().flatten();
        Self(
            items.map(|item| (Self::key(item, keys), item)).collect(),
            keys,
        )
    }

    fn find(&self, item: &Value) -> Option<&'a Value> {
        if self.0.is_empty() {
            return None;
        }
        self.0.get(&Self::key(item, self.1)).copied()
    }

    fn key(item: &Value, keys: &[String]) -> String {
        let parts: Vec<&Value> = keys.iter().map(|key| &item[key.as_str()]).collect();
        serde_json::json!(parts).to_string()
    }
}

fn check_type(schema: &Structural, at: &FieldPath<'_>) {
    let value = at.value();
    let found = type_name(value);
    let wanted = if schema.int_or_string {
        "integer,string"
    } else {
        &*schema.kind
    };
    let fits = match wanted {
        "" => true,
        "integer,string" => matches!(found, "integer" | "string"),
        "number" => matches!(found, "integer" | "number"),
        // A number without a fraction is an integer, even if it is written with a decimal point.
        "integer" => {
            found == "integer" || value.as_f64().is_some_and(|number| number.fract() == 0.0)
        }
        wanted => wanted == found,
    };
    if fits {
        return;
    }
    // A format takes the place of the type: refusals name the format, and the one of Go's type.
    let format = formats::checked(schema);
    let (wanted, found) = match value {
        Value::Array(_) if !format.is_empty() && !matches!(wanted, "number" | "integer") => return,
        Value::Null | Value::String(_) | Value::Array(_) => (wanted, found),
        _ if format.is_empty() => (wanted, found),
        Value::Number(number) if number.is_i64() => (format, "int64"),
        Value::Number(_) => (format, "float64"),
        Value::Bool(_) | Value::Object(_) => (format, ""),
    };
    let found = go::quote(found);
    let body = at.inner_path();
    let detail = format!("{body} in body must be of type {wanted}: {found}");
    at.push(FieldError::type_invalid(at.path(), &found, &detail));
}

fn check_size(
    size: usize,
    (least, most): (Option<u64>, Option<u64>),
    noun: &str,
    at: &FieldPath<'_>,
) {
    let count = u64::try_from(size).unwrap_or(u64::MAX);
    if let Some(least) = least.filter(|least| count < *least) {
        let body = at.inner_path();
        let detail = format!("{body} in body should have at least {least} {noun}");
        at.invalid_written(&size.to_string(), &detail);
    }
    if let Some(most) = most.filter(|most| count > *most) {
        at.push(FieldError::too_many(at.path(), size, most));
    }
}

fn check_text(schema: &Structural, text: &str, at: &FieldPath<'_>) {
    let (quoted, body) = (|| go::quote(text), || at.inner_path());
    let (least, most) = schema.rules.length;
    let length = u64::try_from(text.chars().count()).unwrap_or(u64::MAX);
    // Upstream reports only the first of the three.
    if let Some(most) = most.filter(|most| length > *most) {
        let detail = format!("may not be more than {most} bytes");
        at.push(FieldError::too_long(at.path(), &detail));
    } else if let Some(least) = least.filter(|least| length < *least) {
        let detail = format!("{} in body should be at least {least} chars long", body());
        at.invalid_written(&quoted(), &detail);
    } else if let Some(pattern) = &schema.rules.pattern
        && !pattern.matches(text)
    {
        let detail = format!("{} in body should match '{}'", body(), pattern.source());
        at.invalid_written(&quoted(), &detail);
    }
    if !formats::fits(&schema.format, text) {
        let (format, quoted, body) = (&schema.format, quoted(), body());
        let detail = format!("{body} in body must be of type {format}: {quoted}");
        at.push(FieldError::type_invalid(at.path(), &quoted, &detail));
    }
}

/// Checks the combined schemas. Returns the number of checked rules as upstream counts them: for
/// alternatives, those of the reported alternative.
fn check_combinators(schema: &Structural, at: &FieldPath<'_>) -> usize {
    let rules = &schema.rules;
    let mut looked_at = 0;
    let broken = |sub: &Structural| {
        let mut looked_at = 0;
        let errors = at.errors_of(|at| looked_at = check_value(sub, at, None));
        (errors, looked_at)
    };
    let told = RefCell::new(Vec::new());
    let refuse = |rule: &str| {
        let detail = format!("\"{}\" must {rule}", at.inner_path());
        let error = FieldError::invalid("<nil>", "\"\"", &detail);
        told.borrow_mut().push(error);
    };
    // Each error is reported only once.
    let tell = |found: Vec<FieldError>| {
        let mut told = told.borrow_mut();
        for one in found {
            if !told.contains(&one) {
                told.push(one);
            }
        }
    };
    if !rules.any_of.is_empty() {
        let outcomes: Vec<_> = rules.any_of.iter().map(|sub| broken(sub)).collect();
        match outcomes.iter().find(|(broken, _)| broken.is_empty()) {
            Some((_, count)) => looked_at += count,
            None => {
                refuse("validate at least one schema (anyOf)");
                let (best, count) = best_of(outcomes);
                looked_at += count;
                tell(best);
            }
        }
    }
    if !rules.one_of.is_empty() {
        let outcomes: Vec<_> = rules.one_of.iter().map(|sub| broken(sub)).collect();
        let mut fitting = outcomes.iter().filter(|(broken, _)| broken.is_empty());
        let first = fitting.next().map(|(_, count)| *count);
        let further = fitting.count();
        match first {
            Some(count) if further == 0 => looked_at += count,
            Some(_) => refuse(&format!(
                "validate one and only one schema (oneOf). Found {} valid alternatives",
                further + 1
            )),
            None => {
                refuse("validate one and only one schema (oneOf). Found none valid");
                let (best, count) = best_of(outcomes);
                looked_at += count;
                tell(best);
            }
        }
    }
    let mut fitting = 0;
    for (broken, count) in rules.all_of.iter().map(|sub| broken(sub)) {
        looked_at += count;
        fitting += usize::from(broken.is_empty());
        tell(broken);
    }
    if fitting < rules.all_of.len() {
        let none = if fitting == 0 { ". None validated" } else { "" };
        refuse(&format!("validate all the schemas (allOf){none}"));
    }
    let not = rules.not.as_ref();
    if not.is_some_and(|sub| broken(sub).0.is_empty()) {
        refuse("not validate the schema (not)");
    }
    at.extend(told.into_inner());
    looked_at
}

/// Selects the first schema with the most checked rules, if no schema matches.
fn best_of(outcomes: Vec<(Vec<FieldError>, usize)>) -> (Vec<FieldError>, usize) {
    let better = |best: (Vec<FieldError>, usize), other: (Vec<FieldError>, usize)| {
        if other.1 > best.1 { other } else { best }
    };
    outcomes.into_iter().reduce(better).unwrap_or_default()
}

#[cfg(test)]
mod tests;
