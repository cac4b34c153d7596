//! Words: the trait of everything that can be stored, cached and reconciled.

use std::any::TypeId;
use std::fmt::Debug;

use kube_core::{ApiResource, ClusterResourceScope, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::key::ObjectKey;
use crate::kind::{Gvk, Kind, Scope};
use crate::version::ResourceVersion;

/// An object of Kubernetes: typed (`Pod`, your own kinds), dynamic, or metadata alone.
///
/// Never implemented by hand: every [`Resource`] that can be encoded, decoded and shared between
/// threads is one. Which kind an object is of travels beside it as a [`Kind`], so that typed and
/// dynamic objects take the same paths.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a Kubernetes object that Steersman can cache",
    note = "derive `CustomResource`, `Clone`, `Debug`, `Serialize` and `Deserialize` for your kind, \
            or use a type of k8s-openapi",
    note = "reads answer an object as `Arc<K>`: pass `&*object` where `&K` is asked for"
)]
pub trait Object:
    Resource<DynamicType: TypeInfo, Scope: 'static>
    + Clone
    + Debug
    + DeserializeOwned
    + Serialize
    + Send
    + Sync
    + 'static
{
    /// The key of this object; its name is empty while it has none.
    fn key(&self) -> ObjectKey {
        ObjectKey::of_meta(self.meta())
    }

    /// The uid the server gave this object; empty before it was created.
    fn uid_str(&self) -> &str {
        self.meta().uid.as_deref().unwrap_or_default()
    }

    /// The version of this object; [`ResourceVersion::unset`] before it was created.
    fn stored_version(&self) -> ResourceVersion {
        ResourceVersion::new(self.meta().resource_version.as_deref().unwrap_or_default())
    }

    /// Whether deletion was requested and finalizers still hold the object.
    fn is_being_deleted(&self) -> bool {
        self.meta().deletion_timestamp.is_some()
    }
}

#[diagnostic::do_not_recommend]
impl<K> Object for K where
    K: Resource<DynamicType: TypeInfo, Scope: 'static>
        + Clone
        + Debug
        + DeserializeOwned
        + Serialize
        + Send
        + Sync
        + 'static
{
}

/// An [`Object`] whose kind its Rust type knows.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not know its kind at compile time",
    note = "pass a `Kind` to the method that takes one, or use a typed object",
    note = "reads answer an object as `Arc<K>`: pass `&*object` where `&K` is asked for"
)]
pub trait TypedObject: Object<DynamicType = ()> {}

#[diagnostic::do_not_recommend]
impl<K: Object<DynamicType = ()>> TypedObject for K {}

impl Kind {
    /// The kind of all objects of the type `K`.
    #[must_use]
    pub fn of<K: TypedObject>() -> Self {
        let gvk = Gvk::new(K::group(&()), K::version(&()), K::kind(&()));
        let cluster = TypeId::of::<K::Scope>() == TypeId::of::<ClusterResourceScope>();
        let scope = if cluster {
            Scope::Cluster
        } else {
            Scope::Namespaced
        };
        Self::new(gvk, K::plural(&()), scope)
    }
}

/// What a Rust type needs to be told about its kind at runtime: nothing, or all of it.
///
/// The two implementations are all there can be: `()` for types that know their kind, and
/// [`ApiResource`] for dynamic ones.
pub trait TypeInfo: Clone + Debug + Send + Sync + 'static {
    /// Derives the information from the kind.
    fn from_kind(kind: &Kind) -> Self;
}

impl TypeInfo for () {
    fn from_kind(_: &Kind) -> Self {}
}

impl TypeInfo for ApiResource {
    fn from_kind(kind: &Kind) -> Self {
        kind.api_resource()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::Deployment;
    use k8s_openapi::api::core::v1::{Namespace, Pod};
    use kube_core::{DynamicObject, PartialObjectMeta};

    use super::*;

    fn is_object<K: Object>() {}

    #[test]
    fn typed_dynamic_and_metadata_objects_are_objects() {
        is_object::<Pod>();
        is_object::<DynamicObject>();
        is_object::<PartialObjectMeta<Pod>>();
        is_object::<PartialObjectMeta<DynamicObject>>();
    }

    #[test]
    fn a_type_knows_its_kind() {
        let kind = Kind::of::<Deployment>();
        assert_eq!(kind.gvk().to_string(), "Deployment.v1.apps");
        assert_eq!(kind.plural(), "deployments");
        assert!(kind.is_namespaced());
        assert_eq!(Kind::of::<Namespace>().scope(), Scope::Cluster);
        // Metadata of a kind is of that kind.
        assert_eq!(Kind::of::<PartialObjectMeta<Deployment>>(), kind);
    }

    #[test]
    fn an_object_that_was_never_created_has_no_identity() {
        let pod = Pod::default();
        assert_eq!(pod.uid_str(), "");
        assert_eq!(pod.stored_version(), ResourceVersion::unset());
        assert_eq!(pod.key(), ObjectKey::cluster(""));
    }
}
