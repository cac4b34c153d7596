//! A server without the filter by shard.

use std::task::{Context, Poll};

use http::Request;
use tower::Service;

/// A server that does not know `shardSelector`, as those before Kubernetes 1.36.
#[derive(Clone)]
pub(super) struct OldServer<S>(pub(super) S);

impl<S: Service<Request<B>>, B> Service<Request<B>> for OldServer<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<B>) -> S::Future {
        let text = request.uri().to_string();
        let (path, query) = text.split_once('?').unwrap_or((&text, ""));
        let known = query
            .split('&')
            .filter(|one| !one.starts_with("shardSelector="));
        let known: Vec<&str> = known.collect();
        *request.uri_mut() = format!("{path}?{}", known.join("&")).parse().unwrap();
        self.0.call(request)
    }
}
