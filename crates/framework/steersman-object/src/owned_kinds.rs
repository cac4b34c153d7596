//! Words: the declaration of the kinds of an owner's children.

use crate::object::TypedObject;

/// A declaration that takes the kinds of the children of an owner: the builder of a controller, which watches them, and
/// a desired set, which finds children that are no longer wanted among them.
///
/// A function over this trait declares the kinds once for both, so that none is missing in either.
///
/// ```
/// use k8s_openapi::api::core::v1::{ConfigMap, Service};
/// use steersman_object::OwnedKinds;
///
/// fn children<T: OwnedKinds>(declaration: T) -> T {
///     declaration.owns::<ConfigMap>().owns::<Service>()
/// }
/// ```
pub trait OwnedKinds: Sized {
    /// Adds a kind of children.
    #[must_use]
    fn owns<K: TypedObject>(self) -> Self;
}
