//! A bare closure is not a handler: `handler::mapped` must wrap the closure.
//~ does not turn events of `Secret` into requests of a controller of `Primary<ConfigMap>`
//~ use one of `steersman_controller::handler`: `owner()`, `itself()`, `indexed(index)`, `mapped(|object: &K| …)`, or `mapped_async(…)` with an asynchronous function

use steersman::k8s_openapi::api::core::v1::{ConfigMap, Secret};
use steersman::{Controller, ObjectKey};

fn main() {
    let keys = |_: &Secret| Vec::<ObjectKey>::new();
    let _ = Controller::builder::<ConfigMap>().watches::<Secret>(keys);
}
