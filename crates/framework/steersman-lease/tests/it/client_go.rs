//! Tests an elector together with the requests of client-go's elector (`tools/leaderelection`).

use std::time::Duration;

use serde_json::{Value, json};
use steersman_apiserver::ApiServer;
use steersman_lease::LossReason;
use tokio::time::{Instant, sleep};

use crate::world::{LEASE, LEASES, RETRY, candidate, leader, lease, soon};

/// Returns the spec that client-go writes: `LeaderElectionRecordToLeaseSpec`, with times in Go's format.
fn record(holder: &str, seconds: u64, transitions: u64, second: u64) -> Value {
    json!({
        "holderIdentity": holder, "leaseDurationSeconds": seconds, "leaseTransitions": transitions,
        "acquireTime": "2026-01-01T00:00:00.000001Z",
        "renewTime": format!("2026-01-01T00:{:02}:{:02}.123456Z", second / 60 % 60, second % 60),
    })
}

fn create(server: &ApiServer, spec: &Value) {
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "demo", "namespace": "default"}, "spec": spec,
    });
    server.create(lease).unwrap();
}

/// Sends the PUT of client-go: the Lease as it was read, with another spec.
fn put(server: &ApiServer, spec: Value) {
    let mut lease = lease(server);
    lease["spec"] = spec;
    server.update(LEASES, lease).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_go_leader_that_renews_keeps_its_lease_and_loses_it_when_it_stops() {
    let server = ApiServer::new();
    create(&server, &record("go-1_uuid", 15, 0, 0));
    let elector = candidate(&server, "rust", 1);
    for second in (2..120).step_by(2) {
        sleep(RETRY).await;
        put(&server, record("go-1_uuid", 15, 0, second));
        assert!(!elector.leadership().is_leader());
    }
    let renewed = Instant::now();
    soon(elector.leadership().elected()).await;
    assert!(renewed.elapsed() >= LEASE && renewed.elapsed() <= LEASE + RETRY.mul_f64(4.4));
    assert_eq!(lease(&server)["spec"]["leaseTransitions"], 1);
}

/// client-go's `release` writes no holder, a duration of one second, and the transitions of its term.
#[tokio::test(start_paused = true)]
async fn a_go_leader_that_releases_is_followed_at_once() {
    let server = ApiServer::new();
    create(&server, &record("go-1_uuid", 15, 7, 0));
    let elector = candidate(&server, "rust", 1);
    sleep(Duration::from_secs(5)).await;
    put(&server, record("", 1, 7, 5));
    let released = Instant::now();
    soon(elector.leadership().elected()).await;
    assert!(released.elapsed() <= RETRY.mul_f64(2.2));
    assert_eq!(lease(&server)["spec"]["leaseTransitions"], 8);
}

/// A Go standby takes the Lease after the expiry that it saw. The former leader has stopped by then, and accepts it.
#[tokio::test(start_paused = true)]
async fn a_go_standby_that_took_the_lease_is_the_leader() {
    let server = ApiServer::new();
    let elector = leader(&server, "rust").await;
    let transitions = lease(&server)["spec"]["leaseTransitions"].as_u64().unwrap();
    put(&server, record("go-1_uuid", 15, transitions + 1, 0));
    let reason = soon(elector.leadership().lost()).await;
    let holder = "go-1_uuid".to_owned();
    assert_eq!(reason, LossReason::Taken { holder });
    soon(elector.release()).await;
    assert_eq!(lease(&server)["spec"]["holderIdentity"], "go-1_uuid");
}

/// A Lease that this elector releases is free for client-go, which needs an empty holder and a duration of one second.
#[tokio::test(start_paused = true)]
async fn a_released_lease_is_what_client_go_releases() {
    let server = ApiServer::new();
    let elector = leader(&server, "rust").await;
    soon(elector.release()).await;
    let spec = lease(&server)["spec"].clone();
    assert_eq!(spec["holderIdentity"], "");
    assert_eq!(spec["leaseDurationSeconds"], 1);
    assert_eq!(spec["acquireTime"], spec["renewTime"]);
}

/// Some operators patch the Lease without a version. The leader notices the new holder, and does not overwrite it.
#[tokio::test(start_paused = true)]
async fn a_patch_without_a_version_ends_the_term() {
    let server = ApiServer::new();
    let elector = leader(&server, "rust").await;
    let patch =
        json!({"spec": {"holderIdentity": "wild", "renewTime": "2026-01-01T00:00:00.000000Z"}});
    server
        .merge_patch(LEASES, "default", "demo", &patch)
        .unwrap();
    let reason = soon(elector.leadership().lost()).await;
    assert_eq!(
        reason,
        LossReason::Taken {
            holder: "wild".to_owned()
        }
    );
}
