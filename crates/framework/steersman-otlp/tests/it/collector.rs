//! A collector: an HTTP server that decodes the requests of OTLP.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use parking_lot::Mutex;
use prost::Message as _;
use tokio::net::TcpListener;

/// A running collector. Its server ends with the runtime.
#[derive(Clone)]
pub(crate) struct Collector {
    pub(crate) endpoint: String,
    received: Arc<Mutex<Received>>,
}

#[derive(Default)]
struct Received {
    spans: Vec<ReceivedSpan>,
    resource: BTreeMap<String, String>,
    paths: Vec<String>,
    tokens: Vec<Option<String>>,
}

/// A span as text. Ids are hexadecimal.
#[derive(Clone, Debug)]
pub(crate) struct ReceivedSpan {
    pub(crate) name: String,
    /// The number of the kind in OTLP: 1 is internal, 3 a client, 5 a consumer.
    pub(crate) kind: i32,
    pub(crate) trace: String,
    pub(crate) id: String,
    pub(crate) parent: String,
    pub(crate) attributes: BTreeMap<String, String>,
    /// The traces and spans of the links.
    pub(crate) links: Vec<(String, String)>,
    /// The texts of the events, and the errors that they name.
    pub(crate) events: Vec<(String, Option<String>)>,
    /// The number of the status in OTLP: 2 is an error.
    pub(crate) status: i32,
}

impl Collector {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let received = Arc::<Mutex<Received>>::default();
        let collector = Self { endpoint, received };
        let serving = collector.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let serving = serving.clone();
                let answer = service_fn(move |request| {
                    let serving = serving.clone();
                    async move { serving.receive(request).await }
                });
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), answer));
            }
        });
        collector
    }

    async fn receive(
        &self,
        request: Request<Incoming>,
    ) -> Result<Response<Full<Bytes>>, hyper::Error> {
        let (head, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let export = ExportTraceServiceRequest::decode(body).unwrap();
        let token = head.headers.get("authorization");
        let token = token.map(|token| token.to_str().unwrap().to_owned());
        let mut received = self.received.lock();
        received.paths.push(head.uri.path().to_owned());
        received.tokens.push(token);
        for part in export.resource_spans {
            received.resource = texts(&part.resource.unwrap().attributes);
            let spans = part.scope_spans.into_iter().flat_map(|scope| scope.spans);
            received.spans.extend(spans.map(ReceivedSpan::of));
        }
        Ok(Response::new(Full::default()))
    }

    pub(crate) fn spans(&self) -> Vec<ReceivedSpan> {
        self.received.lock().spans.clone()
    }

    pub(crate) fn resource(&self) -> BTreeMap<String, String> {
        self.received.lock().resource.clone()
    }

    pub(crate) fn paths(&self) -> Vec<String> {
        self.received.lock().paths.clone()
    }

    pub(crate) fn tokens(&self) -> Vec<Option<String>> {
        self.received.lock().tokens.clone()
    }
}

impl ReceivedSpan {
    fn of(span: Span) -> Self {
        let links = span.links.iter();
        Self {
            name: span.name,
            kind: span.kind,
            trace: hex(&span.trace_id),
            id: hex(&span.span_id),
            parent: hex(&span.parent_span_id),
            attributes: texts(&span.attributes),
            links: links
                .map(|link| (hex(&link.trace_id), hex(&link.span_id)))
                .collect(),
            events: span
                .events
                .into_iter()
                .map(|event| {
                    let error = texts(&event.attributes).remove("error");
                    (event.name, error)
                })
                .collect(),
            status: span.status.unwrap_or_default().code,
        }
    }

    pub(crate) fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.get(name).map(String::as_str)
    }
}

fn texts(attributes: &[KeyValue]) -> BTreeMap<String, String> {
    let text = |attribute: &KeyValue| {
        let value = attribute.value.clone().unwrap().value.unwrap();
        let text = match value {
            Value::StringValue(text) => text,
            Value::IntValue(number) => number.to_string(),
            Value::DoubleValue(number) => number.to_string(),
            Value::BoolValue(is_set) => is_set.to_string(),
            other => format!("{other:?}"),
        };
        (attribute.key.clone(), text)
    };
    attributes.iter().map(text).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
