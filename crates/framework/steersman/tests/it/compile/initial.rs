//! A new object is made from an object or a key.
//~ `&str` is no start of a new object of type `ConfigMap`
//~ pass an object of the type, or an `ObjectKey` if the type implements `Default`

use steersman::k8s_openapi::api::core::v1::ConfigMap;
use steersman::object::Initial;

fn ensure<K>(_: impl Initial<K>) {}

fn main() {
    ensure::<ConfigMap>("name");
}
