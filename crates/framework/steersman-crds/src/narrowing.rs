//! Machine: finds the values that a definition on the server accepts and a new definition does not.

use serde_json::Value;

use crate::crd::priority;
use crate::progress::StoredObjects;
use crate::schema_narrowing::{Narrowing, compare, names};
use crate::version_difference::{name, schema, versions};

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Comparison {
    /// The values that only the definition on the server accepts.
    pub(crate) lost: Vec<Narrowing>,
    /// The values that only the wanted definition accepts.
    pub(crate) gained: Vec<Narrowing>,
}

/// Compares the definition on the server, `present`, with its replacement `wanted`.
pub(crate) fn compare_definitions(present: &Value, wanted: &Value) -> Comparison {
    let mut comparison = Comparison::default();
    let (before, now) = (versions(present), versions(wanted));
    let stored = names(&present["status"]["storedVersions"]);
    let is_migrated = !StoredObjects::read(present).is_some_and(|stored| stored.need_migration());
    let served = now.iter().filter(|version| version["served"] == true);
    let newest = served
        .map(|version| name(version))
        .max_by_key(|name| priority(name));
    let is_newer = |version: &str| newest.is_none_or(|newest| priority(version) > priority(newest));
    for old in &before {
        let version = name(old);
        if let Some(new) = now.iter().find(|new| name(new) == version) {
            compare_versions(old, new, &mut comparison.lost);
            compare_versions(new, old, &mut comparison.gained);
            if old["served"] == true && new["served"] != true && is_newer(version) {
                let problem = "the version is served and newer than all that the operator serves";
                comparison.lost.push(Narrowing::new(version, problem));
            }
            continue;
        }
        // DEF-1: objects may be stored in a removed version.
        if stored.contains(&version) || !is_migrated {
            let problem = "the version is removed, but objects may be stored in it: a release that has both versions and \
                           stores the next one has to migrate them first";
            comparison.lost.push(Narrowing {
                is_stored_version: true,
                ..Narrowing::new(version, problem)
            });
        } else if is_newer(version) {
            let problem = "the version is newer than all of the operator's";
            comparison.lost.push(Narrowing::new(version, problem));
        }
    }
    for new in &now {
        let version = name(new);
        if !before.iter().any(|old| name(old) == version) {
            let problem = "the version is new";
            comparison.gained.push(Narrowing::new(version, problem));
        }
    }
    comparison
}

fn compare_versions(old: &Value, new: &Value, found: &mut Vec<Narrowing>) {
    let version = name(old);
    compare(schema(old), schema(new), version, found);
    for subresource in ["status", "scale"] {
        let has = |version: &Value| !version["subresources"][subresource].is_null();
        if has(old) && !has(new) {
            let problem = format!("the subresource {subresource} is removed");
            found.push(Narrowing::new(version, problem));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::progress::{ANNOTATION, MigrationProgress};

    fn version(name: &str, stored: bool, schema: &Value) -> Value {
        json!({"name": name, "served": true, "storage": stored, "schema": {"openAPIV3Schema": schema}})
    }

    fn definition(versions: &[Value], stored: &[&str]) -> Value {
        json!({"spec": {"versions": versions}, "status": {"storedVersions": stored}})
    }

    fn texts(narrowings: &[Narrowing]) -> Vec<String> {
        let text = |one: &Narrowing| format!("{}: {}", one.path, one.problem);
        narrowings.iter().map(text).collect()
    }

    fn with_fields(fields: &[&str]) -> Value {
        let fields = fields
            .iter()
            .map(|field| ((*field).to_owned(), json!({"type": "string"})));
        let fields: Value = fields.collect::<serde_json::Map<_, _>>().into();
        json!({"type": "object", "properties": fields})
    }

    /// DEF-1: no write of a definition may lose a field or a stored version.
    #[test]
    fn a_version_is_kept_while_objects_may_be_stored_in_it() {
        let schema = json!({"type": "object"});
        let both = [
            version("v1alpha1", false, &schema),
            version("v1", true, &schema),
        ];
        let wanted = definition(&[version("v1", true, &schema)], &[]);
        let migrating = definition(&both, &["v1alpha1", "v1"]);
        let lost = compare_definitions(&migrating, &wanted).lost;
        assert_eq!(lost[0].path, "v1alpha1");
        assert!(lost[0].problem.contains("stored"), "{lost:?}");
        let mut migrated = definition(&both, &["v1"]);
        assert_eq!(
            compare_definitions(&migrated, &wanted),
            Comparison::default()
        );
        // The server has shortened `storedVersions` although its migration failed.
        migrated["metadata"]["annotations"] =
            json!({ANNOTATION: MigrationProgress::default().text()});
        assert_eq!(
            compare_definitions(&migrated, &wanted).lost[0].path,
            "v1alpha1"
        );
    }

    #[test]
    fn a_version_above_all_of_the_operators_belongs_to_a_later_release() {
        let schema = json!({"type": "object"});
        let present = [version("v1", true, &schema), version("v2", false, &schema)];
        let wanted = definition(&[version("v1", true, &schema)], &[]);
        let lost = compare_definitions(&definition(&present, &["v1"]), &wanted).lost;
        assert_eq!(
            texts(&lost),
            ["v2: the version is newer than all of the operator's"]
        );
    }

    #[test]
    fn gains_and_losses_are_told_apart() {
        let (ab, bc) = (with_fields(&["a", "b"]), with_fields(&["b", "c"]));
        let present = definition(&[version("v1", true, &ab)], &["v1"]);
        let wanted = definition(&[version("v1", true, &bc)], &[]);
        let comparison = compare_definitions(&present, &wanted);
        assert_eq!(comparison.lost[0].path, "v1.a");
        assert_eq!(comparison.gained[0].path, "v1.c");
        assert_eq!((comparison.lost.len(), comparison.gained.len()), (1, 1));
    }

    #[test]
    fn a_removed_subresource_is_a_loss() {
        let schema = json!({"type": "object"});
        let mut old = version("v1", true, &schema);
        old["subresources"] = json!({"status": {}});
        let present = definition(&[old], &["v1"]);
        let wanted = definition(&[version("v1", true, &schema)], &[]);
        let lost = compare_definitions(&present, &wanted).lost;
        assert_eq!(texts(&lost), ["v1: the subresource status is removed"]);
    }
}
