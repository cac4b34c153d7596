//! Tests that a collector that is gone or silent affects no reconcile.

use std::time::Duration;

use steersman_apiserver::ApiServer;
use steersman_controller::{Action, Context, Error, Reconciler, Request};
use steersman_otlp::OtlpOptions;
use tokio::net::TcpListener;

use crate::world::{World, start};

struct Idle;

impl Reconciler for Idle {
    async fn reconcile(&self, _: &Context, _: Request) -> Result<Action, Error> {
        Ok(Action::done())
    }
}

/// More spans than the queue of the exporter holds: each reconcile has one, and one for its event.
const RECONCILES: usize = 1_200;

async fn reconcile_with(endpoint: String) {
    let traces = start(&OtlpOptions::new("greeter").endpoint(endpoint));
    let server = ApiServer::new();
    let mut world = World::start(&server, &traces, Idle).await;
    for number in 0..RECONCILES {
        world.create(&format!("map-{number}"), 1).await;
    }
    world.stop().await;
}

#[tokio::test]
async fn reconciles_go_on_without_a_collector() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    reconcile_with(endpoint).await;
}

#[tokio::test]
async fn reconciles_and_the_stop_do_not_wait_for_a_silent_collector() {
    // The listener accepts connections in its queue, and answers none.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    reconcile_with(format!("http://{}", listener.local_addr().unwrap())).await;
    drop(listener);
}

#[tokio::test]
async fn the_shutdown_ends_at_its_limit() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let traces = start(&OtlpOptions::new("greeter").endpoint(endpoint));
    let subscriber = tracing_subscriber::layer::SubscriberExt::with(
        tracing_subscriber::registry(),
        traces.layer(),
    );
    tracing::subscriber::with_default(subscriber, || {
        tracing::info_span!("work").in_scope(|| {});
    });
    // The export alone would take 10 s, and the silence of the collector has no end.
    traces.shutdown(Duration::from_millis(50)).await;
    drop(listener);
}
