//! Machine: computes the fields that differ between two states of an object.

use std::collections::BTreeMap;

use serde_json::Value;
use steersman_schema::types::{Scalar, TypeRef, ValueShape};

use super::field_set::{FieldNode, FieldSet};
use super::path_element::PathElement;
use super::typed_value::{SharedForm, form, held, identified, is_hollow, items, member_type};

/// The fields in which a later state of an object differs from an earlier one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ChangedFields {
    /// Fields that only the later state has.
    pub added: FieldSet,
    /// Fields that both states have, with different values.
    pub modified: FieldSet,
    /// Fields that only the earlier state has.
    pub removed: FieldSet,
}

/// The change of a value itself, without the changes of the fields below the value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ValueChange {
    Same,
    Added,
    Modified,
    Removed,
}

impl ChangedFields {
    pub(super) fn is_empty(&self) -> bool {
        self.added.is_empty() && self.modified.is_empty() && self.removed.is_empty()
    }

    pub(super) fn written(&self) -> FieldSet {
        self.added.union(&self.modified)
    }

    fn put<T: Clone>(
        &mut self,
        element: T,
        fate: ValueChange,
        below: Self,
        step: impl Fn(T) -> PathElement,
    ) {
        for (set, own, below) in [
            (&mut self.added, ValueChange::Added, below.added),
            (&mut self.modified, ValueChange::Modified, below.modified),
            (&mut self.removed, ValueChange::Removed, below.removed),
        ] {
            let member = fate == own;
            if member || !below.is_empty() {
                set.put(step(element.clone()), FieldNode { member, below });
            }
        }
    }
}

/// Compares two states of an object, without the top-level members with `ignored` names.
pub(super) fn compare(
    ty: TypeRef<'_>,
    before: &Value,
    after: &Value,
    ignored: &[&str],
) -> ChangedFields {
    let has_members = |state: &Value| form(ty, state) == SharedForm::Members;
    if has_members(before) && has_members(after) {
        return members(ty, Some(before), Some(after), ignored);
    }
    place(ty, Some(before), Some(after)).1
}

fn place(
    ty: TypeRef<'_>,
    left: Option<&Value>,
    right: Option<&Value>,
) -> (ValueChange, ChangedFields) {
    let (left, right) = (present(ty, left), present(ty, right));
    let fate = match (left, right) {
        (None | Some(Value::Null), None | Some(Value::Null))
            if !ty.is_custom() && ty.shape() == ValueShape::List =>
        {
            ValueChange::Same
        }
        (None, Some(_)) => ValueChange::Added,
        (Some(_), None) => ValueChange::Removed,
        (None, None) => return (ValueChange::Same, ChangedFields::default()),
        (left, right) if left == right => return (ValueChange::Same, ChangedFields::default()),
        (_, _) => ValueChange::Modified,
    };
    let forms = [left, right].map(|value| value.map(|value| form(ty, value)));
    let alike = match forms {
        [Some(left), Some(right)] if left == right => left,
        [Some(one), None] | [None, Some(one)] => one,
        // The kind of the value changed: everything below the old value is removed, and below the new value added.
        _ => {
            let mut below = place(ty, None, right).1;
            below.removed = place(ty, left, None).1.removed;
            return (ValueChange::Modified, below);
        }
    };
    if alike == SharedForm::Leaf || (is_hollow(left) && is_hollow(right)) {
        return (fate, ChangedFields::default());
    }
    let below = if alike == SharedForm::Members {
        members(ty, left, right, &[])
    } else {
        elements(ty, left, right)
    };
    // A container of fields counts as added or removed, and never as modified: only the fields in it are modified.
    let fate = if fate == ValueChange::Modified {
        ValueChange::Same
    } else {
        fate
    };
    (fate, below)
}

/// Returns the value if it counts as present. A null in a built-in type is absent, with two exceptions: a list that was
/// null before (so that it is not new with its elements), and a time that Go writes although it is not set.
fn present<'a>(ty: TypeRef<'_>, value: Option<&'a Value>) -> Option<&'a Value> {
    const SHOWN: [ValueShape; 2] = [ValueShape::List, ValueShape::Scalar(Scalar::Time)];
    let shown = || SHOWN.contains(&ty.shape());
    value.filter(|value| !value.is_null() || ty.is_custom() || shown())
}

fn members<'a>(
    ty: TypeRef<'_>,
    left: Option<&'a Value>,
    right: Option<&'a Value>,
    ignored: &[&str],
) -> ChangedFields {
    let mut changes = ChangedFields::default();
    let in_left = |name: &str| left.and_then(|left| left.get(name));
    let in_right = |name: &str| right.and_then(|right| right.get(name));
    let olds = object(left).map(|(name, old)| (name, Some(old), in_right(name)));
    let news = object(right).filter(|(name, _)| in_left(name).is_none());
    let news = news.map(|(name, new)| (name, None, Some(new)));
    for (name, old, new) in olds.chain(news) {
        if ignored.contains(&name.as_str()) {
            continue;
        }
        let new = new.or_else(|| held(ty, name).filter(|_| right.is_some()));
        // Old clients write `null` for the creation time, which counts as absent.
        if name == "creationTimestamp" && new.is_none_or(Value::is_null) {
            continue;
        }
        let old = old.or_else(|| held(ty, name).filter(|_| left.is_some()));
        let (fate, below) = place(member_type(ty, name), old, new);
        changes.put(name, fate, below, |name| PathElement::field(name));
    }
    changes
}

fn object(value: Option<&Value>) -> impl Iterator<Item = (&String, &Value)> {
    value.and_then(Value::as_object).into_iter().flatten()
}

/// The elements with one identity in two lists.
#[derive(Default)]
struct ElementPair<'a> {
    olds: Vec<&'a Value>,
    news: Vec<&'a Value>,
}

fn elements(ty: TypeRef<'_>, left: Option<&Value>, right: Option<&Value>) -> ChangedFields {
    let mut pairs: BTreeMap<PathElement, ElementPair<'_>> = BTreeMap::new();
    for (element, item) in identified(ty, items(left)) {
        pairs.entry(element).or_default().olds.push(item);
    }
    for (element, item) in identified(ty, items(right)) {
        pairs.entry(element).or_default().news.push(item);
    }
    let mut changes = ChangedFields::default();
    for (element, ElementPair { olds, news }) in pairs {
        let (fate, below) = if olds.len() <= 1 && news.len() <= 1 {
            place(ty.items(), olds.first().copied(), news.first().copied())
        } else {
            // Elements with equal identities are one field, with one owner.
            let fate = match (olds.is_empty(), news.is_empty()) {
                _ if olds == news => ValueChange::Same,
                (true, _) => ValueChange::Added,
                (_, true) => ValueChange::Removed,
                _ => ValueChange::Modified,
            };
            (fate, ChangedFields::default())
        };
        changes.put(element, fate, below, |element| element);
    }
    changes
}
