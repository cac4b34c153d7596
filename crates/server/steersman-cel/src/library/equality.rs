//! Machine: decides whether two values are equal.

use serde_json::Value as Json;

use crate::cost_range::{PER_CHARACTER, scaled};
use crate::run::{EvalFailure, Run};
use crate::types::{ObjectType, Type, escape};
use crate::value::{MapKey, Value};

type JsonObject = serde_json::Map<String, Json>;

/// Evaluates `==` of two values, and charges the cost of comparing `size` characters.
pub(super) fn equality(
    run: &mut Run<'_>,
    a: &Value<'_>,
    b: &Value<'_>,
    size: u64,
) -> Result<bool, EvalFailure> {
    run.charge(scaled(size, PER_CHARACTER))?;
    // As in Kubernetes, the comparison of a declared list or map with a value of another type fails.
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

/// Returns whether two values are equal. Charges one step per compared part of a value.
pub(super) fn equal(run: &mut Run<'_>, a: &Value<'_>, b: &Value<'_>) -> Result<bool, EvalFailure> {
    run.work(1)?;
    if a.is_list() && b.is_list() {
        if a.size() != b.size() {
            return Ok(false);
        }
        let (left, right) = (a.items()?, b.items()?);
        // The items of a list of type `set` or `map` have no order.
        match identity(a) {
            Some(keys) if keys.is_empty() => return covers(run, &right, &left),
            Some(keys) => return equal_by_keys(run, &left, &right, &keys),
            None => {}
        }
        for (a, b) in left.iter().zip(&right) {
            if !equal(run, a, b)? {
                return Ok(false);
            }
        }
        return Ok(true);
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
        for key in keys {
            let (Some(left), Some(right)) = (a.member(&key), b.member(&key)) else {
                return Ok(false);
            };
            if !equal(run, &left?, &right?)? {
                return Ok(false);
            }
        }
        return Ok(true);
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
            if a.name != b.name || !a.fields.keys().eq(b.fields.keys()) {
                return Ok(false);
            }
            for (a, b) in a.fields.values().zip(b.fields.values()) {
                if !equal(run, a, b)? {
                    return Ok(false);
                }
            }
            true
        }
        _ => a.compare(b).is_some_and(std::cmp::Ordering::is_eq),
    })
}

/// Returns whether the items of a list of type `map` are equal to those of another list.
fn equal_by_keys(
    run: &mut Run<'_>,
    left: &[Value<'_>],
    right: &[Value<'_>],
    keys: &[MapKey],
) -> Result<bool, EvalFailure> {
    for one in right {
        let mut found = false;
        for other in left {
            if same(run, other, one, keys)? {
                found = equal(run, other, one)?;
                break;
            }
        }
        if !found {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns whether two objects with declared fields are equal. As upstream, an undeclared field is compared only if
/// both objects have the field.
fn equal_objects(
    run: &mut Run<'_>,
    (a, members): (&Value<'_>, &JsonObject),
    (b, others): (&Value<'_>, &JsonObject),
    object: &ObjectType,
) -> Result<bool, EvalFailure> {
    if members.len() != others.len() {
        return Ok(false);
    }
    for (name, value) in members {
        run.work(1)?;
        let equal = if object.json_field(name).is_some() {
            let key = MapKey::Text(name.as_str().into());
            match (a.member(&key), b.member(&key)) {
                (Some(left), Some(right)) => equal(run, &left?, &right?)?,
                (left, right) => left.is_none() && right.is_none(),
            }
        } else {
            match others.get(name) {
                Some(other) => equal_json(run, value, other)?,
                None => true,
            }
        };
        if !equal {
            return Ok(false);
        }
    }
    Ok(true)
}

fn equal_json(run: &mut Run<'_>, a: &Json, b: &Json) -> Result<bool, EvalFailure> {
    run.work(1)?;
    match (a, b) {
        (Json::Array(a), Json::Array(b)) => {
            for (a, b) in a.iter().zip(b) {
                if !equal_json(run, a, b)? {
                    return Ok(false);
                }
            }
            Ok(a.len() == b.len())
        }
        (Json::Object(a), Json::Object(b)) => {
            for (name, a) in a {
                match b.get(name) {
                    Some(b) if equal_json(run, a, b)? => {}
                    _ => return Ok(false),
                }
            }
            Ok(a.len() == b.len())
        }
        (a, b) => Ok(a == b),
    }
}

/// Returns whether the second list contains every value of the first list.
pub(super) fn covers(
    run: &mut Run<'_>,
    these: &[Value<'_>],
    among: &[Value<'_>],
) -> Result<bool, EvalFailure> {
    for one in these {
        if !among_them(run, one, among)? {
            return Ok(false);
        }
    }
    Ok(true)
}

pub(crate) fn among_them(
    run: &mut Run<'_>,
    one: &Value<'_>,
    among: &[Value<'_>],
) -> Result<bool, EvalFailure> {
    for other in among {
        if equal(run, one, other)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the fields that identify an item of a list: `None` if the index identifies it, and no fields if the whole
/// item does.
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
    for key in keys {
        let (a, b) = (a.member(key).transpose()?, b.member(key).transpose()?);
        let fits = match (a, b) {
            (Some(a), Some(b)) => equal(run, &a, &b)?,
            (None, None) => true,
            _ => false,
        };
        if !fits {
            return Ok(false);
        }
    }
    Ok(true)
}
