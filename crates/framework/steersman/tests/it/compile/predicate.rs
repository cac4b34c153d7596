//! A bare closure is not a predicate: `predicate::func` or `predicate::object` must wrap the closure.
//~ is not a predicate on events of `ConfigMap`
//~ use one of `steersman_controller::predicate`, such as `generation_changed()`, or wrap a closure with `predicate::func` or `predicate::object`

use steersman::k8s_openapi::api::core::v1::ConfigMap;
use steersman::Controller;

fn main() {
    let _ = Controller::builder::<ConfigMap>().with_predicates(|_: &ConfigMap| true);
}
