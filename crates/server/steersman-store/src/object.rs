//! Words: `Stored`, one revision of one object.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use steersman_protobuf::EncodeError;

use super::change_type::ChangeType;
use super::decoded::Decoded;
use super::draft::Draft;
use super::head::{Field, Head};
use super::later_reads::ReadReporter;
use super::protobuf_form::ProtobufForm;
use super::revision_text::{ManagedFields, RevisionText};

/// One revision of one object, shared by `Arc` and never changed (SRV-STORE-2).
///
/// The object is kept as JSON, which its first reader makes. Decoded, an object takes about ten times this memory, so
/// only the newest objects are also kept decoded. Fields that the server reads often are available without decoding
/// ([`Stored::meta`], [`Stored::label`], [`Stored::owners`]).
#[derive(Debug)]
pub struct Stored {
    /// The namespace of the object; empty for cluster-scoped objects.
    pub namespace: Arc<str>,
    /// The name of the object, unique in its namespace.
    pub name: Arc<str>,
    /// The revision that wrote the object, its `metadata.resourceVersion`; zero if it is not stored (dry run).
    pub revision: u64,
    /// The object as JSON, and its value, which is decoded at the first use.
    pub value: Decoded,
    head: Arc<Head>,
}

impl Stored {
    /// Creates an unserialised object with `revision` as its resource version, or with none for revision zero.
    #[must_use]
    pub fn new(
        namespace: Arc<str>,
        name: Arc<str>,
        object: impl Into<Draft>,
        revision: u64,
    ) -> Self {
        Self::made((namespace, name), object.into(), revision, None)
    }

    /// Returns a copy of this revision that is not decoded and so takes no more memory than its JSON (SRV-STORE-7).
    #[must_use]
    pub fn folded(&self) -> Self {
        Self {
            namespace: Arc::clone(&self.namespace),
            name: Arc::clone(&self.name),
            revision: self.revision,
            value: self.value.fold(None),
            head: Arc::clone(&self.head),
        }
    }

    /// Returns a copy of this revision that is not decoded, and that tells `reporter` when it is decoded.
    pub(super) fn folded_in_store(&self, reporter: ReadReporter) -> Self {
        Self {
            value: self.value.fold(Some(reporter)),
            ..self.folded()
        }
    }

    /// Returns this revision for a reader of many objects: if it is not decoded, as a copy, which the reader decodes
    /// and drops, so that the stored object stays undecoded (SRV-STORE-7).
    #[must_use]
    pub fn borrowed(self: &Arc<Self>) -> Arc<Self> {
        if self.value.is_decoded() {
            Arc::clone(self)
        } else {
            Arc::new(self.folded())
        }
    }

    /// Creates an object like [`Stored::new`]. With an event type, the bytes of the object are a part of the line of
    /// that watch event, so that the line is serialised once for all watches (SRV-STORE-6).
    pub(super) fn made(
        (namespace, name): (Arc<str>, Arc<str>),
        Draft { mut value, managed }: Draft,
        revision: u64,
        made: Option<ChangeType>,
    ) -> Self {
        if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
            if revision == 0 {
                metadata.remove("resourceVersion");
            } else {
                let version = Value::String(revision.to_string());
                metadata.insert("resourceVersion".to_owned(), version);
            }
        }
        let head = Arc::new(Head::of(&value));
        Self {
            namespace,
            name,
            revision,
            value: Decoded::new(value, managed, made),
            head,
        }
    }

    /// Serialises the object and computes its managedFields, unless this has been done (SRV-STORE-10).
    pub fn serialise(&self) {
        let _ = self.bytes();
    }

    /// Returns whether the JSON exists already, so that [`bytes`](Self::bytes) need not serialise the object.
    pub fn is_serialised(&self) -> bool {
        self.value.text.is_serialised()
    }

    /// Returns the JSON of the object, starting with `kind` and `apiVersion`, and with its `resourceVersion`.
    pub fn bytes(&self) -> &Bytes {
        self.value.text.bytes()
    }

    /// Returns the offset in [`bytes`](Self::bytes) after `kind` and `apiVersion`, which items of typed lists lack.
    pub fn after_type(&self) -> usize {
        self.value.text.after_type()
    }

    /// Returns the line of this revision's watch event, with its newline; `None` if the event has another type.
    pub fn line(&self, made: ChangeType) -> Option<Bytes> {
        self.value.text.line(made).cloned()
    }

    /// Returns this last state of the object with `revision` as its version, for a `DELETED` event: the revision that
    /// deleted the object, or after which a selector no longer matches it.
    #[must_use]
    pub fn restamped(&self, revision: u64) -> Self {
        let place = (Arc::clone(&self.namespace), Arc::clone(&self.name));
        Self::made(place, self.draft(), revision, Some(ChangeType::Deleted))
    }

    /// Returns the decoded object without its managedFields (SRV-STORE-8). The first call decodes the object.
    pub fn lean(&self) -> &Value {
        self.value.lean()
    }

    /// Returns `metadata.managedFields` as JSON, if the object has any.
    pub fn managed(&self) -> Option<&str> {
        self.value.managed()
    }

    /// Returns a copy of the object that can be changed and stored again.
    pub fn draft(&self) -> Draft {
        Draft {
            value: self.look().into_owned(),
            managed: ManagedFields::of(&self.value.text),
        }
    }

    /// Returns whether `draft` equals this object, so that storing the draft would change nothing.
    pub fn holds(&self, draft: &Draft) -> bool {
        draft.managed.are_of(&self.value.text) && *self.lean() == draft.value
    }

    /// Returns the key of the object in its storage, by which lists are sorted and pages continue.
    pub fn key(&self) -> String {
        object_key(&self.namespace, &self.name)
    }

    /// Returns `metadata.<field>` as text; empty if it is absent.
    pub fn meta(&self, field: &str) -> &str {
        let known = self.head.text(field);
        known.unwrap_or_else(|| self.lean()["metadata"][field].as_str().unwrap_or_default())
    }

    /// Returns whether the deletion of the object has begun: it has a `deletionTimestamp`.
    pub fn is_terminating(&self) -> bool {
        !self.meta("deletionTimestamp").is_empty()
    }

    /// Returns the decoded object without its managedFields. A value that this call has to decode is not kept.
    pub fn look(&self) -> Cow<'_, Value> {
        self.value.look()
    }

    /// Returns whether this object and another one have the same labels.
    pub fn labelled_as(&self, other: &Self) -> bool {
        self.head.labels == other.head.labels
    }

    /// Returns the labels of the object: keys and values.
    pub fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        let labels = self.head.labels.iter();
        labels.map(|(key, value)| (&**key, &**value))
    }

    /// Returns the value of the label with this key.
    pub fn label(&self, key: &str) -> Option<&str> {
        // An object has few labels, so a linear search is fastest.
        let mut labels = self.head.labels.iter();
        let found = labels.find(|(own, _)| **own == *key);
        found.map(|(_, value)| &**value)
    }

    /// Returns the fields of the object for field selectors. The first call reads them with `pick`; all copies of this
    /// revision share the result.
    pub fn fields(&self, pick: impl FnOnce(&Value) -> Box<[Field]>) -> &[Field] {
        self.head.fields.get_or_init(|| pick(&self.look()))
    }

    /// Returns the `apiVersion` in which the object is stored.
    pub fn api_version(&self) -> &str {
        &self.head.api_version
    }

    /// Returns whether the object has a member `status`, even an empty one.
    pub fn has_status(&self) -> bool {
        self.head.has_status
    }

    /// Returns the `kind`, which is at the beginning of the JSON. JSON escapes no character in a built-in kind.
    fn kind(&self) -> &str {
        let start = self.bytes().get(..self.after_type()).unwrap_or_default();
        let text = std::str::from_utf8(start).unwrap_or_default();
        let found = text.split_once("\"kind\":\"");
        let found = found.and_then(|(_, rest)| rest.split_once('"'));
        found.map_or("", |(kind, _)| kind)
    }

    /// Returns an object of a built-in kind as protobuf. The first call encodes the object; all copies of this revision
    /// share the result (SRV-STORE-9).
    ///
    /// # Errors
    /// Fails if the kind is not built in, or if a member of the object has a wrong type.
    pub fn protobuf(&self) -> Result<&ProtobufForm, &EncodeError> {
        let known = self.head.protobuf.get_or_init(|| {
            let kind = (self.api_version(), self.kind());
            let form = ProtobufForm::of(kind, self.bytes(), self.value.text.made);
            Box::new(form)
        });
        (**known).as_ref()
    }

    /// Returns the decoded object with its managedFields. A value that this call has to decode is not kept.
    pub fn look_whole(&self) -> Cow<'_, Value> {
        self.value.look_whole()
    }

    /// Returns the JSON of the object's metadata without decoding the object.
    pub fn metadata(&self) -> &str {
        let parts = serde_json::from_slice::<Parts<'_>>(self.bytes());
        // The bytes were serialised from a value, so they parse; an object without metadata has `null`.
        parts.map_or("null", |parts| parts.metadata.get())
    }

    /// Returns the uids of the object's owners, from `metadata.ownerReferences`.
    pub fn owners(&self) -> impl Iterator<Item = &str> {
        self.head.owners.iter().map(|owner| &**owner)
    }

    pub(super) fn is_of(&self, text: &Arc<RevisionText>) -> bool {
        Arc::ptr_eq(&self.value.text, text)
    }

    /// Returns whether the decoded value is in memory, so that [`lean`](Self::lean) need not parse the JSON.
    pub fn is_decoded(&self) -> bool {
        self.value.is_decoded()
    }
}

/// Returns `namespace/name`, or for a cluster-scoped object its name (SRV-STORE-5).
///
/// Keys have another order than pairs of a namespace and a name: `web-2/x` is before `web/x`.
pub(super) fn object_key(namespace: &str, name: &str) -> String {
    if namespace.is_empty() {
        name.to_owned()
    } else {
        [namespace, "/", name].concat()
    }
}

/// The members of an object that are parsed while the rest of the object is skipped.
#[derive(Deserialize)]
struct Parts<'a> {
    #[serde(borrow)]
    metadata: &'a RawValue,
}

#[cfg(test)]
mod tests;
