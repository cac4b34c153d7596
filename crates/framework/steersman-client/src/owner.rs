//! Machine: sets, finds and removes owner references between typed objects.

pub use steersman_object::owner::{
    OwnerError, controller_of, has_controller, is_controlled_by, is_owned_by, set_controller,
};
use steersman_object::{AsObject, Kind, Object, TypedObject, owner};

/// Makes `owner` the controller of `object`: the garbage collector deletes the object after its owner, and a controller
/// that owns the kind reconciles the owner after an event of the object.
///
/// Changes the local copy only. If `object` has a reference to `owner` already, the reference is replaced.
///
/// # Errors
///
/// If the owner has no uid, if another object is the controller already, or if the owner is namespaced and the
/// object is cluster-scoped or in another namespace.
///
/// # Examples
///
/// ```
/// use k8s_openapi::api::apps::v1::Deployment;
/// use k8s_openapi::api::core::v1::Service;
/// use steersman_client::owner;
///
/// let mut deployment = Deployment::default();
/// deployment.metadata.name = Some("web".into());
/// deployment.metadata.uid = Some("4a6f".into());
/// let mut service = Service::default();
/// owner::set_controller_reference(&deployment, &mut service)?;
/// assert_eq!(owner::controller_of(&service.metadata).map(|o| o.name.as_str()), Some("web"));
/// # Ok::<(), owner::OwnerError>(())
/// ```
pub fn set_controller_reference<O: TypedObject, K: Object>(
    owner: &impl AsObject<O>,
    object: &mut K,
) -> Result<(), OwnerError> {
    set_controller(owner, &Kind::of::<O>(), object)
}

/// Makes `owner` an owner of `object`, but not its controller: the garbage collector deletes the object after its last
/// owner. Changes the local copy only.
///
/// # Errors
///
/// If the owner has no uid, or if the owner is namespaced and the object is cluster-scoped or in another namespace. An
/// object with another controller is no error.
pub fn add_owner_reference<O: TypedObject, K: Object>(
    owner: &impl AsObject<O>,
    object: &mut K,
) -> Result<(), OwnerError> {
    owner::add_owner(owner, &Kind::of::<O>(), object)
}

/// Removes the owner references with the uid of `owner`; returns whether there was such a reference. Changes the local
/// copy only.
///
/// A reference to a deleted object with the same name and another uid stays, for the garbage collector. The garbage
/// collector deletes the object once all remaining owners are gone, but leaves an object without owner references
/// alone.
///
/// # Examples
///
/// ```no_run
/// # use k8s_openapi::api::{apps::v1::Deployment, core::v1::Secret};
/// # async fn f(client: steersman_client::Client, owner: Deployment, secret: Secret) -> Result<(), steersman_client::Error> {
/// use steersman_client::owner;
///
/// // The Secret shall outlive the Deployment.
/// let release = |secret: &mut Secret| {
///     owner::remove_owner_reference(&owner, secret);
/// };
/// client.modify(&secret, release).await?;
/// # Ok(()) }
/// ```
pub fn remove_owner_reference<O: Object, K: Object>(
    owner: &impl AsObject<O>,
    object: &mut K,
) -> bool {
    owner::remove_owner(owner, object)
}

/// Removes the owner reference with the uid of `owner` if it is the controller reference; returns whether `owner`
/// controlled the object. Changes the local copy only.
pub fn remove_controller_reference<O: Object, K: Object>(
    owner: &impl AsObject<O>,
    object: &mut K,
) -> bool {
    owner::remove_controller(owner, object)
}
