//! Words: which objects are whole, so that they may be created and may take the place of what there is.

use kube_core::{CustomResourceExt, DynamicObject};

use crate::object::Object;

/// An [`Object`] that holds everything of what it is: one that may be created, and may replace what is there.
///
/// Any type that is an [`Object`] may be read, also one that decodes a few fields and leaves the rest. To PUT such a
/// part would remove the rest on the server. So the verbs that send an object as a whole take types that are known to
/// be whole, and no others: those of `k8s-openapi`, those that `CustomResource` is derived for, and
/// [`DynamicObject`].
///
/// `By` is how that is known. The compiler finds it; a function that is generic over the object hands it on:
///
/// ```
/// use steersman_object::{TypedObject, WholeObject};
///
/// fn send<K: TypedObject + WholeObject<By>, By>(object: &K) {
/// #   let _ = object;
/// }
/// # send(&k8s_openapi::api::core::v1::Pod::default());
/// ```
///
/// Metadata alone is not whole, and does not compile:
///
/// ```compile_fail
/// # use kube_core::PartialObjectMeta;
/// # use steersman_object::{TypedObject, WholeObject};
/// # fn send<K: TypedObject + WholeObject<By>, By>(object: &K) { let _ = object; }
/// fn f(meta: &PartialObjectMeta<k8s_openapi::api::core::v1::Pod>) {
///     send(meta);
/// }
/// ```
///
/// Nor does a type that decodes what it needs:
///
/// ```compile_fail
/// # use kube_core::object::{NotUsed, Object};
/// # use serde::{Deserialize, Serialize};
/// # use steersman_object::WholeObject;
/// # fn send<K: WholeObject<By>, By>(object: &K) { let _ = object; }
/// #[derive(Clone, Debug, Deserialize, Serialize)]
/// struct Node {
///     node_name: Option<String>,
/// }
/// fn f(part: &Object<Node, NotUsed>) {
///     send(part);
/// }
/// ```
///
/// # For implementors
///
/// A type of one's own that implements `Resource` by hand, and holds every field of its kind, says so with
/// [`Declared`]. Fields that its kind has and it has not are lost with the first update.
#[diagnostic::on_unimplemented(
    message = "`{Self}` may be a part of an object, and what it lacks would be removed from the whole",
    label = "not known to be a whole object",
    note = "send what differs with `modify`, `merge`, `patch` or `apply_part`, or read the object as a whole type: one of \
            k8s-openapi, one that `CustomResource` is derived for, or `DynamicObject`",
    note = "a type that holds every field of its kind says so: `impl WholeObject<Declared> for {Self} {{}}`"
)]
pub trait WholeObject<By>: Object {}

/// How a [`WholeObject`] is known to be one: it is a type of Kubernetes' own, from `k8s-openapi`.
#[derive(Debug)]
pub enum BuiltIn {}

/// How a [`WholeObject`] is known to be one: `CustomResource` is derived for it.
#[derive(Debug)]
pub enum Derived {}

/// How a [`WholeObject`] is known to be one: it holds any field there is.
#[derive(Debug)]
pub enum Dynamic {}

/// How a [`WholeObject`] is known to be one: its author says so.
#[derive(Debug)]
pub enum Declared {}

// Each has a parameter of its own, because Rust cannot be told that no type is both.

impl<K: Object + k8s_openapi::Resource> WholeObject<BuiltIn> for K {}

impl<K: Object + CustomResourceExt> WholeObject<Derived> for K {}

impl WholeObject<Dynamic> for DynamicObject {}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;

    use super::*;

    fn whole<K: WholeObject<By>, By>() {}

    /// CLIENT-6
    #[test]
    fn how_a_type_is_known_to_be_whole_is_found_by_the_compiler() {
        whole::<Pod, _>();
        whole::<DynamicObject, _>();
    }
}
