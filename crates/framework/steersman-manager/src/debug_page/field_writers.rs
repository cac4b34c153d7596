//! Machine: reads from `managedFields` which client wrote which fields of an object.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use serde_json::Value;

use super::view::FieldWriter;

/// The number of paths that are shown of one writer.
const MOST_FIELDS: usize = 40;

/// The longest part of a path, in characters: the key of a list item may be long.
const LONGEST_PART: usize = 80;

/// Returns the writers of an object, the last write first. Paths are shown, and no values but the keys of list items.
pub(super) fn field_writers(entries: &[ManagedFieldsEntry]) -> Vec<FieldWriter> {
    let mut writers: Vec<FieldWriter> = entries.iter().map(of_entry).collect();
    writers.sort_by(|one, other| other.time.cmp(&one.time));
    writers
}

fn of_entry(entry: &ManagedFieldsEntry) -> FieldWriter {
    let mut fields = Vec::new();
    if let Some(set) = &entry.fields_v1 {
        collect(&set.0, String::new(), &mut fields);
    }
    let more_fields = fields.len().saturating_sub(MOST_FIELDS);
    fields.truncate(MOST_FIELDS);
    FieldWriter {
        manager: entry.manager.clone().unwrap_or_default(),
        operation: entry.operation.clone().unwrap_or_default(),
        subresource: entry.subresource.clone().unwrap_or_default(),
        time: entry
            .time
            .as_ref()
            .map(|time| time.0.to_string())
            .unwrap_or_default(),
        fields,
        more_fields,
    }
}

/// Adds the paths of the leaves of a set of fields (`FieldsV1`): `f:name` is a field, `k:{…}` an item by its key, `v:…` an item
/// by its value, and `.` the field itself.
fn collect(set: &Value, path: String, fields: &mut Vec<String>) {
    let Value::Object(members) = set else {
        return;
    };
    let mut is_leaf = true;
    for (name, members) in members {
        let part = match name.split_once(':') {
            Some(("f", field)) if path.is_empty() => field.to_owned(),
            Some(("f", field)) => format!(".{field}"),
            // The value of an item is content.
            Some(("v", _)) => "[…]".to_owned(),
            Some((_, key)) => {
                let key: String = key.chars().take(LONGEST_PART).collect();
                format!("[{key}]")
            }
            None => continue,
        };
        is_leaf = false;
        collect(members, format!("{path}{part}"), fields);
    }
    if is_leaf && !path.is_empty() {
        fields.push(path);
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{FieldsV1, Time};
    use serde_json::json;

    use super::*;

    #[test]
    fn the_fields_of_each_writer_are_paths_and_the_last_writer_is_first() {
        let entry = |manager: &str, time: &str, fields| ManagedFieldsEntry {
            manager: Some(manager.to_owned()),
            operation: Some("Apply".to_owned()),
            time: Some(Time(time.parse().unwrap())),
            fields_v1: Some(FieldsV1(fields)),
            ..ManagedFieldsEntry::default()
        };
        let spec = json!({"f:spec": {"f:replicas": {}, "f:ports": {
            ".": {}, "k:{\"port\":80}": {"f:name": {}}, "v:\"x\"": {},
        }}});
        let writers = field_writers(&[
            entry("kubectl", "2026-01-01T00:00:00Z", spec),
            entry(
                "shop",
                "2026-01-02T00:00:00Z",
                json!({"f:status": {"f:phase": {}}}),
            ),
            entry("odd", "2025-01-01T00:00:00Z", json!(7)),
        ]);
        let names: Vec<&str> = writers.iter().map(|one| one.manager.as_str()).collect();
        assert_eq!(names, ["shop", "kubectl", "odd"]);
        assert_eq!(writers[0].fields, ["status.phase"]);
        assert_eq!(
            writers[1].fields,
            [
                "spec.ports[{\"port\":80}].name",
                "spec.ports[…]",
                "spec.replicas"
            ]
        );
        assert!(writers[2].fields.is_empty());
    }
}
