//! Driver: the side of the kube-apiserver: attaches to an etcd, and reads and writes the snapshot.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use http::header::{HOST, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpStream, lookup_host};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::interface::{ATTACH, ATTACHMENT, HOLDER, SNAPSHOT};

/// Time for an answer. Together with the grace of the listener two of these are less than the 20
/// seconds after which a test environment kills the process.
const PATIENCE: Duration = Duration::from_secs(6);
/// Maximum length of a foreign answer in a message.
const SHOWN: usize = 200;

type ClientError = Box<dyn std::error::Error + Send + Sync>;

/// The outcome of an attempt to attach.
#[derive(Debug)]
pub(crate) enum AttachOutcome {
    /// The etcd keeps the objects of this process, and has this snapshot.
    Attached(Attachment, Option<Bytes>),
    /// Another kube-apiserver is attached.
    Held {
        /// The description of the other process.
        by: String,
    },
    /// The address answers, but not as an etcd of this program.
    Foreign {
        /// A description of the answer.
        why: String,
    },
    /// Nothing listens, or it does not answer.
    Unreachable(io::Error),
}

/// The attachment to an etcd. Dropping it lets another kube-apiserver attach.
#[derive(Debug)]
#[must_use = "dropping it lets another kube-apiserver attach"]
pub(crate) struct Attachment {
    address: String,
    number: HeaderValue,
    /// Cancelled when the connection ends.
    ended: CancellationToken,
    _connection: DropGuard,
}

/// Attaches to the etcd at an address (host and port).
pub(crate) async fn attach(address: &str) -> AttachOutcome {
    let attached = async {
        match connect(address).await {
            Ok(socket) => match attach_over(socket, address).await {
                Ok(outcome) => outcome,
                Err(error) => AttachOutcome::Foreign {
                    why: error.to_string(),
                },
            },
            Err(error) => AttachOutcome::Unreachable(error),
        }
    };
    match tokio::time::timeout(PATIENCE, attached).await {
        Ok(outcome) => outcome,
        // An etcd that is slow may have the objects of an earlier run.
        Err(_) => AttachOutcome::Unreachable(no_answer()),
    }
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
    let mut body = answer.into_body();
    let (watched, stopped) = (ended.clone(), stop.clone());
    tokio::spawn(async move {
        // The body ends with the connection.
        tokio::select! {
            () = stopped.cancelled() => {}
            () = async { while let Some(Ok(_)) = body.frame().await {} } => {}
        }
        watched.cancel();
    });
    let attachment = Attachment {
        address: address.to_owned(),
        number,
        ended,
        _connection: stop.drop_guard(),
    };
    let text = attachment.read().await?;
    Ok(AttachOutcome::Attached(attachment, text))
}

impl Attachment {
    /// Returns whether the connection has ended, because the etcd has.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.is_cancelled()
    }

    async fn read(&self) -> Result<Option<Bytes>, ClientError> {
        let answer = self.ask(Method::GET, Bytes::new()).await?;
        let status = answer.status();
        let text = answer.into_body().collect().await?.to_bytes();
        match status {
            StatusCode::NO_CONTENT => Ok(None),
            StatusCode::OK => Ok(Some(text)),
            _ => Err(String::from_utf8_lossy(&text).into()),
        }
    }

    /// Replaces the snapshot.
    ///
    /// # Errors
    /// The connection fails, or the etcd cannot save.
    pub(crate) async fn write(&self, text: Bytes) -> Result<(), ClientError> {
        let written = async {
            let answer = self.ask(Method::PUT, text).await?;
            let status = answer.status();
            let problem = answer.into_body().collect().await?.to_bytes();
            if status.is_success() {
                return Ok(());
            }
            Err(ClientError::from(String::from_utf8_lossy(&problem)))
        };
        match tokio::time::timeout(PATIENCE, written).await {
            Ok(outcome) => outcome,
            Err(_) => Err(no_answer().into()),
        }
    }

    async fn ask(&self, method: Method, text: Bytes) -> Result<Response<Incoming>, ClientError> {
        let request = Request::builder()
            .method(method)
            .uri(SNAPSHOT)
            .header(HOST, &self.address)
            .header(ATTACHMENT, &self.number)
            .body(Full::new(text))?;
        let socket = connect(&self.address).await?;
        send(socket, request, CancellationToken::new()).await
    }
}

async fn connect(address: &str) -> io::Result<TcpStream> {
    let resolved = lookup_host(address).await?;
    let resolved: Vec<SocketAddr> = resolved.map(reachable).collect();
    TcpStream::connect(resolved.as_slice()).await
}

/// Replaces an address that stands for all interfaces by loopback.
fn reachable(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(match address {
            SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    address
}

/// Sends a request. The connection ends after the answer, or when the token is cancelled.
async fn send(
    socket: TcpStream,
    request: Request<Full<Bytes>>,
    stop: CancellationToken,
) -> Result<Response<Incoming>, ClientError> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(socket)).await?;
    tokio::spawn(async move {
        tokio::select! {
            () = stop.cancelled() => {}
            // An error is also that of the request.
            _ = connection => {}
        }
    });
    Ok(sender.send_request(request).await?)
}
