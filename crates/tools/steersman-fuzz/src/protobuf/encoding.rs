//! Driver: encodes JSON, and checks what the result decodes to.

use steersman_protobuf::{Keep, Message, append_object, encode_text};

/// Encodes an object in JSON. What it decodes to is encoded as the same bytes.
pub(crate) fn text(message: &'static Message, text: &[u8]) {
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
