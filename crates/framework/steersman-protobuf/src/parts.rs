//! Machine: reads messages that are a single value in JSON, such as times and quantities.

use jiff::Timestamp;
use serde_json::Value;

use crate::wire::{FieldContent, MessageReader};

/// The fields of a small message by number, starting at 1. If a field is repeated, its last value counts.
pub(crate) struct MessageParts<'a>([Option<FieldContent<'a>>; 3]);

impl<'a> MessageParts<'a> {
    pub(crate) fn read(bytes: &'a [u8], message: &str) -> Result<Self, String> {
        let mut parts = [None; 3];
        let mut reader = MessageReader::new(bytes);
        while let Some((number, content)) = reader.next(message)? {
            let place = usize::try_from(number).ok().and_then(|n| n.checked_sub(1));
            if let Some(part) = place.and_then(|place| parts.get_mut(place)) {
                *part = Some(content);
            }
        }
        Ok(Self(parts))
    }

    fn number(&self, number: usize) -> Result<u64, String> {
        self.0[number - 1].map_or(Ok(0), |content| content.varint("Value"))
    }

    fn bytes(&self, number: usize) -> Result<&'a [u8], String> {
        self.0[number - 1].map_or(Ok(&[]), |content| content.bytes("Value"))
    }
}

/// Returns a number in Go's notation: a whole number has no fraction.
pub(crate) fn double(value: f64) -> Value {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if value.fract() == 0.0 && value.abs() < EXACT {
        Value::from(value as i64)
    } else {
        Value::from(value)
    }
}

/// Returns the text of a quantity; an empty text becomes zero.
pub(crate) fn quantity(bytes: &[u8]) -> Result<&[u8], String> {
    match MessageParts::read(bytes, "Quantity")?.bytes(1)? {
        [] => Ok(b"0"),
        text => Ok(text),
    }
}

pub(crate) enum IntOrString<'a> {
    Int(i32),
    String(&'a [u8]),
}

pub(crate) fn int_or_string(bytes: &[u8]) -> Result<IntOrString<'_>, String> {
    let parts = MessageParts::read(bytes, "IntOrString")?;
    Ok(if parts.number(1)? == 1 {
        IntOrString::String(parts.bytes(3)?)
    } else {
        IntOrString::Int(parts.number(2)? as i32)
    })
}

/// Returns the JSON text in its wrapper message; empty if there is none.
pub(crate) fn raw(bytes: &[u8]) -> Result<&[u8], String> {
    MessageParts::read(bytes, "RawExtension")?.bytes(1)
}

/// Returns a time; `None` for an empty message, which is Go's zero time.
pub(crate) fn time(bytes: &[u8]) -> Result<Option<Timestamp>, String> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let parts = MessageParts::read(bytes, "Timestamp")?;
    let (seconds, nanos) = (parts.number(1)? as i64, parts.number(2)? as i32);
    let time = Timestamp::new(seconds, nanos).map_err(|error| error.to_string())?;
    Ok(Some(time))
}

/// Calls `each` with every text of a message that wraps a list of texts.
pub(crate) fn strings<'a>(bytes: &'a [u8], mut each: impl FnMut(&'a [u8])) -> Result<(), String> {
    let mut reader = MessageReader::new(bytes);
    while let Some((number, content)) = reader.next("ExtraValue")? {
        if number == 1 {
            each(content.bytes("Items")?);
        }
    }
    Ok(())
}
