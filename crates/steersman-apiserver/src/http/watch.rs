//! Driver: the stream of a watch: polls its cursor, waits for changes, bookmarks and the end.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::faults::{WatchManners, WatchMode, WatchTap};
use crate::http::body::BodyError;
use crate::http::context::Context;
use crate::http::events::EventEncoder;
use crate::http::reply::WatchBody;
use crate::registry::{Attempt, WatchCursor, WatchEvent};
use crate::status::Status;
use crate::webhook::Question;

/// How many events are taken from the registry under one lock.
const BATCH: usize = 128;

/// How many bytes of lines are put together at once. A line of that size is not copied at all, so a
/// client that reads slowly, or never, costs no more than this and a line that others share
/// (SRV-WATCH-2).
const PIECE: usize = 64 * 1024;

/// How long before its end a watch sends its last bookmark.
const LAST_BOOKMARK: Duration = Duration::from_secs(2);

struct OpenWatch {
    context: Arc<Context>,
    cursor: WatchCursor,
    encoder: EventEncoder,
    changed: watch::Receiver<u64>,
    tap: WatchTap,
    manners: WatchManners,
    stop: CancellationToken,
    ends: Instant,
    next_bookmark: Option<Instant>,
    /// What was taken and is not written yet.
    ready: VecDeque<WatchEvent>,
    /// The poll that waits for a webhook.
    attempt: Attempt,
}

/// What a watch does next.
enum Next {
    Send(Bytes),
    /// The last line.
    SendLast(Bytes),
    Wait,
    Ask(Question),
    End,
    Break,
}

/// The lines of a watch. Dropping the stream closes the watch.
pub(crate) fn stream(
    context: Arc<Context>,
    body: WatchBody,
    (tap, manners): (WatchTap, WatchManners),
    stop: CancellationToken,
) -> BoxStream<'static, Result<Bytes, BodyError>> {
    let now = Instant::now();
    let lasts = body
        .timeout_seconds
        .map_or(context.tuning.watch_timeout, Duration::from_secs);
    let ends = now
        .checked_add(lasts)
        .unwrap_or(now + context.tuning.watch_timeout);
    let changed = context.subscribe(body.cursor.storage());
    let mut open = OpenWatch {
        changed,
        cursor: body.cursor,
        encoder: body.encoder,
        tap,
        manners,
        stop,
        ends,
        next_bookmark: None,
        ready: VecDeque::new(),
        attempt: Attempt::default(),
        context,
    };
    if body.bookmarks {
        open.schedule_bookmark(now);
    }
    stream::unfold(Some(open), |state| async move {
        let mut open = state?;
        loop {
            match open.next() {
                Next::Send(line) => return Some((Ok(line), Some(open))),
                Next::SendLast(line) => return Some((Ok(line), None)),
                Next::Wait => {
                    if let Some(line) = open.wait().await {
                        return Some((Ok(line), Some(open)));
                    }
                }
                Next::Ask(question) => {
                    let context = Arc::clone(&open.context);
                    context.put(question, &mut open.attempt).await;
                }
                Next::End => return None,
                Next::Break => return Some((Err(BodyError), None)),
            }
        }
    })
    .boxed()
}

impl OpenWatch {
    fn next(&mut self) -> Next {
        match self.tap.mode() {
            WatchMode::Live => {}
            WatchMode::Silent => return Next::Wait,
            WatchMode::Cut => return Next::End,
            WatchMode::Expired => {
                let why = Status::too_old(
                    self.cursor.position(),
                    self.context.with_registry(|registry| registry.revision()),
                );
                return Next::SendLast(self.line(&WatchEvent::Error(Box::new(why))));
            }
            WatchMode::Broken => return Next::Break,
        }
        if self.stop.is_cancelled() || Instant::now() >= self.ends {
            return Next::End;
        }
        if self.ready.is_empty()
            && let Err(question) = self.take()
        {
            return Next::Ask(question);
        }
        if !self.ready.is_empty() {
            Next::Send(self.piece())
        } else if self.cursor.is_over() {
            Next::End
        } else {
            Next::Wait
        }
    }

    /// Takes from the registry what is new.
    fn take(&mut self) -> Result<(), Question> {
        let (cursor, attempt) = (&mut self.cursor, &mut self.attempt);
        let context = &self.context;
        let polled = look(&mut self.changed, || {
            context.with_registry(|registry| {
                registry.attempt(attempt, |registry| registry.poll(cursor, BATCH))
            })
        });
        self.ready = polled?.into();
        self.attempt = Attempt::default();
        Ok(())
    }

    /// Waits for something to do; a bookmark that falls due is returned at once.
    async fn wait(&mut self) -> Option<Bytes> {
        if self.tap.mode() == WatchMode::Silent {
            // A connection that went silent does not end by itself either.
            tokio::select! {
                () = self.tap.turned() => {}
                () = self.stop.cancelled() => self.ends = Instant::now(),
            }
            return None;
        }
        let bookmark = self.next_bookmark;
        tokio::select! {
            biased;
            () = self.tap.turned() => None,
            () = self.stop.cancelled() => None,
            changed = self.changed.changed() => {
                if changed.is_err() {
                    // The sender is forgotten only when nobody subscribes to it.
                    self.changed = self.context.subscribe(self.cursor.storage());
                }
                None
            }
            () = due(bookmark) => self.bookmark(),
            () = sleep_until(self.ends) => None,
        }
    }

    fn bookmark(&mut self) -> Option<Bytes> {
        self.schedule_bookmark(Instant::now());
        let cursor = &mut self.cursor;
        let event = self
            .context
            .with_registry(|registry| registry.bookmark(cursor))?;
        Some(self.line(&event))
    }

    /// The next bookmark comes after the usual time, or shortly before the end if that is sooner.
    fn schedule_bookmark(&mut self, now: Instant) {
        let regular = now + self.context.tuning.bookmark_every + self.manners.bookmarks_late;
        let last = self
            .ends
            .checked_sub(LAST_BOOKMARK)
            .filter(|last| *last > now);
        self.next_bookmark = Some(last.map_or(regular, |last| regular.min(last)));
    }

    /// The next lines of what was taken.
    fn piece(&mut self) -> Bytes {
        let mut lines = BytesMut::new();
        while let Some(event) = self.ready.pop_front() {
            let line = self.line(&event);
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

    /// An event as it is written, twice where a fault wants that.
    fn line(&mut self, event: &WatchEvent) -> Bytes {
        let line = self.encoder.encode(event, self.context.now());
        let twice = match event {
            WatchEvent::Bookmark { .. } => self.manners.bookmarks_twice,
            WatchEvent::Added(_) | WatchEvent::Modified(_) | WatchEvent::Deleted(_) => {
                self.manners.events_twice
            }
            _ => false,
        };
        if twice {
            Bytes::from([&line[..], &line[..]].concat())
        } else {
            line
        }
    }
}

/// Marks changes as seen and looks for them, in this order: a change that comes after the look
/// wakes the wait that follows (SRV-2).
fn look<T>(changed: &mut watch::Receiver<u64>, poll: impl FnOnce() -> T) -> T {
    changed.borrow_and_update();
    poll()
}

async fn due(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SRV-2
    #[test]
    fn a_change_that_comes_right_after_the_look_wakes_the_wait() {
        let sender = watch::Sender::new(0);
        let mut changed = sender.subscribe();
        sender.send_modify(|version| *version += 1);
        let looked = look(&mut changed, || {
            let found = *sender.borrow();
            sender.send_modify(|version| *version += 1);
            found
        });
        assert_eq!(looked, 1);
        assert!(changed.has_changed().unwrap());
        look(&mut changed, || ());
        assert!(!changed.has_changed().unwrap());
    }
}
