//! Driver: the HTTPS listener and its connections.

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;
use std::{fmt, io};

use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, StreamExt as _};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use jiff::Timestamp;
use rustls::pki_types::CertificateDer;
use steersman_auth::{User, user_of};
use steersman_registry::{Registry, reachable_address};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, ToSocketAddrs};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::error::Error;
use crate::http::{ApiService, Caller};
use crate::kubeconfig;
use crate::tls::{ClientAuthorities, TlsIdentity};

use super::socket::Socket;
use super::{ApiServer, secret};

const HANDSHAKE: Duration = Duration::from_secs(10);
/// The answer to a client that speaks HTTP without TLS. Go's HTTPS servers send the same answer.
const NO_TLS: &[u8] =
    b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";
/// Time for the connections to send their last answers when the listener stops.
const GRACE: Duration = Duration::from_secs(5);
/// Time after which a connection of a stopping listener is closed if its client reads nothing (SRV-STOP-3).
const STALLED: Duration = Duration::from_secs(1);
/// Time that answers in progress have to end, when a simulated restart closes the connections.
const LAST_ANSWER: Duration = Duration::from_millis(100);
/// Maximum size of the headers of a request: 1 MiB, as in Go's servers.
const HEADERS: u32 = 1 << 20;
/// Pause of the listener after the operating system failed to accept a connection.
const REST: Duration = Duration::from_millis(50);

/// A server that is reachable over HTTPS. Dropping it stops the listener and ends its connections.
#[derive(Debug)]
#[must_use = "dropping it stops listening"]
pub struct Serving {
    listening: Arc<Listening>,
    address: SocketAddr,
    token: String,
}

#[derive(Debug)]
struct Listening {
    server: ApiServer,
    identity: TlsIdentity,
    stop: CancellationToken,
    tasks: TaskTracker,
    accepted: AtomicUsize,
}

impl ApiServer {
    /// Serves HTTPS on a socket that listens already; other machines can connect if the address of the socket allows
    /// it. Clients that connected before this call wait for the TLS handshake. So a program can bind its address before
    /// it reads its state: a client that was refused meanwhile would try again only at growing intervals.
    ///
    /// # Errors
    /// [`Error::Option`] for an unusable option, [`Error::Certificates`] if no certificates could be generated.
    pub fn serve_listener(&self, listener: TcpListener) -> Result<Serving, Error> {
        self.drive();
        Serving::start(self.clone(), self.stop.child_token(), listener)
    }
}

/// Binds a socket to an address, which other machines may reach only if `others` is set.
pub(super) async fn bind<A>(address: A, others: bool) -> Result<TcpListener, Error>
where
    A: ToSocketAddrs + fmt::Debug,
{
    let described = format!("{address:?}");
    let listen = |source| Error::Listen {
        address: described.clone(),
        source,
    };
    let resolved = tokio::net::lookup_host(address).await.map_err(listen)?;
    let resolved: Vec<SocketAddr> = resolved.collect();
    let mut exposed = resolved.iter().filter(|one| !one.ip().is_loopback());
    if let Some(address) = exposed.next().filter(|_| !others) {
        return Err(Error::NotLoopback { address: *address });
    }
    TcpListener::bind(resolved.as_slice()).await.map_err(listen)
}

impl Serving {
    fn start(
        server: ApiServer,
        stop: CancellationToken,
        listener: TcpListener,
    ) -> Result<Self, Error> {
        let problem = |registry: &mut Registry| registry.option_problem().cloned();
        if let Some(source) = server.context.with_registry(problem) {
            return Err(Error::Option { source });
        }
        let address = listener.local_addr().map_err(|source| Error::Listen {
            address: "a socket that is bound".to_owned(),
            source,
        })?;
        let identity = TlsIdentity::new(&server.pem, address.ip())?;
        let now = server.now();
        server.context.with_registry(|registry| {
            let clients = server.pem.clients.as_deref();
            registry.write_startup_objects((address, &identity.ca_pem, clients), now)
        });
        let token = server.admin_token.as_deref().map(str::to_owned);
        let token = server.add_token(token.unwrap_or_else(secret), User::admin(), false);
        let listening = Arc::new(Listening {
            server,
            identity,
            stop,
            tasks: TaskTracker::new(),
            accepted: AtomicUsize::new(0),
        });
        // Accepts only after the token is registered, because clients that have connected already may send it at once.
        let accepting = Arc::clone(&listening).run(listener);
        listening.tasks.spawn(accepting);
        Ok(Self {
            listening,
            address,
            token,
        })
    }

    /// Returns the address of the listener.
    pub fn addr(&self) -> SocketAddr {
        self.address
    }

    /// Returns `https://<address>`; with the loopback address if the listener listens on all addresses.
    pub fn url(&self) -> String {
        format!("https://{}", reachable_address(self.address))
    }

    /// Returns the number of TCP connections accepted so far, including connections that have ended.
    pub fn accepted(&self) -> usize {
        self.listening.accepted.load(Ordering::Relaxed)
    }

    /// Returns the certificate of the server's authority, in PEM.
    pub fn ca_pem(&self) -> &str {
        &self.listening.identity.ca_pem
    }

    /// Returns a kubeconfig for kubectl and other clients, with the authority's certificate and a token of
    /// [`User::admin`], which may do everything.
    pub fn kubeconfig(&self) -> String {
        kubeconfig::text(&self.url(), self.ca_pem(), &self.token)
    }

    /// Returns a kubeconfig for another user, with a token of that user.
    pub fn kubeconfig_for(&self, user: User) -> String {
        let token = self.listening.server.add_user(user);
        kubeconfig::text(&self.url(), self.ca_pem(), &token)
    }

    /// Writes the kubeconfig to a file that only its owner can read, on systems with file owners.
    /// Replaces a kubeconfig that an embedded server wrote; any other file is left unchanged.
    ///
    /// # Errors
    /// [`Error::WriteKubeconfig`] with the operating system's error, or with why the file must not be overwritten.
    pub fn write_kubeconfig(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        let path = path.as_ref();
        let written = spare(path).and_then(|()| write_private(path, &self.kubeconfig()));
        written.map_err(|source| Error::WriteKubeconfig {
            path: path.to_owned(),
            source,
        })
    }

    /// Stops listening, and returns when the last connection is closed. Watches end at once, with a last bookmark if
    /// they allow bookmarks; idle connections are closed. A request in flight that waits for longer than half a second,
    /// such as for a webhook, changes nothing and is answered 503 with `Retry-After`. A client has five seconds to read
    /// its last answers, and one second if it reads nothing.
    ///
    /// # Cancel safety
    /// Safe: the listener stops even if the future is dropped.
    pub async fn stop(self) {
        self.end();
        self.listening.tasks.close();
        self.listening.tasks.wait().await;
    }

    fn end(&self) {
        self.listening.stop.cancel();
        self.listening.server.context.faults.watches.end_stopped();
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.end();
    }
}

/// Refuses to overwrite a file that no embedded server wrote: the file may be the user's only kubeconfig.
fn spare(path: &Path) -> io::Result<()> {
    let is_file = path.metadata().is_ok_and(|found| found.is_file());
    let held = is_file.then(|| std::fs::read(path)).transpose()?;
    match kubeconfig::foreign(&String::from_utf8_lossy(&held.unwrap_or_default())) {
        None => Ok(()),
        Some(what) => Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            format!("it holds {what}, and stays as it is; name another file"),
        )),
    }
}

fn write_private(path: &Path, text: &str) -> io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)?.write_all(text.as_bytes())
}

impl Listening {
    async fn run(self: Arc<Self>, mut listener: TcpListener) {
        let Ok(address) = listener.local_addr() else {
            return;
        };
        let context = &self.server.context;
        let mut restarts = context.restarts.subscribe();
        loop {
            if let Some(left) = context.faults.away_for() {
                drop(listener);
                let again = async {
                    tokio::time::sleep(left).await;
                    listen_again(address).await
                };
                listener = tokio::select! {
                    () = self.stop.cancelled() => return,
                    listener = again => listener,
                };
            }
            let accepted = tokio::select! {
                () = self.stop.cancelled() => return,
                _restart = restarts.changed() => continue,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((socket, _)) => {
                    // Relaxed: the counter orders no other memory access.
                    self.accepted.fetch_add(1, Ordering::Relaxed);
                    self.tasks.spawn(Arc::clone(&self).serve(socket));
                }
                // Accepting fails for instance without free file descriptors, which other connections may release soon.
                Err(_) => tokio::time::sleep(REST).await,
            }
        }
    }

    /// Serves one connection until it ends, the listener stops, or a restart is simulated.
    async fn serve(self: Arc<Self>, socket: TcpStream) {
        let context = &self.server.context;
        // Without `TCP_NODELAY` each small answer waits for the acknowledgement of the previous one. If the socket
        // refuses the option, the connection is only slower.
        let _ = socket.set_nodelay(true);
        let handshake = tokio::time::timeout(HANDSHAKE, shake_hands(socket, &self.identity));
        let stream = tokio::select! {
            () = self.stop.cancelled() => return,
            shaken = handshake => match shaken {
                Ok(Ok(Some(stream))) => stream,
                // The client does not trust the certificate, is too slow, or speaks no TLS; `shake_hands` answers it.
                Ok(_) | Err(_) => return,
            },
        };
        let (socket, session) = stream.get_ref();
        let sent = socket.sent();
        let clients = self.identity.clients.as_deref();
        let caller = caller(session.peer_certificates(), clients, self.server.now());
        let service = ApiService::new(Arc::clone(context), caller, self.stop.clone());
        let mut restarts = context.restarts.subscribe();
        // A restart that began before this connection subscribed to restarts is not reported by the subscription.
        if context.faults.away_for().is_some() {
            return;
        }
        let mut builder = auto::Builder::new(TokioExecutor::new());
        builder
            .http1()
            .timer(TokioTimer::new())
            .max_buf_size(HEADERS as usize);
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(self.server.http2_streams)
            .max_header_list_size(HEADERS);
        let connection =
            builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
        let mut connection = pin!(connection);
        // A `FuturesUnordered` polls only the futures that were woken. Polling all futures would lock state that all
        // connections share, for each piece that this connection sends.
        let mut ends: FuturesUnordered<BoxFuture<'_, ()>> = FuturesUnordered::new();
        ends.push(self.stop.cancelled().boxed());
        ends.push(restarts.changed().map(drop).boxed());
        // An error of the connection needs no report: the client disconnected, or sent no HTTP.
        tokio::select! {
            biased;
            _ = connection.as_mut() => return,
            _ = ends.next() => {}
        }
        let is_away = context.faults.away_for().is_some();
        let grace = if is_away { LAST_ANSWER } else { GRACE };
        connection.as_mut().graceful_shutdown();
        tokio::select! {
            _ = connection => {}
            () = tokio::time::sleep(grace) => {}
            () = stalled(&sent) => {}
        }
    }
}

/// Binds a listener to the address that a simulated restart gave up. Retries while another program uses the port.
async fn listen_again(address: SocketAddr) -> TcpListener {
    loop {
        match TcpListener::bind(address).await {
            Ok(listener) => return listener,
            Err(_) => tokio::time::sleep(REST).await,
        }
    }
}

/// Returns the client's TLS stream, or `None` after answering a client that spoke plain HTTP.
async fn shake_hands(
    mut socket: TcpStream,
    identity: &TlsIdentity,
) -> io::Result<Option<TlsStream<Socket>>> {
    let mut first = [0];
    // A TLS record begins with a byte below 32, an HTTP request with the upper-case letters of its method.
    if socket.peek(&mut first).await? == 0 || !first[0].is_ascii_uppercase() {
        let acceptor = TlsAcceptor::from(Arc::clone(&identity.config));
        return acceptor.accept(Socket::new(socket)).await.map(Some);
    }
    // Reads the request first: closing a socket with unread data resets the connection, and the answer would be lost.
    let mut head = [0; 4096];
    let _ = socket.read(&mut head).await?;
    socket.write_all(NO_TLS).await?;
    socket.shutdown().await?;
    Ok(None)
}

/// Checks a client certificate, and returns its user. The certificate is checked once for all requests of the
/// connection; kube-apiserver checks it for each.
fn caller(
    presented: Option<&[CertificateDer<'_>]>,
    authorities: Option<&ClientAuthorities>,
    now: Timestamp,
) -> Caller {
    let anonymous = || Caller::Usual(Arc::new(User::anonymous()));
    let (Some(presented), Some(authorities)) = (presented, authorities) else {
        return anonymous();
    };
    if authorities.check(presented, now).is_err() {
        return Caller::BadCertificate;
    }
    // The first certificate is the client's own. A certificate without a common name names no user.
    let user = presented.first().and_then(|own| user_of(own));
    user.map_or_else(anonymous, |user| Caller::Certificate(Arc::new(user)))
}

/// Waits until a connection has sent nothing for `STALLED`, because its client does not read.
async fn stalled(sent: &AtomicU64) {
    let mut before = None;
    loop {
        // Relaxed: the counter orders no other memory access.
        let now = Some(sent.load(Ordering::Relaxed));
        if before == now {
            return;
        }
        before = now;
        tokio::time::sleep(STALLED).await;
    }
}
