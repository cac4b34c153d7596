//! Machine: evaluates the functions of the library.
//!
//! The target of a method call is the first argument. Costs: `apiserver/pkg/cel/library/cost.go`.

use std::sync::Arc;

use steersman_apimachinery::quantity::Quantity;

use super::equality::{among_them, covers};
use super::run::{Failure, Outcome, Run};
use super::{authorizer_functions, conversions, list_functions, string_functions};
use crate::cost::call_cost::{ACCESS_CHECK, selector};
use crate::cost::cost_range::{PER_CHARACTER, PER_PATTERN_CHARACTER, Range, scaled};
use crate::value::addresses::{self, Cidr, Url};
use crate::value::named_formats::Named;
use crate::value::semver::Semver;
use crate::value::times;
use crate::value::{Key, Text, Value};

/// Applies a function.
pub(crate) fn apply<'a>(run: &mut Run<'a, '_>, name: &str, values: &[Value<'a>]) -> Outcome<'a> {
    charge(run, name, values)?;
    if let Some(outcome) = conversions::apply(name, values)
        .or_else(|| string_functions::apply(run, name, values))
        .or_else(|| list_functions::apply(run, name, values))
    {
        return outcome;
    }
    let outcome = match (name, values) {
        ("size", [of]) if of.is_list() || of.is_map() || is_text(of) => {
            Value::Int(i64::try_from(of.size()).unwrap_or(i64::MAX))
        }
        ("type", [of]) => Value::Type(of.type_name().into()),
        ("dyn", [of]) => of.clone(),
        (_, [Value::Timestamp(time), rest @ ..]) if name.starts_with("get") => {
            let zone = match rest {
                [] => None,
                [Value::Text(zone)] => Some(&**zone),
                _ => return Err(Failure::missing(name)),
            };
            let part = times::part(name, *time, zone)?;
            Value::Int(part.ok_or_else(|| Failure::missing(name))?)
        }
        ("getHours", [Value::Duration(nanos)]) => Value::Int(nanos / 3_600_000_000_000),
        ("getMinutes", [Value::Duration(nanos)]) => Value::Int(nanos / 60_000_000_000),
        ("getSeconds", [Value::Duration(nanos)]) => Value::Int(nanos / 1_000_000_000),
        ("getMilliseconds", [Value::Duration(nanos)]) => Value::Int(nanos / 1_000_000),
        ("sets.contains", [a, b]) => {
            let (a, b) = (a.items()?, b.items()?);
            Value::Bool(covers(run, &b, &a)?)
        }
        ("sets.equivalent", [a, b]) => {
            let (a, b) = (a.items()?, b.items()?);
            Value::Bool(covers(run, &a, &b)? && covers(run, &b, &a)?)
        }
        ("sets.intersects", [a, b]) => {
            let (a, b) = (a.items()?, b.items()?);
            let mut found = false;
            for one in &a {
                found = found || among_them(run, one, &b)?;
            }
            Value::Bool(found)
        }
        ("jsonpatch.escapeKey", [Value::Text(key)]) => {
            Value::text(key.replace('~', "~0").replace('/', "~1"))
        }
        ("lists.range", [Value::Int(end)]) => return list_functions::range(run, *end),
        ("optional.of", [of]) => Value::some(of.clone()),
        ("optional.none", []) => Value::NONE,
        ("optional.ofNonZeroValue", [of]) if is_zero(of) => Value::NONE,
        ("optional.ofNonZeroValue", [of]) => Value::some(of.clone()),
        ("hasValue", [Value::Optional(held)]) => Value::Bool(held.is_some()),
        ("value", [Value::Optional(held)]) => match held {
            Some(held) => (**held).clone(),
            None => return Err(Failure::of("optional.none() dereference")),
        },
        ("format.named", [Value::Text(name)]) => {
            Named::find(name).map_or(Value::NONE, |found| Value::some(Value::Named(found)))
        }
        ("validate", [Value::Named(format), Value::Text(text)]) => {
            let wrong: Vec<_> = format.check(text).into_iter().map(Value::text).collect();
            if wrong.is_empty() {
                Value::NONE
            } else {
                Value::some(Value::List(wrong.into()))
            }
        }
        (_, []) if name.starts_with("format.") => {
            let format = name.strip_prefix("format.").and_then(Named::find);
            Value::Named(format.ok_or_else(|| Failure::missing(name))?)
        }
        _ => {
            let outcome = quantity(name, values)
                .or_else(|| version(name, values))
                .or_else(|| address(name, values))
                .or_else(|| url(name, values))
                .or_else(|| authorizer_functions::apply(name, values));
            return outcome.unwrap_or_else(|| Err(Failure::missing(name)));
        }
    };
    Ok(outcome)
}

/// Evaluates `matches(text, pattern)`. Its cost does not depend on its arguments upstream.
pub(crate) fn matches<'a>(run: &mut Run<'a, '_>, values: &[Value<'a>]) -> Outcome<'a> {
    run.charge(1)?;
    let [Value::Text(text), Value::Text(pattern)] = values else {
        return Err(Failure::missing("matches"));
    };
    run.work(text.len())?;
    let pattern = run.pattern(pattern)?;
    Ok(Value::Bool(pattern.is_match(text)))
}

fn is_text(value: &Value<'_>) -> bool {
    matches!(value, Value::Text(_) | Value::Bytes(_))
}

fn is_zero(value: &Value<'_>) -> bool {
    match value {
        Value::Null | Value::Optional(None) => true,
        Value::Bool(flag) => !flag,
        Value::Int(number) | Value::Duration(number) => *number == 0,
        Value::Uint(number) => *number == 0,
        Value::Double(number) => *number == 0.0,
        other => other.size() == 0,
    }
}

/// Charges the cost of a call before the call.
fn charge(run: &mut Run<'_, '_>, name: &str, values: &[Value<'_>]) -> Result<(), Failure> {
    let size = |index: usize| values.get(index).map_or(0, Value::size);
    let cost = match name {
        "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => {
            values.first().map_or(0, list_functions::traversal)
        }
        "url"
        | "lowerAscii"
        | "upperAscii"
        | "substring"
        | "trim"
        | "cidr"
        | "isIP"
        | "isCIDR"
        | "quantity"
        | "isQuantity"
        | "semver"
        | "isSemver"
        | "startsWith"
        | "endsWith"
        | "strings.quote"
        | "format"
        | "jsonpatch.escapeKey" => scaled(size(0), PER_CHARACTER),
        "bytes" if matches!(values, [Value::Text(_)]) => scaled(size(0), PER_CHARACTER),
        "ip" if matches!(values, [Value::Text(_)]) => scaled(size(0), PER_CHARACTER),
        "string" if matches!(values, [Value::Bytes(_)]) => scaled(size(0), PER_CHARACTER),
        "replace" | "split" | "ip.isCanonical" => scaled(size(0), 2.0 * PER_CHARACTER),
        "find" | "findAll" | "matches" => {
            let text = scaled(size(0).saturating_add(1), PER_CHARACTER);
            text.saturating_mul(scaled(size(1), PER_PATTERN_CHARACTER))
        }
        "contains" => scaled(size(0), PER_CHARACTER).saturating_mul(scaled(size(1), PER_CHARACTER)),
        "containsIP" | "containsCIDR" => {
            let network = scaled(size(0).saturating_mul(2), PER_CHARACTER);
            let more = if name == "containsCIDR" {
                scaled(size(0), PER_CHARACTER) + 1
            } else {
                0
            };
            let read = match values.get(1) {
                Some(text @ Value::Text(_)) => scaled(text.size(), PER_CHARACTER),
                _ => 0,
            };
            network + more + read
        }
        "sets.contains" | "sets.intersects" => size(0).saturating_mul(size(1)).saturating_add(1),
        "sets.equivalent" => size(0)
            .saturating_mul(size(1))
            .saturating_mul(2)
            .saturating_add(1),
        "check" => ACCESS_CHECK,
        "fieldSelector" | "labelSelector" => selector(Range::exactly(size(1))).max,
        // The cost depends on the size of the result or on the items, which the function charges.
        "join"
        | "slice"
        | "flatten"
        | "distinct"
        | "reverse"
        | "sort"
        | "@sortByAssociatedKeys"
        | "lists.range" => 0,
        "validate" => {
            let format = match values.first() {
                Some(Value::Named(format)) => format.longest_pattern(),
                _ => 0,
            };
            let text = scaled(size(1).saturating_add(1), PER_CHARACTER);
            text.saturating_mul(scaled(format, PER_PATTERN_CHARACTER))
        }
        _ => 1,
    };
    run.charge(cost)
}

fn quantity<'a>(name: &str, values: &[Value<'a>]) -> Option<Outcome<'a>> {
    let read = |text: &Text<'_>| Quantity::parse(text);
    let as_quantity = |value: &Value<'a>| match value {
        Value::Quantity(quantity) => Some(*quantity),
        Value::Int(number) => Some(Quantity::of(*number)),
        _ => None,
    };
    Some(Ok(match (name, values) {
        ("quantity", [Value::Text(text)]) => match read(text) {
            Ok(quantity) => Value::Quantity(quantity),
            Err(why) => return Some(Err(Failure::of(why))),
        },
        ("isQuantity", [Value::Text(text)]) => Value::Bool(read(text).is_ok()),
        ("sign", [Value::Quantity(quantity)]) => {
            Value::Int(i64::try_from(quantity.sign()).unwrap_or_default())
        }
        ("isGreaterThan", [Value::Quantity(a), Value::Quantity(b)]) => Value::Bool(a > b),
        ("isLessThan", [Value::Quantity(a), Value::Quantity(b)]) => Value::Bool(a < b),
        ("compareTo", [a @ Value::Quantity(_), b @ Value::Quantity(_)]) => ordered(a, b),
        ("asApproximateFloat", [Value::Quantity(quantity)]) => {
            Value::Double(quantity.approximate())
        }
        ("isInteger", [Value::Quantity(quantity)]) => Value::Bool(whole(*quantity).is_some()),
        ("asInteger", [Value::Quantity(quantity)]) => match whole(*quantity) {
            Some(whole) => Value::Int(whole),
            None => return Some(Err(Failure::of("cannot convert value to integer"))),
        },
        ("add" | "sub", [Value::Quantity(a), b]) => {
            let b = as_quantity(b)?;
            Value::Quantity(a.plus(if name == "add" { b } else { b.negated() }))
        }
        _ => return None,
    }))
}

/// Returns a quantity as an integer. The largest quantity stands for all that are too large.
fn whole(quantity: Quantity) -> Option<i64> {
    let whole = quantity.whole();
    whole.filter(|whole| whole.unsigned_abs() < i64::MAX.unsigned_abs())
}

fn ordered<'a>(a: &Value<'a>, b: &Value<'a>) -> Value<'a> {
    Value::Int(a.compare(b).map_or(0, |order| order as i64))
}

fn version<'a>(name: &str, values: &[Value<'a>]) -> Option<Outcome<'a>> {
    Some(Ok(match (name, values) {
        ("semver" | "isSemver", [Value::Text(text), rest @ ..]) => {
            let lenient = matches!(rest, [Value::Bool(true)]);
            let read = Semver::parse(text, lenient);
            match (name, read) {
                ("isSemver", read) => Value::Bool(read.is_ok()),
                (_, Ok(version)) => Value::Semver(version.into()),
                (_, Err(why)) => return Some(Err(Failure::of(why))),
            }
        }
        ("major" | "minor" | "patch", [Value::Semver(version)]) => {
            let at = ["major", "minor", "patch"]
                .iter()
                .position(|part| *part == name)?;
            Value::Int(i64::try_from(version.numbers[at]).unwrap_or(i64::MAX))
        }
        ("isGreaterThan", [Value::Semver(a), Value::Semver(b)]) => Value::Bool(a > b),
        ("isLessThan", [Value::Semver(a), Value::Semver(b)]) => Value::Bool(a < b),
        ("compareTo", [a @ Value::Semver(_), b @ Value::Semver(_)]) => ordered(a, b),
        _ => return None,
    }))
}

fn address<'a>(name: &str, values: &[Value<'a>]) -> Option<Outcome<'a>> {
    let network = |value: &Value<'a>| match value {
        Value::Cidr(cidr) => Some(Ok(*cidr)),
        Value::Text(text) => Some(Cidr::parse(text)),
        _ => None,
    };
    let value = match (name, values) {
        ("ip", [Value::Text(text)]) => addresses::ip(text).map(Value::Ip),
        ("ip", [Value::Cidr(cidr)]) => Ok(Value::Ip(cidr.address)),
        ("isIP", [Value::Text(text)]) => Ok(Value::Bool(addresses::ip(text).is_ok())),
        ("ip.isCanonical", [Value::Text(text)]) => {
            addresses::ip(text).map(|address| Value::Bool(address.to_string() == **text))
        }
        ("family", [Value::Ip(address)]) => Ok(Value::Int(if address.is_ipv4() { 4 } else { 6 })),
        (_, [Value::Ip(address)]) => Ok(Value::Bool(addresses::is(name, *address)?)),
        ("cidr", [Value::Text(text)]) => Cidr::parse(text).map(Value::Cidr),
        ("isCIDR", [Value::Text(text)]) => Ok(Value::Bool(Cidr::parse(text).is_ok())),
        ("masked", [Value::Cidr(cidr)]) => Ok(Value::Cidr(cidr.masked())),
        ("prefixLength", [Value::Cidr(cidr)]) => Ok(Value::Int(i64::from(cidr.length))),
        ("containsIP", [Value::Cidr(cidr), Value::Ip(address)]) => {
            Ok(Value::Bool(cidr.contains(*address)))
        }
        ("containsIP", [Value::Cidr(cidr), Value::Text(text)]) => {
            // Upstream reports an unreadable address in this way.
            let address = addresses::ip(text).map_err(|_| "no such overload".to_owned());
            address.map(|address| Value::Bool(cidr.contains(address)))
        }
        ("containsCIDR", [Value::Cidr(cidr), other]) => {
            network(other)?.map(|other| Value::Bool(cidr.contains_network(other)))
        }
        _ => return None,
    };
    Some(value.map_err(Failure::Error))
}

fn url<'a>(name: &str, values: &[Value<'a>]) -> Option<Outcome<'a>> {
    Some(Ok(match (name, values) {
        ("url", [Value::Text(text)]) => match Url::without_fragment(text) {
            Ok(url) => Value::Url(url.into()),
            Err(why) => {
                let why = format!("URL parse error during conversion from string: {why}");
                return Some(Err(Failure::Error(why)));
            }
        },
        ("isURL", [Value::Text(text)]) => Value::Bool(Url::parse(text).is_ok()),
        ("getScheme", [Value::Url(url)]) => Value::text(url.scheme.as_str()),
        ("getHost", [Value::Url(url)]) => Value::text(url.host.as_str()),
        ("getHostname", [Value::Url(url)]) => Value::text(url.hostname()),
        ("getPort", [Value::Url(url)]) => Value::text(url.port()),
        ("getEscapedPath", [Value::Url(url)]) => Value::text(url.path.as_str()),
        ("getQuery", [Value::Url(url)]) => {
            let parameters = url.parameters().into_iter().map(|(name, values)| {
                let values: Vec<_> = values.into_iter().map(Value::text).collect();
                (Key::Text(name.into()), Value::List(Arc::new(values)))
            });
            Value::Map(Arc::new(parameters.collect()))
        }
        _ => return None,
    }))
}
