//! Machine: turns the bodies of lists and watches into objects and events, one at a time.

use std::borrow::Cow;

use bytes::Bytes;
use memchr::memchr;
use serde::Deserialize;
use serde_json::value::RawValue;
use steersman_object::{Object, ResourceVersion, json_error_position};

use super::bookmark::bookmark;
use super::items::{Items, MAX_VALUE, NoList};
use super::lines::{Lines, MAX_LINE, TooLong};
use super::protobuf::{FrameEvents, ProtobufItems};
use super::raw::Prepared;
use crate::decode::{AnswerDecoder, WatchBody, plain_object};
use crate::encoding::Negotiated;
use crate::error::{Error, parse_status};
use crate::event::{Decoded, PageEnd, WatchEvent};
use crate::head::RawObject;
use crate::request_info::RequestInfo;

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

/// The body of one page of a list, cut into its objects.
#[derive(Debug)]
pub(crate) struct PageBody {
    info: RequestInfo,
    decoder: AnswerDecoder,
    items: PageItems,
    chunk: Bytes,
}

#[derive(Debug)]
enum PageItems {
    Json(Items),
    Protobuf(ProtobufItems),
}

impl PageBody {
    pub(crate) fn new(decoder: AnswerDecoder, info: RequestInfo, negotiated: Negotiated) -> Self {
        let items = if negotiated.is_protobuf {
            PageItems::Protobuf(ProtobufItems::new(negotiated))
        } else {
            PageItems::Json(Items::new(MAX_VALUE))
        };
        Self {
            info,
            decoder,
            items,
            chunk: Bytes::new(),
        }
    }

    /// Takes the next chunk. Call it when `next_raw` or `next_object` has returned `None`.
    pub(crate) fn push(&mut self, chunk: Bytes) {
        self.chunk = chunk;
    }

    /// Returns the next complete object, with only its metadata decoded. An error ends the page.
    pub(crate) fn next_raw(&mut self) -> Result<Option<Decoded<RawObject>>, Error> {
        self.next(|decoder, prepared| decoder.raw_of(prepared))
    }

    /// Returns the next complete object, decoded as a type. An error ends the page.
    pub(crate) fn next_object<K: Object>(&mut self) -> Result<Option<Decoded<K>>, Error> {
        self.next(|decoder, prepared| decoder.object_of(&prepared))
    }

    fn next<T>(
        &mut self,
        decode: impl FnOnce(&AnswerDecoder, Prepared<'_>) -> Decoded<T>,
    ) -> Result<Option<Decoded<T>>, Error> {
        let (decoder, info, chunk) = (&self.decoder, &self.info, &mut self.chunk);
        Ok(match &mut self.items {
            PageItems::Json(items) => {
                let item = items.next_item(chunk);
                let item = item.map_err(|problem| no_list(info, &problem))?;
                item.map(|item| decode(decoder, decoder.prepared(&item)))
            }
            PageItems::Protobuf(items) => {
                let item = items.next_item(chunk, decoder, info)?;
                item.map(|item| match item {
                    Ok(prepared) => decode(decoder, prepared),
                    Err(malformed) => Decoded::from(*malformed),
                })
            }
        })
    }

    pub(crate) fn finish(self) -> Result<PageEnd, Error> {
        let info = self.info;
        let metadata = match self.items {
            PageItems::Json(items) => {
                let metadata = items.finish();
                metadata
                    .map_err(|problem| no_list(&info, &problem))?
                    .map(Into::into)
            }
            PageItems::Protobuf(items) => items.finish(&info)?,
        };
        let metadata: ListMetadata = match metadata {
            Some(metadata) => serde_json::from_slice(&metadata).map_err(|error| {
                let problem = format!(
                    "it is not a list: its metadata: {}",
                    json_error_position(&error)
                );
                Error::decode(&info, problem)
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

fn no_list(info: &RequestInfo, problem: &NoList) -> Error {
    match problem {
        NoList::Cut => Error::transport(info, problem.to_string()),
        _ => Error::decode(info, format!("it is not a list: {problem}")),
    }
}

/// Returns the body of a watch in the encoding of its answer.
pub(crate) fn watch_body(
    decoder: AnswerDecoder,
    info: RequestInfo,
    negotiated: Negotiated,
) -> Box<dyn WatchBody> {
    if negotiated.is_protobuf {
        Box::new(FrameEvents::new(decoder, info, negotiated))
    } else {
        Box::new(LineEvents::new(decoder, info))
    }
}

/// The body of a watch in JSON, with one event per line.
#[derive(Debug)]
pub(crate) struct LineEvents {
    decoder: AnswerDecoder,
    info: RequestInfo,
    lines: Lines,
    /// The first lines of a value that spans several lines, such as a pretty-printed `Status`.
    open: Vec<u8>,
}

impl WatchBody for LineEvents {
    fn push(&mut self, chunk: Bytes) {
        self.lines.push(chunk);
    }

    fn next_event(&mut self) -> Option<Result<WatchEvent, Error>> {
        loop {
            let line = match self.lines.next_line() {
                Ok(line) => line?,
                Err(TooLong { max }) => {
                    let problem = format!("an event is longer than {} MiB", max >> 20);
                    return Some(Err(Error::decode(&self.info, problem)));
                }
            };
            if let Some(event) = self.line(&line) {
                return Some(event);
            }
        }
    }

    fn finish(&mut self) -> Option<Result<WatchEvent, Error>> {
        let rest = self.lines.rest();
        if let Some(event) = self.line(&rest) {
            return Some(event);
        }
        let cut = !self.open.is_empty();
        cut.then(|| {
            Err(Error::transport(
                &self.info,
                "the answer ends inside an event",
            ))
        })
    }
}

impl LineEvents {
    pub(crate) fn new(decoder: AnswerDecoder, info: RequestInfo) -> Self {
        Self {
            decoder,
            info,
            lines: Lines::new(MAX_LINE),
            open: Vec::new(),
        }
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
            Ok(Some(event)) => Some(Ok(event)),
            Ok(None) if text.len() <= MAX_LINE => {
                self.open = text.into_owned();
                // A space replaces the line end, because no JSON string can span lines.
                self.open.push(b' ');
                None
            }
            Ok(None) => Some(Err(Error::decode(&self.info, "an event never ends"))),
            Err(problem) => Some(Err(Error::decode(&self.info, problem))),
        }
    }

    /// Returns the event in a line; `None` if the line begins a value that spans several lines.
    fn decode(&self, text: &[u8]) -> Result<Option<WatchEvent>, String> {
        match self.plain_event(text) {
            Some(event) => Ok(Some(event)),
            None => self.parsed_event(text),
        }
    }

    /// Returns an event that has the form in which servers write events: the type first, and the object last. This form
    /// needs no JSON parser. `None` for any other form.
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

    fn parsed_event(&self, text: &[u8]) -> Result<Option<WatchEvent>, String> {
        let refused =
            |status| WatchEvent::Error(Error::from_status(self.info.clone(), status, None));
        let event: RawEvent<'_> = match serde_json::from_slice(text) {
            Ok(event) => event,
            Err(error) if error.is_eof() => return Ok(None),
            // A server or proxy may answer 200 and then send a bare `Status` instead of an event.
            Err(error) => {
                let status = parse_status(text).ok_or_else(|| json_error_position(&error))?;
                return Ok(Some(refused(status)));
            }
        };
        let raw = event.object.get().as_bytes();
        Ok(Some(match event.kind.as_ref() {
            "ADDED" => WatchEvent::Added(self.decoder.raw_object(raw)),
            "MODIFIED" => WatchEvent::Modified(self.decoder.raw_object(raw)),
            "DELETED" => WatchEvent::Deleted(self.decoder.raw_object(raw)),
            "BOOKMARK" => bookmark(raw)?,
            "ERROR" => refused(parse_status(raw).unwrap_or_default()),
            other => {
                let other: String = other.chars().take(40).collect();
                return Err(format!("an event of the unknown type {other:?}"));
            }
        }))
    }
}

#[cfg(test)]
mod tests;
