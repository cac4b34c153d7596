//! Handle: the paths of a server and their handlers.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};

use crate::error::Error;

/// Answers the requests of a route.
///
/// Closures that take a request and return a future of a response are handlers. The request has its complete body. A
/// panic is answered with a 500. A handler that takes longer than [`request_timeout`](crate::Limits::request_timeout)
/// is dropped; if the client disconnects, it is dropped at its next await.
pub trait Handler: Send + Sync + 'static {
    /// Answers one request.
    fn handle(&self, request: Request<Bytes>) -> impl Future<Output = Response<Bytes>> + Send;
}

/// Decides whether a client may use a route.
pub trait AccessControl: Send + Sync + 'static {
    /// Decides from the head of a request, before the body is read (SERVE-5).
    ///
    /// # Errors
    ///
    /// The response that refuses the request.
    fn admit(&self, head: &Parts) -> impl Future<Output = Result<(), Response<Bytes>>> + Send;
}

/// A path with its handler.
#[derive(Clone, derive_more::Debug)]
#[debug(
    "Route {{ path: {path:?}, is_prefix: {is_prefix}, methods: {methods:?}, \
     has_access_control: {}, .. }}",
    access.is_some()
)]
#[must_use]
pub struct Route {
    path: String,
    is_prefix: bool,
    methods: Methods,
    pub(crate) access: Option<Arc<dyn ErasedAccess>>,
    /// The path of the form to which browsers are sent that the access control does not know.
    pub(crate) sign_in: Option<String>,
    pub(crate) handler: Arc<dyn ErasedHandler>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Methods {
    /// GET and HEAD; the body is not read.
    Get,
    /// Every method, with a body of at most `body` bytes.
    Any { body: usize },
}

/// The routes of a server. A request to any other path gets a 404.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Routes {
    routes: Vec<Route>,
}

#[async_trait]
pub(crate) trait ErasedHandler: Send + Sync {
    async fn handle(&self, request: Request<Bytes>) -> Response<Bytes>;
}

#[async_trait]
pub(crate) trait ErasedAccess: Send + Sync {
    async fn admit(&self, head: &Parts) -> Result<(), Response<Bytes>>;
}

impl<F, Fut> Handler for F
where
    F: Fn(Request<Bytes>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Response<Bytes>> + Send,
{
    async fn handle(&self, request: Request<Bytes>) -> Response<Bytes> {
        self(request).await
    }
}

impl<A: AccessControl> AccessControl for Arc<A> {
    async fn admit(&self, head: &Parts) -> Result<(), Response<Bytes>> {
        A::admit(self, head).await
    }
}

#[async_trait]
impl<H: Handler> ErasedHandler for H {
    async fn handle(&self, request: Request<Bytes>) -> Response<Bytes> {
        Handler::handle(self, request).await
    }
}

#[async_trait]
impl<A: AccessControl> ErasedAccess for A {
    async fn admit(&self, head: &Parts) -> Result<(), Response<Bytes>> {
        AccessControl::admit(self, head).await
    }
}

impl Route {
    /// Makes a route for GET and HEAD, which does not read bodies.
    pub fn get(path: impl Into<String>, handler: impl Handler) -> Self {
        Self {
            path: path.into(),
            is_prefix: false,
            methods: Methods::Get,
            access: None,
            sign_in: None,
            handler: Arc::new(handler),
        }
    }

    /// Makes a route for every method, with bodies of at most `max_body` bytes. A larger body gets a 413.
    pub fn any(path: impl Into<String>, max_body: usize, handler: impl Handler) -> Self {
        Self {
            methods: Methods::Any { body: max_body },
            ..Self::get(path, handler)
        }
    }

    /// Makes the route match every path that starts with its own path. A route with the exact path has priority, then
    /// the route with the longest path.
    pub fn prefix(mut self) -> Self {
        self.is_prefix = true;
        self
    }

    /// Admits only the requests that `access` allows.
    pub fn access(mut self, access: impl AccessControl) -> Self {
        self.access = Some(Arc::new(access));
        self
    }

    /// Sends browsers without a usable token to the form of a [`SignIn`](crate::SignIn) instead of a 401. `path` is relative to
    /// the folder of the route's own path.
    pub fn sign_in_at(mut self, path: impl Into<String>) -> Self {
        self.sign_in = Some(path.into());
        self
    }

    /// Returns the path.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the largest body in bytes; `None` if bodies are not read.
    pub(crate) fn largest_body(&self) -> Option<usize> {
        match self.methods {
            Methods::Get => None,
            Methods::Any { body } => Some(body),
        }
    }

    pub(crate) fn takes(&self, method: &Method) -> bool {
        match self.methods {
            Methods::Get => *method == Method::GET || *method == Method::HEAD,
            Methods::Any { .. } => true,
        }
    }
}

impl Routes {
    /// Makes a set without routes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a route.
    ///
    /// # Errors
    ///
    /// [`Error::Path`] if the path does not begin with a slash; [`Error::DuplicatePath`].
    pub fn add(&mut self, route: Route) -> Result<(), Error> {
        let path = route.path.clone();
        if !path.starts_with('/') {
            return Err(Error::Path { path });
        }
        let is_same = |known: &&Route| known.path == path && known.is_prefix == route.is_prefix;
        if self.routes.iter().any(|known| is_same(&known)) {
            return Err(Error::DuplicatePath { path });
        }
        self.routes.push(route);
        Ok(())
    }

    /// Returns the paths in the order of their addition.
    pub fn paths(&self) -> Vec<String> {
        self.routes.iter().map(|route| route.path.clone()).collect()
    }

    pub(crate) fn find(&self, path: &str) -> Option<&Route> {
        let whole = |route: &&Route| !route.is_prefix && route.path == path;
        let beginning = |route: &&Route| route.is_prefix && path.starts_with(&route.path);
        let prefixes = self.routes.iter().filter(beginning);
        let whole = self.routes.iter().find(whole);
        whole.or_else(|| prefixes.max_by_key(|route| route.path.len()))
    }
}

/// Returns a plain text response. The text ends with a line feed.
#[must_use]
pub fn text_response(status: StatusCode, text: impl Into<String>) -> Response<Bytes> {
    let mut text = text.into();
    if !text.ends_with('\n') {
        text.push('\n');
    }
    response(status, "text/plain; charset=utf-8", text)
}

/// Returns a response with JSON.
#[must_use]
pub fn json_response(status: StatusCode, json: impl Into<Bytes>) -> Response<Bytes> {
    response(status, "application/json", json)
}

/// Returns a response with a body of a content type, such as `text/html; charset=utf-8`.
///
/// # Panics
///
/// If `content_type` has a control character or one outside ASCII.
#[must_use]
pub fn response(
    status: StatusCode,
    content_type: &'static str,
    body: impl Into<Bytes>,
) -> Response<Bytes> {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    // The header stops browsers from guessing another content type.
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(path: &str) -> Route {
        Route::get(path, |_| async { text_response(StatusCode::OK, "ok") })
    }

    #[test]
    fn the_whole_path_goes_first_and_then_the_longest_beginning() {
        let mut routes = Routes::new();
        for added in [
            route("/readyz"),
            route("/readyz/").prefix(),
            route("/readyz/a/").prefix(),
            route("/readyz/a/b"),
        ] {
            routes.add(added).unwrap();
        }
        let found = |path: &str| routes.find(path).map(|route| route.path.clone());
        assert_eq!(found("/readyz").as_deref(), Some("/readyz"));
        assert_eq!(found("/readyz/x").as_deref(), Some("/readyz/"));
        assert_eq!(found("/readyz/a/c").as_deref(), Some("/readyz/a/"));
        assert_eq!(found("/readyz/a/b").as_deref(), Some("/readyz/a/b"));
        assert_eq!(found("/readyzx"), None);
        assert!(matches!(
            routes.add(route("/readyz")),
            Err(Error::DuplicatePath { .. })
        ));
        assert!(matches!(
            routes.add(route("readyz")),
            Err(Error::Path { .. })
        ));
    }
}
