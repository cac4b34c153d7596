//! Tests that one candidate leads at a time, and another one follows after a release or a crash.

use std::time::Duration;

use prometheus::{Encoder as _, Registry, TextEncoder};
use steersman_api::ClientConfig;
use steersman_apiserver::ApiServer;
use steersman_apiserver::faults::{Answer, Verb};
use steersman_lease::{ElectionMetrics, Elector, Ending, Error, LeaderElection};
use steersman_testenv::log::capture;
use tokio::time::{Instant, sleep};

use crate::world::{LEASE, LEASES, RETRY, candidate, connect, leader, lease, options, soon, start};

#[tokio::test(start_paused = true)]
async fn the_first_candidate_leads_and_writes_the_fields_of_client_go() {
    let server = ApiServer::new();
    let options = options("a", 1).label("app", "web");
    let elector = start(options, &server, "a");
    let leadership = elector.leadership();
    soon(leadership.elected()).await;
    assert!(leadership.is_leader());
    let written = lease(&server);
    let spec = &written["spec"];
    assert_eq!(spec["holderIdentity"], "a");
    assert_eq!(spec["leaseDurationSeconds"], 15);
    assert_eq!(spec["leaseTransitions"], 0);
    assert!(spec["acquireTime"].is_string() && spec["renewTime"].is_string());
    assert_eq!(written["metadata"]["labels"]["app"], "web");
    let status = leadership.status();
    assert_eq!(
        (status.lease.as_str(), status.holder.as_deref()),
        ("default/demo", Some("a"))
    );
    assert!(status.check(Duration::ZERO).is_ok());
    // Each renewal is a single write without a read before it.
    sleep(RETRY / 4).await;
    let before = server.requests().count(|_| true);
    sleep(RETRY * 10).await;
    assert_eq!(server.requests().count(|_| true) - before, 10);
    drop(elector);
}

#[tokio::test(start_paused = true)]
async fn a_standby_follows_a_release_within_its_pause() {
    let server = ApiServer::new();
    let first = leader(&server, "a").await;
    let second = candidate(&server, "b", 2);
    sleep(Duration::from_secs(60)).await;
    assert!(!second.leadership().is_leader());
    assert_eq!(soon(first.release()).await, Ending::Released);
    assert_eq!(lease(&server)["spec"]["holderIdentity"], "");
    let released = Instant::now();
    soon(second.leadership().elected()).await;
    assert!(
        released.elapsed() <= RETRY.mul_f64(2.2),
        "{:?}",
        released.elapsed()
    );
    assert_eq!(lease(&server)["spec"]["leaseTransitions"], 1);
}

/// LEASE-2: the clocks of the machines differ by days.
#[tokio::test(start_paused = true)]
async fn a_standby_follows_a_crash_when_the_lease_has_expired_whatever_the_clocks_say() {
    for days in [-3, 3] {
        let server = ApiServer::new();
        let skewed = move || {
            k8s_openapi::jiff::Timestamp::now()
                + k8s_openapi::jiff::SignedDuration::from_hours(24 * days)
        };
        let first = start(options("a", 1).clock(skewed), &server, "a");
        soon(first.leadership().elected()).await;
        let second = candidate(&server, "b", 2);
        sleep(Duration::from_secs(61)).await;
        // The last renewal was less than a retry period ago.
        let crashed = Instant::now();
        drop(first);
        soon(second.leadership().elected()).await;
        let took = crashed.elapsed();
        assert!(took >= LEASE - RETRY, "{took:?}");
        assert!(took <= LEASE + RETRY.mul_f64(4.4), "{took:?}");
    }
}

/// LEASE-5: a failed renewal or release is repeated.
#[tokio::test(start_paused = true)]
async fn a_release_with_a_conflict_is_repeated() {
    let server = ApiServer::new();
    let first = leader(&server, "a").await;
    let conflict = Answer::code(409).times(1);
    server
        .faults()
        .answer(Verb::Update, LEASES, conflict)
        .keep();
    assert_eq!(soon(first.release()).await, Ending::Released);
}

/// LEASE-7: a candidate that stops never leads.
#[tokio::test(start_paused = true)]
async fn a_standby_that_stops_while_it_wins_never_leads() {
    let server = ApiServer::new();
    let elector = candidate(&server, "a", 1);
    let leadership = elector.leadership();
    let slow = server
        .faults()
        .delay(Verb::Create, LEASES, Duration::from_secs(1));
    // The create is in flight now.
    sleep(Duration::from_millis(500)).await;
    assert_eq!(soon(elector.release()).await, Ending::Released);
    drop(slow);
    assert!(!leadership.is_leader());
    assert_eq!(lease(&server)["spec"]["holderIdentity"], "");
}

#[tokio::test(start_paused = true)]
async fn the_metrics_have_the_names_of_client_go() {
    let (server, registry) = (ApiServer::new(), Registry::new());
    let metrics = ElectionMetrics::register(&registry).unwrap();
    let text = || {
        let mut text = Vec::new();
        TextEncoder::new()
            .encode(&registry.gather(), &mut text)
            .unwrap();
        String::from_utf8(text).unwrap()
    };
    let elector = Elector::new(options("a", 1), &connect(&server, "a")).unwrap();
    let mut elector = elector.metrics(metrics);
    assert!(
        text().contains("leader_election_master_status{name=\"demo\"} 0"),
        "{}",
        text()
    );
    elector.start().unwrap();
    soon(elector.leadership().elected()).await;
    assert!(
        text().contains("leader_election_master_status{name=\"demo\"} 1"),
        "{}",
        text()
    );
    let conflict = Answer::code(409).times(1);
    server
        .faults()
        .answer(Verb::Update, LEASES, conflict)
        .keep();
    sleep(RETRY * 2).await;
    assert!(
        text().contains("leader_election_slowpath_total{name=\"demo\"} 1"),
        "{}",
        text()
    );
    soon(elector.release()).await;
    assert!(
        text().contains("leader_election_master_status{name=\"demo\"} 0"),
        "{}",
        text()
    );
}

#[test]
fn options_that_cannot_work_are_refused_with_the_remedy() {
    let server = ApiServer::new();
    let with = |options: LeaderElection, namespace: &str| {
        let client_config = ClientConfig::in_process(server.service(), namespace);
        Elector::new(options, &client_config)
            .err()
            .map(|error| error.to_string())
    };
    let demo = || LeaderElection::new("demo");
    assert_eq!(with(demo(), "default"), None);
    let text = with(demo(), "").unwrap();
    assert!(text.contains("`LeaderElection::namespace`"), "{text}");
    assert_eq!(with(demo().namespace("operators"), ""), None);
    for name in ["", "a/b"] {
        assert!(
            with(LeaderElection::new(name), "default").is_some(),
            "{name:?}"
        );
    }
    assert!(with(demo().identity(""), "default").is_some());
    assert_eq!(with(demo().label("a.example/B_c", ""), "default"), None);
    for (key, value) in [
        ("", "a"),
        ("a/", "b"),
        ("A/b", "c"),
        ("a", "b c"),
        ("a", "-"),
    ] {
        let text = with(demo().label(key, value), "default").unwrap_or_default();
        assert!(text.contains("labels"), "{key:?} {value:?}: {text}");
    }
    let second = Duration::from_secs(1);
    let text = with(demo().timing(second * 10, second * 10, second), "default").unwrap();
    assert!(text.contains("longer than the renew deadline"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn an_elector_starts_once() {
    let server = ApiServer::new();
    let mut elector = candidate(&server, "a", 1);
    assert!(matches!(elector.start(), Err(Error::AlreadyStarted { .. })));
}

/// No candidate can create a Lease in a namespace that does not exist; without a log line, it would stand by for ever.
#[tokio::test(start_paused = true)]
async fn the_log_names_the_namespace_of_the_lease_if_it_does_not_exist() {
    let (server, log) = (ApiServer::new(), capture());
    let elector = start(options("a", 1).namespace("nowhere"), &server, "a");
    sleep(Duration::from_secs(60)).await;
    let status = elector.leadership().status();
    assert!(!status.is_leader && status.is_running);
    let error = status.last_error.unwrap_or_default();
    assert!(error.contains("nowhere"), "{error:?}");
    // The warning appears once, not for each of some thirty requests.
    let warnings = log.text().matches("this replica cannot lead").count();
    assert_eq!(warnings, 1, "{}", log.text());
    assert_eq!(soon(elector.release()).await, Ending::NotHeld);
}
