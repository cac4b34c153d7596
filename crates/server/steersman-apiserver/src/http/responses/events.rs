//! Machine: encodes the events of a watch, as lines of JSON or as frames of protobuf.

use bytes::{BufMut, Bytes, BytesMut};
use jiff::Timestamp;
use serde_json::{Value, json};
use steersman_apimachinery::status::Status;
use steersman_protobuf::frame;
use steersman_registry::{VersionedObject, WatchEvent};
use steersman_schema::resource::Resource;
use steersman_store::ChangeType;
use steersman_tables::{IncludeObject, MetaVersion, TableMaker, TableMeta, partial_text};

use crate::http::requests::negotiate::{Format, Media, ResponseShape};
use crate::http::responses::protobuf;

#[derive(Debug)]
pub(crate) struct EventEncoder {
    kind: String,
    api_version: String,
    shape: EventShape,
    format: Format,
    /// Whether an event with the columns of the Table was sent; later events leave the columns out.
    columns_sent: bool,
    over: bool,
}

#[derive(Debug)]
enum EventShape {
    Whole,
    Table(Box<TableMaker>),
    Partial(MetaVersion),
}

impl EventEncoder {
    pub(crate) fn new(resource: &Resource, media: Media, include: IncludeObject) -> Self {
        let shape = match media.shape {
            ResponseShape::Whole => EventShape::Whole,
            ResponseShape::Table(version) => {
                EventShape::Table(Box::new(TableMaker::new(resource, version, include)))
            }
            ResponseShape::Partial { version, .. } => EventShape::Partial(version),
        };
        Self {
            kind: resource.kind.clone(),
            api_version: resource.api_version(),
            shape,
            format: media.format,
            columns_sent: false,
            over: false,
        }
    }

    /// Returns whether the watch must end, because an `ERROR` event replaced an object that could not be encoded.
    pub(crate) fn is_over(&self) -> bool {
        self.over
    }

    /// Returns the bytes of an event: a line of JSON, with its newline, or protobuf with its length in front. The bytes
    /// of a whole object are built once and shared by every watch that sends them (SRV-STORE-6, SRV-STORE-9).
    pub(crate) fn encode(&mut self, event: &WatchEvent, now: impl FnOnce() -> Timestamp) -> Bytes {
        match event {
            WatchEvent::Added(object) => self.change(object, ChangeType::Added, now),
            WatchEvent::Modified(object) => self.change(object, ChangeType::Modified, now),
            WatchEvent::Deleted(object) => self.change(object, ChangeType::Deleted, now),
            WatchEvent::Bookmark {
                revision,
                initial_events_end,
            } => self.bookmark(&revision.to_string(), *initial_events_end, now),
            WatchEvent::Error(status) => match self.format {
                Format::Protobuf => protobuf::error(status),
                Format::Json | Format::Yaml => {
                    line("ERROR", &serde_json::to_vec(status).unwrap_or_default())
                }
            },
        }
    }

    fn change(
        &mut self,
        object: &VersionedObject,
        made: ChangeType,
        now: impl FnOnce() -> Timestamp,
    ) -> Bytes {
        if self.format == Format::Protobuf {
            let frame = self.frame(object, made);
            return self.or_end(frame);
        }
        match &self.shape {
            EventShape::Whole => match object.line(made) {
                Some(line) => line,
                None => line(made.as_str(), &object.bytes()),
            },
            EventShape::Partial(version) => {
                let metadata = partial_text(object.metadata(), *version);
                line(made.as_str(), metadata.as_bytes())
            }
            EventShape::Table(maker) => {
                let first = !std::mem::replace(&mut self.columns_sent, true);
                let table = one_row(maker, &object.look(), first, now());
                line(made.as_str(), table.to_string().as_bytes())
            }
        }
    }

    fn frame(&self, object: &VersionedObject, made: ChangeType) -> Result<Bytes, Status> {
        match self.shape {
            EventShape::Partial(version) => {
                let metadata = protobuf::metadata(object, version)?;
                Ok(frame(made.as_str(), &metadata).into())
            }
            EventShape::Whole | EventShape::Table(_) => protobuf::event(object, made),
        }
    }

    /// Returns `frame`, the bytes of an event. If the object could not be encoded, returns the bytes of an `ERROR`
    /// event, after which the watch ends.
    fn or_end(&mut self, frame: Result<Bytes, Status>) -> Bytes {
        frame.unwrap_or_else(|why| {
            self.over = true;
            protobuf::error(&why)
        })
    }

    fn bookmark(
        &mut self,
        revision: &str,
        initial_events_end: bool,
        now: impl FnOnce() -> Timestamp,
    ) -> Bytes {
        let metadata = bookmark_metadata(revision, initial_events_end);
        let (api_version, kind) = match &self.shape {
            EventShape::Partial(version) => (version.api_version(), "PartialObjectMetadata"),
            EventShape::Whole | EventShape::Table(_) => (&*self.api_version, &*self.kind),
        };
        if self.format == Format::Protobuf {
            let frame = protobuf::bookmark((api_version, kind), &metadata);
            return self.or_end(frame);
        }
        let object = json!({ "kind": kind, "apiVersion": api_version, "metadata": metadata });
        // A client that asked for Tables gets a bookmark as a Table too, with one row.
        let EventShape::Table(maker) = &self.shape else {
            return line("BOOKMARK", object.to_string().as_bytes());
        };
        let first = !std::mem::replace(&mut self.columns_sent, true);
        let table = one_row(maker, &object, first, now());
        line("BOOKMARK", table.to_string().as_bytes())
    }
}

/// Builds a Table with the row of one object, and the resource version of the object.
pub(crate) fn one_row(
    maker: &TableMaker,
    object: &Value,
    with_columns: bool,
    now: Timestamp,
) -> Value {
    let version = object["metadata"]["resourceVersion"].as_str();
    let meta = TableMeta {
        resource_version: version.unwrap_or_default().to_owned(),
        ..TableMeta::default()
    };
    maker.table(std::iter::once(object), &meta, with_columns, now)
}

fn bookmark_metadata(revision: &str, initial_events_end: bool) -> Value {
    let mut metadata = json!({ "resourceVersion": revision });
    if initial_events_end {
        metadata["annotations"] = json!({ "k8s.io/initial-events-end": "true" });
    }
    metadata
}

fn line(kind: &str, body: &[u8]) -> Bytes {
    let mut line = BytesMut::with_capacity(body.len() + kind.len() + 24);
    line.put_slice(b"{\"type\":\"");
    line.put_slice(kind.as_bytes());
    line.put_slice(b"\",\"object\":");
    line.put_slice(body);
    line.put_slice(b"}\n");
    line.freeze()
}
