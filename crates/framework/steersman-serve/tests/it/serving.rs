//! Tests requests, responses and the stop of a server.

use std::sync::Arc;

use bytes::Bytes;
use futures::{StreamExt as _, stream};
use http::StatusCode;
use prometheus::{IntCounter, Registry};
use steersman_serve::{
    Error, ListenAddress, MetricsPage, Route, Routes, Server, ServerOptions, stream_response,
    text_response,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::Notify;

use crate::world::{Running, ask, ok, rest, routes, serve, soon, status};

#[tokio::test]
async fn a_route_answers_its_path_and_its_methods() {
    let server = serve(ServerOptions::new(), routes()).await;
    let response = server.get("/hello", "").await;
    assert_eq!(status(&response), 200);
    assert!(response.ends_with("hello\n"), "{response}");
    assert_eq!(status(&server.get("/other", "").await), 404);
    let mut stream = server.connect().await;
    let post =
        b"POST /hello HTTP/1.1\r\nHost: test\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    stream.write_all(post).await.unwrap();
    let refused = rest(&mut stream).await;
    assert_eq!(status(&refused), 405);
    assert!(refused.contains("allow: GET, HEAD"), "{refused}");
    server.stopped().await;
}

/// SERVE-3: a stopping server waits for the requests in progress until the limit.
#[tokio::test]
async fn a_panic_of_a_handler_is_a_500_and_the_server_goes_on() {
    let mut routes = routes();
    let panics = Route::get("/panic", |request: http::Request<Bytes>| async move {
        assert!(request.uri().path().is_empty(), "a handler panics");
        text_response(StatusCode::OK, "never")
    });
    routes.add(panics).unwrap();
    let server = serve(ServerOptions::new(), routes).await;
    assert_eq!(status(&server.get("/panic", "").await), 500);
    assert_eq!(status(&server.get("/hello", "").await), 200);
    server.stopped().await;
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused() {
    let mut routes = Routes::new();
    let echo = |request: http::Request<Bytes>| async move { ok(request.into_body()) };
    routes.add(Route::any("/echo", 8, echo)).unwrap();
    let server = serve(ServerOptions::new(), routes).await;
    let post = async |body: &str| {
        let mut stream = server.connect().await;
        let head = format!(
            "POST /echo HTTP/1.1\r\nHost: test\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        rest(&mut stream).await
    };
    assert!(post("12345678").await.ends_with("12345678"));
    assert_eq!(status(&post("123456789").await), 413);
    server.stopped().await;
}

/// A route with a handler that notifies `begun`, and then waits for `finish`.
fn slow(begun: &Arc<Notify>, finish: &Arc<Notify>) -> Route {
    let (begun, finish) = (Arc::clone(begun), Arc::clone(finish));
    Route::get("/slow", move |_| {
        let (begun, finish) = (Arc::clone(&begun), Arc::clone(&finish));
        async move {
            begun.notify_one();
            finish.notified().await;
            text_response(StatusCode::OK, "finished")
        }
    })
}

/// SERVE-3: a stopping server waits for the requests in progress until the limit.
#[tokio::test]
async fn a_stop_waits_for_the_requests_in_progress() {
    let (begun, finish) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let mut routes = routes();
    routes.add(slow(&begun, &finish)).unwrap();
    let server = serve(ServerOptions::new(), routes).await;
    // Connections without a complete request do not delay a stop: a new one, one with half a head, and an idle one.
    let _new = server.connect().await;
    let mut half = server.connect().await;
    half.write_all(b"GET /hello HTTP/1.1\r\nHo").await.unwrap();
    let stream = server.connect().await;
    let asked = tokio::spawn(async move { ask(stream, "/slow", "").await });
    soon(begun.notified()).await;
    server.stop.cancel();
    assert_eq!(rest(&mut half).await, "");
    // The address is free before the request in progress has ended.
    assert!(TcpStream::connect(server.address).await.is_err());
    finish.notify_one();
    let response = soon(asked).await.unwrap();
    assert!(response.ends_with("finished\n"), "{response}");
    soon(server.task).await.unwrap();
}

/// SERVE-3: a stop ends the streams, and no request that came after a stream on its connection.
#[tokio::test]
async fn a_stop_ends_streams_and_no_later_request_of_their_connections() {
    let (begun, finish) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let mut routes = routes();
    routes.add(slow(&begun, &finish)).unwrap();
    let part = || stream::iter([Bytes::from_static(b"part")]);
    let short = move |_| async move { stream_response("text/plain", part()) };
    routes.add(Route::get("/short", short)).unwrap();
    let endless =
        move |_| async move { stream_response("text/plain", part().chain(stream::pending())) };
    routes.add(Route::get("/endless", endless)).unwrap();
    let server = serve(ServerOptions::new(), routes).await;
    let mut endless = begin(&server, "/endless", "part").await;
    let mut used = begin(&server, "/short", "\r\n0\r\n\r\n").await;
    let asked = tokio::spawn(async move {
        used.write_all(b"GET /slow HTTP/1.1\r\nHost: test\r\n\r\n")
            .await
            .unwrap();
        rest(&mut used).await
    });
    soon(begun.notified()).await;
    server.stop.cancel();
    assert_eq!(rest(&mut endless).await, "");
    finish.notify_one();
    let response = soon(asked).await.unwrap();
    assert!(response.ends_with("finished\n"), "{response}");
    soon(server.task).await.unwrap();
}

/// Sends a GET on a new connection, and reads the response until it has `end`.
async fn begin(server: &Running, path: &str, end: &str) -> TcpStream {
    let mut stream = server.connect().await;
    let request = format!("GET {path} HTTP/1.1\r\nHost: test\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut response = Vec::new();
    while !response
        .windows(end.len())
        .any(|part| part == end.as_bytes())
    {
        let read = soon(stream.read_buf(&mut response)).await.unwrap();
        assert!(read > 0, "{path} ended early");
    }
    stream
}

#[tokio::test]
async fn an_address_in_use_is_an_error_that_names_it() {
    let server = serve(ServerOptions::new(), routes()).await;
    let address = ListenAddress::from(server.address);
    let error = Server::bind("second", &address, ServerOptions::new()).await;
    let error = error.unwrap_err();
    assert!(matches!(error, Error::Listen { .. }));
    let text = error.to_string();
    assert!(
        text.contains("second") && text.contains(&server.address.to_string()),
        "{text}"
    );
    server.stopped().await;
    let off = Server::bind("off", &ListenAddress::from("0"), ServerOptions::new()).await;
    assert!(matches!(off, Err(Error::Address { .. })));
    let all = Server::bind("all", &ListenAddress::from(":0"), ServerOptions::new()).await;
    assert_ne!(all.unwrap().local_address().port(), 0);
}

#[tokio::test]
async fn metrics_are_sent_as_text_and_compressed_on_request() {
    let registry = Registry::new();
    let counter = IntCounter::new("tries_total", "Tries").unwrap();
    registry.register(Box::new(counter.clone())).unwrap();
    counter.inc();
    let mut routes = Routes::new();
    routes
        .add(Route::get("/metrics", MetricsPage::new(registry)))
        .unwrap();
    let server = serve(ServerOptions::new(), routes).await;
    let plain = server.get("/metrics", "").await;
    assert!(
        plain.contains("content-type: text/plain; version=0.0.4"),
        "{plain}"
    );
    assert!(plain.ends_with("tries_total 1\n"), "{plain}");
    let packed = server.get("/metrics", "Accept-Encoding: gzip\r\n").await;
    assert!(packed.contains("content-encoding: gzip"), "{packed}");
    server.stopped().await;
}
