//! A shared object, as reads return it, does not know its kind; the object in it does.
//~ `Arc<ConfigMap>` does not know its kind at compile time
//~ pass a `Kind` to the method that takes one, or use a typed object

use std::sync::Arc;

use steersman::k8s_openapi::api::core::v1::ConfigMap;
use steersman::object::TypedObject;

fn read<K: TypedObject>() {}

fn main() {
    read::<Arc<ConfigMap>>();
}
