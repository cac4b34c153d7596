//! Driver: calls webhooks, in process or over HTTPS.

use std::collections::HashMap;
use std::error::Error;
use std::fmt::{self, Display};
use std::pin::pin;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::{BoxFuture, Either, join_all, select};
use http::{Method, Request, Response, Uri, header};
use http_body::Body;
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use rustls::pki_types::ServerName;
use rustls::{CertificateError, ClientConfig, OtherError};
use steersman_registry::webhook::{Call, CallResponse, Endpoint};
use steersman_text::go;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tower::ServiceExt;

use crate::http::requests::decode::LIMIT;
use crate::http::webhooks::trust::Trust;

/// The answer of a webhook: HTTP status and body, or the reason why there is none.
type Exchanged = Result<(u16, Bytes), String>;

/// A webhook that runs in this process.
type InProcess = Arc<dyn Fn(Request<Full<Bytes>>) -> BoxFuture<'static, Exchanged> + Send + Sync>;

/// Returns the address of a Service without a route.
pub(crate) type Resolve<'a> = &'a (dyn Fn(&str, &str, u16) -> Result<(String, u16), String> + Sync);

/// The target of calls to a Service.
#[derive(Clone)]
enum WebhookRoute {
    Url(String),
    InProcess(InProcess),
}

/// A host name, and the port if only that port is routed.
type RouteKey = (String, Option<u16>);

/// The routes to webhooks, by the host name of a Service: `name.namespace.svc`.
#[derive(Default)]
pub(crate) struct Webhooks {
    routes: Mutex<HashMap<RouteKey, WebhookRoute>>,
}

impl Webhooks {
    /// Routes a port of a Service to a URL.
    pub(crate) fn route(&self, host: String, port: u16, url: String) {
        self.routes
            .lock()
            .insert((host, Some(port)), WebhookRoute::Url(url));
    }

    /// Routes all ports of a Service to a service in this process.
    pub(crate) fn route_in_process<S, B>(&self, host: String, service: S)
    where
        S: tower::Service<Request<Full<Bytes>>, Response = Response<B>>,
        S: Clone + Send + Sync + 'static,
        S::Future: Send,
        S::Error: Display + Send,
        B: Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let ask: InProcess = Arc::new(move |request| {
            let service = service.clone();
            Box::pin(async move {
                let response = service.oneshot(request).await;
                let response = response.map_err(|error| error.to_string())?;
                gather(response).await
            })
        });
        self.routes
            .lock()
            .insert((host, None), WebhookRoute::InProcess(ask));
    }

    /// Makes all calls concurrently, and returns their answers by key.
    pub(crate) async fn ask(
        &self,
        calls: Vec<Call>,
        resolve: Resolve<'_>,
    ) -> Vec<(String, CallResponse)> {
        join_all(calls.into_iter().map(|call| self.ask_one(call, resolve))).await
    }

    async fn ask_one(&self, call: Call, resolve: Resolve<'_>) -> (String, CallResponse) {
        let url = call.endpoint.url(call.timeout);
        let exchange = tokio::time::timeout(call.timeout, self.exchange(&call, &url, resolve));
        let exchanged = exchange
            .await
            .unwrap_or_else(|_| Err("context deadline exceeded".to_owned()));
        let body = match exchanged {
            Err(why) => Err(format!("Post \"{url}\": {why}")),
            Ok((200..=299, body)) => Ok(body),
            Ok((code, body)) => Err(refused(code, &body)),
        };
        let uid = call.uid;
        (call.key, CallResponse { uid, body })
    }

    async fn exchange(&self, call: &Call, url: &str, resolve: Resolve<'_>) -> Exchanged {
        let target: Uri = url.parse().map_err(|_| "invalid URL".to_owned())?;
        let (host, port) = authority(&target)?;
        let post = |target: Uri| {
            let request = Request::builder()
                .method(Method::POST)
                .uri(target)
                .header(header::HOST, &host)
                .header(header::CONTENT_TYPE, "application/json")
                .header(header::ACCEPT, "application/json, */*")
                .header(header::USER_AGENT, "kube-apiserver-admission");
            let request = request.body(Full::new(call.body.clone()));
            request.map_err(|error| error.to_string())
        };
        let route = {
            let routes = self.routes.lock();
            let exact = routes.get(&(host.clone(), Some(port)));
            exact.or_else(|| routes.get(&(host.clone(), None))).cloned()
        };
        match route {
            Some(WebhookRoute::InProcess(ask)) => return ask(post(target)?).await,
            Some(WebhookRoute::Url(url)) => {
                let base: Uri = url.parse().map_err(|_| "invalid URL".to_owned())?;
                let address = authority(&base)?;
                // The certificate may be for the address or, as in a cluster, for the Service.
                let names = (address.0.as_str(), Some(host.as_str()));
                return over_https(call, names, &address, post(target)?).await;
            }
            None => {}
        }
        let address = match &call.endpoint {
            Endpoint::Url(_) => (host.clone(), port),
            Endpoint::Service {
                namespace,
                name,
                port,
                ..
            } => resolve(namespace, name, *port)?,
        };
        over_https(call, (&host, None), &address, post(target)?).await
    }
}

impl fmt::Debug for Webhooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhooks").finish_non_exhaustive()
    }
}

/// Returns host and port of an HTTPS URL; URLs with other schemes are never called.
fn authority(url: &Uri) -> Result<(String, u16), String> {
    if url.scheme_str() != Some("https") {
        let scheme = url.scheme_str().unwrap_or_default();
        return Err(format!("unsupported protocol scheme \"{scheme}\""));
    }
    let host = url.host().unwrap_or_default();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    Ok((bare.to_owned(), url.port_u16().unwrap_or(443)))
}

async fn over_https(
    call: &Call,
    (name, also): (&str, Option<&str>),
    (host, port): &(String, u16),
    mut request: Request<Full<Bytes>>,
) -> Exchanged {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut trust = Trust::of(&call.ca, Arc::clone(&provider))?;
    if let Some(also) = also {
        trust = trust.or_for(also);
    }
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(trust))
        .with_no_client_auth();
    let name = ServerName::try_from(name.to_owned()).map_err(|error| error.to_string())?;
    let stream = TcpStream::connect((host.as_str(), *port))
        .await
        .map_err(|error| undialled(host, *port, &error))?;
    let connector = TlsConnector::from(Arc::new(config));
    let stream = connector
        .connect(name, stream)
        .await
        .map_err(|error| untrusted(&error))?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|error| error.to_string())?;
    // The request line gets the path; the host goes into the header.
    let path = request
        .uri()
        .path_and_query()
        .map_or("/", |path| path.as_str());
    *request.uri_mut() = path.parse().map_err(|_| "invalid URL".to_owned())?;
    let exchange = pin!(async move {
        let response = sender.send_request(request).await;
        let response = response.map_err(|_| "EOF".to_owned())?;
        gather(response).await
    });
    match select(exchange, pin!(connection)).await {
        Either::Left((exchanged, _)) => exchanged,
        Either::Right((_, exchange)) => exchange.await,
    }
}

async fn gather<B>(response: Response<B>) -> Exchanged
where
    B: Body,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let code = response.status().as_u16();
    let body = Limited::new(response.into_body(), LIMIT).collect().await;
    let body = body.map_err(|_| "unexpected EOF".to_owned())?;
    Ok((code, body.to_bytes()))
}

fn undialled(host: &str, port: u16, error: &std::io::Error) -> String {
    let address = if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    };
    match error.kind() {
        std::io::ErrorKind::ConnectionRefused => {
            format!("dial tcp {address}: connect: connection refused")
        }
        _ if host.parse::<std::net::IpAddr>().is_err() => {
            format!("dial tcp: lookup {host}: no such host")
        }
        _ => format!("dial tcp {address}: {error}"),
    }
}

/// Words the failure of a handshake; a refused certificate is worded as by Go's TLS.
fn untrusted(error: &std::io::Error) -> String {
    let source = error.get_ref().and_then(|source| source.downcast_ref());
    match source {
        Some(rustls::Error::InvalidCertificate(CertificateError::Other(OtherError(why)))) => {
            format!("tls: failed to verify certificate: {why}")
        }
        Some(rustls::Error::InvalidCertificate(why)) => {
            format!("tls: failed to verify certificate: x509: {why}")
        }
        _ => error.to_string(),
    }
}

/// Words an unsuccessful response as Kubernetes' client does.
fn refused(code: u16, body: &[u8]) -> String {
    let status: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    if status["kind"] == "Status"
        && let Some(message) = status["message"].as_str()
    {
        return message.to_owned();
    }
    let text = match code {
        400 => "the server rejected our request for an unknown reason",
        401 => "the server has asked for the client to provide credentials",
        403 => "unknown",
        404 => "the server could not find the requested resource",
        405 => "the server does not allow this method on the requested resource",
        409 => "the server reported a conflict",
        429 => "the server has received too many requests and has asked us to try again later",
        503 => "the server is currently unable to handle the request",
        504 => {
            "the server was unable to return a response in the time allotted, but may still be processing the request"
        }
        500.. => {
            let body = String::from_utf8_lossy(body);
            let body = go::quote(body.trim());
            return format!(
                "an error on the server ({body}) has prevented the request from succeeding"
            );
        }
        _ => {
            return format!(
                "the server responded with the status code {code} but did not return more information"
            );
        }
    };
    text.to_owned()
}
