//! A server, and a kubectl that is configured for this server only.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Output, Stdio};
use std::time::Duration;

use serde_json::Value;
use steersman_apiserver::faults::Verb;
use steersman_apiserver::{ApiServer, Serving};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use crate::support::website_crd;

/// Longer than any of these commands takes; a wait that reaches it has failed.
pub(super) const TOO_LONG: Duration = Duration::from_secs(120);

/// A server, a kubeconfig for it, and a kubectl with a cache and an environment of its own.
pub(super) struct World {
    pub(super) server: ApiServer,
    pub(super) serving: Serving,
    pub(super) folder: TempDir,
}

impl World {
    /// Returns `None`, and prints that the test is skipped, without a usable kubectl.
    pub(super) async fn new() -> Option<Self> {
        Self::of(ApiServer::new()).await
    }

    /// Does the same with a server that has other options.
    pub(super) async fn of(server: ApiServer) -> Option<Self> {
        if let Err(why) = usable_kubectl().await {
            print_skipped(&why);
            return None;
        }
        server.install_crd(website_crd()).unwrap();
        let serving = server.serve("127.0.0.1:0").await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        serving
            .write_kubeconfig(folder.path().join("kubeconfig"))
            .unwrap();
        Some(Self {
            server,
            serving,
            folder,
        })
    }

    pub(super) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = clean_kubectl();
        command
            .env("HOME", self.folder.path())
            .arg("--kubeconfig")
            .arg(self.folder.path().join("kubeconfig"))
            .arg("--cache-dir")
            .arg(self.folder.path().join("cache"))
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    /// Runs kubectl, which must succeed, and returns its output.
    pub(super) async fn run(&self, arguments: &[&str]) -> String {
        finish(arguments, self.command(arguments).output()).await
    }

    /// Runs kubectl with this standard input.
    pub(super) async fn feed(&self, arguments: &[&str], input: &str) -> String {
        let mut child = self
            .command(arguments)
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(input.as_bytes()).await.unwrap();
        drop(stdin);
        finish(arguments, child.wait_with_output()).await
    }

    /// Starts kubectl and returns its lines while it runs.
    pub(super) fn follow(&self, arguments: &[&str]) -> (Child, Lines<BufReader<ChildStdout>>) {
        let mut child = self
            .command(arguments)
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        (child, lines)
    }

    /// Waits until kubectl's watch of a resource is open.
    pub(super) async fn watched(&self, resource: &str) {
        let log = self.server.requests();
        let open = log.wait_for(1, |request| {
            request.does(Verb::Watch) && request.is_for(resource) && request.status == Some(200)
        });
        tokio::time::timeout(TOO_LONG, open).await.unwrap();
    }

    pub(super) fn site(&self, name: &str) -> Option<Value> {
        self.server.get("websites.example.com", "default", name)
    }
}

pub(super) async fn finish(
    arguments: &[&str],
    output: impl Future<Output = std::io::Result<Output>>,
) -> String {
    let output = tokio::time::timeout(TOO_LONG, output)
        .await
        .unwrap()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "kubectl {arguments:?}: {printed}{complained}"
    );
    printed
}

fn clean_kubectl() -> Command {
    let mut command = Command::new("kubectl");
    command.env_clear();
    if let Some(path) = std::env::var_os("PATH") {
        command.env("PATH", path);
    }
    command
}

async fn usable_kubectl() -> Result<(), String> {
    let asked = clean_kubectl()
        .args(["version", "--client", "-o", "json"])
        .output()
        .await;
    let output = asked.map_err(|error| format!("kubectl cannot be run: {error}"))?;
    let version: Value = serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("kubectl does not tell its version: {error}"))?;
    let minor = version["clientVersion"]["minor"]
        .as_str()
        .unwrap_or_default();
    let digits: String = minor.chars().take_while(char::is_ascii_digit).collect();
    match digits.parse::<u32>() {
        Ok(minor) if minor >= 27 => Ok(()),
        _ => Err(format!("kubectl is 1.{minor}, older than 1.27")),
    }
}

/// Prints without `eprintln!`, because the harness hides its output for passing tests: a skipped
/// test must not look like one that ran.
fn print_skipped(why: &str) {
    let line = format!("skipped: {why}; install kubectl 1.27 or later to run this test\n");
    std::io::stderr().write_all(line.as_bytes()).unwrap();
}

pub(super) fn write_file(world: &World, name: &str, object: &Value) -> PathBuf {
    let path = world.folder.path().join(name);
    std::fs::write(&path, object.to_string()).unwrap();
    path
}
