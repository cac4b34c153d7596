//! Machine: checks numbers against the rules of a schema, with Go's semantics of numbers.

use serde_json::Value;
use steersman_cel::structural::Structural;
use steersman_text::go;
use steersman_text::status::FieldError;

use super::Path;

pub(super) fn check_number(
    schema: &Structural,
    value: &Value,
    number: f64,
    path: &Path,
    errors: &mut Vec<FieldError>,
) {
    let body = &path.body;
    let range = |what: &str| {
        let format = match schema.format.as_str() {
            "" => "(default format)".to_owned(),
            format => format!("with format {format}"),
        };
        let kind = &schema.kind;
        let detail = format!("{what} value must be of type {kind} {format} in {body}");
        FieldError::invalid("<nil>", "\"\"", &detail)
    };
    let refuse = |detail: String| FieldError::invalid(&path.field, &number_text(value), &detail);
    if !is_in_range(schema, value, number) {
        errors.push(range("Checked"));
    }
    // A number without a fraction is compared with truncated bounds if the bounds have the schema's
    // type. Bounds of another type fail with every number.
    let bound = |bound: f64, what: &str, errors: &mut Vec<FieldError>| {
        if !is_in_range(schema, &Value::from(bound), bound) {
            errors.push(range(what));
            bound
        } else if value.is_i64() {
            bound.trunc()
        } else {
            bound
        }
    };
    if let Some(factor) = schema.rules.multiple_of {
        if !is_in_range(schema, &Value::from(factor), factor) {
            errors.push(range("MultipleOf"));
        }
        if !is_multiple(number, factor) {
            errors.push(refuse(format!(
                "{body} in body should be a multiple of {factor}"
            )));
        }
    }
    if let Some((least, exclusive)) = schema.rules.minimum {
        let least = bound(least, "Minimum boundary", errors);
        if exclusive && number <= least {
            errors.push(refuse(format!(
                "{body} in body should be greater than {least}"
            )));
        } else if number < least {
            errors.push(refuse(format!(
                "{body} in body should be greater than or equal to {least}"
            )));
        }
    }
    if let Some((most, exclusive)) = schema.rules.maximum {
        let most = bound(most, "Maximum boundary", errors);
        if exclusive && number >= most {
            errors.push(refuse(format!("{body} in body should be less than {most}")));
        } else if number > most {
            errors.push(refuse(format!(
                "{body} in body should be less than or equal to {most}"
            )));
        }
    }
}

/// Returns whether a number has the schema's type and format.
fn is_in_range(schema: &Structural, value: &Value, number: f64) -> bool {
    let whole = schema.kind == "integer";
    if whole && number.fract() != 0.0 {
        return false;
    }
    match schema.format.as_str() {
        "int32" if whole => (f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&number),
        "uint32" if whole => (0.0..=f64::from(u32::MAX)).contains(&number),
        "uint64" if whole => (0.0..18_446_744_073_709_551_616.0).contains(&number),
        "float" | "float32" if !whole => number.abs() <= f64::from(f32::MAX),
        _ if whole => {
            const BOUND: f64 = 9_223_372_036_854_775_808.0;
            value.is_i64() || (!value.is_u64() && (-BOUND..BOUND).contains(&number))
        }
        _ => true,
    }
}

/// Returns whether a number is a multiple, within the precision of floating point.
fn is_multiple(number: f64, factor: f64) -> bool {
    let times = if factor < 1.0 {
        1.0 / factor * number
    } else {
        number / factor
    };
    let whole = times.trunc();
    let apart = (times - whole).abs();
    times.is_finite() && (apart == 0.0 || apart / (times.abs() + whole.abs()) < 1e-9)
}

/// Prints a number as Go does: without a fraction if it is zero.
pub(super) fn number_text(value: &Value) -> String {
    let text = go::printed(value);
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

/// Returns whether a value equals an allowed value. Upstream converts the number to the type of the
/// allowed value first, which drops the fraction if the allowed value is an integer.
pub(super) fn is_same(value: &Value, allowed: &Value) -> bool {
    if value == allowed {
        return true;
    }
    let (Some(found), Some(wanted)) = (value.as_f64(), allowed.as_f64()) else {
        return false;
    };
    if allowed.is_i64() {
        found.trunc() == wanted
    } else {
        found == wanted
    }
}
