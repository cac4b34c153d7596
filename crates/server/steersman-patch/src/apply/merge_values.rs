//! Machine: merges an applied configuration into an object, and removes fields from an object.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};
use steersman_schema::types::{ListKind, TypeRef};

use super::field_set::{FieldNode, FieldSet};
use super::path_element::PathElement;
use super::typed_value::{
    SharedForm, check_configuration, complete, form, identified, identify, is_hollow, items,
    member_type,
};

/// Merges a configuration into an object without recording owners, for mutating admission policies (upstream:
/// `apiserver/pkg/admission/plugin/policy/mutating/patch/smd.go`).
///
/// # Errors
/// Fails if the configuration does not fit the type, or would replace a whole atomic value.
pub fn merge_configuration(
    ty: TypeRef<'_>,
    live: &Value,
    configuration: &Value,
) -> Result<Value, String> {
    check_configuration(ty, configuration)
        .map_err(|wrong| format!("failed to convert patch object to typed object: {wrong}"))?;
    let mut pieces = Vec::new();
    find_pieces(ty, configuration, "", &mut pieces);
    if !pieces.is_empty() {
        return Err(format!(
            "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {}",
            pieces.join(", ")
        ));
    }
    let mut merged = merge(ty, live, configuration);
    if !ty.is_custom() {
        complete(ty, &mut merged);
    }
    Ok(merged)
}

/// Adds the paths of the maps and lists that their type declares atomic to `found`.
fn find_pieces(ty: TypeRef<'_>, value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            if ty.is_atomic_map() {
                found.push(path.to_owned());
            }
            for (name, member) in members.iter().filter(|(name, _)| ty.declares(name)) {
                let path = format!("{path}{}", PathElement::field(name));
                find_pieces(member_type(ty, name), member, &path, found);
            }
        }
        Value::Array(items) => {
            if ty.list() == ListKind::Atomic {
                found.push(path.to_owned());
            }
            for (at, item) in items.iter().enumerate() {
                find_pieces(ty.items(), item, &format!("{path}[{at}]"), found);
            }
        }
        _ => {}
    }
}

pub(super) fn merge(ty: TypeRef<'_>, live: &Value, configuration: &Value) -> Value {
    place(ty, Some(live), Some(configuration)).unwrap_or(Value::Null)
}

fn place(ty: TypeRef<'_>, left: Option<&Value>, right: Option<&Value>) -> Option<Value> {
    let whole = || right.or(left).cloned();
    let alike = match (left.map(|v| form(ty, v)), right.map(|v| form(ty, v))) {
        (Some(left), Some(right)) if left == right => left,
        // If one side is null, the value of the other side decides about the form.
        (Some(form), Some(_)) if right.is_some_and(Value::is_null) => form,
        (Some(one), None) | (None, Some(one)) => one,
        _ => SharedForm::Leaf,
    };
    if alike == SharedForm::Leaf || (is_hollow(left) && is_hollow(right)) {
        return whole();
    }
    if alike == SharedForm::Members {
        let merged = members(ty, left, right);
        (!merged.is_empty()).then_some(Value::Object(merged))
    } else {
        let merged = elements(ty, items(left), items(right));
        (!merged.is_empty()).then_some(Value::Array(merged))
    }
}

/// Returns whether an object already has each value of a configuration, so that a merge leaves the object unchanged.
/// `false` does not mean that a merge changes the object.
///
/// A null creation time, which Go writes in each object, counts as absent: no request sets this time.
pub(super) fn holds(ty: TypeRef<'_>, live: &Value, configuration: &Value) -> bool {
    hold(ty, live, configuration, &["metadata", "creationTimestamp"])
}

/// Compares as [`holds`] does. A null at the path `unset` counts as absent.
fn hold(ty: TypeRef<'_>, live: &Value, configuration: &Value, unset: &[&str]) -> bool {
    let alike = form(ty, live);
    let is_leaf = alike == SharedForm::Leaf || live.is_null() || configuration.is_null();
    if is_leaf || alike != form(ty, configuration) {
        return alike == form(ty, configuration) && live == configuration;
    }
    match (live, configuration) {
        (Value::Object(live), Value::Object(configuration)) => {
            configuration.keys().all(|name| live.contains_key(name))
                && live.iter().all(|(name, value)| {
                    let ty = member_type(ty, name);
                    let unset = match unset {
                        [first, below @ ..] if first == name => Some(below),
                        _ => None,
                    };
                    match configuration.get(name) {
                        Some(Value::Null) if unset == Some(&[]) => true,
                        Some(configured) => hold(ty, value, configured, unset.unwrap_or_default()),
                        None => is_mergeable(ty, value),
                    }
                })
        }
        (Value::Array(live), Value::Array(configuration)) => hold_elements(ty, live, configuration),
        _ => false,
    }
}

/// Compares two lists as [`holds`] does. The elements of the configuration must have the order of the object.
fn hold_elements(ty: TypeRef<'_>, live: &[Value], configuration: &[Value]) -> bool {
    let mut seen = BTreeSet::new();
    let mut configured = identified(ty, configuration).into_iter().peekable();
    let all = live.iter().all(|item| {
        let Ok(element) = identify(ty, item) else {
            return false;
        };
        let of_element = configured.next_if(|(next, _)| *next == element);
        let fits = match of_element {
            Some((_, of_element)) => hold(ty.items(), item, of_element, &[]),
            None => is_mergeable(ty.items(), item),
        };
        fits && seen.insert(element)
    });
    // `identified` leaves out an element without an identity of its own.
    all && configured.peek().is_none() && identified(ty, configuration).len() == configuration.len()
}

/// Returns whether a merge with nothing keeps a value: every element of the lists in the value has an identity.
fn is_mergeable(ty: TypeRef<'_>, value: &Value) -> bool {
    let keeps = |(name, member): (&String, &Value)| is_mergeable(member_type(ty, name), member);
    let keeps_item = |item: &Value| identify(ty, item).is_ok() && is_mergeable(ty.items(), item);
    match (form(ty, value), value) {
        (SharedForm::Members, Value::Object(members)) => members.iter().all(keeps),
        (SharedForm::Elements, Value::Array(items)) => items.iter().all(keeps_item),
        _ => true,
    }
}

fn members(ty: TypeRef<'_>, left: Option<&Value>, right: Option<&Value>) -> Map<String, Value> {
    let mut merged = Map::new();
    let sides = [left, right].map(|side| side.and_then(Value::as_object));
    for name in sides.iter().flatten().flat_map(|side| side.keys()) {
        if merged.contains_key(name) {
            continue;
        }
        let [left, right] = sides.map(|side| side.and_then(|side| side.get(name)));
        if let Some(value) = place(member_type(ty, name), left, right) {
            merged.insert(name.clone(), value);
        }
    }
    merged
}

/// Merges two lists: elements of the configuration have its order, all others keep their order in the object.
fn elements(ty: TypeRef<'_>, left: &[Value], right: &[Value]) -> Vec<Value> {
    let (left, right) = (identified(ty, left), identified(ty, right));
    let mut lefts: BTreeMap<&PathElement, Option<&Value>> = BTreeMap::new();
    for (element, item) in &left {
        // The configuration's element cannot be merged with one of several elements with this identity.
        let known = lefts.entry(element).or_insert(Some(item));
        if !known.is_some_and(|known| std::ptr::eq(known, *item)) {
            *known = None;
        }
    }
    let rights: BTreeMap<&PathElement, &Value> = right.iter().map(|(e, item)| (e, *item)).collect();
    let mut shared = right
        .iter()
        .map(|(element, _)| element)
        .filter(|element| lefts.contains_key(element));
    let mut next = shared.next();
    let mut done: BTreeSet<&PathElement> = BTreeSet::new();
    let mut merged = Vec::with_capacity(left.len() + right.len());
    let both = |element: &PathElement, merged: &mut Vec<Value>| {
        let old = lefts.get(element).copied().flatten();
        let new = rights.get(element).copied();
        merged.extend(place(ty.items(), old, new));
    };
    let (mut l, mut r) = (0, 0);
    while l < left.len() || r < right.len() {
        if let (Some((ours, _)), Some((theirs, _))) = (left.get(l), right.get(r)) {
            if ours == theirs {
                done.insert(theirs);
                both(theirs, &mut merged);
                (l, r) = (l + 1, r + 1);
                next = shared.next();
                continue;
            }
            // An element of both lists is added when its position in the configuration is reached.
            if rights.contains_key(ours) && next.is_some_and(|next| next != ours) {
                l += 1;
                continue;
            }
        }
        if let Some((ours, item)) = left.get(l) {
            if !rights.contains_key(ours) {
                merged.extend(place(ty.items(), Some(item), None));
                l += 1;
                continue;
            }
            if done.contains(ours) {
                l += 1;
            }
        }
        if let Some((theirs, _)) = right.get(r) {
            done.insert(theirs);
            both(theirs, &mut merged);
            r += 1;
            if next == Some(theirs) {
                next = shared.next();
            }
        } else if l < left.len() && left.get(l).is_some_and(|(ours, _)| !done.contains(ours)) {
            l += 1;
        }
    }
    merged
}

/// Returns the value without these fields; `None` if it is removed. A container that becomes empty stays.
///
/// Source: `removeItemsWithSchema` of structured-merge-diff 6.3.2, which Kubernetes 1.36.2 uses. The next version of
/// structured-merge-diff leaves a null instead of the empty container.
pub(super) fn remove(ty: TypeRef<'_>, value: &Value, fields: &FieldSet) -> Option<Value> {
    let mut reached_below = false;
    let mut rest = |node: Option<&FieldNode>, ty: TypeRef<'_>, value: &Value| match node {
        Some(node) if node.member => None,
        Some(node) => {
            reached_below = true;
            let rest = remove(ty, value, &node.below);
            Some(rest.unwrap_or_else(|| match value {
                Value::Array(_) => Value::Array(Vec::new()),
                _ => Value::Object(Map::new()),
            }))
        }
        None => Some(value.clone()),
    };
    let kept = match (form(ty, value), value) {
        _ if fields.is_empty() => return Some(value.clone()),
        (SharedForm::Members, Value::Object(members)) => {
            let kept = members.iter().filter_map(|(name, member)| {
                let node = fields.node(&PathElement::field(name));
                Some((name.clone(), rest(node, member_type(ty, name), member)?))
            });
            Value::Object(kept.collect())
        }
        (SharedForm::Elements, Value::Array(items)) => {
            let kept = items.iter().filter_map(|item| {
                let element = identify(ty, item).ok();
                let node = element.and_then(|element| fields.node(&element));
                rest(node, ty.items(), item)
            });
            Value::Array(kept.collect())
        }
        // An atomic value is removed with everything below it; a scalar has nothing below it.
        (_, Value::Object(_) | Value::Array(_)) => return None,
        (_, single) => return Some(single.clone()),
    };
    (reached_below || !is_hollow(Some(&kept))).then_some(kept)
}
