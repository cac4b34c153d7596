//! Driver: a reconciler inside layers of tower.

use std::error::Error as StdError;
use std::iter::successors;
use std::sync::Arc;
use std::task::Poll;

use futures::future::{BoxFuture, FutureExt};
use tower::{BoxError, Layer, Service, ServiceExt as _};

use crate::action::Action;
use crate::context::Context;
use crate::error::Error;
use crate::reconcile::Reconciler;
use crate::request::Request;

/// One call of a reconciler: the request that the tower services of [`layered`] get.
#[derive(Clone, Debug)]
pub struct ReconcileCall<R = Request> {
    /// The context that the reconciler gets: client, events, clock and cancellation.
    pub ctx: Context,
    /// The request that is reconciled.
    pub request: R,
}

/// A reconciler as a service of tower: the innermost service of [`layered`].
#[derive(derive_more::Debug)]
#[debug("ReconcileService {{ .. }}")]
pub struct ReconcileService<C> {
    reconciler: Arc<C>,
}

/// A reconciler inside layers of tower; see [`layered`].
#[derive(Clone, derive_more::Debug)]
#[debug("Layered {{ .. }}")]
pub struct Layered<S> {
    service: S,
}

/// An error of the innermost reconciler, on its way through the layers. [`failure`] finds this type among the causes of
/// an error, so that a terminal error stays terminal.
#[derive(derive_more::Debug, derive_more::Display)]
#[debug("{_0:?}")]
struct LayeredFailure(Error);

/// Puts layers of tower around a reconciler: time limits, concurrency limits, tracing, or your own.
/// [`ControllerBuilder::layer`](crate::ControllerBuilder::layer) does the same for one controller.
///
/// Each reconcile clones the outermost service, waits until it is ready, and calls it. So a layer with a service that
/// cannot be cloned, such as a rate limit, needs `tower::buffer` around it. Errors of layers are retried with backoff,
/// as errors of the reconciler are; an error that wraps a terminal error of the reconciler is terminal.
///
/// ```
/// # use std::time::Duration;
/// # use steersman_controller::{Action, Context, Error, Reconciler, Request, reconcile};
/// # fn assert_reconciler(_: impl Reconciler) {}
/// use tower::limit::GlobalConcurrencyLimitLayer;
///
/// # let reconciler = reconcile::from_fn(|_: Context, _: Request| async { Ok::<_, Error>(Action::done()) });
/// // The same limit can be shared by the reconcilers of several controllers.
/// let limit = GlobalConcurrencyLimitLayer::new(10);
/// assert_reconciler(reconcile::layered(&limit, reconciler));
/// ```
pub fn layered<L, C>(layer: L, reconciler: C) -> Layered<L::Service>
where
    L: Layer<ReconcileService<C>>,
{
    Layered {
        service: layer.layer(ReconcileService {
            reconciler: Arc::new(reconciler),
        }),
    }
}

impl<R: Send + 'static, C: Reconciler<R>> Service<ReconcileCall<R>> for ReconcileService<C> {
    type Response = Action;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Action, BoxError>>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, call: ReconcileCall<R>) -> Self::Future {
        let reconciler = Arc::clone(&self.reconciler);
        async move {
            let result = reconciler.reconcile(&call.ctx, call.request).await;
            result.map_err(|error| BoxError::from(LayeredFailure(error)))
        }
        .boxed()
    }
}

impl<R, S> Reconciler<R> for Layered<S>
where
    R: Send + 'static,
    S: Service<ReconcileCall<R>, Response = Action> + Clone + Send + Sync + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
{
    async fn reconcile(&self, ctx: &Context, request: R) -> Result<Action, Error> {
        // Each reconcile calls a clone of the service, because several reconciles run at once, and `call` needs a
        // `&mut` service.
        let service = self.service.clone();
        let ctx = ctx.clone();
        let called = service.oneshot(ReconcileCall { ctx, request });
        called.await.map_err(failure)
    }
}

/// Returns the error of the reconciler or of a layer, terminal if it wraps a terminal error of the reconciler.
fn failure(error: impl Into<BoxError>) -> Error {
    let error = match error.into().downcast::<LayeredFailure>() {
        Ok(failure) => return failure.0,
        Err(error) => error,
    };
    let outer: &(dyn StdError + 'static) = &*error;
    let is_terminal = successors(Some(outer), |error: &&(dyn StdError + 'static)| {
        (*error).source()
    })
    .any(|error| {
        let failure = error.downcast_ref::<LayeredFailure>();
        failure.is_some_and(|failure| failure.0.is_terminal())
    });
    match is_terminal {
        true => Error::boxed(error).terminal(),
        false => Error::boxed(error),
    }
}

impl<C> Clone for ReconcileService<C> {
    fn clone(&self) -> Self {
        Self {
            reconciler: Arc::clone(&self.reconciler),
        }
    }
}

impl StdError for LayeredFailure {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source().source()
    }
}
