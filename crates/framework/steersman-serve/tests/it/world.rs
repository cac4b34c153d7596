//! Helpers: a server on a free port, and its clients.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use steersman_serve::{ListenAddress, Route, Routes, Server, ServerOptions, text_response};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// A running server.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) stop: CancellationToken,
    pub(crate) task: JoinHandle<()>,
}

impl Running {
    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Sends a GET on a new connection, and returns the whole response.
    pub(crate) async fn get(&self, path: &str, headers: &str) -> String {
        ask(self.connect().await, path, headers).await
    }

    pub(crate) async fn stopped(self) {
        self.stop.cancel();
        soon(self.task).await.unwrap();
    }
}

/// Sends a GET on a stream, and returns the whole response.
pub(crate) async fn ask<S>(mut stream: S, path: &str, headers: &str) -> String
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    rest(&mut stream).await
}

/// Reads until the server closes the connection.
pub(crate) async fn rest<S: AsyncRead + Unpin>(stream: &mut S) -> String {
    let mut text = Vec::new();
    // A reset of the connection also ends the response.
    let _ = soon(stream.read_to_end(&mut text)).await;
    String::from_utf8_lossy(&text).into_owned()
}

/// Returns the status of a response.
pub(crate) fn status(response: &str) -> u16 {
    let code = response.split(' ').nth(1).unwrap_or_default();
    code.parse().unwrap_or_default()
}

pub(crate) fn routes() -> Routes {
    let mut routes = Routes::new();
    routes
        .add(Route::get("/hello", |_| async {
            text_response(StatusCode::OK, "hello")
        }))
        .unwrap();
    routes
}

pub(crate) async fn serve(options: ServerOptions, routes: Routes) -> Running {
    let address = ListenAddress::from("127.0.0.1:0");
    let server = Server::bind("test", &address, options).await.unwrap();
    let address = server.local_address();
    let stop = CancellationToken::new();
    let task = tokio::spawn(server.run(routes, stop.clone()));
    Running {
        address,
        stop,
        task,
    }
}

/// Waits with a time limit, so that a failing test does not hang.
pub(crate) async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), what)
        .await
        .unwrap()
}

/// Makes a response of a text.
pub(crate) fn ok(text: impl Into<Bytes>) -> http::Response<Bytes> {
    http::Response::new(text.into())
}
