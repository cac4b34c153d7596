//! Machine: reads and writes the fields of a protobuf message, with the error texts of Kubernetes' generated code.

use std::convert::Infallible;

use crate::table::{FieldKind, FieldRow};

#[derive(Debug, Clone, Copy)]
pub(crate) enum FieldContent<'a> {
    Varint(u64),
    Fixed64(u64),
    Bytes(&'a [u8]),
    Fixed32,
}

impl<'a> FieldContent<'a> {
    pub(crate) fn nothing(kind: FieldKind) -> Self {
        match kind {
            FieldKind::Bool | FieldKind::Int32 | FieldKind::Int64 => Self::Varint(0),
            FieldKind::Double => Self::Fixed64(0),
            _ => Self::Bytes(&[]),
        }
    }

    pub(crate) fn varint(self, field: &str) -> Result<u64, String> {
        match self {
            Self::Varint(number) => Ok(number),
            other => Err(other.wrong(field)),
        }
    }

    pub(crate) fn bytes(self, field: &str) -> Result<&'a [u8], String> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            other => Err(other.wrong(field)),
        }
    }

    pub(crate) fn double(self, field: &str) -> Result<f64, String> {
        match self {
            Self::Fixed64(bits) => Ok(f64::from_bits(bits)),
            other => Err(other.wrong(field)),
        }
    }

    /// Returns whether the content is the zero of a type. Go takes the low half of a number that is too long.
    pub(crate) fn is_zero(self, kind: FieldKind) -> bool {
        match self {
            Self::Varint(number) if kind == FieldKind::Int32 => number & 0xffff_ffff == 0,
            Self::Varint(number) => number == 0,
            Self::Fixed64(bits) => f64::from_bits(bits) == 0.0,
            Self::Bytes(bytes) => bytes.is_empty(),
            Self::Fixed32 => false,
        }
    }

    pub(crate) fn fits(self, field: &FieldRow) -> Result<(), String> {
        match field.kind {
            FieldKind::Bool | FieldKind::Int32 | FieldKind::Int64 => {
                self.varint(field.name).map(drop)
            }
            FieldKind::Double => self.double(field.name).map(drop),
            _ => self.bytes(field.name).map(drop),
        }
    }

    fn wrong(self, field: &str) -> String {
        let wire = match self {
            Self::Varint(_) => 0,
            Self::Fixed64(_) => 1,
            Self::Bytes(_) => 2,
            Self::Fixed32 => 5,
        };
        // The error texts have the field's name in Go.
        let field = field.rsplit('.').next().unwrap_or_default();
        let mut letters = field.chars();
        let first = letters.next().map(|first| first.to_ascii_uppercase());
        let name: String = first.into_iter().chain(letters).collect();
        format!("proto: wrong wireType = {wire} for field {name}")
    }
}

/// The number and the content of a field; `None` at the end of a message.
type NextField<'a> = Result<Option<(u32, FieldContent<'a>)>, String>;

#[derive(Debug)]
pub(crate) struct MessageReader<'a> {
    rest: &'a [u8],
}

const EARLY: &str = "unexpected EOF";

impl<'a> MessageReader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Returns the next field's number and content, or `None` at the end of the message.
    ///
    /// # Errors
    /// Fails with the message of Go's generated code; `message` is the Go name of the message.
    #[inline]
    pub(crate) fn next(&mut self, message: &str) -> NextField<'a> {
        // Fast path: most fields are short, with a tag and a length of one byte each.
        if let [tag @ 8..0x80, length @ 0..0x80, rest @ ..] = self.rest
            && tag & 7 == 2
            && let Some((content, rest)) = rest.split_at_checked(usize::from(*length))
        {
            self.rest = rest;
            return Ok(Some((u32::from(tag >> 3), FieldContent::Bytes(content))));
        }
        self.next_of_any_form(message)
    }

    fn next_of_any_form(&mut self, message: &str) -> NextField<'a> {
        loop {
            let Some(tag) = self.varint()? else {
                return Ok(None);
            };
            let wire = tag & 7;
            if wire == 4 {
                return Err(format!(
                    "proto: {message}: wiretype end group for non-group"
                ));
            }
            let number = u32::try_from(tag >> 3).ok().filter(|number| *number > 0);
            let Some(number) = number else {
                let number = tag >> 3;
                return Err(format!(
                    "proto: {message}: illegal tag {number} (wire type {wire})"
                ));
            };
            if wire == 3 {
                // Kubernetes' messages have no groups, so a group is skipped.
                self.skip_group()?;
                continue;
            }
            return Ok(Some((number, self.content(wire)?)));
        }
    }

    /// Returns the content of a field with this wire type, other than a group.
    fn content(&mut self, wire: u64) -> Result<FieldContent<'a>, String> {
        match wire {
            0 => Ok(FieldContent::Varint(self.varint()?.ok_or(EARLY)?)),
            1 => {
                let bytes = self.take(8)?.first_chunk().copied().unwrap_or_default();
                Ok(FieldContent::Fixed64(u64::from_le_bytes(bytes)))
            }
            2 => {
                let length = self.varint()?.ok_or(EARLY)?;
                if i64::try_from(length).is_err() {
                    return Err("proto: negative length found during unmarshaling".to_owned());
                }
                Ok(FieldContent::Bytes(self.take(length)?))
            }
            5 => self.take(4).map(|_| FieldContent::Fixed32),
            wire => Err(format!("proto: illegal wireType {wire}")),
        }
    }

    /// Returns the next varint, or `None` at the end of the bytes.
    #[inline]
    pub(crate) fn varint(&mut self) -> Result<Option<u64>, String> {
        match self.rest {
            [] => return Ok(None),
            // Fast path: most numbers are small.
            [byte @ 0..0x80, rest @ ..] => {
                self.rest = rest;
                return Ok(Some(u64::from(*byte)));
            }
            _ => {}
        }
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let Some((byte, rest)) = self.rest.split_first() else {
                return Err(EARLY.to_owned());
            };
            self.rest = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if *byte < 0x80 {
                return Ok(Some(number));
            }
        }
        Err("proto: integer overflow".to_owned())
    }

    fn take(&mut self, length: u64) -> Result<&'a [u8], String> {
        let split = usize::try_from(length)
            .ok()
            .and_then(|length| self.rest.split_at_checked(length));
        let (taken, rest) = split.ok_or(EARLY)?;
        self.rest = rest;
        Ok(taken)
    }

    fn skip_group(&mut self) -> Result<(), String> {
        let mut open = 1_u64;
        while open > 0 {
            let tag = self.varint()?.ok_or(EARLY)?;
            match tag & 7 {
                3 => open += 1,
                4 => open -= 1,
                wire => {
                    self.content(wire)?;
                }
            }
        }
        Ok(())
    }
}

/// Appends encoded fields to a buffer.
#[derive(Debug)]
pub struct FieldWriter<'o> {
    pub(crate) out: &'o mut Vec<u8>,
}

impl<'o> FieldWriter<'o> {
    /// Returns a writer that appends to `out`.
    pub fn new(out: &'o mut Vec<u8>) -> Self {
        Self { out }
    }

    /// Appends a number, a boolean or an enum as a varint.
    pub fn varint(&mut self, number: u32, value: u64) {
        self.tag(number, 0);
        self.raw_varint(value);
    }

    /// Appends the bits of a double.
    pub fn fixed64(&mut self, number: u32, value: u64) {
        self.tag(number, 1);
        self.out.extend_from_slice(&value.to_le_bytes());
    }

    /// Appends a text or other bytes.
    pub fn bytes(&mut self, number: u32, bytes: &[u8]) {
        self.head(number, bytes.len());
        self.out.extend_from_slice(bytes);
    }

    /// Appends the number and the length of a field. The caller appends its content.
    pub(crate) fn head(&mut self, number: u32, length: usize) {
        self.tag(number, 2);
        self.raw_varint(length as u64);
    }

    /// Appends a nested message with the content that `write` appends.
    ///
    /// # Errors
    /// Fails if `write` fails.
    pub fn nested<E>(
        &mut self,
        number: u32,
        write: impl FnOnce(&mut FieldWriter<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.tag(number, 2);
        let begin = self.out.len();
        // One byte is reserved for the length, enough for most messages; a longer length moves the content.
        self.out.push(0);
        write(&mut FieldWriter { out: self.out })?;
        let length = self.out.len() - begin - 1;
        if let Ok(short @ 0..0x80) = u8::try_from(length) {
            self.out[begin] = short;
            return Ok(());
        }
        let mut bytes = Vec::with_capacity(5);
        FieldWriter { out: &mut bytes }.raw_varint(length as u64);
        self.out.splice(begin..=begin, bytes);
        Ok(())
    }

    /// Appends a nested message like [`nested`](Self::nested), with content that cannot fail.
    pub(crate) fn message(&mut self, number: u32, write: impl FnOnce(&mut FieldWriter<'_>)) {
        let Ok(()) = self.nested(number, |out| {
            write(out);
            Ok::<_, Infallible>(())
        });
    }

    fn tag(&mut self, number: u32, wire: u64) {
        self.raw_varint(u64::from(number) << 3 | wire);
    }

    fn raw_varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            // The lowest seven bits come first.
            self.out.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.out.push(value as u8);
    }
}

pub(crate) fn varint_length(value: u64) -> usize {
    let bits = u64::BITS - (value | 1).leading_zeros();
    bits.div_ceil(7) as usize
}
