//! Machine: random objects of every kind, for tests.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use crate::Message;
use crate::table::{Cardinality, Field, FieldKind, Presence};

/// A generator of numbers (xorshift), equal on every machine.
#[derive(Debug)]
pub struct Dice(u64);

/// Lengths at which the length of a length changes.
const LENGTHS: [usize; 4] = [127, 128, 16_383, 16_384];

impl Dice {
    /// Makes the generator of one round: each round has its own numbers.
    #[must_use]
    pub fn of_round(round: u64) -> Self {
        Self(round.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// Returns the next number.
    #[expect(clippy::should_implement_trait, reason = "it never ends")]
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Returns a number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// Returns a number below `end`, as an index.
    pub fn index(&mut self, end: usize) -> usize {
        usize::try_from(self.below(end as u64)).unwrap_or_default()
    }

    fn byte(&mut self) -> u8 {
        self.next().to_le_bytes()[0]
    }

    fn one_of<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.index(choices.len())].clone()
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
        if self.below(512) == 0 {
            return "x".repeat(self.one_of(&LENGTHS));
        }
        self.one_of(&WORDS).to_owned()
    }
}

/// Returns a random object of a message, as Go writes it in JSON.
#[must_use]
pub fn object(message: &'static Message, dice: &mut Dice) -> Map<String, Value> {
    members(message, dice, 0)
}

fn members(message: &'static Message, dice: &mut Dice, depth: u64) -> Map<String, Value> {
    let mut members = Map::new();
    for field in message.fields() {
        if let (FieldKind::Message(part), true) = (field.kind, field.name.is_empty()) {
            members.extend(self::members(part.message(), dice, depth + 1));
            continue;
        }
        // Deep objects have fewer members, so that schemas in schemas end.
        let is_absent = dice.below(depth + 2) > 0;
        let value = match (field.shape, field.presence) {
            (Cardinality::One, Presence::Always) => one(field, dice, depth),
            (_, Presence::Always | Presence::Nullable) if is_absent => Value::Null,
            _ if is_absent => continue,
            (Cardinality::One, _) => one(field, dice, depth),
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
    let schema = |dice: &mut Dice| {
        let message = Message::of_schemas();
        Value::Object(message.map_or_else(Map::new, |message| members(message, dice, depth + 3)))
    };
    match field.kind {
        FieldKind::String => match dice.below(2) {
            0 => "".into(),
            _ => dice.text().into(),
        },
        FieldKind::Bool => (dice.below(2) == 1).into(),
        FieldKind::Int32 => dice.one_of(&[0, 1, -1, i32::MAX, i32::MIN]).into(),
        FieldKind::Int64 => dice.one_of(&[0, 1, -1, i64::MAX, i64::MIN]).into(),
        FieldKind::Double => dice.one_of(&[json!(0), json!(-7), json!(0.5), json!(-1e300)]),
        FieldKind::Bytes => STANDARD.encode(dice.text()).into(),
        FieldKind::Message(message) => Value::Object(members(message.message(), dice, depth + 1)),
        FieldKind::Quantity => dice.one_of(&["0", "100m", "1.5Gi"]).into(),
        FieldKind::IntOrString => dice.one_of(&[json!(0), json!(-8080), json!("50%")]),
        FieldKind::Time => dice.one_of(&[
            Value::Null,
            "1969-12-31T23:59:59Z".into(),
            "2026-11-23T09:28:44Z".into(),
        ]),
        FieldKind::MicroTime => dice.one_of(&[
            Value::Null,
            "1969-12-31T23:59:59.000001Z".into(),
            "2026-11-23T09:28:44.120000Z".into(),
        ]),
        FieldKind::Raw => {
            dice.one_of(&[json!({ "b": [1, null], "a": "x y" }), json!(7), json!([])])
        }
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

/// Changes, removes, repeats or inserts some bytes.
pub fn damage(raw: &mut Vec<u8>, dice: &mut Dice) {
    let length = raw.len() + 1;
    let (at, to) = (dice.index(length), dice.index(length));
    let range = at.min(to)..at.max(to).min(at.min(to) + 16);
    match dice.below(5) {
        0 => raw.truncate(at),
        1 if at < raw.len() => raw[at] = dice.byte(),
        2 => {
            raw.drain(range);
        }
        3 => {
            let copy = raw[range].to_vec();
            raw.splice(at..at, copy);
        }
        _ => raw.insert(at, dice.byte()),
    }
}
