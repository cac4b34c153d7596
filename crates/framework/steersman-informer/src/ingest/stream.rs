//! Driver: a stream that makes entries of the server's objects, several at once and in their order.

use std::collections::VecDeque;
use std::mem::{size_of, take};
use std::panic::resume_unwind;
use std::task::{Context, Poll, ready};

use futures::stream::{Stream, StreamExt as _};
use futures::{FutureExt as _, future};
use steersman_api::{Decoded, Error, ListPart, Projection, RawObject, WatchEvent};
use steersman_object::{ObjectKey, ResourceVersion};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::JoinHandle;

use crate::delta::{Arrived, EventType, IngestContext};
use crate::ingest::read_ahead::{ReadAhead, ReadStep, Worker};
use crate::options::DecodeBatches;

/// The size of a batch, in bytes of JSON: large enough to pay for a task.
const BATCH: usize = 64 << 10;
/// The largest number of batches of one informer that are processed at once.
const MOST: usize = 4;

/// Makes entries of objects, on any thread.
pub(crate) trait Ingest: Clone + Send + Sync + 'static {
    /// Makes an entry of an object that arrived, or returns the stored entry of the same version.
    fn ingest(&self, decoded: Decoded<RawObject>, arrived_as: IngestContext) -> Arrived;

    /// Returns whether the object with this key is ingested. Other objects become [`StreamPart::Foreign`]. By default
    /// all objects are ingested.
    fn accepts(&self, _key: &ObjectKey) -> bool {
        true
    }
}

/// One part of a stream: an object, or another message.
#[derive(Debug)]
pub(crate) enum StreamPart<O, T> {
    Object(EventType, O),
    /// The version of an object that is not ingested (SHARD-5).
    Foreign(EventType, ResourceVersion),
    Other(T),
}

/// A stream that makes entries of its objects and returns them in order (REFL-7).
///
/// Within a list, several threads process batches of objects while the next objects are read; [`ReadAhead`] decides the
/// number of batches. On a runtime with one thread, and for live events, each object is processed as it is read.
#[derive(Debug)]
pub(crate) struct IngestStream<S, I, T> {
    parts: S,
    ingest: I,
    projection: Projection,
    in_list: bool,
    read_ahead: ReadAhead,
    waiting: Vec<StreamPart<Decoded<RawObject>, T>>,
    in_flight: VecDeque<JoinHandle<Ready<T>>>,
    ready: Ready<T>,
}

type Ready<T> = VecDeque<StreamPart<Arrived, T>>;

impl<S, I, T> IngestStream<S, I, T>
where
    S: Stream<Item = StreamPart<Decoded<RawObject>, T>> + Send + Unpin,
    I: Ingest,
    T: Send + 'static,
{
    /// Returns the stream of a list (`in_list`) or of live events.
    pub(crate) fn new(
        parts: S,
        ingest: I,
        projection: Projection,
        in_list: bool,
        decode_batches: Option<DecodeBatches>,
    ) -> Self {
        let (workers, batch) = match decode_batches {
            _ if !in_list => (0, BATCH),
            Some(batches) => (batches.batches, batches.bytes.max(1)),
            None => (threads(), BATCH),
        };
        Self {
            parts,
            ingest,
            projection,
            in_list,
            read_ahead: ReadAhead::new(workers, batch),
            waiting: Vec::new(),
            in_flight: VecDeque::new(),
            ready: Ready::new(),
        }
    }

    /// Marks the list as complete: live events follow.
    pub(crate) fn end_list(&mut self) {
        self.in_list = false;
        self.read_ahead.stop_reading_ahead();
    }

    /// Returns the next part, with its object as an entry; `None` at the end of the stream.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing: the stream keeps the batches that are being processed.
    pub(crate) async fn next(&mut self) -> Option<StreamPart<Arrived, T>> {
        future::poll_fn(|context| self.poll_next(context)).await
    }

    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<StreamPart<Arrived, T>>> {
        let mut is_dry = false;
        loop {
            if let Some(part) = self.ready.pop_front() {
                return Poll::Ready(Some(part));
            }
            match self.read_ahead.next(is_dry) {
                ReadStep::Read => match self.parts.poll_next_unpin(context) {
                    Poll::Ready(Some(part)) => {
                        let part = self.accepted(part);
                        self.read_ahead.handle_part(bytes(&part));
                        self.waiting.push(part);
                    }
                    Poll::Ready(None) => self.read_ahead.handle_end(),
                    Poll::Pending => is_dry = true,
                },
                ReadStep::HandOver => self.hand_over(),
                ReadStep::AwaitBatch => ready!(self.poll_batch(context)),
                ReadStep::AwaitStream => return Poll::Pending,
                ReadStep::End => return Poll::Ready(None),
            }
        }
    }

    /// SHARD-5: drops the object of a part that is not ingested, before it is decoded or packed.
    fn accepted(
        &self,
        part: StreamPart<Decoded<RawObject>, T>,
    ) -> StreamPart<Decoded<RawObject>, T> {
        let (key, version) = match &part {
            StreamPart::Object(_, Decoded::Good(object)) => {
                let head = object.head();
                (&head.key, &head.version)
            }
            StreamPart::Object(_, Decoded::Malformed(object)) => (&object.key, &object.version),
            StreamPart::Foreign(..) | StreamPart::Other(_) => return part,
        };
        match &part {
            StreamPart::Object(event_type, _) if !self.ingest.accepts(key) => {
                StreamPart::Foreign(*event_type, version.clone())
            }
            _ => part,
        }
    }

    fn poll_batch(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some(oldest) = self.in_flight.front_mut() else {
            return Poll::Ready(());
        };
        self.ready = match ready!(oldest.poll_unpin(context)) {
            Ok(ready) => ready,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => resume_unwind(panic),
                // The runtime is shutting down, and drops this task, too.
                Err(_) => return Poll::Pending,
            },
        };
        self.in_flight.pop_front();
        if self.read_ahead.handle_done() {
            self.hand_over();
        }
        Poll::Ready(())
    }

    /// Processes the waiting parts as a batch, in this task or in a task of its own.
    fn hand_over(&mut self) {
        let (parts, ingest) = (take(&mut self.waiting), self.ingest.clone());
        let (projection, in_list) = (self.projection, self.in_list);
        let work = move || {
            let parts = parts.into_iter().map(|part| match part {
                StreamPart::Object(event_type, object) => {
                    let arrived_as = IngestContext {
                        event_type,
                        projection,
                        in_list,
                    };
                    StreamPart::Object(event_type, ingest.ingest(object, arrived_as))
                }
                StreamPart::Foreign(event_type, version) => {
                    StreamPart::Foreign(event_type, version)
                }
                StreamPart::Other(other) => StreamPart::Other(other),
            });
            parts.collect::<Ready<T>>()
        };
        match self.read_ahead.hand_over() {
            // A batch is short, so it runs on the runtime's own threads: the allocator returns freed memory to the
            // allocating thread, and memory of blocking threads would stay unused.
            Worker::Task => self
                .in_flight
                .push_back(tokio::spawn(async move { work() })),
            Worker::Reader => self.ready.extend(work()),
        }
    }
}

pub(crate) fn listed(
    part: Result<ListPart, Error>,
) -> StreamPart<Decoded<RawObject>, Result<ListPart, Error>> {
    match part {
        Ok(ListPart::Object(object)) => StreamPart::Object(EventType::Added, object),
        other => StreamPart::Other(other),
    }
}

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
        // Foreign parts count with their own size, so that a batch holds a limited number of them.
        StreamPart::Foreign(..) => size_of::<StreamPart<Arrived, T>>(),
        StreamPart::Other(_) => 0,
    }
}

/// Returns the number of workers for batches; 0 on a runtime with one thread, for instance with a paused clock.
fn threads() -> usize {
    let runtime = Handle::current();
    match (runtime.runtime_flavor(), runtime.metrics().num_workers()) {
        (RuntimeFlavor::MultiThread, workers @ 2..) => workers.min(MOST),
        _ => 0,
    }
}

#[cfg(test)]
mod tests;
