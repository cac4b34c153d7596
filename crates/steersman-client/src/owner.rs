//! Machine: sets owner references between typed objects.

pub use steersman_object::owner::{
    OwnerError, controller_of, is_controlled_by, is_owned_by, set_controller,
};
use steersman_object::{Kind, Object, TypedObject, owner};

/// Makes `owner` the controller of `object`: the garbage collector deletes the object after its owner, and events of
/// the object reconcile the owner.
///
/// Changes the local copy only. Setting the same owner again refreshes its reference.
///
/// # Errors
///
/// If the owner has no uid, if another object is the controller already, or if a namespaced owner is in another
/// namespace than the object.
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
    owner: &O,
    object: &mut K,
) -> Result<(), OwnerError> {
    set_controller(owner, &Kind::of::<O>(), object)
}

/// Makes `owner` an owner of `object` without controlling it.
///
/// # Errors
///
/// As [`set_controller_reference`], except that another controller is no error.
pub fn add_owner_reference<O: TypedObject, K: Object>(
    owner: &O,
    object: &mut K,
) -> Result<(), OwnerError> {
    owner::add_owner(owner, &Kind::of::<O>(), object)
}

/// Removes the reference to `owner`, whatever its uid and version; returns whether there was one. Changes the local
/// copy only.
///
/// If all of the remaining owners are gone, the garbage collector deletes the object; without owners it is left alone.
pub fn remove_owner_reference<O: TypedObject, K: Object>(owner: &O, object: &mut K) -> bool {
    owner::remove_owner(owner, &Kind::of::<O>(), object)
}
