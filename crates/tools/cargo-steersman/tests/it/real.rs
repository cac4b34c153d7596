//! Tests `dev --real` with an embedded API server in the role of the real cluster.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use steersman_testenv::apiserver::ApiServer;
use steersman_testenv::eventually;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

use crate::cargo::{example_program, fails, steersman, succeeds};

const CRDS: &str = "customresourcedefinitions.apiextensions.k8s.io";

#[tokio::test]
async fn a_real_cluster_is_changed_only_after_a_confirmation_and_keeps_its_objects() {
    let here = tempfile::tempdir().unwrap();
    succeeds(steersman(here.path()).args(["new", "greeter", "--kind", "Greeting"]));
    let folder = here.path().join("greeter");
    let server = ApiServer::new();
    let serving = server.serve("127.0.0.1:0").await.unwrap();
    let kubeconfig = here.path().join("kube config");
    serving.write_kubeconfig(&kubeconfig).unwrap();
    let config: Value = serde_saphyr::from_str(&serving.kubeconfig()).unwrap();
    let context = config["current-context"].as_str().unwrap().to_owned();
    let dev = |words: &[&str]| {
        let mut command = steersman(&folder);
        command.args(["dev", "--real"]).args(words);
        command.env("KUBECONFIG", &kubeconfig);
        command
    };

    // Standard input is not a terminal, so `dev` cannot ask.
    let error = fails(dev(&[]).stdin(Stdio::null()));
    assert!(error.contains(&serving.url()), "{error}");
    assert!(error.contains(&format!("context {context}")), "{error}");
    assert!(error.contains("add --yes"), "{error}");
    let error = fails(dev(&["--context", "nowhere", "--yes"]).stdin(Stdio::null()));
    assert!(error.contains("nowhere"), "{error}");
    for other in [&["--once"][..], &["--port", "1"]] {
        let error = fails(&mut dev(other));
        assert!(error.contains("cannot be used with"), "{error}");
    }
    assert!(server.requests().all().is_empty());

    // `dev --real` applies samples only if the command line names them.
    let mut running = RunningDev::start(dev(&["--yes"]));
    running.read_until("greeter started").await;
    eventually("the definition is installed", || async {
        let installed = server.get(CRDS, "", "greetings.example.com");
        installed.map(drop).ok_or("not yet".to_owned())
    })
    .await
    .unwrap();
    let last = running.interrupt().await;
    assert!(last.contains("stay in the cluster"), "{last}");
    assert!(server.list("greetings.example.com", "").is_empty());

    let mut running = RunningDev::start(dev(&["--yes", "--samples", "config/samples"]));
    let page = running.read_until("its debug page: ").await;
    let (_, page) = page.split_once("its debug page: ").unwrap();
    let (address, _) = page.split_once("/debug/sign-in?token=").unwrap();
    // The first line comes from the diagnostics, the second from a list of the objects.
    running
        .read_until("greeting default/greeting-sample: success after ")
        .await;
    running.read_until("greeting-sample is ready: ").await;
    let token = folder.join("target/steersman/diagnostics-token");
    let top = || {
        let mut top = steersman(here.path());
        top.args(["top", "--once", "--address", address]);
        top
    };
    let shown = succeeds(top().arg("--token-path").arg(&token));
    for part in [
        "works, started", "CONTROLLER", "\ngreeting ", "nothing needs attention",
    ] {
        assert!(shown.contains(part), "{part:?}: {shown}");
    }
    let refused = fails(&mut top());
    assert!(refused.contains("--token-path"), "{refused}");
    running.interrupt().await;
    let published = server.get("configmaps", "default", "greeting-sample");
    assert!(published.is_some());
    assert!(!token.exists());
    serving.stop().await;
}

/// A running `dev` process. Dropping it kills the process.
pub(crate) struct RunningDev {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl RunningDev {
    fn start(command: std::process::Command) -> Self {
        Self::of(command, &example_program())
    }

    pub(crate) fn of(command: std::process::Command, program: &Path) -> Self {
        let mut command = Command::from(command);
        command
            .args(["--plain", "--program"])
            .arg(program)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// Reads output lines until a line contains `part`, and returns this line.
    pub(crate) async fn read_until(&mut self, part: &str) -> String {
        let mut read = Vec::new();
        let found = timeout(Duration::from_secs(60), async {
            while let Some(line) = self.lines.next_line().await.unwrap() {
                if line.contains(part) {
                    return Some(line);
                }
                read.push(line);
            }
            None
        });
        let found = found.await.unwrap_or_default();
        found.unwrap_or_else(|| panic!("no line with {part:?}: {read:#?}"))
    }

    /// Kills `dev` with SIGKILL, so that it cannot stop its operator.
    pub(crate) async fn kill(mut self) {
        self.child.kill().await.unwrap();
    }

    /// Sends ctrl-c, checks that `dev` ends with success, and returns its remaining output.
    pub(crate) async fn interrupt(mut self) -> String {
        let id = self.child.id().unwrap().cast_signed();
        let process = Pid::from_raw(id).unwrap();
        kill_process(process, Signal::INT).unwrap();
        let mut last = String::new();
        while let Some(line) = self.lines.next_line().await.unwrap() {
            last.push_str(&line);
        }
        let status = self.child.wait().await.unwrap();
        assert!(status.success(), "{status}: {last}");
        last
    }
}
