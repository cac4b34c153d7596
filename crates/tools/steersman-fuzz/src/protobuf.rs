//! Driver: fuzz targets of the protobuf encoding.
//!
//! No bytes make the decoder panic. What it accepts is JSON and has one meaning: in whatever chunks it arrives, and
//! after it was encoded again.

mod decoding;
mod encoding;

use steersman_protobuf::Message;

pub(crate) use self::decoding::{lists, objects, watches};
pub(crate) use self::encoding::texts;

/// Returns the message of the kind that the first two bytes of an input select, and the rest of the input.
fn message_and_rest(input: &[u8]) -> Option<(&'static Message, &[u8])> {
    let (choice, rest) = input.split_first_chunk()?;
    let kinds = || Message::kinds().map(|(_, message)| message);
    let choice = usize::from(u16::from_be_bytes(*choice)) % kinds().count();
    Some((kinds().nth(choice)?, rest))
}
