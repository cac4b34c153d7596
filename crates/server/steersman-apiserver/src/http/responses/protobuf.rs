//! Machine: encodes objects, metadata, errors and lists as protobuf.

use std::fmt;

use bytes::Bytes;
use serde_json::{Map, Value};
use steersman_apimachinery::status::Status;
use steersman_protobuf::envelope::{
    END_OF_ENVELOPE, append_field_head, begin_envelope, field_head_length,
};
use steersman_protobuf::{Message, encode, encode_object, encode_text, frame, seal};
use steersman_registry::VersionedObject;
use steersman_store::{ChangeType, ProtobufForm};
use steersman_tables::{MetaVersion, partial_text};

use crate::http::responses::list::{ListBody, ListItems};

pub(crate) const PROTOBUF: &str = steersman_protobuf::MEDIA_TYPE;
pub(crate) const PROTOBUF_WATCH: &str = "application/vnd.kubernetes.protobuf;stream=watch";

const PARTIAL: (&str, &str) = ("PartialObjectMetadata", "meta.v1.PartialObjectMetadata");

/// Returns the protobuf form of an object. All responses with this revision of the object share it (SRV-STORE-9).
pub(crate) fn form(object: &VersionedObject) -> Result<&ProtobufForm, Status> {
    object.protobuf().map_err(not_encodable)
}

pub(crate) fn document(document: &Value) -> Result<Bytes, Status> {
    let encoded = document.as_object().map(encode_object);
    match encoded.transpose().map_err(not_encodable)?.flatten() {
        Some(bytes) => Ok(bytes.into()),
        None => Err(not_encodable("it is of no built-in kind")),
    }
}

pub(crate) fn status(status: &Status) -> Result<Bytes, Status> {
    document(&serde_json::to_value(status).unwrap_or_default())
}

/// Encodes the metadata of an object as a PartialObjectMetadata, without the envelope.
fn metadata_message(object: &VersionedObject, version: MetaVersion) -> Result<Vec<u8>, Status> {
    let text = partial_text(object.metadata(), version);
    let encoded = encode_text(message(PARTIAL.1)?, text.as_bytes());
    Ok(encoded.map_err(not_encodable)?.raw)
}

pub(crate) fn metadata(object: &VersionedObject, version: MetaVersion) -> Result<Bytes, Status> {
    let raw = metadata_message(object, version)?;
    Ok(seal(version.api_version(), PARTIAL.0, &raw).into())
}

pub(crate) fn event(object: &VersionedObject, made: ChangeType) -> Result<Bytes, Status> {
    let form = form(object)?;
    let shared = form.event(made);
    Ok(shared.unwrap_or_else(|| frame(made.as_str(), &form.object).into()))
}

pub(crate) fn bookmark(
    (api_version, kind): (&str, &str),
    metadata: &Value,
) -> Result<Bytes, Status> {
    let found = match kind {
        "PartialObjectMetadata" => Message::named(PARTIAL.1),
        kind => Message::of_kind(api_version, kind),
    };
    let message = found.ok_or_else(|| not_encodable("it is of no built-in kind"))?;
    let members = Map::from_iter([("metadata".to_owned(), metadata.clone())]);
    let raw = encode(message, &members).map_err(not_encodable)?.raw;
    Ok(frame("BOOKMARK", &seal(api_version, kind, &raw)).into())
}

pub(crate) fn error(why: &Status) -> Bytes {
    // Every Status of the server can be encoded. If one could not, the event would have an empty Status, which a client
    // takes as an unknown error.
    let bytes = status(why).unwrap_or_else(|_| seal("v1", "Status", b"").into());
    frame("ERROR", &bytes).into()
}

/// A list in protobuf before its items are encoded, which happens after the registry is unlocked.
#[derive(Debug)]
pub(crate) struct UnencodedList {
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) metadata: Value,
    pub(crate) items: Vec<VersionedObject>,
    /// The version of `meta.k8s.io` for a list of the objects' metadata alone; `None` for whole objects.
    pub(crate) metadata_version: Option<MetaVersion>,
}

impl UnencodedList {
    /// Encodes the list. Whole objects that an earlier response has encoded are not encoded again.
    pub(crate) fn encoded(self) -> Result<ListBody, Status> {
        let list_meta = self.metadata.as_object().map(|metadata| {
            let encoded = encode(message("meta.v1.ListMeta")?, metadata);
            encoded.map_err(not_encodable)
        });
        let list_meta = list_meta.transpose()?.unwrap_or_default().raw;
        let encoded = self.items.iter().map(|item| match self.metadata_version {
            None => Ok(form(item)?.message.clone()),
            Some(version) => metadata_message(item, version).map(Bytes::from),
        });
        let items: Vec<Bytes> = encoded.collect::<Result<_, _>>()?;
        // A list of `meta.k8s.io/v1beta1` has its items in field 1 and its metadata in field 2, every other list the
        // reverse.
        let is_reversed = self.metadata_version == Some(MetaVersion::V1Beta1);
        let (meta_field, item_field) = if is_reversed { (2, 1) } else { (1, 2) };
        let field = |number, length| field_head_length(number, length) + length;
        let lengths = items.iter().map(|item| field(item_field, item.len()));
        let length = field(meta_field, list_meta.len()) + lengths.sum::<usize>();
        let mut head = begin_envelope(&self.api_version, &self.kind, length);
        let mut tail = Vec::new();
        let meta = if is_reversed { &mut tail } else { &mut head };
        append_field_head(meta_field, list_meta.len(), meta);
        meta.extend_from_slice(&list_meta);
        tail.extend_from_slice(&END_OF_ENVELOPE);
        Ok(ListBody {
            head: head.into(),
            items: ListItems::Messages(item_field, items.into_iter()),
            tail: tail.into(),
        })
    }
}

fn message(name: &str) -> Result<&'static Message, Status> {
    Message::named(name).ok_or_else(|| not_encodable(format_args!("{name} is not in the table")))
}

fn not_encodable(problem: impl fmt::Display) -> Status {
    Status::internal(format!(
        "the object cannot be encoded as protobuf: {problem}"
    ))
}
