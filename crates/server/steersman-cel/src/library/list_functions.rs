//! Machine: the functions of lists and sets.

use std::cmp::Ordering;
use std::sync::Arc;

use super::equality::{all, among_them, any, covers, equal};
use super::{Cost, Row, operators, string_functions};
use crate::cost_range::{PER_CHARACTER, Range, floored, scaled};
use crate::run::{EvalFailure, EvalOutcome, Run};
use crate::value::{MapKey, Value};

/// The cost of a call that visits all parts of its first value, a list or string, such as `sum` and `indexOf`.
const TRAVERSAL: Cost = Cost::Values(|values| values.first().map_or(0, traversal));

/// The cost of a call that compares each item of one list with each item of another: 1 per pair, plus 1.
const PAIRS: Cost = Cost::Sizes(|size| size(0).times(size(1)).plus(Range::exactly(1)));
/// The cost of a call that compares the items of two lists in both directions: 2 per pair of items, plus 1.
const PAIRS_TWICE: Cost =
    Cost::Sizes(|size| size(0).times(size(1)).scaled(2.0).plus(Range::exactly(1)));

#[rustfmt::skip]
pub(super) const FUNCTIONS: &[Row] = &[
    ("size", "size_bytes (y)i size_list (lA)i size_map (mAB)i size_string (s)i",
        Cost::PerCall, size),
    ("size", "bytes_size (y.)i list_size (lA.)i map_size (mAB.)i string_size (s.)i",
        Cost::PerCall, size),
    ("isSorted", "list_int_is_sorted_bool (li.)b list_uint_is_sorted_bool (lu.)b list_double_is_sorted_bool (ld.)b list_bool_is_sorted_bool (lb.)b list_string_is_sorted_bool (ls.)b list_bytes_is_sorted_bool (ly.)b list_timestamp_is_sorted_bool (lT.)b list_duration_is_sorted_bool (lD.)b",
        TRAVERSAL, |_, values| of_items(values, |items| is_sorted(&items))),
    ("sum", "list_int_sum_int (li.)i list_uint_sum_uint (lu.)u list_double_sum_double (ld.)d list_duration_sum_duration (lD.)D",
        TRAVERSAL, |run, values| of_items(values, |items| sum(run, &items))),
    ("min", "list_int_min_int (li.)i list_uint_min_uint (lu.)u list_double_min_double (ld.)d list_bool_min_bool (lb.)b list_string_min_string (ls.)s list_bytes_min_bytes (ly.)y list_timestamp_min_timestamp (lT.)T list_duration_min_duration (lD.)D",
        TRAVERSAL, |_, values| of_items(values, |items| extreme("min", &items, Ordering::is_lt))),
    ("max", "list_int_max_int (li.)i list_uint_max_uint (lu.)u list_double_max_double (ld.)d list_bool_max_bool (lb.)b list_string_max_string (ls.)s list_bytes_max_bytes (ly.)y list_timestamp_max_timestamp (lT.)T list_duration_max_duration (lD.)D",
        TRAVERSAL, |_, values| of_items(values, |items| extreme("max", &items, Ordering::is_gt))),
    ("indexOf", "string_index_of_string (s.s)i string_index_of_string_int (s.si)i list_a_index_of_int (lA.A)i",
        TRAVERSAL, |run, values| index_of(run, values, true)),
    ("lastIndexOf", "string_last_index_of_string (s.s)i string_last_index_of_string_int (s.si)i list_a_last_index_of_int (lA.A)i",
        TRAVERSAL, |run, values| index_of(run, values, false)),
    ("join", "list_join (ls.)s list_join_string (ls.s)s", Cost::Own, join),
    ("first", "list_first (lA.)oA",
        Cost::PerCall, |_, values| of_items(values, |items| Ok(optional(items.first())))),
    ("last", "list_last (lA.)oA",
        Cost::PerCall, |_, values| of_items(values, |items| Ok(optional(items.last())))),
    ("slice", "list_slice (lA.ii)lA",
        Cost::Own, slice),
    ("flatten", "list_flatten (llA.)lA list_flatten_int (l*.i)l*", Cost::Own, flatten),
    ("reverse", "list_reverse (lA.)lA",
        Cost::Own, |run, values| of_items(values, |items| reverse(run, items))),
    ("distinct", "list_distinct (lA.)lA",
        Cost::Own, |run, values| of_items(values, |items| distinct(run, items))),
    ("sort", "list_int_sort (li.)li list_uint_sort (lu.)lu list_double_sort (ld.)ld list_bool_sort (lb.)lb list_duration_sort (lD.)lD list_timestamp_sort (lT.)lT list_string_sort (ls.)ls list_bytes_sort (ly.)ly",
        Cost::Own, |run, values| of_items(values, |items| sort(run, items.clone(), items))),
    ("@sortByAssociatedKeys", "list_int_sortByAssociatedKeys (lA.li)lA list_uint_sortByAssociatedKeys (lA.lu)lA list_double_sortByAssociatedKeys (lA.ld)lA list_bool_sortByAssociatedKeys (lA.lb)lA list_duration_sortByAssociatedKeys (lA.lD)lA list_timestamp_sortByAssociatedKeys (lA.lT)lA list_string_sortByAssociatedKeys (lA.ls)lA list_bytes_sortByAssociatedKeys (lA.ly)lA",
        Cost::Own, sort_by_keys),
    ("lists.range", "lists_range (i)li", Cost::Own, accepts!(|run, [Value::Int(end)]| range(run, *end))),
    ("optional.unwrap", "optional_unwrap (loA)lA",
        Cost::PerCall, |_, values| of_items(values, |items| unwrap(&items))),
    ("unwrapOpt", "optional_unwrapOpt (loA.)lA",
        Cost::PerCall, |_, values| of_items(values, |items| unwrap(&items))),
    ("sets.contains", "list_sets_contains_list (lAlA)b",
        PAIRS, |run, values| of_sets(values, |a, b| covers(run, b, a))),
    ("sets.equivalent", "list_sets_equivalent_list (lAlA)b",
        PAIRS_TWICE, |run, values| of_sets(values, |a, b| Ok(covers(run, a, b)? && covers(run, b, a)?))),
    ("sets.intersects", "list_sets_intersects_list (lAlA)b",
        PAIRS, |run, values| of_sets(values, |a, b| any(a, |one| among_them(run, one, b)))),
];

fn of_items<'a>(
    values: &[Value<'a>],
    evaluate: impl FnOnce(Vec<Value<'a>>) -> EvalOutcome<'a>,
) -> Option<EvalOutcome<'a>> {
    let list = values.first().filter(|value| value.is_list())?;
    Some(list.items().map_err(EvalFailure::Error).and_then(evaluate))
}

fn of_sets<'a>(
    values: &[Value<'a>],
    holds: impl FnOnce(&[Value<'a>], &[Value<'a>]) -> Result<bool, EvalFailure>,
) -> Option<EvalOutcome<'a>> {
    let [a, b] = values else { return None };
    let items = a.items().and_then(|a| Ok((a, b.items()?)));
    let items = items.map_err(EvalFailure::Error);
    Some(items.and_then(|(a, b)| holds(&a, &b)).map(Value::Bool))
}

fn size<'a>(_: &mut Run<'_>, values: &[Value<'a>]) -> Option<EvalOutcome<'a>> {
    let [of] = values else { return None };
    let sized = of.is_list() || of.is_map() || matches!(of, Value::Text(_) | Value::Bytes(_));
    sized.then(|| Ok(Value::Int(i64::try_from(of.size()).unwrap_or(i64::MAX))))
}

fn optional<'a>(item: Option<&Value<'a>>) -> Value<'a> {
    item.map_or(Value::NONE, |item| Value::some(item.clone()))
}

fn traversal(value: &Value<'_>) -> u64 {
    match value {
        Value::Text(text) => floored(text.len() as u64, PER_CHARACTER),
        Value::Bytes(bytes) => floored(bytes.len() as u64, PER_CHARACTER),
        list if list.is_list() => {
            let items = list.items().unwrap_or_default();
            items.iter().map(traversal).fold(0, u64::saturating_add)
        }
        map if map.is_map() => {
            let entry = |key: &MapKey| {
                let value = map.member(key).and_then(Result::ok);
                traversal(&key.value()).saturating_add(value.map_or(1, |value| traversal(&value)))
            };
            map.keys().iter().map(entry).fold(0, u64::saturating_add)
        }
        _ => 1,
    }
}

fn is_sorted<'a>(items: &[Value<'a>]) -> EvalOutcome<'a> {
    let in_order = |pair: &[Value<'a>]| {
        let order = pair[0].compare(&pair[1]);
        order.map(Ordering::is_le).ok_or_else(EvalFailure::overload)
    };
    all(items.windows(2), in_order).map(Value::Bool)
}

fn sum<'a>(run: &mut Run<'_>, items: &[Value<'a>]) -> EvalOutcome<'a> {
    let Some((first, rest)) = items.split_first() else {
        return Ok(Value::Int(0));
    };
    let mut total = first.clone();
    for one in rest {
        total = operators::add(run, total, one)?;
        // `add` has charged 1. This is given back, because the cost of the call of `sum` includes all additions.
        run.refund(1);
        run.work(1)?;
    }
    Ok(total)
}

fn extreme<'a>(name: &str, items: &[Value<'a>], replaces: fn(Ordering) -> bool) -> EvalOutcome<'a> {
    let Some((first, rest)) = items.split_first() else {
        return Err(EvalFailure::of(format!("{name} called on empty list")));
    };
    let mut found = first;
    for one in rest {
        let order = one.compare(found).ok_or_else(EvalFailure::overload)?;
        if replaces(order) {
            found = one;
        }
    }
    Ok(found.clone())
}

/// Returns the index of the first or last occurrence of a value in a string or list; -1 if there is none.
fn index_of<'a>(run: &mut Run<'_>, values: &[Value<'a>], first: bool) -> Option<EvalOutcome<'a>> {
    let [list, one] = values else {
        return string_functions::index_of(values, first);
    };
    if !list.is_list() {
        return string_functions::index_of(values, first);
    }
    of_items(values, |items| {
        let mut found = -1;
        for (index, item) in items.iter().enumerate() {
            if equal(run, item, one)? {
                found = i64::try_from(index).unwrap_or(i64::MAX);
                if first {
                    break;
                }
            }
        }
        Ok(Value::Int(found))
    })
}

/// Returns the cost of a call that creates a list: 1 for the call, 10 for the list, and `each` per item.
fn listing(count: usize, each: f64) -> u64 {
    let items = count as u64;
    11_u64.saturating_add(floored(items, each))
}

/// Returns the cost of a call that compares every item of a list with every other item, such as a sort.
fn comparing(items: &[Value<'_>]) -> u64 {
    let count = items.len();
    let each = match items.first() {
        Some(Value::Text(_) | Value::Bytes(_)) => 2.0 + PER_CHARACTER,
        _ => 2.0,
    };
    listing(count.saturating_mul(count), each)
}

fn range<'a>(run: &mut Run<'_>, end: i64) -> EvalOutcome<'a> {
    let count = usize::try_from(end).unwrap_or_default();
    run.charge(listing(count, 1.0))?;
    Ok(Value::List(Arc::new((0..end).map(Value::Int).collect())))
}

fn reverse<'a>(run: &mut Run<'_>, items: Vec<Value<'a>>) -> EvalOutcome<'a> {
    run.charge(listing(items.len(), 1.0))?;
    Ok(Value::List(Arc::new(items.into_iter().rev().collect())))
}

fn unwrap<'a>(items: &[Value<'a>]) -> EvalOutcome<'a> {
    let mut held = Vec::new();
    for item in items {
        match item {
            Value::Optional(Some(value)) => held.push((**value).clone()),
            Value::Optional(None) => {}
            _ => return Err(EvalFailure::overload()),
        }
    }
    Ok(Value::List(held.into()))
}

fn slice<'a>(run: &mut Run<'_>, values: &[Value<'a>]) -> Option<EvalOutcome<'a>> {
    let [_, Value::Int(start), Value::Int(end)] = values else {
        return None;
    };
    of_items(values, |items| part_of(run, &items, *start, *end))
}

fn part_of<'a>(run: &mut Run<'_>, items: &[Value<'a>], start: i64, end: i64) -> EvalOutcome<'a> {
    let part = match (usize::try_from(start), usize::try_from(end)) {
        (Ok(from), Ok(to)) if from <= to => {
            let part = items.get(from..to);
            part.ok_or_else(|| format!("list is length {}", items.len()))
        }
        (Ok(_), Ok(_)) => Err("start index must be less than or equal to end index".to_owned()),
        _ => Err("negative indexes not supported".to_owned()),
    };
    // A call with wrong indexes costs as much as a call that returns one item.
    let count = part.as_ref().map_or(1, |part| part.len());
    run.charge(listing(count, 1.0))?;
    let refused = |why: String| EvalFailure::of(format!("cannot slice({start}, {end}), {why}"));
    Ok(Value::List(part.map_err(refused)?.to_vec().into()))
}

fn flatten<'a>(run: &mut Run<'_>, values: &[Value<'a>]) -> Option<EvalOutcome<'a>> {
    let depth = match values {
        [_] => 1,
        [_, Value::Int(depth)] => *depth,
        _ => return None,
    };
    of_items(values, |items| flattened(run, &items, depth))
}

fn flattened<'a>(run: &mut Run<'_>, items: &[Value<'a>], depth: i64) -> EvalOutcome<'a> {
    let Ok(depth) = u32::try_from(depth) else {
        run.charge(11)?;
        let why = if depth < 0 {
            "level must be non-negative"
        } else {
            "level is too high"
        };
        return Err(EvalFailure::of(why));
    };
    run.charge(listing(items.len(), f64::from(depth)))?;
    let mut flat = Vec::new();
    flatten_into(run, items, depth, &mut flat)?;
    Ok(Value::List(flat.into()))
}

fn flatten_into<'a>(
    run: &mut Run<'_>,
    items: &[Value<'a>],
    depth: u32,
    flat: &mut Vec<Value<'a>>,
) -> Result<(), EvalFailure> {
    run.work(items.len() + 1)?;
    for item in items {
        match depth.checked_sub(1) {
            Some(depth) if item.is_list() => flatten_into(run, &item.items()?, depth, flat)?,
            _ => flat.push(item.clone()),
        }
    }
    Ok(())
}

fn distinct<'a>(run: &mut Run<'_>, items: Vec<Value<'a>>) -> EvalOutcome<'a> {
    run.charge(comparing(&items))?;
    let mut kept: Vec<Value<'a>> = Vec::new();
    for item in items {
        if !among_them(run, &item, &kept)? {
            kept.push(item);
        }
    }
    Ok(Value::List(kept.into()))
}

fn sort_by_keys<'a>(run: &mut Run<'_>, values: &[Value<'a>]) -> Option<EvalOutcome<'a>> {
    let [_, keys] = values else { return None };
    of_items(values, |items| sort(run, keys.items()?, items))
}

/// Returns `items` in the order of `keys`; `keys[i]` is the sort key of `items[i]`.
fn sort<'a>(run: &mut Run<'_>, keys: Vec<Value<'a>>, items: Vec<Value<'a>>) -> EvalOutcome<'a> {
    run.charge(comparing(&keys))?;
    if keys.len() != items.len() {
        return Err(EvalFailure::of(format!(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, but got {} and {} elements respectively",
            items.len(),
            keys.len()
        )));
    }
    let kind = keys.first().map_or("", Value::type_name).to_owned();
    if keys.iter().any(|key| key.type_name() != kind) {
        return Err(EvalFailure::of("list elements must have the same type"));
    }
    if keys.first().is_some_and(|key| key.compare(key).is_none()) {
        return Err(EvalFailure::of("list elements must be comparable"));
    }
    let mut pairs: Vec<(Value<'a>, Value<'a>)> = keys.into_iter().zip(items).collect();
    pairs.sort_by(|(a, _), (b, _)| a.compare(b).unwrap_or(Ordering::Equal));
    let sorted = pairs.into_iter().map(|(_, item)| item);
    Ok(Value::List(Arc::new(sorted.collect())))
}

fn join<'a>(run: &mut Run<'_>, values: &[Value<'a>]) -> Option<EvalOutcome<'a>> {
    let by = match values {
        [_] => "",
        [_, Value::Text(by)] => by,
        _ => return None,
    };
    of_items(values, |items| joined(run, &items, by))
}

fn joined<'a>(run: &mut Run<'_>, items: &[Value<'a>], by: &str) -> EvalOutcome<'a> {
    let mut parts: Vec<&str> = Vec::with_capacity(items.len());
    for item in items {
        let Value::Text(text) = item else {
            return Err(EvalFailure::missing("join"));
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
