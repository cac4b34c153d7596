//! Random objects of every kind, and damaged bytes of them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use crate::table::{Cardinality, Field, FieldKind, Presence};
use crate::{Keep, Message, Unknown, append_object, encode_text, tree};

/// A generator of numbers (xorshift), equal on every machine.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn text(&mut self) -> String {
        const WORDS: [&str; 8] = [
            "a",
            "web-1",
            "ü",
            "\"quoted\" \\ text",
            "line\nline\u{1}",
            "0123456789abcdef0123",
            "{}",
            "100m",
        ];
        WORDS[self.below(WORDS.len() as u64) as usize].to_owned()
    }
}

/// Returns a random object as Go writes it in JSON.
fn object(message: &'static Message, dice: &mut Dice, depth: u64) -> Map<String, Value> {
    let mut members = Map::new();
    for field in message.fields() {
        if let (FieldKind::Message(part), true) = (field.kind, field.name.is_empty()) {
            members.extend(object(part.message(), dice, depth + 1));
            continue;
        }
        // Deep objects have fewer members, so that schemas in schemas end.
        let is_absent = dice.below(depth + 2) > 0;
        let value = match (field.shape, field.presence) {
            (Cardinality::One, Presence::Always) => one(field, dice, depth),
            (Cardinality::One, Presence::Pointer) if !is_absent => Some(one(field, dice, depth))
                .filter(|value| !value.is_null())
                .unwrap_or_default(),
            (Cardinality::One, Presence::Omitted) if !is_absent => one(field, dice, depth),
            (Cardinality::One, _) => continue,
            (_, Presence::Always) if is_absent => Value::Null,
            _ if is_absent => continue,
            (Cardinality::List, _) => (0..=dice.below(2))
                .map(|_| one(field, dice, depth + 1))
                .collect(),
            (Cardinality::Map, _) => {
                let entries =
                    (0..=dice.below(2)).map(|_| (dice.text(), one(field, dice, depth + 1)));
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

/// Returns a random value of a field, of one element of a list or of one value of a map.
fn one(field: &'static Field, dice: &mut Dice, depth: u64) -> Value {
    let schema =
        |dice: &mut Dice| Value::Object(object(Message::of_schemas().unwrap(), dice, depth + 3));
    match field.kind {
        FieldKind::String => [String::new(), dice.text()][dice.below(2) as usize]
            .as_str()
            .into(),
        FieldKind::Bool => (dice.below(2) == 1).into(),
        FieldKind::Int32 => [0, 1, -1, i32::MAX, i32::MIN][dice.below(5) as usize].into(),
        FieldKind::Int64 => [0, 1, -1, i64::MAX, i64::MIN][dice.below(5) as usize].into(),
        FieldKind::Double => {
            [json!(0), json!(-7), json!(0.5), json!(-1e300)][dice.below(4) as usize].clone()
        }
        FieldKind::Bytes => STANDARD.encode(dice.text()).into(),
        FieldKind::Message(message) => Value::Object(object(message.message(), dice, depth + 1)),
        FieldKind::Quantity => ["0", "100m", "1.5Gi"][dice.below(3) as usize].into(),
        FieldKind::IntOrString => {
            [json!(0), json!(-8080), json!("50%")][dice.below(3) as usize].clone()
        }
        FieldKind::Time => [
            Value::Null,
            "1969-12-31T23:59:59Z".into(),
            "2026-11-23T09:28:44Z".into(),
        ][dice.below(3) as usize]
            .clone(),
        FieldKind::MicroTime => [
            Value::Null,
            "1969-12-31T23:59:59.000001Z".into(),
            "2026-11-23T09:28:44.120000Z".into(),
        ][dice.below(3) as usize]
            .clone(),
        FieldKind::Raw => [json!({ "b": [1, null], "a": "x y" }), json!(7), json!([])]
            [dice.below(3) as usize]
            .clone(),
        FieldKind::Strings => (0..dice.below(3))
            .map(|_| Value::from(dice.text()))
            .collect(),
        FieldKind::SchemaOrArray => match dice.below(2) {
            0 => schema(dice),
            _ => (0..=dice.below(2)).map(|_| schema(dice)).collect(),
        },
        FieldKind::SchemaOrBool => match dice.below(3) {
            0 => schema(dice),
            other => (other == 1).into(),
        },
        FieldKind::SchemaOrStrings => match dice.below(2) {
            0 => schema(dice),
            _ => (0..=dice.below(2))
                .map(|_| Value::from(dice.text()))
                .collect(),
        },
    }
}

/// Returns the number of rounds that a variable names, for a longer run.
fn rounds(variable: &str, usual: u64) -> u64 {
    std::env::var(variable).map_or(usual, |text| text.parse().unwrap())
}

/// Calls `each` with random objects of all kinds, `rounds` in all.
fn of_every_kind(
    rounds: u64,
    mut each: impl FnMut(&'static Message, Map<String, Value>, &mut Dice),
) {
    let kinds: Vec<_> = Message::kinds().map(|(_, message)| message).collect();
    for (round, message) in (1..=rounds).zip(kinds.iter().cycle()) {
        let mut dice = Dice(round.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let object = object(message, &mut dice, 0);
        each(message, object, &mut dice);
    }
}

#[test]
fn random_objects_survive_both_directions() {
    of_every_kind(
        rounds("STEERSMAN_PROTOBUF_OBJECTS", 10_000),
        |message, object, _| {
            let wanted = Value::Object(object);
            let encoded = encode_text(message, wanted.to_string().as_bytes()).unwrap();
            assert_eq!(encoded.unknown, None);
            let mut text = Vec::new();
            let of = ("v", "K");
            let findings =
                append_object(of, message, &encoded.raw, Keep::WHOLE, &mut text).unwrap();
            assert_eq!(findings.unknown, Unknown::default());
            let mut found: Value = serde_json::from_slice(&text).unwrap();
            found.as_object_mut().unwrap().retain(|name, _| {
                wanted.get(name).is_some() || !matches!(name.as_str(), "apiVersion" | "kind")
            });
            assert_eq!(found, wanted, "{}", message.name());
            let (members, _) = tree::members(message, &encoded.raw, Keep::WHOLE).unwrap();
            assert_eq!(Value::Object(members), wanted, "{}", message.name());
            // Go's order is the only one that has no second form.
            assert_eq!(encode_text(message, &text).unwrap().raw, encoded.raw);
        },
    );
}

// SRV-3: no bytes make the decoder panic, and whatever it accepts is JSON, the same by both ways.
#[test]
fn damaged_objects_are_refused_or_become_json() {
    let rounds = rounds("STEERSMAN_PROTOBUF_DAMAGES", 200_000);
    let mut accepted = 0;
    of_every_kind(rounds, |message, object, dice| {
        let mut raw = encode_text(message, Value::Object(object).to_string().as_bytes())
            .unwrap()
            .raw;
        for _ in 0..=dice.below(4) {
            damage(&mut raw, dice);
        }
        let mut text = Vec::new();
        let transcoded = append_object(("v", "K"), message, &raw, Keep::WHOLE, &mut text);
        let tree = tree::members(message, &raw, Keep::WHOLE);
        match (transcoded, tree) {
            (Ok(findings), Ok((mut members, _))) => {
                accepted += 1;
                let found: Value = serde_json::from_slice(&text).unwrap();
                members.entry("apiVersion").or_insert("v".into());
                members.entry("kind").or_insert("K".into());
                assert_eq!(found, Value::Object(members), "{}", message.name());
                if let Some(metadata) = findings.metadata {
                    serde_json::from_slice::<Map<String, Value>>(&text[metadata]).unwrap();
                }
            }
            (Err(one), Err(other)) => {
                assert!(text.is_empty());
                assert!(!one.is_empty() && !other.is_empty());
            }
            (one, other) => panic!("{}: {one:?}, and {other:?}", message.name()),
        }
    });
    assert!(
        accepted > rounds / 40,
        "only {accepted} of {rounds} were accepted"
    );
}

/// Changes, removes, repeats or inserts some bytes.
fn damage(raw: &mut Vec<u8>, dice: &mut Dice) {
    let length = raw.len() as u64 + 1;
    let (at, to) = (dice.below(length) as usize, dice.below(length) as usize);
    let range = at.min(to)..at.max(to).min(at.min(to) + 16);
    match dice.below(5) {
        0 => raw.truncate(at),
        1 if at < raw.len() => raw[at] = dice.next() as u8,
        2 => {
            raw.drain(range);
        }
        3 => {
            let copy = raw[range].to_vec();
            raw.splice(at..at, copy);
        }
        _ => raw.insert(at, dice.next() as u8),
    }
}
