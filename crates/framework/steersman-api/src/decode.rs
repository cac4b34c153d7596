//! Machine: decodes one object, or only its metadata.

mod scan;
pub(crate) mod raw;
mod lines;
mod items;
mod bookmark;
pub(crate) mod protobuf;
pub(crate) mod bodies;

use std::borrow::Cow;

use bytes::Bytes;
use steersman_object::{Kind, Object, decode_json};

use crate::apply_digest::ApplyDigest;
use crate::error::Error;
use crate::event::{Decoded, Malformed, WatchEvent};
use crate::field_managers::FieldManagers;
use crate::head::{Head, RawObject};
use raw::Prepared;

#[derive(Clone, Debug)]
pub(crate) struct AnswerDecoder {
    kind: Kind,
    pub(crate) drop_managed_fields: bool,
    metadata_only: bool,
    /// The field managers with applies that are recognised.
    pub(crate) managers: FieldManagers,
}

/// The body of a watch, cut into its events.
pub(crate) trait WatchBody: Send {
    /// Takes the next chunk. Call it when `next_event` has returned `None`.
    fn push(&mut self, chunk: Bytes);

    /// Returns the next complete event. An error ends the watch.
    fn next_event(&mut self) -> Option<Result<WatchEvent, Error>>;

    /// Returns the last event of the body, if its line end is missing; an error if the body ends inside an event.
    /// Frames (protobuf) never leave an event.
    fn finish(&mut self) -> Option<Result<WatchEvent, Error>>;
}

impl AnswerDecoder {
    pub(crate) fn new(kind: Kind, drop_managed_fields: bool) -> Self {
        Self {
            kind,
            drop_managed_fields,
            metadata_only: false,
            managers: FieldManagers::default(),
        }
    }

    /// Returns the same decoder; if `enough` is set, it drops everything but the metadata.
    pub(crate) fn metadata_only(&self, enough: bool) -> Self {
        Self {
            metadata_only: enough,
            ..self.clone()
        }
    }

    /// Decodes an object. If it does not decode, returns its readable parts with the error.
    pub(crate) fn object<K: Object>(&self, raw: &[u8]) -> Decoded<K> {
        self.object_of(&self.prepared(raw))
    }

    /// Decodes a prepared object as [`object`](Self::object) does.
    pub(crate) fn object_of<K: Object>(&self, prepared: &Prepared<'_>) -> Decoded<K> {
        let error = match decode_json::<K>(&prepared.json, !is_secret(&self.kind)) {
            Ok(object) if !object.key().name().is_empty() => return Decoded::Good(object),
            Ok(_) => "metadata.name is missing".to_owned(),
            Err(error) => error,
        };
        malformed(&prepared.json, error).into()
    }

    /// Decodes only the metadata of an object. The object is malformed for every type if its metadata is unreadable or
    /// it names another kind.
    pub(crate) fn raw_object(&self, raw: &[u8]) -> Decoded<RawObject> {
        self.raw_of(self.prepared(raw))
    }

    /// Decodes the metadata of a prepared object as [`raw_object`](Self::raw_object) does.
    pub(crate) fn raw_of(&self, mut prepared: Prepared<'_>) -> Decoded<RawObject> {
        if let Some(foreign) = &prepared.foreign {
            let problem = format!(
                "it says that it is {foreign}, and {} of {} was asked for",
                self.kind.gvk().kind(),
                self.kind.gvk().api_version()
            );
            return malformed(&prepared.json, problem).into();
        }
        let applies = std::mem::take(&mut prepared.applies);
        let json = match plain_object(prepared) {
            Ok(object) => return Decoded::Good(object.with_applies(applies)),
            Err(json) => json,
        };
        match RawObject::from_json(json.to_vec()) {
            Ok(object) => Decoded::Good(object.with_applies(applies)),
            // The error is replaced, because it may quote a value, and an annotation of a Secret may hold the whole
            // Secret.
            Err(error) if is_secret(&self.kind) && !error.starts_with("metadata.name") => {
                malformed(&json, "its metadata has another shape".to_owned()).into()
            }
            Err(error) => malformed(&json, error).into(),
        }
    }

    pub(crate) fn prepared<'a>(&self, raw: &'a [u8]) -> Prepared<'a> {
        let (gvk, drop) = (self.kind.gvk(), self.drop_managed_fields);
        if self.metadata_only {
            return raw::metadata_of(raw, gvk, drop).unwrap_or_else(|| Prepared::unread(raw));
        }
        let mut prepared = raw::prepare(raw, gvk, drop);
        if self.managers.may_own_fields_of(raw) {
            prepared.applies = ApplyDigest::found_in(raw, gvk, &self.managers);
        }
        prepared
    }
}

/// Decodes the metadata of an object of a kind that arrived outside a list or watch. The result has the form of an
/// object in a list: with the type of the kind, and without `managedFields` unless they are kept.
pub fn decode_raw_object(kind: &Kind, keep_managed_fields: bool, raw: &[u8]) -> Decoded<RawObject> {
    AnswerDecoder::new(kind.clone(), !keep_managed_fields).raw_object(raw)
}

/// Returns an object of which only the metadata is decoded; the rest may be invalid JSON, which shows when it is
/// decoded as a type. Returns the bytes if the metadata does not decode, or the object names another kind.
pub(crate) fn plain_object(prepared: Prepared<'_>) -> Result<RawObject, Cow<'_, [u8]>> {
    let metadata = prepared.metadata.filter(|_| prepared.foreign.is_none());
    let metadata = metadata.and_then(|at| prepared.json.get(at));
    match metadata.and_then(Head::of_json) {
        Some(head) => {
            let json = prepared.json.into_owned();
            let object = RawObject::of_parts(head, json, prepared.conformity);
            Ok(object.with_applies(prepared.applies))
        }
        None => Err(prepared.json),
    }
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
