//! What is neither an object nor an `Arc` of one is not written.
//~ `Note` is neither a Kubernetes object nor an `Arc` of one
//~ derive `CustomResource`, `Clone`, `Debug`, `Serialize` and `Deserialize` for your kind, or use a type of k8s-openapi

use steersman::k8s_openapi::api::core::v1::ConfigMap;
use steersman::object::{AsObject, Object};

struct Note;

fn write<K: Object>(_: &impl AsObject<K>) {}

fn main() {
    write::<ConfigMap>(&Note);
}
