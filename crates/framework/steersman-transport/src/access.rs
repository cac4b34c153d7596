//! Driver: signs requests, and repeats a request after a 401 if the credentials have changed since.

use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::header::AUTHORIZATION;
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use kube_client::client::Body;
use tower::{BoxError, Service};

use crate::body::{Answered, PooledBody};
use crate::credentials::Credentials;
use crate::pool::ConnectionPool;
use crate::signing::Signer;

/// The connections and credentials for one server, shared by all clients of a transport in one runtime.
pub(crate) struct SharedAccess {
    pub(crate) pool: Arc<ConnectionPool>,
    pub(crate) credentials: Arc<Credentials>,
    /// Signs requests with a credential that is not in a file: a token, a password, or the token of a plugin.
    pub(crate) signer: Signer,
}

impl SharedAccess {
    async fn send(&self, request: Request<Body>) -> Answered {
        let (parts, body) = request.into_parts();
        // The body is kept in memory, because the request may be sent a second time.
        let body = body.collect().await?.to_bytes();
        let request = Request::from_parts(parts, body);
        if self.credentials.keep_fresh().await {
            self.pool.renewed(self.credentials.generation());
        }
        let known = self.credentials.changes();
        let header = self.header().await?;
        let answer = self.once(request.clone(), header.clone()).await?;
        // CONN-4: a server that responds with 401 has not executed the request.
        if answer.status() != StatusCode::UNAUTHORIZED
            || !(self.credentials.renew(known).await || self.signer.renew(header.as_ref()).await)
        {
            return Ok(answer);
        }
        drop(answer);
        self.pool.renewed(self.credentials.generation());
        self.once(request, self.header().await?).await
    }

    async fn header(&self) -> Result<Option<HeaderValue>, BoxError> {
        match self.credentials.header() {
            Some(header) => Ok(Some(header)),
            None => self.signer.header().await,
        }
    }

    async fn once(&self, mut request: Request<Bytes>, header: Option<HeaderValue>) -> Answered {
        if let Some(header) = header {
            request.headers_mut().insert(AUTHORIZATION, header);
        }
        self.pool.send(request).await
    }
}

/// The service at the end of a client's stack.
#[derive(Clone, derive_more::Debug)]
#[debug("Sending {{ .. }}")]
pub struct Sending(pub(crate) Arc<SharedAccess>);

impl Service<Request<Body>> for Sending {
    type Response = Response<PooledBody>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Answered>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let access = Arc::clone(&self.0);
        async move { access.send(request).await }.boxed()
    }
}
