//! Driver: the connections to one server, shared by all clients of a transport in one runtime.

use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use bytes::Bytes;
use http::header::UPGRADE;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tower::BoxError;
use tracing::debug;

use crate::body::{Answered, PooledBody};
use crate::dial::{Dial, Dialed, Io};
use crate::explain::chain;
use crate::handshake::{Http2, greet};
use crate::options::ConnectionOptions;
use crate::request_form::{origin_form, refusal};
use crate::table::{Choice, ConnectionId, ConnectionTable, IDLE, Protocol};

/// The maximal number of times that a request is sent if the server does not process it.
const SENDS: u32 = 5;

pub(crate) struct ConnectionPool {
    dial: Box<Dial>,
    options: ConnectionOptions,
    runtime: Handle,
    state: Mutex<PoolState>,
    ids: AtomicU64,
}

#[derive(Default)]
struct PoolState {
    table: ConnectionTable,
    senders: HashMap<ConnectionId, Sender>,
    /// The state of the dial in progress, which waiting requests watch.
    dial: Option<watch::Receiver<Dialing>>,
}

#[derive(Clone)]
enum Dialing {
    UnderWay,
    Ended(Result<(), DialError>),
}

/// A dial in progress. Dropping it notifies the waiting requests, even if its task has panicked.
struct DialAttempt {
    pool: Weak<ConnectionPool>,
    dialing: watch::Sender<Dialing>,
    /// The result for the waiting requests.
    ended: Result<(), DialError>,
}

impl DialAttempt {
    /// Sets the result that the waiting requests get when this attempt is dropped.
    fn end(&mut self, opened: Result<(), BoxError>) {
        self.ended = opened.map_err(|error| DialError(chain(&*error)));
    }
}

impl Drop for DialAttempt {
    fn drop(&mut self) {
        if let Some(pool) = self.pool.upgrade() {
            let mut state = pool.state.lock();
            state.table.handle_dialed();
            state.dial = None;
        }
        self.dialing
            .send_replace(Dialing::Ended(self.ended.clone()));
    }
}

/// The error of a failed dial, shared by the requests that waited for it.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
struct DialError(String);

enum Sender {
    Http1(Exclusive),
    Http2(Http2),
}

struct Exclusive {
    sender: http1::SendRequest<Full<Bytes>>,
    generation: u64,
}

/// The right of one request to use a connection: one stream of an HTTP/2 connection, or a whole HTTP/1.1 connection.
/// Dropping the lease returns the stream or the connection to the pool.
struct Lease {
    pool: Weak<ConnectionPool>,
    id: ConnectionId,
    /// The connection itself, for HTTP/1.1.
    exclusive: Option<Exclusive>,
}

impl Drop for Lease {
    fn drop(&mut self) {
        let Some(pool) = self.pool.upgrade() else {
            return;
        };
        match self.exclusive.take() {
            Some(exclusive) => pool.give_back(self.id, exclusive),
            None => pool.release(self.id, Instant::now()),
        }
    }
}

/// A lease, with the handle to send a request on its connection.
struct StreamSlot {
    lease: Lease,
    /// The handle of an HTTP/2 connection. The lease has the handle of an HTTP/1.1 connection.
    http2: Option<http2::SendRequest<Full<Bytes>>>,
}

/// The failure of a request that got no response.
struct SendFailure {
    error: BoxError,
    /// Whether the server has certainly not processed the request.
    unprocessed: bool,
    /// Whether the connection accepts no further requests.
    closed: bool,
}

impl ConnectionPool {
    pub(crate) fn new(dial: Box<Dial>, options: ConnectionOptions, runtime: Handle) -> Self {
        Self {
            dial,
            options,
            runtime,
            state: Mutex::default(),
            ids: AtomicU64::new(0),
        }
    }

    /// Sends a request. The lease of its stream or connection ends with the response body.
    ///
    /// CONN-5: a request that the server has not processed, because it closed the connection (GOAWAY) or refused the
    /// stream, is sent again.
    pub(crate) async fn send(self: &Arc<Self>, request: Request<Bytes>) -> Answered {
        if request.headers().contains_key(UPGRADE) {
            return self.send_upgrade(request).await;
        }
        let mut sends = 1;
        loop {
            let slot = self.slot().await?;
            let id = slot.lease.id;
            let failure = match slot.send(request.clone()).await {
                Ok(response) => return Ok(response),
                Err(failure) => failure,
            };
            if failure.closed {
                self.forget(id, failure.unprocessed);
            }
            if !failure.unprocessed || sends >= SENDS {
                return Err(failure.error);
            }
            sends += 1;
        }
    }

    /// Closes the connections that were opened with credentials older than `generation`.
    pub(crate) fn renewed(&self, generation: u64) {
        let mut state = self.state.lock();
        let ids = state.table.handle_renewed(generation);
        let closed: Vec<_> = ids
            .iter()
            .filter_map(|id| state.senders.remove(id))
            .collect();
        drop(state);
        drop(closed);
    }

    /// Releases a stream of an HTTP/2 connection after the end of its response.
    fn release(&self, id: ConnectionId, now: Instant) {
        let mut state = self.state.lock();
        if state.table.handle_released(id, now.into_std()) {
            state.senders.remove(&id);
        }
    }

    /// Returns an HTTP/1.1 connection to the pool after the end of its response.
    fn give_back(self: &Arc<Self>, id: ConnectionId, mut exclusive: Exclusive) {
        if exclusive.sender.is_closed() {
            return;
        }
        if exclusive.sender.is_ready() {
            self.keep(id, exclusive);
            return;
        }
        let pool = Arc::downgrade(self);
        self.runtime.spawn(async move {
            // hyper closes a connection if the response was not read to its end; then it does not return to the pool.
            if exclusive.sender.ready().await.is_ok()
                && let Some(pool) = pool.upgrade()
            {
                pool.keep(id, exclusive);
            }
        });
    }

    fn keep(&self, id: ConnectionId, exclusive: Exclusive) {
        let now = Instant::now().into_std();
        let mut state = self.state.lock();
        if state.table.handle_idle(id, exclusive.generation, now) {
            state.senders.insert(id, Sender::Http1(exclusive));
        }
    }

    /// Removes a closed connection. If a request failed on it (`was_met`), also removes idle HTTP/1.1 connections,
    /// which the server has probably closed, too.
    fn forget(&self, id: ConnectionId, was_met: bool) {
        let mut state = self.state.lock();
        state.table.handle_closed(id);
        state.senders.remove(&id);
        if was_met {
            for idle in state.table.distrust_idle() {
                state.senders.remove(&idle);
            }
        }
    }

    /// Returns a lease for a request, on an existing or a new connection.
    async fn slot(self: &Arc<Self>) -> Result<StreamSlot, BoxError> {
        loop {
            let mut dial = match self.choose() {
                Chosen::Slot(slot) => return Ok(slot),
                Chosen::DialAlone => {
                    let dialed = (self.dial)(false).await?;
                    if let Some(slot) = self.open_alone(dialed).await? {
                        return Ok(slot);
                    }
                    continue;
                }
                Chosen::Wait(dial) => dial,
            };
            let ended = dial
                .wait_for(|dial| !matches!(dial, Dialing::UnderWay))
                .await
                .map(|dial| dial.clone());
            match ended {
                Ok(Dialing::Ended(Err(error))) => return Err(error.into()),
                Ok(_) => {}
                Err(_) => return Err("the task that opened the connection ended".into()),
            }
        }
    }

    fn choose(self: &Arc<Self>) -> Chosen {
        let mut state = self.state.lock();
        let PoolState {
            table,
            senders,
            dial,
        } = &mut *state;
        match table.next_connection(|id| senders.get(&id).map_or(0, Sender::limit)) {
            Choice::Stream(id) | Choice::Exclusive(id) => {
                let (http2, exclusive) = match senders.get(&id) {
                    Some(Sender::Http2(http2)) => (Some(http2.sender.clone()), None),
                    _ => match senders.remove(&id) {
                        Some(Sender::Http1(exclusive)) => (None, Some(exclusive)),
                        _ => (None, None),
                    },
                };
                Chosen::Slot(StreamSlot {
                    lease: Lease {
                        pool: Arc::downgrade(self),
                        id,
                        exclusive,
                    },
                    http2,
                })
            }
            Choice::DialAlone => Chosen::DialAlone,
            Choice::Dial => {
                let (dialing, progress) = watch::channel(Dialing::UnderWay);
                *dial = Some(progress.clone());
                drop(state);
                let mut attempt = DialAttempt {
                    pool: Arc::downgrade(self),
                    dialing,
                    ended: Err(DialError("the attempt to connect was dropped".into())),
                };
                let open = (self.dial)(false);
                // The dial is a separate task, because other requests wait for it and the first request may be dropped.
                self.runtime.spawn(async move {
                    let dialed = open.await;
                    let Some(pool) = attempt.pool.upgrade() else {
                        return;
                    };
                    let opened = match dialed {
                        Ok(dialed) => pool.open(dialed).await,
                        Err(error) => Err(error),
                    };
                    attempt.end(opened);
                });
                Chosen::Wait(progress)
            }
            Choice::Wait => match dial {
                Some(progress) => Chosen::Wait(progress.clone()),
                // Unreachable: a dial in progress always has a receiver.
                None => Chosen::DialAlone,
            },
        }
    }

    async fn open(self: &Arc<Self>, dialed: Dialed) -> Result<(), BoxError> {
        let (id, protocol, generation) = (self.next_id(), dialed.protocol, dialed.generation);
        let sender = match protocol {
            Protocol::Http1 => {
                let sender = self.shake_hands_1(id, dialed.io).await?;
                Sender::Http1(Exclusive { sender, generation })
            }
            Protocol::Http2 => self.shake_hands_2(id, dialed.io).await?,
        };
        let now = Instant::now().into_std();
        let mut state = self.state.lock();
        state.senders.insert(id, sender);
        let closed = state.table.handle_opened(id, protocol, generation, now);
        for id in closed {
            state.senders.remove(&id);
        }
        Ok(())
    }

    /// Makes an HTTP/1.1 connection for one request. Returns `None` if the server now speaks HTTP/2; then all requests
    /// share the connection.
    async fn open_alone(self: &Arc<Self>, dialed: Dialed) -> Result<Option<StreamSlot>, BoxError> {
        let (id, generation) = (self.next_id(), dialed.generation);
        if dialed.protocol == Protocol::Http2 {
            self.open(dialed).await?;
            return Ok(None);
        }
        let sender = self.shake_hands_1(id, dialed.io).await?;
        let lease = Lease {
            pool: Arc::downgrade(self),
            id,
            exclusive: Some(Exclusive { sender, generation }),
        };
        Ok(Some(StreamSlot { lease, http2: None }))
    }

    /// Sends a request that upgrades its connection (exec, attach, port-forward), on a separate HTTP/1.1 connection
    /// that never enters the pool.
    async fn send_upgrade(self: &Arc<Self>, request: Request<Bytes>) -> Answered {
        let dialed = (self.dial)(true).await?;
        let id = self.next_id();
        let mut sender = self.shake_hands_1(id, dialed.io).await?;
        let response = sender.send_request(origin_form(request)?).await?;
        let lease = Lease {
            pool: Weak::new(),
            id,
            exclusive: None,
        };
        Ok(response.map(|body| PooledBody::new(body, lease)))
    }

    async fn shake_hands_1(
        self: &Arc<Self>,
        id: ConnectionId,
        io: Box<dyn Io>,
    ) -> Result<http1::SendRequest<Full<Bytes>>, BoxError> {
        let (sender, connection) = http1::handshake(TokioIo::new(io)).await?;
        let connection = async move { connection.with_upgrades().await };
        self.runtime
            .spawn(attend(Arc::downgrade(self), id, connection));
        Ok(sender)
    }

    async fn shake_hands_2(
        self: &Arc<Self>,
        id: ConnectionId,
        io: Box<dyn Io>,
    ) -> Result<Sender, BoxError> {
        let http2 = greet(io, self.runtime.clone(), self.options.pings()).await?;
        let polled = Arc::clone(&http2.connection);
        let ended = poll_fn(move |context| Pin::new(&mut *polled.lock()).poll(context));
        self.runtime.spawn(attend(Arc::downgrade(self), id, ended));
        Ok(Sender::Http2(http2))
    }

    fn next_id(&self) -> ConnectionId {
        // Ids only have to be unique, so no memory ordering is needed.
        ConnectionId(self.ids.fetch_add(1, Ordering::Relaxed))
    }
}

/// The next step of a request.
enum Chosen {
    Slot(StreamSlot),
    DialAlone,
    Wait(watch::Receiver<Dialing>),
}

impl Sender {
    fn limit(&self) -> usize {
        match self {
            Self::Http1(_) => 0,
            Self::Http2(http2) => http2.limit(),
        }
    }
}

impl StreamSlot {
    async fn send(mut self, request: Request<Bytes>) -> Result<Response<PooledBody>, SendFailure> {
        let sent = match (&mut self.http2, &mut self.lease.exclusive) {
            (Some(sender), _) => sender.try_send_request(request.map(Full::new)).await,
            (None, Some(exclusive)) => {
                let request = origin_form(request).map_err(|error| SendFailure {
                    error,
                    unprocessed: false,
                    closed: false,
                })?;
                exclusive.sender.try_send_request(request).await
            }
            (None, None) => {
                return Err(SendFailure {
                    error: "the connection has closed".into(),
                    unprocessed: true,
                    closed: true,
                });
            }
        };
        match sent {
            Ok(response) => {
                let lease = self.lease;
                Ok(response.map(|body: Incoming| PooledBody::new(body, lease)))
            }
            Err(mut error) => {
                let unsent = error.take_message().is_some();
                let error = error.into_error();
                let (going, refused) = refusal(&error);
                Err(SendFailure {
                    unprocessed: unsent || going || refused,
                    closed: unsent || going,
                    error: error.into(),
                })
            }
        }
    }
}

/// Drives a connection to its end, and closes it after [`IDLE`] without a request.
async fn attend(
    pool: Weak<ConnectionPool>,
    id: ConnectionId,
    connection: impl Future<Output = hyper::Result<()>>,
) {
    let mut connection = std::pin::pin!(connection);
    let ended = loop {
        tokio::select! {
            ended = &mut connection => break ended,
            () = sleep(IDLE) => {}
        }
        if let Some(pool) = pool.upgrade() {
            let now = Instant::now().into_std();
            let mut state = pool.state.lock();
            if state.table.handle_expiry(id, now) {
                state.senders.remove(&id);
            }
        }
    };
    if let Err(error) = ended {
        debug!(
            connection = id.0,
            "a connection to the api-server ended: {}",
            chain(&error)
        );
    }
    if let Some(pool) = pool.upgrade() {
        pool.forget(id, false);
    }
}

#[cfg(test)]
mod tests;
