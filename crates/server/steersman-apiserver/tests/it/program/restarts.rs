//! Tests of the program that ends after a signal and starts again: its clients go on.

use std::pin::pin;

use futures::StreamExt as _;
use http::Request;
use kube_client::Client;
use kube_client::core::WatchEvent;
use serde_json::{Value, json};
use steersman_testenv::eventually;
use tempfile::TempDir;
use tokio::net::TcpStream;

use super::binary::{Running, TOO_LONG, spawn_at, start, start_at};

const SECRETS: &str = "/api/v1/namespaces/default/secrets";

fn port(running: &Running) -> u16 {
    let text = std::fs::read_to_string(&running.kubeconfig).unwrap();
    let line = text
        .lines()
        .find_map(|line| line.trim().strip_prefix("server: "));
    let (_, port) = line.unwrap().rsplit_once(':').unwrap();
    port.parse().unwrap()
}

/// Returns the events of a watch of Secrets up to its end.
async fn watch(client: &Client, from: &str) -> Vec<WatchEvent<Value>> {
    let query = format!("watch=true&allowWatchBookmarks=true&resourceVersion={from}");
    let request = Request::get(format!("{SECRETS}?{query}")).body(Vec::new());
    let events = client
        .request_events::<Value>(request.unwrap())
        .await
        .unwrap();
    let all = tokio::time::timeout(TOO_LONG, events.collect::<Vec<_>>()).await;
    all.unwrap().into_iter().map(Result::unwrap).collect()
}

/// Stops the program amid a watch of a quiet kind and starts it again at its port. The client, with
/// its kubeconfig from before, resumes the watch and sees a later change.
async fn resumed(durability: &str) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().to_str().unwrap();
    let arguments = ["--rbac", "--data-dir", path, "--durability", durability];
    let first = start(&arguments).await;
    let (port, client) = (port(&first), first.client.clone());
    let list = first.get(SECRETS).await.unwrap();
    let from = list["metadata"]["resourceVersion"]
        .as_str()
        .unwrap()
        .to_owned();
    let watching = tokio::spawn({
        let (client, from) = (client.clone(), from.clone());
        async move { watch(&client, &from).await }
    });
    let open = || async {
        let log = first
            .get("/steersman/requests?verb=watch&resource=secrets")
            .await;
        let log = log.unwrap();
        let is_open = log["items"].as_array().is_some_and(|all| !all.is_empty());
        is_open.then_some(()).ok_or_else(|| log.to_string())
    };
    eventually("the watch", open).await.unwrap();
    // Changes of another kind, of which the watch knows by a bookmark alone.
    for name in ["a", "b"] {
        first.create_config_map(name).await;
    }
    assert_eq!(first.stop("-TERM").await.status.code(), Some(0));
    let seen = watching.await.unwrap();
    let [WatchEvent::Bookmark(mark)] = &seen[..] else {
        panic!("{seen:?}");
    };
    let mark = mark.metadata.resource_version.clone();
    assert_ne!(mark, from);

    let second = start_at(port, &arguments).await;
    let query = format!("watch=true&resourceVersion={mark}");
    let request = Request::get(format!("{SECRETS}?{query}")).body(Vec::new());
    let events = client
        .request_events::<Value>(request.unwrap())
        .await
        .unwrap();
    let mut events = pin!(events);
    let secret = json!({"metadata": {"name": "later"}}).to_string();
    let create = Request::post(SECRETS).header("content-type", "application/json");
    let create = create.body(secret.into_bytes()).unwrap();
    client.request::<Value>(create).await.unwrap();
    let event = tokio::time::timeout(TOO_LONG, events.next()).await.unwrap();
    let event = event.unwrap().unwrap();
    assert!(matches!(event, WatchEvent::Added(_)), "{event:?}");
    assert_eq!(second.stop("-TERM").await.status.code(), Some(0));
}

/// SRV-STOP-1, SRV-DATA-2.
#[tokio::test]
async fn a_client_resumes_its_watch_after_a_restart() {
    resumed("kernel").await;
}

/// SRV-STOP-1: the history before the last save is lost, but no client needs it.
#[tokio::test]
async fn a_client_resumes_its_watch_after_a_restart_without_a_log() {
    resumed("none").await;
}

/// SRV-STOP-4: the state is a pipe here, so that the program waits for it.
#[tokio::test]
async fn a_client_that_connects_while_the_state_is_read_waits() {
    let folder = TempDir::new().unwrap();
    let arguments = ["--data-dir", folder.path().to_str().unwrap()];
    let first = start(&arguments).await;
    let (port, client) = (port(&first), first.client.clone());
    first.create_config_map("kept").await;
    assert_eq!(first.stop("-TERM").await.status.code(), Some(0));

    let state = folder.path().join("state.json");
    let text = std::fs::read(&state).unwrap();
    std::fs::remove_file(&state).unwrap();
    let made = std::process::Command::new("mkfifo").arg(&state).status();
    assert!(made.unwrap().success());
    let mut second = spawn_at(port, &arguments);
    let connected = || async {
        let connected = TcpStream::connect(("127.0.0.1", port)).await;
        connected.map(drop).map_err(|error| error.to_string())
    };
    eventually("a connection before the state is read", connected)
        .await
        .unwrap();
    let request = Request::get("/api/v1/namespaces/default/configmaps/kept");
    let request = request.body(Vec::new()).unwrap();
    let answer = tokio::spawn(async move { client.request::<Value>(request).await });
    let write = tokio::task::spawn_blocking(move || std::fs::write(state, text));
    write.await.unwrap().unwrap();
    let answer = tokio::time::timeout(TOO_LONG, answer).await.unwrap();
    assert_eq!(answer.unwrap().unwrap()["metadata"]["name"], "kept");
    second.kill().await.unwrap();
}
