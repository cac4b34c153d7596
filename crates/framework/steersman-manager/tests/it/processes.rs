//! Failovers of real processes over HTTPS: each replica is this test program, which the test starts and kills.

use std::io::Read as _;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use steersman_api::{ClientConfig, Patch};
use steersman_apiserver::ApiServer;
use steersman_controller::{
    Action, Context, Controller, Error as ReconcileError, Request, reconcile,
};
use steersman_lease::LeaderElection;
use steersman_manager::{Manager, Shutdown};
use steersman_testenv::assert::eventually_within;
use tokio::time::Instant;

use crate::world::config_map;

/// The environment variable with the name of the replica that a process runs.
const REPLICA: &str = "STEERSMAN_TEST_REPLICA";

/// A replica in a process of its own. Dropping it kills the process.
struct Process(Child, String);

impl Process {
    fn start(kubeconfig: &std::path::Path, name: &str) -> Self {
        let program = std::env::current_exe().unwrap();
        let child = Command::new(program)
            .args(["--exact", "processes::a_replica_in_a_process_of_its_own"])
            .env(REPLICA, name)
            .env("KUBECONFIG", kubeconfig)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn();
        Self(child.unwrap(), name.to_owned())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // SIGKILL on Unix.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs one replica in a process that the test below started, and does nothing in an ordinary test run.
#[test]
fn a_replica_in_a_process_of_its_own() {
    let Ok(name) = std::env::var(REPLICA) else {
        return;
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let client_config = ClientConfig::infer().await.unwrap();
        let options = LeaderElection::new("shop")
            .namespace("default")
            .identity(&name)
            .timing(
                Duration::from_secs(3),
                Duration::from_secs(2),
                Duration::from_millis(500),
            );
        let manager = Manager::builder(client_config)
            .leader_election(options)
            .build()
            .unwrap();
        let reconciler = reconcile::from_fn(move |ctx: Context, request: Request| {
            let patch = Patch::Merge(json!({"data": {"worker": name}}));
            async move {
                ctx.client()
                    .patch::<ConfigMap>(&request.key, &patch)
                    .await?;
                Ok::<_, ReconcileError>(Action::requeue_after(Duration::from_millis(100)))
            }
        });
        let controller = Controller::builder::<ConfigMap>()
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

/// Three failovers after SIGKILL, with leases of 3 s, 2 s and 0.5 s, within a minute together.
#[test]
fn another_process_works_after_the_leader_was_killed() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let server = ApiServer::new();
    server.create(config_map("one")).unwrap();
    let serving = runtime.block_on(server.serve("127.0.0.1:0")).unwrap();
    let kubeconfig = tempfile::NamedTempFile::new().unwrap();
    serving.write_kubeconfig(kubeconfig.path()).unwrap();
    let worker = || {
        let map = server.get("configmaps", "default", "one").unwrap();
        map["data"]["worker"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    let next_worker = |before: &str, until: Instant| {
        let is_new = || {
            let worker = worker();
            let is_new = !worker.is_empty() && worker != before;
            async move { if is_new { Ok(worker) } else { Err(worker) } }
        };
        let limit = until.saturating_duration_since(Instant::now());
        let next = eventually_within(limit, "another process works", is_new);
        runtime.block_on(next).unwrap()
    };
    let mut replicas = vec![
        Process::start(kubeconfig.path(), "replica-0"),
        Process::start(kubeconfig.path(), "replica-1"),
    ];
    let minute = Duration::from_secs(60);
    let mut leader = next_worker("", Instant::now() + minute);
    let all = Instant::now() + minute;
    for failover in 0..3 {
        let at = replicas
            .iter()
            .position(|replica| replica.1 == leader)
            .unwrap();
        drop(replicas.remove(at));
        let killed = Instant::now();
        let next = next_worker(&leader, all);
        // Logged for the page on leader election. Not asserted, because other programs use the machine, too.
        tracing::info!(failover, took = ?killed.elapsed(), "another process works");
        leader = next;
        let name = format!("replica-{}", failover + 2);
        replicas.push(Process::start(kubeconfig.path(), &name));
    }
}
