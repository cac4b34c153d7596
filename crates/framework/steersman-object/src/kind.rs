//! Words: kinds of objects as runtime values.

use std::sync::Arc;

use kube_core::{ApiResource, GroupVersionKind};

/// A group, version and kind: the `apiVersion` and `kind` fields of an object.
///
/// The group of the core kinds (`v1`) is empty. Displays as `Kind.version.group`, the form kubectl
/// accepts (`Deployment.v1.apps`, `Pod.v1`).
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, derive_more::Debug, derive_more::Display)]
#[debug("{self}")]
#[display("{kind}.{version}{}{group}", dot_before(group))]
pub struct Gvk {
    group: Arc<str>,
    version: Arc<str>,
    kind: Arc<str>,
}

/// A group, version and resource (the plural in a URL): the parts of a request path.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, derive_more::Debug, derive_more::Display)]
#[debug("{self}")]
#[display("{resource}.{version}{}{group}", dot_before(group))]
pub struct Gvr {
    group: Arc<str>,
    version: Arc<str>,
    resource: Arc<str>,
}

/// The scope of a kind's objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scope {
    /// Each object belongs to one namespace.
    Namespaced,
    /// Objects belong to the cluster, not to a namespace.
    Cluster,
}

/// The data about a kind that requests to an API server need: its [`Gvk`], its plural and its scope.
///
/// Cheap to clone. Created from a Rust type by [`Kind::of`], or from parts by [`Kind::new`] for a
/// kind known only at runtime.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, derive_more::Debug, derive_more::Display)]
#[debug("{} ({}, {:?})", self.gvk(), self.plural(), self.scope())]
#[display("{}", self.gvk())]
pub struct Kind {
    inner: Arc<KindParts>,
}

#[derive(PartialEq, Eq, Hash, PartialOrd, Ord)]
struct KindParts {
    gvk: Gvk,
    plural: Arc<str>,
    scope: Scope,
}

impl Gvk {
    /// Creates a kind of a group (empty for the core group) and version.
    pub fn new(group: impl AsRef<str>, version: impl AsRef<str>, kind: impl AsRef<str>) -> Self {
        Self {
            group: group.as_ref().into(),
            version: version.as_ref().into(),
            kind: kind.as_ref().into(),
        }
    }

    /// Creates a kind from the two fields of every object, such as `apps/v1` and `Deployment`.
    pub fn from_api_version(api_version: &str, kind: &str) -> Self {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        Self::new(group, version, kind)
    }

    /// Returns the API group; empty for the core group.
    pub fn group(&self) -> &str {
        &self.group
    }

    /// Returns the version within the group, such as `v1`.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Returns the kind in CamelCase, such as `Deployment`.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// Returns the `apiVersion` of objects of this kind: `v1`, or `group/version`.
    pub fn api_version(&self) -> String {
        match self.group() {
            "" => self.version().to_owned(),
            group => format!("{group}/{}", self.version),
        }
    }

    /// Returns whether both have the same group and kind, in any version.
    ///
    /// Owner references are matched this way, because they may name any served version of the owner.
    pub fn same_group_kind(&self, other: &Self) -> bool {
        self.group == other.group && self.kind == other.kind
    }
}

impl Gvr {
    /// Creates a resource (plural) of a group (empty for the core group) and version.
    pub fn new(
        group: impl AsRef<str>,
        version: impl AsRef<str>,
        resource: impl AsRef<str>,
    ) -> Self {
        Self {
            group: group.as_ref().into(),
            version: version.as_ref().into(),
            resource: resource.as_ref().into(),
        }
    }

    /// Returns the API group; empty for the core group.
    pub fn group(&self) -> &str {
        &self.group
    }

    /// Returns the version within the group.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Returns the plural in URLs, such as `deployments`.
    pub fn resource(&self) -> &str {
        &self.resource
    }
}

impl Kind {
    /// Creates a kind from its parts.
    pub fn new(gvk: Gvk, plural: impl AsRef<str>, scope: Scope) -> Self {
        let plural = plural.as_ref().into();
        Self {
            inner: Arc::new(KindParts { gvk, plural, scope }),
        }
    }

    /// Returns the group, version and kind.
    pub fn gvk(&self) -> &Gvk {
        &self.inner.gvk
    }

    /// Returns the group, version and plural.
    pub fn gvr(&self) -> Gvr {
        let Gvk { group, version, .. } = self.gvk().clone();
        Gvr {
            group,
            version,
            resource: Arc::clone(&self.inner.plural),
        }
    }

    /// Returns the plural in URLs.
    pub fn plural(&self) -> &str {
        &self.inner.plural
    }

    /// Returns the scope.
    pub fn scope(&self) -> Scope {
        self.inner.scope
    }

    /// Returns whether objects of this kind belong to a namespace.
    pub fn is_namespaced(&self) -> bool {
        self.scope() == Scope::Namespaced
    }

    /// Returns the plural qualified by its group, as in kubectl and error messages: `deployments.apps`, `pods`.
    pub fn qualified_plural(&self) -> String {
        match self.gvk().group() {
            "" => self.plural().to_owned(),
            group => format!("{}.{group}", self.plural()),
        }
    }

    /// Returns the path of the collection on an API server, without a trailing slash:
    /// `/apis/apps/v1/namespaces/web/deployments`.
    ///
    /// Ignores the namespace for a cluster-scoped kind.
    pub fn collection_path(&self, namespace: Option<&str>) -> String {
        let root = match self.gvk().group() {
            "" => "/api",
            _ => "/apis",
        };
        let api_version = self.gvk().api_version();
        let plural = self.plural();
        match namespace.filter(|_| self.is_namespaced()) {
            Some(namespace) => format!("{root}/{api_version}/namespaces/{namespace}/{plural}"),
            None => format!("{root}/{api_version}/{plural}"),
        }
    }

    /// Returns the kind as the `ApiResource` of kube-core's dynamic types.
    pub fn api_resource(&self) -> ApiResource {
        let gvk = self.gvk();
        let gvk = GroupVersionKind::gvk(gvk.group(), gvk.version(), gvk.kind());
        ApiResource::from_gvk_with_plural(&gvk, self.plural())
    }
}

fn dot_before(group: &str) -> &'static str {
    if group.is_empty() { "" } else { "." }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_kind_has_no_group_in_its_api_version_and_path() {
        let pods = Kind::new(
            Gvk::from_api_version("v1", "Pod"),
            "pods",
            Scope::Namespaced,
        );
        assert_eq!(pods.gvk().group(), "");
        assert_eq!(pods.gvk().api_version(), "v1");
        assert_eq!(pods.collection_path(None), "/api/v1/pods");
        assert_eq!(
            pods.collection_path(Some("web")),
            "/api/v1/namespaces/web/pods"
        );
        assert_eq!(pods.qualified_plural(), "pods");
        assert_eq!(pods.to_string(), "Pod.v1");
    }

    #[test]
    fn a_cluster_kind_ignores_a_namespace() {
        let gvk = Gvk::from_api_version("rbac.authorization.k8s.io/v1", "ClusterRole");
        let roles = Kind::new(gvk, "clusterroles", Scope::Cluster);
        let path = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
        assert_eq!(roles.collection_path(Some("web")), path);
        assert_eq!(
            roles.to_string(),
            "ClusterRole.v1.rbac.authorization.k8s.io"
        );
        assert_eq!(
            roles.gvr().to_string(),
            "clusterroles.v1.rbac.authorization.k8s.io"
        );
    }

    #[test]
    fn kinds_of_different_versions_have_the_same_group_kind() {
        let old = Gvk::new("apps", "v1beta2", "Deployment");
        let new = Gvk::new("apps", "v1", "Deployment");
        assert!(old.same_group_kind(&new));
        assert!(!old.same_group_kind(&Gvk::new("extensions", "v1beta2", "Deployment")));
    }
}
