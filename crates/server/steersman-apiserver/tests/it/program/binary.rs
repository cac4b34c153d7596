//! Tests of the program `steersman-apiserver` over real sockets and in real time.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use kube_client::config::{KubeConfigOptions, Kubeconfig};
use kube_client::{Client, Config};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

/// Long enough for a busy machine; only a failing test waits this long.
pub(super) const TOO_LONG: Duration = Duration::from_secs(60);

fn program(arguments: &[&str]) -> Command {
    program_at(0, arguments)
}

fn program_at(port: u16, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_steersman-apiserver"));
    command
        .args(["--port", &port.to_string()])
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}

/// A running program, and a client with the kubeconfig that it printed.
pub(crate) struct Running {
    child: Child,
    pub(crate) kubeconfig: PathBuf,
    pub(super) client: Client,
}

pub(crate) async fn start(arguments: &[&str]) -> Running {
    started(program(arguments)).await
}

pub(super) async fn start_at(port: u16, arguments: &[&str]) -> Running {
    started(program_at(port, arguments)).await
}

pub(super) fn spawn_at(port: u16, arguments: &[&str]) -> Child {
    program_at(port, arguments).spawn().unwrap()
}

async fn started(mut program: Command) -> Running {
    let mut child = program.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let path = loop {
        let line = tokio::time::timeout(TOO_LONG, lines.next_line());
        let line = line
            .await
            .unwrap()
            .unwrap()
            .expect("it says how to reach it");
        if let Some((_, path)) = line.split_once("KUBECONFIG=") {
            break PathBuf::from(path);
        }
    };
    let kubeconfig = Kubeconfig::read_from(&path).unwrap();
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    Running {
        child,
        kubeconfig: path,
        client: Client::try_from(config.unwrap()).unwrap(),
    }
}

impl Running {
    pub(super) async fn get(&self, path: &str) -> Result<Value, kube_client::Error> {
        let request = http::Request::get(path).body(Vec::new()).unwrap();
        self.client.request(request).await
    }

    pub(super) async fn create_config_map(&self, name: &str) -> Value {
        let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
        let request = http::Request::post("/api/v1/namespaces/default/configmaps")
            .header("content-type", "application/json")
            .body(body.to_string().into_bytes())
            .unwrap();
        self.client.request(request).await.unwrap()
    }

    /// Kills the program at once (SIGKILL).
    pub(super) async fn kill(mut self) {
        self.child.kill().await.unwrap();
    }

    pub(super) async fn stop(self, signal: &str) -> Output {
        let pid = self.child.id().unwrap().to_string();
        let kill = Command::new("kill").args([signal, &pid]).status();
        assert!(kill.await.unwrap().success());
        let output = tokio::time::timeout(TOO_LONG, self.child.wait_with_output());
        output.await.unwrap().unwrap()
    }
}

async fn refused(arguments: &[&str]) -> String {
    let output = tokio::time::timeout(TOO_LONG, program(arguments).output());
    let output = output.await.unwrap().unwrap();
    assert_eq!(output.status.code(), Some(1));
    String::from_utf8(output.stderr).unwrap()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[tokio::test]
async fn a_data_directory_outlives_the_program() {
    let folder = TempDir::new().unwrap();
    let arguments = ["--data-dir", text(folder.path()), "--save-every", "3600"];
    let first = start(&arguments).await;
    let created = first.create_config_map("kept").await;
    let output = first.stop("-TERM").await;
    assert_eq!(output.status.code(), Some(0), "{output:?}");

    let second = start(&arguments).await;
    let path = "/api/v1/namespaces/default/configmaps/kept";
    assert_eq!(second.get(path).await.unwrap(), created);
    let third = refused(&arguments).await;
    assert!(
        third.contains("is in use by another steersman-apiserver"),
        "{third}"
    );
    assert_eq!(second.stop("-INT").await.status.code(), Some(0));
}

#[tokio::test]
async fn the_page_has_the_address_that_the_program_prints() {
    let mut command = program(&["--ui"]);
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let address = loop {
        let line = tokio::time::timeout(TOO_LONG, lines.next_line());
        let line = line.await.unwrap().unwrap().expect("it prints the page");
        if let Some((_, address)) = line.split_once("Its page is http://") {
            break address.to_owned();
        }
    };
    let mut socket = TcpStream::connect(&address).await.unwrap();
    let request =
        format!("GET /api/kinds HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    assert!(answer.contains("\"resource\":\"namespaces\""), "{answer}");
    child.kill().await.unwrap();

    let others = refused(&["--ui=0.0.0.0:0"]).await;
    assert!(
        others.contains("0.0.0.0:0 is not a loopback address"),
        "{others}"
    );
}

#[tokio::test]
async fn a_corrupt_file_is_named_and_left_unchanged() {
    let folder = TempDir::new().unwrap();
    let state = folder.path().join("state.json");
    std::fs::write(&state, "{\"format\": \"steersman-ap").unwrap();
    let said = refused(&["--data-dir", text(folder.path())]).await;
    assert!(
        said.contains("state.json; the file is left unchanged"),
        "{said}"
    );
    let left = std::fs::read_to_string(&state).unwrap();
    assert_eq!(left, "{\"format\": \"steersman-ap");
}

#[tokio::test]
async fn manifests_are_applied_before_serving_and_requests_are_logged() {
    let folder = TempDir::new().unwrap();
    let manifests = "
apiVersion: example.com/v1
kind: Site
metadata: {name: home, namespace: web, labels: {a: b}}
---
apiVersion: v1
kind: Pod
metadata: {name: octal, namespace: web}
spec:
  containers: [{name: a, image: a}]
  volumes: [{name: a, secret: {secretName: a, defaultMode: 0400}}]
---
apiVersion: v1
kind: Namespace
metadata: {name: web}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: sites.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: sites, kind: Site}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
";
    std::fs::write(folder.path().join("all.yaml"), manifests).unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    // Both flags may name one folder; its objects that are no CRDs are then manifests.
    let seeds = [
        "--crds",
        text(folder.path()),
        "--seed-dir",
        text(folder.path()),
        "--log",
    ];
    let running = start(&[&seeds[..], &["--kubeconfig", text(&kubeconfig)]].concat()).await;
    assert_eq!(running.kubeconfig, kubeconfig);
    let path = "/apis/example.com/v1/namespaces/web/sites/home";
    let home = running.get(path).await.unwrap();
    assert_eq!(
        home["metadata"]["managedFields"][0]["manager"],
        "steersman-apiserver"
    );
    let octal = running
        .get("/api/v1/namespaces/web/pods/octal")
        .await
        .unwrap();
    assert_eq!(octal["spec"]["volumes"][0]["secret"]["defaultMode"], 256);
    let mut errors = BufReader::new(running.child.stderr.unwrap()).lines();
    let line = tokio::time::timeout(TOO_LONG, errors.next_line()).await;
    let line = line.unwrap().unwrap().unwrap();
    assert!(
        line.contains("  200  get sites.example.com web/home  ("),
        "{line}"
    );
}

#[tokio::test]
async fn invalid_flags_end_the_program_before_it_serves() {
    let said = refused(&["--bind", "0.0.0.0"]).await;
    assert!(
        said.contains("0.0.0.0:0 is not a loopback address"),
        "{said}"
    );
    assert!(said.contains("--insecure-let-others-in"), "{said}");
    let said = refused(&["--manifests", "/nowhere/at.yaml"]).await;
    assert!(said.contains("/nowhere/at.yaml cannot be read"), "{said}");
    let folder = TempDir::new().unwrap();
    let wrong = folder.path().join("wrong.yaml");
    let right = "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n";
    let cat = "apiVersion: v1\nkind: Cat\nmetadata: {name: tom}\n";
    std::fs::write(&wrong, format!("{right}---\n{cat}")).unwrap();
    // Errors name the file in a folder, and the line in a file.
    let said = refused(&["--manifests", text(folder.path())]).await;
    let place = format!("the server refused Cat tom of {}:5: ", text(&wrong));
    assert!(said.contains(&place), "{said}");
    // A path without any CRD is an error.
    let said = refused(&["--crds", text(&wrong)]).await;
    assert!(
        said.contains("there is no CustomResourceDefinition in "),
        "{said}"
    );
    std::fs::write(&wrong, "# Nothing yet.\n").unwrap();
    let said = refused(&["--manifests", text(folder.path())]).await;
    assert!(said.contains("there is no object in "), "{said}");
}

#[tokio::test]
async fn the_program_listens_for_other_machines_only_with_its_flag() {
    let running = start(&["--bind", "0.0.0.0", "--insecure-let-others-in"]).await;
    running.get("/api/v1/namespaces/default").await.unwrap();
    let left = running.kubeconfig.clone();
    assert_eq!(running.stop("-TERM").await.status.code(), Some(0));
    assert!(
        !left.exists(),
        "the program removes its temporary kubeconfig"
    );
}

#[tokio::test]
async fn faults_of_a_file_are_planned_before_serving() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("faults.json");
    let faults = json!([
        {"verb": "list", "resource": "pods", "times": 1,
            "effect": {"type": "answer", "code": 500, "message": "the disk is on fire"}},
        {"resource": "secrets", "effect": {"type": "delay", "millis": 1}},
    ]);
    std::fs::write(&file, faults.to_string()).unwrap();
    let running = start(&["--faults", text(&file)]).await;
    let error = running.get("/api/v1/pods").await.unwrap_err();
    assert!(error.to_string().contains("the disk is on fire"), "{error}");
    running.get("/api/v1/pods").await.unwrap();
    let planned = running.get("/steersman/faults").await.unwrap();
    assert_eq!(planned["items"][0]["hits"], 1);
    assert_eq!(planned["items"][1]["resource"], "secrets");

    for (wrong, why) in [
        (
            "[{\"effect\": {\"type\": \"flood\"}}]",
            "number 0: unknown variant `flood`",
        ),
        (
            "{\"effect\": {\"type\": \"answer\", \"code\": 200}}",
            "number 0: ",
        ),
        ("[", "EOF while parsing"),
    ] {
        std::fs::write(&file, wrong).unwrap();
        let said = refused(&["--faults", text(&file)]).await;
        assert!(
            said.contains("faults.json of --faults holds no faults: "),
            "{said}"
        );
        assert!(said.contains(why), "{said}");
    }
}

/// Returns the commands of a page that begin with curl, as one script.
fn curls(page: &str) -> String {
    let fences = page.split("```sh\n").skip(1);
    let blocks = fences.filter_map(|block| block.split("```").next());
    blocks.filter(|block| block.contains("curl ")).collect()
}

// Runs the commands of the pages for users of other languages.
#[tokio::test]
async fn the_documented_curl_commands_give_the_documented_results() {
    let curl = Command::new("curl").arg("--version").output().await;
    if curl.is_err() {
        use std::io::Write as _;
        // Writes to stderr directly, because the test harness captures the output of passing tests.
        let _ = writeln!(std::io::stderr(), "skipped: curl cannot be run");
        return;
    }
    let folder = TempDir::new().unwrap();
    // With `-k` alone curl does not fail on an error status.
    std::fs::write(
        folder.path().join(".curlrc"),
        "insecure\nfail\nsilent\nshow-error\n",
    )
    .unwrap();
    let pages = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    for (page, hits) in [
        ("docs/guide/server-program.md", 1),
        ("crates/framework/steersman/guide/faults.md", 0),
    ] {
        let running = start(&[]).await;
        let kubeconfig = Kubeconfig::read_from(&running.kubeconfig).unwrap();
        let cluster = kubeconfig.clusters[0].cluster.as_ref().unwrap();
        let script = curls(&std::fs::read_to_string(pages.join(page)).unwrap());
        let ran = Command::new("sh")
            .args(["-eu", "-c", &script])
            .current_dir(folder.path())
            .env("CURL_HOME", folder.path())
            .env("SERVER", cluster.server.as_ref().unwrap())
            .env("KUBECONFIG", &running.kubeconfig)
            .output();
        let ran = tokio::time::timeout(TOO_LONG, ran).await.unwrap().unwrap();
        let (printed, complained) = (
            String::from_utf8_lossy(&ran.stdout),
            String::from_utf8_lossy(&ran.stderr),
        );
        assert!(ran.status.success(), "{page}: {printed}\n{complained}");
        assert!(
            printed.contains(&format!("\"hits\":{hits}")),
            "{page}: {printed}"
        );
        let left = running.get("/steersman/faults").await.unwrap();
        assert_eq!(left["items"], json!([]), "{page}");
    }
}
