//! Handle: calls webhooks as a tower service, without a socket.

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body::Body;
use http_body_util::Full;
use steersman_serve::Routes;
use tower::Service;

/// The webhooks of a server as a service in this process, without sockets and certificates. Cheap to clone.
///
/// Made by [`WebhookServer::in_process`](crate::WebhookServer::in_process). A test routes the Service of its webhook
/// configuration to it with `ApiServer::route_service_to`, and then runs on a paused clock.
#[derive(Clone, derive_more::Debug)]
#[debug("InProcessWebhooks {{ paths: {:?} }}", routes.paths())]
#[must_use]
pub struct InProcessWebhooks {
    pub(crate) routes: Arc<Routes>,
}

impl<B> Service<Request<B>> for InProcessWebhooks
where
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let routes = Arc::clone(&self.routes);
        async move {
            let response = routes.answer(request, Duration::MAX).await;
            Ok(response.map(Full::new))
        }
        .boxed()
    }
}
