//! Words: the declaration of the kinds of an owner's children.

use crate::object::TypedObject;

/// A receiver of the kinds of an owner's children: the builder of a controller, which watches these kinds, or a desired
/// set, which prunes children of these kinds.
///
/// A function over this trait declares the kinds for both at once, so that neither misses a kind.
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
