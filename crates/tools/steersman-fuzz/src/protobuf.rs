//! Driver: fuzz targets of the protobuf encoding, which give the bytes of an input to the checks.
//!
//! No bytes make the decoder panic. What it accepts is JSON and has one meaning: in whatever chunks it arrives, and
//! after it was encoded again.

mod decoding;
mod encoding;

use steersman_protobuf::Message;

/// Takes two bytes that select the kind, and the message of an object.
pub(crate) fn objects(input: &[u8]) {
    if let [high, low, raw @ ..] = input {
        decoding::object(message([*high, *low]), raw);
    }
}

/// Takes a byte for the length of the chunks, and the body of a list.
pub(crate) fn lists(input: &[u8]) {
    if let [length, body @ ..] = input {
        decoding::list(body, usize::from(*length));
    }
}

/// Takes a byte for the length of the chunks, and the body of a watch.
pub(crate) fn watches(input: &[u8]) {
    if let [length, body @ ..] = input {
        decoding::watch(body, usize::from(*length));
    }
}

/// Takes two bytes that select the kind, and an object in JSON.
pub(crate) fn texts(input: &[u8]) {
    if let [high, low, text @ ..] = input {
        encoding::text(message([*high, *low]), text);
    }
}

/// Returns the message of the kind that two bytes select.
fn message(choice: [u8; 2]) -> &'static Message {
    let kinds = || Message::kinds().map(|(_, message)| message);
    let choice = usize::from(u16::from_be_bytes(choice)) % kinds().count();
    let chosen = kinds().nth(choice);
    // The choice is below the number of kinds.
    chosen.unwrap_or_else(|| unreachable!("there is no kind {choice}"))
}
