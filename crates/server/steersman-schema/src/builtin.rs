//! Machine: the table of Kubernetes' own kinds that are served.

pub mod rules;

use super::name_rules::name_rule;
use super::resource::{FieldRefusal, Generation, Resource, ScalePaths, StatusMetadata, StorageKey};
use super::stored_schemas::StoredSchemas;

use rules::{DefaultRule, rules};

/// Verbs of a custom resource, in discovery's order.
pub const CUSTOM_VERBS: &[&str] = &[
    "delete", "deletecollection", "get", "list", "patch", "create", "update", "watch",
];

/// Verbs of a full resource, in discovery's order.
const VERBS: &[&str] = &[
    "create", "delete", "deletecollection", "get", "list", "patch", "update", "watch",
];

/// Verbs of kinds that are only created: bindings and reviews.
const CREATE_VERBS: &[&str] = &["create"];

/// Verbs of ComponentStatuses, which are only read.
const COMPONENT_VERBS: &[&str] = &["get", "list"];

/// Verbs of Namespaces, which have no deletecollection.
const NAMESPACE_VERBS: &[&str] = &[
    "create", "delete", "get", "list", "patch", "update", "watch",
];

/// The group version of StorageVersionMigrations, which Kubernetes 1.36 serves with
/// `--feature-gates=StorageVersionMigrator=true` and `--runtime-config=storagemigration.k8s.io/v1beta1=true`.
pub const STORAGE_MIGRATION: (&str, &str) = ("storagemigration.k8s.io", "v1beta1");

/// The group versions that are served only if an option of the server enables them.
const ENABLED: &[(&str, &str)] = &[STORAGE_MIGRATION];

/// The table of kinds, one line per kind; its header describes the format.
const TABLE: &str = include_str!("builtin/kinds.txt");

struct Row {
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    plural: &'static str,
    short: &'static str,
    flags: &'static str,
}

/// Returns the lines of a table below its heads `[version]` or `[group/version]`, each with its group and version.
fn lines_by_version(
    table: &'static str,
) -> impl Iterator<Item = ((&'static str, &'static str), &'static str)> {
    let mut version = ("", "");
    table.lines().filter_map(move |line| {
        let Some(head) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) else {
            return Some((version, line));
        };
        version = head.split_once('/').unwrap_or(("", head));
        None
    })
}

/// Returns the lines of the table. Incomplete lines are skipped; a test checks that there are none.
fn rows() -> impl Iterator<Item = Row> {
    lines_by_version(TABLE).filter_map(|((group, version), line)| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let [kind, plural, short, flags] = words[..] else {
            return None;
        };
        (!kind.starts_with('#')).then(|| Row {
            group,
            version,
            kind,
            plural,
            short: short.trim_start_matches('-'),
            flags,
        })
    })
}

/// Returns whether a built-in resource is served without an option that enables its version.
#[must_use]
pub fn is_on_by_default(resource: &Resource) -> bool {
    !ENABLED.contains(&(resource.group.as_str(), resource.version.as_str()))
}

/// Returns every built-in resource, groups in discovery's order, including the resources that an
/// option enables ([`is_on_by_default`]).
#[must_use]
pub fn built_in() -> Vec<Resource> {
    let rules = rules();
    let resources = rows().map(|row| {
        let rule = rules.iter().find(|rule| rule.is_of(&row));
        resource(&row, rule)
    });
    resources.collect()
}

fn resource(row: &Row, rule: Option<&DefaultRule>) -> Resource {
    let has = |flag: char| row.flags.contains(flag);
    let keys = |path: &str| path.split('.').map(str::to_owned).collect::<Vec<_>>();
    let short_names = row.short.split(',').filter(|name| !name.is_empty());
    let verbs = match row.kind {
        _ if has('r') => CREATE_VERBS,
        "ComponentStatus" => COMPONENT_VERBS,
        "Namespace" => NAMESPACE_VERBS,
        _ => VERBS,
    };
    Resource {
        group: row.group.to_owned(),
        version: row.version.to_owned(),
        kind: row.kind.to_owned(),
        list_kind: format!("{}List", row.kind),
        plural: row.plural.to_owned(),
        singular: row.kind.to_lowercase(),
        short_names: short_names.map(str::to_owned).collect(),
        categories: categories(row),
        namespaced: has('n'),
        verbs,
        status: has('s'),
        scale: has('c').then(|| ScalePaths {
            spec_replicas: keys("spec.replicas"),
            status_replicas: keys("status.replicas"),
            selector: Some(keys("spec.selector")),
        }),
        columns: Vec::new(),
        fields: rule.map_or_else(Vec::new, DefaultRule::fields),
        field_refusal: rule.map_or(FieldRefusal::OnlyMetadata, DefaultRule::refusal),
        status_metadata: rule.map_or(StatusMetadata::Taken, DefaultRule::status_metadata),
        metadata_checks: rule.map(DefaultRule::metadata_checks).unwrap_or_default(),
        schema: None,
        stored_schemas: StoredSchemas::default(),
        conversion: None,
        terminating: false,
        built_in: true,
        generation: match () {
            () if has('g') => Generation::Spec,
            () if has('G') => Generation::OutsideMetadata,
            () if has('L') => Generation::OutsideMetadataOrLabels,
            () => Generation::Unmanaged,
        },
        delete_returns_object: has('o'),
        create_on_update: has('u'),
        unconditional_update: !has('v'),
        names: name_rule(row.group, row.kind, verbs.contains(&"update")),
        storage: match row.kind {
            // Both groups serve the same stored Events.
            "Event" => StorageKey::new("", row.plural),
            _ => StorageKey::new(row.group, row.plural),
        },
        storage_version: match row.group {
            "autoscaling" => "v2".to_owned(),
            _ => row.version.to_owned(),
        },
        definition_versions: [].into(),
        deprecation_warning: match row.kind {
            "ComponentStatus" => Some("v1 ComponentStatus is deprecated in v1.19+".to_owned()),
            "Endpoints" => Some(
                "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"
                    .to_owned(),
            ),
            _ => None,
        },
        edition: 0,
    }
}

fn categories(row: &Row) -> Vec<String> {
    let all = [('a', "all"), ('e', "api-extensions")];
    let of_row = all.iter().filter(|(flag, _)| row.flags.contains(*flag));
    of_row.map(|(_, name)| (*name).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Kinds that occur only in subresources, and `Status`.
    const SPOKEN: &[&str] = &["Eviction", "Scale", "TokenRequest", "Status"];

    #[test]
    fn every_kind_is_served_once_and_has_its_names() {
        let all = built_in();
        let mut paths: Vec<_> = all
            .iter()
            .map(|r| (r.group.clone(), r.version.clone(), r.plural.clone()))
            .collect();
        paths.sort();
        paths.dedup();
        assert_eq!(paths.len(), all.len());
        let deployment = all.iter().find(|r| r.kind == "Deployment").unwrap();
        assert_eq!(deployment.short_names, ["deploy"]);
        assert_eq!(deployment.categories, ["all"]);
        assert_eq!(
            (deployment.status, deployment.scale.is_some()),
            (true, true)
        );
        assert_eq!(deployment.api_version(), "apps/v1");
        assert!(
            all.iter()
                .all(|r| r.singular.chars().all(char::is_lowercase))
        );
    }

    /// Every kind in the sources of k8s-openapi must be a kind of the table.
    #[test]
    fn every_stable_kind_that_k8s_openapi_knows_is_served() {
        let all = built_in();
        let mut missing = Vec::new();
        for line in include_str!("types/builtin.txt").lines() {
            let Some((name, rest)) = line.split_once(' ') else {
                continue;
            };
            let Some((_, version)) = rest
                .split_whitespace()
                .find_map(|word| word.split_once("@kind:"))
            else {
                continue;
            };
            let kind = name.rsplit('.').next().unwrap_or_default();
            let served = all
                .iter()
                .any(|r| r.kind == kind && r.api_version() == version);
            if !served && !SPOKEN.contains(&kind) {
                missing.push(format!("{version} {kind}"));
            }
        }
        assert_eq!(missing, Vec::<String>::new());
        let lines = TABLE.lines();
        let kinds = lines.filter(|line| line.starts_with(|c: char| c.is_ascii_uppercase()));
        assert_eq!(rows().count(), kinds.count());
    }
}
