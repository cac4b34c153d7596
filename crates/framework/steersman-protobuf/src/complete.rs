//! Machine: adds the members to a JSON tree that Go's encoder always writes.

use serde_json::{Map, Value, json};

use crate::table::{Cardinality, FieldKind, Message, Presence, Row};

/// Adds the members that Go's JSON always has, to an object and its parts: an absent or null member becomes the zero of
/// its type, which is `null` for lists, maps, bytes, times and pointers. The object's own `metadata` stays as it is.
pub fn complete_object(message: &'static Message, members: &mut Map<String, Value>) {
    let fields = message.fields().iter();
    for field in fields.filter(|field| field.name != "metadata") {
        complete_field(field, members);
    }
}

fn complete(message: &'static Message, members: &mut Map<String, Value>) {
    for field in message.fields() {
        complete_field(field, members);
    }
}

fn complete_field(field: Row, members: &mut Map<String, Value>) {
    // The fields of an embedded message are members of its owner.
    if let (FieldKind::Message(part), true) = (field.kind, field.name.is_empty()) {
        return complete(part.message(), members);
    }
    let is_written = matches!(field.presence, Presence::Always | Presence::Nullable);
    match members.get_mut(field.name) {
        None | Some(Value::Null) if is_written => {
            members.insert(field.name.to_owned(), zero(field));
        }
        Some(value) => complete_value(field, value),
        None => {}
    }
}

fn complete_value(field: Row, value: &mut Value) {
    let FieldKind::Message(part) = field.kind else {
        return;
    };
    let part = part.message();
    let each = |value: &mut Value| {
        if let Value::Object(members) = value {
            complete(part, members);
        }
    };
    match (field.shape, value) {
        (Cardinality::One, value) => each(value),
        (Cardinality::List, Value::Array(items)) => items.iter_mut().for_each(each),
        (Cardinality::Map, Value::Object(entries)) => entries.values_mut().for_each(each),
        _ => {}
    }
}

fn zero(field: Row) -> Value {
    if field.shape != Cardinality::One || field.presence == Presence::Nullable {
        return Value::Null;
    }
    match field.kind {
        FieldKind::String => json!(""),
        FieldKind::Bool => json!(false),
        FieldKind::Int32 | FieldKind::Int64 | FieldKind::Double | FieldKind::IntOrString => {
            json!(0)
        }
        FieldKind::Quantity => json!("0"),
        FieldKind::Message(part) => {
            let mut made = Map::new();
            complete(part.message(), &mut made);
            Value::Object(made)
        }
        FieldKind::Bytes
        | FieldKind::Time
        | FieldKind::MicroTime
        | FieldKind::Raw
        | FieldKind::Strings
        | FieldKind::SchemaOrArray
        | FieldKind::SchemaOrBool
        | FieldKind::SchemaOrStrings => Value::Null,
    }
}
