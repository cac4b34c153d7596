//! A shared object, as reads return it, does not know its kind; the object in it does.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use steersman::object::TypedObject;

fn read<K: TypedObject>() {}

fn main() {
    read::<Arc<ConfigMap>>();
}
