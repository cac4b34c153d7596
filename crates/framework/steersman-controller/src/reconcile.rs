//! Words: the trait `Reconciler`, which the author of an operator implements.

mod adapters;
mod layered;
mod requested_object;
mod of_object;
mod from_kube;
mod finalizers;
pub mod pause;

use crate::action::Action;
use crate::context::Context;
use crate::error::Error;
use crate::request::Request;

pub use adapters::{BoxReconciler, FromFn, boxed, from_fn};
pub use finalizers::{CleanUp, Finalized, Finalizers};
pub use from_kube::{FromKube, KubeActions, from_kube};
pub use layered::{Layered, ReconcileCall, ReconcileService, layered};
pub use of_object::{ObjectReconciler, of_object};

/// Brings the cluster one step closer to what the object of a request asks for.
///
/// Write it with a plain `async fn`:
///
/// ```
/// # use steersman_controller::{Action, Context, Error, Reconciler, Request};
/// struct Website;
///
/// impl Reconciler for Website {
///     async fn reconcile(&self, ctx: &Context, request: Request) -> Result<Action, Error> {
///         // Read the present state, work out the wanted one, write the difference.
///         Ok(Action::done())
///     }
/// }
/// ```
///
/// # Guarantees
///
/// - One request runs at most once at a time; different requests run at the same time, as many as the
///   controller has workers.
/// - An event that arrives during a run causes exactly one later run.
/// - An error or a panic costs only its own request, which is retried with backoff (CTRL-2).
///
/// # What an implementation must do
///
/// A reconcile may run at any time, even if nothing changed or the object is gone. So it compares the wanted state with
/// the present state, acts on the difference, and does nothing if there is none. A reconcile may be dropped at an await
/// when the controller stops, or when its deadline and the grace after it have passed.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a reconciler of `{R}`",
    note = "implement `Reconciler` with `async fn reconcile(&self, ctx: &Context, request: Request) -> \
            Result<Action, Error>`, or wrap a closure with `reconcile::from_fn`"
)]
pub trait Reconciler<R = Request>: Send + Sync + 'static {
    /// Reconciles one request.
    ///
    /// # Errors
    ///
    /// Any error that prevented the reconcile; the request is retried with backoff, unless the error is
    /// [`terminal`](Error::terminal).
    fn reconcile(
        &self,
        ctx: &Context,
        request: R,
    ) -> impl Future<Output = Result<Action, Error>> + Send;
}
