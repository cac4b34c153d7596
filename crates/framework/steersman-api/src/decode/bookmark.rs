//! Machine: reads the bookmarks of a watch.

use std::collections::BTreeMap;

use serde::Deserialize;
use steersman_object::{ResourceVersion, json_error_position};

use crate::event::WatchEvent;

#[derive(Deserialize)]
struct BookmarkObject {
    metadata: BookmarkMetadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BookmarkMetadata {
    resource_version: String,
    #[serde(default)]
    annotations: Option<BTreeMap<String, String>>,
}

pub(super) fn bookmark(json: &[u8]) -> Result<WatchEvent, String> {
    let BookmarkObject { metadata } = serde_json::from_slice(json)
        .map_err(|error| format!("a bookmark: {}", json_error_position(&error)))?;
    Ok(WatchEvent::Bookmark {
        version: ResourceVersion::new(metadata.resource_version),
        initial_events_end: is_initial_events_end(metadata.annotations.as_ref()),
    })
}

/// Returns whether the annotation has the value that ends the initial events; its presence alone does not count
/// (KEP-3157).
fn is_initial_events_end(annotations: Option<&BTreeMap<String, String>>) -> bool {
    let value = annotations.and_then(|a| a.get("k8s.io/initial-events-end"));
    value.is_some_and(|v| v == "true")
}
