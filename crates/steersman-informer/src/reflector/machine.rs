//! Machine: decides the reflector's next step from what it last saw.

use std::time::{Duration, Instant};

use steersman_object::ResourceVersion;

use crate::options::Failed;
use crate::reflector::backoff::Backoff;
use crate::reflector::failure::{Class, Failure};
use crate::reflector::step::{End, Marked, Problem, Step};
use crate::state::Reason;

/// The longest a watch may last; the server ends it. Shortened by jitter, so that the watches of
/// many reflectors do not end together.
const WATCH: Duration = Duration::from_secs(290);
const WATCH_JITTER: Duration = Duration::from_secs(20);
/// A watch that outlives its own end by this much without a word is dead.
const MARGIN: Duration = Duration::from_secs(15);
/// A streaming list that says nothing for this long, or sends no end of the initial events for this
/// long after they were over, has no end in sight.
const STALL: Duration = Duration::from_secs(30);
/// A watch that ended sooner did not really begin.
const SHORT: Duration = Duration::from_secs(1);
/// A watch that lasted this long was well, whatever ended it.
const WELL: Duration = Duration::from_secs(10);
/// How often a streaming list may break before an ordinary one is tried.
const STREAMS: u32 = 2;
/// How often in a row a watch may be refused before everything is listed again.
const REFUSALS: u32 = 5;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Phase {
    /// Everything has to be asked for.
    Empty,
    Listing {
        page: Option<String>,
    },
    Streaming,
    Watching,
}

/// Whether lists are streamed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Streams {
    Yes,
    /// They broke: the list that is due is an ordinary one.
    NotNow,
    /// Nobody wants them, or the server does not have them.
    No,
}

/// Mirrors one kind: which requests to make, from which version, and when.
#[derive(Debug)]
pub(crate) struct Machine {
    phase: Phase,
    /// Where the watch has got to (REFL-1).
    position: ResourceVersion,
    /// Where the next list starts: what is at hand, then never before what was seen.
    list_from: ResourceVersion,
    page_size: u32,
    streams: Streams,
    broken_streams: u32,
    /// A token expired: list in one page.
    unpaged: bool,
    /// Expirations without a watch between them that was well (REFL-5).
    expired: u32,
    /// Refusals of a watch without one between them that was well.
    refused: u32,
    /// Events that did not decode, without a good one between them.
    broken: u32,
    /// Watches that ended at once, without anything heard between them.
    short: u32,
    backoff: Backoff,
    pause: Option<Instant>,
    watch: Watch,
    problem: Option<Problem>,
    /// Failures since the last success.
    attempts: u32,
}

/// The open watch.
#[derive(Clone, Copy, Debug, Default)]
struct Watch {
    opened: Option<Instant>,
    heard: Option<Instant>,
    /// Since when it has brought what happens, and not what is there.
    live: Option<Instant>,
    /// When the end of the initial events has to be there at the latest.
    end_due: Option<Instant>,
    timeout: Duration,
}

impl Machine {
    pub(crate) fn new(streaming: bool, page_size: u32, seed: u64) -> Self {
        Self {
            phase: Phase::Empty,
            position: ResourceVersion::unset(),
            list_from: ResourceVersion::any(),
            page_size,
            streams: if streaming { Streams::Yes } else { Streams::No },
            broken_streams: 0,
            unpaged: false,
            expired: 0,
            refused: 0,
            broken: 0,
            short: 0,
            backoff: Backoff::new(seed),
            pause: None,
            watch: Watch::default(),
            problem: None,
            attempts: 0,
        }
    }

    /// Why requests fail at the moment, if they do.
    pub(crate) fn problem(&self) -> Option<&Problem> {
        self.problem.as_ref()
    }

    /// What to do now.
    pub(crate) fn next(&mut self, now: Instant) -> Step {
        if let Some(until) = self.pause.filter(|until| *until > now) {
            return Step::Sleep { until };
        }
        self.pause = None;
        if self.phase == Phase::Empty {
            self.phase = if self.streams == Streams::Yes {
                Phase::Streaming
            } else {
                Phase::Listing { page: None }
            };
        }
        match &self.phase {
            Phase::Empty | Phase::Streaming => Step::Stream {
                // "Any version" would bring the past back; unset is the newest.
                version: if self.list_from.is_exact() {
                    self.list_from.clone()
                } else {
                    ResourceVersion::unset()
                },
                timeout: self.watch_timeout(),
            },
            Phase::Listing { page } => Step::List {
                version: self.list_from.clone(),
                // At an exact version a page is read from etcd, and the whole from memory.
                limit: Some(self.page_size)
                    .filter(|limit| *limit > 0 && !self.unpaged && !self.list_from.is_exact()),
                page: page.clone(),
            },
            Phase::Watching => Step::Watch {
                after: self.position.clone(),
                timeout: self.watch_timeout(),
            },
        }
    }

    /// A page arrived. Says whether the list is complete.
    pub(crate) fn handle_page(&mut self, version: &ResourceVersion, next: Option<String>) -> bool {
        self.succeed();
        let complete = next.is_none();
        if complete {
            self.complete(version);
        } else {
            self.phase = Phase::Listing { page: next };
        }
        complete
    }

    /// A watch was opened. Whether it is a good one shows later: many a server says yes first.
    pub(crate) fn handle_open(&mut self, now: Instant) {
        self.watch.opened = Some(now);
        self.watch.heard = None;
        self.watch.live = (self.phase == Phase::Watching).then_some(now);
        self.watch.end_due = None;
    }

    /// An event arrived, of an object at this version.
    pub(crate) fn handle_event(&mut self, version: &ResourceVersion, now: Instant) {
        self.hear(now);
        // The initial events of a streaming list come in no order.
        if self.phase == Phase::Watching {
            self.advance(version);
        }
    }

    /// An event arrived that is of no initial set: an object changed, or went. The initial events
    /// are over then, and their end is due; where it does not come, the server took the request
    /// for an ordinary watch, and may be too busy to ever be silent.
    pub(crate) fn handle_live_event(&mut self, now: Instant) {
        if self.phase == Phase::Streaming {
            self.watch.end_due.get_or_insert(now + STALL);
        }
    }

    /// A bookmark arrived.
    pub(crate) fn handle_bookmark(
        &mut self,
        version: &ResourceVersion,
        initial_events_end: bool,
        now: Instant,
    ) -> Marked {
        self.hear(now);
        match self.phase {
            Phase::Streaming if initial_events_end => {
                self.complete(version);
                self.watch.live = Some(now);
                Marked::Complete
            }
            Phase::Streaming => {
                // The first bookmark of a streaming list is its end: this server took the
                // request for an ordinary watch, and may go on for ever.
                self.streams = Streams::No;
                self.phase = Phase::Empty;
                self.close(now);
                Marked::NoStream
            }
            Phase::Watching => {
                self.advance(version);
                Marked::Position
            }
            Phase::Empty | Phase::Listing { .. } => Marked::Position,
        }
    }

    /// When to look at an open watch again, if nothing arrives before.
    pub(crate) fn deadline(&self, now: Instant) -> Instant {
        let opened = self.watch.opened.unwrap_or(now);
        let settled = opened + SHORT;
        if self.problem.is_some() && now < settled {
            return settled;
        }
        self.silent_at(opened)
    }

    /// More of each object is wanted than was asked for: everything is asked for again, at a state
    /// no older than what was seen (VIEW-3).
    pub(crate) fn handle_widen(&mut self, now: Instant) {
        self.close(now);
        self.restart(self.list_from.clone());
    }

    /// The deadline has come. Says whether the watch is to be given up.
    pub(crate) fn handle_tick(&mut self, now: Instant) -> bool {
        let opened = self.watch.opened.unwrap_or(now);
        let silent = now >= self.silent_at(opened);
        if now >= opened + SHORT {
            // It stayed open: whatever went wrong before is over.
            self.problem = None;
            self.short = 0;
            if !silent {
                self.attempts = 0;
            }
        }
        silent
    }

    /// An open watch came to its end. Answers what to tell of it, where it is a failure.
    #[must_use = "somebody may want to be told"]
    pub(crate) fn handle_end(&mut self, end: End, now: Instant) -> Option<Failed> {
        let watch = self.close(now);
        let opened = watch.opened.unwrap_or(now);
        let short = now < opened + SHORT;
        let failed = match end {
            End::Silent => Some((
                Reason::Silent,
                "nothing was heard of the watch for too long",
            )),
            End::Closed if short && watch.heard.is_none() => {
                Some((Reason::ShortWatch, "the server ended the watch at once"))
            }
            End::Closed if self.phase == Phase::Streaming => {
                Some((Reason::Network, "a list ended early"))
            }
            End::Closed => None,
        };
        if self.phase == Phase::Streaming {
            self.phase = Phase::Empty;
            self.broken_streams += 1;
            self.pause = None;
            if watch.end_due.is_some_and(|due| now >= due) {
                // No failure: it was never asked for more than it has.
                self.streams = Streams::No;
                return None;
            } else if end == End::Silent || self.broken_streams >= STREAMS {
                self.streams = Streams::NotNow;
            } else {
                self.pause = Some(self.backoff.fail(now, None));
            }
        } else if !short {
            // REFL-3: a watch that ended is resumed from where it got to, and nothing is listed.
            self.short = 0;
        } else if watch.heard.is_some() {
            // Something came: no failure, but no hot loop either.
            self.short = 0;
            self.pause = Some(opened + SHORT);
        } else {
            self.short += 1;
            self.pause = Some(self.backoff.fail(now, None));
            if self.short >= 3 {
                self.degrade(
                    Reason::ShortWatch,
                    "the server ends each watch at once",
                    now,
                );
            }
        }
        if failed.is_none() {
            self.attempts = 0;
        }
        failed.map(|(reason, message)| self.failed(reason, message))
    }

    /// A request failed, or the watch brought an error. Answers what to tell of it.
    #[must_use = "somebody may want to be told"]
    pub(crate) fn handle_failure(&mut self, failure: &Failure, now: Instant) -> Failed {
        self.fall_back(failure, now);
        self.failed(failure.class.reason(), &failure.message)
    }

    /// Decides how to go on after a failure.
    fn fall_back(&mut self, failure: &Failure, now: Instant) {
        self.close(now);
        let streaming = self.phase == Phase::Streaming;
        let paging = matches!(&self.phase, Phase::Listing { page: Some(_) });
        match failure.class {
            Class::Expired | Class::VersionUnknown => {
                self.unpaged |= paging;
                self.restart(ResourceVersion::unset());
                // REFL-5: the first time is a normal end of a version's life.
                self.expired += 1;
                if self.expired == 1 && failure.class == Class::Expired {
                    return;
                }
            }
            Class::Rejected if streaming => {
                self.streams = Streams::No;
                self.phase = Phase::Empty;
                return;
            }
            // A token that the server does not understand (any more).
            Class::Rejected if paging => {
                self.unpaged = true;
                self.restart(ResourceVersion::unset());
            }
            Class::Decode if self.phase == Phase::Watching => {
                self.broken += 1;
                if self.broken >= 2 {
                    // The event cannot be had: look at the whole instead.
                    self.broken = 0;
                    self.restart(self.position.clone());
                }
            }
            Class::Decode | Class::Server if streaming => {
                self.broken_streams += 1;
                if self.broken_streams > STREAMS {
                    self.streams = Streams::NotNow;
                }
                self.phase = Phase::Empty;
            }
            Class::Rejected | Class::Server if self.phase == Phase::Watching => {
                self.refused += 1;
                if self.refused >= REFUSALS {
                    // It cannot be watched from here, whatever the reason: begin anew.
                    self.refused = 0;
                    self.restart(ResourceVersion::unset());
                }
            }
            // What the kind held went with it; when it comes back, versions start anew.
            Class::NotServed => self.restart(ResourceVersion::unset()),
            // REFL-2, REFL-3: neither 429 nor a refused connection lists anything again.
            Class::Rejected
            | Class::Forbidden
            | Class::Unauthorized
            | Class::Throttled
            | Class::Network
            | Class::Server
            | Class::Decode => {
                if streaming {
                    self.phase = Phase::Empty;
                }
            }
        }
        self.pause = Some(self.backoff.fail(now, failure.after));
        self.degrade(failure.class.reason(), &failure.message, now);
    }

    fn complete(&mut self, version: &ResourceVersion) {
        self.phase = Phase::Watching;
        self.position = version.clone();
        self.list_from = version.clone();
        self.unpaged = false;
        self.broken_streams = 0;
        if self.streams == Streams::NotNow {
            self.streams = Streams::Yes;
        }
    }

    /// The watch is over, however it ended.
    fn close(&mut self, now: Instant) -> Watch {
        let watch = std::mem::take(&mut self.watch);
        if watch.live.is_some_and(|since| now >= since + WELL) {
            self.expired = 0;
            self.refused = 0;
        }
        watch
    }

    /// Everything is asked for again, starting from `version` or newer.
    fn restart(&mut self, version: ResourceVersion) {
        self.phase = Phase::Empty;
        self.list_from = version;
    }

    /// REFL-1: within a watch the version only advances.
    fn advance(&mut self, version: &ResourceVersion) {
        if !version.is_exact() || self.position.is_at_least(version) {
            return;
        }
        self.position = version.clone();
        self.list_from = version.clone();
    }

    fn hear(&mut self, now: Instant) {
        self.watch.heard = Some(now);
        self.succeed();
        self.broken = 0;
    }

    fn succeed(&mut self) {
        self.problem = None;
        self.short = 0;
        self.attempts = 0;
    }

    fn failed(&mut self, reason: Reason, message: &str) -> Failed {
        self.attempts = self.attempts.saturating_add(1);
        Failed {
            reason,
            message: message.to_owned(),
            attempt: self.attempts,
        }
    }

    fn silent_at(&self, opened: Instant) -> Instant {
        let last = self.watch.heard.unwrap_or(opened);
        if self.phase == Phase::Streaming {
            let stalled = last + STALL;
            return self.watch.end_due.map_or(stalled, |due| due.min(stalled));
        }
        (opened + self.watch.timeout + MARGIN).max(last + MARGIN)
    }

    fn degrade(&mut self, reason: Reason, message: &str, now: Instant) {
        let same = self.problem.as_ref().filter(|p| p.reason == reason);
        let since = same.map_or(now, |problem| problem.since);
        self.problem = Some(Problem {
            reason,
            message: message.to_owned(),
            since,
        });
    }

    fn watch_timeout(&mut self) -> Duration {
        let less = WATCH_JITTER.mul_f64(self.backoff.jitter().fraction());
        // Servers take whole seconds.
        self.watch.timeout = Duration::from_secs((WATCH - less).as_secs());
        self.watch.timeout
    }
}

#[cfg(test)]
mod tests;
