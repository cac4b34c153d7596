//! Machine: walks an object along its schema, and changes one field at a time.

use serde_json::{Map, Value};
use steersman_cel::structural::{Additional, Structural};

use super::values::{another_entry, another_item, distinct, invented, others};
use crate::field_path::FieldPath;

/// The number of items of a list, and of entries of a map, inside of which fields are changed.
const MOST_ITEMS: usize = 2;

/// The number of items up to which a list grows to its longest.
const LONGEST_LIST: usize = 10;

/// How deep inside of an absent object fields are set.
const DEEPEST_ABSENT: usize = 3;

/// The depth at which a walk ends.
const DEEPEST: usize = 16;

/// The members of an object that describe it and not what is desired.
pub(super) const NOT_DESIRED: [&str; 4] = ["apiVersion", "kind", "metadata", "status"];

/// A change of one field.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SchemaChange {
    /// The field that changes.
    pub(super) path: FieldPath,
    /// The path that is written: the field, or an absent object around it.
    pub(super) written: FieldPath,
    /// The value that is written; `None` if the field is removed.
    pub(super) value: Option<Value>,
    /// Whether the object does not have the field.
    is_absent: bool,
}

/// Walks an object. Returns its changes: those of fields that it has first, of outer fields before inner ones, and of each
/// field the value most like the present one first.
pub(super) fn changes(schema: &Structural, object: &Value) -> Vec<SchemaChange> {
    let mut all = Vec::new();
    if let Some(members) = object.as_object() {
        visit_properties(schema, members, (&FieldPath::default(), true), &mut all);
    }
    // Stable: the changes of one field keep their order.
    all.sort_by_key(|change| (change.is_absent, change.path.depth()));
    all
}

fn is_required(schema: &Structural, name: &str) -> bool {
    schema
        .rules
        .required
        .iter()
        .any(|required| required == name)
}

fn visit_member(
    schema: &Structural,
    value: Option<&Value>,
    path: &FieldPath,
    is_required: bool,
    all: &mut Vec<SchemaChange>,
) {
    match value.filter(|value| !value.is_null()) {
        Some(value) => {
            visit(schema, value, path, all);
            if !is_required {
                all.push(change(path, None));
            }
        }
        None => visit_absent(schema, path, all),
    }
}

/// Adds the changes of a value, and of all values in it.
fn visit(schema: &Structural, value: &Value, path: &FieldPath, all: &mut Vec<SchemaChange>) {
    if path.depth() > DEEPEST {
        return;
    }
    match value {
        Value::Object(members) => visit_object(schema, members, path, all),
        Value::Array(items) => visit_list(schema, items, path, all),
        scalar => all.extend(
            others(schema, scalar)
                .into_iter()
                .map(|other| change(path, Some(other))),
        ),
    }
}

fn visit_object(
    schema: &Structural,
    members: &Map<String, Value>,
    path: &FieldPath,
    all: &mut Vec<SchemaChange>,
) {
    visit_properties(schema, members, (path, schema.embedded), all);
    let Additional::Schema(of_entry) = &schema.additional else {
        return;
    };
    let entries = members
        .iter()
        .filter(|(name, _)| !schema.properties.contains(name));
    for (name, entry) in entries.take(MOST_ITEMS) {
        visit_member(of_entry, Some(entry), &path.member(name), false, all);
    }
    if let Some((name, entry)) = another_entry(of_entry, members) {
        all.push(change(&path.member(&name), Some(entry)));
    }
}

/// Adds the changes of the named members of an object. Those that describe a whole object are left out.
fn visit_properties(
    schema: &Structural,
    members: &Map<String, Value>,
    (path, is_whole): (&FieldPath, bool),
    all: &mut Vec<SchemaChange>,
) {
    for (name, of_member) in schema.properties.iter() {
        if is_whole && NOT_DESIRED.contains(&name) {
            continue;
        }
        let (value, inner) = (members.get(name), path.member(name));
        visit_member(of_member, value, &inner, is_required(schema, name), all);
    }
}

fn visit_list(schema: &Structural, items: &[Value], path: &FieldPath, all: &mut Vec<SchemaChange>) {
    let (least, most) = schema.rules.items;
    let least = usize::try_from(least.unwrap_or_default()).unwrap_or(usize::MAX);
    let most = most.and_then(|most| usize::try_from(most).ok());
    let mut lists = Vec::new();
    let mut grown = items.to_vec();
    let longest = most.filter(|most| *most <= LONGEST_LIST);
    while grown.len()
        < longest
            .unwrap_or(items.len() + 1)
            .min(most.unwrap_or(usize::MAX))
    {
        let Some(item) = another_item(schema, &grown) else {
            break;
        };
        grown.push(item);
        if grown.len() == items.len() + 1 {
            lists.push(grown.clone());
        }
    }
    lists.push(grown);
    if let ([_, rest @ ..], Some((_, before))) = (items, items.split_last()) {
        lists.extend([before.to_vec(), rest.to_vec()]);
    }
    lists.push(items.iter().take(least).cloned().collect());
    lists.push(items.iter().rev().cloned().collect());
    lists.retain(|list| list.len() >= least && list != items);
    let lists = distinct(lists.into_iter().map(Value::Array)).into_iter();
    all.extend(lists.map(|list| change(path, Some(list))));
    if let Some(of_item) = schema.items.as_deref() {
        for (at, item) in items.iter().enumerate().take(MOST_ITEMS) {
            visit(of_item, item, &path.item(at), all);
        }
    }
}

/// Adds the changes that give an absent field a value, and those that also set one field inside of it.
fn visit_absent(schema: &Structural, path: &FieldPath, all: &mut Vec<SchemaChange>) {
    let values = invented(schema);
    for value in &values {
        all.push(SchemaChange {
            is_absent: true,
            ..change(path, Some(value.clone()))
        });
    }
    let Some(small @ Value::Object(_)) = values.first() else {
        return;
    };
    let mut inside = Vec::new();
    visit(schema, small, &FieldPath::default(), &mut inside);
    for inner in inside
        .into_iter()
        .filter(|inner| inner.path.depth() <= DEEPEST_ABSENT && inner.value.is_some())
    {
        let mut value = small.clone();
        inner.written.set(&mut value, inner.value);
        all.push(SchemaChange {
            path: path.then(&inner.path),
            written: path.clone(),
            value: Some(value),
            is_absent: true,
        });
    }
}

fn change(path: &FieldPath, value: Option<Value>) -> SchemaChange {
    SchemaChange {
        path: path.clone(),
        written: path.clone(),
        value,
        is_absent: false,
    }
}
