//! Words: the types that hold every field of their kind and may therefore be created and replaced.

use kube_core::{CustomResourceExt, DynamicObject};

use crate::object::Object;

/// An [`Object`] type that holds every field of its kind, so that its objects may be created and
/// may replace existing ones.
///
/// Any [`Object`] type may be read, including one with only a few fields. A PUT of such a part would remove the other
/// fields on the server. The verbs that send a whole object therefore accept only types that are known to be whole:
/// those of `k8s-openapi`, those that derive `CustomResource`, and [`DynamicObject`].
///
/// `By` is the reason why a type is whole. The compiler infers it; a function that is generic over
/// the object passes it on:
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
/// Metadata is not a whole object and does not compile:
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
/// A type with only some of the fields does not compile either:
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
/// A type that implements `Resource` by hand and holds every field of its kind implements this
/// trait with [`Declared`]. An update removes the fields of the kind that the type lacks.
#[diagnostic::on_unimplemented(
    message = "`{Self}` may lack fields of its kind, and sending it would remove them from the object",
    label = "not known to be a whole object",
    note = "send what differs with `modify`, `merge`, `patch` or `apply_part`, or read the object as a whole type: one of \
            k8s-openapi, one that `CustomResource` is derived for, or `DynamicObject`",
    note = "if the type holds every field of its kind, declare it: `impl WholeObject<Declared> for {Self} {{}}`"
)]
pub trait WholeObject<By>: Object {}

/// The reason for a [`WholeObject`]: the type comes from `k8s-openapi`.
#[derive(Debug)]
pub enum BuiltIn {}

/// The reason for a [`WholeObject`]: `CustomResource` is derived for the type.
#[derive(Debug)]
pub enum Derived {}

/// The reason for a [`WholeObject`]: the type holds any field.
#[derive(Debug)]
pub enum Dynamic {}

/// The reason for a [`WholeObject`]: the author of the type declares it.
#[derive(Debug)]
pub enum Declared {}

// Each implementation has its own `By`, because Rust cannot know that no type has two of these traits.

impl<K: Object + k8s_openapi::Resource> WholeObject<BuiltIn> for K {}

impl<K: Object + CustomResourceExt> WholeObject<Derived> for K {}

impl WholeObject<Dynamic> for DynamicObject {}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;

    use super::*;

    fn whole<K: WholeObject<By>, By>() {}

    /// CLIENT-6: only a type with all fields of its kind writes whole objects.
    #[test]
    fn the_compiler_infers_why_a_type_is_whole() {
        whole::<Pod, _>();
        whole::<DynamicObject, _>();
    }
}
