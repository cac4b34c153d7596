//! Replicas that share the work, as real processes over HTTPS: each replica is this test program, which the test starts
//! and kills.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};
use steersman_api::{ClientConfig, Patch};
use steersman_apiserver::ApiServer;
use steersman_apiserver::faults::Verb;
use steersman_controller::{
    Action, Context, Controller, Error as ReconcileError, Request, predicate, reconcile,
};
use steersman_manager::{Manager, Shutdown};
use steersman_shards::Shards;
use steersman_testenv::assert::eventually_within;
use tokio::time::sleep;

/// The environment variable with the name of the replica that a process runs.
const REPLICA: &str = "STEERSMAN_TEST_SHARER";

/// The number of namespaces, each with the ConfigMaps `work` and `done`.
const NAMESPACES: usize = 40;

/// A replica in a process of its own. Dropping it kills the process.
struct Process {
    child: Child,
    name: String,
}

impl Process {
    fn start(kubeconfig: &std::path::Path, name: &str) -> Self {
        let program = std::env::current_exe().unwrap();
        let child = Command::new(program)
            .args(["--exact", "sharing::processes::a_replica_that_shares"])
            .env(REPLICA, name)
            .env("KUBECONFIG", kubeconfig)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn();
        Self {
            child: child.unwrap(),
            name: name.to_owned(),
        }
    }

    /// Lets the replica stop, and waits for its end.
    fn stop(mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // SIGKILL on Unix.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs one replica in a process that the test below started, and does nothing in an ordinary test run.
///
/// A reconcile writes the round of the ConfigMap `work` to `work`, and, after a while, to `done`.
#[test]
fn a_replica_that_shares() {
    let Ok(name) = std::env::var(REPLICA) else {
        return;
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let client_config = ClientConfig::infer().await.unwrap().user_agent(&name, "1");
        let shards = Shards::by_namespace("shop").in_namespace("default").timing(
            Duration::from_secs(3),
            Duration::from_secs(2),
            Duration::from_millis(500),
        );
        let manager = Manager::builder(client_config)
            .shards(shards)
            .build()
            .unwrap();
        let reconciler = reconcile::from_fn(|ctx: Context, request: Request| async move {
            let found = ctx.client().get_opt::<ConfigMap>(&request.key).await?;
            let data = found
                .and_then(|found| found.data.clone())
                .unwrap_or_default();
            let round = data.get("round").cloned().unwrap_or_default();
            if data.get("begun") == Some(&round) {
                // The change is this operator's own; a reconcile that was killed between its writes is repeated.
                let done = request.key.sibling("done");
                let done = ctx.client().live().get::<ConfigMap>(&done).await?;
                if done
                    .data
                    .is_some_and(|data| data.get("round") == Some(&round))
                {
                    return Ok::<_, ReconcileError>(Action::done());
                }
            }
            let client = ctx.client();
            let begun = Patch::Merge(json!({"data": {"begun": round}}));
            client.patch::<ConfigMap>(&request.key, &begun).await?;
            sleep(Duration::from_millis(5)).await;
            let done = Patch::Merge(json!({"data": {"round": round}}));
            client
                .patch::<ConfigMap>(&request.key.sibling("done"), &done)
                .await?;
            Ok(Action::done())
        });
        let is_work = |map: &ConfigMap| map.metadata.name.as_deref() == Some("work");
        let controller = Controller::builder::<ConfigMap>()
            .with_predicates(predicate::object(is_work))
            .build(reconciler)
            .unwrap();
        manager.add_controller(controller).unwrap();
        // The end of the test closes the pipe, which ends this process.
        let orphaned = tokio::task::spawn_blocking(|| {
            let _ = std::io::stdin().read_to_end(&mut Vec::new());
        });
        let shutdown = Shutdown::when(async move { drop(orphaned.await) });
        manager.start(shutdown).await.unwrap();
    });
}

fn config_map(namespace: &str, name: &str, round: usize) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": {"round": round.to_string()},
        "metadata": {"name": name, "namespace": namespace},
    })
}

fn namespaces() -> impl Iterator<Item = String> {
    (0..NAMESPACES).map(|number| format!("tenant-{number}"))
}

/// Begins a round of work, and waits until it is done in each namespace.
async fn work(server: &ApiServer, round: usize) {
    for namespace in namespaces() {
        server
            .update("configmaps", config_map(&namespace, "work", round))
            .unwrap();
    }
    let wanted = round.to_string();
    let missing = || {
        let is_done = |namespace: &String| {
            let done = server.get("configmaps", namespace, "done").unwrap();
            done["data"]["round"] == *wanted
        };
        let missing: Vec<String> = namespaces()
            .filter(|namespace| !is_done(namespace))
            .collect();
        async move {
            if missing.is_empty() {
                Ok(())
            } else {
                Err(missing.join(", "))
            }
        }
    };
    let minute = Duration::from_secs(60);
    eventually_within(minute, "the work of a round is done", missing)
        .await
        .unwrap();
}

/// Returns the writes of each namespace in their order: the replica, and the name of the object.
fn writes(server: &ApiServer) -> BTreeMap<String, Vec<(String, String)>> {
    let mut writes: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    let is_write = |record: &steersman_apiserver::faults::RequestRecord| {
        record.is_for("configmaps") && record.does(Verb::Patch) && record.status == Some(200)
    };
    for record in server.requests().matching(is_write) {
        let replica = record.user_agent.split('/').next().unwrap().to_owned();
        let write = (replica, record.name.unwrap());
        writes
            .entry(record.namespace.unwrap())
            .or_default()
            .push(write);
    }
    writes
}

/// SHARD-1: between the two writes of a reconcile no other replica writes in the namespace, unless the first one was
/// killed.
fn assert_one_at_a_time(server: &ApiServer, killed: &BTreeSet<String>) {
    for (namespace, writes) in writes(server) {
        for pair in writes.windows(2) {
            let [(one, begun), (other, _)] = pair else {
                continue;
            };
            let is_open = begun == "work" && !killed.contains(one);
            assert!(!is_open || one == other, "{namespace}: {writes:?}");
        }
    }
}

/// Returns the replicas that wrote in a round, which cleared the log before.
fn workers(server: &ApiServer) -> BTreeSet<String> {
    let writes = writes(server).into_values().flatten();
    writes.map(|(replica, _)| replica).collect()
}

// SHARD-1, SHARD-2: from one replica to five, two of them killed, to two.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_key_is_reconciled_by_one_process_at_a_time() {
    let server = ApiServer::new();
    for namespace in namespaces() {
        let object =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        server.create(object).unwrap();
        for name in ["work", "done"] {
            server.create(config_map(&namespace, name, 0)).unwrap();
        }
    }
    let serving = server.serve("127.0.0.1:0").await.unwrap();
    let kubeconfig = tempfile::NamedTempFile::new().unwrap();
    serving.write_kubeconfig(kubeconfig.path()).unwrap();
    let start = |number: usize| Process::start(kubeconfig.path(), &format!("replica-{number}"));
    let mut killed = BTreeSet::new();
    let mut replicas = vec![start(0)];
    work(&server, 1).await;
    assert_eq!(workers(&server).len(), 1);
    replicas.extend((1..5).map(start));
    let mut round = 1;
    // The new replicas take their parts while work goes on.
    let mut all = BTreeSet::new();
    while all.len() < 5 {
        assert!(round < 100, "only {all:?} work");
        round += 1;
        server.requests().clear();
        work(&server, round).await;
        all.extend(workers(&server));
        assert_one_at_a_time(&server, &killed);
    }
    for _ in 0..2 {
        let replica = replicas.remove(1);
        killed.insert(replica.name.clone());
        drop(replica);
        server.requests().clear();
        round += 1;
        work(&server, round).await;
        assert_one_at_a_time(&server, &killed);
    }
    let stopped = replicas.remove(0);
    tokio::task::spawn_blocking(|| stopped.stop())
        .await
        .unwrap();
    for _ in 0..2 {
        server.requests().clear();
        round += 1;
        work(&server, round).await;
        assert_one_at_a_time(&server, &killed);
    }
    let left: BTreeSet<String> = replicas
        .iter()
        .map(|replica| replica.name.clone())
        .collect();
    assert_eq!(left.len(), 2);
    assert_eq!(workers(&server), left);
}
