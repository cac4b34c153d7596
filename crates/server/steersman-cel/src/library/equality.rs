//! Machine: decides whether two values are equal.

use serde_json::Value as Json;

use crate::cost_range::{PER_CHARACTER, scaled};
use crate::run::{EvalFailure, Run};
use crate::types::{ObjectType, Type, escape};
use crate::value::{MapKey, Value};

type JsonObject = serde_json::Map<String, Json>;

/// Evaluates `a == b`, at the cost of comparing `size` characters.
pub(super) fn equality(
    run: &mut Run<'_>,
    a: &Value<'_>,
    b: &Value<'_>,
    size: u64,
) -> Result<bool, EvalFailure> {
    run.charge(scaled(size, PER_CHARACTER))?;
    // As in Kubernetes, comparing a list or map that a schema declares with another type fails, except with null.
    let unlike = match a {
        Value::JsonList(_, Some(_)) => !b.is_list(),
        Value::JsonMap(_, Some(_)) => !b.is_map(),
        _ => false,
    };
    if unlike && !matches!(b, Value::Null) {
        return Err(EvalFailure::overload());
    }
    equal(run, a, b)
}

/// Returns whether two values are equal, at any depth. Each compared part counts as a step of the run (CEL-1).
pub(super) fn equal(run: &mut Run<'_>, a: &Value<'_>, b: &Value<'_>) -> Result<bool, EvalFailure> {
    run.work(1)?;
    if a.is_list() && b.is_list() {
        if a.size() != b.size() {
            return Ok(false);
        }
        let (left, right) = (a.items()?, b.items()?);
        // The order of the items does not matter in a list with the `x-kubernetes-list-type` `set` or `map`.
        match identity(a) {
            Some(keys) if keys.is_empty() => return covers(run, &right, &left),
            Some(keys) => return equal_by_keys(run, &left, &right, &keys),
            None => {}
        }
        return all(left.iter().zip(&right), |(a, b)| equal(run, a, b));
    }
    if let (Value::JsonMap(members, Some(decl)), Value::JsonMap(others, _)) = (a, b)
        && let Type::Object(object) = &decl.kind
    {
        return equal_objects(run, (a, members), (b, others), object);
    }
    if a.is_map() && b.is_map() {
        let keys = a.keys();
        if keys.len() != b.keys().len() {
            return Ok(false);
        }
        return all(keys, |key| match (a.member(&key), b.member(&key)) {
            (Some(left), Some(right)) => equal(run, &left?, &right?),
            _ => Ok(false),
        });
    }
    Ok(match (a, b) {
        (Value::Null, Value::Null) | (Value::Optional(None), Value::Optional(None)) => true,
        (Value::Optional(Some(a)), Value::Optional(Some(b))) => equal(run, a, b)?,
        (Value::Type(a), Value::Type(b)) => a == b,
        (Value::Url(a), Value::Url(b)) => a == b,
        (Value::Ip(a), Value::Ip(b)) => a == b,
        (Value::Cidr(a), Value::Cidr(b)) => a == b,
        (Value::Named(a), Value::Named(b)) => a == b,
        (Value::Message(a), Value::Message(b)) => {
            let values = a.fields.values().zip(b.fields.values());
            a.name == b.name
                && a.fields.keys().eq(b.fields.keys())
                && all(values, |(a, b)| equal(run, a, b))?
        }
        _ => a.compare(b).is_some_and(std::cmp::Ordering::is_eq),
    })
}

/// Returns whether `holds` is true for all items. Stops at the first item for which it is false or fails.
pub(super) fn all<T>(
    items: impl IntoIterator<Item = T>,
    mut holds: impl FnMut(T) -> Result<bool, EvalFailure>,
) -> Result<bool, EvalFailure> {
    for item in items {
        if !holds(item)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns whether `holds` is true for any item. Stops at the first item for which it is true or fails.
pub(super) fn any<T>(
    items: impl IntoIterator<Item = T>,
    mut holds: impl FnMut(T) -> Result<bool, EvalFailure>,
) -> Result<bool, EvalFailure> {
    Ok(!all(items, |item| Ok(!holds(item)?))?)
}

/// Returns whether each item of a list of type `map` equals the item with the same key fields in the other list.
fn equal_by_keys(
    run: &mut Run<'_>,
    left: &[Value<'_>],
    right: &[Value<'_>],
    keys: &[MapKey],
) -> Result<bool, EvalFailure> {
    all(right, |one| {
        for other in left {
            if same(run, other, one, keys)? {
                return equal(run, other, one);
            }
        }
        Ok(false)
    })
}

/// Returns whether two objects with declared fields are equal. As in Kubernetes, a field that the schema does not
/// declare is compared only if both objects have it.
fn equal_objects(
    run: &mut Run<'_>,
    (a, members): (&Value<'_>, &JsonObject),
    (b, others): (&Value<'_>, &JsonObject),
    object: &ObjectType,
) -> Result<bool, EvalFailure> {
    if members.len() != others.len() {
        return Ok(false);
    }
    all(members, |(name, value)| {
        run.work(1)?;
        if object.json_field(name).is_none() {
            let other = others.get(name);
            return other.map_or(Ok(true), |other| equal_json(run, value, other));
        }
        let key = MapKey::Text(name.as_str().into());
        match (a.member(&key), b.member(&key)) {
            (Some(left), Some(right)) => equal(run, &left?, &right?),
            (left, right) => Ok(left.is_none() && right.is_none()),
        }
    })
}

fn equal_json(run: &mut Run<'_>, a: &Json, b: &Json) -> Result<bool, EvalFailure> {
    run.work(1)?;
    match (a, b) {
        (Json::Array(a), Json::Array(b)) => {
            let equal = all(a.iter().zip(b), |(a, b)| equal_json(run, a, b))?;
            Ok(equal && a.len() == b.len())
        }
        (Json::Object(a), Json::Object(b)) => {
            let equal = all(a, |(name, a)| match b.get(name) {
                Some(b) => equal_json(run, a, b),
                None => Ok(false),
            })?;
            Ok(equal && a.len() == b.len())
        }
        (a, b) => Ok(a == b),
    }
}

/// Returns whether `among` contains every value of `these`.
pub(super) fn covers(
    run: &mut Run<'_>,
    these: &[Value<'_>],
    among: &[Value<'_>],
) -> Result<bool, EvalFailure> {
    all(these, |one| among_them(run, one, among))
}

pub(crate) fn among_them(
    run: &mut Run<'_>,
    one: &Value<'_>,
    among: &[Value<'_>],
) -> Result<bool, EvalFailure> {
    any(among, |other| equal(run, one, other))
}

/// Returns the key fields by which an item of a list is identified: `None` if its index identifies it, and an empty
/// list if its whole value does (type `set`).
pub(super) fn identity(list: &Value<'_>) -> Option<Vec<MapKey>> {
    let Value::JsonList(_, Some(decl)) = list else {
        return None;
    };
    match decl.list_type.as_str() {
        "set" => Some(Vec::new()),
        "map" => {
            let keys = decl.keys.iter().filter_map(|key| escape(key));
            Some(keys.map(|key| MapKey::Text(key.into())).collect())
        }
        _ => None,
    }
}

pub(super) fn same(
    run: &mut Run<'_>,
    a: &Value<'_>,
    b: &Value<'_>,
    keys: &[MapKey],
) -> Result<bool, EvalFailure> {
    if keys.is_empty() {
        return equal(run, a, b);
    }
    all(keys, |key| {
        match (a.member(key).transpose()?, b.member(key).transpose()?) {
            (Some(a), Some(b)) => equal(run, &a, &b),
            (left, right) => Ok(left.is_none() && right.is_none()),
        }
    })
}
