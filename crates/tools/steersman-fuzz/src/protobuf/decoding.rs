//! Driver: decodes bytes in two ways, and compares the results.

use bytes::Bytes;
use serde_json::{Map, Value};
use steersman_protobuf::{
    Envelope, Frames, Keep, ListItems, Message, WatchFrame, append_object, encode_text, seal,
};

use super::message_and_rest;

/// The type of the decoded objects.
const OF: (&str, &str) = ("v1", "Kind");

/// Takes two bytes that select the kind, and the message of an object. Decodes it, and encodes the result again.
pub(crate) fn objects(input: &[u8]) {
    let Some((message, raw)) = message_and_rest(input) else {
        return;
    };
    let head = decoded(message, raw, without_spec());
    // A message that is no object may have metadata that decodes.
    let Some(whole) = decoded(message, raw, Keep::WHOLE) else {
        return;
    };
    // Embedded JSON may have numbers that cannot be encoded again, which is no finding.
    if let Ok(again) = encode_text(message, &whole.text) {
        let second = decoded(message, &again.raw, Keep::WHOLE);
        let second = second.map(|second| without_nulls(second.object()));
        assert_eq!(second, Some(without_nulls(whole.object())));
    }
    // Metadata in several pieces is out of order: the whole object has all pieces, and the head has only the first.
    if let Some(head) = head.filter(|_| whole.is_in_order) {
        let mut metadata = whole.object()["metadata"].take();
        if let Some(members) = metadata.as_object_mut() {
            members.remove("managedFields");
        }
        assert_eq!(head.object()["metadata"], metadata);
    }
    let sealed = seal("v1", message.short_name(), raw);
    let opened = Envelope::open(&sealed);
    assert_eq!(opened.map(|envelope| envelope.raw), Ok(raw));
}

/// Takes a byte for the length of the chunks, and the body of a list. Reads it at once and in chunks.
pub(crate) fn lists(input: &[u8]) {
    let Some((length, body)) = input.split_first() else {
        return;
    };
    let at_once = items(body, body.len());
    assert_eq!(at_once, items(body, usize::from(*length)));
    for item in at_once.iter().flatten() {
        let _may_be_anything = Message::named("core.v1.Pod").map(|message| {
            let mut out = Vec::new();
            append_object(OF, message, item, Keep::WHOLE, &mut out)
        });
    }
}

/// Takes a byte for the length of the chunks, and the body of a watch. Reads it at once and in chunks.
pub(crate) fn watches(input: &[u8]) {
    let Some((length, body)) = input.split_first() else {
        return;
    };
    let at_once = frames(body, body.len());
    assert_eq!(at_once, frames(body, usize::from(*length)));
    for frame in at_once.iter().flatten() {
        let Ok(event) = WatchFrame::read(frame) else {
            continue;
        };
        let Ok(envelope) = Envelope::open(event.object) else {
            continue;
        };
        let mut out = Vec::new();
        if envelope.append_json(Keep::WHOLE, &mut out).is_ok() {
            let object = envelope.object();
            assert_eq!(Ok(json(&out)), object);
        }
    }
}

/// Returns a value without members that are `null`: embedded JSON without content is `null`, and so is a missing one.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(members) => members
            .into_iter()
            .filter(|(_, member)| !member.is_null())
            .map(|(name, member)| (name, without_nulls(member)))
            .collect(),
        Value::Array(items) => items.into_iter().map(without_nulls).collect(),
        other => other,
    }
}

fn without_spec() -> Keep {
    Keep {
        managed_fields: false,
        beyond_metadata: false,
    }
}

struct Whole {
    text: Vec<u8>,
    /// Whether the fields were in the order in which Go writes them.
    is_in_order: bool,
}

impl Whole {
    fn object(&self) -> Value {
        json(&self.text)
    }
}

fn decoded(message: &'static Message, raw: &[u8], keep: Keep) -> Option<Whole> {
    let mut text = Vec::new();
    let findings = append_object(OF, message, raw, keep, &mut text);
    let Ok(findings) = findings else {
        assert!(text.is_empty(), "a part of an object was left");
        return None;
    };
    let is_in_order = findings.metadata.is_some();
    if let Some(range) = findings.metadata {
        let metadata = serde_json::from_slice::<Map<String, Value>>(&text[range]);
        assert!(metadata.is_ok(), "the range is not that of the metadata");
    }
    Some(Whole { text, is_in_order })
}

fn json(text: &[u8]) -> Value {
    let value = serde_json::from_slice(text);
    assert!(
        value.is_ok(),
        "{value:?} of {}",
        String::from_utf8_lossy(text)
    );
    value.unwrap_or_default()
}

/// Returns the items of a list that arrives in chunks; `None` if it is not a list.
fn items(body: &[u8], length: usize) -> Option<Vec<Bytes>> {
    let (mut list, mut found) = (ListItems::new(), Vec::new());
    for chunk in body.chunks(length.max(1)) {
        let mut chunk = Bytes::copy_from_slice(chunk);
        while let Some(item) = list.next_item(&mut chunk).ok()? {
            found.push(item);
        }
        assert!(chunk.is_empty(), "bytes were left");
    }
    list.finish().ok()?;
    Some(found)
}

/// Returns the frames of a watch that arrives in chunks; `None` if it ends inside one.
fn frames(body: &[u8], length: usize) -> Option<Vec<Bytes>> {
    let (mut frames, mut found) = (Frames::default(), Vec::new());
    for chunk in body.chunks(length.max(1)) {
        frames.push(Bytes::copy_from_slice(chunk));
        while let Some(frame) = frames.next_frame().ok()? {
            found.push(frame);
        }
    }
    frames.finish().ok()?;
    Some(found)
}
