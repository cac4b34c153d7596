//! Machine: decides the reflector's next request from the results of the previous ones.

mod slots;

use std::time::{Duration, Instant};

use steersman_object::ResourceVersion;

use crate::options::Failed;
use crate::reflector::failure::{FailureClass, RequestFailure};
use crate::reflector::pauses::Pauses;
use crate::reflector::problems::ProblemTracker;
use crate::reflector::step::{
    BookmarkEffect, ReflectorPhase, ReflectorStep, RequestProblem, Streams, WatchEnd,
};
use crate::reflector::watch_activity::{Bookmarks, SHORT, STALL, WatchActivity};
use crate::state::{ListCause, Reason};

/// The longest timeout of a watch. The server enforces it. Jitter keeps reflectors from ending their watches together.
const WATCH: Duration = Duration::from_secs(290);
const WATCH_JITTER: Duration = Duration::from_secs(20);
/// How long a watch must have delivered live events to count as healthy. The end of a healthy watch resets the counts
/// of expirations and refusals.
const WELL: Duration = Duration::from_secs(10);
/// The number of broken streaming lists after which the reflector tries an ordinary list.
const STREAMS: u32 = 2;
/// The number of refused or failed watches since a healthy one after which the reflector lists again (REFL-8).
const REFUSALS: u32 = 5;
/// The number of consecutive watches without events that end at once, after which the reflector lists again (REFL-11).
const EMPTY: u32 = 3;
/// The number of consecutive expirations after which the informer counts as degraded (REFL-5).
const EXPIRED: u32 = 3;
/// The time within which a working server accepts the next watch. After it the informer counts as degraded.
const ANSWER: Duration = Duration::from_secs(5);
/// Replaces [`ANSWER`] after a broken connection: an outage is likely, so the informer counts as degraded earlier.
const ANSWER_OF_BROKEN: Duration = Duration::from_secs(1);
const SILENT: &str = "nothing was heard of the watch for too long";

/// Decides which requests to make for one kind, from which resource version, and when.
#[derive(Debug)]
pub(crate) struct ReflectorMachine {
    phase: ReflectorPhase,
    /// The resource version up to which the watch has delivered everything (REFL-1).
    position: ResourceVersion,
    /// The resource version that the next list must have reached: any for the first list, and later the newest version
    /// seen. Unset asks for the newest state.
    list_from: ResourceVersion,
    page_size: u32,
    streams: Streams,
    broken_streams: u32,
    /// Whether a continue token expired or was refused, so that the next list is requested as one page.
    unpaged: bool,
    /// The number of requests since the last healthy watch (see [`WELL`]) with a resource version or a continue token
    /// that had expired or was unknown to the server (REFL-5).
    expired: u32,
    /// The number of refused or failed watches since the last healthy watch.
    refused: u32,
    /// The number of consecutive events that did not decode.
    broken: u32,
    /// The number of consecutive watches without events that ended at once (REFL-11).
    short: u32,
    pauses: Pauses,
    /// Whether the connection of the last watch broke, so that [`ANSWER_OF_BROKEN`] applies.
    broke: bool,
    watch: WatchActivity,
    bookmarks: Bookmarks,
    problems: ProblemTracker,
    /// Why the next list is needed, or why the last one was.
    list_cause: ListCause,
}

impl ReflectorMachine {
    pub(crate) fn new(streaming: bool, page_size: u32, seed: u64) -> Self {
        Self {
            phase: ReflectorPhase::Empty,
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
            pauses: Pauses::new(seed),
            broke: false,
            watch: WatchActivity::default(),
            bookmarks: Bookmarks::default(),
            problems: ProblemTracker::default(),
            list_cause: ListCause::Start,
        }
    }

    /// Sets the version that the first list must have reached; unset asks for the newest state (RYOW-10).
    pub(crate) fn starting_at(mut self, version: ResourceVersion) -> Self {
        self.list_from = version;
        self
    }

    pub(crate) fn problem(&self) -> Option<&RequestProblem> {
        self.problems.problem()
    }

    pub(crate) fn list_cause(&self) -> ListCause {
        self.list_cause
    }

    pub(crate) fn next_step(&mut self, now: Instant) -> ReflectorStep {
        if let Some((until, away)) = self.pauses.current(now) {
            return ReflectorStep::Sleep { until, away };
        }
        if self.phase == ReflectorPhase::Empty {
            self.phase = if self.streams == Streams::Yes {
                ReflectorPhase::Streaming
            } else {
                ReflectorPhase::Listing { page: None }
            };
        }
        match &self.phase {
            ReflectorPhase::Empty | ReflectorPhase::Streaming => ReflectorStep::Stream {
                // A streaming list must reach the version in `list_from`, if this version is exact. Otherwise it asks
                // for the newest state, never for "any version", because that may be older than the versions seen.
                version: if self.list_from.is_exact() {
                    self.list_from.clone()
                } else {
                    ResourceVersion::unset()
                },
                timeout: self.watch_timeout(),
            },
            ReflectorPhase::Listing { page } => ReflectorStep::List {
                version: self.list_from.clone(),
                // At an exact version the list has no pages, because the server reads pages from etcd, and whole lists
                // from its cache.
                limit: Some(self.page_size)
                    .filter(|limit| *limit > 0 && !self.unpaged && !self.list_from.is_exact()),
                page: page.clone(),
            },
            ReflectorPhase::Watching => ReflectorStep::Watch {
                after: self.position.clone(),
                timeout: self.watch_timeout(),
            },
        }
    }

    /// Handles a page of a list. Returns whether the list is complete.
    pub(crate) fn handle_page(&mut self, version: &ResourceVersion, next: Option<String>) -> bool {
        self.problems.listed();
        let complete = next.is_none();
        if complete {
            self.complete(version);
        } else {
            self.phase = ReflectorPhase::Listing { page: next };
        }
        complete
    }

    /// Handles the first sign that the server answers a request: resets the backoff of outages.
    pub(crate) fn handle_answer(&mut self) {
        self.pauses.handle_answer();
    }

    /// Handles the opening of a watch. This is no success yet: a server may accept a watch and then fail.
    pub(crate) fn handle_open(&mut self, now: Instant) {
        self.handle_answer();
        self.broke = false;
        self.watch = self.watch.open(self.phase == ReflectorPhase::Watching, now);
    }

    pub(crate) fn answer_due(&self, now: Instant) -> Instant {
        now + if self.broke { ANSWER_OF_BROKEN } else { ANSWER }
    }

    /// Handles a late response to a watch request: the informer is degraded, because the store may be stale.
    pub(crate) fn handle_late(&mut self, now: Instant) {
        if self.phase == ReflectorPhase::Watching && self.problem().is_none() {
            let message =
                "the watch has ended, and the server does not answer the request for the next one";
            self.degrade(Reason::Network, message, now);
        }
    }

    /// Handles the return of the server after an outage: resets the backoff of outages and ends their pause.
    pub(crate) fn handle_return(&mut self) {
        self.pauses.handle_answer();
        self.pauses.handle_turn();
    }

    pub(crate) fn pauses(&mut self) -> &mut Pauses {
        &mut self.pauses
    }

    pub(crate) fn handle_event(&mut self, version: &ResourceVersion, now: Instant) {
        // The initial events of a streaming list have no order, so they do not advance the version.
        if self.phase == ReflectorPhase::Watching {
            self.advance(version);
        }
        self.note_arrival(now);
    }

    /// Handles an event after the initial objects. In a streaming list the bookmark that ends the list is due now. If
    /// this bookmark does not come, the server has taken the request for an ordinary watch.
    pub(crate) fn handle_live_event(&mut self, now: Instant) {
        if self.phase == ReflectorPhase::Streaming {
            self.watch.end_due.get_or_insert(now + STALL);
        }
    }

    pub(crate) fn handle_bookmark(
        &mut self,
        version: &ResourceVersion,
        initial_events_end: bool,
        now: Instant,
    ) -> BookmarkEffect {
        match self.phase {
            ReflectorPhase::Streaming if initial_events_end => {
                self.watch.heard = Some(now);
                self.broken = 0;
                self.problems.listed();
                self.complete(version);
                self.watch.live = Some(now);
                self.watch.news = true;
                BookmarkEffect::Complete
            }
            ReflectorPhase::Streaming => {
                self.note_arrival(now);
                // A first bookmark that does not end the list means that the server took the request for a watch.
                self.streams = Streams::No;
                self.phase = ReflectorPhase::Empty;
                self.close(now);
                BookmarkEffect::NoStream
            }
            ReflectorPhase::Watching => {
                self.bookmarks.handle_bookmark(&mut self.watch, now);
                self.advance(version);
                self.note_arrival(now);
                BookmarkEffect::Position
            }
            ReflectorPhase::Empty | ReflectorPhase::Listing { .. } => BookmarkEffect::Position,
        }
    }

    /// Returns the time of the next [`handle_tick`](Self::handle_tick) if no event arrives before.
    pub(crate) fn deadline(&self, now: Instant) -> Instant {
        let opened = self.watch.opened.unwrap_or(now);
        let settled = opened + SHORT;
        if self.problem().is_some() && now < settled {
            return settled;
        }
        self.silent_at(now)
    }

    /// Handles a relist request: a view needs more of each object than was requested (VIEW-3), or the JSON of the
    /// objects may have changed without new versions. The next list is not older than the versions seen before.
    pub(crate) fn handle_relist(&mut self, now: Instant) {
        self.close(now);
        self.restart(self.list_from.clone(), ListCause::Requested);
    }

    /// Handles the deadline of the open watch. Returns whether to close the watch.
    pub(crate) fn handle_tick(&mut self, now: Instant) -> bool {
        let opened = self.watch.opened.unwrap_or(now);
        let silent = now >= self.silent_at(now);
        if silent {
            self.bookmarks.handle_silence(&self.watch);
        }
        if now >= opened + SHORT {
            // A watch that stayed open shows that requests work.
            self.short = 0;
            self.problems.settle(silent);
        }
        silent
    }

    /// Handles the end of an open watch. Returns a failure if the end counts as one.
    #[must_use = "pass the failure to the hook"]
    pub(crate) fn handle_end(&mut self, end: WatchEnd, now: Instant) -> Option<Failed> {
        let watch = self.close(now);
        let opened = watch.opened.unwrap_or(now);
        let short = now < opened + SHORT;
        self.broke = end != WatchEnd::Closed;
        let failed = match end {
            WatchEnd::Silent => Some((Reason::Silent, SILENT)),
            WatchEnd::Broken | WatchEnd::Closed if short && !watch.news => {
                Some((Reason::ShortWatch, "the server ended the watch at once"))
            }
            WatchEnd::Broken | WatchEnd::Closed if self.phase == ReflectorPhase::Streaming => {
                Some((Reason::Network, "a list ended early"))
            }
            WatchEnd::Broken | WatchEnd::Closed => None,
        };
        if self.phase == ReflectorPhase::Streaming {
            self.phase = ReflectorPhase::Empty;
            self.broken_streams += 1;
            self.pauses.none();
            if watch.end_due.is_some_and(|due| now >= due) {
                // The end bookmark did not come, so the server does not support streaming lists. That is no failure.
                self.streams = Streams::No;
                return None;
            } else if end == WatchEnd::Silent || self.broken_streams >= STREAMS {
                self.streams = Streams::NotNow;
            } else {
                self.pauses.fail(now, None);
            }
        } else {
            self.resume(&watch, end, now);
        }
        if failed.is_none() {
            self.problems.attempts = 0;
        }
        failed.map(|(reason, message)| self.problems.failed(reason, message))
    }

    /// REFL-8: resumes an ended watch from its last version, without a list.
    fn resume(&mut self, watch: &WatchActivity, end: WatchEnd, now: Instant) {
        let settled = watch.opened.unwrap_or(now) + SHORT;
        if end == WatchEnd::Silent {
            // The store may be stale until the next watch is open.
            self.degrade(Reason::Silent, SILENT, now);
        }
        if now >= settled {
            self.short = 0;
        } else if watch.news {
            // The end is no failure, but the pause spares a server that ends each watch soon.
            self.short = 0;
            self.pauses.until(settled);
        } else {
            // REFL-11: the server may have lost the history after this version, so several such watches lead to a list.
            self.short += 1;
            self.pauses.fail(now, None);
            if self.short.is_multiple_of(EMPTY) {
                let message = "the server ends each watch at once";
                self.degrade(Reason::ShortWatch, message, now);
                self.restart(ResourceVersion::unset(), ListCause::ShortWatches);
            }
        }
    }

    /// Handles a failed request, or an error that the watch delivered. Returns the failure.
    #[must_use = "pass the failure to the hook"]
    pub(crate) fn handle_failure(&mut self, failure: &RequestFailure, now: Instant) -> Failed {
        self.fall_back(failure, now);
        let reason = failure.class.reason();
        self.problems.failed(reason, &failure.message)
    }

    /// Decides the next phase after a failure.
    fn fall_back(&mut self, failure: &RequestFailure, now: Instant) {
        self.close(now);
        let streaming = self.phase == ReflectorPhase::Streaming;
        let paging = matches!(&self.phase, ReflectorPhase::Listing { page: Some(_) });
        if failure.class.is_refusal() {
            self.pauses.handle_answer();
        }
        match failure.class {
            FailureClass::Expired | FailureClass::VersionUnknown => {
                self.unpaged |= paging;
                // RYOW-10: if the server lacks the version of the first list, the newest state is listed at once.
                let is_first = self.list_from.is_exact() && !self.position.is_exact();
                self.restart(ResourceVersion::unset(), ListCause::Expired);
                return self.expire(failure, is_first, now);
            }
            FailureClass::Rejected if streaming => {
                self.streams = Streams::No;
                self.phase = ReflectorPhase::Empty;
                return;
            }
            // The server does not understand the continue token, so the list begins anew.
            FailureClass::Rejected if paging => {
                self.unpaged = true;
                self.restart(ResourceVersion::unset(), ListCause::RefusedToken);
            }
            FailureClass::Decode if self.phase == ReflectorPhase::Watching => {
                self.broken += 1;
                if self.broken >= 2 {
                    // The event cannot be decoded, so a list replaces it.
                    self.broken = 0;
                    self.restart(self.position.clone(), ListCause::Undecodable);
                }
            }
            FailureClass::Decode | FailureClass::Server if streaming => {
                self.broken_streams += 1;
                if self.broken_streams > STREAMS {
                    self.streams = Streams::NotNow;
                }
                self.phase = ReflectorPhase::Empty;
            }
            FailureClass::Rejected if self.phase == ReflectorPhase::Watching => self.refuse(),
            FailureClass::Server if self.phase == ReflectorPhase::Watching && failure.begun => {
                self.refuse()
            }
            // The objects are gone with their definition. If the definition returns, resource versions begin anew.
            FailureClass::NotServed => {
                self.restart(ResourceVersion::unset(), ListCause::NotServed);
            }
            // REFL-2, REFL-8: a 429, a 5xx or a refused connection causes no list.
            _ if streaming => self.phase = ReflectorPhase::Empty,
            _ => {}
        }
        self.pauses.fail_by(failure, now);
        self.degrade(failure.class.reason(), &failure.message, now);
    }

    /// Handles an expired or unknown version. REFL-5: only repeated expirations are a problem.
    fn expire(&mut self, failure: &RequestFailure, is_first: bool, now: Instant) {
        self.expired += 1;
        if self.expired == 1 && (failure.class == FailureClass::Expired || is_first) {
            self.pauses.none();
        } else {
            self.pauses.expire(now, failure.after);
        }
        if self.expired >= EXPIRED {
            self.degrade(failure.class.reason(), &failure.message, now);
        }
    }

    /// Handles a refused watch. After [`REFUSALS`] consecutive refusals, the reflector lists again.
    fn refuse(&mut self) {
        self.refused += 1;
        if self.refused >= REFUSALS {
            self.refused = 0;
            self.restart(ResourceVersion::unset(), ListCause::Refused);
        }
    }

    fn complete(&mut self, version: &ResourceVersion) {
        self.phase = ReflectorPhase::Watching;
        self.position = version.clone();
        self.list_from = version.clone();
        self.unpaged = false;
        self.broken_streams = 0;
        if self.streams == Streams::NotNow {
            self.streams = Streams::Yes;
        }
    }

    fn close(&mut self, now: Instant) -> WatchActivity {
        let watch = std::mem::take(&mut self.watch);
        if watch.live.is_some_and(|since| now >= since + WELL) {
            self.expired = 0;
            self.refused = 0;
        }
        watch
    }

    /// Restarts with a list at `version` or newer.
    fn restart(&mut self, version: ResourceVersion, cause: ListCause) {
        self.list_cause = cause;
        self.phase = ReflectorPhase::Empty;
        self.list_from = version;
    }

    /// Advances the version of the watch. REFL-1: the version never goes back.
    fn advance(&mut self, version: &ResourceVersion) {
        if !version.is_exact() || self.position.is_at_least(version) {
            return;
        }
        self.position = version.clone();
        self.list_from = version.clone();
        self.watch.news = true;
    }

    /// Records that an event or bookmark arrived. Only a newer version, or a watch that stays open, counts as a
    /// success, because some servers repeat known events and end the watch.
    fn note_arrival(&mut self, now: Instant) {
        self.watch.heard = Some(now);
        self.watch.news |= self.phase != ReflectorPhase::Watching;
        self.broken = 0;
        let settled = self
            .watch
            .opened
            .is_some_and(|opened| now >= opened + SHORT);
        if self.watch.news || settled {
            self.problems = ProblemTracker::default();
            self.short = 0;
        }
    }

    fn silent_at(&self, now: Instant) -> Instant {
        let streaming = self.phase == ReflectorPhase::Streaming;
        self.bookmarks.silent_at(&self.watch, streaming, now)
    }

    fn degrade(&mut self, reason: Reason, message: &str, now: Instant) {
        self.problems.degrade(reason, message, now);
    }

    fn watch_timeout(&mut self) -> Duration {
        let less = WATCH_JITTER.mul_f64(self.pauses.share());
        // Servers accept only whole seconds.
        self.watch.timeout = Duration::from_secs((WATCH - less).as_secs());
        self.watch.timeout
    }
}

#[cfg(test)]
mod tests;
