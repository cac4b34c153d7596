//! Words: the trait of methods that take an object by reference, either `&K` or `&Arc<K>`.

use std::sync::Arc;

use crate::object::Object;

/// An object of type `K`, or an [`Arc`] of one.
///
/// Reads return `Arc<K>`. Methods that take an object by reference accept `&Arc<K>` and `&K` alike. The compiler infers
/// `K`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is neither a Kubernetes object nor an `Arc` of one",
    note = "derive `CustomResource`, `Clone`, `Debug`, `Serialize` and `Deserialize` for your kind, or use a type of \
            k8s-openapi"
)]
pub trait AsObject<K>: Sync {
    /// Returns the object.
    fn as_object(&self) -> &K;
}

// This and the implementation for `Arc` do not overlap, because no type is an `Arc` of itself.

#[diagnostic::do_not_recommend]
impl<K: Object> AsObject<K> for K {
    fn as_object(&self) -> &K {
        self
    }
}

#[diagnostic::do_not_recommend]
impl<K: Object> AsObject<K> for Arc<K> {
    fn as_object(&self) -> &K {
        self
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;

    use super::*;

    fn name<K: Object>(object: &impl AsObject<K>) -> Option<&str> {
        object.as_object().meta().name.as_deref()
    }

    #[test]
    fn the_compiler_infers_the_type_of_an_object_and_of_a_shared_one() {
        let mut pod = Pod::default();
        pod.metadata.name = Some("web".to_owned());
        assert_eq!(name(&pod), Some("web"));
        assert_eq!(name(&Arc::new(pod)), Some("web"));
    }
}
