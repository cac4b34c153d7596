//! Replicas that share the work: each object is reconciled by one replica at a time, and none is forgotten.

mod old_server;
mod processes;
mod seeds;
mod shown;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use parking_lot::Mutex;
use serde_json::{Value, json};
use steersman_api::ClientConfig;
use steersman_apiserver::ApiServer;
use steersman_apiserver::faults::{Effect, FaultSpec};
use steersman_cache::CacheOptions;
use steersman_controller::{
    Action, Context, Controller, Error as ReconcileError, Reconciler, Request,
};
use steersman_manager::{Group, Manager, ManagerBuilder, runnable};
use steersman_object::{ListOptions, ObjectKey, ShardBy};
use steersman_shards::Shards;
use tokio::time::{Instant, sleep};

use self::old_server::OldServer;
use crate::world::{Started, soon, start};

/// The number of namespaces of a world, each with one ConfigMap.
const NAMESPACES: usize = 60;

/// What all replicas of a world have reconciled.
#[derive(Clone, Default)]
struct Ledger(Arc<Mutex<LedgerState>>);

#[derive(Default)]
struct LedgerState {
    /// The replica that reconciles each object now.
    running: BTreeMap<ObjectKey, String>,
    /// The replica that reconciled each object last, and the data that it saw.
    last: BTreeMap<ObjectKey, (String, String)>,
    /// The objects that two replicas reconciled at once, which none may be.
    twice: BTreeSet<ObjectKey>,
    /// The changes of each object that no reconcile has seen: the number in its data, and its time.
    unseen: BTreeMap<ObjectKey, VecDeque<(u64, Instant)>>,
    /// The longest time from a change to the end of a reconcile that has seen it.
    delay: Duration,
}

/// Removes a reconcile from the ledger at its end, even if it is dropped.
struct Reconciling<'a>(&'a Ledger, &'a ObjectKey);

/// Reconciles ConfigMaps for a while.
struct Recorded {
    ledger: Ledger,
    replica: String,
}

impl Drop for Reconciling<'_> {
    fn drop(&mut self) {
        self.0.0.lock().running.remove(self.1);
    }
}

impl Reconciler for Recorded {
    async fn reconcile(&self, ctx: &Context, request: Request) -> Result<Action, ReconcileError> {
        {
            let mut state = self.ledger.0.lock();
            let before = state
                .running
                .insert(request.key.clone(), self.replica.clone());
            if before.is_some_and(|before| before != self.replica) {
                state.twice.insert(request.key.clone());
            }
        }
        let _reconciling = Reconciling(&self.ledger, &request.key);
        sleep(Duration::from_millis(20)).await;
        let found = ctx.client().get_opt::<ConfigMap>(&request.key).await?;
        let data = found.and_then(|found| found.data.as_ref()?.get("a").cloned());
        let data = data.unwrap_or_default();
        let mut state = self.ledger.0.lock();
        state.note_seen(&request.key, &data);
        let seen = (self.replica.clone(), data);
        state.last.insert(request.key.clone(), seen);
        Ok(Action::done())
    }
}

impl LedgerState {
    fn note_seen(&mut self, key: &ObjectKey, data: &str) {
        let (Ok(seen), Some(unseen)) = (data.parse::<u64>(), self.unseen.get_mut(key)) else {
            return;
        };
        while let Some((number, at)) = unseen.front()
            && *number <= seen
        {
            self.delay = self.delay.max(at.elapsed());
            unseen.pop_front();
        }
    }
}

impl Ledger {
    /// Forgets which objects were reconciled.
    fn forget(&self) {
        self.0.lock().last.clear();
    }

    /// Returns the replicas that reconciled objects since the last call of `forget`, with the number of their objects.
    fn replicas(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for (replica, _) in self.0.lock().last.values() {
            *counts.entry(replica.clone()).or_default() += 1;
        }
        counts
    }

    /// Returns the data of an object that its last reconcile saw.
    fn data(&self, number: usize) -> String {
        let state = self.0.lock();
        let seen = state.last.get(&key(number));
        seen.map_or_else(String::new, |(_, data)| data.clone())
    }

    fn has_all(&self) -> bool {
        self.0.lock().last.len() == NAMESPACES
    }

    fn assert_none_twice(&self) {
        let twice = &self.0.lock().twice;
        assert!(twice.is_empty(), "two replicas at once: {twice:?}");
    }
}

/// Waits until a condition holds, and returns how long it took.
async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) -> Duration {
    let began = Instant::now();
    while !holds().await {
        assert!(
            began.elapsed() < Duration::from_secs(120),
            "{what} never holds"
        );
        sleep(Duration::from_millis(10)).await;
    }
    began.elapsed()
}

fn key(number: usize) -> ObjectKey {
    ObjectKey::namespaced(format!("tenant-{number:04}"), "one")
}

fn object(number: usize, data: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": {"a": data},
        "metadata": {"name": "one", "namespace": format!("tenant-{number:04}")},
    })
}

fn world() -> (ApiServer, Ledger) {
    let server = ApiServer::new();
    for number in 0..NAMESPACES {
        let name = format!("tenant-{number:04}");
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        server.create(namespace).unwrap();
        server.create(object(number, "first")).unwrap();
    }
    (server, Ledger::default())
}

fn replica(server: &ApiServer, name: &str, shards: Shards, seed: u64) -> ManagerBuilder {
    let client_config = ClientConfig::in_process(server.service(), "default").user_agent(name, "1");
    Manager::builder(client_config)
        .cache(CacheOptions::new().seed(7))
        .shards(shards.on_callers_runtime().seed(seed))
}

fn by_namespace(server: &ApiServer, name: &str) -> ManagerBuilder {
    let seed = u64::from(name.as_bytes()[0]);
    replica(server, name, Shards::by_namespace("shop"), seed)
}

fn start_of(builder: ManagerBuilder, name: &str, ledger: &Ledger) -> (Manager, Started) {
    let manager = builder.build().unwrap();
    let recorded = Recorded {
        ledger: ledger.clone(),
        replica: name.to_owned(),
    };
    let controller = Controller::builder::<ConfigMap>()
        .max_concurrent_reconciles(4)
        .build(recorded)
        .unwrap();
    manager.add_controller(controller).unwrap();
    let started = start(&manager);
    (manager, started)
}

fn start_replica(server: &ApiServer, name: &str, ledger: &Ledger) -> (Manager, Started) {
    start_of(by_namespace(server, name), name, ledger)
}

/// Returns the number of ConfigMaps in the cache of a replica.
async fn cached(manager: &Manager) -> usize {
    let all = ListOptions::new();
    let all = soon(manager.client().list::<ConfigMap>(&all)).await;
    // The manager may not have started yet.
    all.map_or(0, |all| all.len())
}

async fn all_cached(managers: &[&Manager]) -> Vec<usize> {
    let mut counts = Vec::new();
    for manager in managers {
        counts.push(cached(manager).await);
    }
    counts
}

/// Waits until the replicas own all slots in equal parts, and their caches hold all objects.
async fn settled(managers: &[&Manager]) {
    until("each object is in one cache", async || {
        let counts = all_cached(managers).await;
        let least = NAMESPACES / managers.len() / 2;
        counts.iter().sum::<usize>() == NAMESPACES && counts.iter().all(|count| *count >= least)
    })
    .await;
}

/// Starts two replicas, and waits until each has its part and has reconciled it.
async fn start_two(server: &ApiServer, ledger: &Ledger) -> [(Manager, Started); 2] {
    let both = ["a", "b"].map(|name| start_replica(server, name, ledger));
    settled(&both.each_ref().map(|(manager, _)| manager)).await;
    until("all are reconciled", async || {
        ledger.has_all() && ledger.0.lock().running.is_empty()
    })
    .await;
    both
}

// SHARD-1, SHARD-2
#[tokio::test(start_paused = true)]
async fn three_replicas_share_all_objects() {
    let (server, ledger) = world();
    let replicas = ["a", "b", "c"].map(|name| start_replica(&server, name, &ledger));
    settled(&replicas.each_ref().map(|(manager, _)| manager)).await;
    until("all are reconciled", async || ledger.has_all()).await;
    ledger.forget();
    for number in 0..NAMESPACES {
        server
            .update("configmaps", object(number, "second"))
            .unwrap();
    }
    until("all are reconciled again", async || ledger.has_all()).await;
    let replicas_of_second = ledger.replicas();
    assert_eq!(replicas_of_second.len(), 3, "{replicas_of_second:?}");
    for (_, started) in replicas {
        started.stop().await.unwrap();
    }
    ledger.assert_none_twice();
}

/// Changes one object after the other, 200 in each second.
async fn keep_changing(server: &ApiServer, ledger: &Ledger) {
    for change in 1_u64.. {
        let number = change as usize % NAMESPACES;
        {
            let mut state = ledger.0.lock();
            let unseen = state.unseen.entry(key(number)).or_default();
            unseen.push_back((change, Instant::now()));
        }
        let changed = object(number, &change.to_string());
        server.update("configmaps", changed).unwrap();
        sleep(Duration::from_millis(5)).await;
    }
}

// SHARD-1, SHARD-2
#[tokio::test(start_paused = true)]
async fn a_rolling_update_under_changes_delays_none_by_more_than_five_seconds() {
    let (server, ledger) = world();
    let mut running: VecDeque<(Manager, Started)> = ["a", "b", "c", "d"]
        .map(|name| start_replica(&server, name, &ledger))
        .into();
    let managers = |running: &VecDeque<(Manager, Started)>| -> Vec<Manager> {
        running.iter().map(|(manager, _)| manager.clone()).collect()
    };
    settled(&managers(&running).iter().collect::<Vec<_>>()).await;
    let changes = {
        let (server, ledger) = (server.clone(), ledger.clone());
        tokio::spawn(async move { keep_changing(&server, &ledger).await })
    };
    for name in ["e", "f", "g", "h"] {
        // As a Deployment does with maxSurge 1: the new replica is ready when it has its part.
        running.push_back(start_replica(&server, name, &ledger));
        settled(&managers(&running).iter().collect::<Vec<_>>()).await;
        let (_, old) = running.pop_front().unwrap();
        old.stop().await.unwrap();
        sleep(Duration::from_secs(3)).await;
    }
    changes.abort();
    until("each change is seen", async || {
        ledger.0.lock().unseen.values().all(VecDeque::is_empty)
    })
    .await;
    let delay = ledger.0.lock().delay;
    assert!(delay <= Duration::from_secs(5), "{delay:?}");
    for (_, started) in running {
        started.stop().await.unwrap();
    }
    ledger.assert_none_twice();
}

// SHARD-2: the slots of a replica that stops are free at once.
#[tokio::test(start_paused = true)]
async fn the_objects_of_a_stopped_replica_are_reconciled_by_the_others_within_two_seconds() {
    let (server, ledger) = world();
    let [(a, a_started), (b, b_started)] = start_two(&server, &ledger).await;
    ledger.forget();
    let left = cached(&a).await;
    a_started.stop().await.unwrap();
    let took = until("b reconciles them", async || {
        ledger.replicas().get("b") == Some(&left)
    })
    .await;
    assert!(took <= Duration::from_secs(2), "{took:?}");
    settled(&[&b]).await;
    b_started.stop().await.unwrap();
    ledger.assert_none_twice();
}

// SHARD-2
#[tokio::test(start_paused = true)]
async fn the_objects_of_a_killed_replica_are_reconciled_by_the_others_within_25_seconds() {
    let (server, ledger) = world();
    let [(a, a_started), (_b, b_started)] = start_two(&server, &ledger).await;
    ledger.forget();
    let left = cached(&a).await;
    a_started.task.abort();
    drop(a);
    let took = until("b reconciles them", async || {
        ledger.replicas().get("b") == Some(&left)
    })
    .await;
    assert!(took <= Duration::from_secs(25), "{took:?}");
    assert!(
        took >= Duration::from_secs(10),
        "{took:?}: a may still have worked"
    );
    b_started.stop().await.unwrap();
    ledger.assert_none_twice();
}

// SHARD-3: a replica that cannot renew its Lease reconciles nothing, although its watches deliver.
#[tokio::test(start_paused = true)]
async fn a_replica_that_cannot_renew_stops_before_another_one_works() {
    let (server, ledger) = world();
    let [(a, a_started), (b, b_started)] = start_two(&server, &ledger).await;
    let refused = Effect::Answer {
        code: 503,
        message: None,
        retry_after_seconds: 0,
        commit: false,
    };
    let cut = FaultSpec::new(refused)
        .user_agent("a/1")
        .resource("leases.coordination.k8s.io");
    let cut = server.faults().add(cut).unwrap();
    let began = Instant::now();
    settled(&[&b]).await;
    let took = began.elapsed();
    assert!(took <= Duration::from_secs(25), "{took:?}");
    ledger.forget();
    for number in 0..NAMESPACES {
        server
            .update("configmaps", object(number, "second"))
            .unwrap();
    }
    until("b reconciles all changes", async || ledger.has_all()).await;
    assert_eq!(ledger.replicas(), [("b".to_owned(), NAMESPACES)].into());
    // The replica comes back, and takes a part again.
    drop(cut);
    settled(&[&a, &b]).await;
    for started in [a_started, b_started] {
        started.stop().await.unwrap();
    }
    ledger.assert_none_twice();
}

// SHARD-8
#[tokio::test(start_paused = true)]
async fn the_parts_are_the_same_whether_the_server_knows_the_selector_or_not() {
    let mut parts = Vec::new();
    for is_old in [false, true] {
        let (server, ledger) = world();
        let both = ["a", "b"].map(|name| {
            let client_config = match is_old {
                true => ClientConfig::in_process(OldServer(server.service()), "default"),
                false => ClientConfig::in_process(server.service(), "default"),
            };
            let shards = Shards::new("shop", ShardBy::NamespaceOnServer).on_callers_runtime();
            let builder = Manager::builder(client_config)
                .cache(CacheOptions::new().seed(7))
                .shards(shards.seed(u64::from(name.as_bytes()[0])));
            start_of(builder, name, &ledger)
        });
        let managers = both.each_ref().map(|(manager, _)| manager);
        until("each object is in one cache", async || {
            let counts = all_cached(&managers).await;
            counts.iter().sum::<usize>() == NAMESPACES && ledger.has_all()
        })
        .await;
        let selected = |request: &steersman_apiserver::faults::RequestRecord| {
            request.is_for("configmaps") && request.parameter("shardSelector").is_some()
        };
        assert_eq!(server.requests().count(selected) > 0, !is_old);
        parts.push(all_cached(&managers).await);
        for (_, started) in both {
            started.stop().await.unwrap();
        }
        ledger.assert_none_twice();
    }
    assert_eq!(parts[0], parts[1]);
}

#[tokio::test(start_paused = true)]
async fn a_cached_read_of_an_object_of_another_replica_fails() {
    let (server, ledger) = world();
    let [(a, a_started), (b, b_started)] = start_two(&server, &ledger).await;
    let mut foreign = 0;
    for number in 0..NAMESPACES {
        let key = key(number);
        let read = soon(a.client().get::<ConfigMap>(&key)).await;
        let live = soon(a.client().live().get::<ConfigMap>(&key)).await;
        assert!(live.is_ok());
        if let Err(error) = read {
            let text = steersman_object::report(&error).to_string();
            assert!(text.contains("another replica owns this slot"), "{text}");
            foreign += 1;
        }
    }
    assert_eq!(foreign, cached(&b).await);
    for started in [a_started, b_started] {
        started.stop().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn only_the_leader_runs_other_runnables() {
    let (server, ledger) = world();
    let leading = Ledger::default();
    let both = ["a", "b"].map(|name| {
        let election = steersman_lease::LeaderElection::new("shop-leader")
            .identity(name)
            .on_callers_runtime();
        let builder = by_namespace(&server, name);
        let (manager, started) = start_of(builder.leader_election(election), name, &ledger);
        let leading = leading.clone();
        let runs = runnable::from_fn("only one", Group::LeaderElected, async move |context| {
            let key = ObjectKey::cluster_scoped(name);
            leading
                .0
                .lock()
                .last
                .insert(key, (name.to_owned(), String::new()));
            context.cancelled().await;
            Ok(())
        });
        manager.add(runs).unwrap();
        (manager, started)
    });
    settled(&both.each_ref().map(|(manager, _)| manager)).await;
    until("all are reconciled", async || ledger.has_all()).await;
    until("one leads", async || !leading.replicas().is_empty()).await;
    assert_eq!(leading.replicas().len(), 1);
    assert_eq!(ledger.replicas().len(), 2);
    for (_, started) in both {
        started.stop().await.unwrap();
    }
}
