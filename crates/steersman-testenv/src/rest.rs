//! Driver: requests of the environment itself, the same for every kind of server.

use http::header::{CONTENT_TYPE, HeaderName, HeaderValue, USER_AGENT};
use http::{Method, Request};
use kube_client::client::Body;
use kube_client::{Client, Config};
use serde_json::Value;
use steersman_apiserver::ApiServer;
use tower::ServiceExt as _;

use crate::error::Error;

/// Who the environment is in a request log; its reports leave these requests out.
pub(crate) const AGENT: &str = "steersman-testenv";

/// Asks and says in errors what for.
#[derive(Clone)]
pub(crate) struct Rest(Client);

impl std::fmt::Debug for Rest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rest").finish_non_exhaustive()
    }
}

impl Rest {
    pub(crate) fn in_process(server: &ApiServer) -> Self {
        let agent = [(USER_AGENT, HeaderValue::from_static(AGENT))];
        Self(client_in_process(server, agent.to_vec()))
    }

    /// Belongs to the runtime in which it is made.
    pub(crate) fn over_network(config: &Config) -> Result<Self, kube_client::Error> {
        let mut config = config.clone();
        config
            .headers
            .push((USER_AGENT, HeaderValue::from_static(AGENT)));
        Client::try_from(config).map(Self)
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Value, kube_client::Error> {
        self.send(Method::GET, path, None).await
    }

    /// Creates and gives what was created; `doing` is for the error.
    pub(crate) async fn create(
        &self,
        path: &str,
        body: &Value,
        doing: impl FnOnce() -> String,
    ) -> Result<Value, Error> {
        let created = self.send(Method::POST, path, Some(body)).await;
        created.map_err(|source| Error::Request {
            doing: doing(),
            source: Box::new(source),
        })
    }

    pub(crate) async fn replace(
        &self,
        path: &str,
        body: &Value,
    ) -> Result<Value, kube_client::Error> {
        self.send(Method::PUT, path, Some(body)).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Result<(), kube_client::Error> {
        match self.send(Method::DELETE, path, None).await {
            Err(error) if !is(&error, 404) => Err(error),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Text that need not be JSON.
    pub(crate) async fn text(&self, path: &str) -> Result<String, kube_client::Error> {
        let request = Request::get(path).body(Vec::new());
        let request = request.map_err(kube_client::Error::HttpError)?;
        self.0.request_text(request).await
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, kube_client::Error> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(CONTENT_TYPE, "application/json")
            .body(
                body.map(|body| body.to_string().into_bytes())
                    .unwrap_or_default(),
            )
            .map_err(kube_client::Error::HttpError)?;
        self.0.request(request).await
    }
}

/// Whether the server refused with this code.
pub(crate) fn is(error: &kube_client::Error, code: u16) -> bool {
    matches!(error, kube_client::Error::Api(status) if status.code == code)
}

/// A client of the server in this process that sends these headers with every request.
pub(crate) fn client_in_process(
    server: &ApiServer,
    headers: Vec<(HeaderName, HeaderValue)>,
) -> Client {
    let service = server
        .service()
        .map_request(move |request: Request<Body>| with_headers(request, &headers));
    Client::new(service, "default")
}

/// Several headers of one name stay several.
pub(crate) fn with_headers<B>(
    mut request: Request<B>,
    headers: &[(HeaderName, HeaderValue)],
) -> Request<B> {
    for (name, value) in headers {
        request.headers_mut().append(name, value.clone());
    }
    request
}
