//! Tests clients that would cost a server much time or memory: each meets a limit, and the server keeps working.

use std::time::Duration;

use http::StatusCode;
use steersman_serve::{Limits, Route, ServerOptions, TlsOptions, text_response};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::world::{rest, routes, serve, soon, status};

const SHORT: Duration = Duration::from_millis(200);

fn with(limits: Limits) -> ServerOptions {
    ServerOptions::new().limits(limits)
}

/// SERVE-1: a slow or oversized request ends its connection, and the server goes on.
#[tokio::test]
async fn a_head_that_never_ends_is_cut_off() {
    let server = serve(with(Limits::new().read_header_timeout(SHORT)), routes()).await;
    let mut silent = server.connect().await;
    let mut slow = server.connect().await;
    let drip = async {
        // Sends one byte at a time, as the tool Slowloris does, until the server closes the connection.
        slow.write_all(b"GET /hello HTTP/1.1\r\n").await.unwrap();
        while slow.write_all(b"a: b\r\n").await.is_ok() {
            tokio::time::sleep(SHORT / 10).await;
        }
    };
    soon(drip).await;
    assert_eq!(rest(&mut silent).await, "");
    assert_eq!(status(&server.get("/hello", "").await), 200);
    server.stopped().await;
}

/// SERVE-1: a slow or oversized request ends its connection, and the server goes on.
#[tokio::test]
async fn an_idle_connection_is_closed_and_so_is_half_a_second_request() {
    let limits = Limits::new().idle_timeout(SHORT).read_header_timeout(SHORT);
    let server = serve(with(limits), routes()).await;
    for more in ["", "GET /hel"] {
        let mut stream = server.connect().await;
        let request = format!("GET /hello HTTP/1.1\r\nHost: test\r\n\r\n{more}");
        stream.write_all(request.as_bytes()).await.unwrap();
        let response = rest(&mut stream).await;
        assert!(response.ends_with("hello\n"), "{response}");
    }
    server.stopped().await;
}

/// SERVE-1: a slow or oversized request ends its connection, and the server goes on.
#[tokio::test]
async fn a_head_that_is_too_large_is_refused() {
    let server = serve(with(Limits::new().max_header_bytes(16 << 10)), routes()).await;
    let large = format!("X-Large: {}\r\n", "x".repeat(20 << 10));
    assert_eq!(status(&server.get("/hello", &large).await), 431);
    let fits = format!("X-Large: {}\r\n", "x".repeat(8 << 10));
    assert_eq!(status(&server.get("/hello", &fits).await), 200);
    server.stopped().await;
}

/// SERVE-1: a slow or oversized request ends its connection, and the server goes on.
#[tokio::test]
async fn half_a_handshake_is_cut_off() {
    let options = with(Limits::new().handshake_timeout(SHORT)).tls(TlsOptions::self_signed());
    let server = serve(options, routes()).await;
    let mut silent = server.connect().await;
    let mut half = server.connect().await;
    // The start of a TLS record of 256 bytes.
    half.write_all(&[22, 3, 1, 1, 0, 1]).await.unwrap();
    assert_eq!(rest(&mut silent).await, "");
    rest(&mut half).await;
    // A client that speaks plain HTTP gets a response that says so.
    let plain = server.get("/hello", "").await;
    assert_eq!(status(&plain), 400);
    server.stopped().await;
}

/// SERVE-1: a slow or oversized request ends its connection, and the server goes on.
#[tokio::test]
async fn a_handler_that_hangs_is_dropped() {
    let mut routes = routes();
    let hangs = Route::get("/hang", |_| async {
        std::future::pending::<()>().await;
        text_response(StatusCode::OK, "never")
    });
    routes.add(hangs).unwrap();
    let server = serve(with(Limits::new().request_timeout(SHORT)), routes).await;
    assert_eq!(status(&server.get("/hang", "").await), 503);
    server.stopped().await;
}

/// SERVE-2: the number of open connections stays within the limit.
#[tokio::test]
async fn many_silent_connections_do_not_keep_a_client_out() {
    let server = serve(with(Limits::new().max_connections(3)), routes()).await;
    let mut silent = Vec::new();
    for _ in 0..20 {
        silent.push(server.connect().await);
    }
    assert_eq!(status(&server.get("/hello", "").await), 200);
    // The oldest connections were closed for the new ones.
    assert_eq!(soon(silent[0].read(&mut [0])).await.unwrap_or(0), 0);
    server.stopped().await;
}

/// SERVE-2: the number of open connections stays within the limit.
#[tokio::test]
async fn a_connection_with_a_request_makes_no_room() {
    let mut routes = routes();
    let (begun, mut begins) = tokio::sync::mpsc::unbounded_channel();
    let hangs = Route::get("/hang", move |_| {
        begun.send(()).unwrap();
        std::future::pending()
    });
    routes.add(hangs).unwrap();
    let limits = Limits::new().max_connections(1).shutdown_timeout(SHORT);
    let server = serve(with(limits), routes).await;
    let mut busy = server.connect().await;
    busy.write_all(b"GET /hang HTTP/1.1\r\nHost: test\r\n\r\n")
        .await
        .unwrap();
    soon(begins.recv()).await.unwrap();
    let mut refused = server.connect().await;
    assert_eq!(rest(&mut refused).await, "");
    // SERVE-3: the wait of a stop is limited.
    server.stop.cancel();
    soon(server.task).await.unwrap();
    assert_eq!(rest(&mut busy).await, "");
}

/// SERVE-3: a stopping server waits for the requests in progress until the limit.
#[tokio::test]
async fn a_client_that_does_not_read_its_response_delays_no_stop() {
    let mut routes = routes();
    let (started, mut answered) = tokio::sync::mpsc::unbounded_channel();
    let large = Route::get("/large", move |_| {
        started.send(()).unwrap();
        // The response is larger than the buffers of two sockets.
        std::future::ready(crate::world::ok(vec![b'x'; 32 << 20]))
    });
    routes.add(large).unwrap();
    let server = serve(with(Limits::new().shutdown_timeout(Duration::MAX)), routes).await;
    let mut stream = server.connect().await;
    stream
        .write_all(b"GET /large HTTP/1.1\r\nHost: test\r\n\r\n")
        .await
        .unwrap();
    soon(answered.recv()).await.unwrap();
    server.stopped().await;
    drop(stream);
}
