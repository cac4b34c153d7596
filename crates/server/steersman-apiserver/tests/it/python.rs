//! Tests with the Python client (`kubernetes` on PyPI), over HTTPS.
//!
//! `STEERSMAN_PYTHON` names a Python with this package; without it the tests report that they are
//! skipped.

use std::ffi::OsString;
use std::io::Write as _;
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;

use steersman_apiserver::faults::Verb;
use steersman_apiserver::{ApiServer, Serving};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::Command;

use crate::support::website_crd;

/// Longer than any of the scenarios takes.
const TOO_LONG: Duration = Duration::from_secs(120);

struct World {
    python: OsString,
    server: ApiServer,
    _serving: Serving,
    folder: TempDir,
}

impl World {
    async fn new() -> Option<Self> {
        let Some(python) = std::env::var_os("STEERSMAN_PYTHON").filter(|path| !path.is_empty())
        else {
            // Bypasses the capture of the test harness: a skipped test must not look like one that
            // ran.
            let line = "skipped: STEERSMAN_PYTHON names no Python with the kubernetes package; `.ci/run test` makes one\n";
            std::io::stderr().write_all(line.as_bytes()).unwrap();
            return None;
        };
        let server = ApiServer::new();
        server.install_crd(website_crd()).unwrap();
        let serving = server.serve("127.0.0.1:0").await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        serving
            .write_kubeconfig(folder.path().join("kubeconfig"))
            .unwrap();
        Some(Self {
            python,
            server,
            _serving: serving,
            folder,
        })
    }

    fn command(&self, scenario: &str) -> Command {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/python/client.py");
        let mut command = Command::new(&self.python);
        command
            .env_remove("KUBECONFIG")
            .env("HOME", self.folder.path())
            .arg(script)
            .arg(self.folder.path().join("kubeconfig"))
            .arg(scenario)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    async fn run(&self, scenario: &str) {
        let ran = tokio::time::timeout(TOO_LONG, self.command(scenario).output()).await;
        check(scenario, &ran.unwrap().unwrap());
    }
}

fn check(scenario: &str, output: &Output) {
    let printed = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && printed.ends_with("done\n"),
        "{scenario}: {printed}{complained}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_come_in_pages_and_by_selectors() {
    let Some(world) = World::new().await else {
        return;
    };
    world.run("lists").await;
    assert_eq!(world.server.list("configmaps", "default").len(), 25);
    let pages = world
        .server
        .requests()
        .count(|request| request.does(Verb::List) && request.parameter("limit") == Some("10"));
    assert_eq!(pages, 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_resumes_and_learns_that_its_past_is_forgotten() {
    let Some(world) = World::new().await else {
        return;
    };
    let mut child = world
        .command("watches")
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let first = tokio::time::timeout(TOO_LONG, lines.next_line()).await;
    if first.unwrap().unwrap().as_deref() == Some("resumed") {
        world.server.compact();
        input.write_all(b"compacted\n").await.unwrap();
    }
    let last = tokio::time::timeout(TOO_LONG, lines.next_line()).await;
    let output = child.wait_with_output().await.unwrap();
    let complained = String::from_utf8_lossy(&output.stderr);
    assert_eq!(
        last.unwrap().unwrap().as_deref(),
        Some("done"),
        "{complained}"
    );
    assert!(output.status.success(), "{complained}");
    let names: Vec<String> = world
        .server
        .list("configmaps", "default")
        .iter()
        .map(|one| one["metadata"]["name"].to_string())
        .collect();
    assert_eq!(names, ["\"b\""]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_patch_the_client_knows_is_taken() {
    let Some(world) = World::new().await else {
        return;
    };
    world.run("patches").await;
    let deployment = world
        .server
        .get("deployments.apps", "default", "web")
        .unwrap();
    assert_eq!(deployment["spec"]["replicas"], 3);
    let held = world.server.get("configmaps", "default", "c").unwrap();
    assert_eq!(held["data"]["later"], "1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn applied_fields_are_owned_by_their_managers() {
    let Some(world) = World::new().await else {
        return;
    };
    world.run("applies").await;
    let held = world.server.get("configmaps", "default", "c").unwrap();
    let managers: Vec<&str> = held["metadata"]["managedFields"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|entry| entry["operation"] == "Apply")
        .filter_map(|entry| entry["manager"].as_str())
        .collect();
    assert_eq!(managers, ["two"]);
    assert_eq!(held["data"]["a"], "2");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn manifests_are_created_with_their_defaults() {
    let Some(world) = World::new().await else {
        return;
    };
    world.run("manifests").await;
    assert!(
        world
            .server
            .get("serviceaccounts", "team", "robot")
            .is_some()
    );
}
