//! Handle: a server on one address: accepts connections, and when it stops waits for the requests in progress.

use std::collections::HashMap;
use std::convert::Infallible;
use std::future::pending;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::access::is_log_due;
use crate::address::{Candidates, ListenAddress};
use crate::connection::{ConnectionServer, serve_connection};
use crate::connection_phase::{ConnectionPhase, longest_waiting};
use crate::error::Error;
use crate::limits::Limits;
use crate::routes::Routes;
use crate::tls::{Certificates, TlsOptions};
use crate::tracked_connection::TrackedConnection;

/// The options of a server. The default is HTTP without TLS, with the default [`Limits`].
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct ServerOptions {
    tls: Option<TlsOptions>,
    limits: Limits,
}

/// A server that listens. [`run`](Self::run) accepts connections, which wait until then.
#[derive(Debug)]
#[must_use = "the server answers nothing before `run`"]
pub struct Server {
    name: String,
    listener: TcpListener,
    address: SocketAddr,
    certificates: Option<Arc<Certificates>>,
    limits: Limits,
}

#[derive(Clone, Default)]
struct OpenConnections {
    table: Arc<Mutex<HashMap<u64, Arc<TrackedConnection>>>>,
}

/// A connection in the table. Dropping it removes the connection from the table.
struct Admitted {
    table: OpenConnections,
    id: u64,
    connection: Arc<TrackedConnection>,
}

/// The pause after a failure to accept a connection.
const PAUSE: Duration = Duration::from_millis(50);

impl ServerOptions {
    /// Makes the default options.
    pub fn new() -> Self {
        Self::default()
    }

    /// Serves HTTPS. Clients that speak plain HTTP get a 400.
    pub fn tls(mut self, tls: TlsOptions) -> Self {
        self.tls = Some(tls);
        self
    }

    /// Sets the limits of connections and requests.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Checks the options without I/O.
    ///
    /// # Errors
    ///
    /// [`Error::ZeroLimit`].
    pub fn check(&self) -> Result<(), Error> {
        self.limits.check()
    }
}

impl Server {
    /// Listens on an address. With port 0, the system chooses a port, which [`local_address`](Self::local_address)
    /// returns. `name` is used in errors and logs.
    ///
    /// # Errors
    ///
    /// [`Error::Address`], also for an address that stands for no server; [`Error::Listen`], for example if another
    /// program uses the address; [`Error::CertificateFile`] or [`Error::Certificate`]; [`Error::ZeroLimit`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: nothing listens before it returns.
    pub async fn bind(
        name: impl Into<String>,
        address: &ListenAddress,
        options: ServerOptions,
    ) -> Result<Self, Error> {
        options.check()?;
        let name = name.into();
        let certificates = match options.tls {
            Some(tls) => Some(Arc::new(Certificates::new(tls, &name).await?)),
            None => None,
        };
        let listener = listen(&name, address).await?;
        let local = listener.local_addr().map_err(|source| Error::Listen {
            server: name.clone(),
            address: address.to_string(),
            source,
        })?;
        Ok(Self {
            name,
            listener,
            address: local,
            certificates,
            limits: options.limits,
        })
    }

    /// Returns the address on which the server listens.
    pub fn local_address(&self) -> SocketAddr {
        self.address
    }

    /// Returns whether the server speaks HTTPS.
    pub fn is_secure(&self) -> bool {
        self.certificates.is_some()
    }

    /// Serves the routes until `stop` is cancelled. Then it accepts no connection, closes connections without a
    /// request, and waits for the responses in progress, for at most [`shutdown_timeout`](Limits::shutdown_timeout)
    /// (SERVE-3).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes every connection at once.
    pub async fn run(self, routes: Routes, stop: CancellationToken) {
        let (server, address) = (self.name.as_str(), self.address);
        info!(server, %address, secure = self.is_secure(), "the server listens");
        let connections = OpenConnections::default();
        let served = Arc::new(ConnectionServer {
            name: self.name.clone(),
            routes,
            certificates: self.certificates.clone(),
            limits: self.limits,
            stop: stop.clone(),
        });
        let mut tasks = JoinSet::new();
        let mut looking = pin!(looking(self.certificates.clone()));
        let (mut next_id, mut warned) = (0_u64, None);
        loop {
            let accepted = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(_ended) = tasks.join_next(), if !tasks.is_empty() => continue,
                accepted = self.listener.accept() => accepted,
                never = &mut looking => never,
            };
            match accepted {
                Ok((stream, _)) => {
                    next_id = next_id.wrapping_add(1);
                    let admitted = connections.admit(next_id, &self.limits, self.is_secure());
                    let is_full = admitted.as_ref().is_none_or(|(_, is_full)| *is_full);
                    if is_full && is_log_due(&mut warned) {
                        warn!(
                            server,
                            connections = self.limits.connections,
                            "the server has as many connections as its limit allows: those that wait longest for a \
                             request are closed"
                        );
                    }
                    if let Some((admitted, _)) = admitted {
                        tasks.spawn(admitted.serve(stream, Arc::clone(&served)));
                    }
                }
                // The failure may be temporary, such as a lack of file descriptors until other connections close.
                Err(error) => {
                    if is_log_due(&mut warned) {
                        warn!(server, %address, %error, "a connection cannot be accepted; trying again");
                    }
                    sleep(PAUSE).await;
                }
            }
        }
        let name = self.name;
        // Closing the listener makes later connections fail at once.
        drop(self.listener);
        let ended = async { while tasks.join_next().await.is_some() {} };
        if timeout(self.limits.shutdown, ended).await.is_err() {
            warn!(
                server = name,
                connections = tasks.len(),
                "requests in progress are dropped, because the time to stop is over"
            );
            tasks.shutdown().await;
        }
        debug!(server = name, "the server has stopped");
    }
}

impl OpenConnections {
    /// SERVE-2: admits a new connection, and at the limit closes a waiting one. Returns the connection and whether the
    /// limit was reached, or `None` if every connection has a request in progress.
    fn admit(&self, id: u64, limits: &Limits, has_handshake: bool) -> Option<(Admitted, bool)> {
        let phase = ConnectionPhase::new(*limits, has_handshake, Instant::now().into_std());
        let connection = Arc::new(TrackedConnection::new(phase));
        let mut table = self.table.lock();
        let is_full = table.len() >= limits.connections;
        if is_full {
            let waiting = table.iter().map(|(id, known)| (*id, known.waiting_since()));
            let closed = longest_waiting(waiting)?;
            if let Some(closed) = table.remove(&closed) {
                closed.close.cancel();
            }
        }
        table.insert(id, Arc::clone(&connection));
        drop(table);
        let admitted = Admitted {
            table: self.clone(),
            id,
            connection,
        };
        Some((admitted, is_full))
    }
}

impl Admitted {
    async fn serve(self, stream: TcpStream, server: Arc<ConnectionServer>) {
        serve_connection(stream, &self.connection, &server).await;
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.table.table.lock().remove(&self.id);
    }
}

async fn looking(certificates: Option<Arc<Certificates>>) -> ! {
    match certificates {
        Some(certificates) => certificates.looked_at().await,
        None => match pending::<Infallible>().await {},
    }
}

async fn listen(name: &str, address: &ListenAddress) -> Result<TcpListener, Error> {
    let text = address.to_string();
    let listener = match address.candidates() {
        None => return Err(Error::Address { text }),
        Some(Candidates::Addresses(addresses)) => TcpListener::bind(addresses.as_slice()).await,
        Some(Candidates::Name(host, port)) => TcpListener::bind((host, port)).await,
    };
    listener.map_err(|source| Error::Listen {
        server: name.to_owned(),
        address: text,
        source,
    })
}
