//! A handler of the owners of another kind does not request objects of the primary kind.
//~ a controller of `Primary<ConfigMap>` takes no requests for objects of `Secret`
//~ `owner()` and `indexed(…)` request objects of the primary kind of `Controller::builder`; for another kind use `Controller::keyed`

use steersman::k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use steersman::{Controller, owner};

fn main() {
    let _ = Controller::builder::<ConfigMap>().watches::<Service>(owner::<Secret>());
}
