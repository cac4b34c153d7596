//! Driver: encodes JSON, and checks what the result decodes to.

use steersman_protobuf::{Keep, append_object, encode_text};

use super::message_and_rest;

/// Takes two bytes that select the kind, and an object in JSON. Encodes it: what the result decodes to is encoded as
/// the same bytes.
pub(crate) fn texts(input: &[u8]) {
    let Some((message, text)) = message_and_rest(input) else {
        return;
    };
    let Ok(encoded) = encode_text(message, text) else {
        return;
    };
    let mut again = Vec::new();
    let kind = ("v1", "Kind");
    let decoded = append_object(kind, message, &encoded.raw, Keep::WHOLE, &mut again);
    let unknown = decoded.map(|findings| findings.unknown.count);
    assert_eq!(unknown, Ok(0), "what was encoded decodes to all of it");
    let second = encode_text(message, &again).map(|second| second.raw);
    let again = String::from_utf8_lossy(&again);
    assert_eq!(second, Ok(encoded.raw), "{again}");
}
