//! Machine: selects objects for a list or watch: by labels, by the fields that the resource supports, and by shard.

use std::borrow::Cow;

use serde_json::Value;
use steersman_apimachinery::go;
use steersman_apimachinery::selector::{FieldSelector, LabelSelector};
use steersman_apimachinery::status::Status;
use steersman_cel::ShardSelector;
use steersman_schema::resource::{FieldRefusal, Resource, SelectableField};
use steersman_schema::stored_schemas::{StoredSchemas, read_stored};
use steersman_store::{Field, Stored};

use super::options::ListQuery;

/// The parsed label, field and shard selectors of one list or watch. [`Self::of`] checks the field selector against the
/// resource.
#[derive(Debug, Clone)]
pub(crate) struct Selectors {
    labels: LabelSelector,
    fields: FieldSelector,
    known: Vec<SelectableField>,
    /// The schemas that set the defaults of stored custom resources before their fields are selected (SRV-CRD-2).
    schemas: StoredSchemas,
    shard: Option<ShardSelector>,
}

impl Selectors {
    /// Parses the label selector and the field selector; 400 if one does not parse. [`Self::of`] must be called next:
    /// it checks that the resource supports the fields, and parses the shard selector.
    pub(crate) fn parse(query: &ListQuery) -> Result<Self, Status> {
        Ok(Self {
            labels: LabelSelector::parse(query.label_selector.as_deref().unwrap_or_default())?,
            fields: FieldSelector::parse(query.field_selector.as_deref().unwrap_or_default())?,
            known: Vec::new(),
            schemas: StoredSchemas::default(),
            shard: None,
        })
    }

    /// Checks that a resource supports the fields of the field selector, and parses the shard selector; an empty
    /// `shard` selects all objects. 400 for an unsupported field, 500 for a shard selector that does not parse.
    pub(crate) fn of(mut self, resource: &Resource, shard: Option<&str>) -> Result<Self, Status> {
        for term in self.fields.terms() {
            let label = term.label.as_str();
            // As upstream, every kind supports the field `metadata.namespace`, except cluster-scoped built-in kinds
            // with their own list of fields.
            let strict = resource.field_refusal != FieldRefusal::OnlyMetadata;
            let no_namespace = strict && resource.built_in && !resource.namespaced;
            if label == "metadata.name" || (label == "metadata.namespace" && !no_namespace) {
                continue;
            }
            let Some(field) = resource.fields.iter().find(|field| field.label == label) else {
                return Err(Status::bad_request(match resource.field_refusal {
                    FieldRefusal::OnlyMetadata => format!(
                        "{} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
                        go::quote(label)
                    ),
                    FieldRefusal::NotSupported => format!("field label not supported: {label}"),
                    FieldRefusal::NotSupportedForKind => {
                        let kind = &resource.kind;
                        format!("field label {label:?} not supported for {kind}")
                    }
                    FieldRefusal::NotSupportedForVersion => {
                        let (version, kind) = (resource.api_version(), &resource.kind);
                        format!("field label not supported for {version}, Kind={kind}: {label}")
                    }
                }));
            };
            self.known.push(field.clone());
        }
        self.schemas = resource.stored_schemas.clone();
        let shard = shard.filter(|text| !text.is_empty());
        self.shard = shard.map(ShardSelector::parse).transpose()?;
        Ok(self)
    }

    /// Returns whether upstream would read this object at all to match it with the selectors. If the field selector has
    /// a name, upstream reads only that object, and for `spec.nodeName` only the Pods of that node. A full page has a
    /// continue token only if objects that upstream reads follow the page.
    pub(crate) fn reaches(&self, resource: &Resource, one_key: bool, stored: &Stored) -> bool {
        self.fields.terms().iter().all(|term| {
            let found = match term.label.as_str() {
                "metadata.name" if one_key && term.equal => Cow::Borrowed(&*stored.name),
                "spec.nodeName" if term.equal && resource.is("", "Pod") => {
                    self.field(&term.label, stored)
                }
                _ => return true,
            };
            found == term.value
        })
    }

    /// Returns the text of the shard selector, which a list returns in `metadata.shardInfo`.
    pub(crate) fn shard(&self) -> Option<String> {
        self.shard.as_ref().map(ShardSelector::text)
    }

    /// Returns whether the label and field selectors are empty. As upstream, the shard selector does not count.
    pub(crate) fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    pub(crate) fn matches(&self, stored: &Stored) -> bool {
        self.shard
            .as_ref()
            .is_none_or(|shard| shard.matches(stored.meta("uid"), &stored.namespace))
            && self.labels.matches_labels(|key| stored.label(key))
            && self.fields.matches(|label| self.field(label, stored))
    }

    /// Reads all selectable fields of an object at once, because other lists and watches probably select by them later.
    fn pick(&self, value: &Value) -> Box<[Field]> {
        let read = |field: &SelectableField| (&*read(value, field)).into();
        let known = self.known.iter();
        known
            .map(|field| (field.label.as_str().into(), read(field)))
            .collect()
    }

    fn field<'a>(&self, label: &str, stored: &'a Stored) -> Cow<'a, str> {
        match label {
            "metadata.name" => return Cow::Borrowed(&*stored.name),
            "metadata.namespace" => return Cow::Borrowed(&*stored.namespace),
            _ => {}
        }
        let Some(field) = self.known.iter().find(|known| known.label == label) else {
            return Cow::Borrowed("");
        };
        let (version, has_status) = (stored.api_version(), stored.has_status());
        if let Some(schema) = self.schemas.for_read(version, has_status) {
            let mut value = stored.look().into_owned();
            read_stored(schema, &mut value);
            return Cow::Owned(read(&value, field).into_owned());
        }
        let mut picked = stored.fields(|value| self.pick(value)).iter();
        match picked.find(|(known, _)| **known == *label) {
            Some((_, value)) => Cow::Borrowed(&**value),
            // `pick` did not read this field: it ran for another version of the CRD, with other selectable fields.
            None => Cow::Owned(read(&stored.look(), field).into_owned()),
        }
    }
}

fn read<'a>(object: &'a Value, field: &SelectableField) -> Cow<'a, str> {
    let path = field.path.iter();
    match path.fold(object, |at, key| &at[key.as_str()]) {
        Value::Null => Cow::Borrowed(field.default),
        Value::String(text) => Cow::Borrowed(text),
        other => Cow::Owned(other.to_string()),
    }
}
