//! Driver: the environment's own requests, for every kind of server.

use http::header::{CONTENT_TYPE, HeaderName, HeaderValue, USER_AGENT};
use http::{Method, Request};
use kube_client::client::Body;
use kube_client::config::{KubeConfigOptions, Kubeconfig};
use kube_client::{Client, Config};
use serde_json::Value;
use steersman_apiserver::ApiServer;
use tower::ServiceExt as _;

use crate::error::Error;

/// The user agent of the environment's requests; reports omit these requests.
pub(crate) const AGENT: &str = "steersman-testenv";

#[derive(Clone)]
pub(crate) struct Rest(Client);

impl Rest {
    pub(crate) fn in_process(server: &ApiServer) -> Self {
        Self(client_in_process(server, vec![agent(AGENT)]))
    }

    /// Belongs to the runtime in which it is created.
    pub(crate) fn over_network(config: &Config) -> Result<Self, kube_client::Error> {
        let mut config = config.clone();
        config.headers.push(agent(AGENT));
        Client::try_from(config).map(Self)
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Value, kube_client::Error> {
        self.send(Method::GET, path, None).await
    }

    /// Creates an object and returns it; `doing` names the operation in errors.
    pub(crate) async fn create(
        &self,
        path: &str,
        body: &Value,
        doing: impl FnOnce() -> String,
    ) -> Result<Value, Error> {
        let created = self.send(Method::POST, path, Some(body)).await;
        created.map_err(|source| Error::request(doing(), source))
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
        let request = Request::builder().method(method).uri(path);
        let request = request.header(CONTENT_TYPE, "application/json");
        let body = body.map(|body| body.to_string().into_bytes());
        let request = request.body(body.unwrap_or_default());
        let request = request.map_err(kube_client::Error::HttpError)?;
        self.0.request(request).await
    }
}

pub(crate) async fn config(kubeconfig: &Kubeconfig) -> Result<Config, Error> {
    let options = KubeConfigOptions::default();
    Ok(Config::from_custom_kubeconfig(kubeconfig.clone(), &options).await?)
}

/// Returns the header of the requests that a test sends with the environment's client. Reports show these requests.
pub(crate) fn of_test() -> (HeaderName, HeaderValue) {
    agent("steersman-testenv/client")
}

fn agent(name: &'static str) -> (HeaderName, HeaderValue) {
    (USER_AGENT, HeaderValue::from_static(name))
}

pub(crate) fn is(error: &kube_client::Error, code: u16) -> bool {
    matches!(error, kube_client::Error::Api(status) if status.code == code)
}

pub(crate) fn client_in_process(
    server: &ApiServer,
    headers: Vec<(HeaderName, HeaderValue)>,
) -> Client {
    let add_headers = move |request: Request<Body>| with_headers(request, &headers);
    Client::new(server.service().map_request(add_headers), "default")
}

/// Adds headers; several headers of one name are all kept.
pub(crate) fn with_headers<B>(
    mut request: Request<B>,
    headers: &[(HeaderName, HeaderValue)],
) -> Request<B> {
    for (name, value) in headers {
        request.headers_mut().append(name, value.clone());
    }
    request
}
