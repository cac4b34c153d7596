//! Tests the tree of spans of a reconcile, its attributes and links, and `traceparent` at the server.

use k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use steersman_apiserver::ApiServer;
use steersman_controller::{Action, Context, Error, Reconciler, Request};
use steersman_object::ListOptions;
use steersman_otlp::OtlpOptions;

use crate::collector::{Collector, ReceivedSpan};
use crate::world::{ReceivedRequest, World, key, start};

const INTERNAL: i32 = 1;
const CLIENT: i32 = 3;
const CONSUMER: i32 = 5;
const ERROR: i32 = 2;

/// Reads, writes and waits, each in a known order.
struct Greeter {
    server: ApiServer,
}

impl Reconciler for Greeter {
    async fn reconcile(&self, context: &Context, request: Request) -> Result<Action, Error> {
        let client = context.client();
        // A read that returns at once has no span.
        client.get::<ConfigMap>(&request.key).await?;
        // The first read of the kind waits until its informer has synced.
        let every = ListOptions::new();
        client.list::<ServiceAccount>(&every).await?;
        let absent = client.live().get::<ServiceAccount>(&key("absent")).await;
        assert!(absent.unwrap_err().is_not_found());
        self.server.faults().silence_watches();
        let mut account = ServiceAccount::default();
        account.metadata.namespace = Some("default".to_owned());
        account.metadata.name = Some("greeting".to_owned());
        client.create(&account).await?;
        // The read must see the write, which the silent watch does not show before it resumes.
        let resumed = async { self.server.faults().resume_watches() };
        let (found, _) = tokio::join!(client.list::<ServiceAccount>(&every), resumed);
        assert_eq!(found?.len(), 1);
        Ok(Action::done())
    }
}

/// Returns the only span with this name.
fn only<'a>(spans: &'a [ReceivedSpan], name: &str) -> &'a ReceivedSpan {
    let found: Vec<_> = spans.iter().filter(|span| span.name == name).collect();
    let [span] = found[..] else {
        panic!("one span is {name:?}: {spans:#?}");
    };
    span
}

/// Returns the names of the children of a span, in the order of their export.
fn children<'a>(spans: &'a [ReceivedSpan], parent: &ReceivedSpan) -> Vec<&'a str> {
    let children = spans.iter().filter(|span| span.parent == parent.id);
    children.map(|span| span.name.as_str()).collect()
}

fn assert_attributes(span: &ReceivedSpan, expected: &[(&str, &str)]) {
    for (attribute, value) in expected {
        assert_eq!(
            span.attribute(attribute),
            Some(*value),
            "{attribute}: {span:#?}"
        );
    }
}

#[tokio::test]
async fn a_reconcile_is_a_trace_of_its_reads_writes_and_waits() {
    let collector = Collector::start().await;
    let traces = start(&OtlpOptions::new("greeter").endpoint(&*collector.endpoint));
    let server = ApiServer::new();
    let greeter = Greeter {
        server: server.clone(),
    };
    let mut world = World::start(&server, &traces, greeter).await;
    world.create("hello", 1).await;
    let requests = world.requests.lock().clone();
    world.stop().await;
    let spans = collector.spans();
    let reconcile = only(&spans, "reconcile greeter");
    assert_eq!((reconcile.kind, &*reconcile.parent), (INTERNAL, ""));
    assert_attributes(
        reconcile,
        &[
            ("steersman.controller.name", "greeter"),
            ("steersman.object.kind", "ConfigMap"),
            ("k8s.namespace.name", "default"),
            ("steersman.object.name", "hello"),
            ("steersman.reconcile.attempt", "0"),
            ("steersman.reconcile.result", "success"),
        ],
    );
    assert!(reconcile.attribute("steersman.reconcile.id").is_some());
    assert_eq!(
        children(&spans, reconcile),
        [
            "read cached serviceaccounts", "read serviceaccounts", "create serviceaccounts",
            "read cached serviceaccounts"
        ]
    );
    assert_eq!(
        children(&spans, only(&spans, "wait for own writes")),
        [""; 0]
    );
    let waiting = &only(&spans, "wait for own writes").parent;
    let waiting = spans.iter().find(|span| span.id == *waiting).unwrap();
    assert_eq!(waiting.name, "read cached serviceaccounts");

    let read = only(&spans, "read serviceaccounts");
    assert_eq!(
        (read.status, read.attribute("error.type")),
        (ERROR, Some("404"))
    );
    let template = "/api/v1/namespaces/{namespace}/serviceaccounts";
    let get = only(&spans, &format!("GET {template}/{{name}}"));
    assert_eq!(
        (get.kind, get.status, &get.parent),
        (CLIENT, ERROR, &read.id)
    );
    assert_eq!(get.attribute("http.response.status_code"), Some("404"));
    let write = only(&spans, "create serviceaccounts");
    assert_eq!(write.attribute("steersman.object.name"), Some("greeting"));
    let post = only(&spans, &format!("POST {template}"));
    assert_eq!(
        (post.kind, post.status, &post.parent),
        (CLIENT, 0, &write.id)
    );
    assert_attributes(
        post,
        &[
            ("http.request.method", "POST"),
            ("http.response.status_code", "201"),
            ("url.template", template),
            ("server.address", "in-process"),
            ("k8s.namespace.name", "default"),
        ],
    );
    assert!(
        post.attribute("url.full")
            .unwrap()
            .starts_with("/api/v1/namespaces/default/serviceaccounts")
    );
    for span in spans.iter().filter(|span| span.name != "watch event") {
        assert_eq!(span.trace, reconcile.trace, "{span:#?}");
        assert!(!span.attributes.contains_key("target"), "{span:#?}");
    }

    assert_traced(&requests, [get, post]);
}

/// Asserts that the server received the ids of the spans of these requests, and no others.
fn assert_traced(requests: &[ReceivedRequest], spans: [&ReceivedSpan; 2]) {
    let traced: Vec<String> = requests
        .iter()
        .filter_map(|request| request.traceparent.clone())
        .collect();
    let expected = spans.map(|span| format!("00-{}-{}-01", span.trace, span.id));
    assert_eq!(traced, expected);
    // The informer that the reconcile started belongs to no trace.
    let informer = requests
        .iter()
        .find(|request| request.path == "/api/v1/serviceaccounts");
    assert_eq!(informer.unwrap().traceparent, None);
}

#[tokio::test]
async fn a_reconcile_links_to_the_event_that_caused_it() {
    let collector = Collector::start().await;
    let traces = start(&OtlpOptions::new("greeter").endpoint(&*collector.endpoint));
    let server = ApiServer::new();
    let mut world = World::start(&server, &traces, Idle).await;
    world.create("hello", 1).await;
    let written = world.client.get::<ConfigMap>(&key("hello")).await.unwrap();
    let version = written.metadata.resource_version.clone().unwrap();
    world.stop().await;
    let spans = collector.spans();
    let (reconcile, event) = (
        only(&spans, "reconcile greeter"),
        only(&spans, "watch event"),
    );
    assert_eq!(reconcile.links, [(event.trace.clone(), event.id.clone())]);
    assert_ne!(event.trace, reconcile.trace);
    assert_eq!((event.kind, &*event.parent), (CONSUMER, ""));
    assert_attributes(
        event,
        &[
            ("steersman.object.kind", "ConfigMap"),
            ("k8s.namespace.name", "default"),
            ("steersman.object.name", "hello"),
            ("steersman.object.resource_version", &version),
            ("steersman.event.change", "created"),
        ],
    );
}

struct Idle;

impl Reconciler for Idle {
    async fn reconcile(&self, _: &Context, _: Request) -> Result<Action, Error> {
        Ok(Action::done())
    }
}

struct FailsOnce;

impl Reconciler for FailsOnce {
    async fn reconcile(&self, context: &Context, _: Request) -> Result<Action, Error> {
        match context.attempt() {
            0 => Err(Error::msg("not yet")),
            _ => Ok(Action::done()),
        }
    }
}

#[tokio::test]
async fn a_failed_reconcile_is_an_error_with_its_log_line() {
    let collector = Collector::start().await;
    let traces = start(&OtlpOptions::new("greeter").endpoint(&*collector.endpoint));
    let server = ApiServer::new();
    let mut world = World::start(&server, &traces, FailsOnce).await;
    world.create("hello", 2).await;
    world.stop().await;
    let mut spans = collector.spans();
    spans.retain(|span| span.name == "reconcile greeter");
    let [failed, retried] = &spans[..] else {
        panic!("two reconciles: {spans:#?}");
    };
    let results = [failed, retried].map(|span| {
        let attempt = span.attribute("steersman.reconcile.attempt");
        (
            span.status,
            attempt,
            span.attribute("steersman.reconcile.result"),
        )
    });
    let expected = [
        (ERROR, Some("0"), Some("error")),
        (0, Some("1"), Some("success")),
    ];
    assert_eq!(results, expected);
    let line = ("reconcile failed".to_owned(), Some("not yet".to_owned()));
    assert_eq!(failed.events, [line]);
    assert_ne!(failed.trace, retried.trace);
}
