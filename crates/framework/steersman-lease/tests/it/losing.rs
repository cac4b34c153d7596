//! Tests that a leader that cannot renew, or with a changed Lease, stops before another leader works.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;
use steersman_apiserver::ApiServer;
use steersman_apiserver::faults::{Answer, Verb};
use steersman_lease::{ElectionChange, ElectionMetrics, Elector, Ending, LossReason};
use steersman_testenv::log::capture;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use crate::world::{
    DEADLINE, LEASE, LEASES, RETRY, blackhole, candidate, connect, leader, lease, options, soon,
    start,
};

/// LEASE-1: a leader stops leading before its lease can expire for another candidate.
#[tokio::test(start_paused = true)]
async fn a_leader_without_a_server_stops_before_another_one_works() {
    let server = ApiServer::new();
    let first = leader(&server, "a").await;
    let second = candidate(&server, "b", 2);
    sleep(Duration::from_secs(60)).await;
    let cut = Instant::now();
    let hole = blackhole(&server, "a");
    let reason = soon(first.leadership().lost()).await;
    assert!(
        matches!(reason, LossReason::RenewDeadline { .. }),
        "{reason:?}"
    );
    assert!(!first.leadership().is_leader());
    let lost = cut.elapsed();
    assert!(lost <= DEADLINE, "{lost:?}");
    assert!(!second.leadership().is_leader());
    soon(second.leadership().elected()).await;
    let took = cut.elapsed();
    assert!(
        took >= LEASE - RETRY && took <= LEASE + RETRY.mul_f64(4.4),
        "{took:?}"
    );
    drop(hole);
}

#[tokio::test(start_paused = true)]
async fn an_outage_proposes_no_permission_and_a_missing_one_is_named() {
    for (code, is_named) in [(503, false), (403, true)] {
        let (server, log) = (ApiServer::new(), capture());
        let refuses = server.faults().answer(None, LEASES, Answer::code(code));
        let elector = candidate(&server, "a", 1);
        sleep(Duration::from_secs(60)).await;
        let text = log.text();
        let message = "this replica cannot lead until they succeed";
        let lines: Vec<&str> = text.lines().filter(|line| line.contains(message)).collect();
        assert!(!lines.is_empty(), "{text}");
        for line in lines {
            let names_rules = line.contains("operator may") || line.contains("RBAC");
            assert_eq!(names_rules, is_named, "{line}");
        }
        drop((refuses, elector));
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_outlives_requests_that_fail_for_less_than_the_deadline() {
    let server = ApiServer::new();
    let elector = leader(&server, "a").await;
    sleep(Duration::from_secs(31)).await;
    let hole = blackhole(&server, "a");
    sleep(Duration::from_secs(6)).await;
    drop(hole);
    sleep(Duration::from_secs(60)).await;
    assert!(elector.leadership().is_leader());
}

#[tokio::test(start_paused = true)]
async fn a_leader_recreates_a_deleted_lease_and_no_standby_takes_it() {
    let server = ApiServer::new();
    let first = leader(&server, "a").await;
    let second = candidate(&server, "b", 2);
    for _ in 0..20 {
        sleep(Duration::from_millis(3700)).await;
        server.delete(LEASES, "default", "demo").unwrap();
    }
    sleep(Duration::from_secs(5)).await;
    assert!(first.leadership().is_leader() && !second.leadership().is_leader());
    assert_eq!(lease(&server)["spec"]["holderIdentity"], "a");
}

/// LEASE-3: the leader of a deleted Lease cannot see that, and works until its renew deadline.
#[tokio::test(start_paused = true)]
async fn a_standby_waits_for_the_leader_of_a_deleted_lease() {
    let server = ApiServer::new();
    let first = leader(&server, "a").await;
    let second = candidate(&server, "b", 2);
    sleep(Duration::from_secs(61)).await;
    let hole = blackhole(&server, "a");
    server.delete(LEASES, "default", "demo").unwrap();
    let deleted = Instant::now();
    let (old, new) = (first.leadership(), second.leadership());
    tokio::select! {
        _ = soon(old.lost()) => {}
        () = soon(new.elected()) => panic!("two leaders"),
    }
    soon(second.leadership().elected()).await;
    assert!(
        deleted.elapsed() <= LEASE + RETRY.mul_f64(4.4),
        "{:?}",
        deleted.elapsed()
    );
    drop(hole);
}

#[tokio::test(start_paused = true)]
async fn a_leader_stops_with_the_first_renewal_after_its_lease_was_taken() {
    let server = ApiServer::new();
    let (tell, mut notices) = mpsc::unbounded_channel();
    let hook = move |change: &ElectionChange| {
        let _ = tell.send(change.clone());
    };
    let first = start(options("a", 1).on_change(hook), &server, "a");
    soon(first.leadership().elected()).await;
    let mut stolen = lease(&server);
    stolen["spec"]["holderIdentity"] = json!("thief");
    stolen["spec"]["leaseTransitions"] = json!(1);
    server.update(LEASES, stolen).unwrap();
    let taken = Instant::now();
    let reason = soon(first.leadership().lost()).await;
    let holder = "thief".to_owned();
    assert_eq!(
        reason,
        LossReason::Taken {
            holder: holder.clone()
        }
    );
    assert!(taken.elapsed() <= RETRY);
    let expected = [
        ElectionChange::Elected {
            identity: "a".to_owned(),
        },
        ElectionChange::NewHolder {
            holder: Some(holder),
        },
        ElectionChange::Lost {
            identity: "a".to_owned(),
            reason,
        },
    ];
    for expected in expected {
        assert_eq!(notices.recv().await.unwrap(), expected);
    }
    soon(first.release()).await;
    assert_eq!(lease(&server)["spec"]["holderIdentity"], "thief");
}

/// LEASE-4: work that goes on after a loss aborts the process.
#[tokio::test(start_paused = true)]
async fn the_process_aborts_if_work_outlives_half_of_the_rest_of_the_lease() {
    let server = ApiServer::new();
    let aborted = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&aborted);
    let hook = move |_: &steersman_lease::Overrun| {
        counter.fetch_add(1, Ordering::Relaxed);
    };
    let first = start(options("a", 1).abort_with(hook), &server, "a");
    soon(first.leadership().elected()).await;
    let hole = blackhole(&server, "a");
    soon(first.leadership().lost()).await;
    sleep(Duration::from_millis(2499)).await;
    assert_eq!(aborted.load(Ordering::Relaxed), 0);
    sleep(Duration::from_millis(2)).await;
    assert_eq!(aborted.load(Ordering::Relaxed), 1);
    drop(hole);
}

/// LEASE-6: the elector has its own thread, runtime and client, and each request a deadline.
#[tokio::test(start_paused = true)]
async fn a_slow_server_costs_no_leader_its_lease_before_the_deadline() {
    let server = ApiServer::new();
    let elector = leader(&server, "a").await;
    let slow = server
        .faults()
        .delay(Verb::Update, LEASES, Duration::from_secs(4));
    sleep(Duration::from_secs(120)).await;
    assert!(elector.leadership().is_leader());
    drop(slow);
    let slower = server.faults().delay(None, LEASES, Duration::from_secs(6));
    let reason = soon(elector.leadership().lost()).await;
    assert!(
        reason.to_string().contains("no response in time"),
        "{reason}"
    );
    drop(slower);
}

/// MGR-7: a panic in a hook fails at most one request.
#[tokio::test(start_paused = true)]
async fn a_hook_that_panics_ends_no_election() {
    let server = ApiServer::new();
    let options = options("a", 1).on_change(|_| panic!("broken hook"));
    let elector = start(options, &server, "a");
    soon(elector.leadership().elected()).await;
    sleep(Duration::from_secs(60)).await;
    assert!(elector.leadership().is_leader());
}

/// LEASE-4: a panic of the elector is a loss, and work that does not end is still aborted.
#[tokio::test(start_paused = true)]
async fn an_elector_that_panics_reports_the_loss_and_still_aborts() {
    let server = ApiServer::new();
    let (is_broken, aborted) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (broken, counter) = (Arc::clone(&is_broken), Arc::clone(&aborted));
    let options = options("a", 1)
        .clock(move || {
            assert_eq!(broken.load(Ordering::Relaxed), 0, "broken clock");
            k8s_openapi::jiff::Timestamp::now()
        })
        .abort_with(move |_| {
            counter.fetch_add(1, Ordering::Relaxed);
        });
    let registry = prometheus::Registry::new();
    let metrics = ElectionMetrics::register(&registry).unwrap();
    let mut elector = Elector::new(options, &connect(&server, "a"))
        .unwrap()
        .metrics(metrics);
    elector.start().unwrap();
    let leadership = elector.leadership();
    soon(leadership.elected()).await;
    is_broken.store(1, Ordering::Relaxed);
    assert_eq!(soon(leadership.lost()).await, LossReason::ElectorEnded);
    assert!(!leadership.is_leader());
    let families = registry.gather();
    let leads = families
        .iter()
        .find(|family| family.name() == "leader_election_master_status")
        .unwrap();
    assert!(leads.get_metric()[0].get_gauge().get_value() < 0.5);
    assert_eq!(aborted.load(Ordering::Relaxed), 0);
    sleep(Duration::from_millis(2_501)).await;
    assert_eq!(aborted.load(Ordering::Relaxed), 1);
    assert_eq!(soon(elector.release()).await, Ending::Kept);
}
