//! Machine: turns a protobuf message into JSON text, from bytes to bytes.
//!
//! Members are written in the order of the bytes, so that nothing is stored in between. This works only for the order
//! in which Go writes: fields by number, and map entries by key. Bytes in another order are decoded by `tree`.

use serde::de::IgnoredAny;

use crate::findings::{DEEPEST, Findings, Keep};
use crate::json::{push_base64, push_integer, push_string};
use crate::parts::{self, IntOrString};
use crate::table::{Cardinality, FieldKind, Message, Presence, Row};
use crate::tree;
use crate::wire::{FieldContent, MessageReader};

/// Appends an object as JSON, with its `apiVersion` and `kind`. `raw` is its message without an envelope.
///
/// # Errors
/// Fails with the message of Kubernetes' generated code if the bytes are not a message of the type. Nothing is
/// appended then.
pub fn append_object(
    (api_version, kind): (&str, &str),
    message: &'static Message,
    raw: &[u8],
    keep: Keep,
    out: &mut Vec<u8>,
) -> Result<Findings, String> {
    let begin = out.len();
    out.extend_from_slice(b"{\"apiVersion\":");
    push_string(out, api_version.as_bytes());
    out.extend_from_slice(b",\"kind\":");
    push_string(out, kind.as_bytes());
    append_members(message, raw, keep, false, out).inspect_err(|_| out.truncate(begin))
}

/// Appends a message as JSON, without `apiVersion` and `kind`.
///
/// # Errors
/// The errors of [`append_object`].
pub fn append_message(
    message: &'static Message,
    raw: &[u8],
    out: &mut Vec<u8>,
) -> Result<Findings, String> {
    let begin = out.len();
    out.push(b'{');
    append_members(message, raw, Keep::WHOLE, true, out).inspect_err(|_| out.truncate(begin))
}

/// Appends the members of a message and the closing brace. `empty` is whether no member precedes them.
fn append_members(
    message: &'static Message,
    raw: &[u8],
    keep: Keep,
    empty: bool,
    out: &mut Vec<u8>,
) -> Result<Findings, String> {
    let begin = out.len();
    let mut writer = JsonWriter {
        out,
        keep,
        findings: Findings::default(),
    };
    let mut still_empty = empty;
    match writer.members(message, raw, &mut still_empty, 1) {
        Ok(()) => {
            let findings = writer.findings;
            out.push(b'}');
            Ok(findings)
        }
        Err(Stop::Broken(why)) => Err(why),
        Err(Stop::Order) => {
            out.truncate(begin);
            let (members, unknown) = tree::members(message, raw, keep)?;
            // The encoding cannot fail, because the value is a JSON tree.
            let text = serde_json::to_vec(&members).map_err(|error| error.to_string())?;
            if !empty && !members.is_empty() {
                out.push(b',');
            }
            out.extend_from_slice(text.get(1..).unwrap_or_default());
            Ok(Findings {
                metadata: None,
                unknown,
                has_untyped: true,
            })
        }
    }
}

/// The times that Kubernetes' schemas require: in `meta.v1.Condition`, in the series of events, and for the Pods in a
/// PodDisruptionBudget.
const REQUIRED_TIMES: [&str; 3] = ["lastTransitionTime", "lastObservedTime", "disruptedPods"];

/// The reason why a message is not transcoded.
enum Stop {
    /// The fields are not in the order in which Go writes them.
    Order,
    Broken(String),
}

impl From<String> for Stop {
    fn from(why: String) -> Self {
        Self::Broken(why)
    }
}

/// The list or map to which elements are being written.
struct Open<'a> {
    end: u8,
    last_key: Option<&'a [u8]>,
}

struct JsonWriter<'o> {
    out: &'o mut Vec<u8>,
    keep: Keep,
    findings: Findings,
}

impl JsonWriter<'_> {
    /// Writes the members of an object. `empty` is whether the object has no member yet.
    fn members(
        &mut self,
        message: &'static Message,
        bytes: &[u8],
        empty: &mut bool,
        depth: usize,
    ) -> Result<(), Stop> {
        if depth > DEEPEST {
            return Err(Stop::Broken("exceeded max depth".to_owned()));
        }
        let mut reader = MessageReader::new(bytes);
        let (mut last, mut seen) = (0, 0_u64);
        let mut open: Option<Open<'_>> = None;
        while let Some((number, content)) = reader.next(message.short_name())? {
            let Some((index, field)) = message.field(number) else {
                self.findings.unknown.note(message, number);
                continue;
            };
            if number < last {
                return Err(Stop::Order);
            }
            let again = number == last;
            last = number;
            seen |= 1 << index;
            if !again && let Some(open) = open.take() {
                self.out.push(open.end);
            }
            if self.is_dropped(field, depth) {
                continue;
            }
            match field.shape {
                Cardinality::One if again => return Err(Stop::Order),
                Cardinality::One => self.one(field, content, empty, depth)?,
                Cardinality::List => {
                    self.begin_element(field, empty, &mut open, *b"[]");
                    match (field.kind, content) {
                        // Go does not pack numbers.
                        (
                            FieldKind::Int32
                            | FieldKind::Int64
                            | FieldKind::Bool
                            | FieldKind::Double,
                            FieldContent::Bytes(_),
                        ) => return Err(Stop::Order),
                        _ => self.value(field, content, depth + 1)?,
                    }
                }
                Cardinality::Map => {
                    self.begin_element(field, empty, &mut open, *b"{}");
                    let last_key = open.as_mut().map(|open| &mut open.last_key);
                    self.entry(field, content, last_key, depth)?;
                }
            }
            if depth == 1 && !self.keep.beyond_metadata {
                // Only the metadata is wanted, which is the first field of every kind.
                return Ok(());
            }
        }
        if let Some(open) = open {
            self.out.push(open.end);
        }
        for field in message.missing(seen) {
            if !self.is_dropped(field, depth) {
                self.absent(field, empty, depth)?;
            }
        }
        Ok(())
    }

    /// Writes what is in front of an element: the beginning of its list or map, or a comma.
    fn begin_element(
        &mut self,
        field: Row,
        empty: &mut bool,
        open: &mut Option<Open<'_>>,
        [begin, end]: [u8; 2],
    ) {
        if open.is_some() {
            return self.out.push(b',');
        }
        self.member(field, empty);
        self.out.push(begin);
        let last_key = None;
        *open = Some(Open { end, last_key });
    }

    /// Writes the zero value of a field that JSON always has. Go's protobuf lacks only lists, maps and bytes.
    fn absent(&mut self, field: Row, empty: &mut bool, depth: usize) -> Result<(), Stop> {
        let nothing = FieldContent::nothing(field.kind);
        let is_single = field.shape == Cardinality::One;
        if is_single && field.name.is_empty() && matches!(field.kind, FieldKind::Message(_)) {
            return self.one(field, nothing, empty, depth);
        }
        self.member(field, empty);
        if is_single && field.kind == FieldKind::Bytes {
            self.findings.has_untyped = true;
        } else if is_single && field.presence != Presence::Nullable {
            return self.value(field, nothing, depth);
        }
        self.null(field.name);
        Ok(())
    }

    fn is_dropped(&self, field: Row, depth: usize) -> bool {
        match depth {
            1 => !self.keep.beyond_metadata && field.name != "metadata",
            2 => !self.keep.managed_fields && field.number == 17 && field.name == "managedFields",
            _ => false,
        }
    }

    fn member(&mut self, field: Row, empty: &mut bool) {
        let skipped = usize::from(std::mem::take(empty));
        self.out
            .extend_from_slice(&field.member.as_bytes()[skipped..]);
    }

    /// Writes a field that is neither a list nor a map.
    fn one(
        &mut self,
        field: Row,
        content: FieldContent<'_>,
        empty: &mut bool,
        depth: usize,
    ) -> Result<(), Stop> {
        if field.name.is_empty() {
            // The fields of an embedded message become members of its owner.
            return match field.kind {
                FieldKind::Message(part) => {
                    let part = part.message();
                    self.members(part, content.bytes(part.name())?, empty, depth + 1)
                }
                _ => Ok(()),
            };
        }
        if field.presence == Presence::Omitted && content.is_zero(field.kind) {
            return content.fits(field).map_err(Stop::Broken);
        }
        self.member(field, empty);
        let begin = self.out.len();
        self.value(field, content, depth)?;
        if depth == 1 && field.name == "metadata" {
            self.findings.metadata = Some(begin..self.out.len());
        }
        Ok(())
    }

    /// Writes one entry of a map, which is a message with a key and a value.
    fn entry<'a>(
        &mut self,
        field: Row,
        content: FieldContent<'a>,
        last_key: Option<&mut Option<&'a [u8]>>,
        depth: usize,
    ) -> Result<(), Stop> {
        let mut reader = MessageReader::new(content.bytes(field.name)?);
        let (mut key, mut value) = (&[][..], None);
        while let Some((number, content)) = reader.next(field.name)? {
            match number {
                1 => key = content.bytes(field.name)?,
                2 if value.is_none() => value = Some(content),
                2 => return Err(Stop::Order),
                _ => {}
            }
        }
        if let Some(last_key) = last_key
            && last_key.replace(key).is_some_and(|last| last >= key)
        {
            return Err(Stop::Order);
        }
        push_string(self.out, key);
        self.out.push(b':');
        let value = value.unwrap_or(FieldContent::nothing(field.kind));
        self.value(field, value, depth + 1)
    }

    fn value(&mut self, field: Row, content: FieldContent<'_>, depth: usize) -> Result<(), Stop> {
        let name = field.name;
        match field.kind {
            FieldKind::String => push_string(self.out, content.bytes(name)?),
            FieldKind::Bool => {
                let on = content.varint(name)? != 0;
                let text: &[u8] = if on { b"true" } else { b"false" };
                self.out.extend_from_slice(text);
            }
            FieldKind::Int32 => {
                push_integer(self.out, i64::from(content.varint(name)? as i32));
            }
            FieldKind::Int64 => push_integer(self.out, content.varint(name)? as i64),
            FieldKind::Double => self.encode(&parts::double(content.double(name)?))?,
            FieldKind::Bytes => push_base64(self.out, content.bytes(name)?),
            FieldKind::Message(message) => {
                self.object(message.message(), content.bytes(name)?, depth + 1)?;
            }
            FieldKind::Quantity => push_string(self.out, parts::quantity(content.bytes(name)?)?),
            FieldKind::IntOrString => match parts::int_or_string(content.bytes(name)?)? {
                IntOrString::Int(number) => push_integer(self.out, i64::from(number)),
                IntOrString::String(text) => push_string(self.out, text),
            },
            FieldKind::Time => self.time(name, content.bytes(name)?, 0)?,
            FieldKind::MicroTime => self.time(name, content.bytes(name)?, 6)?,
            FieldKind::Raw => self.raw(parts::raw(content.bytes(name)?)?)?,
            FieldKind::Strings => {
                let mut texts = Vec::new();
                parts::strings(content.bytes(name)?, |text| {
                    texts.push(String::from_utf8_lossy(text));
                })?;
                self.encode(&texts)?;
            }
            // Only definitions have such values, which are few and small, so they are decoded as a tree.
            FieldKind::SchemaOrArray | FieldKind::SchemaOrBool | FieldKind::SchemaOrStrings => {
                let (value, unknown) = tree::alternative(field.kind, content.bytes(name)?, depth)?;
                self.findings.unknown.merge(unknown);
                self.findings.has_untyped = true;
                self.encode(&value)?;
            }
        }
        Ok(())
    }

    fn object(
        &mut self,
        message: &'static Message,
        bytes: &[u8],
        depth: usize,
    ) -> Result<(), Stop> {
        self.out.push(b'{');
        let mut empty = true;
        self.members(message, bytes, &mut empty, depth)?;
        self.out.push(b'}');
        Ok(())
    }

    fn time(&mut self, name: &str, bytes: &[u8], digits: usize) -> Result<(), Stop> {
        use std::io::Write as _;
        match parts::time(bytes)? {
            // Writing to memory cannot fail.
            Some(time) => {
                write!(self.out, "\"{time:.digits$}\"").map_err(|error| error.to_string())?;
            }
            None => self.null(name),
        }
        Ok(())
    }

    fn null(&mut self, name: &str) {
        self.findings.has_untyped |= REQUIRED_TIMES.contains(&name);
        self.out.extend_from_slice(b"null");
    }

    fn raw(&mut self, raw: &[u8]) -> Result<(), Stop> {
        if raw.is_empty() {
            self.out.extend_from_slice(b"null");
            return Ok(());
        }
        self.findings.has_untyped = true;
        // The check is needed, because a parser that skips values does not check their UTF-8.
        let text = std::str::from_utf8(raw).map_err(|error| error.to_string())?;
        serde_json::from_str::<IgnoredAny>(text).map_err(|error| error.to_string())?;
        self.out.extend_from_slice(raw);
        Ok(())
    }

    fn encode(&mut self, value: &impl serde::Serialize) -> Result<(), Stop> {
        serde_json::to_writer(&mut *self.out, value).map_err(|error| error.to_string())?;
        Ok(())
    }
}
