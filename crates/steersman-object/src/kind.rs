//! Words: kinds of objects as runtime values.

use std::fmt;
use std::sync::Arc;

use kube_core::{ApiResource, GroupVersionKind};

/// A group, version and kind: what an object's `apiVersion` and `kind` say.
///
/// The group of the core kinds (`v1`) is empty. Displays as `Kind.version.group`, the form kubectl
/// accepts (`Deployment.v1.apps`, `Pod.v1`).
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Gvk {
    group: Arc<str>,
    version: Arc<str>,
    kind: Arc<str>,
}

/// A group, version and resource (the plural in a URL): what a request path names.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Gvr {
    group: Arc<str>,
    version: Arc<str>,
    resource: Arc<str>,
}

/// Whether the objects of a kind live in a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scope {
    /// Each object belongs to one namespace.
    Namespaced,
    /// Objects belong to the cluster.
    Cluster,
}

/// All that is needed to talk about a kind to an api-server: its [`Gvk`], its plural and its scope.
///
/// Cheap to clone. Made from a Rust type with [`Kind::of`] or, for a kind known only at runtime,
/// from parts with [`Kind::new`].
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Kind {
    inner: Arc<Inner>,
}

#[derive(PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Inner {
    gvk: Gvk,
    plural: Arc<str>,
    scope: Scope,
}

// ===== impl Gvk =====

impl Gvk {
    /// A kind of the given group (empty for the core group) and version.
    #[must_use]
    pub fn new(group: impl AsRef<str>, version: impl AsRef<str>, kind: impl AsRef<str>) -> Self {
        Self {
            group: group.as_ref().into(),
            version: version.as_ref().into(),
            kind: kind.as_ref().into(),
        }
    }

    /// Reads the two fields every object carries: `apps/v1` and `Deployment`.
    #[must_use]
    pub fn from_api_version(api_version: &str, kind: &str) -> Self {
        let (group, version) = split_api_version(api_version);
        Self::new(group, version, kind)
    }

    /// The API group; empty for the core group.
    #[must_use]
    pub fn group(&self) -> &str {
        &self.group
    }

    /// The version within the group, such as `v1`.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The kind in CamelCase, such as `Deployment`.
    #[must_use]
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// The `apiVersion` of objects of this kind: `v1`, or `group/version`.
    #[must_use]
    pub fn api_version(&self) -> String {
        join_api_version(&self.group, &self.version)
    }

    /// Whether both are the same kind of the same group, whatever their versions.
    ///
    /// This is how owner references are matched: an owner may be named in any served version.
    #[must_use]
    pub fn same_group_kind(&self, other: &Self) -> bool {
        self.group == other.group && self.kind == other.kind
    }
}

impl fmt::Display for Gvk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        display_dotted(f, &self.kind, &self.version, &self.group)
    }
}

impl fmt::Debug for Gvk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

// ===== impl Gvr =====

impl Gvr {
    /// A resource (plural) of the given group (empty for the core group) and version.
    #[must_use]
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

    /// The API group; empty for the core group.
    #[must_use]
    pub fn group(&self) -> &str {
        &self.group
    }

    /// The version within the group.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The plural as it stands in URLs, such as `deployments`.
    #[must_use]
    pub fn resource(&self) -> &str {
        &self.resource
    }
}

impl fmt::Display for Gvr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        display_dotted(f, &self.resource, &self.version, &self.group)
    }
}

impl fmt::Debug for Gvr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

// ===== impl Kind =====

impl Kind {
    /// A kind from its parts.
    #[must_use]
    pub fn new(gvk: Gvk, plural: impl AsRef<str>, scope: Scope) -> Self {
        let plural = plural.as_ref().into();
        Self {
            inner: Arc::new(Inner { gvk, plural, scope }),
        }
    }

    /// Group, version and kind.
    #[must_use]
    pub fn gvk(&self) -> &Gvk {
        &self.inner.gvk
    }

    /// Group, version and plural.
    #[must_use]
    pub fn gvr(&self) -> Gvr {
        let Gvk { group, version, .. } = self.gvk().clone();
        Gvr {
            group,
            version,
            resource: Arc::clone(&self.inner.plural),
        }
    }

    /// The plural as it stands in URLs.
    #[must_use]
    pub fn plural(&self) -> &str {
        &self.inner.plural
    }

    /// Namespaced or cluster-wide.
    #[must_use]
    pub fn scope(&self) -> Scope {
        self.inner.scope
    }

    /// Whether objects of this kind live in a namespace.
    #[must_use]
    pub fn is_namespaced(&self) -> bool {
        self.scope() == Scope::Namespaced
    }

    /// The plural qualified by its group, as `kubectl` and error messages write it:
    /// `deployments.apps`, `pods`.
    #[must_use]
    pub fn qualified_plural(&self) -> String {
        match self.gvk().group() {
            "" => self.plural().to_owned(),
            group => format!("{}.{group}", self.plural()),
        }
    }

    /// The path of the collection on an api-server, without a trailing slash:
    /// `/apis/apps/v1/namespaces/web/deployments`.
    ///
    /// A namespace given for a cluster-scoped kind is ignored.
    #[must_use]
    pub fn collection_path(&self, namespace: Option<&str>) -> String {
        let gvk = self.gvk();
        let root = if gvk.group().is_empty() {
            "/api"
        } else {
            "/apis"
        };
        let api_version = gvk.api_version();
        match namespace.filter(|_| self.is_namespaced()) {
            Some(namespace) => {
                format!(
                    "{root}/{api_version}/namespaces/{namespace}/{}",
                    self.plural()
                )
            }
            None => format!("{root}/{api_version}/{}", self.plural()),
        }
    }

    /// The same facts in the shape that kube-core's dynamic types take.
    #[must_use]
    pub fn api_resource(&self) -> ApiResource {
        let gvk = self.gvk();
        let gvk = GroupVersionKind::gvk(gvk.group(), gvk.version(), gvk.kind());
        ApiResource::from_gvk_with_plural(&gvk, self.plural())
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.gvk(), f)
    }
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}, {:?})", self.gvk(), self.plural(), self.scope())
    }
}

fn split_api_version(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}

fn join_api_version(group: &str, version: &str) -> String {
    if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    }
}

fn display_dotted(
    f: &mut fmt::Formatter<'_>,
    name: &str,
    version: &str,
    group: &str,
) -> fmt::Result {
    write!(f, "{name}.{version}")?;
    if group.is_empty() {
        Ok(())
    } else {
        write!(f, ".{group}")
    }
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
    fn owners_match_whatever_the_version() {
        let old = Gvk::new("apps", "v1beta2", "Deployment");
        let new = Gvk::new("apps", "v1", "Deployment");
        assert!(old.same_group_kind(&new));
        assert!(!old.same_group_kind(&Gvk::new("extensions", "v1beta2", "Deployment")));
    }
}
