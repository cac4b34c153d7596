//! A bare closure is not a handler: `handler::mapped` must wrap the closure.

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use steersman::{Controller, ObjectKey};

fn main() {
    let keys = |_: &Secret| Vec::<ObjectKey>::new();
    let _ = Controller::builder::<ConfigMap>().watches::<Secret>(keys);
}
