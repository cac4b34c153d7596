//! Never two leaders, and never a ghost leader: several managers on one server, each a replica of one operator.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};
use steersman_api::ClientConfig;
use steersman_apiserver::ApiServer;
use steersman_apiserver::faults::{Effect, FaultGuard, FaultSpec, Verb};
use steersman_controller::{
    Action, Context, Controller, Error as ReconcileError, Request, reconcile,
};
use steersman_lease::{ElectionChange, LeaderElection};
use steersman_manager::{Error, Group, Manager, ManagerBuilder, runnable};
use steersman_object::ObjectKey;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use crate::world::{Notes, Started, config_map, soon, start};

const LEASES: &str = "leases.coordination.k8s.io";
const RETRY: Duration = Duration::from_secs(2);
const LEASE: Duration = Duration::from_secs(15);

fn election(name: &str) -> LeaderElection {
    LeaderElection::new("shop")
        .identity(name)
        .seed(u64::from(name.as_bytes()[0]))
        .on_callers_runtime()
}

fn replica(server: &ApiServer, name: &str) -> ManagerBuilder {
    let client_config = ClientConfig::in_process(server.service(), "default").user_agent(name, "1");
    Manager::builder(client_config).leader_election(election(name))
}

/// Notes the end of a reconcile, even if it is dropped.
struct Reconciling(Notes, String);

impl Drop for Reconciling {
    fn drop(&mut self) {
        self.0.note(format!("{} ends", self.1));
    }
}

/// Returns a controller that notes its reconciles, which go on for `rest` after they are cancelled.
fn busy(name: &str, notes: &Notes, rest: Duration) -> Controller {
    let (name, notes) = (name.to_owned(), notes.clone());
    let reconciler = reconcile::from_fn(move |ctx: Context, _: Request| {
        let (name, notes) = (name.clone(), notes.clone());
        async move {
            notes.note(format!("{name} begins"));
            let _reconciling = Reconciling(notes, name);
            ctx.cancelled().await;
            sleep(rest).await;
            Ok::<_, ReconcileError>(Action::done())
        }
    });
    Controller::builder::<ConfigMap>()
        .build(reconciler)
        .unwrap()
}

/// Starts a replica with a busy controller.
fn start_replica(
    server: &ApiServer,
    name: &str,
    notes: &Notes,
    rest: Duration,
) -> (Manager, Started) {
    let manager = replica(server, name).build().unwrap();
    manager.add_controller(busy(name, notes, rest)).unwrap();
    let started = start(&manager);
    (manager, started)
}

fn world() -> (ApiServer, Notes) {
    let server = ApiServer::new();
    server.create(config_map("one")).unwrap();
    (server, Notes::default())
}

fn blackhole(server: &ApiServer, name: &str) -> FaultGuard {
    let spec = FaultSpec::new(Effect::Swallow).user_agent(&format!("{name}/"));
    server.faults().add(spec).unwrap()
}

fn lease(server: &ApiServer) -> Value {
    server.get(LEASES, "default", "shop").unwrap()
}

fn holder(server: &ApiServer) -> String {
    lease(server)["spec"]["holderIdentity"]
        .as_str()
        .unwrap()
        .to_owned()
}

const NO_REST: Duration = Duration::ZERO;
const FOR_EVER: Duration = Duration::from_secs(24 * 3600);

/// Scenarios 24 (a) and (e). LEASE-1: the reconcile of the old leader, which does not stop by itself, is dropped.
#[tokio::test(start_paused = true)]
async fn a_leader_that_cannot_renew_stops_its_reconciles_before_the_next_leader_begins() {
    let (server, notes) = world();
    let (first, started) = start_replica(&server, "alpha", &notes, FOR_EVER);
    notes.reach(1).await;
    let (second, follower) = start_replica(&server, "beta", &notes, NO_REST);
    sleep(Duration::from_secs(60)).await;
    assert!(first.is_leader() && !second.is_leader());
    let (hole, cut) = (blackhole(&server, "alpha"), Instant::now());
    let error = started.ended().await.unwrap_err();
    assert!(error.is_leadership_lost(), "{error}");
    // The release was tried for at most a quarter of a lease, and the Event about the end for two seconds.
    assert!(
        cut.elapsed() <= Duration::from_millis(14_600),
        "{:?}",
        cut.elapsed()
    );
    notes.reach(3).await;
    assert!(cut.elapsed() >= LEASE - RETRY && cut.elapsed() <= LEASE + RETRY.mul_f64(4.4));
    assert_eq!(notes.all(), ["alpha begins", "alpha ends", "beta begins"]);
    follower.stop().await.unwrap();
    drop(hole);
}

/// Scenario 24 (b). LEASE-2: the clocks of the replicas, which the Lease shows, differ by a day.
#[tokio::test(start_paused = true)]
async fn a_standby_with_another_clock_does_not_take_a_lease_that_is_renewed() {
    let (server, notes) = world();
    let skewed = |hours: i64| {
        let skew = k8s_openapi::jiff::SignedDuration::from_hours(hours);
        move || k8s_openapi::jiff::Timestamp::now() + skew
    };
    let mut replicas = Vec::new();
    for (name, hours) in [("alpha", 0), ("beta", 24), ("gamma", -24)] {
        let client_config = ClientConfig::in_process(server.service(), "default");
        let options = election(name).clock(skewed(hours));
        let manager = Manager::builder(client_config)
            .leader_election(options)
            .build()
            .unwrap();
        manager.add_controller(busy(name, &notes, NO_REST)).unwrap();
        replicas.push(start(&manager));
        notes.reach(1).await;
    }
    sleep(Duration::from_secs(600)).await;
    assert_eq!(notes.all(), ["alpha begins"]);
    for replica in replicas {
        replica.stop().await.unwrap();
    }
}

/// Scenario 24 (c)
#[tokio::test(start_paused = true)]
async fn a_stolen_lease_ends_the_leader_and_a_deleted_one_does_not() {
    let (server, notes) = world();
    let (_, started) = start_replica(&server, "alpha", &notes, NO_REST);
    notes.reach(1).await;
    let (_, follower) = start_replica(&server, "beta", &notes, NO_REST);
    sleep(Duration::from_secs(30)).await;
    server.delete(LEASES, "default", "shop").unwrap();
    sleep(Duration::from_secs(30)).await;
    assert_eq!((holder(&server).as_str(), notes.all().len()), ("alpha", 1));

    let patch = json!({"spec": {"holderIdentity": "thief", "leaseTransitions": 9}});
    server
        .merge_patch(LEASES, "default", "shop", &patch)
        .unwrap();
    let error = started.ended().await.unwrap_err();
    assert!(error.to_string().contains("thief"), "{error}");
    notes.reach(3).await;
    assert_eq!(notes.all(), ["alpha begins", "alpha ends", "beta begins"]);
    follower.stop().await.unwrap();
}

/// Scenario 24 (d). LEASE-7: the lease becomes free while the standby stops.
#[tokio::test(start_paused = true)]
async fn a_standby_that_stops_starts_nothing_that_only_the_leader_runs() {
    let (server, notes) = world();
    let (_, leader) = start_replica(&server, "alpha", &notes, NO_REST);
    notes.reach(1).await;
    let manager = replica(&server, "beta").build().unwrap();
    manager
        .add_controller(busy("beta", &notes, NO_REST))
        .unwrap();
    let slow = runnable::from_fn("slow", Group::Others, |context| async move {
        context.cancelled().await;
        sleep(Duration::from_secs(20)).await;
        Ok(())
    });
    manager.add(slow).unwrap();
    let standby = start(&manager);
    sleep(Duration::from_secs(30)).await;
    standby.stop.cancel();
    sleep(Duration::from_secs(1)).await;
    leader.stop().await.unwrap();
    standby.ended().await.unwrap();
    assert_eq!(notes.all(), ["alpha begins", "alpha ends"]);
    assert_eq!(holder(&server), "");
}

/// Scenario 24 (f). LEASE-8: the order of a stop, with the release last of all.
#[tokio::test(start_paused = true)]
async fn the_lease_is_released_after_everything_has_stopped() {
    let (server, notes) = world();
    let told = notes.clone();
    let options = election("alpha").on_change(move |change| match change {
        ElectionChange::Elected { .. } => told.note("elected"),
        ElectionChange::Released { .. } => told.note("released"),
        _ => {}
    });
    let client_config = ClientConfig::in_process(server.service(), "default");
    let manager = Manager::builder(client_config)
        .leader_election(options)
        .build()
        .unwrap();
    for group in [
        Group::LeaderElected,
        Group::Others,
        Group::Caches,
        Group::HttpServers,
        Group::Webhooks,
    ] {
        manager.add(notes.slow(group)).unwrap();
    }
    manager
        .add_controller(busy("reconcile", &notes, Duration::from_secs(5)))
        .unwrap();
    let started = start(&manager);
    // Two notes per group, one of the election, and one of the reconcile.
    notes.reach(12).await;
    let (_, follower) = start_replica(&server, "beta", &notes, NO_REST);
    sleep(Duration::from_secs(30)).await;
    started.stop.cancel();
    sleep(Duration::from_secs(4)).await;
    assert_eq!(holder(&server), "alpha", "a reconcile still runs");
    started.ended().await.unwrap();
    let mut all = notes.all();
    all.sort_by_key(|note| note.starts_with("beta"));
    let expected = [
        "start HTTP servers", "ready HTTP servers", "start webhooks", "ready webhooks",
        "start caches", "ready caches", "start others", "ready others", "elected",
        "start leader-elected", "reconcile begins", "ready leader-elected", "stop others",
        "end others", "stop leader-elected", "end leader-elected", "reconcile ends", "stop caches",
        "end caches", "stop webhooks", "end webhooks", "stop HTTP servers", "end HTTP servers",
        "released",
    ];
    assert_eq!(all[..expected.len()], expected);
    let released = Instant::now();
    notes.reach(expected.len() + 1).await;
    assert!(released.elapsed() <= RETRY.mul_f64(2.2));
    assert_eq!(notes.all().last().unwrap(), "beta begins");
    follower.stop().await.unwrap();
}

/// Scenario 24 (f), under load: every reconcile that began has ended when the lease is released.
#[tokio::test(start_paused = true)]
async fn a_stop_under_load_finishes_the_reconciles_in_flight() {
    let (server, notes) = world();
    for number in 0..50 {
        server
            .create(config_map(&format!("load-{number}")))
            .unwrap();
    }
    let manager = replica(&server, "alpha").build().unwrap();
    let (tell, mut told) = mpsc::unbounded_channel();
    let reconciler = reconcile::from_fn(move |_: Context, request: Request| {
        let tell = tell.clone();
        async move {
            tell.send((request.key.clone(), true))?;
            sleep(Duration::from_millis(700)).await;
            tell.send((request.key, false))?;
            Ok::<_, ReconcileError>(Action::requeue_after(Duration::from_millis(1)))
        }
    });
    let builder = Controller::builder::<ConfigMap>().max_concurrent_reconciles(8);
    manager
        .add_controller(builder.build(reconciler).unwrap())
        .unwrap();
    manager.add(notes.slow(Group::HttpServers)).unwrap();
    let started = start(&manager);
    for _ in 0..100 {
        soon(told.recv()).await.unwrap();
    }
    started.stop().await.unwrap();
    let mut running = std::collections::BTreeSet::new();
    while let Ok((key, began)) = told.try_recv() {
        if began {
            running.insert(key);
        } else {
            running.remove(&key);
        }
    }
    assert!(running.is_empty(), "{running:?}");
    assert_eq!(holder(&server), "");
}

/// Scenario 24 (g)
#[tokio::test(start_paused = true)]
async fn a_runnable_that_is_added_around_an_election_starts_exactly_once() {
    let (server, notes) = world();
    let (_, leader) = start_replica(&server, "alpha", &notes, NO_REST);
    notes.reach(1).await;
    let manager = replica(&server, "beta").build().unwrap();
    let started = start(&manager);
    sleep(Duration::from_secs(30)).await;
    let noting = |name: &'static str, group| {
        let notes = notes.clone();
        runnable::from_fn(name, group, move |context| async move {
            notes.note(name);
            context.cancelled().await;
            Ok(())
        })
    };
    // Adds two runnables on the standby: one of the leader, and one of every replica.
    manager
        .add(noting("leader's", Group::LeaderElected))
        .unwrap();
    manager.add(noting("everywhere", Group::Others)).unwrap();
    notes.reach(2).await;
    sleep(Duration::from_secs(30)).await;
    assert_eq!(notes.all(), ["alpha begins", "everywhere"]);
    leader.stop().await.unwrap();
    soon(manager.elected()).await;
    manager.add(noting("late", Group::LeaderElected)).unwrap();
    sleep(Duration::from_secs(30)).await;
    assert_eq!(
        notes.all()[1..],
        ["everywhere", "alpha ends", "leader's", "late"]
    );
    assert!(manager.is_leader());
    started.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_standby_keeps_a_warm_cache_and_runs_the_controllers_of_every_replica() {
    let (server, notes) = world();
    let (leading, leader) = start_replica(&server, "alpha", &notes, NO_REST);
    notes.reach(1).await;
    let manager = replica(&server, "beta").build().unwrap();
    manager
        .add_controller(busy("beta", &notes, NO_REST))
        .unwrap();
    let everywhere = notes.clone();
    let reconciler = reconcile::from_fn(move |_: Context, request: Request| {
        everywhere.note(format!("everywhere {}", request.key.name()));
        async { Ok::<_, ReconcileError>(Action::done()) }
    });
    let builder = Controller::builder::<ConfigMap>()
        .name("everywhere")
        .on_every_replica();
    manager
        .add_controller(builder.build(reconciler).unwrap())
        .unwrap();
    let standby = start(&manager);
    notes.reach(2).await;
    assert_eq!(notes.all()[1], "everywhere one");
    sleep(RETRY).await;
    let lists = server.requests().lists("configmaps");
    let key = ObjectKey::namespaced("default", "one");
    manager.cache().get::<ConfigMap>(&key).await.unwrap();
    assert_eq!(server.requests().lists("configmaps"), lists);
    let status = manager.lease_status().unwrap();
    assert_eq!(status.holder.as_deref(), Some("alpha"));
    assert!(!status.is_leader && leading.lease_status().unwrap().is_leader);
    let section = manager.diagnostics().section("lease").unwrap();
    assert_eq!(
        (&section["holder"], &section["isLeader"]),
        (&json!("alpha"), &json!(false))
    );
    let families = manager.metrics_registry().gather();
    let leads = families
        .iter()
        .find(|f| f.name() == "leader_election_master_status")
        .unwrap();
    assert_eq!(leads.get_metric()[0].get_label()[0].value(), "shop");
    leader.stop().await.unwrap();
    standby.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_manager_without_leader_election_leads() {
    let server = ApiServer::new();
    let manager = Manager::builder(ClientConfig::in_process(server.service(), "default"))
        .build()
        .unwrap();
    assert!(!manager.is_leader() && manager.lease_status().is_none());
    let started = start(&manager);
    soon(manager.elected()).await;
    assert!(manager.is_leader());
    started.stop().await.unwrap();
    assert!(server.requests().count(|request| request.is_for(LEASES)) == 0);
}

#[test]
fn a_leader_election_that_cannot_work_is_refused_and_leaves_nothing_behind() {
    let server = ApiServer::new();
    let registry = prometheus::Registry::new();
    let build = |options: LeaderElection, namespace: &str| {
        Manager::builder(ClientConfig::in_process(server.service(), namespace))
            .metrics_registry(registry.clone())
            .leader_election(options)
            .build()
    };
    let second = Duration::from_secs(1);
    for (options, namespace) in [
        (LeaderElection::new("shop"), ""),
        (
            LeaderElection::new("shop").timing(second, second, second),
            "default",
        ),
    ] {
        let error = build(options, namespace).unwrap_err();
        assert!(matches!(error, Error::LeaderElection(_)), "{error}");
    }
    // CACHE-13: the registry can be used again.
    drop(build(LeaderElection::new("shop"), "default").unwrap());
}

/// LEASE-8: real time, because a blocked thread does not stop a clock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_that_is_left_behind_keeps_the_lease_and_aborts_the_process() {
    let server = ApiServer::new();
    let (abort, aborted) = std::sync::mpsc::channel();
    let options = election("alpha")
        .timing(
            Duration::from_secs(3),
            Duration::from_secs(2),
            Duration::from_millis(500),
        )
        .abort_with(move |overrun| {
            let _ = abort.send(overrun.clone());
        });
    let manager = Manager::builder(ClientConfig::in_process(server.service(), "default"))
        .leader_election(options)
        .graceful_shutdown_timeout(Duration::from_millis(50))
        .build()
        .unwrap();
    let (up, is_up) = tokio::sync::oneshot::channel();
    let (release, released) = std::sync::mpsc::channel::<()>();
    let blocker = runnable::from_fn("blocker", Group::LeaderElected, move |_| async move {
        let _ = up.send(());
        let _ = released.recv();
        Ok(())
    });
    manager.add(blocker).unwrap();
    let started = start(&manager);
    is_up.await.unwrap();
    let error = started.stop().await.unwrap_err();
    assert!(error.is_unclean_stop(), "{error}");
    assert_eq!(holder(&server), "alpha");
    let aborts = tokio::task::spawn_blocking(move || aborted.recv_timeout(Duration::from_secs(60)));
    let overrun = aborts.await.unwrap();
    // Released, because the runtime waits for its threads.
    drop(release);
    assert_eq!(overrun.unwrap().lease, "default/shop");
}

/// The leader sends one request per renewal, and does not read the Lease besides.
#[tokio::test(start_paused = true)]
async fn an_election_costs_one_request_per_retry_period() {
    let (server, notes) = world();
    let (_, leader) = start_replica(&server, "alpha", &notes, NO_REST);
    notes.reach(1).await;
    sleep(RETRY / 4).await;
    let before = server.requests().count(|request| request.is_for(LEASES));
    sleep(Duration::from_secs(60)).await;
    let writes = server.requests().count(|request| request.is_for(LEASES)) - before;
    assert_eq!(writes, 30);
    assert_eq!(
        server.requests().count(|request| request.does(Verb::Patch)),
        0
    );
    leader.stop().await.unwrap();
}
