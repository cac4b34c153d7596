//! Words: the trait of values from which a new object can be made.

use crate::key::ObjectKey;
use crate::object::Object;

/// A value from which a new object of type `K` is made: the object itself, or a key for an empty object of that name.
///
/// A key needs a type with a `Default`, such as those of k8s-openapi.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no start of a new object of type `{K}`",
    note = "pass an object of the type, or an `ObjectKey` if the type implements `Default`"
)]
pub trait Initial<K> {
    /// Returns the new object.
    fn into_initial(self) -> K;
}

#[diagnostic::do_not_recommend]
impl<K: Object> Initial<K> for K {
    fn into_initial(self) -> K {
        self
    }
}

impl<K: Object + Default> Initial<K> for &ObjectKey {
    fn into_initial(self) -> K {
        let mut object = K::default();
        *object.meta_mut() = self.to_meta();
        object
    }
}

impl<K: Object + Default> Initial<K> for ObjectKey {
    fn into_initial(self) -> K {
        (&self).into_initial()
    }
}
