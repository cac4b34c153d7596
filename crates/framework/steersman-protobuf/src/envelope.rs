//! Machine: the envelope with the kind of an encoded object, and the frames of a watch.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use crate::encode::{EncodeError, encode};
use crate::findings::{Findings, Keep};
use crate::table::Message;
use crate::transcode::append_object;
use crate::tree;
use crate::wire::{FieldWriter, MessageReader, varint_length};

/// The media type of Kubernetes' protobuf.
pub const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// The magic number at the start of every encoded object.
pub const MAGIC: [u8; 4] = *b"k8s\0";

/// The envelope of an encoded object: `runtime.Unknown` of `k8s.io/apimachinery`.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Envelope<'a> {
    /// The object's `apiVersion`.
    pub api_version: Cow<'a, str>,
    /// The object's `kind`.
    pub kind: Cow<'a, str>,
    /// The bytes of the object's message.
    pub raw: &'a [u8],
}

impl<'a> Envelope<'a> {
    /// Decodes the envelope but not the object inside.
    ///
    /// # Errors
    /// Fails with the message of Kubernetes' serializer if the bytes are not an envelope.
    pub fn open(bytes: &'a [u8]) -> Result<Self, String> {
        let Some(rest) = bytes.strip_prefix(&MAGIC) else {
            let [a, b, c, d] = MAGIC;
            return Err(format!(
                "provided data does not appear to be a protobuf message, expected prefix [{a} {b} {c} {d}]"
            ));
        };
        if rest.is_empty() {
            return Err("empty body".to_owned());
        }
        let mut envelope = Self::default();
        let mut reader = MessageReader::new(rest);
        while let Some((number, content)) = reader.next("Unknown")? {
            match number {
                1 => {
                    let (api_version, kind) = type_meta(content.bytes("TypeMeta")?)?;
                    (envelope.api_version, envelope.kind) = (api_version, kind);
                }
                2 => envelope.raw = content.bytes("Raw")?,
                _ => {}
            }
        }
        for (found, name) in [
            (&envelope.kind, "Kind"),
            (&envelope.api_version, "apiVersion"),
        ] {
            if found.is_empty() {
                return Err(format!(
                    "Object '{name}' is missing in 'runtime.TypeMeta{{APIVersion:{}, Kind:{}}}'",
                    json!(envelope.api_version),
                    json!(envelope.kind)
                ));
            }
        }
        Ok(envelope)
    }

    /// Returns the message of the object's kind; `None` if the kind is not built in.
    pub fn message(&self) -> Option<&'static Message> {
        Message::of_kind(&self.api_version, &self.kind)
    }

    /// Decodes the object as the built-in type of its `apiVersion` and `kind`.
    ///
    /// # Errors
    /// Fails with the message of Kubernetes' scheme for an unknown kind, and with the message of
    /// its generated code if the bytes are not a message of the type.
    pub fn object(&self) -> Result<Value, String> {
        let (mut members, _) = tree::members(self.known()?, self.raw, Keep::WHOLE)?;
        members.insert("kind".to_owned(), (*self.kind).into());
        members.insert("apiVersion".to_owned(), (*self.api_version).into());
        Ok(Value::Object(members))
    }

    /// Appends the object as JSON.
    ///
    /// # Errors
    /// The errors of [`object`](Self::object). Nothing is appended then.
    pub fn append_json(&self, keep: Keep, out: &mut Vec<u8>) -> Result<Findings, String> {
        let of = (&*self.api_version, &*self.kind);
        append_object(of, self.known()?, self.raw, keep, out)
    }

    fn known(&self) -> Result<&'static Message, String> {
        self.message().ok_or_else(|| {
            format!(
                "no kind {} is registered for version {} in scheme \"k8s.io/kubernetes/pkg/api/legacyscheme/scheme.go:30\"",
                json!(self.kind),
                json!(self.api_version)
            )
        })
    }
}

/// Reads `runtime.TypeMeta`: the `apiVersion` and the kind.
pub(crate) fn type_meta(bytes: &[u8]) -> Result<(Cow<'_, str>, Cow<'_, str>), String> {
    let (mut api_version, mut kind) = (Cow::default(), Cow::default());
    let mut meta = MessageReader::new(bytes);
    while let Some((number, content)) = meta.next("TypeMeta")? {
        match number {
            1 => api_version = String::from_utf8_lossy(content.bytes("APIVersion")?),
            2 => kind = String::from_utf8_lossy(content.bytes("Kind")?),
            _ => {}
        }
    }
    Ok((api_version, kind))
}

/// Returns an encoded object in its envelope.
pub fn seal(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let mut out = begin_envelope(api_version, kind, raw.len());
    out.reserve(raw.len() + END_OF_ENVELOPE.len());
    out.extend_from_slice(raw);
    out.extend_from_slice(&END_OF_ENVELOPE);
    out
}

/// The end of an envelope after the message: the encoding and the type of the content, both empty for objects.
pub const END_OF_ENVELOPE: [u8; 4] = [3 << 3 | 2, 0, 4 << 3 | 2, 0];

/// Returns the start of an envelope for a message of `length` bytes. After the message follows [`END_OF_ENVELOPE`].
pub fn begin_envelope(api_version: &str, kind: &str, length: usize) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    let mut writer = FieldWriter { out: &mut out };
    writer.message(1, |meta| {
        meta.bytes(1, api_version.as_bytes());
        meta.bytes(2, kind.as_bytes());
    });
    writer.head(2, length);
    out
}

/// Appends the number and the length of a field. The caller appends the `length` bytes of its content.
pub fn append_field_head(number: u32, length: usize, out: &mut Vec<u8>) {
    FieldWriter { out }.head(number, length);
}

/// Returns the number of bytes that [`append_field_head`] appends.
pub fn field_head_length(number: u32, length: usize) -> usize {
    varint_length(u64::from(number) << 3) + varint_length(length as u64)
}

/// Encodes an object and wraps it in an envelope; `None` if its kind is not built in. Leaves out members that the table
/// does not know, as Go does for unknown members.
///
/// # Errors
/// The errors of [`encode`].
pub fn encode_object(object: &Map<String, Value>) -> Result<Option<Vec<u8>>, EncodeError> {
    let word = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (word("apiVersion"), word("kind"));
    let Some(message) = Message::of_kind(api_version, kind) else {
        return Ok(None);
    };
    let encoded = encode(message, object)?;
    Ok(Some(seal(api_version, kind, &encoded.raw)))
}

/// Returns a list in an envelope, made of the encoded `ListMeta` and the message of each item.
pub fn seal_list<'a>(
    api_version: &str,
    kind: &str,
    list_meta: &[u8],
    items: impl Iterator<Item = &'a [u8]>,
) -> Vec<u8> {
    let mut raw = Vec::new();
    let mut writer = FieldWriter { out: &mut raw };
    writer.bytes(1, list_meta);
    for item in items {
        writer.bytes(2, item);
    }
    seal(api_version, kind, &raw)
}

/// Returns the frame of a watch event; `object` is in its envelope.
pub fn frame(event: &str, object: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(object.len() + event.len() + 24);
    out.extend_from_slice(&[0; 4]);
    let mut writer = FieldWriter { out: &mut out };
    writer.bytes(1, event.as_bytes());
    writer.head(2, field_head_length(1, object.len()) + object.len());
    writer.bytes(1, object);
    // A frame of 4 GiB cannot be sent: the client refuses its wrong length.
    let length = u32::try_from(out.len() - 4).unwrap_or(u32::MAX);
    out[..4].copy_from_slice(&length.to_be_bytes());
    out
}

/// The content of a frame: an event of a watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchFrame<'a> {
    /// The type of the event: `ADDED`, `MODIFIED`, `DELETED`, `BOOKMARK` or `ERROR`.
    pub kind: &'a [u8],
    /// The object in its envelope.
    pub object: &'a [u8],
}

impl<'a> WatchFrame<'a> {
    /// Parses the content of a frame.
    ///
    /// # Errors
    /// Fails with the message of Kubernetes' generated code if the bytes are not an event.
    pub fn read(frame: &'a [u8]) -> Result<Self, String> {
        let mut event = Self {
            kind: b"",
            object: b"",
        };
        let mut reader = MessageReader::new(frame);
        while let Some((number, content)) = reader.next("WatchEvent")? {
            match number {
                1 => event.kind = content.bytes("Type")?,
                2 => event.object = crate::parts::raw(content.bytes("Object")?)?,
                _ => {}
            }
        }
        Ok(event)
    }
}
