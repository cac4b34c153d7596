//! Words: the metadata of an object alone, as a PartialObjectMetadata.

use serde_json::{Value, json};

use crate::forms::MetaVersion;

/// Returns the metadata of an object as a PartialObjectMetadata.
#[must_use]
pub fn partial(metadata: &Value, version: MetaVersion) -> Value {
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": version.api_version(),
        "metadata": metadata,
    })
}

/// Returns the text of the metadata of an object as the text of a PartialObjectMetadata.
#[must_use]
pub fn partial_text(metadata: &str, version: MetaVersion) -> String {
    let api_version = version.api_version();
    format!(
        r#"{{"apiVersion":"{api_version}","kind":"PartialObjectMetadata","metadata":{metadata}}}"#
    )
}
