//! Words: an answer before it becomes an HTTP response.

use bytes::Bytes;
use steersman_registry::{Object, WatchCursor};
use steersman_text::status::Status;
use steersman_text::yaml;

use crate::http::requests::negotiate::Format;

/// The content type of JSON.
pub(crate) const JSON: &str = "application/json";
/// The content type of YAML.
pub(crate) const YAML: &str = "application/yaml";
/// The content type of text.
pub(crate) const TEXT: &str = "text/plain; charset=utf-8";

/// An answer.
#[derive(Debug)]
pub(crate) struct Reply {
    /// HTTP status code.
    pub(crate) code: u16,
    /// Content type; empty for none.
    pub(crate) content_type: &'static str,
    /// Texts of the `Warning` headers.
    pub(crate) warnings: Vec<String>,
    /// Seconds of a `Retry-After` header; zero for none.
    pub(crate) retry_after: u32,
    /// `ETag`, with its quotes.
    pub(crate) etag: Option<String>,
    /// The body.
    pub(crate) body: ReplyBody,
}

/// The body of an answer.
#[derive(Debug)]
pub(crate) enum ReplyBody {
    /// A complete body.
    Whole(Bytes),
    /// A list; its items keep the bytes in which they are stored.
    List(ListBody),
    /// A watch that was opened.
    Watch(Box<WatchBody>),
}

/// A list that is serialised while it is sent.
#[derive(Debug)]
pub(crate) struct ListBody {
    /// Everything before the first item.
    pub(crate) head: Bytes,
    /// The items.
    pub(crate) items: std::vec::IntoIter<Object>,
    /// Whether items carry their kind and apiVersion; those of custom resources do.
    pub(crate) typed_items: bool,
    /// Everything after the last item.
    pub(crate) tail: &'static str,
}

/// An opened watch and the encoder of its events.
#[derive(Debug)]
pub(crate) struct WatchBody {
    /// Its position.
    pub(crate) cursor: WatchCursor,
    /// Writes its events.
    pub(crate) encoder: crate::http::responses::events::EventEncoder,
    /// `timeoutSeconds`, if given.
    pub(crate) timeout_seconds: Option<u64>,
    /// Whether bookmarks may be sent.
    pub(crate) bookmarks: bool,
}

impl Reply {
    /// Creates an answer with a body of some content type.
    pub(crate) fn new(code: u16, content_type: &'static str, body: impl Into<Bytes>) -> Self {
        Self::of(code, content_type, ReplyBody::Whole(body.into()))
    }

    /// Creates an answer with a body that may be serialised while it is sent.
    pub(crate) fn of(code: u16, content_type: &'static str, body: ReplyBody) -> Self {
        Self {
            code,
            content_type,
            warnings: Vec::new(),
            retry_after: 0,
            etag: None,
            body,
        }
    }

    /// Creates an answer of plain text.
    pub(crate) fn text(code: u16, text: &'static str) -> Self {
        Self::new(code, TEXT, Bytes::from_static(text.as_bytes()))
    }

    /// Creates the answer to a path that nothing serves.
    pub(crate) fn page_not_found() -> Self {
        Self::text(404, "404 page not found\n")
    }

    /// Creates an answer of a JSON document, in the negotiated format.
    pub(crate) fn document(code: u16, document: &serde_json::Value, format: Format) -> Self {
        match format {
            Format::Json => {
                let mut text = document.to_string();
                text.push('\n');
                Self::new(code, JSON, text)
            }
            Format::Yaml => Self::new(code, YAML, yaml::write(document)),
        }
    }

    /// Creates an answer of a Status; a success without a code is a 200.
    pub(crate) fn status(status: &Status, format: Format) -> Self {
        let code = if status.code == 0 { 200 } else { status.code };
        let value = serde_json::to_value(status).unwrap_or_default();
        let mut reply = match format {
            // Serialised from the struct rather than from a value, to keep the order of its fields.
            Format::Json => {
                let mut text = serde_json::to_vec(status).unwrap_or_default();
                text.push(b'\n');
                Self::new(code, JSON, text)
            }
            Format::Yaml => Self::document(code, &value, format),
        };
        reply.retry_after = status
            .details
            .as_ref()
            .map_or(0, |details| details.retry_after_seconds);
        reply
    }
}
