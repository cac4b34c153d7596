//! Machine: finds the schemas of a definition's versions in its JSON, without copies.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use steersman_schema::custom_schema::CustomSchema;

#[derive(Deserialize)]
struct Definition<'a> {
    #[serde(borrow)]
    spec: Spec<'a>,
}

#[derive(Deserialize)]
struct Spec<'a> {
    #[serde(borrow)]
    versions: Vec<VersionSchema<'a>>,
}

#[derive(Deserialize)]
struct VersionSchema<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    schema: Schema<'a>,
}

#[derive(Default, Deserialize)]
struct Schema<'a> {
    #[serde(borrow, default, rename = "openAPIV3Schema")]
    open_api: Option<&'a RawValue>,
}

/// Returns the schemas by version. They share the bytes of the JSON; equal ones are one.
pub(super) fn of(definition: &Bytes) -> BTreeMap<String, Arc<CustomSchema>> {
    let parsed = serde_json::from_slice::<Definition<'_>>(definition);
    let versions = parsed.map_or_else(|_| Vec::new(), |parsed| parsed.spec.versions);
    let mut found: BTreeMap<String, Arc<CustomSchema>> = BTreeMap::new();
    for VersionSchema { name, schema } in versions {
        let json = schema.open_api.map(|raw| raw.get().as_bytes());
        let known = json.and_then(|json| found.values().find(|known| known.json() == json));
        let schema = match (known, json) {
            (Some(known), _) => Arc::clone(known),
            (None, Some(json)) => Arc::new(CustomSchema::new(definition.slice_ref(json))),
            (None, None) => Arc::default(),
        };
        found.insert(name.into_owned(), schema);
    }
    found
}
