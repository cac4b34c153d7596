//! Driver: sends each write in its own task, and repeats requests if the server names a time (`Retry-After`).

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::FutureExt as _;
use futures::channel::oneshot;
use futures::future::BoxFuture;
use steersman_api::clock::now;
use steersman_api::{Answer, Error, Mapper, PreparedRequest};
use steersman_object::{Kind, ObjectKey, ResourceVersion, panic_text};
use tokio::sync::watch;
use tokio::task::{JoinError, JoinHandle};
use tokio::time::sleep;
use tracing::Instrument as _;

use crate::consistency::ReadConsistency;
use crate::options::ClientOptions;
use crate::own_writes::unseen_writes::WriterHash;
use crate::own_writes::write_tracker::WriteTracker;
use crate::spans::{live_read_span, pause_span, record, write_span};
use crate::wait_observer::{ClientWait, WaitCause, WaitObserver};
use crate::write::outcome::{Repeats, outcome};
use crate::write::{RequestId, Write, WriteObserver};

/// Sends the requests of a client. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct RequestSender {
    pub(crate) options: Arc<ClientOptions>,
    pub(crate) mapper: Mapper,
    pub(crate) request: Option<RequestId>,
    /// The hash of the reconcile request by which its writes are remembered; `None` without a request.
    pub(crate) writer: Option<WriterHash>,
    /// Remembers the writes of the client and its copies, so that later reads see them (RYOW-1).
    pub(crate) own: Arc<WriteTracker>,
    /// The host of the API server, for the label `host` of metrics.
    pub(crate) host: Arc<str>,
    /// The number of writes in flight, shared by all clients for which
    /// [`Client::writes_finished`](crate::Client::writes_finished) waits for the same writes.
    pub(crate) in_flight: Arc<WritesInFlight>,
}

/// The number of writes in flight of one client and of the clients made from it.
#[derive(Debug, Default)]
pub(crate) struct WritesInFlight {
    writes: watch::Sender<usize>,
    /// The count of a larger set of clients, such as all clients of a manager: every write that counts here counts
    /// there, too. `None` if there is no larger set.
    whole: Option<Arc<Self>>,
}

/// Counts one write as in flight until this value is dropped: also if the task of the write is dropped before its end.
struct WriteInFlight(Arc<WritesInFlight>);

/// A wait. Dropping this value reports its end: also if the future of the wait is dropped before its end.
#[must_use]
pub(crate) struct ObservedWait<'a> {
    observer: &'a dyn WaitObserver,
    wait: ClientWait,
}

impl WritesInFlight {
    /// Makes a count for some of the clients that `self` counts. Their writes count in the new count and in `self`.
    pub(crate) fn part(self: &Arc<Self>) -> Arc<Self> {
        Arc::new(Self {
            writes: watch::Sender::default(),
            whole: Some(Arc::clone(self)),
        })
    }

    /// Waits until no write of the counted clients is in flight.
    pub(crate) async fn none(&self) {
        // `wait_for` fails only if the `watch` sender is dropped, and `self` holds the sender.
        let _ = self.writes.subscribe().wait_for(|many| *many == 0).await;
    }

    pub(crate) fn count(&self) -> usize {
        *self.writes.borrow()
    }

    fn begin(self: &Arc<Self>) -> WriteInFlight {
        self.add(1);
        WriteInFlight(Arc::clone(self))
    }

    fn add(&self, change: isize) {
        let mut count = Some(self);
        while let Some(counted) = count {
            counted
                .writes
                .send_modify(|many| *many = many.saturating_add_signed(change));
            count = counted.whole.as_deref();
        }
    }
}

impl Drop for WriteInFlight {
    fn drop(&mut self) {
        self.0.add(-1);
    }
}

impl Drop for ObservedWait<'_> {
    fn drop(&mut self) {
        let took = now().saturating_duration_since(self.wait.began);
        self.observer.ended(&self.wait, took);
    }
}

impl RequestSender {
    /// Sends a write and returns the object in the answer.
    ///
    /// CLIENT-7: each attempt runs in a task of its own. If the caller is dropped, this task still reports the outcome
    /// to the observers.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        kind: &Kind,
        request: PreparedRequest<T>,
    ) -> Result<T, Error> {
        Ok(self.answer(kind, request, None).await?.value)
    }

    /// Sends a write and returns the whole answer, with the flag whether the server created the object. `version` is a
    /// version at which the object existed, if such a version is known: after a delete, the object may still appear in
    /// the cache until the cache has passed this version (RYOW-9).
    pub(crate) async fn answer<T: Send + 'static>(
        &self,
        kind: &Kind,
        request: PreparedRequest<T>,
        version: Option<ResourceVersion>,
    ) -> Result<Answer<T>, Error> {
        let span = write_span(kind, request.request_info());
        // Boxed, because a variable that holds it and the span around it would each add its size to the future.
        let sending = Box::pin(self.repeated(kind, request, version));
        let answer = sending.instrument(span.clone()).await;
        record(&span, answer.as_ref().err());
        answer
    }

    /// Sends a write, and repeats it if the server names a time (`Retry-After`).
    async fn repeated<T: Send + 'static>(
        &self,
        kind: &Kind,
        request: PreparedRequest<T>,
        version: Option<ResourceVersion>,
    ) -> Result<Answer<T>, Error> {
        let mut repeats = Repeats::default();
        loop {
            let write = self.describe(kind, &request, version.clone());
            let error = match self.once(write, request.clone()).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            self.pause(error, kind, Some(request.method()), &mut repeats)
                .await?;
        }
    }

    /// Sends the read `ask`, and repeats it if the server names a time (`Retry-After`). `key` is the read object; `None`
    /// for a list.
    pub(crate) async fn read<T, F: Future<Output = Result<T, Error>>>(
        &self,
        kind: &Kind,
        key: Option<&ObjectKey>,
        ask: impl Fn() -> F,
    ) -> Result<T, Error> {
        let span = live_read_span(kind);
        let _observed = self.observe(WaitCause::LiveRead, kind, key);
        // The block is awaited where it is written: each variable that holds it would add its size to the future.
        let answer = async {
            let mut repeats = Repeats::default();
            loop {
                match ask().await {
                    Ok(answer) => return Ok(answer),
                    Err(error) => self.pause(error, kind, None, &mut repeats).await?,
                }
            }
        }
        .instrument(span.clone())
        .await;
        record(&span, answer.as_ref().err());
        answer
    }

    /// Reports the begin of a wait to the observer, if there is one, and its end when the result is dropped.
    pub(crate) fn observe(
        &self,
        cause: WaitCause,
        kind: &Kind,
        key: Option<&ObjectKey>,
    ) -> Option<ObservedWait<'_>> {
        static WAITS: AtomicU64 = AtomicU64::new(0);
        let observer = self.options.wait_observer.as_deref()?;
        let wait = ClientWait {
            // The order is relaxed, because the ids of waits only have to be unique.
            id: WAITS.fetch_add(1, Ordering::Relaxed),
            request: self.request.clone(),
            cause,
            kind: kind.clone(),
            key: key.cloned(),
            began: now(),
        };
        observer.began(&wait);
        Some(ObservedWait { observer, wait })
    }

    /// Returns a copy of this sender. The copy sends dry runs if `dry_run` is set or the client is for dry runs.
    pub(crate) fn dry(&self, dry_run: bool) -> Self {
        let mut sender = self.clone();
        if dry_run && !sender.options.dry_run {
            sender.options = Arc::new(ClientOptions::clone(&sender.options).dry_run(true));
        }
        sender
    }

    /// Returns the request key of the writes that a read must see: `Some(None)` for all keys, and `None` if a read must
    /// see no writes. With `None`, the own writes of the client are not remembered either.
    pub(crate) fn reader(&self) -> Option<Option<WriterHash>> {
        match self.options.consistency {
            ReadConsistency::OwnKey => self.writer.map(Some),
            ReadConsistency::Process => Some(None),
            ReadConsistency::None => None,
        }
    }

    fn observers(&self) -> Vec<Arc<dyn WriteObserver>> {
        if self.options.dry_run {
            return Vec::new();
        }
        let mut observers = self.options.observers.clone();
        if self.reader().is_some() {
            observers.push(Arc::clone(&self.own) as Arc<dyn WriteObserver>);
        }
        observers
    }

    /// Sends a write once, in a task of its own, so that the write goes on if the caller is dropped (CLIENT-7).
    async fn once<T: Send + 'static>(
        &self,
        write: Write,
        request: PreparedRequest<T>,
    ) -> Result<Answer<T>, Error> {
        let observers = self.observers();
        let own = (!self.options.dry_run).then(|| Arc::clone(&self.own));
        let info = request.request_info().clone();
        for observer in &observers {
            guarded(&write, || observer.began(&write));
        }
        let in_flight_write = self.in_flight.begin();
        let (tell, answer) = oneshot::channel();
        let attempt = async move {
            let sent = request.send().await;
            note(own.as_deref(), &observers, &write, &sent);
            drop(in_flight_write);
            sent
        };
        let attempt = attempt.in_current_span();
        let task = async move {
            // `attempt`, with all that it holds, is dropped before the caller gets the answer. If the caller was
            // dropped, the answer is not needed.
            let sent = attempt.await;
            let _ = tell.send(sent);
        };
        let task = spawn(task.boxed());
        if let Ok(sent) = answer.await {
            return sent;
        }
        // The task has ended without an answer: it panicked, or the runtime ended.
        if let Some(Ok(panic)) = task.await.err().map(JoinError::try_into_panic) {
            resume_unwind(panic);
        }
        Err(Error::Transport {
            info: Box::new(info),
            endpoint: None,
            cause: "the runtime ended before the answer came".to_owned(),
        })
    }

    /// Waits until a request that failed with `error` may be sent again. Returns `error` if the request may not be sent
    /// again, or the server names no time (`Retry-After`). `method` is the HTTP method of a write, and `None` for a
    /// read.
    async fn pause(
        &self,
        error: Error,
        kind: &Kind,
        method: Option<&str>,
        repeats: &mut Repeats,
    ) -> Result<(), Error> {
        if error.is_kind_not_served() {
            // The mapper may know outdated kinds of this group, so it asks the server again at the next lookup.
            self.mapper.forget(kind.gvk().group());
        }
        let Some(wait) = repeats.wait(&error, method.is_none(), self.options.retry_after_limit)
        else {
            return Err(error);
        };
        if let (Some(metrics), Some(code)) = (&self.options.metrics, error.code()) {
            metrics.repeated(code, method.unwrap_or("GET"), &self.host, wait);
        }
        // The pauses of a read are part of its wait.
        let is_write = method.is_some();
        let _observed = is_write.then(|| self.observe(WaitCause::RetryAfter, kind, None));
        let span = pause_span(wait, error.code());
        sleep(wait).instrument(span).await;
        Ok(())
    }

    fn describe<T>(
        &self,
        kind: &Kind,
        request: &PreparedRequest<T>,
        version: Option<ResourceVersion>,
    ) -> Write {
        static WRITES: AtomicU64 = AtomicU64::new(0);
        let info = request.request_info();
        let deleted = info.key().filter(|_| info.verb() == "delete");
        let before = deleted.map(|key| self.own.before_delete(kind.gvk(), key, version));
        Write {
            // The order is relaxed, because the ids of writes only have to be unique.
            id: WRITES.fetch_add(1, Ordering::Relaxed),
            request: self.request.clone(),
            verb: info.verb(),
            kind: kind.clone(),
            namespace: info.namespace().map(ToOwned::to_owned),
            key: info.key().filter(|key| !key.name().is_empty()).cloned(),
            generate_name: request.generate_name().map(ToOwned::to_owned),
            subresource: info.subresource().map(ToOwned::to_owned),
            before: before.unwrap_or_default(),
        }
    }
}

/// Spawns a task. Not generic, so that an operator does not compile tokio's tasks once for each type of an answer.
fn spawn(attempt: BoxFuture<'static, ()>) -> JoinHandle<()> {
    tokio::spawn(attempt)
}

fn note<T>(
    own: Option<&WriteTracker>,
    observers: &[Arc<dyn WriteObserver>],
    write: &Write,
    sent: &Result<Answer<T>, Error>,
) {
    let object = sent.as_ref();
    let object = object.map(|answer| (answer.object.as_ref(), &answer.body));
    let outcome = outcome(write, object);
    if let Some(own) = own {
        // RYOW-10: the cache learns the version of the write before the observers run. So an informer that starts in
        // between either lists at that version or later, or the observer that records the write finds the informer.
        own.note_version(write, &outcome);
    }
    for observer in observers {
        guarded(write, || observer.ended(write, &outcome));
    }
}

/// Calls an observer. A panic of an observer affects neither the write nor other observers (MGR-7).
fn guarded(write: &Write, call: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(call)) {
        tracing::error!(
            kind = %write.kind,
            object = write.key.as_ref().map(tracing::field::display),
            verb = write.verb,
            panic = panic_text(&*payload),
            "an observer of writes panicked; the write goes on: correct the observer"
        );
    }
}
