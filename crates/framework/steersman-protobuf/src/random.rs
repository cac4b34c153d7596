//! Machine: makes random objects of every kind, for tests.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use fastrand::Rng;
use serde_json::{Map, Value, json};

use crate::Message;
use crate::table::{Cardinality, FieldKind, Presence, Row};

const LENGTHS: [usize; 4] = [127, 128, 16_383, 16_384];
const TIMES: [Option<&str>; 3] = [
    None,
    Some("1969-12-31T23:59:59Z"),
    Some("2026-11-23T09:28:44Z"),
];
const MICRO_TIMES: [Option<&str>; 3] = [
    None,
    Some("1969-12-31T23:59:59.000001Z"),
    Some("2026-11-23T09:28:44.120000Z"),
];

fn one_of<T: Clone>(rng: &mut Rng, choices: &[T]) -> T {
    choices[rng.usize(..choices.len())].clone()
}

fn text(rng: &mut Rng) -> String {
    const WORDS: [&str; 8] = [
        "a", "web-1", "ü", "\"quoted\" \\ text", "line\nline\u{1}", "0123456789abcdef0123", "{}",
        "100m",
    ];
    if rng.u64(..512) == 0 {
        return "x".repeat(one_of(rng, &LENGTHS));
    }
    one_of(rng, &WORDS).to_owned()
}

/// Returns a random object of a kind, in the form of Go's JSON.
#[must_use]
pub fn object(message: &'static Message, rng: &mut Rng) -> Map<String, Value> {
    members(message, rng, 0)
}

fn members(message: &'static Message, rng: &mut Rng, depth: u64) -> Map<String, Value> {
    let mut members = Map::new();
    for field in message.fields() {
        if let (FieldKind::Message(part), true) = (field.kind, field.name.is_empty()) {
            members.extend(self::members(part.message(), rng, depth + 1));
            continue;
        }
        // Deeper objects have fewer members, so that recursive types end.
        let is_absent = rng.u64(..depth + 2) > 0;
        let value = match (field.shape, field.presence) {
            (Cardinality::One, Presence::Always) => one(field, rng, depth),
            (_, Presence::Always | Presence::Nullable) if is_absent => Value::Null,
            _ if is_absent => continue,
            (Cardinality::One, _) => one(field, rng, depth),
            (Cardinality::List, _) => (0..=rng.u64(..2))
                .map(|_| one(field, rng, depth + 1))
                .collect(),
            (Cardinality::Map, _) => {
                let entries = (0..=rng.u64(..2)).map(|_| (text(rng), one(field, rng, depth + 1)));
                Value::Object(entries.collect())
            }
        };
        let is_omitted = field.presence == Presence::Omitted && is_zero(&value);
        let is_unset = value.is_null()
            && field.shape == Cardinality::One
            && field.presence == Presence::Pointer;
        if !is_omitted && !is_unset {
            members.insert(field.name.to_owned(), value);
        }
    }
    members
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(on) => !on,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

/// Returns a random value for a field, an element of a list, or a value of a map.
fn one(field: Row, rng: &mut Rng, depth: u64) -> Value {
    let schema = |rng: &mut Rng| {
        let message = Message::of_schemas();
        Value::Object(message.map_or_else(Map::new, |message| members(message, rng, depth + 3)))
    };
    match field.kind {
        FieldKind::String => match rng.u64(..2) {
            0 => "".into(),
            _ => text(rng).into(),
        },
        FieldKind::Bool => (rng.u64(..2) == 1).into(),
        FieldKind::Int32 => one_of(rng, &[0, 1, -1, i32::MAX, i32::MIN]).into(),
        FieldKind::Int64 => one_of(rng, &[0, 1, -1, i64::MAX, i64::MIN]).into(),
        FieldKind::Double => one_of(rng, &[json!(0), json!(-7), json!(0.5), json!(-1e300)]),
        FieldKind::Bytes => STANDARD.encode(text(rng)).into(),
        FieldKind::Message(message) => Value::Object(members(message.message(), rng, depth + 1)),
        FieldKind::Quantity => one_of(rng, &["0", "100m", "1.5Gi"]).into(),
        FieldKind::IntOrString => one_of(rng, &[json!(0), json!(-8080), json!("50%")]),
        FieldKind::Time => one_of(rng, &TIMES).into(),
        FieldKind::MicroTime => one_of(rng, &MICRO_TIMES).into(),
        FieldKind::Raw => one_of(
            rng,
            &[json!({ "b": [1, null], "a": "x y" }), json!(7), json!([])],
        ),
        FieldKind::Strings => (0..rng.u64(..3)).map(|_| Value::from(text(rng))).collect(),
        FieldKind::SchemaOrArray => match rng.u64(..2) {
            0 => schema(rng),
            _ => (0..=rng.u64(..2)).map(|_| schema(rng)).collect(),
        },
        FieldKind::SchemaOrBool => match rng.u64(..3) {
            0 => schema(rng),
            other => (other == 1).into(),
        },
        FieldKind::SchemaOrStrings => match rng.u64(..2) {
            0 => schema(rng),
            _ => (0..=rng.u64(..2)).map(|_| Value::from(text(rng))).collect(),
        },
    }
}

/// Changes, removes, repeats or inserts bytes at random.
pub fn damage(raw: &mut Vec<u8>, rng: &mut Rng) {
    let length = raw.len() + 1;
    let (at, to) = (rng.usize(..length), rng.usize(..length));
    let range = at.min(to)..at.max(to).min(at.min(to) + 16);
    match rng.u64(..5) {
        0 => raw.truncate(at),
        1 if at < raw.len() => raw[at] = rng.u8(..),
        2 => {
            raw.drain(range);
        }
        3 => {
            let copy = raw[range].to_vec();
            raw.splice(at..at, copy);
        }
        _ => raw.insert(at, rng.u8(..)),
    }
}
