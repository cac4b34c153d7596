//! Tests with random objects of every kind, and with damaged bytes of such objects.

use fastrand::Rng;
use serde_json::{Map, Value};

use crate::random::{damage, object};
use crate::{Keep, Message, Unknown, append_object, encode_text, tree};

/// Returns the number of rounds from an environment variable, or else `usual`.
fn rounds(variable: &str, usual: u64) -> u64 {
    std::env::var(variable).map_or(usual, |text| text.parse().unwrap())
}

/// Calls `each` with `rounds` random objects, over all kinds.
fn of_every_kind(
    rounds: u64,
    mut each: impl FnMut(&'static Message, Map<String, Value>, &mut Rng),
) {
    let kinds: Vec<_> = Message::kinds().map(|(_, message)| message).collect();
    for (round, message) in (1..=rounds).zip(kinds.iter().cycle()) {
        let mut rng = Rng::with_seed(round);
        let object = object(message, &mut rng);
        each(message, object, &mut rng);
    }
}

#[test]
fn random_objects_survive_both_directions() {
    of_every_kind(
        rounds("STEERSMAN_PROTOBUF_OBJECTS", 74_000),
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
            // Bytes in Go's order have only one form, so both encoders agree.
            assert_eq!(encode_text(message, &text).unwrap().raw, encoded.raw);
        },
    );
}

// SRV-3: no bytes cause a panic, and accepted bytes give the same JSON as text and as a tree.
#[test]
fn damaged_objects_are_refused_or_become_json() {
    let rounds = rounds("STEERSMAN_PROTOBUF_DAMAGES", 200_000);
    let mut accepted = 0;
    of_every_kind(rounds, |message, object, rng| {
        let mut raw = encode_text(message, Value::Object(object).to_string().as_bytes())
            .unwrap()
            .raw;
        for _ in 0..=rng.u64(..4) {
            damage(&mut raw, rng);
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
