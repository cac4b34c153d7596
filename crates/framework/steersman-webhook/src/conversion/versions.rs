//! Machine: converts one object between the versions of its kind.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;
use steersman_object::{Gvk, Kind, TypedObject, decode_value};

use super::Spoke;
use super::kept_fields::{annotation, content, is_known, object, put, take};
use crate::unknown_fields::with_changes;

/// The versions of the kinds that a conversion webhook converts, with a hub for each kind. Cheap to clone.
///
/// **No field is lost** (CONV-2). If an object cannot be converted back to what it was, because the other version
/// cannot hold a field, its content is kept in the annotation `<group>/fields-of-<version>` of the converted object.
/// The conversion back uses the kept content, with the changes that were made in the other version meanwhile. A list
/// that was changed meanwhile, and that has another length in the other version, is taken from that version as it is.
/// [`without_kept_fields`](Self::without_kept_fields) turns that off.
#[derive(Clone, Default)]
#[must_use]
pub struct Conversions {
    versions: Arc<Vec<ErasedVersion>>,
    drops_fields: bool,
}

/// Why an object could not be converted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConversionError {
    /// The value has no `apiVersion` and `kind`.
    #[error("it is no object: apiVersion and kind are missing")]
    NoObject,
    /// No version of the kind is registered under this name.
    #[error("{gvk} is not registered for conversion: the versions of the kind are {known}")]
    UnknownVersion {
        /// The kind in the version that is not registered.
        gvk: Gvk,
        /// The registered versions of the kind; `none` without any.
        known: String,
    },
    /// The object is not what the Rust type of its version can read.
    #[error("it cannot be read as {gvk}: {problem}")]
    Unreadable {
        /// The kind in the version of the object.
        gvk: Gvk,
        /// The problem, with the path of the field.
        problem: String,
    },
    /// The conversion of the program failed or panicked.
    #[error("it cannot be converted from {from} to {to}: {problem}")]
    Failed {
        /// The kind in the version of the object.
        from: Gvk,
        /// The kind in the requested version.
        to: Gvk,
        /// The error or panic message of the conversion.
        problem: String,
    },
    /// The kept content is larger than annotations may be.
    #[error(
        "the fields that {to} cannot hold are too large for an annotation: {bytes} bytes of at most 200000"
    )]
    TooLarge {
        /// The kind in the requested version.
        to: Gvk,
        /// The size of the kept content.
        bytes: usize,
    },
}

/// A version of a kind, with its Rust type erased.
#[derive(Clone)]
struct ErasedVersion {
    gvk: Gvk,
    hub: Gvk,
    /// Decodes an object with the Rust type, and encodes it again.
    encoded: fn(&Value) -> Result<Value, ConversionError>,
    to_hub: fn(&Value) -> Result<Value, ConversionError>,
    from_hub: fn(&Value) -> Result<Value, ConversionError>,
}

/// The greatest size of kept content in bytes. All annotations of an object have at most 256 KiB.
const LARGEST: usize = 200_000;

impl Conversions {
    /// Makes a set without any version.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a kind with its hub version.
    pub fn hub<H: TypedObject>(self) -> Self {
        let gvk = Kind::of::<H>().gvk().clone();
        self.with(ErasedVersion {
            hub: gvk.clone(),
            gvk,
            encoded: encoded::<H>,
            to_hub: encoded::<H>,
            from_hub: encoded::<H>,
        })
    }

    /// Adds a version of a kind, which is converted through the hub.
    pub fn spoke<S: Spoke>(self) -> Self {
        self.with(ErasedVersion {
            gvk: Kind::of::<S>().gvk().clone(),
            hub: Kind::of::<S::Hub>().gvk().clone(),
            encoded: encoded::<S>,
            to_hub: to_hub::<S>,
            from_hub: from_hub::<S>,
        })
    }

    /// Adds all versions of `other`. The setting of `self` decides whether fields are kept.
    pub fn merge(mut self, other: Self) -> Self {
        Arc::make_mut(&mut self.versions).extend(Arc::unwrap_or_clone(other.versions));
        self
    }

    /// Drops the fields that the other version cannot hold, instead of keeping them in an annotation.
    pub fn without_kept_fields(mut self) -> Self {
        self.drops_fields = true;
        self
    }

    pub(crate) fn hubs(&self) -> Vec<Gvk> {
        let hubs = self
            .versions
            .iter()
            .filter(|version| version.gvk == version.hub);
        hubs.map(|hub| hub.gvk.clone()).collect()
    }

    fn with(mut self, version: ErasedVersion) -> Self {
        Arc::make_mut(&mut self.versions).push(version);
        self
    }

    /// Returns the problem of an invalid set: a version without a hub, or a version that is registered twice.
    pub(crate) fn problem(&self) -> Option<String> {
        for (at, version) in self.versions.iter().enumerate() {
            let gvk = &version.gvk;
            if self.versions[..at].iter().any(|known| known.gvk == *gvk) {
                return Some(format!("{gvk} is registered twice"));
            }
            if !self.versions.iter().any(|known| known.gvk == version.hub) {
                let hub = &version.hub;
                return Some(format!("{gvk} needs its hub: add `hub` of {hub}"));
            }
            if !gvk.same_group_kind(&version.hub) {
                let hub = &version.hub;
                return Some(format!("{gvk} and its hub {hub} are not one kind"));
            }
        }
        None
    }

    /// Converts an object to another `apiVersion` of its kind, such as `example.com/v1`.
    ///
    /// # Errors
    ///
    /// [`ConversionError`].
    pub fn convert(&self, original: &Value, api_version: &str) -> Result<Value, ConversionError> {
        let text = |field: &str| original[field].as_str().filter(|text| !text.is_empty());
        let (Some(present), Some(kind)) = (text("apiVersion"), text("kind")) else {
            return Err(ConversionError::NoObject);
        };
        let from = self.find(Gvk::from_api_version(present, kind))?;
        let to = self.find(Gvk::from_api_version(api_version, kind))?;
        if from.gvk == to.gvk {
            return Ok(original.clone());
        }
        if from.gvk == from.hub || to.gvk == to.hub {
            return self.step(from, to, original);
        }
        // The hub gets its kept fields back first, so that the target version receives the fields that it can hold.
        let hub = self.find(from.hub.clone())?;
        let on_the_way = self.step(from, hub, original)?;
        self.step(hub, to, &on_the_way)
    }

    fn step(
        &self,
        from: &ErasedVersion,
        to: &ErasedVersion,
        original: &Value,
    ) -> Result<Value, ConversionError> {
        let (present, api_version) = (from.gvk.api_version(), to.gvk.api_version());
        let mut metadata = original["metadata"].clone();
        let (group, kind) = (to.gvk.group(), &original["kind"]);
        let kept = take(&mut metadata, &annotation(group, to.gvk.version()));
        // Kept content of the object's own version is dropped, because the object itself is newer.
        take(&mut metadata, &annotation(group, from.gvk.version()));
        let original = content(original);
        let bare = object(&present, kind, metadata.clone(), original.clone());

        let source = (from.encoded)(&bare)?;
        let converted = convert(from, to, &source)?;
        let mut converted_content = content(&converted);
        if let Some(kept) = kept {
            let before = object(&api_version, kind, metadata.clone(), kept.clone());
            let seen = convert(to, from, &before);
            // Kept content that cannot be converted is ignored: an older definition had other fields.
            if let Ok(before) = seen.and_then(|seen| convert(from, to, &seen)) {
                converted_content = with_changes(&kept, &content(&before), &converted_content);
            }
        }
        let metadata = with_changes(&metadata, &source["metadata"], &converted["metadata"]);
        let mut result = object(&api_version, kind, metadata, converted_content);
        // The way back makes the same object of the result, and its type has all fields of the original content.
        let is_lossless = || {
            let source = content(&source);
            let back = convert(to, from, &result);
            back.is_ok_and(|back| content(&back) == source) && is_known(&original, &source)
        };
        if self.drops_fields || is_lossless() {
            return Ok(result);
        }
        let bytes = original.to_string().len();
        if bytes > LARGEST {
            let to = to.gvk.clone();
            return Err(ConversionError::TooLarge { to, bytes });
        }
        let annotation = annotation(group, from.gvk.version());
        put(&mut result["metadata"], annotation, &original);
        Ok(result)
    }

    /// Decodes an object with the Rust type of its version, and encodes it again.
    ///
    /// # Errors
    ///
    /// [`ConversionError`].
    pub fn encoded(&self, object: &Value) -> Result<Value, ConversionError> {
        let text = |field: &str| object[field].as_str().unwrap_or_default();
        let version = self.find(Gvk::from_api_version(text("apiVersion"), text("kind")))?;
        (version.encoded)(object)
    }

    fn find(&self, gvk: Gvk) -> Result<&ErasedVersion, ConversionError> {
        let found = self.versions.iter().find(|version| version.gvk == gvk);
        found.ok_or_else(|| {
            let known: Vec<&str> = self
                .versions
                .iter()
                .filter(|version| version.gvk.same_group_kind(&gvk))
                .map(|version| version.gvk.version())
                .collect();
            let known = match &*known {
                [] => "none".to_owned(),
                some => some.join(", "),
            };
            ConversionError::UnknownVersion { gvk, known }
        })
    }
}

fn convert(
    from: &ErasedVersion,
    to: &ErasedVersion,
    object: &Value,
) -> Result<Value, ConversionError> {
    let hub = (from.to_hub)(object)?;
    (to.from_hub)(&hub)
}

fn decoded<K: TypedObject>(object: &Value) -> Result<K, ConversionError> {
    decode_value(object, true).map_err(unreadable::<K>)
}

fn encoded<K: TypedObject>(object: &Value) -> Result<Value, ConversionError> {
    written(&decoded::<K>(object)?)
}

fn written<K: TypedObject>(object: &K) -> Result<Value, ConversionError> {
    serde_json::to_value(object).map_err(|error| unreadable::<K>(error.to_string()))
}

fn unreadable<K: TypedObject>(problem: String) -> ConversionError {
    let gvk = Kind::of::<K>().gvk().clone();
    ConversionError::Unreadable { gvk, problem }
}

fn to_hub<S: Spoke>(object: &Value) -> Result<Value, ConversionError> {
    let hub = decoded::<S>(object)?.to_hub();
    written(&hub.map_err(|error| failed::<S, S::Hub>(&*error))?)
}

fn from_hub<S: Spoke>(object: &Value) -> Result<Value, ConversionError> {
    let spoke = S::from_hub(&decoded::<S::Hub>(object)?);
    written(&spoke.map_err(|error| failed::<S::Hub, S>(&*error))?)
}

fn failed<From: TypedObject, To: TypedObject>(
    error: &(dyn std::error::Error + Send + Sync + 'static),
) -> ConversionError {
    ConversionError::Failed {
        from: Kind::of::<From>().gvk().clone(),
        to: Kind::of::<To>().gvk().clone(),
        problem: steersman_object::report(error).to_string(),
    }
}

impl fmt::Debug for Conversions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let versions = self.versions.iter().map(|version| &version.gvk);
        f.debug_set().entries(versions).finish()
    }
}
