//! Machine: what a list or watch selects: labels, the fields its resource allows, and its shard.

use std::borrow::Cow;

use serde_json::Value;

use crate::schema::{FieldRefusal, Resource};
use crate::selector::{FieldSelector, LabelSelector};
use crate::shard::ShardSelector;
use crate::status::Status;
use crate::store::Stored;

/// The parsed selectors of one request, checked against its resource.
#[derive(Debug, Clone)]
pub(crate) struct Selection {
    labels: LabelSelector,
    fields: FieldSelector,
    known: Vec<(String, Vec<String>, &'static str)>,
    shard: Option<ShardSelector>,
}

impl Selection {
    /// Parses and checks both selectors.
    ///
    /// # Errors
    /// 400 for one that does not parse or names a field the resource does not select by.
    pub(crate) fn parse(
        resource: &Resource,
        labels: Option<&str>,
        fields: Option<&str>,
    ) -> Result<Self, Status> {
        let labels = LabelSelector::parse(labels.unwrap_or_default())?;
        let fields = FieldSelector::parse(fields.unwrap_or_default())?;
        let mut known = Vec::new();
        for term in fields.terms() {
            let label = term.label.as_str();
            if matches!(label, "metadata.name" | "metadata.namespace") {
                continue;
            }
            let Some(field) = resource.fields.iter().find(|field| field.label == label) else {
                return Err(Status::bad_request(match resource.field_refusal {
                    FieldRefusal::OnlyMetadata => format!(
                        "\"{label}\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
                    ),
                    FieldRefusal::NotSupported => format!("field label not supported: {label}"),
                }));
            };
            known.push((label.to_owned(), field.path.clone(), field.default));
        }
        Ok(Self {
            labels,
            fields,
            known,
            shard: None,
        })
    }

    /// The same, of one shard. An empty text is none.
    ///
    /// # Errors
    /// 500 for a selector that does not parse.
    pub(crate) fn sharded(mut self, shard: Option<&str>) -> Result<Self, Status> {
        let shard = shard.filter(|text| !text.is_empty());
        self.shard = shard.map(ShardSelector::parse).transpose()?;
        Ok(self)
    }

    /// The shard as lists repeat it.
    pub(crate) fn shard(&self) -> Option<String> {
        self.shard.as_ref().map(ShardSelector::text)
    }

    /// Whether no label and no field is asked for. A shard does not count, as recorded.
    pub(crate) fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// Whether one object is selected.
    pub(crate) fn matches(&self, stored: &Stored) -> bool {
        self.shard
            .as_ref()
            .is_none_or(|shard| shard.matches(stored.meta("uid"), &stored.namespace))
            && self.labels.matches_labels(|key| stored.label(key))
            && self.fields.matches(|label| match label {
                "metadata.name" => Cow::Borrowed(&*stored.name),
                "metadata.namespace" => Cow::Borrowed(&*stored.namespace),
                label => {
                    let found = self.known.iter().find(|(known, _, _)| known == label);
                    found.map_or(Cow::Borrowed(""), |(_, path, default)| {
                        read(&stored.value, path, default)
                    })
                }
            })
    }
}

fn read<'a>(object: &'a Value, path: &[String], default: &'static str) -> Cow<'a, str> {
    let mut at = object;
    for key in path {
        at = &at[key.as_str()];
    }
    match at {
        Value::Null => Cow::Borrowed(default),
        Value::String(text) => Cow::Borrowed(text),
        other => Cow::Owned(other.to_string()),
    }
}
