//! Words: one revision of one object.

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

/// One revision of one object. Shared by `Arc` and never changed (SRV-STORE-2).
///
/// It is kept as JSON, which is made at its first use; decoded, an object takes about ten times the
/// memory, so only the newest objects are kept in both forms. Fields that the server reads often are available without
/// decoding ([`Stored::meta`], [`Stored::label`], [`Stored::owners`]).
#[derive(Debug)]
pub struct Stored {
    /// Namespace; empty for cluster-scoped objects.
    pub namespace: Arc<str>,
    /// Name of the object, unique in its namespace.
    pub name: Arc<str>,
    /// The revision that wrote it, which is its `metadata.resourceVersion`; zero for an object that
    /// was not stored (a dry-run create).
    pub revision: u64,
    /// The object, decoded at its first use.
    pub value: Decoded,
    head: Arc<Head>,
}

impl Stored {
    /// Stamps `revision` into the object (or removes the field for revision zero). The object is
    /// serialised at its first use.
    #[must_use]
    pub fn new(
        namespace: Arc<str>,
        name: Arc<str>,
        object: impl Into<Draft>,
        revision: u64,
    ) -> Self {
        Self::made((namespace, name), object.into(), revision, None)
    }

    /// Returns the same revision, undecoded, so that a retained past revision takes no more memory
    /// than its JSON, once it is serialised (SRV-STORE-7).
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

    /// Returns the same revision, undecoded, which reports when it is decoded.
    pub(super) fn folded_in_store(&self, reporter: ReadReporter) -> Self {
        Self {
            value: self.value.fold(Some(reporter)),
            ..self.folded()
        }
    }

    /// Returns the same revision for a reader of many objects. If it is not decoded, the reader
    /// decodes a copy of its own (SRV-STORE-7).
    #[must_use]
    pub fn borrowed(self: &Arc<Self>) -> Arc<Self> {
        if self.value.is_decoded() {
            Arc::clone(self)
        } else {
            Arc::new(self.folded())
        }
    }

    /// Like [`Stored::new`]. With an event type, its bytes lie inside the line of that watch event, so that the
    /// line is serialised once for all watches (SRV-STORE-6).
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
                metadata.insert(
                    "resourceVersion".to_owned(),
                    Value::String(revision.to_string()),
                );
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

    /// Serialises the object, and computes its managedFields, unless that is done (SRV-STORE-10).
    pub fn serialise(&self) {
        let _ = self.bytes();
    }

    /// Returns whether the object is serialised.
    pub fn is_serialised(&self) -> bool {
        self.value.text.is_serialised()
    }

    /// Returns the object as JSON, starting with `kind` and `apiVersion`, and with its
    /// `resourceVersion`.
    pub fn bytes(&self) -> &Bytes {
        self.value.text.bytes()
    }

    /// Returns the offset in the bytes after `kind` and `apiVersion`.
    pub fn after_type(&self) -> usize {
        self.value.text.after_type()
    }

    /// Returns the line of this revision's watch event, newline included, if the event is of that
    /// type.
    pub fn line(&self, made: ChangeType) -> Option<Bytes> {
        self.value.text.line(made).cloned()
    }

    /// Returns the object's last state stamped with the revision that deleted it, or hid it from a
    /// selector.
    #[must_use]
    pub fn restamped(&self, revision: u64) -> Self {
        let place = (Arc::clone(&self.namespace), Arc::clone(&self.name));
        Self::made(place, self.draft(), revision, Some(ChangeType::Deleted))
    }

    /// Returns the object without its managedFields (SRV-STORE-8).
    pub fn lean(&self) -> &Value {
        self.value.lean()
    }

    /// Returns `metadata.managedFields` as JSON, if the object has any.
    pub fn managed(&self) -> Option<&str> {
        self.value.managed()
    }

    /// Returns a copy of the object to change and store again.
    pub fn draft(&self) -> Draft {
        Draft {
            value: self.look().into_owned(),
            managed: ManagedFields::of(&self.value.text),
        }
    }

    /// Returns whether a draft is an unchanged copy of this object.
    pub fn holds(&self, draft: &Draft) -> bool {
        draft.managed.are_of(&self.value.text) && *self.lean() == draft.value
    }

    /// Returns the object's key in its storage, which orders lists and continues pages.
    pub fn key(&self) -> String {
        object_key(&self.namespace, &self.name)
    }

    /// Returns `metadata.<field>` as text; empty if absent.
    pub fn meta(&self, field: &str) -> &str {
        let known = self.head.text(field);
        known.unwrap_or_else(|| self.lean()["metadata"][field].as_str().unwrap_or_default())
    }

    /// Returns whether the deletion of the object has begun.
    pub fn is_terminating(&self) -> bool {
        !self.meta("deletionTimestamp").is_empty()
    }

    /// Returns the object without its managedFields; does not keep a newly decoded form.
    pub fn look(&self) -> Cow<'_, Value> {
        self.value.look()
    }

    /// Returns whether both have the same labels.
    pub fn labelled_as(&self, other: &Self) -> bool {
        self.head.labels == other.head.labels
    }

    /// Returns the keys and the values of the labels.
    pub fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        let labels = self.head.labels.iter();
        labels.map(|(key, value)| (&**key, &**value))
    }

    /// Returns the label with this key.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.head.label(key)
    }

    /// Returns the fields for field selectors; `pick` reads them from the object on the first call.
    /// All copies of this revision share them, decoded or not.
    pub fn fields(&self, pick: impl FnOnce(&Value) -> Box<[Field]>) -> &[Field] {
        self.head.fields.get_or_init(|| pick(&self.look()))
    }

    /// Returns the `apiVersion` in which it was stored.
    pub fn api_version(&self) -> &str {
        &self.head.api_version
    }

    /// Returns whether the object has a status.
    pub fn has_status(&self) -> bool {
        self.head.has_status
    }

    /// Returns the kind, which the JSON begins with. JSON escapes no character of a built-in kind.
    fn kind(&self) -> &str {
        let start = self.bytes().get(..self.after_type()).unwrap_or_default();
        let text = std::str::from_utf8(start).unwrap_or_default();
        let found = text.split_once("\"kind\":\"");
        let found = found.and_then(|(_, rest)| rest.split_once('"'));
        found.map_or("", |(kind, _)| kind)
    }

    /// Returns the object of a built-in kind in protobuf. The first call encodes it; all copies of this
    /// revision share the result (SRV-STORE-9).
    ///
    /// # Errors
    /// Fails if the kind is not built in, or if a member is not of its type.
    pub fn protobuf(&self) -> Result<&ProtobufForm, &EncodeError> {
        let known = self.head.protobuf.get_or_init(|| {
            let kind = (self.api_version(), self.kind());
            let form = ProtobufForm::of(kind, self.bytes(), self.value.text.made());
            Box::new(form)
        });
        (**known).as_ref()
    }

    /// Returns the whole object; does not keep a newly decoded form.
    pub fn look_whole(&self) -> Cow<'_, Value> {
        self.value.look_whole()
    }

    /// Returns the JSON text of the object's metadata without decoding the object.
    pub fn metadata(&self) -> &str {
        let parts = serde_json::from_slice::<Parts<'_>>(self.bytes());
        // The bytes were serialised from a value; an object without metadata gives `null`.
        parts.map_or("null", |parts| parts.metadata.get())
    }

    /// Returns the uids of the owners.
    pub fn owners(&self) -> impl Iterator<Item = &str> {
        self.head.owners.iter().map(|owner| &**owner)
    }

    pub(super) fn is_of(&self, text: &Arc<RevisionText>) -> bool {
        Arc::ptr_eq(&self.value.text, text)
    }

    /// Returns whether the object is decoded.
    pub fn is_decoded(&self) -> bool {
        self.value.is_decoded()
    }
}

/// Returns `namespace/name`, or the name alone without a namespace (SRV-STORE-5).
///
/// The order of these texts differs from the order of the pairs: `web-2/x` comes before `web/x`.
pub(super) fn object_key(namespace: &str, name: &str) -> String {
    if namespace.is_empty() {
        name.to_owned()
    } else {
        [namespace, "/", name].concat()
    }
}

/// The part of an object's JSON that is parsed without decoding the rest.
#[derive(Deserialize)]
struct Parts<'a> {
    #[serde(borrow)]
    metadata: &'a RawValue,
}

#[cfg(test)]
mod tests;
