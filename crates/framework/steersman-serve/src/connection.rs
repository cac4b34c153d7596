//! Driver: one connection, from the handshake through its requests to its end.

use std::convert::Infallible;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::server::Acceptor;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use crate::limits::Limits;
use crate::routes::Routes;
use crate::tls::Certificates;
use crate::tracked_connection::{ResponseBody, TrackedConnection};

pub(crate) struct ConnectionServer {
    pub(crate) name: String,
    pub(crate) routes: Routes,
    pub(crate) certificates: Option<Arc<Certificates>>,
    pub(crate) limits: Limits,
    pub(crate) stop: CancellationToken,
}

/// The response to a client that speaks plain HTTP to an HTTPS server, as in Go.
const NO_TLS: &[u8] =
    b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";
/// How long a stopping server keeps a connection without a response to come, so that its last response can be sent.
const QUIET: Duration = Duration::from_secs(1);
/// The number of concurrent requests per HTTP/2 connection.
const STREAMS: u32 = 32;

/// Serves one connection until the client closes it, it exceeds a limit (SERVE-1), or the server stops.
pub(crate) async fn serve_connection(
    stream: TcpStream,
    connection: &Arc<TrackedConnection>,
    server: &Arc<ConnectionServer>,
) {
    // Without `TCP_NODELAY`, a small response waits for the acknowledgement of the previous one. A failure to set it
    // only makes responses slower.
    let _ = stream.set_nodelay(true);
    let Some(certificates) = &server.certificates else {
        return serve_http1(stream, connection, server).await;
    };
    let shaken = tokio::select! {
        biased;
        () = server.stop.cancelled() => return,
        () = connection.close.cancelled() => return,
        () = connection.overdue() => return,
        shaken = shake_hands(stream, certificates) => shaken,
    };
    let stream = match shaken {
        Ok(Some(stream)) => stream,
        Ok(None) => return,
        Err(error) => {
            // The client does not trust the certificate, or does not speak TLS.
            debug!(server = server.name, %error, "a TLS handshake failed");
            return;
        }
    };
    let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    connection.on(|phase, now| phase.handle_handshake(is_http2, now));
    if is_http2 {
        serve_http2(stream, connection, server).await;
    } else {
        serve_http1(stream, connection, server).await;
    }
}

/// Returns the client's TLS stream; `None` after a response to a client that speaks plain HTTP.
async fn shake_hands(
    mut stream: TcpStream,
    certificates: &Certificates,
) -> std::io::Result<Option<TlsStream<TcpStream>>> {
    let mut first = [0];
    // The first byte of a TLS record is below 32; an HTTP request starts with a letter.
    if stream.peek(&mut first).await? == 0 {
        return Ok(None);
    }
    if first[0].is_ascii_uppercase() {
        // The request is read first: closing a socket with unread data resets the connection and loses the response.
        let mut head = [0; 4096];
        let _ = stream.read(&mut head).await?;
        stream.write_all(NO_TLS).await?;
        stream.shutdown().await?;
        return Ok(None);
    }
    let hello = LazyConfigAcceptor::new(Acceptor::default(), stream).await?;
    // SERVE-4: uses the current certificate.
    let Some(config) = certificates.current().await else {
        return Err(std::io::Error::other("the server has no certificate yet"));
    };
    hello.into_stream(config).await.map(Some)
}

async fn serve_http1(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    connection: &Arc<TrackedConnection>,
    server: &Arc<ConnectionServer>,
) {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        // hyper's limit is off, because `ConnectionPhase` limits the time of a head from its first byte.
        .header_read_timeout(None)
        .max_buf_size(server.limits.head_buffer());
    let service = service_fn(|request| serve_request(request, connection, server));
    let stream = TokioIo::new(connection.track(stream));
    let protocol = builder.serve_connection(stream, service);
    drive(
        protocol,
        http1::Connection::graceful_shutdown,
        connection,
        server,
    )
    .await;
}

async fn serve_http2(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    connection: &Arc<TrackedConnection>,
    server: &Arc<ConnectionServer>,
) {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    let head = u32::try_from(server.limits.head_buffer()).unwrap_or(u32::MAX);
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(head);
    let (tracked_connection, shared) = (Arc::clone(connection), Arc::clone(server));
    let service = service_fn(move |request| {
        // Each HTTP/2 stream has a separate task.
        let (connection, server) = (Arc::clone(&tracked_connection), Arc::clone(&shared));
        async move { serve_request(request, &connection, &server).await }
    });
    let stream = TokioIo::new(connection.track(stream));
    let protocol = builder.serve_connection(stream, service);
    drive(
        protocol,
        http2::Connection::graceful_shutdown,
        connection,
        server,
    )
    .await;
}

async fn serve_request(
    request: Request<Incoming>,
    connection: &Arc<TrackedConnection>,
    server: &Arc<ConnectionServer>,
) -> Result<Response<ResponseBody>, Infallible> {
    let in_progress = connection.begin_request();
    let response = server.routes.answer(request, server.limits.request).await;
    Ok(ResponseBody::of(response, in_progress))
}

/// Waits until the connection has had no response to send for a while. A stop does not wait longer, because the protocol waits
/// until the client closes the connection, which a lost client never does (SERVE-3).
async fn quiet(connection: &TrackedConnection) {
    loop {
        tokio::time::sleep(QUIET).await;
        let since = connection.done_since();
        let now = tokio::time::Instant::now().into_std();
        if since.is_some_and(|since| now.saturating_duration_since(since) >= QUIET) {
            return;
        }
    }
}

async fn drive<C: Future<Output = hyper::Result<()>>>(
    protocol: C,
    shut_down: fn(Pin<&mut C>),
    connection: &TrackedConnection,
    server: &ConnectionServer,
) {
    let mut protocol = pin!(protocol);
    let mut is_stopping = false;
    loop {
        tokio::select! {
            biased;
            ended = protocol.as_mut() => {
                if let Err(error) = ended {
                    debug!(server = server.name, %error, "a connection ended early");
                }
                return;
            }
            () = connection.close.cancelled() => return,
            () = connection.overdue() => return,
            () = quiet(connection), if is_stopping => return,
            () = server.stop.cancelled(), if !is_stopping => {
                if connection.can_stop() {
                    return;
                }
                is_stopping = true;
                // SERVE-3: requests in progress still get their responses.
                shut_down(protocol.as_mut());
            }
        }
    }
}
