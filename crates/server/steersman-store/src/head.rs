//! Words: `Head`, the parts of an object that the server reads without decoding the whole object.

use std::sync::OnceLock;

use serde_json::Value;
use steersman_protobuf::EncodeError;

use super::protobuf_form::ProtobufForm;

type Label = (Box<str>, Box<str>);
/// A field that field selectors can match, for instance `spec.nodeName`, and its value in one object.
pub type Field = (Box<str>, Box<str>);

/// The parts of an object that stay decoded: `apiVersion`, and the metadata for selectors, owners and deletion.
#[derive(Debug, Default)]
pub(super) struct Head {
    pub(super) api_version: Box<str>,
    uid: Box<str>,
    pub(super) has_status: bool,
    created: Box<str>,
    deleted: Box<str>,
    pub(super) labels: Box<[Label]>,
    pub(super) owners: Box<[Box<str>]>,
    /// The fields of the object for field selectors, computed at their first use.
    pub(super) fields: OnceLock<Box<[Field]>>,
    /// The object in protobuf, encoded at its first use; an error if the kind has no protobuf message.
    pub(super) protobuf: OnceLock<Box<Result<ProtobufForm, EncodeError>>>,
}

impl Head {
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

    /// Returns `metadata.<field>`, empty if the object lacks it; `None` if this struct does not keep that field.
    pub(super) fn text(&self, field: &str) -> Option<&str> {
        match field {
            "uid" => Some(&self.uid),
            "creationTimestamp" => Some(&self.created),
            "deletionTimestamp" => Some(&self.deleted),
            _ => None,
        }
    }
}
