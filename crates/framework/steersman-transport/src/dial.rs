//! Driver: opens a connection: TCP, the tunnel of a proxy, TLS, and the negotiation of HTTP/1.1 or HTTP/2.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, StreamExt as _};
use http::Uri;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use kube_client::Config;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tower::{BoxError, ServiceExt as _};

use crate::credentials::Credentials;
use crate::explain::chain;
use crate::options::ConnectionOptions;
use crate::table::Protocol;
use crate::tunnel::Proxy;

/// The number of unanswered TCP keepalive probes after which the system closes a connection.
const PROBES: u32 = 3;
/// The time after which another attempt to connect starts, in parallel to the earlier ones.
const TRY_AGAIN: Duration = Duration::from_secs(2);
/// The maximal number of attempts for one TCP connection.
const ATTEMPTS: usize = 15;
/// The time limit of a TLS handshake, as in Go's client.
const HANDSHAKE: Duration = Duration::from_secs(10);

pub(crate) trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Io for S {}

/// A byte stream to the server, with the negotiated protocol.
pub(crate) struct Dialed {
    pub(crate) io: Box<dyn Io>,
    pub(crate) protocol: Protocol,
    /// The generation of the credentials with which the stream was opened.
    pub(crate) generation: u64,
}

/// Opens a byte stream to a server. The argument is whether to offer only HTTP/1.1.
pub(crate) type Dial = dyn Fn(bool) -> BoxFuture<'static, Result<Dialed, BoxError>> + Send + Sync;

pub(crate) struct Dialer {
    connector: HttpConnector,
    server: Uri,
    proxy: Option<Proxy>,
    /// The name that the server's certificate must have; `None` without TLS.
    name: Option<ServerName<'static>>,
    credentials: Arc<Credentials>,
    /// The time limit of TCP, proxy tunnel and TLS handshake together; `None` for no limit.
    limit: Option<Duration>,
    http1_only: bool,
}

impl Dialer {
    pub(crate) fn new(
        config: &Config,
        credentials: Arc<Credentials>,
        options: &ConnectionOptions,
    ) -> Result<Self, String> {
        let https = config.cluster_url.scheme_str() == Some("https");
        let name = match (https, &config.tls_server_name) {
            (false, _) => None,
            (true, Some(name)) => Some(server_name(name)?),
            (true, None) => Some(server_name(config.cluster_url.host().unwrap_or_default())?),
        };
        Ok(Self {
            connector: connector(options),
            server: config.cluster_url.clone(),
            proxy: config.proxy_url.as_ref().map(Proxy::new).transpose()?,
            name,
            credentials,
            limit: config.connect_timeout,
            http1_only: options.http1_only,
        })
    }

    /// Returns the dialer as a closure, for a pool.
    pub(crate) fn into_dial(self) -> Box<Dial> {
        let this = Arc::new(self);
        Box::new(move |http1| {
            let this = Arc::clone(&this);
            async move { this.dial(http1).await }.boxed()
        })
    }

    /// Opens a byte stream with the current files of the credentials.
    async fn dial(&self, http1: bool) -> Result<Dialed, BoxError> {
        self.credentials.renew(self.credentials.changes()).await;
        let known = self.credentials.changes();
        match self.in_time(http1).await {
            // CONN-4: the files may have changed since the last read, so the dial is repeated with new credentials.
            Err(_) if self.credentials.renew(known).await => self.in_time(http1).await,
            dialed => dialed,
        }
    }

    async fn in_time(&self, http1: bool) -> Result<Dialed, BoxError> {
        match self.limit {
            None => self.once(http1).await,
            Some(limit) => match timeout(limit, self.once(http1)).await {
                Ok(dialed) => dialed,
                Err(_) => Err(format!("no connection within {} s", limit.as_secs()).into()),
            },
        }
    }

    async fn once(&self, http1: bool) -> Result<Dialed, BoxError> {
        let (tls, generation) = self.credentials.tls();
        let stream = self.connect().await?;
        let (Some(name), Some(tls)) = (&self.name, tls) else {
            return Ok(Dialed {
                io: Box::new(stream),
                protocol: Protocol::Http1,
                generation,
            });
        };
        let mut tls = ClientConfig::clone(&tls);
        tls.alpn_protocols = match http1 || self.http1_only {
            true => vec![b"http/1.1".to_vec()],
            false => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
        };
        let stream = secure(tls, name.clone(), stream).await?;
        let protocol = match stream.get_ref().1.alpn_protocol() {
            Some(b"h2") => Protocol::Http2,
            _ => Protocol::Http1,
        };
        Ok(Dialed {
            io: Box::new(stream),
            protocol,
            generation,
        })
    }

    /// Connects to the server over TCP, possibly through the tunnel of a proxy.
    async fn connect(&self) -> Result<TcpStream, BoxError> {
        let Some(proxy) = &self.proxy else {
            return self.tcp(&self.server).await;
        };
        let stream = self.tcp(&proxy.address).await;
        let mut stream = stream.map_err(|error| {
            let address = proxy.address.authority();
            let address = address.map_or("", |address| address.as_str());
            format!("the proxy {address} cannot be reached: {}", chain(&*error))
        })?;
        let target = target(&self.server);
        let opened = timeout(HANDSHAKE, proxy.tunnel(&mut stream, &target)).await;
        opened.map_err(|_| {
            let waited = HANDSHAKE.as_secs();
            format!("the proxy opens no tunnel to {target} within {waited} s")
        })??;
        Ok(stream)
    }

    async fn tcp(&self, to: &Uri) -> Result<TcpStream, BoxError> {
        let attempt = || self.connector.clone().oneshot(to.clone());
        let stream: TokioIo<TcpStream> = first_to_connect(attempt).await?;
        Ok(stream.into_inner())
    }
}

fn target(server: &Uri) -> String {
    let is_https = server.scheme_str() == Some("https");
    let default = if is_https { 443 } else { 80 };
    let port = server.port_u16().unwrap_or(default);
    format!("{}:{port}", server.host().unwrap_or_default())
}

/// Connects over TCP with several attempts, of which the first successful one wins.
///
/// The system repeats the first packet of an attempt at growing intervals, so an attempt may notice the return of an
/// unreachable host half a minute late. A new attempt sends its first packet at once.
async fn first_to_connect<T, E, F>(attempt: impl Fn() -> F) -> Result<T, E>
where
    F: Future<Output = Result<T, E>>,
{
    let mut attempts = FuturesUnordered::from_iter([attempt()]);
    loop {
        tokio::select! {
            Some(ended) = attempts.next() => return ended,
            () = sleep(TRY_AGAIN), if attempts.len() < ATTEMPTS => attempts.push(attempt()),
        }
    }
}

/// Performs the TLS handshake. The time limit matters if a proxy accepts connections for an unreachable server.
async fn secure<S: AsyncRead + AsyncWrite + Unpin>(
    tls: ClientConfig,
    name: ServerName<'static>,
    stream: S,
) -> Result<TlsStream<S>, BoxError> {
    let shaken = TlsConnector::from(Arc::new(tls)).connect(name, stream);
    match timeout(HANDSHAKE, shaken).await {
        Ok(secured) => Ok(secured?),
        Err(_) => Err(format!("no TLS handshake within {} s", HANDSHAKE.as_secs()).into()),
    }
}

fn connector(options: &ConnectionOptions) -> HttpConnector {
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    // Without `TCP_NODELAY`, a small request waits until the previous one is acknowledged.
    connector.set_nodelay(true);
    // CONN-2: TCP keepalive detects a dead HTTP/1.1 connection as fast as pings detect a dead HTTP/2 connection.
    if let Some((interval, answer)) = options.pings() {
        let second = Duration::from_secs(1);
        connector.set_keepalive(Some(interval.max(second)));
        connector.set_keepalive_interval(Some((answer / PROBES).max(second)));
        connector.set_keepalive_retries(Some(PROBES));
    }
    connector
}

fn server_name(host: &str) -> Result<ServerName<'static>, String> {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    ServerName::try_from(bare.to_owned())
        .map_err(|error| format!("{host:?} is no name that a certificate can have: {error}"))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::pending;

    use rustls::RootCertStore;
    use rustls::crypto::ring;
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_host_that_dropped_packets_is_connected_to_soon_after_its_return() {
        let (start, away) = (Instant::now(), Duration::from_secs(16));
        let attempts = Cell::new(0);
        let attempt = || {
            attempts.set(attempts.get() + 1);
            let begun = start.elapsed();
            async move {
                if begun < away {
                    // This attempt hangs, as if the system no longer repeated its first packet.
                    pending::<()>().await;
                }
                Ok::<_, BoxError>(begun)
            }
        };
        let connected = timeout(Duration::from_secs(30), first_to_connect(attempt));
        assert!(connected.await.unwrap().unwrap() <= away + TRY_AGAIN);
        assert!(attempts.get() <= ATTEMPTS, "{}", attempts.get());
    }

    /// CONN-2: without HTTP/2, the system probes an idle connection at the times of the pings.
    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn tcp_keepalive_gives_up_a_dead_link_when_pings_would() {
        use rustix::net::sockopt;

        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server: Uri = format!("http://{}", listener.local_addr().unwrap())
            .parse()
            .unwrap();
        let options = ConnectionOptions::default();
        let connection = connector(&options).oneshot(server).await.unwrap();
        let connection = connection.into_inner();
        let (interval, answer) = options.pings().unwrap();
        assert!(sockopt::socket_keepalive(&connection).unwrap());
        assert_eq!(sockopt::tcp_keepidle(&connection).unwrap(), interval);
        let probes = sockopt::tcp_keepcnt(&connection).unwrap();
        assert_eq!(
            sockopt::tcp_keepintvl(&connection).unwrap() * probes,
            answer
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_is_refused_is_tried_once() {
        let attempts = Cell::new(0);
        let refused = first_to_connect(|| {
            attempts.set(attempts.get() + 1);
            async { Err::<(), _>("refused") }
        });
        assert_eq!(refused.await, Err("refused"));
        assert_eq!(attempts.get(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_does_not_answer_the_handshake_is_given_up_after_10_s() {
        let (ours, _theirs) = tokio::io::duplex(1 << 16);
        let tls = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(RootCertStore::empty())
            .with_no_client_auth();
        let name = ServerName::try_from("server").unwrap();
        let begun = Instant::now();
        let error = secure(tls, name, ours).await.unwrap_err();
        assert!(error.to_string().contains("10 s"), "{error}");
        assert_eq!(begun.elapsed(), HANDSHAKE);
    }
}
