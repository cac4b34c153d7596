//! Words: the traits of objects that can be stored, cached and reconciled.

use std::any::TypeId;
use std::fmt::Debug;

use kube_core::{ApiResource, ClusterResourceScope, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::key::ObjectKey;
use crate::kind::{Gvk, Kind, Scope};
use crate::version::ResourceVersion;

/// A Kubernetes object: typed (`Pod`, custom kinds), dynamic, or metadata only.
///
/// Implemented for every [`Resource`] that can be encoded, decoded and shared between threads. The kind of an object is
/// passed beside it as a [`Kind`], so that typed and dynamic objects share one code path.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a Kubernetes object that Steersman can cache",
    note = "derive `CustomResource`, `Clone`, `Debug`, `Serialize` and `Deserialize` for your kind, \
            or use a type of k8s-openapi"
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
    /// Returns the key of this object; the name is empty if the object has none yet.
    fn key(&self) -> ObjectKey {
        ObjectKey::of_meta(self.meta())
    }

    /// Returns the uid that the server assigned; empty before the object is created.
    fn uid_str(&self) -> &str {
        self.meta().uid.as_deref().unwrap_or_default()
    }

    /// Returns the resource version of this object; [`ResourceVersion::unset`] before the object is created.
    fn stored_version(&self) -> ResourceVersion {
        ResourceVersion::new(self.meta().resource_version.as_deref().unwrap_or_default())
    }

    /// Returns whether deletion was requested; finalizers may still keep the object.
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

/// An [`Object`] type for which the kind is known at compile time.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not know its kind at compile time",
    note = "pass a `Kind` to the method that takes one, or use a typed object"
)]
pub trait TypedObject: Object<DynamicType = ()> {}

#[diagnostic::do_not_recommend]
impl<K: Object<DynamicType = ()>> TypedObject for K {}

impl Kind {
    /// Returns the kind of all objects of the type `K`.
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

/// The runtime data about the kind of a Rust type.
///
/// Implemented by `()` for types with a static kind, and by [`ApiResource`] for dynamic types.
pub trait TypeInfo: Clone + Debug + Send + Sync + 'static {
    /// Whether objects of the type keep fields that the program does not know.
    const IS_DYNAMIC: bool;

    /// Derives the runtime data from the kind.
    fn from_kind(kind: &Kind) -> Self;
}

impl TypeInfo for () {
    const IS_DYNAMIC: bool = false;

    fn from_kind(_: &Kind) -> Self {}
}

impl TypeInfo for ApiResource {
    const IS_DYNAMIC: bool = true;

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
        // A metadata-only type has the kind of its object type.
        assert_eq!(Kind::of::<PartialObjectMeta<Deployment>>(), kind);
    }

    #[test]
    fn an_object_that_was_never_created_has_no_identity() {
        let pod = Pod::default();
        assert_eq!(pod.uid_str(), "");
        assert_eq!(pod.stored_version(), ResourceVersion::unset());
        assert_eq!(pod.key(), ObjectKey::cluster_scoped(""));
    }
}
