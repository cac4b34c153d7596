//! Driver: objects on their way from the wire to entries: several at once, and in the order they came.

use std::collections::VecDeque;
use std::mem::take;
use std::panic::resume_unwind;
use std::task::{Context, Poll, ready};

use futures::stream::{Stream, StreamExt as _};
use futures::{FutureExt as _, future};
use steersman_api::{Decoded, Error, ListPart, RawObject, WatchEvent};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::JoinHandle;

use crate::body::Extent;
use crate::delta::Arrived;
use crate::options::DecodeBatches;

/// The size of a batch in bytes of JSON, about: long enough to be worth the way to another thread.
const BATCH: usize = 64 << 10;
/// No more threads than these work for one informer.
const MOST: usize = 4;

/// Makes entries of objects, on whichever thread.
pub(crate) trait Ingest: Clone + Send + Sync + 'static {
    /// Makes an entry of what arrived, reusing the stored one where it is the same. `extent` says
    /// how much of it was asked for.
    fn ingest(&self, change: EventType, decoded: Decoded<RawObject>, extent: Extent) -> Arrived;

    /// Packs what came of it.
    fn pack(&self, arrived: &Arrived);
}

/// What a stream brings: objects, and what there is to say besides.
#[derive(Debug)]
pub(crate) enum StreamPart<O, T> {
    Object(EventType, O),
    Other(T),
}

/// What became of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventType {
    Added,
    Modified,
    Deleted,
}

/// A stream of which the objects become entries (REFL-7).
///
/// In a crowd, as a list is, what has arrived is handed to other threads in batches, and packed there: the
/// next ones are read meanwhile. No more is read ahead than a batch for each thread, and one that waits.
/// Where the runtime has one thread alone, and where nothing but live events is left, each object is worked
/// on as it is read. Live events are packed once those who wait for them were told (PACK-6).
#[derive(Debug)]
pub(crate) struct IngestStream<S, I, T> {
    parts: S,
    ingest: I,
    extent: Extent,
    crowd: bool,
    /// How many batches may be worked on at once; none where each object is worked on as it is read.
    threads: usize,
    /// The size of a batch, in bytes of JSON.
    batch: usize,
    /// What waits to be worked on, and how much JSON it is.
    waiting: Vec<StreamPart<Decoded<RawObject>, T>>,
    bytes: usize,
    working: VecDeque<JoinHandle<Ready<T>>>,
    ready: Ready<T>,
    ended: bool,
}

type Ready<T> = VecDeque<StreamPart<Arrived, T>>;

impl<S, I, T> IngestStream<S, I, T>
where
    S: Stream<Item = StreamPart<Decoded<RawObject>, T>> + Send + Unpin,
    I: Ingest,
    T: Send + 'static,
{
    /// A stream that begins with a crowd, or brings one object now and then.
    pub(crate) fn new(
        parts: S,
        ingest: I,
        extent: Extent,
        crowd: bool,
        decode_batches: Option<DecodeBatches>,
    ) -> Self {
        let (batches, batch) = match decode_batches {
            Some(decode_batches) => (decode_batches.batches, decode_batches.bytes.max(1)),
            None => (if crowd { threads() } else { 0 }, BATCH),
        };
        Self {
            parts,
            ingest,
            extent,
            crowd,
            threads: if crowd { batches } else { 0 },
            batch,
            waiting: Vec::new(),
            bytes: 0,
            working: VecDeque::new(),
            ready: Ready::new(),
            ended: false,
        }
    }

    /// The crowd is over: what comes now is not kept waiting for more.
    pub(crate) fn calm(&mut self) {
        self.crowd = false;
        self.threads = 0;
    }

    /// The next part, once its object is an entry; `None` at the end.
    ///
    /// What is under way stays with the intake when the future is dropped.
    pub(crate) async fn next(&mut self) -> Option<StreamPart<Arrived, T>> {
        future::poll_fn(|context| self.poll_next(context)).await
    }

    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<StreamPart<Arrived, T>>> {
        loop {
            if let Some(part) = self.ready.pop_front() {
                return Poll::Ready(Some(part));
            }
            self.read(context);
            if let Some(first) = self.working.front_mut() {
                self.ready = match ready!(first.poll_unpin(context)) {
                    Ok(ready) => ready,
                    Err(error) => match error.try_into_panic() {
                        Ok(panic) => resume_unwind(panic),
                        // The runtime ends, and this task with it.
                        Err(_) => return Poll::Pending,
                    },
                };
                self.working.pop_front();
                if self.bytes >= self.batch {
                    self.hand_over();
                }
            } else if !self.waiting.is_empty() {
                self.hand_over();
            } else if self.ended {
                return Poll::Ready(None);
            } else {
                return Poll::Pending;
            }
        }
    }

    /// Reads what is there, as far as it may wait.
    fn read(&mut self, context: &mut Context<'_>) {
        let room = |of: &Self| match of.threads {
            0 => of.waiting.is_empty() && of.working.is_empty(),
            threads => of.bytes < of.batch || of.working.len() < threads,
        };
        while !self.ended && room(self) {
            if self.bytes >= self.batch {
                self.hand_over();
            }
            match self.parts.poll_next_unpin(context) {
                Poll::Ready(Some(part)) => {
                    self.bytes += bytes(&part);
                    self.waiting.push(part);
                }
                Poll::Ready(None) => self.ended = true,
                Poll::Pending => return,
            }
        }
    }

    /// Has what waits worked on: elsewhere in a crowd, else here.
    fn hand_over(&mut self) {
        let (parts, ingest) = (take(&mut self.waiting), self.ingest.clone());
        let (extent, crowd) = (self.extent, self.crowd);
        self.bytes = 0;
        let work = move || {
            let parts = parts.into_iter().map(|part| match part {
                StreamPart::Object(change, object) => {
                    let arrived = ingest.ingest(change, object, extent);
                    if crowd {
                        ingest.pack(&arrived);
                    }
                    StreamPart::Object(change, arrived)
                }
                StreamPart::Other(other) => StreamPart::Other(other),
            });
            parts.collect::<Ready<T>>()
        };
        if self.threads > 0 {
            // A batch is short. By the runtime's own threads, because the allocator gives room that was let go
            // of to the threads it came from: others would leave holes behind that nobody fills.
            self.working.push_back(tokio::spawn(async move { work() }));
        } else {
            self.ready.extend(work());
        }
    }
}

/// The parts of a list.
pub(crate) fn listed(
    part: Result<ListPart, Error>,
) -> StreamPart<Decoded<RawObject>, Result<ListPart, Error>> {
    match part {
        Ok(ListPart::Object(object)) => StreamPart::Object(EventType::Added, object),
        other => StreamPart::Other(other),
    }
}

/// The events of a watch.
pub(crate) fn watched(
    event: Result<WatchEvent, Error>,
) -> StreamPart<Decoded<RawObject>, Result<WatchEvent, Error>> {
    match event {
        Ok(WatchEvent::Added(object)) => StreamPart::Object(EventType::Added, object),
        Ok(WatchEvent::Modified(object)) => StreamPart::Object(EventType::Modified, object),
        Ok(WatchEvent::Deleted(object)) => StreamPart::Object(EventType::Deleted, object),
        other => StreamPart::Other(other),
    }
}

fn bytes<T>(part: &StreamPart<Decoded<RawObject>, T>) -> usize {
    match part {
        StreamPart::Object(_, Decoded::Good(object)) => object.json().len(),
        StreamPart::Object(_, Decoded::Malformed(malformed)) => malformed.error.len(),
        StreamPart::Other(_) => 0,
    }
}

/// How many threads there are to work on batches; none where this one has to do all by itself. A clock that is
/// paused has one thread, so what happens there happens in one order.
fn threads() -> usize {
    let runtime = Handle::current();
    match (runtime.runtime_flavor(), runtime.metrics().num_workers()) {
        (RuntimeFlavor::MultiThread, workers @ 2..) => workers.min(MOST),
        _ => 0,
    }
}

#[cfg(test)]
mod tests;
