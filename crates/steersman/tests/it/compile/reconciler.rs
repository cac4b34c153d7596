//! A type that does not implement `Reconciler` cannot be given to a controller.

use k8s_openapi::api::core::v1::ConfigMap;
use steersman::Controller;

struct Silent;

fn main() {
    let _ = Controller::builder::<ConfigMap>().build(Silent);
}
