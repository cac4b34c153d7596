//! Machine: where a migration goes on after an interruption (DEF-4).

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::version_difference::stored_version;

/// The annotation of a definition with the progress of its migration.
pub(crate) const ANNOTATION: &str = "steersman/migration";

/// The progress of a migration: everything before the continue token is stored in the present version. It is in the
/// definition from the beginning of a migration to its end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MigrationProgress {
    /// The generation of the definition. A changed definition may store objects in another version, so a migration
    /// begins anew.
    pub(crate) generation: i64,
    /// The continue token of the next page; `None` before the operator has stored a page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) continue_token: Option<String>,
    /// The number of objects before the token.
    pub(crate) migrated: u64,
}

/// What a definition on the server says about its stored objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredObjects {
    pub(crate) generation: i64,
    /// The version in which objects are written now.
    pub(crate) version: String,
    /// Whether another version is listed in which objects may be stored.
    pub(crate) are_mixed: bool,
    /// The progress of an interrupted migration to this version. A server that fails to migrate shortens its list of
    /// versions nevertheless, so objects may be stored in another version as long as there is progress.
    pub(crate) progress: Option<MigrationProgress>,
    /// Whether there is an annotation, of this migration or of a former one.
    pub(crate) has_annotation: bool,
}

impl MigrationProgress {
    pub(crate) fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

impl StoredObjects {
    /// Returns whether objects may be stored in another version than the present one.
    pub(crate) fn need_migration(&self) -> bool {
        self.are_mixed || self.progress.is_some()
    }

    /// Reads a definition of the server; `None` if no version is stored.
    pub(crate) fn read(definition: &Value) -> Option<Self> {
        let version = stored_version(definition)?["name"].as_str()?.to_owned();
        let generation = definition["metadata"]["generation"]
            .as_i64()
            .unwrap_or_default();
        let stored = definition["status"]["storedVersions"].as_array();
        let are_mixed = stored.is_some_and(|stored| stored.iter().any(|one| *one != *version));
        let annotation = definition["metadata"]["annotations"][ANNOTATION].as_str();
        // An annotation that cannot be read is of another program: the migration begins anew.
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

    /// DEF-4
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
