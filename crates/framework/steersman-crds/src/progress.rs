//! Machine: reads and writes the progress of a migration, from which the next leader continues (DEF-4).

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::version_difference::stored_version;

/// The definition's annotation with the progress of its migration.
pub(crate) const ANNOTATION: &str = "steersman/migration";

/// The progress of a migration: all objects before the continue token are migrated. The definition has it from the
/// beginning of the migration to its end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MigrationProgress {
    /// The generation of the definition. A new generation restarts the migration, because the stored version may
    /// differ.
    pub(crate) generation: i64,
    /// The continue token of the next page; `None` before the first page is stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) continue_token: Option<String>,
    /// The number of objects before the continue token.
    pub(crate) migrated: u64,
}

/// The state of the stored objects, as the definition on the server describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredObjects {
    pub(crate) generation: i64,
    /// The version in which the server stores objects now.
    pub(crate) version: String,
    /// Whether `storedVersions` lists another version.
    pub(crate) are_mixed: bool,
    /// The progress of an interrupted migration to this version. While it exists, objects may be stored in other
    /// versions, because a server shortens `storedVersions` even if its migration fails.
    pub(crate) progress: Option<MigrationProgress>,
    /// Whether the definition has a progress annotation, possibly of an earlier migration.
    pub(crate) has_annotation: bool,
}

impl MigrationProgress {
    pub(crate) fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

impl StoredObjects {
    /// Returns whether objects may be stored in a version other than the current one.
    pub(crate) fn need_migration(&self) -> bool {
        self.are_mixed || self.progress.is_some()
    }

    /// Reads a definition of the server; `None` if the definition has no stored version.
    pub(crate) fn read(definition: &Value) -> Option<Self> {
        let version = stored_version(definition)?["name"].as_str()?.to_owned();
        let generation = definition["metadata"]["generation"]
            .as_i64()
            .unwrap_or_default();
        let stored = definition["status"]["storedVersions"].as_array();
        let are_mixed = stored.is_some_and(|stored| stored.iter().any(|one| *one != *version));
        let annotation = definition["metadata"]["annotations"][ANNOTATION].as_str();
        // An invalid annotation counts as no progress: the migration restarts.
        let progress =
            annotation.and_then(|text| serde_json::from_str::<MigrationProgress>(text).ok());
        Some(Self {
            generation,
            version,
            are_mixed,
            progress: progress.filter(|progress| progress.generation == generation),
            has_annotation: annotation.is_some(),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn definition(generation: i64, stored: &[&str]) -> Value {
        json!({
            "metadata": {"generation": generation},
            "spec": {"versions": [
                {"name": "v1alpha1", "storage": false}, {"name": "v1", "storage": true},
            ]},
            "status": {"storedVersions": stored},
        })
    }

    #[test]
    fn objects_are_mixed_while_another_version_is_listed() {
        let mixed = |stored: &[&str]| {
            StoredObjects::read(&definition(1, stored))
                .unwrap()
                .are_mixed
        };
        assert!(mixed(&["v1alpha1", "v1"]) && mixed(&["v1alpha1"]));
        assert!(!mixed(&["v1"]) && !mixed(&[]));
        assert_eq!(StoredObjects::read(&json!({})), None);
    }

    /// DEF-4: the definition holds the progress of its migration for the next leader.
    #[test]
    fn progress_counts_for_the_definition_that_it_was_made_with() {
        let mut definition = definition(3, &["v1alpha1", "v1"]);
        let progress = MigrationProgress {
            generation: 3,
            continue_token: Some("token".to_owned()),
            migrated: 500,
        };
        definition["metadata"]["annotations"] = json!({ANNOTATION: progress.text()});
        let read = StoredObjects::read(&definition).unwrap();
        assert_eq!(read.progress, Some(progress));
        definition["metadata"]["generation"] = json!(4);
        let read = StoredObjects::read(&definition).unwrap();
        assert_eq!((read.progress, read.has_annotation), (None, true));
        for text in ["", "{}", "[1]", "null"] {
            definition["metadata"]["annotations"] = json!({ANNOTATION: text});
            assert_eq!(StoredObjects::read(&definition).unwrap().progress, None);
        }
    }
}
