//! Words: one arrived object: its JSON, and its decoded metadata.

use std::collections::BTreeMap;
use std::hash::BuildHasher as _;

use foldhash::quality::FixedState;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Deserializer;
use serde_json::value::RawValue;
use steersman_object::{Object, ObjectKey, ResourceVersion};

use crate::apply_digest::ApplyDigest;

/// The metadata of an object, for routing.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Head {
    /// Namespace and name.
    pub key: ObjectKey,
    /// The uid; empty before the object was created.
    pub uid: String,
    /// The version; unset before the object was created.
    pub version: ResourceVersion,
    /// The generation; `None` for kinds without one.
    pub generation: Option<i64>,
    /// Whether the object has a deletion timestamp, so that only finalizers or a grace period keep it.
    pub deleting: bool,
    /// The labels; empty if the object has none.
    pub labels: BTreeMap<String, String>,
    /// A hash of the annotations as they are encoded; 0 without annotations. Different annotations have equal hashes
    /// with a probability of one in four billion.
    pub annotations_hash: u32,
    /// The owner references; empty if the object has none.
    pub owners: Vec<OwnerReference>,
    /// The finalizers; empty if the object has none.
    pub finalizers: Vec<String>,
}

/// One object: its JSON, which is not decoded as a type, and its [`Head`].
#[derive(Clone, derive_more::Debug)]
// Omits the JSON, which may be that of a Secret.
#[debug("{}@{}", head.key, head.version)]
pub struct RawObject {
    head: Head,
    json: Box<[u8]>,
    conformity: Conformity,
    applies: Box<[ApplyDigest]>,
}

/// The knowledge about the JSON of an object before it is decoded as a type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Conformity {
    /// The JSON may have any form.
    #[default]
    Unchecked,
    /// The JSON was made of a protobuf message without embedded JSON, so every field has the type that the kind gives
    /// it ([`decodes_all_protobuf`](steersman_object::decodes_all_protobuf)).
    OfItsKind,
}

#[derive(Deserialize)]
struct Top<'a> {
    #[serde(default, borrow)]
    metadata: Option<Metadata<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata<'a> {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    generation: Option<i64>,
    deletion_timestamp: Option<IgnoredAny>,
    labels: Option<BTreeMap<String, String>>,
    #[serde(borrow)]
    annotations: Option<&'a RawValue>,
    owner_references: Option<Vec<OwnerReference>>,
    finalizers: Option<Vec<String>>,
}

impl Head {
    /// Returns the head of an object with this metadata.
    pub fn of_meta(meta: &ObjectMeta) -> Self {
        let annotations = meta.annotations.as_ref();
        // A map with text keys and values always encodes.
        let annotations = annotations.and_then(|all| serde_json::to_string(all).ok());
        Self {
            key: ObjectKey::of_meta(meta),
            uid: meta.uid.clone().unwrap_or_default(),
            version: ResourceVersion::new(meta.resource_version.as_deref().unwrap_or_default()),
            generation: meta.generation,
            deleting: meta.deletion_timestamp.is_some(),
            labels: meta.labels.clone().unwrap_or_default(),
            annotations_hash: annotations.as_deref().map_or(0, hash_of),
            owners: meta.owner_references.clone().unwrap_or_default(),
            finalizers: meta.finalizers.clone().unwrap_or_default(),
        }
    }

    /// Returns the head of an object from the JSON of its metadata; `None` if the metadata does not decode or has no
    /// name.
    pub(crate) fn of_json(metadata: &[u8]) -> Option<Self> {
        let metadata = serde_json::from_slice(metadata).ok()?;
        Some(Self::of(metadata)).filter(|head| !head.key.name().is_empty())
    }

    fn of(metadata: Metadata<'_>) -> Self {
        let version = metadata.resource_version.unwrap_or_default();
        Self {
            key: ObjectKey::namespaced(
                metadata.namespace.unwrap_or_default(),
                metadata.name.unwrap_or_default(),
            ),
            uid: metadata.uid.unwrap_or_default(),
            version: ResourceVersion::new(version),
            generation: metadata.generation,
            deleting: metadata.deletion_timestamp.is_some(),
            labels: metadata.labels.unwrap_or_default(),
            annotations_hash: metadata.annotations.map_or(0, |all| hash_of(all.get())),
            owners: metadata.owner_references.unwrap_or_default(),
            finalizers: metadata.finalizers.unwrap_or_default(),
        }
    }
}

impl RawObject {
    /// Makes an object of its JSON. Only the metadata is decoded; the rest is checked to be valid JSON.
    ///
    /// # Errors
    ///
    /// The problem as text for people: the bytes are no JSON object, the metadata has another form, or the name is
    /// missing. The text may quote a value.
    pub fn from_json(json: impl Into<Box<[u8]>>) -> Result<Self, String> {
        let json = json.into();
        // Serde would accept a list in place of a struct.
        let first = json.iter().find(|byte| !byte.is_ascii_whitespace());
        if first != Some(&b'{') {
            return Err("invalid type: it is not a JSON object".to_owned());
        }
        let top: Top<'_> = serde_json::from_slice(&json).map_err(|error| {
            // Decoded a second time for the path of the error, because recording the path would slow down valid
            // objects.
            let mut deserializer = Deserializer::from_slice(&json);
            match serde_path_to_error::deserialize::<_, Top<'_>>(&mut deserializer) {
                Err(error) => format!("{}: {}", error.path(), error.inner()),
                Ok(_) => error.to_string(),
            }
        })?;
        let head = Head::of(top.metadata.unwrap_or_default());
        if head.key.name().is_empty() {
            return Err("metadata.name is missing".to_owned());
        }
        Ok(Self::of_parts(head, json, Conformity::Unchecked))
    }

    pub(crate) fn of_parts(head: Head, json: impl Into<Box<[u8]>>, conformity: Conformity) -> Self {
        let json = json.into();
        Self {
            head,
            json,
            conformity,
            applies: Box::default(),
        }
    }

    /// Returns the object with these digests of applies: see [`applies`](Self::applies).
    #[must_use]
    pub fn with_applies(self, applies: Box<[ApplyDigest]>) -> Self {
        Self { applies, ..self }
    }

    /// Encodes an object as it would arrive, for other implementations of [`ListWatch`](crate::ListWatch).
    ///
    /// # Errors
    ///
    /// As [`from_json`](Self::from_json), and if the object does not encode.
    pub fn of<K: Object>(object: &K) -> Result<Self, String> {
        let json = serde_json::to_vec(object).map_err(|error| error.to_string())?;
        Self::from_json(json)
    }

    /// Returns the decoded metadata.
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// Returns the JSON.
    pub fn json(&self) -> &[u8] {
        &self.json
    }

    /// Returns the knowledge about the JSON that its decoding can use.
    pub fn conformity(&self) -> Conformity {
        self.conformity
    }

    /// Returns the digests of the program's own applies that left the object in this state: applies by the
    /// [`FieldManagers`](crate::FieldManagers) that were known when the object arrived.
    pub fn applies(&self) -> &[ApplyDigest] {
        &self.applies
    }

    /// Returns the head and the JSON.
    #[must_use]
    pub fn into_parts(self) -> (Head, Box<[u8]>) {
        (self.head, self.json)
    }
}

/// Returns the hash of encoded annotations. It is the same in every process.
fn hash_of(annotations: &str) -> u32 {
    // Half of the hash is enough to compare two versions of one object.
    FixedState::default().hash_one(annotations) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(annotations: &str) -> u32 {
        let json = format!(r#"{{"metadata":{{"name":"a"{annotations}}},"spec":{{}}}}"#);
        let head = RawObject::from_json(json.into_bytes()).unwrap().head;
        head.annotations_hash
    }

    #[test]
    fn annotations_are_compared_by_a_hash() {
        let one = hash(r#","annotations":{"a":"1"}"#);
        assert_eq!(one, hash(r#","labels":{"b":"2"},"annotations":{"a":"1"}"#));
        assert_ne!(one, hash(r#","annotations":{"a":"2"}"#));
        assert_ne!(one, hash(r#","annotations":{"b":"1"}"#));
        assert_ne!(one, hash(""));
        assert_eq!(hash(""), hash(r#","annotations":null"#));
        // Annotations of another form are left to the types that read them.
        assert_ne!(hash(r#","annotations":[1]"#), hash(r#","annotations":7"#));
        let meta = ObjectMeta {
            annotations: Some([("a".to_owned(), "1".to_owned())].into()),
            ..ObjectMeta::default()
        };
        assert_eq!(Head::of_meta(&meta).annotations_hash, one);
        let metadata = br#"{"name":"a","annotations":{"a":"1"}}"#;
        assert_eq!(Head::of_json(metadata).unwrap().annotations_hash, one);
    }
}
