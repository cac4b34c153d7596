//! Machine: the functions of lists.

use super::operators::{apply as operate, equal};
use super::run::{Failure, Outcome, Run};
use crate::cost::cost_range::{PER_CHARACTER, scaled};
use crate::value::Value;

/// Applies a function of lists. Returns `None` if `name` is not a function of lists.
pub(super) fn apply<'a>(
    run: &mut Run<'a, '_>,
    name: &str,
    values: &[Value<'a>],
) -> Option<Outcome<'a>> {
    let (list, rest) = values.split_first()?;
    if !list.is_list() {
        return None;
    }
    let known = matches!(
        (name, rest.len()),
        ("isSorted" | "sum" | "min" | "max", 0) | ("indexOf" | "lastIndexOf", 1) | ("join", 0 | 1)
    );
    if !known {
        return None;
    }
    let items = match list.items() {
        Ok(items) => items,
        Err(why) => return Some(Err(Failure::Error(why))),
    };
    Some(match (name, rest) {
        ("isSorted", _) => is_sorted(&items),
        ("sum", _) => sum(run, &items),
        ("min" | "max", _) => extreme(name, &items),
        ("join", rest) => join(run, &items, rest),
        (_, [one]) => index_of(run, name, &items, one),
        _ => return None,
    })
}

/// Returns the cost of visiting all parts of a value.
pub(super) fn traversal(value: &Value<'_>) -> u64 {
    match value {
        Value::Text(text) => scaled(text.len() as u64, PER_CHARACTER),
        Value::Bytes(bytes) => scaled(bytes.len() as u64, PER_CHARACTER),
        list if list.is_list() => {
            let items = list.items().unwrap_or_default();
            items.iter().map(traversal).fold(0, u64::saturating_add)
        }
        map if map.is_map() => map.size(),
        _ => 1,
    }
}

fn is_sorted<'a>(items: &[Value<'a>]) -> Outcome<'a> {
    for pair in items.windows(2) {
        let order = pair[0].compare(&pair[1]).ok_or_else(Failure::overload)?;
        if order.is_gt() {
            return Ok(Value::Bool(false));
        }
    }
    Ok(Value::Bool(true))
}

fn sum<'a>(run: &mut Run<'a, '_>, items: &[Value<'a>]) -> Outcome<'a> {
    let Some((first, rest)) = items.split_first() else {
        return Ok(Value::Int(0));
    };
    let mut total = first.clone();
    for one in rest {
        let both = [total, one.clone()];
        total = operate(run, "_+_", &both).unwrap_or_else(|| Err(Failure::overload()))?;
    }
    Ok(total)
}

fn extreme<'a>(name: &str, items: &[Value<'a>]) -> Outcome<'a> {
    let Some((first, rest)) = items.split_first() else {
        return Err(Failure::of(format!("{name} called on empty list")));
    };
    let mut found = first;
    for one in rest {
        let order = one.compare(found).ok_or_else(Failure::overload)?;
        if (name == "min" && order.is_lt()) || (name == "max" && order.is_gt()) {
            found = one;
        }
    }
    Ok(found.clone())
}

fn index_of<'a>(
    run: &mut Run<'a, '_>,
    name: &str,
    items: &[Value<'a>],
    one: &Value<'a>,
) -> Outcome<'a> {
    let mut found = -1;
    for (index, item) in items.iter().enumerate() {
        if equal(run, item, one)? {
            found = i64::try_from(index).unwrap_or(i64::MAX);
            if name == "indexOf" {
                break;
            }
        }
    }
    Ok(Value::Int(found))
}

fn join<'a>(run: &mut Run<'a, '_>, items: &[Value<'a>], by: &[Value<'a>]) -> Outcome<'a> {
    let by = match by {
        [] => "",
        [Value::Text(by)] => by,
        _ => return Err(Failure::missing("join")),
    };
    let mut parts: Vec<&str> = Vec::with_capacity(items.len());
    for item in items {
        let Value::Text(text) = item else {
            return Err(Failure::missing("join"));
        };
        parts.push(text);
    }
    let length = parts
        .iter()
        .map(|part| part.len() + by.len())
        .sum::<usize>();
    run.charge(scaled(length as u64, 2.0 * PER_CHARACTER))?;
    Ok(Value::text(parts.join(by)))
}
