//! Events of reconcilers and of other parts of a program, and their end with the manager.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::Value;
use steersman_api::ClientConfig;
use steersman_apiserver::ApiServer;
use steersman_apiserver::faults::Verb;
use steersman_cache::CacheOptions;
use steersman_controller::{
    Action, ClusterRequest, Context, Controller, Error as ReconcileError, Request, Watch, handler,
    reconcile,
};
use steersman_lease::LeaderElection;
use steersman_manager::{Group, Manager, runnable};
use steersman_object::ObjectKey;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::world::{config_map, manager_of, soon, start};

fn events(server: &ApiServer) -> Vec<Value> {
    server.list("events.events.k8s.io", "default")
}

fn object() -> ConfigMap {
    ConfigMap {
        metadata: ObjectKey::namespaced("default", "a").to_meta(),
        ..ConfigMap::default()
    }
}

/// EVENT-1
#[tokio::test(start_paused = true)]
async fn a_reconcile_records_ten_thousand_events_in_no_time() {
    let server = ApiServer::new();
    server.create(config_map("a")).unwrap();
    let slow = Duration::from_secs(5);
    let delay = server.faults().delay(Verb::Create, "events", slow);
    let manager = manager_of(&server).build().unwrap();
    let (tell, mut told) = mpsc::unbounded_channel();
    let reconciler = reconcile::from_fn(move |ctx: Context, request: Request| {
        let tell = tell.clone();
        async move {
            let object = ctx.client().get::<ConfigMap>(&request.key).await?;
            let before = Instant::now();
            for n in 0..10_000 {
                ctx.events()
                    .normal(&*object, "Looked", "Look", format_args!("{n} keys"));
                tokio::task::yield_now().await;
            }
            tell.send(before.elapsed())?;
            Ok::<_, ReconcileError>(Action::done())
        }
    });
    let controller = Controller::builder::<ConfigMap>().name("looker");
    manager
        .add_controller(controller.build(reconciler).unwrap())
        .unwrap();
    let started = start(&manager);
    assert_eq!(soon(told.recv()).await, Some(Duration::ZERO));
    drop(delay);
    tokio::time::sleep(slow).await;
    started.stop().await.unwrap();
    // Each object has ten Events with their own notes, and one Event for all further notes (EVENT-4).
    let events = events(&server);
    assert_eq!(events.len(), 11, "{events:?}");
    let combined = events.iter().find(|event| event["series"].is_object());
    let combined = combined.unwrap();
    assert_eq!(combined["series"]["count"], 9990);
    assert_eq!(combined["reportingController"], "looker");
    assert!(combined["regarding"]["uid"].is_string(), "{combined}");
}

/// EVENT-8: the events of the last group that stops are sent too.
#[tokio::test(start_paused = true)]
async fn a_manager_sends_the_events_of_its_stop() {
    let server = ApiServer::new();
    let manager = manager_of(&server).build().unwrap();
    let recorder = manager.events("example.com/goodbye");
    let farewell = runnable::from_fn("farewell", Group::HttpServers, |context| async move {
        context.cancelled().await;
        recorder.warning(&object(), "Stopped", "Stop", "the operator stops");
        Ok(())
    });
    manager.add(farewell).unwrap();
    start(&manager).stop().await.unwrap();
    let sent = events(&server);
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0]["reportingController"], "example.com/goodbye");
    assert_eq!(sent[0]["type"], "Warning");

    // Later events are dropped, and counted.
    manager.events("late").normal(&object(), "A", "B", "");
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(events(&server).len(), 1);
    let families = manager.metrics_registry().gather();
    let dropped = families
        .iter()
        .find(|family| family.name() == "steersman_events_dropped_total")
        .unwrap();
    let count: f64 = dropped
        .get_metric()
        .iter()
        .map(|metric| metric.get_counter().get_value())
        .sum();
    assert!((count - 1.0).abs() < f64::EPSILON, "{count}");
}

/// EVENT-8, MGR-3
#[tokio::test(start_paused = true)]
async fn a_server_that_hangs_delays_the_stop_of_a_manager_by_two_seconds() {
    let server = ApiServer::new();
    let manager = manager_of(&server).build().unwrap();
    let started = start(&manager);
    manager.cache().settled().await;
    let _hangs = server.faults().swallow_everything();
    manager.events("a").normal(&object(), "A", "B", "");
    let before = Instant::now();
    started.stop().await.unwrap();
    assert_eq!(before.elapsed(), Duration::from_secs(2));
}

/// EVENT-8: the events about objects of every cluster are sent to its own server before the manager ends.
#[tokio::test(start_paused = true)]
async fn events_about_objects_of_another_cluster_go_to_its_server() {
    let (own, west) = (ApiServer::new(), ApiServer::new());
    west.create(config_map("a")).unwrap();
    let manager = manager_of(&own).build().unwrap();
    let client_config = ClientConfig::in_process(west.service(), "default");
    manager
        .add_cluster("west", client_config, CacheOptions::new())
        .unwrap();
    let (tell, mut told) = mpsc::unbounded_channel();
    let reconciler = reconcile::from_fn(move |ctx: Context, request: ClusterRequest| {
        let tell = tell.clone();
        async move {
            let Some(events) = ctx.events_in(&request.cluster) else {
                return Ok(Action::done());
            };
            events.normal(&object(), "Looked", "Look", "at west");
            ctx.events().normal(&object(), "Looked", "Look", "at home");
            assert!(ctx.events_in(&"nowhere".into()).is_none());
            tell.send(())?;
            Ok::<_, ReconcileError>(Action::done())
        }
    });
    let controller = Controller::keyed::<ClusterRequest>("looker")
        .watch(Watch::of::<ConfigMap>(handler::itself()).in_clusters())
        .build(reconciler)
        .unwrap();
    manager.add_controller(controller).unwrap();
    let started = start(&manager);
    soon(told.recv()).await.unwrap();
    started.stop().await.unwrap();
    let notes = |server: &ApiServer| -> Vec<Value> {
        let looked = events(server);
        looked
            .into_iter()
            .map(|mut event| event["note"].take())
            .collect()
    };
    assert_eq!(notes(&west), ["at west"]);
    assert_eq!(notes(&own), ["at home"]);
}

fn replica(server: &ApiServer, name: &str) -> Manager {
    let options = LeaderElection::new("shop").identity(name);
    let builder = manager_of(server).leader_election(options.on_callers_runtime());
    builder.build().unwrap()
}

/// The Events of a leader are those of client-go, which `kubectl describe lease` shows. EVENT-8: the last Event is sent
/// before the manager ends.
#[tokio::test(start_paused = true)]
async fn a_leader_records_about_its_lease_that_it_leads_and_that_it_stops() {
    let server = ApiServer::new();
    let (leader, standby) = (replica(&server, "alpha"), replica(&server, "beta"));
    let leads = start(&leader);
    soon(leader.elected()).await;
    let waits = start(&standby);
    let lease = server.get("leases.coordination.k8s.io", "default", "shop");
    let lease = lease.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    waits.stop().await.unwrap();
    leads.stop().await.unwrap();
    let recorded = events(&server);
    let mut notes = Vec::new();
    for event in &recorded {
        assert_eq!(event["reason"], "LeaderElection");
        assert_eq!(event["regarding"]["kind"], "Lease");
        assert_eq!(event["regarding"]["name"], "shop");
        assert_eq!(event["regarding"]["uid"], lease["metadata"]["uid"]);
        notes.push(event["note"].as_str().unwrap());
    }
    notes.sort_unstable();
    assert_eq!(notes, ["alpha became leader", "alpha stopped leading"]);
}
