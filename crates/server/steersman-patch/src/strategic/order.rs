//! Machine: the order of a merged list: elements in `$setElementOrder` have its order, all others keep their positions.

use serde_json::Value;
use steersman_apimachinery::go;
use steersman_apimachinery::status::Status;

use super::directives::{BAD_ORDER, Directive};

/// Returns the merge key's value of a list element; 500 for an element without the key.
pub(super) fn key_of<'v>(element: &'v Value, key: &str) -> Result<&'v Value, Status> {
    element.get(key).ok_or_else(|| {
        Status::internal_plain(format!(
            "map: {} does not contain declared merge key: {key}",
            go::print(element)
        ))
    })
}

/// Checks that every element of `patch` that is not deleted is in `wanted`, in the same order. 500 for an element that
/// is missing or out of order, 400 for an element that is no object although there is a key.
pub(super) fn check(patch: &[Value], wanted: &[Value], key: Option<&str>) -> Result<(), Status> {
    let mut left = wanted.iter();
    for one in patch {
        if let (Some(_), Value::Object(members)) = (key, one)
            && Directive::of_element(members)? != Directive::None
        {
            continue;
        }
        let mut found = false;
        for other in left.by_ref() {
            if same(one, other, key)? {
                found = true;
                break;
            }
        }
        if !found {
            return Err(Status::internal_plain(format!(
                "The order in patch list:\n{}\n doesn't match $setElementOrder list:\n{}\n",
                go::print_list(patch),
                go::print_list(wanted)
            )));
        }
    }
    Ok(())
}

/// Sorts a merged list: elements in `wanted` have its order, and all other elements have their order in `before`. The
/// two groups interleave as in `before`.
pub(super) fn enforce(
    merged: Vec<Value>,
    wanted: &[Value],
    before: &[Value],
    key: Option<&str>,
) -> Result<Vec<Value>, Status> {
    let mut named = Vec::new();
    let mut others = Vec::new();
    for one in merged {
        match position(wanted, &one, key)? {
            Some(at) => named.push((at, position(before, &one, key)?, one)),
            None => others.push((position(before, &one, key)?, one)),
        }
    }
    named.sort_by_key(|(at, _, _)| *at);
    others.sort_by_key(|(at, _)| at.unwrap_or(usize::MAX));
    let mut named = named.into_iter().peekable();
    let mut others = others.into_iter().peekable();
    let mut ordered = Vec::new();
    loop {
        let other_first = match (others.peek(), named.peek()) {
            (Some((Some(other), _)), Some((_, Some(named), _))) => other < named,
            (Some(_), None) => true,
            (_, Some(_)) => false,
            (None, None) => return Ok(ordered),
        };
        if other_first {
            ordered.extend(others.next().map(|(_, one)| one));
        } else {
            ordered.extend(named.next().map(|(_, _, one)| one));
        }
    }
}

fn position(list: &[Value], one: &Value, key: Option<&str>) -> Result<Option<usize>, Status> {
    for (at, other) in list.iter().enumerate() {
        if same(one, other, key)? {
            return Ok(Some(at));
        }
    }
    Ok(None)
}

fn same(one: &Value, other: &Value, key: Option<&str>) -> Result<bool, Status> {
    let Some(key) = key else {
        return Ok(one == other);
    };
    if !one.is_object() || !other.is_object() {
        return Err(Status::bad_request(BAD_ORDER));
    }
    Ok(key_of(one, key)? == key_of(other, key)?)
}
