//! Machine: finds and builds owner references.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use thiserror::Error;

use crate::as_object::AsObject;
use crate::key::ObjectKey;
use crate::kind::{Gvk, Kind, Scope};
use crate::object::Object;

/// The reason why an owner cannot be set.
#[derive(Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum OwnerError {
    /// The owner was never created, so it has no uid.
    #[error(
        "{owner} has no uid, so it cannot own {object}: use the object as the server returned it"
    )]
    OwnerWithoutUid {
        /// The owner's key.
        owner: ObjectKey,
        /// The key of the object to be owned.
        object: ObjectKey,
    },
    /// Another object already controls the object.
    #[error(
        "{object} is already controlled by {controller_kind} {controller:?}: it cannot have a second controller"
    )]
    AlreadyControlled {
        /// The key of the object to be owned.
        object: ObjectKey,
        /// The name of the current controller.
        controller: String,
        /// The kind of the current controller.
        controller_kind: String,
    },
    /// The object existed before without a controller. Setting a controller would cause its deletion together with that
    /// controller.
    #[error(
        "{object} exists and has no controller: delete it or rename the owner, or adopt it by setting \
         its controller reference yourself"
    )]
    NotControlled {
        /// The key of the object to be owned.
        object: ObjectKey,
    },
    /// The object is not controlled by this owner, so the owner may not delete it.
    #[error(
        "{object} is not controlled by {owner} (uid {uid:?}): it is left alone; delete it, or rename the owner"
    )]
    NotOwn {
        /// The owner's key.
        owner: ObjectKey,
        /// The owner's uid.
        uid: String,
        /// The key of the object.
        object: ObjectKey,
    },
    /// A namespaced owner cannot own a cluster-scoped object; the garbage collector would delete the object.
    #[error(
        "{owner} cannot own {object}, which has no namespace: a namespaced owner owns no cluster-scoped objects; \
         if the kind of the object is namespaced, set the namespace first"
    )]
    ClusterScoped {
        /// The owner's key.
        owner: ObjectKey,
        /// The key of the object to be owned.
        object: ObjectKey,
    },
    /// A namespaced owner cannot own objects outside its namespace; the garbage collector would delete them.
    #[error(
        "{owner} cannot own {object}: a namespaced owner owns objects of its own namespace only"
    )]
    AcrossNamespaces {
        /// The owner's key.
        owner: ObjectKey,
        /// The key of the object to be owned.
        object: ObjectKey,
    },
}

/// Returns the owner reference of the controlling owner, if there is one.
pub fn controller_of(meta: &ObjectMeta) -> Option<&OwnerReference> {
    meta.owner_references
        .iter()
        .flatten()
        .find(|reference| reference.controller == Some(true))
}

/// Returns whether an owner reference names an object of this kind, in any version.
pub fn refers_to_kind(reference: &OwnerReference, kind: &Kind) -> bool {
    Gvk::from_api_version(&reference.api_version, &reference.kind).same_group_kind(kind.gvk())
}

/// Returns the key of the owner that `reference` names; `namespace` is the namespace of the owned object.
///
/// The key of a cluster-scoped owner has no namespace.
pub fn owner_key(reference: &OwnerReference, kind: &Kind, namespace: Option<&str>) -> ObjectKey {
    match (kind.scope(), namespace) {
        (Scope::Namespaced, Some(namespace)) => ObjectKey::namespaced(namespace, &reference.name),
        (Scope::Namespaced, None) | (Scope::Cluster, _) => {
            ObjectKey::cluster_scoped(&reference.name)
        }
    }
}

/// Sets `owner` as the controller of `object`: a deletion of the owner deletes the object, and
/// events of the object reconcile the owner.
///
/// A second call with the same owner updates only the uid and the version of the reference.
///
/// # Errors
///
/// If the owner has no uid, another object is the controller, or the owner is namespaced and the object is
/// cluster-scoped or in another namespace.
pub fn set_controller<O: Object, K: Object>(
    owner: &impl AsObject<O>,
    owner_kind: &Kind,
    object: &mut K,
) -> Result<(), OwnerError> {
    let reference = OwnerReference {
        controller: Some(true),
        block_owner_deletion: Some(true),
        ..reference_to(owner.as_object(), owner_kind, object.key())?
    };
    if let Some(present) = controller_of(object.meta())
        && !same_owner(present, &reference)
    {
        return Err(OwnerError::AlreadyControlled {
            object: object.key(),
            controller: present.name.clone(),
            controller_kind: present.kind.clone(),
        });
    }
    upsert(object.meta_mut(), reference);
    Ok(())
}

/// Adds `owner` to the owners of `object` without making it the controller.
///
/// # Errors
///
/// The errors of [`set_controller`], except that another controller is no error.
pub fn add_owner<O: Object, K: Object>(
    owner: &impl AsObject<O>,
    owner_kind: &Kind,
    object: &mut K,
) -> Result<(), OwnerError> {
    let reference = reference_to(owner.as_object(), owner_kind, object.key())?;
    upsert(object.meta_mut(), reference);
    Ok(())
}

/// Removes the references with the uid of `owner`; returns whether there was a reference.
///
/// A reference to a deleted owner with the same name stays, for the garbage collector; [`set_controller`] and
/// [`add_owner`] replace it. The garbage collector deletes an object when all its remaining owners are gone, but not an
/// object without owners.
pub fn remove_owner<O: Object, K: Object>(owner: &impl AsObject<O>, object: &mut K) -> bool {
    remove(owner.as_object(), object, |_| true)
}

/// Removes the reference to `owner` like [`remove_owner`], but only if `owner` is the controller of `object`; returns
/// whether it was.
pub fn remove_controller<O: Object, K: Object>(owner: &impl AsObject<O>, object: &mut K) -> bool {
    remove(owner.as_object(), object, |reference| {
        reference.controller == Some(true)
    })
}

fn remove<O: Object, K: Object>(
    owner: &O,
    object: &mut K,
    removes: impl Fn(&OwnerReference) -> bool,
) -> bool {
    let (uid, meta) = (owner.uid_str(), object.meta_mut());
    let Some(references) = meta.owner_references.as_mut().filter(|_| !uid.is_empty()) else {
        return false;
    };
    let before = references.len();
    references.retain(|present| present.uid != uid || !removes(present));
    let is_removed = references.len() < before;
    if references.is_empty() {
        meta.owner_references = None;
    }
    is_removed
}

/// Returns whether `object` has a controller.
pub fn has_controller<K: Object>(object: &impl AsObject<K>) -> bool {
    controller_of(object.as_object().meta()).is_some()
}

/// Returns whether an owner reference of `object` has the uid of `owner`; a reference to an earlier object with its
/// name does not count.
pub fn is_owned_by<O: Object, K: Object>(
    object: &impl AsObject<K>,
    owner: &impl AsObject<O>,
) -> bool {
    let (object, owner) = (object.as_object(), owner.as_object());
    let mut references = object.meta().owner_references.iter().flatten();
    let uid = owner.uid_str();
    !uid.is_empty() && references.any(|reference| reference.uid == uid)
}

/// Returns whether the controller reference of `object` has the uid of `owner` (`metav1.IsControlledBy`).
pub fn is_controlled_by<O: Object, K: Object>(
    object: &impl AsObject<K>,
    owner: &impl AsObject<O>,
) -> bool {
    let (object, owner) = (object.as_object(), owner.as_object());
    let uid = owner.uid_str();
    let controller = controller_of(object.meta());
    !uid.is_empty() && controller.is_some_and(|controller| controller.uid == uid)
}

fn reference_to<O: Object>(
    owner: &O,
    kind: &Kind,
    object: ObjectKey,
) -> Result<OwnerReference, OwnerError> {
    let owner_key = owner.key();
    if owner.uid_str().is_empty() {
        return Err(OwnerError::OwnerWithoutUid {
            owner: owner_key,
            object,
        });
    }
    if kind.is_namespaced() && owner_key.namespace() != object.namespace() {
        return Err(match object.namespace() {
            Some(_) => OwnerError::AcrossNamespaces {
                owner: owner_key,
                object,
            },
            None => OwnerError::ClusterScoped {
                owner: owner_key,
                object,
            },
        });
    }
    Ok(OwnerReference {
        api_version: kind.gvk().api_version(),
        kind: kind.gvk().kind().to_owned(),
        name: owner_key.name().to_owned(),
        uid: owner.uid_str().to_owned(),
        ..OwnerReference::default()
    })
}

fn upsert(meta: &mut ObjectMeta, reference: OwnerReference) {
    let references = meta.owner_references.get_or_insert_default();
    match references
        .iter_mut()
        .find(|present| same_owner(present, &reference))
    {
        Some(present) => *present = reference,
        None => references.push(reference),
    }
}

/// Returns whether both references have the same group, kind and name, whatever their uids. A recreated owner thereby
/// replaces the reference to its predecessor, which the garbage collector would see as a deleted owner.
fn same_owner(a: &OwnerReference, b: &OwnerReference) -> bool {
    let gvk = |r: &OwnerReference| Gvk::from_api_version(&r.api_version, &r.kind);
    gvk(a).same_group_kind(&gvk(b)) && a.name == b.name
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
    use k8s_openapi::api::core::v1::{Namespace, PersistentVolume};

    use super::*;

    fn meta(namespace: Option<&str>, name: &str, uid: &str) -> ObjectMeta {
        ObjectMeta {
            namespace: namespace.map(Into::into),
            name: Some(name.into()),
            uid: Some(uid.into()).filter(|u: &String| !u.is_empty()),
            ..Default::default()
        }
    }

    fn deployment(namespace: &str, name: &str, uid: &str) -> Deployment {
        Deployment {
            metadata: meta(Some(namespace), name, uid),
            ..Default::default()
        }
    }

    fn replica_set(namespace: &str) -> ReplicaSet {
        ReplicaSet {
            metadata: meta(Some(namespace), "rs", ""),
            ..Default::default()
        }
    }

    fn kind() -> Kind {
        Kind::of::<Deployment>()
    }

    #[test]
    fn a_second_set_of_the_same_controller_updates_its_reference() {
        let mut owned = replica_set("a");
        set_controller(&deployment("a", "web", "u1"), &kind(), &mut owned).unwrap();
        set_controller(&deployment("a", "web", "u2"), &kind(), &mut owned).unwrap();
        let references = owned.metadata.owner_references.clone().unwrap();
        assert_eq!(references.len(), 1);
        assert_eq!(references[0].uid, "u2");
        assert_eq!(controller_of(&owned.metadata), Some(&references[0]));
    }

    #[test]
    fn a_second_controller_is_refused_but_a_second_owner_is_not() {
        let mut owned = replica_set("a");
        set_controller(&deployment("a", "web", "u1"), &kind(), &mut owned).unwrap();
        let other = deployment("a", "other", "u2");
        let error = set_controller(&other, &kind(), &mut owned).unwrap_err();
        assert!(
            matches!(error, OwnerError::AlreadyControlled { .. }),
            "{error}"
        );
        add_owner(&other, &kind(), &mut owned).unwrap();
        assert_eq!(owned.metadata.owner_references.unwrap().len(), 2);
    }

    #[test]
    fn an_owner_is_known_and_removed_by_its_uid() {
        let mut owned = replica_set("a");
        let (first, second) = (deployment("a", "web", "u1"), deployment("a", "web", "u2"));
        let other = deployment("a", "other", "u3");
        set_controller(&first, &kind(), &mut owned).unwrap();
        add_owner(&other, &kind(), &mut owned).unwrap();
        assert!(is_controlled_by(&owned, &first) && is_owned_by(&owned, &first));
        assert!(!is_controlled_by(&owned, &second) && !is_owned_by(&owned, &second));
        assert!(!is_controlled_by(&owned, &other) && is_owned_by(&owned, &other));
        let unborn = deployment("a", "web", "");
        assert!(!is_controlled_by(&owned, &unborn) && !is_owned_by(&owned, &unborn));

        for stranger in [&second, &unborn] {
            assert!(!remove_owner(stranger, &mut owned));
            assert!(!remove_controller(stranger, &mut owned));
        }
        // An owner that is not the controller is not removed.
        assert!(!remove_controller(&other, &mut owned));
        assert!(has_controller(&owned));
        assert!(remove_controller(&first, &mut owned));
        assert!(!has_controller(&owned) && !remove_owner(&first, &mut owned));
        assert!(remove_owner(&other, &mut owned));
        assert_eq!(owned.metadata.owner_references, None);
    }

    #[test]
    fn owners_need_a_uid_and_the_same_namespace() {
        let mut owned = replica_set("a");
        let error = set_controller(&deployment("a", "web", ""), &kind(), &mut owned).unwrap_err();
        assert!(matches!(error, OwnerError::OwnerWithoutUid { .. }));
        let error = set_controller(&deployment("b", "web", "u"), &kind(), &mut owned).unwrap_err();
        assert!(matches!(error, OwnerError::AcrossNamespaces { .. }));
        let mut volume = PersistentVolume::default();
        let error = add_owner(&deployment("b", "web", "u"), &kind(), &mut volume).unwrap_err();
        assert!(matches!(error, OwnerError::ClusterScoped { .. }));
        let cluster = Namespace {
            metadata: meta(None, "ns", "u"),
            ..Default::default()
        };
        set_controller(&cluster, &Kind::of::<Namespace>(), &mut owned).unwrap();
    }

    #[test]
    fn a_cluster_scoped_owner_has_no_namespace() {
        let reference = OwnerReference {
            name: "x".into(),
            ..Default::default()
        };
        let namespaces = Kind::of::<Namespace>();
        assert_eq!(
            owner_key(&reference, &namespaces, Some("a")),
            ObjectKey::cluster_scoped("x")
        );
        assert_eq!(
            owner_key(&reference, &kind(), Some("a")),
            ObjectKey::namespaced("a", "x")
        );
    }
}
