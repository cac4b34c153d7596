//! Machine: parses, applies and removes the directives of a strategic merge patch.

use serde_json::{Map, Value};
use steersman_apimachinery::go;
use steersman_apimachinery::status::Status;

/// The directive that a map or a list element is merged, replaced or deleted.
pub(super) const PATCH: &str = "$patch";
/// The directive with the keys that stay in a map; all other keys are removed.
const RETAIN: &str = "$retainKeys";
/// The prefix of the directive `$deleteFromPrimitiveList/<field>`, with scalars to delete from the list in this field.
pub(super) const DELETE_FROM: &str = "$deleteFromPrimitiveList";
/// The prefix of the directive `$setElementOrder/<field>`, with the order of the merged list in this field.
pub(super) const SET_ORDER: &str = "$setElementOrder";

/// The message for a malformed `$deleteFromPrimitiveList`.
pub(super) const BAD_PRIMITIVE_LIST: &str = "invalid patch format of primitive list";
/// The message for a malformed `$setElementOrder`.
pub(super) const BAD_ORDER: &str = "invalid patch format of setElementOrder list";

/// The value of a `$patch` directive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Directive {
    None,
    Replace,
    Delete,
}

impl Directive {
    pub(super) fn of(patch: &Map<String, Value>) -> Result<Self, Status> {
        match patch.get(PATCH) {
            None => Ok(Self::None),
            Some(Value::String(name)) if name == "replace" => Ok(Self::Replace),
            Some(Value::String(name)) if name == "delete" => Ok(Self::Delete),
            Some(other) => {
                let map = go::print(&Value::Object(patch.clone()));
                let message = format!("unknown patch type: {} in map: {map}", go::print(other));
                Err(Status::internal_plain(message))
            }
        }
    }

    /// Reads the `$patch` directive of a list element, for which `merge` is refused with its own message.
    pub(super) fn of_element(patch: &Map<String, Value>) -> Result<Self, Status> {
        if patch.get(PATCH).is_some_and(|name| name == "merge") {
            let message = "merging lists cannot yet be specified in the patch";
            return Err(Status::internal_plain(message));
        }
        Self::of(patch)
    }
}

/// Returns the field name in a directive's name, after the slash.
pub(super) fn field<'a>(rest: &'a str, refusal: &str) -> Result<&'a str, Status> {
    rest.strip_prefix('/')
        .ok_or_else(|| Status::bad_request(refusal))
}

/// Returns the elements of a value that must be a list; `None` if the value is absent.
pub(super) fn elements(value: Option<Value>) -> Result<Option<Vec<Value>>, Status> {
    match value {
        None => Ok(None),
        Some(Value::Array(items)) => Ok(Some(items)),
        Some(_) => Err(Status::bad_request(BAD_ORDER)),
    }
}

/// Applies `$retainKeys`, which must list every key that the patch sets: removes the unlisted keys of the old map.
pub(super) fn retain(
    old: &mut Map<String, Value>,
    patch: &mut Map<String, Value>,
) -> Result<(), Status> {
    let Some(kept) = patch.remove(RETAIN) else {
        return Ok(());
    };
    let refusal = || Status::bad_request("invalid patch format of retainKeys");
    let kept = kept.as_array().ok_or_else(refusal)?;
    let keeps = |name: &str| kept.iter().any(|one| one == name);
    let mut set = patch.iter().filter(|(_, value)| !value.is_null());
    if set.any(|(name, _)| !is_of_list(name) && !keeps(name)) {
        return Err(refusal());
    }
    old.retain(|name, _| keeps(name));
    Ok(())
}

/// Returns whether a member is a directive for a list.
fn is_of_list(name: &str) -> bool {
    name.starts_with(DELETE_FROM) || name.starts_with(SET_ORDER)
}

/// Returns a new value without the directives in it; `None` if a directive deletes the value.
pub(super) fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(members) => {
            if members.get(PATCH).is_some_and(|name| name == "delete") {
                return None;
            }
            let kept = members.into_iter().filter_map(|(name, member)| {
                if matches!(name.as_str(), PATCH | RETAIN) || is_of_list(&name) {
                    return None;
                }
                without_directives(member).map(|member| (name, member))
            });
            Some(Value::Object(kept.collect()))
        }
        Value::Array(items) => {
            let kept = items.into_iter().filter_map(without_directives);
            Some(Value::Array(kept.collect()))
        }
        plain => Some(plain),
    }
}
