//! Machine: the functions of named formats, such as `format.dns1123Label()`, which validate strings.

use super::{Cost, Row};
use crate::cost_range::{PER_CHARACTER, PER_PATTERN_CHARACTER, scaled};
use crate::run::EvalOutcome;
use crate::value::Value;
use crate::value::named_formats::NamedFormat;

#[rustfmt::skip]
pub(super) const FUNCTIONS: &[Row] = &[
    ("format.named", "format_named (s)oF", Cost::PerCall, accepts!(|[Value::Text(name)]| Ok(find(name)))),
    ("validate", "format_validate (F.s)ols",
        Cost::Values(validation), accepts!(|[Value::Named(format), Value::Text(text)]| Ok(problems(*format, text)))),
    ("format.dns1123Label", "format_dns1123Label ()F", Cost::PerCall, |_, _| named("dns1123Label")),
    ("format.dns1123Subdomain", "format_dns1123Subdomain ()F",
        Cost::PerCall, |_, _| named("dns1123Subdomain")),
    ("format.dns1035Label", "format_dns1035Label ()F", Cost::PerCall, |_, _| named("dns1035Label")),
    ("format.qualifiedName", "format_qualifiedName ()F",
        Cost::PerCall, |_, _| named("qualifiedName")),
    ("format.dns1123LabelPrefix", "format_dns1123LabelPrefix ()F",
        Cost::PerCall, |_, _| named("dns1123LabelPrefix")),
    ("format.dns1123SubdomainPrefix", "format_dns1123SubdomainPrefix ()F",
        Cost::PerCall, |_, _| named("dns1123SubdomainPrefix")),
    ("format.dns1035LabelPrefix", "format_dns1035LabelPrefix ()F",
        Cost::PerCall, |_, _| named("dns1035LabelPrefix")),
    ("format.labelValue", "format_labelValue ()F", Cost::PerCall, |_, _| named("labelValue")),
    ("format.uri", "format_uri ()F", Cost::PerCall, |_, _| named("uri")),
    ("format.uuid", "format_uuid ()F", Cost::PerCall, |_, _| named("uuid")),
    ("format.byte", "format_byte ()F", Cost::PerCall, |_, _| named("byte")),
    ("format.date", "format_date ()F", Cost::PerCall, |_, _| named("date")),
    ("format.datetime", "format_datetime ()F", Cost::PerCall, |_, _| named("datetime")),
];

fn named<'a>(name: &str) -> Option<EvalOutcome<'a>> {
    NamedFormat::find(name).map(|format| Ok(Value::Named(format)))
}

fn find<'a>(name: &str) -> Value<'a> {
    let format = NamedFormat::find(name).map(Value::Named);
    format.map_or(Value::NONE, Value::some)
}

/// Returns the cost of `validate`: the length of the text times the length of the format's longest regular expression.
fn validation(values: &[Value<'_>]) -> u64 {
    let pattern = match values.first() {
        Some(Value::Named(format)) => format.longest_pattern(),
        _ => 0,
    };
    let size = values.get(1).map_or(0, Value::size);
    let text = scaled(size.saturating_add(1), PER_CHARACTER);
    text.saturating_mul(scaled(pattern, PER_PATTERN_CHARACTER))
}

/// Returns the problems of a text in a format as an optional list; a valid text gives an empty optional.
fn problems<'a>(format: NamedFormat, text: &str) -> Value<'a> {
    let wrong: Vec<_> = format.check(text).into_iter().map(Value::text).collect();
    if wrong.is_empty() {
        Value::NONE
    } else {
        Value::some(Value::List(wrong.into()))
    }
}
