//! Machine: makes pages and watch events of bytes, one object at a time.

use std::borrow::Cow;
use std::collections::BTreeMap;

use bytes::Bytes;
use memchr::memchr;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use steersman_object::{Kind, Object, ResourceVersion};

use crate::asked::Asked;
use crate::error::{Error, parse_status};
use crate::event::{Decoded, Malformed, PageEnd, WatchEvent};
use crate::head::{Head, RawObject};
use crate::items::{Items, MAX_VALUE, NoList};
use crate::lines::{Lines, MAX_LINE, TooLong};
use crate::raw::{self, Prepared};

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ListMetadata {
    resource_version: String,
    r#continue: String,
    remaining_item_count: Option<u64>,
}

#[derive(Deserialize)]
struct RawEvent<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Deserialize)]
struct BookmarkObject {
    metadata: BookmarkMetadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BookmarkMetadata {
    resource_version: String,
    #[serde(default)]
    annotations: Option<BTreeMap<String, String>>,
}

/// How the objects of one answer are decoded.
#[derive(Clone, Debug)]
pub(crate) struct Decoder {
    kind: Kind,
    drop_managed_fields: bool,
    metadata_only: bool,
}

impl Decoder {
    pub(crate) fn new(kind: Kind, drop_managed_fields: bool) -> Self {
        Self {
            kind,
            drop_managed_fields,
            metadata_only: false,
        }
    }

    /// The same, which drops everything but the metadata where that is enough.
    pub(crate) fn metadata_only(&self, enough: bool) -> Self {
        Self {
            metadata_only: enough,
            ..self.clone()
        }
    }

    /// One object; what does not decode is kept with what could be read of it.
    pub(crate) fn object<K: Object>(&self, raw: &[u8]) -> Decoded<K> {
        let prepared = self.prepared(raw);
        let error = match decode_json::<K>(&prepared.json, !is_secret(&self.kind)) {
            Ok(object) if !object.key().name().is_empty() => return Decoded::Good(object),
            Ok(_) => "metadata.name is missing".to_owned(),
            Err(error) => error,
        };
        malformed(raw, error).into()
    }

    /// One object that nobody decodes yet; where not even its metadata is readable, or it says that it is
    /// something else, it is malformed for everybody.
    pub(crate) fn raw_object(&self, raw: &[u8]) -> Decoded<RawObject> {
        let prepared = self.prepared(raw);
        if let Some(foreign) = &prepared.foreign {
            let problem = format!(
                "it says that it is {foreign}, and {} of {} was asked for",
                self.kind.gvk().kind(),
                self.kind.gvk().api_version()
            );
            return malformed(raw, problem).into();
        }
        let object = plain_object(prepared);
        match object.or_else(|json| RawObject::from_json(json.into_owned())) {
            Ok(object) => Decoded::Good(object),
            // An error may quote a value, and an annotation of a Secret may hold all of it.
            Err(error) if is_secret(&self.kind) && !error.starts_with("metadata.name") => {
                malformed(raw, "its metadata has another shape".to_owned()).into()
            }
            Err(error) => malformed(raw, error).into(),
        }
    }

    fn prepared<'a>(&self, raw: &'a [u8]) -> Prepared<'a> {
        let (gvk, drop) = (self.kind.gvk(), self.drop_managed_fields);
        if self.metadata_only {
            raw::metadata_of(raw, gvk, drop).unwrap_or_else(|| Prepared::unread(raw))
        } else {
            raw::prepare(raw, gvk, drop)
        }
    }
}

/// One object of which only the metadata has to be read to know what it is: whether the rest is
/// JSON is seen by who decodes it. Its bytes, where that does not do, or it is something else.
fn plain_object(prepared: Prepared<'_>) -> Result<RawObject, Cow<'_, [u8]>> {
    let metadata = prepared.metadata.filter(|_| prepared.foreign.is_none());
    let metadata = metadata.and_then(|at| prepared.json.get(at));
    match metadata.and_then(Head::of_json) {
        Some(head) => Ok(RawObject::of_parts(head, prepared.json.into_owned())),
        None => Err(prepared.json),
    }
}

/// Decodes the JSON of one object.
///
/// # Errors
///
/// What is wrong, for people, with the path of the field: `spec.replicas: invalid type …`. Where
/// nothing may be quoted, only where it is: an error may hold a value, and a Secret's go nowhere.
pub fn decode_json<K: DeserializeOwned>(json: &[u8], quotes: bool) -> Result<K, String> {
    // Looked over once as a whole, texts need not be looked over one by one. What is not Unicode is
    // left to the parser, which passes over what `K` does not have.
    let decoded = match simdutf8::basic::from_utf8(json) {
        Ok(json) => serde_json::from_str::<K>(json),
        Err(_) => serde_json::from_slice::<K>(json),
    };
    decoded.map_err(|error| {
        if !quotes {
            return place(&error);
        }
        with_path::<K>(json).unwrap_or_else(|| error.to_string())
    })
}

fn is_secret(kind: &Kind) -> bool {
    kind.gvk().kind() == "Secret"
}

fn malformed(raw: &[u8], error: String) -> Malformed {
    let (key, uid, version) = raw::identity(raw);
    Malformed {
        key,
        uid,
        version,
        error,
    }
}

/// The body of one page of a list as objects, for a [`Decoder`].
#[derive(Debug)]
pub(crate) struct Page {
    asked: Asked,
    items: Items,
    chunk: Bytes,
}

impl Page {
    pub(crate) fn new(asked: Asked) -> Self {
        Self {
            asked,
            items: Items::new(MAX_VALUE),
            chunk: Bytes::new(),
        }
    }

    /// Takes what has arrived, once there is no next item of what came before.
    pub(crate) fn push(&mut self, chunk: Bytes) {
        self.chunk = chunk;
    }

    /// The bytes of the next object that has arrived; after an error the page is over.
    pub(crate) fn next_item(&mut self) -> Result<Option<Bytes>, Error> {
        let item = self.items.next_item(&mut self.chunk);
        item.map_err(|problem| no_list(&self.asked, &problem))
    }

    /// What the page says of the list, when the body has ended.
    pub(crate) fn finish(self) -> Result<PageEnd, Error> {
        let asked = self.asked;
        let metadata = self.items.finish();
        let metadata: ListMetadata = match metadata.map_err(|problem| no_list(&asked, &problem))? {
            Some(metadata) => serde_json::from_slice(&metadata).map_err(|error| {
                let problem = format!("it is not a list: its metadata: {}", place(&error));
                Error::decode(&asked, problem)
            })?,
            None => ListMetadata::default(),
        };
        Ok(PageEnd {
            version: ResourceVersion::new(metadata.resource_version),
            continue_token: Some(metadata.r#continue).filter(|token| !token.is_empty()),
            remaining: metadata.remaining_item_count,
        })
    }
}

fn no_list(asked: &Asked, problem: &NoList) -> Error {
    match problem {
        NoList::Cut => Error::transport(asked, problem.to_string()),
        _ => Error::decode(asked, format!("it is not a list: {problem}")),
    }
}

/// The lines of a watch body as events.
#[derive(Debug)]
pub(crate) struct Events {
    decoder: Decoder,
    asked: Asked,
    lines: Lines,
    /// The beginning of a value that spans lines: a pretty-printed `Status`.
    open: Vec<u8>,
}

/// What one line is.
enum Line {
    Event(WatchEvent),
    /// The line is the beginning of something longer.
    Open,
    Broken(String),
}

impl Events {
    pub(crate) fn new(decoder: Decoder, asked: Asked) -> Self {
        Self {
            decoder,
            asked,
            lines: Lines::new(MAX_LINE),
            open: Vec::new(),
        }
    }

    /// Takes what has arrived, once there is no next event of what came before.
    pub(crate) fn push(&mut self, chunk: Bytes) {
        self.lines.push(chunk);
    }

    /// The next event of what has arrived; after an error the watch is over.
    pub(crate) fn next_event(&mut self) -> Option<Result<WatchEvent, Error>> {
        loop {
            let line = match self.lines.next_line() {
                Ok(line) => line?,
                Err(TooLong { max }) => {
                    let problem = format!("an event is longer than {} MiB", max >> 20);
                    return Some(Err(Error::decode(&self.asked, problem)));
                }
            };
            if let Some(event) = self.line(&line) {
                return Some(event);
            }
        }
    }

    /// What is left at the end of the body: an event without a line end, or a cut one.
    pub(crate) fn finish(&mut self) -> Option<Result<WatchEvent, Error>> {
        let rest = self.lines.rest();
        if let Some(event) = self.line(&rest) {
            return Some(event);
        }
        let cut = !self.open.is_empty();
        cut.then(|| {
            Err(Error::transport(
                &self.asked,
                "the answer ends inside an event",
            ))
        })
    }

    fn line(&mut self, line: &[u8]) -> Option<Result<WatchEvent, Error>> {
        if self.open.is_empty() && line.iter().all(u8::is_ascii_whitespace) {
            return None;
        }
        let text: Cow<'_, [u8]> = if self.open.is_empty() {
            Cow::Borrowed(line)
        } else {
            self.open.extend_from_slice(line);
            Cow::Owned(std::mem::take(&mut self.open))
        };
        match self.decode(&text) {
            Line::Event(event) => Some(Ok(event)),
            Line::Open if text.len() <= MAX_LINE => {
                self.open = text.into_owned();
                // Between lines a string cannot be open, so a space changes nothing.
                self.open.push(b' ');
                None
            }
            Line::Open => Some(Err(Error::decode(&self.asked, "an event never ends"))),
            Line::Broken(problem) => Some(Err(Error::decode(&self.asked, problem))),
        }
    }

    fn decode(&self, text: &[u8]) -> Line {
        let plain = self.plain_event(text).map(Line::Event);
        plain.unwrap_or_else(|| self.parsed_event(text))
    }

    /// An event of an object as servers spell it, type first and nothing behind the object: what it is
    /// shows without a parser. `None` for anything else, which a parser takes.
    fn plain_event(&self, text: &[u8]) -> Option<WatchEvent> {
        let text = text.trim_ascii_end().strip_prefix(b"{\"type\":\"")?;
        let end = memchr(b'"', text)?;
        let event = match &text[..end] {
            b"ADDED" => WatchEvent::Added,
            b"MODIFIED" => WatchEvent::Modified,
            b"DELETED" => WatchEvent::Deleted,
            _ => return None,
        };
        let object = text[end..].strip_prefix(b"\",\"object\":")?;
        let object = plain_object(self.decoder.prepared(object.strip_suffix(b"}")?));
        object.ok().map(|object| event(Decoded::Good(object)))
    }

    fn parsed_event(&self, text: &[u8]) -> Line {
        let event: RawEvent<'_> = match serde_json::from_slice(text) {
            Ok(event) => event,
            Err(error) if error.is_eof() => return Line::Open,
            // A server (or a proxy) that answers 200 and then a Status without an envelope.
            Err(error) => {
                return match parse_status(text) {
                    Some(status) => Line::Event(WatchEvent::Error(Error::from_status(
                        self.asked.clone(),
                        status,
                        None,
                    ))),
                    None => Line::Broken(place(&error)),
                };
            }
        };
        let raw = event.object.get().as_bytes();
        Line::Event(match event.kind.as_ref() {
            "ADDED" => WatchEvent::Added(self.decoder.raw_object(raw)),
            "MODIFIED" => WatchEvent::Modified(self.decoder.raw_object(raw)),
            "DELETED" => WatchEvent::Deleted(self.decoder.raw_object(raw)),
            "BOOKMARK" => match serde_json::from_slice::<BookmarkObject>(raw) {
                Ok(BookmarkObject { metadata }) => WatchEvent::Bookmark {
                    version: ResourceVersion::new(metadata.resource_version),
                    initial_events_end: is_initial_events_end(metadata.annotations.as_ref()),
                },
                Err(error) => return Line::Broken(format!("a bookmark: {}", place(&error))),
            },
            "ERROR" => {
                let status = parse_status(raw).unwrap_or_default();
                WatchEvent::Error(Error::from_status(self.asked.clone(), status, None))
            }
            other => {
                let other: String = other.chars().take(40).collect();
                return Line::Broken(format!("an event of the unknown type {other:?}"));
            }
        })
    }
}

/// The value counts, not the presence of the key (KEP-3157).
fn is_initial_events_end(annotations: Option<&BTreeMap<String, String>>) -> bool {
    let value = annotations.and_then(|a| a.get("k8s.io/initial-events-end"));
    value.is_some_and(|v| v == "true")
}

/// The error of bytes that did not decode, with the path of the field: `spec.replicas: …`.
///
/// They are decoded once more for it, because keeping the path costs time that good objects need
/// not spend.
fn with_path<K: DeserializeOwned>(bytes: &[u8]) -> Option<String> {
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let error = serde_path_to_error::deserialize::<_, K>(&mut deserializer).err()?;
    let path = error.path().to_string();
    // A dot is the object itself.
    (path != ".").then(|| format!("{path}: {}", error.inner()))
}

/// Where a JSON error is, without any of the content.
pub(crate) fn place(error: &serde_json::Error) -> String {
    let what = match error.classify() {
        serde_json::error::Category::Io => "it cannot be read",
        serde_json::error::Category::Syntax => "it is not JSON",
        serde_json::error::Category::Data => "it has another shape",
        serde_json::error::Category::Eof => "it ends too early",
    };
    format!("{what} (line {}, column {})", error.line(), error.column())
}

#[cfg(test)]
mod tests;
