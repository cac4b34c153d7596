//! Machine: the functions of lists.

use std::sync::Arc;

use super::equality::{among_them, equal};
use super::operators::apply as operate;
use super::run::{Failure, Outcome, Run};
use crate::cost::cost_range::{PER_CHARACTER, floored, scaled};
use crate::value::{Key, Value};

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
        (
            "isSorted"
                | "sum"
                | "min"
                | "max"
                | "first"
                | "last"
                | "unwrapOpt"
                | "optional.unwrap"
                | "sort"
                | "reverse"
                | "distinct",
            0
        ) | ("indexOf" | "lastIndexOf" | "@sortByAssociatedKeys", 1)
            | ("join" | "flatten", 0 | 1)
            | ("slice", 2)
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
        ("first", _) => Ok(items
            .first()
            .map_or(Value::NONE, |one| Value::some(one.clone()))),
        ("last", _) => Ok(items
            .last()
            .map_or(Value::NONE, |one| Value::some(one.clone()))),
        ("unwrapOpt" | "optional.unwrap", _) => unwrap(&items),
        ("reverse", _) => {
            let cost = run.charge(listing(items.len(), 1.0));
            cost.map(|()| Value::List(Arc::new(items.into_iter().rev().collect())))
        }
        ("slice", [Value::Int(start), Value::Int(end)]) => slice(run, &items, *start, *end),
        ("flatten", []) => flatten(run, &items, 1),
        ("flatten", [Value::Int(depth)]) => flatten(run, &items, *depth),
        ("distinct", _) => distinct(run, items),
        ("sort", _) => sort(run, items.clone(), items),
        ("@sortByAssociatedKeys", [keys]) => match keys.items() {
            Ok(keys) => sort(run, keys, items),
            Err(why) => Err(Failure::Error(why)),
        },
        (_, [one]) => index_of(run, name, &items, one),
        _ => return None,
    })
}

/// Returns the cost of visiting all parts of a value.
pub(super) fn traversal(value: &Value<'_>) -> u64 {
    match value {
        Value::Text(text) => floored(text.len() as u64, PER_CHARACTER),
        Value::Bytes(bytes) => floored(bytes.len() as u64, PER_CHARACTER),
        list if list.is_list() => {
            let items = list.items().unwrap_or_default();
            items.iter().map(traversal).fold(0, u64::saturating_add)
        }
        map if map.is_map() => {
            let entry = |key: &Key| {
                let value = map.member(key).and_then(Result::ok);
                traversal(&key.value()).saturating_add(value.map_or(1, |value| traversal(&value)))
            };
            map.keys().iter().map(entry).fold(0, u64::saturating_add)
        }
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
        // The sum has a cost of its own.
        run.refund(1);
        run.work(1)?;
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

/// Returns the cost of creating a list: of its call, of the list, and `each` per item.
fn listing(count: usize, each: f64) -> u64 {
    let items = count as u64;
    11_u64.saturating_add(floored(items, each))
}

/// Returns the cost of comparing all pairs of a list's items.
fn comparing(items: &[Value<'_>]) -> u64 {
    let count = items.len();
    let each = match items.first() {
        Some(Value::Text(_) | Value::Bytes(_)) => 2.0 + PER_CHARACTER,
        _ => 2.0,
    };
    listing(count.saturating_mul(count), each)
}

/// Returns the integers from 0 up to `end`.
pub(super) fn range<'a>(run: &mut Run<'a, '_>, end: i64) -> Outcome<'a> {
    let count = usize::try_from(end).unwrap_or_default();
    run.charge(listing(count, 1.0))?;
    Ok(Value::List(Arc::new((0..end).map(Value::Int).collect())))
}

fn unwrap<'a>(items: &[Value<'a>]) -> Outcome<'a> {
    let mut held = Vec::new();
    for item in items {
        match item {
            Value::Optional(Some(value)) => held.push((**value).clone()),
            Value::Optional(None) => {}
            _ => return Err(Failure::overload()),
        }
    }
    Ok(Value::List(held.into()))
}

fn slice<'a>(run: &mut Run<'a, '_>, items: &[Value<'a>], start: i64, end: i64) -> Outcome<'a> {
    let refused = |why: String| {
        let why = format!("cannot slice({start}, {end}), {why}");
        Err(Failure::Error(why))
    };
    let (Ok(from), Ok(to)) = (usize::try_from(start), usize::try_from(end)) else {
        run.charge(listing(1, 1.0))?;
        return refused("negative indexes not supported".to_owned());
    };
    let Some(count) = to.checked_sub(from) else {
        run.charge(listing(1, 1.0))?;
        return refused("start index must be less than or equal to end index".to_owned());
    };
    let Some(part) = items.get(from..to) else {
        run.charge(listing(1, 1.0))?;
        return refused(format!("list is length {}", items.len()));
    };
    run.charge(listing(count, 1.0))?;
    Ok(Value::List(part.to_vec().into()))
}

fn flatten<'a>(run: &mut Run<'a, '_>, items: &[Value<'a>], depth: i64) -> Outcome<'a> {
    let Ok(depth) = u32::try_from(depth) else {
        run.charge(11)?;
        let why = if depth < 0 {
            "level must be non-negative"
        } else {
            "level is too high"
        };
        return Err(Failure::of(why));
    };
    run.charge(listing(items.len(), f64::from(depth)))?;
    let mut flat = Vec::new();
    flatten_into(run, items, depth, &mut flat)?;
    Ok(Value::List(flat.into()))
}

fn flatten_into<'a>(
    run: &mut Run<'a, '_>,
    items: &[Value<'a>],
    depth: u32,
    flat: &mut Vec<Value<'a>>,
) -> Result<(), Failure> {
    run.work(items.len() + 1)?;
    for item in items {
        match depth.checked_sub(1) {
            Some(depth) if item.is_list() => flatten_into(run, &item.items()?, depth, flat)?,
            _ => flat.push(item.clone()),
        }
    }
    Ok(())
}

fn distinct<'a>(run: &mut Run<'a, '_>, items: Vec<Value<'a>>) -> Outcome<'a> {
    run.charge(comparing(&items))?;
    let mut kept: Vec<Value<'a>> = Vec::new();
    for item in items {
        if !among_them(run, &item, &kept)? {
            kept.push(item);
        }
    }
    Ok(Value::List(kept.into()))
}

/// Returns `items` in the order of `keys`, which are the sort keys of the items.
fn sort<'a>(run: &mut Run<'a, '_>, keys: Vec<Value<'a>>, items: Vec<Value<'a>>) -> Outcome<'a> {
    run.charge(comparing(&keys))?;
    if keys.len() != items.len() {
        return Err(Failure::of(format!(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, but got {} and {} elements respectively",
            items.len(),
            keys.len()
        )));
    }
    let kind = keys.first().map_or("", Value::type_name).to_owned();
    if keys.iter().any(|key| key.type_name() != kind) {
        return Err(Failure::of("list elements must have the same type"));
    }
    if keys.first().is_some_and(|key| key.compare(key).is_none()) {
        return Err(Failure::of("list elements must be comparable"));
    }
    let mut pairs: Vec<(Value<'a>, Value<'a>)> = keys.into_iter().zip(items).collect();
    pairs.sort_by(|(a, _), (b, _)| a.compare(b).unwrap_or(std::cmp::Ordering::Equal));
    let sorted = pairs.into_iter().map(|(_, item)| item);
    Ok(Value::List(Arc::new(sorted.collect())))
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
    let by_length = by.chars().count();
    let count = |part: &&str| part.chars().count() + by_length;
    let length = parts.iter().map(count).sum::<usize>();
    let length = length.saturating_sub(by_length) as u64;
    run.charge(scaled(length, 2.0 * PER_CHARACTER))?;
    Ok(Value::text(parts.join(by)))
}
