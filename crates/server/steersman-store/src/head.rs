//! Words: the parts of an object that the server reads often, available without decoding.

use std::sync::OnceLock;

use serde_json::Value;
use steersman_protobuf::EncodeError;

use super::protobuf_form::ProtobufForm;

/// The key and the value of a label.
type Label = (Box<str>, Box<str>);
/// The name of a field in field selectors, and its value.
pub type Field = (Box<str>, Box<str>);

/// The version of the object, and the parts of its metadata that decide about owners, selectors,
/// finalizers and garbage collection.
#[derive(Debug, Default)]
pub(super) struct Head {
    api_version: Box<str>,
    uid: Box<str>,
    has_status: bool,
    created: Box<str>,
    deleted: Box<str>,
    labels: Box<[Label]>,
    owners: Box<[Box<str>]>,
    /// The fields for field selectors, computed at their first use.
    fields: OnceLock<Box<[Field]>>,
    /// The object in protobuf, encoded at its first use.
    protobuf: OnceLock<Box<Result<ProtobufForm, EncodeError>>>,
}

impl Head {
    /// Reads the head of an object.
    pub(super) fn of(object: &Value) -> Self {
        let metadata = &object["metadata"];
        let text = |field: &str| metadata[field].as_str().unwrap_or_default().into();
        let labels = metadata["labels"].as_object().into_iter().flatten();
        let owners = metadata["ownerReferences"].as_array().into_iter().flatten();
        Self {
            api_version: object["apiVersion"].as_str().unwrap_or_default().into(),
            uid: text("uid"),
            has_status: object.get("status").is_some(),
            created: text("creationTimestamp"),
            deleted: text("deletionTimestamp"),
            labels: labels
                .filter_map(|(key, value)| Some((key.as_str().into(), value.as_str()?.into())))
                .collect(),
            owners: owners
                .filter_map(|owner| Some(owner["uid"].as_str()?.into()))
                .collect(),
            fields: OnceLock::new(),
            protobuf: OnceLock::new(),
        }
    }

    pub(super) fn api_version(&self) -> &str {
        &self.api_version
    }

    pub(super) fn has_status(&self) -> bool {
        self.has_status
    }

    /// Returns `metadata.<field>`, empty if absent; `None` for a field that the head does not hold.
    pub(super) fn text(&self, field: &str) -> Option<&str> {
        match field {
            "uid" => Some(&self.uid),
            "creationTimestamp" => Some(&self.created),
            "deletionTimestamp" => Some(&self.deleted),
            _ => None,
        }
    }

    pub(super) fn label(&self, key: &str) -> Option<&str> {
        // Objects have a handful of labels, so a linear search is fastest.
        let mut labels = self.labels.iter();
        labels
            .find(|(own, _)| **own == *key)
            .map(|(_, value)| &**value)
    }

    pub(super) fn labels(&self) -> &[(Box<str>, Box<str>)] {
        &self.labels
    }

    pub(super) fn fields(&self, pick: impl FnOnce() -> Box<[Field]>) -> &[Field] {
        self.fields.get_or_init(pick)
    }

    pub(super) fn protobuf(
        &self,
        encode: impl FnOnce() -> Result<ProtobufForm, EncodeError>,
    ) -> Result<&ProtobufForm, &EncodeError> {
        let known = self.protobuf.get_or_init(|| Box::new(encode()));
        known.as_ref().as_ref()
    }

    pub(super) fn owners(&self) -> impl Iterator<Item = &str> {
        self.owners.iter().map(|owner| &**owner)
    }
}
