//! Driver: the stream of a watch: reads events from the registry, and waits for changes, bookmarks and its end.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{self, Poll, ready};
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, Stream, StreamExt};
use steersman_apimachinery::status::Status;
use steersman_registry::webhook::PendingCalls;
use steersman_registry::{Attempt, WatchCursor, WatchEvent};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::faults::{WatchFaults, WatchMode, WatchTap};
use crate::http::context::Context;
use crate::http::responses::body::BodyError;
use crate::http::responses::events::EventEncoder;
use crate::http::responses::reply::WatchBody;

/// Maximum number of events that a watch reads under one lock of the registry, so that other requests wait briefly.
const BATCH: usize = 128;

/// Number of bytes at which a piece of the stream is complete. Events are copied into the piece; only a first event of
/// this length is sent without a copy. So a client that never reads costs at most a piece and one event (SRV-WATCH-2).
const PIECE: usize = 64 * 1024;

/// How long before its timeout a watch sends its last bookmark, from which the client can resume.
const LAST_BOOKMARK: Duration = Duration::from_secs(2);

struct OpenWatch {
    context: Arc<Context>,
    cursor: WatchCursor,
    encoder: EventEncoder,
    /// The mode of the watch (live, silent, cut and so on), which tests set, and the waker of the watch. Changes of the
    /// mode and of the watched storage wake it.
    tap: WatchTap,
    faults: WatchFaults,
    ends: Instant,
    bookmarks: bool,
    /// Fires at the next bookmark or at the end of the watch, whichever comes first.
    timer: Pin<Box<Sleep>>,
    /// Whether the registry may have events that this watch has not read yet.
    stale: bool,
    /// Events that were read from the registry and are not sent yet.
    ready: VecDeque<WatchEvent>,
    /// The answers of conversion webhooks so far, for the read of events that waits for such answers.
    attempt: Attempt,
    asking: Option<BoxFuture<'static, Attempt>>,
}

/// The stream of a watch; each item has the bytes of one or more events. The watch is dropped after its last item, not
/// only when its client disconnects.
struct Lines(Option<OpenWatch>);

enum Next {
    Say(StepOutcome),
    /// Waits until the waker of the watch is woken or its timer fires. `WaitSilently`, for a silenced watch, waits for
    /// the waker alone.
    Wait,
    WaitSilently,
    Ask(PendingCalls),
}

enum StepOutcome {
    Line(Bytes),
    LastLine(Bytes),
    End,
    Break,
}

pub(crate) fn stream(
    context: Arc<Context>,
    body: WatchBody,
    tap: WatchTap,
    faults: WatchFaults,
) -> BoxStream<'static, Result<Bytes, BodyError>> {
    let now = Instant::now();
    let usual = context.tuning.watch_timeout;
    let lasts = body.timeout_seconds.map_or(usual, Duration::from_secs);
    let ends = now.checked_add(lasts).unwrap_or(now + usual);
    let storage = body.cursor.storage();
    context.changes.subscribe(storage, tap.waker());
    let mut open = OpenWatch {
        cursor: body.cursor,
        encoder: body.encoder,
        tap,
        faults,
        ends,
        bookmarks: body.bookmarks,
        timer: Box::pin(sleep_until(ends)),
        stale: true,
        ready: VecDeque::new(),
        attempt: Attempt::default(),
        asking: None,
        context,
    };
    if open.bookmarks {
        open.schedule_bookmark(now);
    }
    Lines(Some(open)).boxed()
}

impl Stream for Lines {
    type Item = Result<Bytes, BodyError>;

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut task::Context<'_>,
    ) -> Poll<Option<Self::Item>> {
        let Some(open) = &mut self.0 else {
            return Poll::Ready(None);
        };
        let (line, last) = match ready!(open.poll(context)) {
            StepOutcome::Line(line) => (Some(Ok(line)), false),
            StepOutcome::LastLine(line) => (Some(Ok(line)), true),
            StepOutcome::End => (None, true),
            StepOutcome::Break => (Some(Err(BodyError)), true),
        };
        if last {
            self.0 = None;
        }
        Poll::Ready(line)
    }
}

impl OpenWatch {
    fn poll(&mut self, context: &mut task::Context<'_>) -> Poll<StepOutcome> {
        loop {
            if self.asking.is_some() && self.is_to_end(context) {
                self.asking = None;
            }
            if let Some(asking) = &mut self.asking {
                self.attempt = ready!(asking.poll_unpin(context));
                self.asking = None;
            }
            match self.next() {
                Next::Say(said) => return Poll::Ready(said),
                Next::Wait => {
                    if let Some(said) = ready!(self.poll_wait(context)) {
                        return Poll::Ready(said);
                    }
                }
                // A silenced watch ignores its timer: it sends no bookmark and does not end after its timeout.
                Next::WaitSilently => ready!(self.poll_waker(context)),
                Next::Ask(question) => self.ask(question),
            }
        }
    }

    fn next(&mut self) -> Next {
        match self.tap.mode() {
            WatchMode::Live => {}
            WatchMode::Silent => return Next::WaitSilently,
            WatchMode::Cut => return Next::Say(StepOutcome::End),
            WatchMode::Stopped => return self.next_of_stopped(),
            WatchMode::Expired => {
                let newest = self.context.with_registry(|registry| registry.revision());
                let why = Status::too_old(self.cursor.position(), newest);
                let line = self.line(&WatchEvent::Error(Box::new(why)));
                return Next::Say(StepOutcome::LastLine(line));
            }
            WatchMode::Broken => return Next::Say(StepOutcome::Break),
        }
        if self.encoder.is_over() {
            return Next::Say(StepOutcome::End);
        }
        if self.ready.is_empty() && self.stale {
            if Instant::now() >= self.ends {
                return Next::Say(StepOutcome::End);
            }
            if let Err(question) = self.take() {
                return Next::Ask(question);
            }
        }
        if !self.ready.is_empty() {
            Next::Say(StepOutcome::Line(self.piece()))
        } else if self.cursor.is_over() {
            Next::Say(StepOutcome::End)
        } else {
            Next::Wait
        }
    }

    /// Returns the next step of a watch that ends because its listener stops: first the events so far, then a bookmark
    /// if the client takes bookmarks, then the end (SRV-STOP-1). From the bookmark the client can resume even if a
    /// restart loses the history before it.
    fn next_of_stopped(&mut self) -> Next {
        if self.encoder.is_over() {
            return Next::Say(StepOutcome::End);
        }
        // A watch calls no webhooks once its listener stops, so it ends if its events need a conversion webhook.
        if self.ready.is_empty() && self.stale && self.take().is_err() {
            return Next::Say(StepOutcome::End);
        }
        if !self.ready.is_empty() {
            return Next::Say(StepOutcome::Line(self.piece()));
        }
        let last = self.bookmarks.then(|| self.bookmark()).flatten();
        Next::Say(last.map_or(StepOutcome::End, StepOutcome::LastLine))
    }

    /// Returns whether the mode ends a watch that waits for a webhook. A later change of the mode wakes the task.
    fn is_to_end(&mut self, context: &task::Context<'_>) -> bool {
        while self.poll_waker(context).is_ready() {}
        !matches!(self.tap.mode(), WatchMode::Live | WatchMode::Silent)
    }

    fn take(&mut self) -> Result<(), PendingCalls> {
        let (cursor, attempt) = (&mut self.cursor, &mut self.attempt);
        let taken = self.context.with_registry(|registry| {
            registry.attempt(attempt, |registry| registry.poll(cursor, BATCH))
        })?;
        self.stale = taken.len() >= BATCH;
        self.ready = taken.into();
        self.attempt = Attempt::default();
        Ok(())
    }

    fn ask(&mut self, question: PendingCalls) {
        let context = Arc::clone(&self.context);
        let mut attempt = std::mem::take(&mut self.attempt);
        self.asking = Some(Box::pin(async move {
            context.put(question, &mut attempt).await;
            attempt
        }));
    }

    /// Waits until the waker is woken, because there may be new events, and returns `None`; or until the timer fires,
    /// and returns a bookmark or the end of the watch.
    fn poll_wait(&mut self, context: &mut task::Context<'_>) -> Poll<Option<StepOutcome>> {
        if self.poll_waker(context).is_ready() {
            return Poll::Ready(None);
        }
        ready!(self.timer.as_mut().poll(context));
        if Instant::now() >= self.ends {
            return Poll::Ready(Some(StepOutcome::End));
        }
        Poll::Ready(self.bookmark().map(StepOutcome::Line))
    }

    /// Waits until the waker of the watch is woken. SRV-2: also clears the waker before the watch reads events, so that
    /// a change during the read wakes the watch again.
    fn poll_waker(&mut self, context: &task::Context<'_>) -> Poll<()> {
        ready!(self.tap.waker().poll_woken(context));
        self.stale = true;
        Poll::Ready(())
    }

    fn bookmark(&mut self) -> Option<Bytes> {
        self.schedule_bookmark(Instant::now());
        let cursor = &mut self.cursor;
        let event = self
            .context
            .with_registry(|registry| registry.bookmark(cursor))?;
        Some(self.line(&event))
    }

    /// Sets the timer for the next bookmark: after their interval, but at least two seconds before the watch ends.
    fn schedule_bookmark(&mut self, now: Instant) {
        let regular = now + self.context.tuning.bookmark_every + self.faults.bookmarks_late;
        let last = self.ends.checked_sub(LAST_BOOKMARK);
        let last = last.filter(|last| *last > now);
        let next = last.map_or(regular, |last| regular.min(last));
        self.timer.as_mut().reset(next.min(self.ends));
    }

    fn piece(&mut self) -> Bytes {
        let mut lines = BytesMut::new();
        while let Some(event) = self.ready.pop_front() {
            let line = self.line(&event);
            if self.encoder.is_over() {
                self.ready.clear();
            }
            if lines.is_empty() && (self.ready.is_empty() || line.len() >= PIECE) {
                return line;
            }
            lines.put_slice(&line);
            if lines.len() >= PIECE {
                break;
            }
        }
        lines.freeze()
    }

    /// Returns the bytes of an event, twice in a row if a fault repeats such events.
    fn line(&mut self, event: &WatchEvent) -> Bytes {
        let line = self.encoder.encode(event, || self.context.now());
        let twice = match event {
            WatchEvent::Bookmark { .. } => self.faults.bookmarks_twice,
            WatchEvent::Added(_) | WatchEvent::Modified(_) | WatchEvent::Deleted(_) => {
                self.faults.events_twice
            }
            WatchEvent::Error(_) => false,
        };
        if twice {
            Bytes::from([&line[..], &line[..]].concat())
        } else {
            line
        }
    }
}
