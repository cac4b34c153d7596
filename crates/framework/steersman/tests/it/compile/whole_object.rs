//! Metadata alone is not a whole object, so it cannot replace one.
//~ `PartialObjectMeta<ConfigMap>` may lack fields of its kind, and sending it would remove them from the object
//~ send what differs with `modify`, `merge`, `patch` or `apply_part`, or read the object as a whole type: one of k8s-openapi, one that `CustomResource` is derived for, or `DynamicObject`
//~ if the type holds every field of its kind, declare it: `impl WholeObject<Declared> for PartialObjectMeta<ConfigMap> {}`

use steersman::k8s_openapi::api::core::v1::ConfigMap;
use steersman::kube_core::PartialObjectMeta;
use steersman::object::WholeObject;

fn replace<K: WholeObject<By>, By>() {}

fn main() {
    replace::<PartialObjectMeta<ConfigMap>, _>();
}
