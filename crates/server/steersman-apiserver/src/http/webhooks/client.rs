//! Driver: calls webhooks, in process or over HTTPS.

use std::collections::HashMap;
use std::error::Error;
use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use futures::future::{BoxFuture, join_all};
use http::{Method, Request, Response, Uri, header};
use http_body::Body;
use http_body_util::{BodyExt, Full, Limited};
use parking_lot::Mutex;
use steersman_apimachinery::go;
use steersman_registry::webhook::{CallResponse, WebhookAddress, WebhookCall};
use tower::ServiceExt;

use crate::http::requests::decode::LIMIT;
use crate::http::webhooks::connections::{IdleConnections, Peer, connect};

const TOO_LATE: &str = "context deadline exceeded";

/// The answer of a webhook: HTTP status and body, or the reason why there is none.
type Exchanged = Result<(u16, Bytes), String>;

type InProcess = Arc<dyn Fn(Request<Full<Bytes>>) -> BoxFuture<'static, Exchanged> + Send + Sync>;

/// Returns the host and port of an endpoint of a Service, from the Service's namespace, name and port. Used for
/// webhooks at Services that are not routed to another address.
pub(crate) type Resolve<'a> = &'a (dyn Fn(&str, &str, u16) -> Result<(String, u16), String> + Sync);

#[derive(Clone)]
enum WebhookRoute {
    Url(String),
    InProcess(InProcess),
}

/// The host name that is routed to another address, and the port if only that port is routed.
type RouteKey = (String, Option<u16>);

/// Calls webhooks. Calls for a Service, with the host name `name.namespace.svc`, may be routed to another address or to
/// a service in this process.
#[derive(Default)]
pub(crate) struct Webhooks {
    routes: Mutex<HashMap<RouteKey, WebhookRoute>>,
    idle: IdleConnections,
    /// Whether every call fails, as if no webhook listened.
    is_refused: AtomicBool,
}

impl Webhooks {
    pub(crate) fn refuse(&self, is_refused: bool) {
        self.is_refused.store(is_refused, Ordering::SeqCst);
    }

    pub(crate) fn route(&self, host: String, port: u16, url: String) {
        let route = WebhookRoute::Url(url);
        self.routes.lock().insert((host, Some(port)), route);
    }

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
        let route = WebhookRoute::InProcess(ask);
        self.routes.lock().insert((host, None), route);
    }

    pub(crate) async fn ask(
        &self,
        calls: Vec<WebhookCall>,
        resolve: Resolve<'_>,
    ) -> Vec<(String, CallResponse)> {
        join_all(calls.into_iter().map(|call| self.ask_one(call, resolve))).await
    }

    async fn ask_one(&self, call: WebhookCall, resolve: Resolve<'_>) -> (String, CallResponse) {
        let exchange = tokio::time::timeout(call.timeout, self.exchange(&call, resolve));
        let body = match exchange.await.unwrap_or_else(|_| Err(TOO_LATE.to_owned())) {
            Err(why) => Err(format!("Post \"{}\": {why}", call.url)),
            // As in Kubernetes' client for Go, the codes 200 to 206 are a success, and a redirect is an error.
            Ok((200..=206, body)) => Ok(body),
            Ok((code, body)) => Err(refused(code, &body)),
        };
        let uid = call.uid;
        (call.key, CallResponse { uid, body })
    }

    async fn exchange(&self, call: &WebhookCall, resolve: Resolve<'_>) -> Exchanged {
        if self.is_refused.load(Ordering::SeqCst) {
            return Err("connect: connection refused".to_owned());
        }
        let target: Uri = call.url.parse().map_err(|_| "invalid URL".to_owned())?;
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
        let (address, name, also) = match (route, &call.endpoint) {
            (Some(WebhookRoute::InProcess(ask)), _) => return ask(post(target)?).await,
            (Some(WebhookRoute::Url(url)), _) => {
                let base: Uri = url.parse().map_err(|_| "invalid URL".to_owned())?;
                let address = authority(&base)?;
                // The certificate may be valid for the host of the route or, as in a cluster, for the host name of the
                // Service.
                let name = address.0.clone();
                (address, name, Some(host.clone()))
            }
            (None, WebhookAddress::Url(_)) => ((host.clone(), port), host.clone(), None),
            (
                None,
                WebhookAddress::Service {
                    namespace,
                    name,
                    port,
                    ..
                },
            ) => (resolve(namespace, name, *port)?, host.clone(), None),
        };
        let peer = Peer {
            name,
            also,
            address,
            ca: call.ca.clone(),
        };
        self.over_https(peer, || post(target.clone())).await
    }

    async fn over_https(
        &self,
        peer: Peer,
        request: impl Fn() -> Result<Request<Full<Bytes>>, String>,
    ) -> Exchanged {
        if let Some(mut idle) = self.idle.take(&peer)
            // If the webhook has closed the idle connection, the request is sent again on a new one. So a webhook may
            // get a review twice.
            && let Ok(gathered) = idle.exchange(request()?, gather).await
        {
            let gathered = gathered?;
            self.idle.keep(peer, idle);
            return Ok(gathered);
        }
        let mut new = connect(&peer).await?;
        let gathered = new.exchange(request()?, gather).await??;
        self.idle.keep(peer, new);
        Ok(gathered)
    }
}

/// Returns the host and port of an HTTPS URL. Refuses other schemes: a webhook is called only over TLS.
fn authority(url: &Uri) -> Result<(String, u16), String> {
    if url.scheme_str() != Some("https") {
        let scheme = url.scheme_str().unwrap_or_default();
        return Err(format!("unsupported protocol scheme \"{scheme}\""));
    }
    let host = url.host().unwrap_or_default();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    Ok((bare.to_owned(), url.port_u16().unwrap_or(443)))
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

/// Returns the error message for an unsuccessful response, as Kubernetes' client for Go words it.
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
