//! Machine: decodes one object, or only its metadata.

use std::borrow::Cow;

use serde::de::DeserializeOwned;
use steersman_object::{Kind, Object};

use crate::event::{Decoded, Malformed};
use crate::head::{Head, RawObject};
use crate::raw::{self, Prepared};

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

    pub(crate) fn prepared<'a>(&self, raw: &'a [u8]) -> Prepared<'a> {
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
pub(crate) fn plain_object(prepared: Prepared<'_>) -> Result<RawObject, Cow<'_, [u8]>> {
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
            return error_position(&error);
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
pub(crate) fn error_position(error: &serde_json::Error) -> String {
    let what = match error.classify() {
        serde_json::error::Category::Io => "it cannot be read",
        serde_json::error::Category::Syntax => "it is not JSON",
        serde_json::error::Category::Data => "it has another shape",
        serde_json::error::Category::Eof => "it ends too early",
    };
    format!("{what} (line {}, column {})", error.line(), error.column())
}
