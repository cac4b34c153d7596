//! Machine: parses the discovery documents of a server.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{APIGroup, APIResourceList, ObjectMeta};
use serde::Deserialize;
use serde::de::Error as _;
use steersman_object::{Gvk, Kind, Scope};

/// A kind in one version, as the server serves it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServedResource {
    /// The kind, with its plural and scope.
    pub kind: Kind,
    /// The singular name, such as `deployment`; empty if the server names none.
    pub singular: String,
    /// Short names, such as `deploy`.
    pub short_names: Vec<String>,
    /// Categories, such as `all`.
    pub categories: Vec<String>,
    /// The verbs of the kind: `get`, `list`, `watch`, and so on.
    pub verbs: Vec<String>,
    /// The subresources of the kind: `status`, `scale`, and so on.
    pub subresources: Vec<String>,
}

/// A group and its versions, the preferred one first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GroupDocument {
    pub(crate) name: String,
    pub(crate) versions: Vec<String>,
}

/// The kinds that one version of a group serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct VersionDocument {
    pub(crate) group: String,
    pub(crate) version: String,
    /// The kinds that the version serves; `None` if the server marks its list of kinds as stale.
    pub(crate) served: Option<Vec<ServedResource>>,
}

/// The answer of `/api` or `/apis`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DiscoveryIndex {
    /// All groups with their kinds (`apidiscovery.k8s.io`).
    Aggregated(Vec<GroupDocument>, Vec<VersionDocument>),
    /// The groups without their kinds.
    Groups(Vec<GroupDocument>),
}

type List<T> = Option<Vec<T>>;

#[derive(Deserialize)]
struct RawIndex {
    kind: String,
    groups: List<APIGroup>,
    /// The versions of the core group, in the answer of `/api`.
    versions: List<String>,
    items: List<RawAggregated>,
}

#[derive(Deserialize)]
struct RawAggregated {
    metadata: Option<ObjectMeta>,
    versions: List<RawAggregatedVersion>,
}

#[derive(Deserialize)]
struct RawAggregatedVersion {
    version: String,
    freshness: Option<String>,
    resources: List<RawAggregatedResource>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawAggregatedResource {
    resource: String,
    response_kind: Option<RawKind>,
    scope: Option<String>,
    singular_resource: Option<String>,
    verbs: List<String>,
    short_names: List<String>,
    categories: List<String>,
    subresources: List<RawSubresource>,
}

#[derive(Deserialize)]
struct RawKind {
    kind: String,
}

#[derive(Deserialize)]
struct RawSubresource {
    subresource: String,
}

/// Parses the answer of `/api` or `/apis`, in either form.
pub(crate) fn index(body: &[u8]) -> Result<DiscoveryIndex, serde_json::Error> {
    let raw: RawIndex = serde_json::from_slice(body)?;
    if raw.kind == "APIGroupDiscoveryList" {
        return Ok(aggregated(raw.items.unwrap_or_default()));
    }
    let groups = raw.groups.into_iter().flatten();
    let mut groups: Vec<GroupDocument> =
        groups.map(GroupDocument::new).collect::<Result<_, _>>()?;
    if let Some(versions) = raw.versions {
        let name = String::new();
        groups.push(GroupDocument { name, versions });
    }
    Ok(DiscoveryIndex::Groups(groups))
}

/// Parses the answer of `/apis/GROUP`.
pub(crate) fn group(body: &[u8]) -> Result<GroupDocument, serde_json::Error> {
    GroupDocument::new(serde_json::from_slice(body)?)
}

/// Parses the answer of `/apis/GROUP/VERSION`.
pub(crate) fn version(
    group: &str,
    version: &str,
    body: &[u8],
) -> Result<Vec<ServedResource>, serde_json::Error> {
    let list: APIResourceList = serde_json::from_slice(body)?;
    let mut served: Vec<ServedResource> = Vec::new();
    let mut parts: Vec<(String, String)> = Vec::new();
    for resource in list.resources {
        if let Some((parent, part)) = resource.name.split_once('/') {
            parts.push((parent.to_owned(), part.to_owned()));
            continue;
        }
        present(&resource.name, "name")?;
        present(&resource.kind, "kind")?;
        let gvk = Gvk::new(group, version, &resource.kind);
        served.push(ServedResource {
            kind: Kind::new(gvk, &resource.name, scope(resource.namespaced)),
            singular: resource.singular_name,
            short_names: resource.short_names.unwrap_or_default(),
            categories: resource.categories.unwrap_or_default(),
            verbs: resource.verbs,
            subresources: Vec::new(),
        });
    }
    for (parent, part) in parts {
        if let Some(parent) = served.iter_mut().find(|s| s.kind.plural() == parent) {
            parent.subresources.push(part);
        }
    }
    Ok(served)
}

fn aggregated(items: Vec<RawAggregated>) -> DiscoveryIndex {
    let (mut groups, mut versions) = (Vec::new(), Vec::new());
    for item in items {
        let name = item.metadata.and_then(|m| m.name).unwrap_or_default();
        let mut group = GroupDocument {
            name: name.clone(),
            versions: Vec::new(),
        };
        for raw in item.versions.into_iter().flatten() {
            group.versions.push(raw.version.clone());
            let stale = raw.freshness.as_deref() == Some("Stale");
            let resources = raw.resources.unwrap_or_default().into_iter();
            let served = resources.map(|r| r.served(&name, &raw.version)).collect();
            versions.push(VersionDocument {
                group: name.clone(),
                version: raw.version,
                served: Some(served).filter(|_| !stale),
            });
        }
        groups.push(group);
    }
    DiscoveryIndex::Aggregated(groups, versions)
}

fn scope(namespaced: bool) -> Scope {
    match namespaced {
        true => Scope::Namespaced,
        false => Scope::Cluster,
    }
}

/// Checks that a required member is not empty: the types of Kubernetes read an absent member as an empty text.
fn present(value: &str, member: &'static str) -> Result<(), serde_json::Error> {
    match value {
        "" => Err(serde_json::Error::missing_field(member)),
        _ => Ok(()),
    }
}

impl GroupDocument {
    fn new(group: APIGroup) -> Result<Self, serde_json::Error> {
        present(&group.name, "name")?;
        for served in group.versions.iter().chain(&group.preferred_version) {
            present(&served.version, "version")?;
        }
        let versions = group.versions.into_iter();
        let mut versions: Vec<String> = versions.map(|served| served.version).collect();
        if let Some(preferred) = group.preferred_version {
            versions.retain(|version| *version != preferred.version);
            versions.insert(0, preferred.version);
        }
        let name = group.name;
        Ok(Self { name, versions })
    }
}

impl RawAggregatedResource {
    fn served(self, group: &str, version: &str) -> ServedResource {
        let kind = self.response_kind.map(|k| k.kind).unwrap_or_default();
        let namespaced = self.scope.as_deref() == Some("Namespaced");
        let subresources = self.subresources.into_iter().flatten();
        let gvk = Gvk::new(group, version, kind);
        ServedResource {
            kind: Kind::new(gvk, &self.resource, scope(namespaced)),
            singular: self.singular_resource.unwrap_or_default(),
            short_names: self.short_names.unwrap_or_default(),
            categories: self.categories.unwrap_or_default(),
            verbs: self.verbs.unwrap_or_default(),
            subresources: subresources.map(|s| s.subresource).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_without_a_name_or_with_an_unnamed_version_is_refused() {
        for (body, member) in [
            ("{}", "name"),
            (r#"{"name": null, "versions": []}"#, "name"),
            (r#"{"name": "apps", "versions": [{}]}"#, "version"),
            (r#"{"name": "apps", "preferredVersion": {}}"#, "version"),
        ] {
            let error = group(body.as_bytes()).unwrap_err().to_string();
            assert_eq!(error, format!("missing field `{member}`"), "{body}");
            let body = format!(r#"{{"kind": "APIGroupList", "groups": [{body}]}}"#);
            assert!(index(body.as_bytes()).is_err(), "{body}");
        }
        let apps = GroupDocument {
            name: "apps".to_owned(),
            versions: vec!["v1".to_owned()],
        };
        let body =
            br#"{"name": "apps", "versions": [{"version": "v1"}], "preferredVersion": null}"#;
        assert_eq!(group(body).unwrap(), apps);
    }

    #[test]
    fn a_resource_without_a_name_or_a_kind_is_refused() {
        for (body, member) in [
            (r#"{"resources": [{"kind": "Deployment"}]}"#, "name"),
            (r#"{"resources": [{"name": "deployments"}]}"#, "kind"),
        ] {
            let error = version("apps", "v1", body.as_bytes()).unwrap_err();
            let expected = format!("missing field `{member}`");
            assert_eq!(error.to_string(), expected, "{body}");
        }
        let body = br#"{"resources": [{"name": "deployments", "kind": "Deployment"}]}"#;
        assert_eq!(version("apps", "v1", body).unwrap().len(), 1);
    }
}
