//! Driver: the kube-apiserver's side of the connection to an etcd: attaches, reads and writes the snapshot.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::header::{HOST, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use steersman_apiserver::WalGroup;
use steersman_registry::reachable_address;
use tokio::net::{TcpStream, lookup_host};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::interface::{
    ATTACH, ATTACHMENT, DURABILITY, FIRST, HOLDER, LAST, LOG, SNAPSHOT, STARTS_FILE,
};
use crate::program::durability::Durability;

/// Time to wait for an answer of the etcd. Two such waits and the five seconds in which the listener stops are less
/// than the 20 seconds after which a test environment kills the process.
const PATIENCE: Duration = Duration::from_secs(6);
/// Maximum number of characters that an error message quotes from the answer of a program that is not an etcd of this
/// program ([`AttachOutcome::Foreign`]).
const SHOWN: usize = 200;

type ClientError = Box<dyn std::error::Error + Send + Sync>;

#[derive(Debug)]
pub(crate) enum AttachOutcome {
    /// This process is attached, and the etcd has this state; `None` for an etcd without a snapshot.
    Attached(Attachment, Option<EtcdState>),
    Held {
        by: String,
    },
    /// The address answers, but not as an etcd of this program.
    Foreign {
        why: String,
    },
    /// The etcd does not listen, or does not answer.
    Unreachable(io::Error),
}

#[derive(Debug)]
pub(crate) struct EtcdState {
    pub(crate) snapshot: Bytes,
    /// The transactions after the snapshot, one line of JSON each.
    pub(crate) log: Bytes,
}

/// The connection by which this process alone uses an etcd. Dropping it lets another kube-apiserver attach.
#[derive(Debug)]
#[must_use = "dropping it lets another kube-apiserver attach"]
pub(crate) struct Attachment {
    address: String,
    number: HeaderValue,
    pub(crate) durability: Durability,
    ended: CancellationToken,
    _connection: DropGuard,
}

pub(crate) async fn attach(address: &str) -> AttachOutcome {
    let attached = async {
        let socket = match connect(address).await {
            Ok(socket) => socket,
            Err(error) => return AttachOutcome::Unreachable(error),
        };
        let outcome = attach_over(socket, address).await;
        outcome.unwrap_or_else(|error| AttachOutcome::Foreign {
            why: error.to_string(),
        })
    };
    // A slow etcd counts as unreachable, not as foreign: it may have the objects of an earlier run, and beside a
    // foreign etcd the server starts without objects.
    let outcome = tokio::time::timeout(PATIENCE, attached).await;
    outcome.unwrap_or_else(|_| AttachOutcome::Unreachable(no_answer()))
}

fn no_answer() -> io::Error {
    let text = format!("no answer within {} s", PATIENCE.as_secs());
    io::Error::new(io::ErrorKind::TimedOut, text)
}

async fn attach_over(socket: TcpStream, address: &str) -> Result<AttachOutcome, ClientError> {
    let holder = format!("process {}", std::process::id());
    let request = Request::post(ATTACH)
        .header(HOST, address)
        .header(HOLDER, holder)
        .body(Full::default())?;
    let stop = CancellationToken::new();
    let ended = CancellationToken::new();
    let answer = send(socket, request, stop.clone()).await?;
    let Some(number) = answer.headers().get(ATTACHMENT).cloned() else {
        let status = answer.status();
        let body = answer.into_body().collect().await?.to_bytes();
        let text = String::from_utf8_lossy(&body).into_owned();
        if status == StatusCode::CONFLICT {
            return Ok(AttachOutcome::Held { by: text });
        }
        let shown: String = text.trim().chars().take(SHOWN).collect();
        let why = format!("it answers {} {shown}", status.as_u16());
        return Ok(AttachOutcome::Foreign { why });
    };
    let durability = answer.headers().get(DURABILITY);
    let durability = durability.and_then(|value| Durability::named(value.to_str().ok()?));
    let mut body = answer.into_body();
    let (watched, stopped) = (ended.clone(), stop.clone());
    tokio::spawn(async move {
        // The body of the answer ends only with the connection, so its end says that the etcd has ended.
        tokio::select! {
            () = stopped.cancelled() => {}
            () = async { while let Some(Ok(_)) = body.frame().await {} } => {}
        }
        watched.cancel();
    });
    let attachment = Attachment {
        address: address.to_owned(),
        number,
        // The etcd of an earlier version of this program names no durability, and has no log.
        durability: durability.unwrap_or(Durability::None),
        ended,
        _connection: stop.drop_guard(),
    };
    let Some(snapshot) = attachment.read(SNAPSHOT).await? else {
        return Ok(AttachOutcome::Attached(attachment, None));
    };
    let log = match attachment.durability {
        Durability::None => Bytes::new(),
        Durability::Kernel | Durability::Fsync => attachment.read(LOG).await?.unwrap_or_default(),
    };
    let state = EtcdState { snapshot, log };
    Ok(AttachOutcome::Attached(attachment, Some(state)))
}

impl Attachment {
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.is_cancelled()
    }

    async fn read(&self, path: &'static str) -> Result<Option<Bytes>, ClientError> {
        let request = self.request(Method::GET, path).body(Full::default())?;
        let socket = connect(&self.address).await?;
        let answer = send(socket, request, CancellationToken::new()).await?;
        let status = answer.status();
        let text = answer.into_body().collect().await?.to_bytes();
        match status {
            StatusCode::NO_CONTENT => Ok(None),
            StatusCode::OK => Ok(Some(text)),
            _ => Err(String::from_utf8_lossy(&text).into()),
        }
    }

    /// Replaces the snapshot of the etcd by `text`, which includes the transactions up to number `transactions`.
    pub(crate) async fn write(&self, transactions: u64, text: Bytes) -> Result<(), ClientError> {
        let request = self.request(Method::PUT, SNAPSHOT);
        let request = request.header(LAST, transactions).body(Full::new(text))?;
        in_time(async {
            let socket = connect(&self.address).await?;
            done(send(socket, request, CancellationToken::new()).await?).await
        })
        .await
    }

    /// Appends a group of transactions, on a connection that stays open for the next group.
    ///
    /// # Errors
    /// The connection fails, or the etcd cannot append. The etcd does not append a group twice, so a retry is safe.
    pub(crate) async fn append(
        &self,
        connection: &mut Option<AppendConnection>,
        group: &WalGroup,
        payload: Bytes,
    ) -> Result<(), ClientError> {
        let request = self.request(Method::POST, LOG);
        let mut request = request
            .header(FIRST, group.first())
            .header(LAST, group.last());
        if group.starts_file() {
            request = request.header(STARTS_FILE, "true");
        }
        let request = request.body(Full::new(payload))?;
        // Takes the connection out of `connection`, so that it is not used again if it fails.
        if let Some(mut open) = connection.take().filter(|one| one.sender.is_ready())
            // The etcd may have closed an idle connection; then a new one is opened below.
            && in_time(open.send(request.clone())).await.is_ok()
        {
            *connection = Some(open);
            return Ok(());
        }
        let mut open = AppendConnection::open(&self.address).await?;
        in_time(open.send(request)).await?;
        *connection = Some(open);
        Ok(())
    }

    fn request(&self, method: Method, path: &'static str) -> http::request::Builder {
        Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, &self.address)
            .header(ATTACHMENT, &self.number)
    }
}

pub(crate) struct AppendConnection {
    sender: http1::SendRequest<Full<Bytes>>,
    _connection: DropGuard,
}

impl AppendConnection {
    async fn open(address: &str) -> Result<Self, ClientError> {
        in_time(async {
            let socket = connect(address).await?;
            // Appends are small, and each waits for the answer to the one before: Nagle's algorithm would delay them.
            socket.set_nodelay(true)?;
            let stop = CancellationToken::new();
            Ok(Self {
                sender: open(socket, stop.clone()).await?,
                _connection: stop.drop_guard(),
            })
        })
        .await
    }

    async fn send(&mut self, request: Request<Full<Bytes>>) -> Result<(), ClientError> {
        self.sender.ready().await?;
        done(self.sender.send_request(request).await?).await
    }
}

async fn in_time<T>(work: impl Future<Output = Result<T, ClientError>>) -> Result<T, ClientError> {
    let outcome = tokio::time::timeout(PATIENCE, work).await;
    outcome.unwrap_or_else(|_| Err(no_answer().into()))
}

async fn done(answer: Response<Incoming>) -> Result<(), ClientError> {
    let status = answer.status();
    let problem = answer.into_body().collect().await?.to_bytes();
    if status.is_success() {
        return Ok(());
    }
    Err(ClientError::from(String::from_utf8_lossy(&problem)))
}

async fn connect(address: &str) -> io::Result<TcpStream> {
    let resolved = lookup_host(address).await?;
    let resolved: Vec<SocketAddr> = resolved.map(reachable_address).collect();
    TcpStream::connect(resolved.as_slice()).await
}

/// Sends a request. The connection ends after the answer, or when the token is cancelled.
async fn send(
    socket: TcpStream,
    request: Request<Full<Bytes>>,
    stop: CancellationToken,
) -> Result<Response<Incoming>, ClientError> {
    let mut sender = open(socket, stop).await?;
    Ok(sender.send_request(request).await?)
}

/// Opens a connection. It ends when the returned sender is dropped, or when the token is cancelled.
async fn open(
    socket: TcpStream,
    stop: CancellationToken,
) -> Result<http1::SendRequest<Full<Bytes>>, ClientError> {
    let (sender, connection) = http1::handshake(TokioIo::new(socket)).await?;
    tokio::spawn(async move {
        tokio::select! {
            () = stop.cancelled() => {}
            // The error is ignored, because the request on this connection fails with it, too.
            _ = connection => {}
        }
    });
    Ok(sender)
}
