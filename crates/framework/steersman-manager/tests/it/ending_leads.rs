//! The requests of the elector of a manager, and the end of a leader: work that remains, and the limits of the release.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use steersman_api::ClientConfig;
use steersman_apiserver::ApiServer;
use steersman_apiserver::faults::{Effect, FaultSpec, Verb};
use steersman_cache::CacheOptions;
use steersman_lease::{ElectionChange, LeaderElection};
use steersman_manager::{Group, Manager, ManagerBuilder, Shutdown, runnable};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};

use crate::world::{Notes, Started, config_map, soon, start};

const LEASES: &str = "leases.coordination.k8s.io";
const CONFIG_MAPS: &str = "configmaps";

fn replica(server: &ApiServer, notes: &Notes) -> ManagerBuilder {
    let notes = notes.clone();
    let options = LeaderElection::new("shop")
        .identity("alpha")
        .seed(1)
        .abort_with(|_| {})
        .on_change(move |change| {
            if matches!(change, ElectionChange::Released { .. }) {
                notes.note("released");
            }
        })
        .on_callers_runtime();
    let client_config = ClientConfig::in_process(server.service(), "default");
    Manager::builder(client_config).leader_election(options)
}

/// Starts a replica with a runnable of the leader that begins one write, and ends before it.
async fn start_writer(server: &ApiServer, notes: &Notes) -> Started {
    let manager = replica(server, notes).build().unwrap();
    let (client, told) = (manager.client().clone(), notes.clone());
    let writer = runnable::from_fn("writer", Group::LeaderElected, move |_| async move {
        let late: ConfigMap = serde_json::from_value(config_map("late"))?;
        let written = timeout(Duration::from_millis(1), client.create(&late)).await;
        assert!(written.is_err());
        told.note("sent");
        Ok(())
    });
    manager.add(writer).unwrap();
    let started = start(&manager);
    notes.reach(1).await;
    started
}

/// LEASE-8
#[tokio::test(start_paused = true)]
async fn the_lease_is_released_after_the_writes_in_flight_have_ended() {
    let (server, notes) = (ApiServer::new(), Notes::default());
    let slow = Duration::from_secs(12);
    let _slow = server.faults().delay(Verb::Create, CONFIG_MAPS, slow);
    let started = start_writer(&server, &notes).await;
    started.stop.cancel();
    sleep(slow / 2).await;
    assert_eq!(notes.all(), ["sent"]);
    started.ended().await.unwrap();
    assert_eq!(notes.all(), ["sent", "released"]);
    assert!(server.get(CONFIG_MAPS, "default", "late").is_some());
}

/// LEASE-8
#[tokio::test(start_paused = true)]
async fn a_write_in_flight_at_the_end_of_the_stop_keeps_the_lease() {
    let (server, notes) = (ApiServer::new(), Notes::default());
    let spec = FaultSpec::new(Effect::Swallow).resource(CONFIG_MAPS);
    let _hole = server.faults().add(spec).unwrap();
    let started = start_writer(&server, &notes).await;
    started.stop().await.unwrap();
    assert_eq!(notes.all(), ["sent"]);
    let lease = server.get(LEASES, "default", "shop").unwrap();
    assert_eq!(lease["spec"]["holderIdentity"], "alpha");
}

/// LEASE-8: also the writes to a cluster that was removed meanwhile.
#[tokio::test(start_paused = true)]
async fn the_lease_is_released_after_the_writes_to_a_removed_cluster() {
    let (server, west, notes) = (ApiServer::new(), ApiServer::new(), Notes::default());
    let slow = Duration::from_secs(12);
    let _slow = west.faults().delay(Verb::Create, CONFIG_MAPS, slow);
    let manager = replica(&server, &notes).build().unwrap();
    let client_config = ClientConfig::in_process(west.service(), "default");
    let cluster = manager.add_cluster("west", client_config, CacheOptions::new());
    let client = cluster.unwrap().client().clone();
    let started = start(&manager);
    soon(manager.elected()).await;
    let late: ConfigMap = serde_json::from_value(config_map("late")).unwrap();
    let written = timeout(Duration::from_millis(1), client.create(&late)).await;
    assert!(written.is_err());
    assert!(soon(manager.remove_cluster("west")).await);
    started.stop.cancel();
    sleep(slow / 2).await;
    assert!(notes.all().is_empty());
    started.ended().await.unwrap();
    assert_eq!(notes.all(), ["released"]);
    assert!(west.get(CONFIG_MAPS, "default", "late").is_some());
}

/// LEASE-8: work of another group may wait for the lead.
#[tokio::test(start_paused = true)]
async fn a_leader_without_runnables_of_its_own_releases_last() {
    let (server, notes) = (ApiServer::new(), Notes::default());
    let manager = replica(&server, &notes).build().unwrap();
    let (waiting, told) = (manager.clone(), notes.clone());
    let work = runnable::from_fn("work", Group::Others, move |context| async move {
        waiting.elected().await;
        told.note("works");
        context.cancelled().await;
        sleep(Duration::from_secs(10)).await;
        told.note("ends");
        Ok(())
    });
    manager.add(work).unwrap();
    let started = start(&manager);
    notes.reach(1).await;
    started.stop().await.unwrap();
    assert_eq!(notes.all(), ["works", "ends", "released"]);
}

/// MGR-3
#[tokio::test(start_paused = true)]
async fn a_second_request_cuts_the_release_short() {
    let (server, notes) = (ApiServer::new(), Notes::default());
    let manager = replica(&server, &notes).build().unwrap();
    let (ask, mut asked) = mpsc::unbounded_channel();
    let requests = futures::stream::poll_fn(move |cx| asked.poll_recv(cx));
    let running = tokio::spawn(manager.start(Shutdown::requests(requests)));
    soon(manager.elected()).await;
    let spec = FaultSpec::new(Effect::Swallow);
    let _hole = server.faults().add(spec).unwrap();
    let stopped = Instant::now();
    ask.send(()).unwrap();
    sleep(Duration::from_secs(2)).await;
    assert!(!running.is_finished());
    ask.send(()).unwrap();
    soon(running).await.unwrap().unwrap();
    // The Event about the end is sent for two seconds at most.
    assert!(stopped.elapsed() <= Duration::from_secs(5));
}

/// CONN-6
#[tokio::test(start_paused = true)]
async fn the_requests_of_the_elector_are_counted() {
    let (server, notes) = (ApiServer::new(), Notes::default());
    let manager = replica(&server, &notes).build().unwrap();
    let leader = start(&manager);
    soon(manager.elected()).await;
    sleep(Duration::from_secs(60)).await;
    let families = manager.metrics_registry().gather();
    let requests = families
        .iter()
        .find(|family| family.name() == "rest_client_requests_total")
        .unwrap();
    let counted: f64 = requests
        .get_metric()
        .iter()
        .map(|metric| metric.get_counter().get_value())
        .sum();
    assert!(counted >= 30.0, "{counted}");
    leader.stop().await.unwrap();
}
