//! Machine: decides about the owners of fields after a write, and refuses an apply with conflicts. `conflict.rs` finds
//! the conflicts.

use std::collections::BTreeMap;

use serde_json::Value;
use steersman_schema::types::TypeRef;

use super::changed_fields::compare;
use super::conflict::{self, Conflict};
use super::field_set::{FieldNode, FieldSet};
use super::managed_fields::{Manager, ManagerEntries, ManagerEntry, ManagerOperation};
use super::merge_values::{holds, merge, remove};
use super::path_element::PathElement;
use super::typed_value::{complete, fields_of, with_parents};

/// Maximum number of managers with updates of an object; beyond it, the oldest updates share one entry.
const MOST_UPDATERS: usize = 10;

/// The manager name in the shared entry of the oldest updates.
const ANCIENT: &str = "ancient-changes";

/// Fields of metadata without an owner, because they identify the object or the server sets them.
const UNOWNED: &[&str] = &[
    "name", "namespace", "creationTimestamp", "selfLink", "uid", "clusterName", "generation",
    "managedFields", "resourceVersion",
];

/// The context of a request, which decides about the fields that the request can own.
#[derive(Debug, Clone, Copy)]
pub struct OwnershipContext<'a> {
    /// The type of the object.
    pub ty: TypeRef<'a>,
    /// The API version of the request.
    pub version: &'a str,
    /// The versions of the kind. Entries of other versions are dropped.
    pub versions: &'a [String],
    /// Top-level members of the object that this request does not write.
    pub ignored: &'a [&'a str],
}

impl OwnershipContext<'_> {
    fn is_known(&self, entry: &ManagerEntry) -> bool {
        self.versions.contains(&entry.version)
    }
}

/// Computes the owners after an update. The manager of the request owns the fields that the update changed, the other
/// managers lose them, and every manager loses removed fields (APPLY-3).
pub fn update(
    reach: &OwnershipContext<'_>,
    entries: &mut ManagerEntries,
    manager: &Manager,
    (before, after): (&Value, &Value),
    time: &str,
) {
    let changes = compare(reach.ty, before, after, reach.ignored);
    let mut written = changes.added;
    written.extend(changes.modified);
    let mut fields = owned(written);
    take(reach, entries, &fields, &owned(changes.removed));
    if fields.is_empty() {
        return;
    }
    if let Some(previous) = entries.remove(manager) {
        fields.extend(previous.into_fields());
    }
    let entry = ManagerEntry::new(fields, reach.version, Some(time.to_owned()));
    entries.set(manager.clone(), entry);
}

/// Takes written and removed fields from every manager.
fn take(
    reach: &OwnershipContext<'_>,
    entries: &mut ManagerEntries,
    written: &FieldSet,
    removed: &FieldSet,
) {
    entries.change(|_, entry| {
        if reach.is_known(entry) {
            entry.subtract(written);
            entry.subtract(removed);
        } else {
            entry.clear();
        }
    });
}

/// Applies a manager's configuration to an object. Returns the new object, or `None` if it equals the live one. Fails
/// with the conflicts with fields of other managers, unless the apply is forced.
pub(super) fn apply(
    reach: &OwnershipContext<'_>,
    entries: &mut ManagerEntries,
    manager: &Manager,
    (live, configuration): (&Value, &Value),
    force: bool,
    time: &str,
) -> Result<Option<Value>, Vec<Conflict>> {
    let last = entries.remove(manager);
    let mut fields = fields_of(reach.ty, configuration);
    // Removes the fields that this request cannot own.
    for name in reach.ignored {
        fields.put(PathElement::field(name), FieldNode::default());
    }
    let states = (live, configuration);
    // APPLY-1: most applies repeat the last one of their manager, and comparing all fields would copy the object.
    match last.as_ref().filter(|last| reach.is_known(last)) {
        Some(last) if is_repeated(reach.ty, &last.fields(), &fields, states) => {
            take(reach, entries, &FieldSet::default(), &FieldSet::default());
            let entry = ManagerEntry::new(owned(fields), reach.version, last.time.clone());
            entries.set(manager.clone(), entry);
            Ok(None)
        }
        _ => {
            let (fields, how) = ((last, fields), (force, time));
            apply_fields(reach, entries, manager, states, fields, how)
        }
    }
}

/// Applies a configuration that names these `fields`. `last` is the entry of the manager's last apply.
pub(super) fn apply_fields(
    reach: &OwnershipContext<'_>,
    entries: &mut ManagerEntries,
    manager: &Manager,
    (live, configuration): (&Value, &Value),
    (last, fields): (Option<ManagerEntry>, FieldSet),
    (force, time): (bool, &str),
) -> Result<Option<Value>, Vec<Conflict>> {
    let merged = merge(reach.ty, live, configuration);
    let mut kept = fields.clone();
    for (_, other) in entries.iter().filter(|(_, entry)| reach.is_known(entry)) {
        kept.extend(other.fields().into_owned());
    }
    // An entry with fields of a version that the kind no longer has cannot be compared with the object.
    let mut pruned = match last.as_ref().filter(|last| reach.is_known(last)) {
        Some(last) => prune(reach.ty, merged, &last.fields(), &kept),
        None => merged,
    };
    if !reach.ty.is_custom() {
        complete(reach.ty, &mut pruned);
    }
    let changes = compare(reach.ty, live, &pruned, reach.ignored);
    let written = changes.written();
    let others = entries.iter().filter(|(_, entry)| reach.is_known(entry));
    let conflicts = conflict::find(others, &written);
    if !force && !conflicts.is_empty() {
        return Err(conflicts);
    }
    take(reach, entries, &written, &changes.removed);
    // No manager owns the order of a list, but a new order of its elements is a change of the object.
    let is_unchanged = changes.is_empty() && is_same(reach.ty, live, &pruned);
    // APPLY-1: an apply that changes nothing keeps the time of the last change.
    let time = if is_unchanged {
        last.and_then(|last| last.time)
    } else {
        Some(time.to_owned())
    };
    let entry = ManagerEntry::new(owned(fields), reach.version, time);
    entries.set(manager.clone(), entry);
    Ok((!is_unchanged).then_some(pruned))
}

/// Returns whether an apply names exactly the fields that its manager owns, with their present values. `false` does not
/// mean that the apply changes the object.
fn is_repeated(
    ty: TypeRef<'_>,
    last: &FieldSet,
    fields: &FieldSet,
    (live, configuration): (&Value, &Value),
) -> bool {
    // In a built-in kind, a null of the live object may stand for a value that the merge completes.
    *last == owned(fields.clone())
        && (ty.is_custom() || !has_null(live))
        && holds(ty, live, configuration)
}

fn has_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.iter().any(has_null),
        Value::Object(members) => members.values().any(has_null),
        _ => false,
    }
}

/// Returns whether the result of an apply equals the live object. Nulls of a built-in kind are completed first.
fn is_same(ty: TypeRef<'_>, live: &Value, applied: &Value) -> bool {
    live == applied
        || !ty.is_custom() && {
            let mut live = live.clone();
            complete(ty, &mut live);
            live == *applied
        }
}

/// Removes the fields that the manager applied last time and does not apply now, unless another manager owns them
/// (APPLY-2).
fn prune(ty: TypeRef<'_>, merged: Value, last: &FieldSet, kept: &FieldSet) -> Value {
    let full = |fields: &FieldSet| with_parents(ty, fields);
    let without = |fields: &FieldSet| {
        remove(ty, &merged, fields).unwrap_or_else(|| Value::Object(serde_json::Map::new()))
    };
    let all = full(&fields_of(ty, &merged));
    // The removal of all fields of the last apply also removes the fields of other managers below them.
    let bare = full(&fields_of(ty, &without(&full(last))));
    let unowned = all.difference(&bare.union(&full(kept)));
    if unowned.is_empty() {
        return merged;
    }
    // Only fields of the last apply are removed; other fields that vanish with unowned fields are put back.
    let left = full(&fields_of(ty, &without(&unowned)));
    let removed = all.difference(&left).intersection(&full(last));
    if removed.is_empty() {
        return merged;
    }
    without(&removed)
}

/// Removes the fields that no manager can own from a set.
fn owned(mut fields: FieldSet) -> FieldSet {
    for name in ["apiVersion", "kind"] {
        fields.put(PathElement::field(name), FieldNode::default());
    }
    let metadata = PathElement::field("metadata");
    if let Some(mut node) = fields.node_mut(&metadata).map(std::mem::take) {
        node.member = false;
        for name in UNOWNED {
            let element = PathElement::field(name);
            if let Some(mut own) = node.below.node_mut(&element).map(std::mem::take) {
                own.member = false;
                node.below.put(element, own);
            }
        }
        fields.put(metadata, node);
    }
    fields
}

/// Joins the oldest updates of each version into one entry, until at most ten updates remain.
pub fn cap(entries: &mut ManagerEntries) {
    let mut updaters: Vec<(i64, Manager)> = entries
        .iter()
        .filter(|(manager, _)| manager.operation == ManagerOperation::Update)
        .map(|(manager, entry)| (entry.seconds(), manager.clone()))
        .collect();
    updaters.sort();
    let mut left = updaters.len();
    let mut firsts: BTreeMap<String, Manager> = BTreeMap::new();
    for (_, manager) in updaters {
        if left <= MOST_UPDATERS {
            return;
        }
        let version = manager.version.clone();
        let Some(first) = firsts.get(&version) else {
            firsts.insert(version, manager);
            continue;
        };
        let bucket = Manager::new(ANCIENT, ManagerOperation::Update, &version, "");
        let Some(newer) = entries.remove(&manager) else {
            continue;
        };
        let older = entries.remove(&bucket).or_else(|| entries.remove(first));
        let older = older.map(ManagerEntry::into_fields).unwrap_or_default();
        let entry = newer.with(older);
        entries.set(bucket.clone(), entry);
        firsts.insert(version, bucket);
        left -= 1;
    }
}

/// Records a change of the only field of a subresource such as `/scale`. The entry of the manager has no time.
///
/// # Errors
/// Returns the conflict with the owner of the field, if the write is an apply without `force`.
pub fn update_field(
    entries: &mut ManagerEntries,
    manager: &Manager,
    (path, version): (&[PathElement], &str),
    changed: bool,
    force: bool,
) -> Result<(), Vec<Conflict>> {
    let field = FieldSet::of_path(path);
    let applied = manager.operation == ManagerOperation::Apply;
    if changed {
        let others = entries.iter().filter(|(other, _)| *other != manager);
        let conflicts = conflict::find(others, &field);
        if applied && !force && !conflicts.is_empty() {
            return Err(conflicts);
        }
        entries.change(|_, entry| entry.subtract(&field));
    }
    if changed || applied {
        let entry = ManagerEntry::new(field, version, None);
        entries.set(manager.clone(), entry);
    }
    Ok(())
}
