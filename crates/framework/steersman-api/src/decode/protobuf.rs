//! Machine: turns protobuf into objects and events. Objects become the JSON that the rest of the client decodes and
//! keeps.

use std::borrow::Cow;

use bytes::Bytes;
use steersman_protobuf::stream::Broken;
use steersman_protobuf::{
    Envelope, Frames, Keep, ListItems, Message, Unknown, WatchFrame, append_message, append_object,
};

use super::bookmark::bookmark;
use super::raw::Prepared;
use crate::apply_digest::ApplyDigest;
use crate::decode::{AnswerDecoder, WatchBody};
use crate::encoding::Negotiated;
use crate::error::{Error, parse_status};
use crate::event::{Decoded, Malformed, WatchEvent};
use crate::head::{Conformity, RawObject};
use crate::request_info::RequestInfo;

/// An object that arrived in protobuf: its JSON, or the reason why it does not decode.
pub(crate) type PreparedProtobuf<'a> = Result<Prepared<'a>, Box<Malformed>>;

/// A reused buffer for the JSON of one object at a time, so that each object is copied once, with its final length.
#[derive(Debug, Default)]
struct JsonBuffer(Vec<u8>);

/// The number of bytes that an emptied buffer keeps allocated.
const KEPT: usize = 256 << 10;

const METADATA: (&str, &str) = ("meta.k8s.io/v1", "PartialObjectMetadata");

/// Returns the JSON of an answer in protobuf, and the fields that were dropped from it.
pub(crate) fn to_json(body: &[u8]) -> Result<(Bytes, Unknown), String> {
    let mut json = Vec::with_capacity(2 * body.len());
    let findings = Envelope::open(body)?.append_json(Keep::WHOLE, &mut json)?;
    Ok((json.into(), findings.unknown))
}

impl JsonBuffer {
    fn emptied(&mut self) -> &mut Vec<u8> {
        self.0.clear();
        self.0.shrink_to(KEPT);
        &mut self.0
    }
}

impl AnswerDecoder {
    /// Prepares an object that arrived as a message of its kind, or as metadata alone.
    fn transcoded<'a>(
        &self,
        raw: &[u8],
        buffer: &'a mut JsonBuffer,
    ) -> Result<(Prepared<'a>, Unknown), String> {
        let (api_version, kind) = (self.kind.gvk().api_version(), self.kind.gvk().kind());
        // Metadata is the same field in every kind, so it can be read even for a kind that is not in the table.
        let message = Message::of_kind(&api_version, kind)
            .or_else(|| Message::of_kind(METADATA.0, METADATA.1).filter(|_| self.metadata_only))
            .ok_or("its kind is not one of those that are sent in protobuf")?;
        let keep = Keep {
            managed_fields: !self.drop_managed_fields,
            beyond_metadata: !self.metadata_only,
        };
        let mut applies = Box::default();
        if !self.metadata_only && self.managers.may_own_fields_of(raw) {
            // Decoded again with all fields, which is rare: few objects are applied by this program.
            let whole = buffer.emptied();
            append_object((&api_version, kind), message, raw, Keep::WHOLE, whole)?;
            applies = ApplyDigest::found_in(whole, self.kind.gvk(), &self.managers);
        }
        let json = buffer.emptied();
        let findings = append_object((&api_version, kind), message, raw, keep, json)?;
        let unknown = if self.metadata_only {
            Unknown::default()
        } else {
            findings.unknown
        };
        let prepared = Prepared {
            json: Cow::Borrowed(json),
            metadata: findings.metadata,
            foreign: None,
            conformity: match findings.has_untyped || self.metadata_only {
                true => Conformity::Unchecked,
                false => Conformity::OfItsKind,
            },
            applies,
        };
        Ok((prepared, unknown))
    }

    fn asks_for(&self, api_version: &str, kind: &str) -> bool {
        let gvk = self.kind.gvk();
        (api_version, kind) == (&*gvk.api_version(), gvk.kind())
            || (self.metadata_only && (api_version, kind) == METADATA)
    }

    /// Prepares an object that arrived in protobuf. If it does not decode, keeps its metadata with the error; other
    /// objects are not affected.
    fn prepared_protobuf<'a>(
        &self,
        raw: &[u8],
        negotiated: &Negotiated,
        buffer: &'a mut JsonBuffer,
    ) -> PreparedProtobuf<'a> {
        let problem = match self.transcoded(raw, buffer) {
            Ok((prepared, unknown)) => {
                if unknown.count > 0 {
                    negotiated.note_unknown(&self.kind.qualified_plural(), &unknown);
                }
                return Ok(prepared);
            }
            Err(problem) => problem,
        };
        let mut buffer = JsonBuffer::default();
        let metadata = self.metadata_only(true).transcoded(raw, &mut buffer);
        let json = metadata.map(|(prepared, _)| prepared.json.into_owned());
        let malformed = super::malformed(&json.unwrap_or_default(), problem);
        Err(Box::new(malformed))
    }
}

/// The body of a list in protobuf, cut into its objects.
#[derive(Debug)]
pub(crate) struct ProtobufItems {
    items: ListItems,
    negotiated: Negotiated,
    knows_kind: bool,
    buffer: JsonBuffer,
}

impl ProtobufItems {
    pub(crate) fn new(negotiated: Negotiated) -> Self {
        Self {
            items: ListItems::new(),
            negotiated,
            knows_kind: false,
            buffer: JsonBuffer::default(),
        }
    }

    /// Returns the next complete object. An error ends the list, which is then requested as JSON.
    pub(crate) fn next_item(
        &mut self,
        chunk: &mut Bytes,
        decoder: &AnswerDecoder,
        info: &RequestInfo,
    ) -> Result<Option<PreparedProtobuf<'_>>, Error> {
        let item = match self.items.next_item(chunk) {
            Ok(Some(item)) => item,
            Ok(None) => return Ok(None),
            Err(problem) => return Err(broken(&self.negotiated, info, &problem.to_string())),
        };
        if !std::mem::replace(&mut self.knows_kind, true) {
            self.check_kind(decoder)
                .map_err(|why| broken(&self.negotiated, info, &why))?;
        }
        let prepared = decoder.prepared_protobuf(&item, &self.negotiated, &mut self.buffer);
        Ok(Some(prepared))
    }

    /// Returns the metadata of the list as JSON. Call it at the end of the body.
    pub(crate) fn finish(self, info: &RequestInfo) -> Result<Option<Vec<u8>>, Error> {
        let list_meta = match self.items.finish() {
            Ok(list_meta) => list_meta,
            Err(cut @ Broken::Cut { .. }) => return Err(Error::transport(info, cut.to_string())),
            Err(problem) => return Err(broken(&self.negotiated, info, &problem.to_string())),
        };
        let (Some(list_meta), Some(message)) = (list_meta, Message::named("meta.v1.ListMeta"))
        else {
            return Ok(None);
        };
        let mut json = Vec::new();
        append_message(message, &list_meta, &mut json)
            .map_err(|why| broken(&self.negotiated, info, &format!("its metadata: {why}")))?;
        Ok(Some(json))
    }

    fn check_kind(&self, decoder: &AnswerDecoder) -> Result<(), String> {
        let (api_version, kind) = self.items.list_kind();
        let item = kind.strip_suffix("List").unwrap_or_default();
        if decoder.asks_for(api_version, item) {
            return Ok(());
        }
        Err(format!("it says that it is {kind} of {api_version}"))
    }
}

fn broken(negotiated: &Negotiated, info: &RequestInfo, problem: &str) -> Error {
    let problem = format!("it is not a list in protobuf: {problem}");
    negotiated.fall_back(&format!("{info}: {problem}"));
    Error::decode(info, problem)
}

#[derive(Debug)]
pub(crate) struct FrameEvents {
    decoder: AnswerDecoder,
    info: RequestInfo,
    frames: Frames,
    negotiated: Negotiated,
    buffer: JsonBuffer,
}

impl WatchBody for FrameEvents {
    fn push(&mut self, chunk: Bytes) {
        self.frames.push(chunk);
    }

    /// Returns the next complete event. After an error, the next watch is requested as JSON.
    fn next_event(&mut self) -> Option<Result<WatchEvent, Error>> {
        let frame = self
            .frames
            .next_frame()
            .map_err(|problem| problem.to_string());
        let event = frame.and_then(|frame| frame.map(|frame| self.event(&frame)).transpose());
        event.transpose().map(|event| {
            event.map_err(|problem| {
                let problem = format!("an event in protobuf: {problem}");
                self.negotiated
                    .fall_back(&format!("{}: {problem}", self.info));
                Error::decode(&self.info, problem)
            })
        })
    }

    fn finish(&mut self) -> Option<Result<WatchEvent, Error>> {
        let cut = self.frames.finish().err()?;
        Some(Err(Error::transport(&self.info, cut.to_string())))
    }
}

impl FrameEvents {
    pub(crate) fn new(decoder: AnswerDecoder, info: RequestInfo, negotiated: Negotiated) -> Self {
        Self {
            decoder,
            info,
            frames: Frames::default(),
            negotiated,
            buffer: JsonBuffer::default(),
        }
    }

    fn event(&mut self, frame: &[u8]) -> Result<WatchEvent, String> {
        let event = WatchFrame::read(frame)?;
        let make = match event.kind {
            b"ADDED" => WatchEvent::Added,
            b"MODIFIED" => WatchEvent::Modified,
            b"DELETED" => WatchEvent::Deleted,
            b"BOOKMARK" => return bookmark(&json_of(&event)?),
            b"ERROR" => {
                let status = parse_status(&json_of(&event)?).unwrap_or_default();
                let error = Error::from_status(self.info.clone(), status, None);
                return Ok(WatchEvent::Error(error));
            }
            other => {
                let other: String = String::from_utf8_lossy(other).chars().take(40).collect();
                return Err(format!("it has the unknown type {other:?}"));
            }
        };
        self.object(&event).map(make)
    }

    fn object(&mut self, event: &WatchFrame<'_>) -> Result<Decoded<RawObject>, String> {
        let envelope = Envelope::open(event.object)?;
        if !self.decoder.asks_for(&envelope.api_version, &envelope.kind) {
            // An object of another kind is malformed, and affects no other object, as in JSON.
            return Ok(self.decoder.raw_object(&json_of(event)?));
        }
        let object = self
            .decoder
            .prepared_protobuf(envelope.raw, &self.negotiated, &mut self.buffer);
        Ok(match object {
            Ok(prepared) => self.decoder.raw_of(prepared),
            Err(malformed) => (*malformed).into(),
        })
    }
}

fn json_of(event: &WatchFrame<'_>) -> Result<Bytes, String> {
    to_json(event.object).map(|(json, _)| json)
}

#[cfg(test)]
mod tests;
