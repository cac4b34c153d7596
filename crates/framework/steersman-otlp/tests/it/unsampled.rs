//! Tests traces that are not exported.

use k8s_openapi::api::core::v1::Secret;
use steersman_apiserver::ApiServer;
use steersman_controller::{Action, Context, Error, Reconciler, Request};
use steersman_otlp::OtlpOptions;

use crate::collector::Collector;
use crate::world::{World, key, start};

/// Sends two requests.
struct Reader;

impl Reconciler for Reader {
    async fn reconcile(&self, context: &Context, _: Request) -> Result<Action, Error> {
        for name in ["one", "two"] {
            let span = tracing::info_span!("of the reconciler", name);
            let reading = async { context.client().live().get_opt::<Secret>(&key(name)).await };
            tracing::Instrument::instrument(reading, span).await?;
        }
        Ok(Action::done())
    }
}

#[tokio::test]
async fn the_requests_of_an_unsampled_reconcile_have_one_trace_and_no_span_is_exported() {
    let collector = Collector::start().await;
    let options = OtlpOptions::new("greeter").endpoint(&*collector.endpoint);
    let traces = start(&options.sample_ratio(0.0));
    let server = ApiServer::new();
    let mut world = World::start(&server, &traces, Reader).await;
    world.create("first", 1).await;
    world.create("second", 1).await;
    let requests = world.requests.lock().clone();
    world.stop().await;
    assert!(collector.spans().is_empty(), "{:?}", collector.spans());
    let traced: Vec<Vec<String>> = requests
        .iter()
        .filter_map(|request| request.traceparent.as_deref())
        .map(|header| header.split('-').map(str::to_owned).collect())
        .collect();
    let [a, b, c, d] = &traced[..] else {
        panic!("two requests of two reconciles: {traced:?}");
    };
    for parts in &traced {
        let lengths: Vec<usize> = parts.iter().map(String::len).collect();
        assert_eq!(
            (&lengths[..], &*parts[0], &*parts[3]),
            (&[2, 32, 16, 2][..], "00", "00")
        );
    }
    assert_eq!((&a[1], &c[1]), (&b[1], &d[1]), "one trace per reconcile");
    assert_ne!(a[1], c[1]);
    assert_ne!(a[2], b[2]);
}

#[tokio::test]
async fn spans_of_the_program_belong_to_the_trace_of_their_reconcile() {
    let collector = Collector::start().await;
    let traces = start(&OtlpOptions::new("greeter").endpoint(&*collector.endpoint));
    let server = ApiServer::new();
    let mut world = World::start(&server, &traces, Reader).await;
    world.create("first", 1).await;
    world.stop().await;
    let spans = collector.spans();
    let reconcile = spans.iter().find(|span| span.name == "reconcile greeter");
    let reconcile = reconcile.unwrap();
    let own = spans.iter().filter(|span| span.name == "of the reconciler");
    let own: Vec<_> = own
        .map(|span| (&span.parent, span.attribute("name")))
        .collect();
    assert_eq!(
        own,
        [(&reconcile.id, Some("one")), (&reconcile.id, Some("two"))]
    );
    // Their reads are children of the program's spans.
    let reads = spans.iter().filter(|span| span.name == "read secrets");
    assert_eq!(reads.filter(|span| span.parent != reconcile.id).count(), 2);
}
