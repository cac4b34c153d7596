//! Metadata alone is not a whole object, so it cannot replace one.

use k8s_openapi::api::core::v1::ConfigMap;
use steersman::kube_core::PartialObjectMeta;
use steersman::object::WholeObject;

fn replace<K: WholeObject<By>, By>() {}

fn main() {
    replace::<PartialObjectMeta<ConfigMap>, _>();
}
