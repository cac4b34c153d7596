//! Machine: encodes single values as fields.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;

use super::{assemble, check_depth};
use crate::table::{Cardinality, FieldKind, Presence, Row};
use crate::wire::FieldWriter;

type WrittenValue = Result<(), String>;

/// Encodes an absent member: nothing for a pointer, list or map; otherwise the zero of its type.
pub(super) fn zero(field: Row, out: &mut FieldWriter<'_>, depth: usize) -> WrittenValue {
    // An unset byte slice is not written either.
    let is_absent = matches!(field.presence, Presence::Pointer | Presence::Nullable)
        || field.shape != Cardinality::One
        || field.kind == FieldKind::Bytes;
    if is_absent {
        return Ok(());
    }
    zero_value(field, field.number, out, depth)
}

pub(super) fn zero_value(
    field: Row,
    number: u32,
    out: &mut FieldWriter<'_>,
    depth: usize,
) -> WrittenValue {
    match field.kind {
        FieldKind::Bool | FieldKind::Int32 | FieldKind::Int64 => out.varint(number, 0),
        FieldKind::Double => out.fixed64(number, 0),
        FieldKind::Message(message) => {
            check_depth(depth)?;
            out.nested(number, |out| {
                assemble(message.message(), &[], out, depth + 1)
            })?;
        }
        FieldKind::Quantity => quantity(number, "0", out),
        FieldKind::IntOrString => int_or_string(number, 0, None, out),
        _ => out.bytes(number, b""),
    }
    Ok(())
}

pub(super) fn text(field: Row, number: u32, text: &str, out: &mut FieldWriter<'_>) -> WrittenValue {
    match field.kind {
        FieldKind::String => out.bytes(number, text.as_bytes()),
        FieldKind::Bytes => match STANDARD.decode(text) {
            Ok(bytes) => out.bytes(number, &bytes),
            Err(_) => return Err("it is not base64".to_owned()),
        },
        // Go reads an empty quantity as zero, and writes it as `0`.
        FieldKind::Quantity if text.is_empty() => quantity(number, "0", out),
        FieldKind::Quantity => quantity(number, text, out),
        FieldKind::IntOrString => int_or_string(number, 0, Some(text), out),
        FieldKind::Time => time(number, text, 1_000_000_000, out)?,
        FieldKind::MicroTime => time(number, text, 1_000, out)?,
        _ => return Err(wrong(field, "a text")),
    }
    Ok(())
}

pub(super) fn integer(
    field: Row,
    number: u32,
    value: i64,
    out: &mut FieldWriter<'_>,
) -> WrittenValue {
    let small = || i32::try_from(value).map_err(|_| "a number of 32 bits was expected");
    match field.kind {
        FieldKind::Int32 => out.varint(number, signed(small()?.into())),
        FieldKind::Int64 => out.varint(number, signed(value)),
        FieldKind::Double => out.fixed64(number, (value as f64).to_bits()),
        FieldKind::IntOrString => int_or_string(number, small()?, None, out),
        FieldKind::Quantity => quantity(number, &value.to_string(), out),
        _ => return Err(wrong(field, "a number")),
    }
    Ok(())
}

pub(super) fn double(
    field: Row,
    number: u32,
    value: f64,
    out: &mut FieldWriter<'_>,
) -> WrittenValue {
    match field.kind {
        FieldKind::Double => out.fixed64(number, value.to_bits()),
        FieldKind::Quantity => quantity(number, &value.to_string(), out),
        _ => return Err(wrong(field, "a number with a fraction")),
    }
    Ok(())
}

fn quantity(number: u32, text: &str, out: &mut FieldWriter<'_>) {
    out.message(number, |out| out.bytes(1, text.as_bytes()));
}

fn int_or_string(number: u32, int: i32, text: Option<&str>, out: &mut FieldWriter<'_>) {
    out.message(number, |out| {
        out.varint(1, u64::from(text.is_some()));
        out.varint(2, signed(int.into()));
        out.bytes(3, text.unwrap_or_default().as_bytes());
    });
}

/// Encodes a time in units of `unit` nanoseconds.
fn time(number: u32, text: &str, unit: i64, out: &mut FieldWriter<'_>) -> WrittenValue {
    let time: Timestamp = text.parse().map_err(|_| "it is not a time".to_owned())?;
    // Before 1970, jiff makes both parts negative; in protobuf only the seconds are.
    let nanos = i64::from(time.subsec_nanosecond());
    let seconds = time.as_second() + nanos.div_euclid(1_000_000_000);
    let nanos = nanos.rem_euclid(1_000_000_000);
    out.message(number, |out| {
        out.varint(1, signed(seconds));
        out.varint(2, signed(nanos - nanos % unit));
    });
    Ok(())
}

/// Returns a signed number as the varint of its two's complement.
fn signed(number: i64) -> u64 {
    number as u64
}

/// Returns the problem of a member with a value of another type.
pub(super) fn wrong(field: Row, found: &str) -> String {
    let expected = match (field.shape, field.kind) {
        (Cardinality::List, _) => "a list",
        (Cardinality::Map, _) => "an object",
        (_, FieldKind::String) => "a text",
        (_, FieldKind::Bool) => "a boolean",
        (_, FieldKind::Int32 | FieldKind::Int64) => "a whole number",
        (_, FieldKind::Double) => "a number",
        (_, FieldKind::Bytes) => "base64",
        (_, FieldKind::Quantity) => "a quantity",
        (_, FieldKind::IntOrString) => "a whole number or a text",
        (_, FieldKind::Time | FieldKind::MicroTime) => "a time",
        (_, FieldKind::Strings) => "a list of texts",
        (_, FieldKind::Message(_) | FieldKind::Raw) => "an object",
        (_, FieldKind::SchemaOrArray | FieldKind::SchemaOrBool | FieldKind::SchemaOrStrings) => {
            "a schema"
        }
    };
    format!("{expected} was expected, and it is {found}")
}
