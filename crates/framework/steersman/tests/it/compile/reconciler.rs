//! A type that does not implement `Reconciler` cannot be given to a controller.
//~ `Silent` is not a reconciler of `steersman::Request`
//~ implement `Reconciler` with `async fn reconcile(&self, ctx: &Context, request: Request) -> Result<Action, Error>`, or wrap a closure with `reconcile::from_fn`

use steersman::k8s_openapi::api::core::v1::ConfigMap;
use steersman::Controller;

struct Silent;

fn main() {
    let _ = Controller::builder::<ConfigMap>().build(Silent);
}
