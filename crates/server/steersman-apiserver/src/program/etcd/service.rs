//! Driver: the HTTP service of etcd's client URLs.

use std::convert::Infallible;
use std::fmt::Display;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body::{Body, Frame};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::{Mutex, MutexGuard};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::interface::{
    ATTACH, ATTACHMENT, DURABILITY, FIRST, HOLDER, LAST, LOG, SNAPSHOT, STARTS_FILE,
};
use super::snapshot_hold::{LogPlace, SnapshotHold};
use crate::program::data::{DataDir, LogWriter, SavedGroup};
use crate::program::durability::Durability;
use crate::program::problem::chain;

/// How long an attach request waits for the previous kube-apiserver to detach: after its process has ended, its
/// connection may still be open.
const CLOSING: Duration = Duration::from_secs(2);
/// Pause of a listener after the operating system failed to accept a connection.
const PAUSE: Duration = Duration::from_millis(50);

type EtcdAnswer = Response<UnsyncBoxBody<Bytes, Infallible>>;

type EtcdRefusal = (StatusCode, String);

type EtcdOutcome = Result<EtcdAnswer, EtcdRefusal>;

#[derive(Debug)]
pub(super) struct EtcdService {
    hold: Mutex<SnapshotHold>,
    /// Marked changed whenever the attached kube-apiserver detaches.
    released: watch::Sender<()>,
    durability: Durability,
    data: Option<Arc<DataDir>>,
    saving: tokio::sync::Mutex<()>,
    /// Appends to the log of the data directory, if there is one; locked during an append.
    writer: Arc<tokio::sync::Mutex<Option<LogWriter>>>,
}

impl EtcdService {
    pub(super) fn new(
        hold: SnapshotHold,
        durability: Durability,
        kept: Option<(Arc<DataDir>, Option<LogWriter>)>,
    ) -> Self {
        let (data, writer) = kept.unzip();
        Self {
            hold: Mutex::new(hold),
            released: watch::Sender::new(()),
            durability,
            data,
            saving: tokio::sync::Mutex::default(),
            writer: Arc::new(tokio::sync::Mutex::new(writer.flatten())),
        }
    }

    pub(super) async fn freed(&self) {
        let mut released = self.released.subscribe();
        while self.hold.lock().holder.is_some() {
            // `self` holds the sender, so `changed()` cannot fail while `self` is borrowed.
            if released.changed().await.is_err() {
                return;
            }
        }
    }

    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Result<EtcdAnswer, Infallible> {
        let path = request.uri().path();
        let answer = match (request.method(), path) {
            (&Method::GET, "/health") => Ok(json("{\"health\":\"true\",\"reason\":\"\"}")),
            (&Method::GET, "/version") => {
                let versions = "{\"etcdserver\":\"3.6.0\",\"etcdcluster\":\"3.6.0\"}";
                Ok(json(versions))
            }
            (&Method::POST, ATTACH) => self.attach(&request).await,
            (&Method::GET, SNAPSHOT) => self.read(&request, |hold| hold.text.clone()),
            (&Method::GET, LOG) => self.read(&request, |hold| Some(hold.log_text())),
            (&Method::POST, LOG) => self.append(request).await,
            (&Method::PUT, SNAPSHOT) => self.write(request).await,
            _ => Err((StatusCode::NOT_FOUND, "404 page not found\n".to_owned())),
        };
        Ok(answer.unwrap_or_else(|(status, text)| plain(status, &text)))
    }

    async fn attach(self: Arc<Self>, request: &Request<Incoming>) -> EtcdOutcome {
        let holder = request.headers().get(HOLDER);
        let holder = holder.and_then(|value| value.to_str().ok());
        let holder = holder.unwrap_or("an unknown process");
        // Waits until the previous kube-apiserver is detached: one that was killed and started again may attach before
        // the end of its old connection is noticed.
        let _ = tokio::time::timeout(CLOSING, self.freed()).await;
        // Random, so that another process cannot guess the number.
        let number = RandomState::new().build_hasher().finish();
        // A save or an append for the previous kube-apiserver must end before this one reads the state.
        let _saved = self.saving.lock().await;
        let _appended = self.writer.lock().await;
        let attached = self.hold.lock().attach(number, holder);
        attached.map_err(|other| (StatusCode::CONFLICT, other))?;
        let service = Arc::clone(&self);
        let body = OpenBody { service, number };
        let mut answer = Response::new(UnsyncBoxBody::new(body));
        let headers = answer.headers_mut();
        headers.insert(ATTACHMENT, HeaderValue::from(number));
        let durability = HeaderValue::from_static(self.durability.name());
        headers.insert(DURABILITY, durability);
        Ok(answer)
    }

    /// Returns the snapshot and the log, locked, if the kube-apiserver with this number is attached; otherwise a 409.
    fn current(&self, number: Option<u64>) -> Result<MutexGuard<'_, SnapshotHold>, EtcdRefusal> {
        let hold = self.hold.lock();
        if number.is_some_and(|number| hold.is_current(number)) {
            return Ok(hold);
        }
        let text = "this kube-apiserver is not attached";
        Err((StatusCode::CONFLICT, text.to_owned()))
    }

    fn read(
        &self,
        request: &Request<Incoming>,
        part: impl Fn(&SnapshotHold) -> Option<Bytes>,
    ) -> EtcdOutcome {
        let hold = self.current(header(request, ATTACHMENT))?;
        Ok(match part(&hold) {
            Some(text) => Response::new(UnsyncBoxBody::new(Full::new(text))),
            None => plain(StatusCode::NO_CONTENT, ""),
        })
    }

    async fn write(self: Arc<Self>, request: Request<Incoming>) -> EtcdOutcome {
        let number = header(&request, ATTACHMENT);
        let transactions = header(&request, LAST).unwrap_or_default();
        let text = body_of(request).await?;
        to_its_end(async move { self.save(number, transactions, text).await }).await
    }

    async fn save(
        &self,
        number: Option<u64>,
        transactions: u64,
        text: Bytes,
    ) -> Result<(), EtcdRefusal> {
        // Locked until the end, so that the file and the snapshot in memory are the same.
        let _saving = self.saving.lock().await;
        // The snapshot in memory is newer than `text`, so `text` is not needed.
        if self.current(number)?.is_newer_than(transactions) {
            return Ok(());
        }
        if let Some(data) = self.data.clone() {
            let text = text.clone();
            let save = move || data.save_text(transactions, &text);
            let saved = tokio::task::spawn_blocking(save).await.map_err(failed)?;
            saved.map_err(|problem| failed(chain(&problem)))?;
        }
        self.hold.lock().replace(text, transactions);
        Ok(())
    }

    /// Appends transactions to the log, and answers when they are as durable as the flag `--durability` demands.
    async fn append(self: Arc<Self>, request: Request<Incoming>) -> EtcdOutcome {
        let number = header(&request, ATTACHMENT);
        let (first, last) = (header(&request, FIRST), header(&request, LAST));
        let starts_file = request.headers().contains_key(STARTS_FILE);
        let (Some(first), Some(last)) = (first, last) else {
            let text = "the numbers are missing";
            return Err((StatusCode::BAD_REQUEST, text.to_owned()));
        };
        let payload = body_of(request).await?;
        let group = (first, last, starts_file);
        to_its_end(async move { self.append_group(number, group, payload).await }).await
    }

    async fn append_group(
        &self,
        number: Option<u64>,
        (first, last, starts_file): (u64, u64, bool),
        payload: Bytes,
    ) -> Result<(), EtcdRefusal> {
        let mut writer = Arc::clone(&self.writer).lock_owned().await;
        let place = self.current(number)?.place(first, last);
        match place {
            LogPlace::Next => {}
            LogPlace::Held => return Ok(()),
            LogPlace::Gap { held } => {
                let text = format!("transaction {first} follows, but the last one is {held}");
                return Err((StatusCode::CONFLICT, text));
            }
        }
        let content = payload.clone();
        // The writer is locked until the transactions are in memory, so that a second request with the same
        // transactions finds them there and does not append them again.
        let append = move || {
            let appended = writer.as_mut().map_or(Ok(()), |writer| {
                let appended = writer.append(first, &content, starts_file);
                appended.map_err(|error| {
                    format!("cannot append to {}: {error}", writer.path().display())
                })
            });
            (writer, appended)
        };
        // A write into the kernel takes less time than handing it to another thread.
        let (_writer, appended) = match self.durability {
            Durability::Fsync => tokio::task::spawn_blocking(append).await.map_err(failed)?,
            Durability::Kernel | Durability::None => append(),
        };
        appended.map_err(failed)?;
        let mut hold = self.hold.lock();
        // A snapshot that was saved during the append may include these transactions; then the log does not need them.
        if hold.place(first, last) == LogPlace::Next {
            hold.log.push(SavedGroup { last, payload });
        }
        Ok(())
    }

    fn release(&self, number: u64) {
        self.hold.lock().release(number);
        self.released.send_replace(());
    }
}

/// Runs `work` to its end, even if the client is killed, so that the state in memory equals the files (WAL-2).
async fn to_its_end(
    work: impl Future<Output = Result<(), EtcdRefusal>> + Send + 'static,
) -> EtcdOutcome {
    tokio::spawn(work).await.map_err(failed)??;
    Ok(plain(StatusCode::NO_CONTENT, ""))
}

fn failed(problem: impl Display) -> EtcdRefusal {
    (StatusCode::INTERNAL_SERVER_ERROR, problem.to_string())
}

async fn body_of(request: Request<Incoming>) -> Result<Bytes, EtcdRefusal> {
    let body = request.into_body().collect().await;
    let text = "the body ended too early";
    let body = body.map_err(|_| (StatusCode::BAD_REQUEST, text.to_owned()))?;
    Ok(body.to_bytes())
}

/// The body of the answer to an attach request. It does not end; when its connection ends it is dropped, which detaches
/// the kube-apiserver (SRV-ETCD-1).
struct OpenBody {
    service: Arc<EtcdService>,
    number: u64,
}

impl Body for OpenBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Pending
    }
}

impl Drop for OpenBody {
    fn drop(&mut self) {
        self.service.release(self.number);
    }
}

pub(super) async fn accept(
    listener: TcpListener,
    service: Arc<EtcdService>,
    stop: CancellationToken,
) {
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((socket, _)) => drop(tokio::spawn(serve(socket, Arc::clone(&service)))),
            // Accepting fails for instance without free file descriptors, which other connections may release soon.
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

async fn serve(socket: TcpStream, service: Arc<EtcdService>) {
    let answer = service_fn(move |request| Arc::clone(&service).answer(request));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .serve_connection(TokioIo::new(socket), answer);
    // An error of the connection needs no report: the client disconnected, or sent no HTTP.
    let _ = connection.await;
}

fn header(request: &Request<Incoming>, name: &str) -> Option<u64> {
    let value = request.headers().get(name)?;
    value.to_str().ok()?.parse().ok()
}

fn json(text: &'static str) -> EtcdAnswer {
    let mut answer = plain(StatusCode::OK, text);
    let kind = HeaderValue::from_static("application/json");
    answer.headers_mut().insert(CONTENT_TYPE, kind);
    answer
}

fn plain(status: StatusCode, text: &str) -> EtcdAnswer {
    let body = Full::new(Bytes::from(text.to_owned()));
    let mut answer = Response::new(UnsyncBoxBody::new(body));
    *answer.status_mut() = status;
    answer
}
