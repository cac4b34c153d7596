//! Words: the trait that an operator's author implements.

mod adapters;

use crate::action::Action;
use crate::context::Context;
use crate::error::Error;
use crate::request::Request;

pub use adapters::{BoxReconciler, FromFn, boxed, from_fn};

/// Brings the world one step closer to what a request's object asks for.
///
/// Write it with a plain `async fn`:
///
/// ```
/// # use steersman_controller::{Action, Context, Error, Reconciler, Request};
/// struct Website;
///
/// impl Reconciler for Website {
///     async fn reconcile(&self, ctx: &Context, request: Request) -> Result<Action, Error> {
///         // Read what is, work out what should be, write the difference.
///         Ok(Action::done())
///     }
/// }
/// ```
///
/// # What the controller promises
///
/// - One request runs at most once at a time; different requests run side by side, as many as the
///   controller has workers.
/// - An event that arrives during a run causes exactly one later run.
/// - An error and a panic cost this request alone, which is tried again with backoff (CTRL-2).
///
/// # What is expected of you
///
/// A reconcile may run at any time, also when nothing changed and also for an object that is gone, so
/// it compares and acts, and does nothing where there is nothing to do. It may be dropped at an await
/// when the controller shuts down or its deadline and the grace after it passed.
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
    /// Whatever prevented it; the request is tried again with backoff, unless the error is
    /// [`terminal`](Error::terminal).
    fn reconcile(
        &self,
        ctx: &Context,
        request: R,
    ) -> impl Future<Output = Result<Action, Error>> + Send;
}
