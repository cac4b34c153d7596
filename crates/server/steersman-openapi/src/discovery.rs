//! Machine: builds the discovery documents from the served resources.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};
use steersman_apimachinery::versions::compare_versions;
use steersman_schema::resource::Resource;
use steersman_schema::subresources::further;

/// The version of the aggregated discovery documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiscoveryVersion {
    /// `apidiscovery.k8s.io/v2`.
    V2,
    /// `apidiscovery.k8s.io/v2beta1`.
    V2Beta1,
}

const SUBRESOURCE_VERBS: &[&str] = &["get", "patch", "update"];

/// A group and its versions, the preferred one first.
struct DiscoveryGroup<'a> {
    name: &'a str,
    versions: Vec<&'a str>,
}

/// Builds `/api`.
pub fn core_versions() -> Value {
    json!({
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{ "clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1" }],
    })
}

/// Builds `/apis`.
pub fn groups(resources: &[Arc<Resource>]) -> Value {
    let groups = collect(resources);
    let named = groups.iter().filter(|group| !group.name.is_empty());
    let groups: Vec<Value> = named.map(group_fields).collect();
    json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": groups })
}

/// Builds `/apis/<group>`, if the group is served.
pub fn group(resources: &[Arc<Resource>], name: &str) -> Option<Value> {
    let groups = collect(resources);
    let group = groups
        .iter()
        .find(|group| !name.is_empty() && group.name == name)?;
    let mut document = group_fields(group);
    document["kind"] = "APIGroup".into();
    document["apiVersion"] = "v1".into();
    Some(document)
}

/// Builds `/api/v1` or `/apis/<group>/<version>`, if the version is served.
pub fn version(resources: &[Arc<Resource>], group: &str, version: &str) -> Option<Value> {
    let mut entries: Vec<Value> = Vec::new();
    let mut sorted: Vec<&Arc<Resource>> = of_version(resources, group, version).collect();
    sorted.sort_by_key(|resource| &resource.plural);
    for resource in sorted {
        let mut entry = json!({
            "name": resource.plural,
            "singularName": resource.singular,
            "namespaced": resource.namespaced,
            "kind": resource.kind,
            "verbs": resource.verbs,
        });
        add_names(resource, &mut entry);
        if let Some(hash) = storage_version_hash(resource) {
            entry["storageVersionHash"] = hash.into();
        }
        entries.push(entry);
        for below in subresources(resource) {
            let name = format!("{}/{}", resource.plural, below.name);
            let mut entry = json!({
                "name": name,
                "singularName": "",
                "namespaced": resource.namespaced,
                "kind": below.kind,
                "verbs": below.verbs,
            });
            if !below.group.is_empty() {
                entry["group"] = below.group.into();
                entry["version"] = below.version.into();
            }
            entries.push(entry);
        }
    }
    if entries.is_empty() {
        return None;
    }
    Some(json!({
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": group_version(group, version),
        "resources": entries,
    }))
}

/// Builds the aggregated document of `/api` (`core`) or of `/apis`.
pub fn aggregated(resources: &[Arc<Resource>], core: bool, version: DiscoveryVersion) -> Value {
    let items: Vec<Value> = collect(resources)
        .iter()
        .filter(|group| group.name.is_empty() == core)
        .map(|group| {
            let versions: Vec<Value> = group
                .versions
                .iter()
                .map(|version| aggregated_version(resources, group.name, version))
                .collect();
            let metadata = if core {
                json!({})
            } else {
                json!({ "name": group.name })
            };
            json!({ "metadata": metadata, "versions": versions })
        })
        .collect();
    json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": aggregated_api_version(version),
        "metadata": {},
        "items": items,
    })
}

fn aggregated_api_version(version: DiscoveryVersion) -> &'static str {
    match version {
        DiscoveryVersion::V2 => "apidiscovery.k8s.io/v2",
        DiscoveryVersion::V2Beta1 => "apidiscovery.k8s.io/v2beta1",
    }
}

/// Returns the content type of the aggregated documents.
pub fn aggregated_content_type(version: DiscoveryVersion) -> &'static str {
    match version {
        DiscoveryVersion::V2 => {
            "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
        }
        DiscoveryVersion::V2Beta1 => {
            "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"
        }
    }
}

/// Returns an `ETag`, in quotes, derived from the content.
pub fn etag(document: &Value) -> String {
    let mut hasher = DefaultHasher::new();
    document.to_string().hash(&mut hasher);
    format!("\"{:016X}\"", hasher.finish())
}

fn add_names(resource: &Resource, entry: &mut Value) {
    for (name, values) in [
        ("shortNames", &resource.short_names),
        ("categories", &resource.categories),
    ] {
        if !values.is_empty() {
            entry[name] = json!(values);
        }
    }
}

pub(crate) fn of_version<'a>(
    resources: &'a [Arc<Resource>],
    group: &'a str,
    version: &'a str,
) -> impl Iterator<Item = &'a Arc<Resource>> {
    resources
        .iter()
        .filter(move |resource| resource.group == group && resource.version == version)
}

/// Returns every served group version as `v1` or `group/version`, without repetition.
pub(crate) fn group_versions(resources: &[Arc<Resource>]) -> Vec<(&str, &str)> {
    let groups = collect(resources).into_iter();
    let versions = groups.flat_map(|group| {
        let versions = group.versions.into_iter();
        versions.map(move |version| (group.name, version))
    });
    versions.collect()
}

/// Formats a group version as `v1` for the core group, or as `group/version`.
pub(crate) fn group_version(group: &str, version: &str) -> String {
    if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    }
}

fn aggregated_version(resources: &[Arc<Resource>], group: &str, version: &str) -> Value {
    let mut entries: Vec<(&str, Value)> = of_version(resources, group, version)
        .map(|resource| {
            // Built-in kinds leave group and version empty, which means those of the document.
            let (own_group, own_version) = if resource.built_in {
                ("", "")
            } else {
                (group, version)
            };
            let kind = json!({ "group": own_group, "version": own_version, "kind": resource.kind });
            let mut entry = json!({
                "resource": resource.plural,
                "responseKind": kind,
                "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
                "singularResource": resource.singular,
                "verbs": resource.verbs,
            });
            add_names(resource, &mut entry);
            let below: Vec<Value> = subresources(resource)
                .into_iter()
                .map(|below| {
                    let (group, version) = if below.group.is_empty() {
                        (own_group, own_version)
                    } else {
                        (below.group, below.version)
                    };
                    json!({
                        "subresource": below.name,
                        "responseKind": { "group": group, "version": version, "kind": below.kind },
                        "verbs": below.verbs,
                    })
                })
                .collect();
            if !below.is_empty() {
                entry["subresources"] = Value::Array(below);
            }
            (resource.plural.as_str(), entry)
        })
        .collect();
    entries.sort_by_key(|(plural, _)| *plural);
    let entries: Vec<Value> = entries.into_iter().map(|(_, entry)| entry).collect();
    json!({ "version": version, "resources": entries, "freshness": "Current" })
}

/// A subresource as the documents list it.
#[derive(Debug)]
pub(crate) struct ListedSubresource<'a> {
    pub(crate) name: &'a str,
    /// Empty for a kind of the resource's own group and version.
    pub(crate) group: &'a str,
    pub(crate) version: &'a str,
    pub(crate) kind: &'a str,
    pub(crate) verbs: &'a [&'a str],
}

/// Returns the subresources of a resource, sorted by name; those of custom resources in reverse order.
pub(crate) fn subresources(resource: &Resource) -> Vec<ListedSubresource<'_>> {
    let mut all: Vec<ListedSubresource<'_>> = further(resource)
        .map(|further| ListedSubresource {
            name: further.name,
            group: further.group,
            version: further.version,
            kind: further.kind,
            verbs: further.verbs,
        })
        .collect();
    let own = |name, verbs| ListedSubresource {
        name,
        group: "",
        version: "",
        kind: &resource.kind,
        verbs,
    };
    if resource.is("", "Pod") {
        all.extend(["ephemeralcontainers", "resize"].map(|name| own(name, SUBRESOURCE_VERBS)));
    }
    if resource.is("certificates.k8s.io", "CertificateSigningRequest") {
        all.push(own("approval", SUBRESOURCE_VERBS));
    }
    if resource.is("", "Namespace") {
        all.push(own("finalize", &["update"]));
    }
    if resource.scale.is_some() {
        all.push(ListedSubresource {
            group: "autoscaling",
            version: "v1",
            kind: "Scale",
            ..own("scale", SUBRESOURCE_VERBS)
        });
    }
    if resource.status {
        all.push(own("status", SUBRESOURCE_VERBS));
    }
    if resource.built_in {
        all.sort_by_key(|below| below.name);
    } else {
        all.reverse();
    }
    all
}

/// Returns a hash by which clients recognise resources that are stored as the same kind: the
/// beginning of the SHA-256 of the stored kind. `None` for resources that are not stored.
fn storage_version_hash(resource: &Resource) -> Option<String> {
    if !resource.verbs.contains(&"watch") {
        return None;
    }
    // Events of both groups are stored as Events of the core group.
    let group = if resource.built_in && resource.kind == "Event" {
        ""
    } else {
        &resource.group
    };
    let stored = format!("{group}/{}/{}", resource.storage_version, resource.kind);
    let hash = digest(&SHA256, stored.as_bytes());
    Some(STANDARD.encode(hash.as_ref().get(..8)?))
}

/// Groups the resources. Groups are in the order of their first resource, versions by precedence.
fn collect(resources: &[Arc<Resource>]) -> Vec<DiscoveryGroup<'_>> {
    let mut groups: Vec<DiscoveryGroup<'_>> = Vec::new();
    for resource in resources {
        match groups.iter_mut().find(|group| group.name == resource.group) {
            Some(group) => {
                if !group.versions.contains(&resource.version.as_str()) {
                    group.versions.push(&resource.version);
                }
            }
            None => groups.push(DiscoveryGroup {
                name: &resource.group,
                versions: vec![&resource.version],
            }),
        }
    }
    for group in &mut groups {
        group
            .versions
            .sort_by(|left, right| compare_versions(left, right));
    }
    groups
}

fn group_fields(group: &DiscoveryGroup<'_>) -> Value {
    let versions: Vec<Value> = group
        .versions
        .iter()
        .map(|version| {
            json!({ "groupVersion": group_version(group.name, version), "version": version })
        })
        .collect();
    json!({ "name": group.name, "preferredVersion": versions.first(), "versions": versions })
}
