//! Driver: decodes bytes in two ways, and compares the results.

use bytes::Bytes;
use serde_json::{Map, Value};
use steersman_protobuf::{
    Envelope, Event, Frames, Keep, ListItems, Message, append_object, encode_text, seal,
};

/// The type of the decoded objects.
const OF: (&str, &str) = ("v1", "Kind");

/// Decodes a message, and encodes the result again.
pub(crate) fn object(message: &'static Message, raw: &[u8]) {
    let Some(text) = decoded(message, raw, Keep::WHOLE) else {
        // What is no object has no metadata that breaks a decoder.
        let _metadata = decoded(message, raw, without_spec());
        return;
    };
    let object = json(&text);
    // Embedded JSON may have numbers that a second decoder rounds, so only the meaning of the bytes is compared.
    let again = encode_text(message, &text);
    if let Ok(again) = again {
        let second = decoded(message, &again.raw, Keep::WHOLE);
        assert_eq!(second.map(|text| json(&text)), Some(object.clone()));
    }
    let head = decoded(message, raw, without_spec());
    if let Some(head) = head {
        let mut metadata = object["metadata"].clone();
        if let Some(members) = metadata.as_object_mut() {
            members.remove("managedFields");
        }
        assert_eq!(json(&head)["metadata"], metadata);
    }
    let kind = message.short_name();
    let sealed = seal("v1", kind, raw);
    let opened = Envelope::open(&sealed);
    assert_eq!(opened.map(|envelope| envelope.raw), Ok(raw));
}

/// Reads a list at once and in chunks.
pub(crate) fn list(body: &[u8], length: usize) {
    let at_once = items(body, body.len());
    assert_eq!(at_once, items(body, length));
    for item in at_once.iter().flatten() {
        let _may_be_anything = Message::named("core.v1.Pod").map(|message| {
            let mut out = Vec::new();
            append_object(OF, message, item, Keep::WHOLE, &mut out)
        });
    }
}

/// Reads a watch at once and in chunks.
pub(crate) fn watch(body: &[u8], length: usize) {
    let at_once = frames(body, body.len());
    assert_eq!(at_once, frames(body, length));
    for frame in at_once.iter().flatten() {
        let Ok(event) = Event::read(frame) else {
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

fn without_spec() -> Keep {
    Keep {
        managed_fields: false,
        beyond_metadata: false,
    }
}

fn decoded(message: &'static Message, raw: &[u8], keep: Keep) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    let findings = append_object(OF, message, raw, keep, &mut text);
    let Ok(findings) = findings else {
        assert!(text.is_empty(), "a part of an object was left");
        return None;
    };
    if let Some(range) = findings.metadata {
        let metadata = serde_json::from_slice::<Map<String, Value>>(&text[range]);
        assert!(metadata.is_ok(), "the range is not that of the metadata");
    }
    Some(text)
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
