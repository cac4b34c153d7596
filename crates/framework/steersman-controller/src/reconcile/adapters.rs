//! Driver: reconcilers made of functions, and reconcilers without their Rust type.

use std::sync::Arc;

use futures::future::BoxFuture;

use crate::action::Action;
use crate::context::Context;
use crate::error::Error;
use crate::reconcile::Reconciler;
use crate::request::Request;

/// A reconciler made of a function; see [`from_fn`].
#[derive(Clone, Copy, derive_more::Debug)]
#[debug("FromFn {{ .. }}")]
pub struct FromFn<F> {
    function: F,
}

/// A reconciler without its Rust type; see [`boxed`].
#[derive(Clone, derive_more::Debug)]
#[debug("BoxReconciler {{ .. }}")]
pub struct BoxReconciler<R = Request> {
    inner: Arc<dyn ErasedReconciler<R>>,
}

trait ErasedReconciler<R>: Send + Sync {
    fn reconcile<'a>(
        &'a self,
        ctx: &'a Context,
        request: R,
    ) -> BoxFuture<'a, Result<Action, Error>>;
}

/// Makes a reconciler of a function or closure, which gets the context by value.
///
/// ```
/// # use steersman_controller::{Action, Context, Error, Reconciler, Request, reconcile};
/// # fn assert_reconciler(_: impl Reconciler) {}
/// assert_reconciler(reconcile::from_fn(|ctx: Context, request: Request| async move {
///     println!("{} reconciles {request}", ctx.controller());
///     Ok::<_, Error>(Action::done())
/// }));
/// ```
pub fn from_fn<F>(function: F) -> FromFn<F> {
    FromFn { function }
}

/// Erases the Rust type of a reconciler, so that one collection can hold reconcilers of several types.
pub fn boxed<R: Send + 'static>(reconciler: impl Reconciler<R>) -> BoxReconciler<R> {
    BoxReconciler {
        inner: Arc::new(reconciler),
    }
}

impl<R, F, Fut> Reconciler<R> for FromFn<F>
where
    R: Send + 'static,
    F: Fn(Context, R) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Action, Error>> + Send,
{
    async fn reconcile(&self, ctx: &Context, request: R) -> Result<Action, Error> {
        (self.function)(ctx.clone(), request).await
    }
}

impl<R: Send + 'static> Reconciler<R> for BoxReconciler<R> {
    async fn reconcile(&self, ctx: &Context, request: R) -> Result<Action, Error> {
        self.inner.reconcile(ctx, request).await
    }
}

impl<R: Send + 'static, T: Reconciler<R>> Reconciler<R> for Arc<T> {
    async fn reconcile(&self, ctx: &Context, request: R) -> Result<Action, Error> {
        T::reconcile(self, ctx, request).await
    }
}

impl<R: Send + 'static, T: Reconciler<R>> ErasedReconciler<R> for T {
    fn reconcile<'a>(
        &'a self,
        ctx: &'a Context,
        request: R,
    ) -> BoxFuture<'a, Result<Action, Error>> {
        Box::pin(Reconciler::reconcile(self, ctx, request))
    }
}
