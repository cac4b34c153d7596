//! Tests of the end of a server and of its listeners: watches, and requests that wait.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::TokioIo;
use serde_json::json;
use steersman_apiserver::ApiServer;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::Notify;

use super::speak_tls;
use crate::support::{CONFIG_MAPS, Watch, config_map, server};
use crate::webhooks::validating;

/// Longer than any step here takes; a wait that reaches it has failed.
const TOO_LONG: Duration = Duration::from_secs(60);

/// SRV-STOP-1.
#[tokio::test(start_paused = true)]
async fn a_watch_ends_with_its_last_events_and_a_bookmark() {
    let server = server();
    let from = server.revision();
    let path = |resource: &str, bookmarks: bool| {
        let path = format!("/api/v1/{resource}?watch=true&resourceVersion={from}");
        format!("{path}&allowWatchBookmarks={bookmarks}")
    };
    let mut marked = Watch::open(&server, &path("configmaps", true)).await;
    let mut plain = Watch::open(&server, &path("configmaps", false)).await;
    let mut silent = Watch::open(&server, &path("secrets", true)).await;
    server.faults().silence_watches_of("secrets");
    server.create(config_map("a")).unwrap();
    // The revision of an object of another kind, which only a bookmark tells.
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}});
    server.create(secret).unwrap();
    server.shut_down();
    assert_eq!(marked.next_short().await.unwrap(), "ADDED a");
    let last = marked.next().await.unwrap();
    assert_eq!(last["type"], "BOOKMARK");
    let revision = server.revision().to_string();
    assert_eq!(last["object"]["metadata"]["resourceVersion"], revision);
    assert_eq!(plain.next_short().await.unwrap(), "ADDED a");
    for watch in [&mut marked, &mut plain, &mut silent] {
        assert_eq!(watch.next().await, None);
    }
}

/// SRV-STOP-2.
#[tokio::test]
async fn a_request_that_waits_for_a_webhook_is_refused_when_the_server_stops() {
    let server = ApiServer::new();
    let called = Arc::new(Notify::new());
    let signal = Arc::clone(&called);
    let never = tower::service_fn(move |_: Request<Full<Bytes>>| {
        signal.notify_one();
        std::future::pending::<Result<Response<Full<Bytes>>, Infallible>>()
    });
    server.route_service_to("hooks", "slow", never);
    validating(&server, "slow", &json!({}));
    let serving = server.serve("127.0.0.1:0").await.unwrap();
    let stream = TokioIo::new(speak_tls(&serving).await);
    let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await.unwrap();
    let connection = tokio::spawn(connection);
    let request = Request::post(CONFIG_MAPS)
        .header("host", serving.addr().to_string())
        .body(config_map("a").to_string())
        .unwrap();
    let answer = tokio::spawn(sender.send_request(request));
    tokio::time::timeout(TOO_LONG, called.notified())
        .await
        .unwrap();
    tokio::time::timeout(TOO_LONG, serving.stop())
        .await
        .unwrap();
    let answer = tokio::time::timeout(TOO_LONG, answer).await.unwrap();
    let answer = answer.unwrap().unwrap();
    assert_eq!(answer.status(), 503);
    assert_eq!(answer.headers()["retry-after"], "1");
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    assert!(body.windows(13).any(|part| part == b"shutting down"));
    assert_eq!(server.get("configmaps", "default", "a"), None);
    drop(sender);
    connection.await.unwrap().unwrap();
}

/// SRV-STOP-3: of two clients with a long answer, the one that reads gets all of it.
#[tokio::test]
async fn a_client_that_reads_gets_its_answer_and_another_does_not_hold_up_the_end() {
    let server = ApiServer::new();
    for number in 0..40 {
        let mut object = config_map(&format!("a-{number}"));
        object["data"]["long"] = json!("x".repeat(500_000));
        server.create(object).unwrap();
    }
    let serving = server.serve("127.0.0.1:0").await.unwrap();
    let request = format!("GET {CONFIG_MAPS} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let (mut reads, mut rests) = (speak_tls(&serving).await, speak_tls(&serving).await);
    let mut first = [0];
    for client in [&mut reads, &mut rests] {
        client.write_all(request.as_bytes()).await.unwrap();
        client.read_exact(&mut first).await.unwrap();
    }
    let stopped = tokio::spawn(serving.stop());
    let mut text = Vec::new();
    let read = tokio::time::timeout(TOO_LONG, reads.read_to_end(&mut text)).await;
    read.unwrap().unwrap();
    let text = String::from_utf8(text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    assert_eq!(length.unwrap().parse(), Ok(body.len()));
    tokio::time::timeout(TOO_LONG, stopped)
        .await
        .unwrap()
        .unwrap();
    // The other connection is closed in the middle of its answer.
    let mut part = Vec::new();
    let end = tokio::time::timeout(TOO_LONG, rests.read_to_end(&mut part)).await;
    assert!(end.unwrap().is_err() || part.len() < body.len());
}
