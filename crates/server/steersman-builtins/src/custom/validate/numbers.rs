//! Machine: checks numbers against the rules of a schema, with Go's semantics of numbers.

use serde_json::Value;
use steersman_apimachinery::go;
use steersman_apimachinery::status::FieldError;
use steersman_cel::structural::{Bound, Structural};

use crate::custom::formats;
use crate::fields::FieldPath;

pub(super) fn check_number(schema: &Structural, number: f64, at: &FieldPath<'_>) {
    let value = at.value();
    let body = || at.inner_path();
    let format = formats::checked(schema);
    let range = |what: &str| {
        let format = match format {
            "" => "(default format)".to_owned(),
            format => format!("with format {format}"),
        };
        let (kind, body) = (&schema.kind, body());
        let detail = format!("{what} value must be of type {kind} {format} in {body}");
        at.push(FieldError::invalid("<nil>", "\"\"", &detail));
    };
    if !is_in_range((&schema.kind, format), value, number) {
        range("Checked");
    }
    // Upstream compares an integer with the integral part of a bound that has the schema's type.
    let typed = |bound: f64, what: &str| {
        let fits = is_in_range((&schema.kind, format), &Value::from(bound), bound);
        if !fits {
            range(what);
        }
        let is_whole = fits && value.is_i64();
        Compared {
            number,
            bound: if is_whole { bound.trunc() } else { bound },
            is_whole,
        }
    };
    let refuse = |compared: &Compared, what: &str| {
        let detail = format!(
            "{} in body should be {what} {}",
            body(),
            compared.text(compared.bound)
        );
        at.invalid_written(&compared.text(number), &detail);
    };
    if let Some(Bound(factor)) = schema.rules.multiple_of {
        let compared = typed(factor, "MultipleOf");
        if compared.bound <= 0.0 {
            let (factor, body) = (compared.text(compared.bound), body());
            let detail =
                format!("factor MultipleOf declared for {body} must be positive: {factor}");
            at.invalid_written(&factor, &detail);
        } else if !compared.is_multiple() {
            refuse(&compared, "a multiple of");
        }
    }
    if let Some((Bound(least), exclusive)) = schema.rules.minimum {
        let compared = typed(least, "Minimum boundary");
        if exclusive && number <= compared.bound {
            refuse(&compared, "greater than");
        } else if number < compared.bound {
            refuse(&compared, "greater than or equal to");
        }
    }
    if let Some((Bound(most), exclusive)) = schema.rules.maximum {
        let compared = typed(most, "Maximum boundary");
        if exclusive && number >= compared.bound {
            refuse(&compared, "less than");
        } else if number > compared.bound {
            refuse(&compared, "less than or equal to");
        }
    }
}

/// A number and a bound, as integers or as floats.
struct Compared {
    number: f64,
    bound: f64,
    is_whole: bool,
}

impl Compared {
    /// Prints a number as Go's `%v` does: a large float has an exponent.
    fn text(&self, number: f64) -> String {
        if self.is_whole {
            format!("{number}")
        } else {
            go::print_double(number)
        }
    }

    /// Returns whether the number is a multiple of the bound, within the precision of floats.
    fn is_multiple(&self) -> bool {
        let Self { number, bound, .. } = *self;
        if self.is_whole {
            return number % bound == 0.0;
        }
        let times = if bound < 1.0 {
            1.0 / bound * number
        } else {
            number / bound
        };
        let whole = times.trunc();
        let apart = (times - whole).abs();
        times.is_finite() && (apart == 0.0 || apart / (times.abs() + whole.abs()) < 1e-9)
    }
}

fn is_in_range((kind, format): (&str, &str), value: &Value, number: f64) -> bool {
    let whole = kind == "integer";
    if whole && number.fract() != 0.0 {
        return false;
    }
    match format {
        "int32" if whole => (f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&number),
        "float" if !whole => number.abs() <= f64::from(f32::MAX),
        _ if whole => {
            const BOUND: f64 = 9_223_372_036_854_775_808.0;
            value.is_i64() || (!value.is_u64() && (-BOUND..BOUND).contains(&number))
        }
        _ => true,
    }
}

/// Prints a value in a refusal: a number as Go's `%v`.
pub(super) fn value_text(value: &Value) -> String {
    match value.as_f64().filter(|_| value.is_f64()) {
        Some(number) => go::print_double(number),
        None => go::print_in_error(value),
    }
}

/// Prints a number as Go does: without a fraction if it is zero.
pub(super) fn number_text(value: &Value) -> String {
    let text = go::print_in_error(value);
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

/// Returns whether a value equals an allowed value after upstream converts it to that type.
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
