//! Machine: strategic merge patch, which merges lists by the merge keys of their types.
//!
//! Objects merge field by field, and null removes a field, as in a merge patch. Lists merge by the merge key of their
//! type, or are replaced if the type has none. Directives in the patch express other changes: `$patch`, `$retainKeys`,
//! `$deleteFromPrimitiveList/…` and `$setElementOrder/…`.

mod directives;
mod order;
mod convert;

pub use convert::check as check_restorable;

use serde_json::{Map, Value};
use steersman_apimachinery::go;
use steersman_apimachinery::status::{FieldError, GroupResource, Status};
use steersman_schema::types::{ListPatch, TypeRef};

use directives::{Directive, without_directives};

use crate::json_patch::not_of_type;
use crate::merge::drop_nulls;

/// Whether a list in the patch has elements to add to the object's list, or elements to delete from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Intent {
    Merge,
    Delete,
}

type ListMembers = Map<String, Value>;

/// Applies a strategic merge patch to `object`, which is of type `kind`.
///
/// # Errors
/// 400 for a document that is no object and for a malformed directive, 500 for an unknown directive and for an element
/// without its merge key, 422 for a result that does not fit the type.
pub fn apply(
    object: &Value,
    document: Result<Value, String>,
    kind: TypeRef<'_>,
) -> Result<Value, Status> {
    let patch = match document.map_err(Status::bad_request)? {
        Value::Object(patch) => patch,
        // A null patch changes nothing.
        Value::Null => ListMembers::new(),
        other => {
            let message = not_of_type(&other, "map[string]interface {}");
            return Err(Status::bad_request(message));
        }
    };
    let printed = go::print(&Value::Object(patch.clone()));
    let old = object.as_object().cloned().unwrap_or_default();
    let merged = Value::Object(merge(old, patch, kind)?);
    match convert::check(&merged, kind) {
        Ok(()) => Ok(merged),
        Err(why) => {
            let sent = go::quote(&printed);
            let error = FieldError::invalid("patch", &sent, &why);
            Err(Status::invalid(GroupResource::new("", ""), "", &[error]))
        }
    }
}

fn merge(
    mut old: ListMembers,
    mut patch: ListMembers,
    kind: TypeRef<'_>,
) -> Result<ListMembers, Status> {
    match Directive::of(&patch)? {
        Directive::None => {}
        Directive::Delete => return Ok(ListMembers::new()),
        Directive::Replace => {
            patch.remove(directives::PATCH);
            return Ok(patch);
        }
    }
    directives::retain(&mut old, &mut patch)?;
    order_lists(&mut old, &mut patch, kind)?;
    for (name, new) in patch {
        let (name, intent) = match name.strip_prefix(directives::DELETE_FROM) {
            None => (name.as_str(), Intent::Merge),
            Some(rest) => (
                directives::field(rest, directives::BAD_PRIMITIVE_LIST)?,
                Intent::Delete,
            ),
        };
        if new.is_null() {
            old.remove(name);
            continue;
        }
        let merged = match (old.remove(name), new) {
            (Some(Value::Object(old)), Value::Object(new)) => {
                let kind = member(kind, name)?;
                Some(Value::Object(merge(old, new, kind)?))
            }
            (Some(Value::Array(old)), Value::Array(new)) => {
                let kind = member(kind, name)?;
                Some(Value::Array(list(old, new, kind, intent)?))
            }
            (old, _) if intent == Intent::Delete => old,
            (Some(old), new) if is_plain(&old) && is_plain(&new) => Some(new),
            (_, mut new) => {
                drop_nulls(&mut new);
                without_directives(new)
            }
        };
        if let Some(merged) = merged {
            old.insert(name.to_owned(), merged);
        }
    }
    Ok(old)
}

/// Merges two lists of one type, or replaces the old list if its type has no merge key.
fn list(
    old: Vec<Value>,
    patch: Vec<Value>,
    kind: TypeRef<'_>,
    intent: Intent,
) -> Result<Vec<Value>, Status> {
    let key = match kind.list_patch() {
        ListPatch::Replace if intent == Intent::Merge => return Ok(patch),
        ListPatch::MergeBy(key) => Some(key),
        ListPatch::Replace | ListPatch::Union => None,
    };
    if old.is_empty() && patch.is_empty() {
        return Ok(old);
    }
    if !of_objects(old.iter().chain(&patch))? {
        if intent == Intent::Delete {
            return Ok(old.into_iter().filter(|one| !patch.contains(one)).collect());
        }
        let mut merged = old.clone();
        for one in &patch {
            if !merged.contains(one) {
                merged.push(one.clone());
            }
        }
        return order::enforce(merged, &patch, &old, None);
    }
    let Some(key) = key else {
        let name = kind.items().name().unwrap_or_default();
        return Err(Status::internal_plain(format!(
            "cannot merge lists without merge key for {name}"
        )));
    };
    let (old, patch) = special_elements(old, patch, key)?;
    let mut merged = old.clone();
    for one in &patch {
        let wanted = order::key_of(one, key)?;
        let found = merged.iter_mut().find(|old| old.get(key) == Some(wanted));
        match (found, one) {
            (Some(Value::Object(found)), Value::Object(new)) => {
                *found = merge(std::mem::take(found), new.clone(), kind.items())?;
            }
            _ => merged.extend(without_directives(one.clone())),
        }
    }
    order::enforce(merged, &patch, &old, Some(key))
}

/// Applies the elements with a `$patch` directive. Returns the other elements of the patch, to be merged.
fn special_elements(
    mut old: Vec<Value>,
    patch: Vec<Value>,
    key: &str,
) -> Result<(Vec<Value>, Vec<Value>), Status> {
    let mut plain = Vec::new();
    let mut replace = false;
    for one in patch {
        let Value::Object(members) = &one else {
            continue;
        };
        match Directive::of_element(members)? {
            Directive::None => plain.push(one),
            Directive::Replace => replace = true,
            Directive::Delete => {
                let gone = order::key_of(&one, key)?;
                old.retain(|old| old.get(key) != Some(gone));
            }
        }
    }
    Ok(if replace {
        (plain, Vec::new())
    } else {
        (old, plain)
    })
}

/// Merges each list that has a `$setElementOrder`, and sorts the result by that order.
fn order_lists(
    old: &mut ListMembers,
    patch: &mut ListMembers,
    kind: TypeRef<'_>,
) -> Result<(), Status> {
    let is_order = |name: &&String| name.starts_with(directives::SET_ORDER);
    let ordered: Vec<String> = patch.keys().filter(is_order).cloned().collect();
    for directive in ordered {
        let rest = directive.trim_start_matches(directives::SET_ORDER);
        let name = directives::field(rest, directives::BAD_ORDER)?;
        let wanted = directives::elements(patch.remove(&directive))?.unwrap_or_default();
        let before = directives::elements(old.get(name).cloned())?;
        let new = directives::elements(patch.get(name).cloned())?;
        let kind = member(kind, name)?;
        let key = match kind.list_patch() {
            ListPatch::MergeBy(key) => Some(key),
            ListPatch::Replace | ListPatch::Union => None,
        };
        order::check(new.as_deref().unwrap_or_default(), &wanted, key)?;
        let merged = match (before.clone(), new) {
            (None, None) => continue,
            (Some(before), None) => before,
            (None, Some(new)) => new.into_iter().filter_map(without_directives).collect(),
            (Some(before), Some(new)) => list(before, new, kind, Intent::Merge)?,
        };
        let before = before.unwrap_or_default();
        let merged = order::enforce(merged, &wanted, &before, key)?;
        old.insert(name.to_owned(), Value::Array(merged));
        patch.remove(name);
    }
    Ok(())
}

/// Returns the type of a member that both the object and the patch have.
fn member<'a>(kind: TypeRef<'a>, name: &str) -> Result<TypeRef<'a>, Status> {
    kind.field(name).ok_or_else(|| {
        let kind = kind.name().unwrap_or_default();
        Status::internal_plain(format!(
            "unable to find api field in struct {kind} for the json field {name:?}"
        ))
    })
}

/// Returns whether a list holds objects. Refuses a list of mixed elements and a list of lists.
fn of_objects<'v>(elements: impl Iterator<Item = &'v Value>) -> Result<bool, Status> {
    let mut objects = None;
    for element in elements {
        if element.is_array() {
            let message = "lists of lists are not supported";
            return Err(Status::failure(422, "", message));
        }
        let object = element.is_object();
        if *objects.get_or_insert(object) != object {
            let message = "list element types are not identical";
            return Err(Status::internal_plain(message));
        }
    }
    Ok(objects.unwrap_or_default())
}

fn is_plain(value: &Value) -> bool {
    !value.is_object() && !value.is_array()
}

#[cfg(test)]
mod tests;
