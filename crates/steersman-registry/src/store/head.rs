//! Words: what the server looks at again and again without reading an object.

use std::sync::OnceLock;

use serde_json::Value;

/// A label's key and its value.
type Label = (Box<str>, Box<str>);
/// What a field selector calls a field, and its value.
pub type Field = (Box<str>, Box<str>);

/// The few parts of `metadata` that decide who owns, selects, keeps or collects an object.
#[derive(Debug, Default)]
pub(super) struct Head {
    uid: Box<str>,
    created: Box<str>,
    deleted: Box<str>,
    labels: Box<[Label]>,
    owners: Box<[Box<str>]>,
    /// What field selectors look at, from the first one on that did.
    fields: OnceLock<Box<[Field]>>,
}

impl Head {
    /// Of an object.
    pub(super) fn of(object: &Value) -> Self {
        let metadata = &object["metadata"];
        let text = |field: &str| metadata[field].as_str().unwrap_or_default().into();
        let labels = metadata["labels"].as_object().into_iter().flatten();
        let owners = metadata["ownerReferences"].as_array().into_iter().flatten();
        Self {
            uid: text("uid"),
            created: text("creationTimestamp"),
            deleted: text("deletionTimestamp"),
            labels: labels
                .filter_map(|(key, value)| Some((key.as_str().into(), value.as_str()?.into())))
                .collect(),
            owners: owners
                .filter_map(|owner| Some(owner["uid"].as_str()?.into()))
                .collect(),
            fields: OnceLock::new(),
        }
    }

    /// `metadata.<field>`, empty where it is absent; `None` for fields that are not in here.
    pub(super) fn text(&self, field: &str) -> Option<&str> {
        match field {
            "uid" => Some(&self.uid),
            "creationTimestamp" => Some(&self.created),
            "deletionTimestamp" => Some(&self.deleted),
            _ => None,
        }
    }

    pub(super) fn label(&self, key: &str) -> Option<&str> {
        // Objects have a handful of labels; looking at each is as quick as anything.
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

    pub(super) fn owners(&self) -> impl Iterator<Item = &str> {
        self.owners.iter().map(|owner| &**owner)
    }
}
