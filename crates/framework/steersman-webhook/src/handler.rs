//! Handle: the trait of handlers for untyped admission requests.

use async_trait::async_trait;

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
    async fn handle(&self, ctx: &AdmissionContext) -> AdmissionResponse {
        self(ctx.clone()).await
    }
}

#[async_trait]
pub(crate) trait ErasedHandler: Send + Sync {
    async fn handle(&self, ctx: &AdmissionContext) -> AdmissionResponse;
}

#[async_trait]
impl<H: AdmissionHandler> ErasedHandler for H {
    async fn handle(&self, ctx: &AdmissionContext) -> AdmissionResponse {
        AdmissionHandler::handle(self, ctx).await
    }
}
