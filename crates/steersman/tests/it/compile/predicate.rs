//! A closure is not a predicate before it is wrapped.

use k8s_openapi::api::core::v1::ConfigMap;
use steersman::Controller;

fn main() {
    let _ = Controller::builder::<ConfigMap>().for_filter(|_: &ConfigMap| true);
}
