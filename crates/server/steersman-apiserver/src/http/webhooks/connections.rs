//! Driver: HTTPS connections to webhooks. As in Go's client, an idle connection serves later calls.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Uri};
use http_body_util::Full;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use rustls::pki_types::ServerName;
use rustls::{CertificateError, ClientConfig, OtherError};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::http::webhooks::trust::Trust;

/// The target of a connection: its address, and the host names and CA bundle against which its certificate was
/// verified. An idle connection is used again only for an equal target.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Peer {
    pub(crate) address: (String, u16),
    pub(crate) name: String,
    /// A second host name for which the certificate may be valid instead.
    pub(crate) also: Option<String>,
    pub(crate) ca: Bytes,
}

#[derive(Default)]
pub(crate) struct IdleConnections {
    pool: Arc<Mutex<IdlePool>>,
}

#[derive(Default)]
struct IdlePool {
    by_peer: BTreeMap<Peer, Vec<Idle>>,
    /// Whether the task that closes expired connections runs. The task ends when there are no idle connections.
    is_swept: bool,
}

struct Idle {
    connection: Connection,
    since: Instant,
}

/// A connection that takes one request at a time. The call that uses the connection also polls it. If a task polled it,
/// each call would wait for two more wake-ups of tasks.
pub(crate) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    /// The future that speaks HTTP/1.1 on the socket, and must be polled; `None` once the connection has ended.
    protocol: Option<Pin<Box<Protocol>>>,
}

/// The half of a connection that reads and writes the socket. The other half, `SendRequest`, gives requests to it.
type Protocol = http1::Connection<TokioIo<TlsStream<TcpStream>>, Full<Bytes>>;

/// How long an idle connection is kept. Go keeps one for 90 s; but a webhook in a test may serve one connection at a
/// time, and a new connection then waits until the idle one is closed.
const IDLE_TIME: Duration = Duration::from_secs(1);
/// Maximum number of idle connections per webhook, as in Kubernetes' client for Go.
const MOST: usize = 25;

impl IdleConnections {
    pub(crate) fn take(&self, peer: &Peer) -> Option<Connection> {
        let mut pool = self.pool.lock();
        pool.close_expired();
        let taken = pool.by_peer.get_mut(peer)?.pop();
        taken.map(|idle| idle.connection)
    }

    /// Keeps an idle connection for a second, for further calls. Its last response must have been read to the end.
    pub(crate) fn keep(&self, peer: Peer, connection: Connection) {
        if connection.protocol.is_none() {
            return;
        }
        let mut pool = self.pool.lock();
        let idle = pool.by_peer.entry(peer).or_default();
        if idle.len() >= MOST {
            connection.close();
            return;
        }
        let since = Instant::now();
        idle.push(Idle { connection, since });
        if !pool.is_swept {
            pool.is_swept = true;
            tokio::spawn(sweep(Arc::clone(&self.pool)));
        }
    }
}

impl IdlePool {
    fn close_expired(&mut self) {
        self.by_peer.retain(|_, idle| {
            let expired = idle.extract_if(.., |idle| idle.since.elapsed() >= IDLE_TIME);
            expired.for_each(|idle| idle.connection.close());
            !idle.is_empty()
        });
    }

    /// Closes the idle connections that have expired, and returns when the next one expires; `None` if none is left.
    fn sweep(&mut self) -> Option<Instant> {
        self.close_expired();
        let oldest = self.by_peer.values().flatten().map(|idle| idle.since).min();
        self.is_swept = oldest.is_some();
        oldest.map(|since| since + IDLE_TIME)
    }
}

async fn sweep(pool: Arc<Mutex<IdlePool>>) {
    let mut next = Some(Instant::now() + IDLE_TIME);
    while let Some(expiry) = next {
        sleep_until(expiry).await;
        next = pool.lock().sweep();
    }
}

pub(crate) async fn connect(peer: &Peer) -> Result<Connection, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let trust = Trust::of(&peer.ca, peer.also.clone(), Arc::clone(&provider))?;
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(trust))
        .with_no_client_auth();
    let name = ServerName::try_from(peer.name.clone()).map_err(|error| error.to_string())?;
    let (host, port) = &peer.address;
    let stream = TcpStream::connect((host.as_str(), *port))
        .await
        .map_err(|error| undialled(host, *port, &error))?;
    // With Nagle's algorithm, the end of an AdmissionReview may wait until the webhook acknowledged the part before.
    stream
        .set_nodelay(true)
        .map_err(|error| error.to_string())?;
    let connector = TlsConnector::from(Arc::new(config));
    let stream = connector.connect(name, stream).await;
    let stream = stream.map_err(|error| untrusted(&error))?;
    let (sender, protocol) = http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|error| error.to_string())?;
    let protocol = Some(Box::pin(protocol));
    Ok(Connection { sender, protocol })
}

impl Connection {
    /// Sends a request, and returns the result of `read` on the response. Of the URL only the path and the query are
    /// sent; the caller sets the `Host` header.
    ///
    /// # Errors
    /// A description of the problem. The webhook may have received the request.
    pub(crate) async fn exchange<T>(
        &mut self,
        mut request: Request<Full<Bytes>>,
        read: impl AsyncFnOnce(http::Response<hyper::body::Incoming>) -> T,
    ) -> Result<T, String> {
        let path = request.uri().path_and_query().cloned();
        *request.uri_mut() = path.map_or_else(|| Uri::from_static("/"), Uri::from);
        let (sender, protocol) = (&mut self.sender, &mut self.protocol);
        let eof = |_| "EOF".to_owned();
        let sent = async {
            sender.ready().await?;
            sender.send_request(request).await
        };
        let response = drive(protocol, sent).await.map_err(eof)?;
        Ok(drive(protocol, read(response)).await)
    }

    /// Closes the connection, in a task because TLS first sends the message `close_notify`.
    fn close(self) {
        drop(self.sender);
        self.protocol.map(tokio::spawn);
    }
}

/// Awaits `part`, a step of an exchange, and polls the connection meanwhile. Each poll polls the part, then the
/// connection, then the part again, so that data which has just arrived is used without another wake-up.
async fn drive<T>(protocol: &mut Option<Pin<Box<Protocol>>>, part: impl Future<Output = T>) -> T {
    let mut part = pin!(part);
    poll_fn(|context| {
        if let done @ Poll::Ready(_) = part.as_mut().poll(context) {
            return done;
        }
        // A connection that has ended is not polled again: the part then fails, or has received all that it needs.
        protocol.take_if(|protocol| protocol.as_mut().poll(context).is_ready());
        part.as_mut().poll(context)
    })
    .await
}

fn undialled(host: &str, port: u16, error: &std::io::Error) -> String {
    let address = if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    };
    match error.kind() {
        std::io::ErrorKind::ConnectionRefused => {
            format!("dial tcp {address}: connect: connection refused")
        }
        _ if host.parse::<std::net::IpAddr>().is_err() => {
            format!("dial tcp: lookup {host}: no such host")
        }
        _ => format!("dial tcp {address}: {error}"),
    }
}

/// Returns the error message for a failed TLS handshake; for a refused certificate in the words of Go's TLS.
fn untrusted(error: &std::io::Error) -> String {
    let source = error.get_ref().and_then(|source| source.downcast_ref());
    match source {
        Some(rustls::Error::InvalidCertificate(CertificateError::Other(OtherError(why)))) => {
            format!("tls: failed to verify certificate: {why}")
        }
        Some(rustls::Error::InvalidCertificate(why)) => {
            format!("tls: failed to verify certificate: x509: {why}")
        }
        _ => error.to_string(),
    }
}
