//! Words: the trait of a handler that sees a request as it arrives.

use futures::FutureExt as _;
use futures::future::BoxFuture;

use crate::context::AdmissionContext;
use crate::response::AdmissionResponse;

/// Decides an admission request with the JSON of its objects.
///
/// Closures that take an [`AdmissionContext`] and return a future of a response are handlers. A panic is answered with
/// a 500, and a handler that goes on past the deadline of its request is dropped.
///
/// For objects of one kind, a [`Defaulter`](crate::Defaulter) or a [`Validator`](crate::Validator) is shorter.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not handle admission requests",
    note = "implement `AdmissionHandler`, or pass a closure `|ctx: AdmissionContext| async move {{ … }}` that returns an \
            `AdmissionResponse`"
)]
pub trait AdmissionHandler: Send + Sync + 'static {
    /// Decides one request.
    fn handle(&self, ctx: &AdmissionContext) -> impl Future<Output = AdmissionResponse> + Send;
}

impl<F, Fut> AdmissionHandler for F
where
    F: Fn(AdmissionContext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = AdmissionResponse> + Send,
{
    fn handle(&self, ctx: &AdmissionContext) -> impl Future<Output = AdmissionResponse> + Send {
        self(ctx.clone())
    }
}

/// An [`AdmissionHandler`] of an erased type.
pub(crate) trait ErasedHandler: Send + Sync {
    fn handle<'a>(&'a self, ctx: &'a AdmissionContext) -> BoxFuture<'a, AdmissionResponse>;
}

impl<H: AdmissionHandler> ErasedHandler for H {
    fn handle<'a>(&'a self, ctx: &'a AdmissionContext) -> BoxFuture<'a, AdmissionResponse> {
        AdmissionHandler::handle(self, ctx).boxed()
    }
}
