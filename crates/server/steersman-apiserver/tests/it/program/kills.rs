//! Tests that kill the program amid writes: no answered write and no event of a watch is lost.

use std::collections::BTreeMap;
use std::pin::pin;

use futures::StreamExt;
use http::Request;
use kube_client::Client;
use kube_client::core::WatchEvent;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::binary::{self, Running};
use super::envtest::{ControlPlane, Programs, TOO_LONG};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// The number of clients that write at the same time.
const CLIENTS: usize = 8;
/// The number of answered writes after which a program is killed.
const ANSWERED: usize = 150;
/// The variable with the number of kills of each test. The default is enough to see a loss.
const KILLS: &str = "STEERSMAN_KILLS";

fn kills() -> usize {
    let number = std::env::var(KILLS)
        .ok()
        .and_then(|number| number.parse().ok());
    number.unwrap_or(2)
}

/// The resource versions of objects by name.
type Versions = BTreeMap<String, String>;

fn version_of(object: &Value) -> (String, String) {
    let text = |field: &str| object["metadata"][field].as_str().unwrap().to_owned();
    (text("name"), text("resourceVersion"))
}

/// Clients that write objects of 2 kB and watch them, until the server is gone.
struct Load {
    tasks: JoinSet<Versions>,
    answered: mpsc::UnboundedReceiver<()>,
}

impl Load {
    async fn start(client: &Client, round: usize) -> Self {
        let list = Request::get(CONFIG_MAPS).body(Vec::new()).unwrap();
        let list: Value = client.request(list).await.unwrap();
        let from = list["metadata"]["resourceVersion"].as_str().unwrap();
        let (heard, answered) = mpsc::unbounded_channel();
        let mut tasks = JoinSet::new();
        tasks.spawn(seen(client.clone(), from.to_owned()));
        for number in 0..CLIENTS {
            let prefix = format!("round-{round}-{number}");
            tasks.spawn(written(client.clone(), prefix, heard.clone()));
        }
        Self { tasks, answered }
    }

    async fn until_answered(&mut self) {
        let all = async {
            for _ in 0..ANSWERED {
                self.answered.recv().await.unwrap();
            }
        };
        tokio::time::timeout(TOO_LONG, all).await.unwrap();
    }

    /// Returns what was answered or seen. Call it after the kill.
    async fn end(self) -> Versions {
        let all = tokio::time::timeout(TOO_LONG, self.tasks.join_all()).await;
        all.unwrap().into_iter().flatten().collect()
    }
}

/// Creates objects until a request fails, and returns the answered ones.
async fn written(client: Client, prefix: String, heard: mpsc::UnboundedSender<()>) -> Versions {
    let mut answered = Versions::new();
    for number in 0.. {
        let object = json!({
            "metadata": {"name": format!("{prefix}-{number}")},
            "data": {"a": "x".repeat(2048)},
        });
        let request = Request::post(CONFIG_MAPS)
            .header("content-type", "application/json")
            .body(object.to_string().into_bytes());
        match client.request::<Value>(request.unwrap()).await {
            Ok(object) => answered.extend([version_of(&object)]),
            Err(_) => break,
        }
        let _ = heard.send(());
    }
    answered
}

/// Watches objects until the watch ends, and returns the objects of its events.
async fn seen(client: Client, from: String) -> Versions {
    let path = format!("{CONFIG_MAPS}?watch=true&resourceVersion={from}");
    let request = Request::get(path).body(Vec::new()).unwrap();
    let events = client.request_events::<Value>(request).await.unwrap();
    let mut events = pin!(events);
    let mut seen = Versions::new();
    while let Some(Ok(event)) = events.next().await {
        if let WatchEvent::Added(object) = event {
            seen.extend([version_of(&object)]);
        }
    }
    seen
}

/// Returns the number of these objects that the server lacks. Its revision is as high as theirs.
async fn lost(client: &Client, expected: &Versions) -> usize {
    let list = Request::get(CONFIG_MAPS).body(Vec::new()).unwrap();
    let list: Value = client.request(list).await.unwrap();
    let items = list["items"].as_array().unwrap();
    let kept: Versions = items.iter().map(version_of).collect();
    let revision = |text: &str| text.parse::<u64>().unwrap();
    let newest = expected.values().map(|version| revision(version)).max();
    let lost = expected
        .iter()
        .filter(|(name, version)| kept.get(*name) != Some(version));
    let lost = lost.count();
    let now = revision(list["metadata"]["resourceVersion"].as_str().unwrap());
    assert!(
        lost > 0 || Some(now) >= newest,
        "{now} is before {newest:?}"
    );
    lost
}

/// Kills the program amid writes, again and again, and returns the number of writes that it lost.
async fn lost_by_the_program(durability: &str) -> usize {
    let folder = TempDir::new().unwrap();
    let path = folder.path().to_str().unwrap();
    let arguments = [
        "--data-dir", path, "--durability", durability, "--save-every", "3600",
    ];
    let mut running: Running = binary::start(&arguments).await;
    let (mut all, mut count) = (Versions::new(), 0);
    for round in 0..kills() {
        let mut load = Load::start(&running.client, round).await;
        load.until_answered().await;
        running.kill().await;
        all.extend(load.end().await);
        running = binary::start(&arguments).await;
        count += lost(&running.client, &all).await;
    }
    // A signal is followed by the same state.
    let before = all.len();
    assert_eq!(running.stop("-TERM").await.status.code(), Some(0));
    let running = binary::start(&arguments).await;
    if count == 0 {
        assert_eq!(
            lost(&running.client, &all).await,
            0,
            "of {before} after SIGTERM"
        );
    }
    count
}

// WAL-1, WAL-3.
#[tokio::test]
async fn a_killed_program_loses_no_answered_write_in_the_kernel() {
    assert_eq!(lost_by_the_program("kernel").await, 0);
}

// WAL-1, WAL-3.
#[tokio::test]
async fn a_killed_program_loses_no_answered_write_on_the_disk() {
    assert_eq!(lost_by_the_program("fsync").await, 0);
}

// Shows that the tests above would see a loss.
#[tokio::test]
async fn a_killed_program_without_a_log_loses_the_writes_since_its_save() {
    assert!(lost_by_the_program("none").await >= ANSWERED);
}

/// Kills the programs of a test environment amid writes, and returns the number of writes they lost.
async fn lost_by_the_pair(durability: &str) -> usize {
    let programs = Programs::new();
    let durability = format!("--durability={durability}");
    let plane = ControlPlane::start_with(&programs, &[], &[&durability]).await;
    let mut plane = plane;
    let (mut all, mut count) = (Versions::new(), 0);
    for round in 0..kills() {
        // Both programs, the server alone, and the etcd alone under a server that goes on.
        for (kind, (kills_server, kills_etcd)) in [(true, true), (true, false), (false, true)]
            .into_iter()
            .enumerate()
        {
            let admin = plane.user("default", &["system:masters"]);
            let mut load = Load::start(&admin, 10 * round + kind).await;
            load.until_answered().await;
            if kills_etcd {
                plane.kill_etcd().await;
            }
            if kills_server {
                plane.kill_server().await;
            }
            if kills_etcd {
                plane.start_etcd(&programs).await;
            }
            if !kills_server {
                // The watch of the load ends with the server.
                plane.await_storage().await;
                plane.kill_server().await;
            }
            all.extend(load.end().await);
            plane.start_server(&programs).await;
            let admin = plane.user("default", &["system:masters"]);
            count += lost(&admin, &all).await;
        }
    }
    plane.stop().await;
    count
}

// WAL-1, WAL-3.
#[tokio::test]
async fn a_killed_environment_loses_no_answered_write_in_the_kernel() {
    assert_eq!(lost_by_the_pair("kernel").await, 0);
}

// WAL-1, WAL-3.
#[tokio::test]
async fn a_killed_environment_loses_no_answered_write_on_the_disk() {
    assert_eq!(lost_by_the_pair("fsync").await, 0);
}
