//! A bare closure is not a predicate: `predicate::func` or `predicate::object` must wrap the closure.

use k8s_openapi::api::core::v1::ConfigMap;
use steersman::Controller;

fn main() {
    let _ = Controller::builder::<ConfigMap>().for_filter(|_: &ConfigMap| true);
}
