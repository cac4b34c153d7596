//! Words: `Reply`, an answer before it becomes an HTTP response.

use bytes::Bytes;
use steersman_apimachinery::status::Status;
use steersman_apimachinery::yaml;
use steersman_registry::{VersionedObject, WatchCursor};

use crate::http::requests::call::HttpRefusal;
use crate::http::requests::negotiate::Format;
use crate::http::responses::list::ListBody;
use crate::http::responses::protobuf::{self, PROTOBUF, UnencodedList};

pub(crate) const JSON: &str = "application/json";
pub(crate) const YAML: &str = "application/yaml";
pub(crate) const TEXT: &str = "text/plain; charset=utf-8";

const NO_CACHE: &str = "no-cache, private";

pub(crate) type Answered = Result<Reply, Status>;
pub(crate) type HttpOutcome = Result<Reply, HttpRefusal>;

#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) code: u16,
    /// The `Content-Type` header; empty if the response has none.
    pub(crate) content_type: &'static str,
    pub(crate) warnings: Vec<String>,
    /// The `Retry-After` header, in seconds; zero if the response has none.
    pub(crate) retry_after: u32,
    /// The `ETag` header, with its quotes; `None` if the response has none.
    pub(crate) etag: Option<String>,
    pub(crate) cache_control: &'static str,
    pub(crate) created: Option<String>,
    pub(crate) body: ReplyBody,
}

#[derive(Debug)]
pub(crate) enum ReplyBody {
    Whole(Bytes),
    List(ListBody),
    /// An object to send as JSON or protobuf. It is encoded after the registry is unlocked ([`Reply::encoded`]).
    UnencodedObject(VersionedObject),
    UnencodedList(Box<UnencodedList>),
    Watch(Box<WatchBody>),
}

#[derive(Debug)]
pub(crate) struct WatchBody {
    pub(crate) cursor: WatchCursor,
    pub(crate) encoder: crate::http::responses::events::EventEncoder,
    pub(crate) timeout_seconds: Option<u64>,
    pub(crate) bookmarks: bool,
}

impl Reply {
    pub(crate) fn new(code: u16, content_type: &'static str, body: impl Into<Bytes>) -> Self {
        Self::of(code, content_type, ReplyBody::Whole(body.into()))
    }

    pub(crate) fn of(code: u16, content_type: &'static str, body: ReplyBody) -> Self {
        Self {
            code,
            content_type,
            warnings: Vec::new(),
            retry_after: 0,
            etag: None,
            cache_control: NO_CACHE,
            created: None,
            body,
        }
    }

    pub(crate) fn text(code: u16, text: &'static str) -> Self {
        Self::new(code, TEXT, Bytes::from_static(text.as_bytes()))
    }

    /// Encodes an object or a list that is not encoded yet. Call it after the registry is unlocked (SRV-STORE-10).
    pub(crate) fn encoded(mut self) -> Result<Self, Status> {
        self.body = match self.body {
            ReplyBody::UnencodedList(list) => ReplyBody::List(list.encoded()?),
            ReplyBody::UnencodedObject(object) if self.content_type == PROTOBUF => {
                ReplyBody::Whole(protobuf::form(&object)?.object.clone())
            }
            ReplyBody::UnencodedObject(object) => ReplyBody::Whole(object.bytes()),
            body => body,
        };
        Ok(self)
    }

    /// Creates an answer with a JSON value in the negotiated format; 500 if protobuf cannot encode the value.
    pub(crate) fn document(code: u16, document: &serde_json::Value, format: Format) -> Self {
        match format {
            Format::Json => Self::new(code, JSON, format!("{document}\n")),
            Format::Yaml => Self::new(code, YAML, yaml::write(document)),
            Format::Protobuf => match protobuf::document(document) {
                Ok(bytes) => Self::new(code, PROTOBUF, bytes),
                Err(status) => Self::status(&status, format),
            },
        }
    }

    /// Creates an answer with a Status. The HTTP code is the `code` of the Status, or 200 if that is 0.
    pub(crate) fn status(status: &Status, format: Format) -> Self {
        let code = if status.code == 0 { 200 } else { status.code };
        // The struct is serialised, not a `Value` made from it, to keep the order of its fields.
        let json = || {
            let mut text = serde_json::to_vec(status).unwrap_or_default();
            text.push(b'\n');
            Self::new(code, JSON, text)
        };
        let mut reply = match format {
            Format::Json => json(),
            Format::Yaml => {
                let value = serde_json::to_value(status).unwrap_or_default();
                Self::document(code, &value, format)
            }
            // A test may inject a fault with a Status that protobuf cannot encode, for example with a large number. It
            // is sent as JSON.
            Format::Protobuf => match protobuf::status(status) {
                Ok(bytes) => Self::new(code, PROTOBUF, bytes),
                Err(_) => json(),
            },
        };
        let details = status.details.as_ref();
        reply.retry_after = details.map_or(0, |details| details.retry_after_seconds);
        reply
    }
}
