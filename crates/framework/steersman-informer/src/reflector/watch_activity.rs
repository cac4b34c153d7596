//! Machine: decides from the last events of an open watch whether its connection is dead.

use std::time::{Duration, Instant};

/// How long after its timeout, or after the due time of a bookmark, a silent watch counts as dead.
pub(crate) const MARGIN: Duration = Duration::from_secs(15);
/// How long a streaming list may be silent, or lack its end bookmark after a live event, before it counts as failed.
pub(crate) const STALL: Duration = Duration::from_secs(30);
/// The shortest time for which a watch must be open to count as a success.
pub(crate) const SHORT: Duration = Duration::from_secs(1);
/// The interval at which kube-apiserver sends bookmarks.
const BOOKMARK: Duration = Duration::from_secs(60);
/// The longest interval at which bookmarks are expected. A longer interval would be of no use, because the watch times
/// out before a missing bookmark could be noticed.
const BOOKMARK_CAP: Duration = Duration::from_secs(240);

/// The times of the last events of the open watch.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WatchActivity {
    pub(crate) opened: Option<Instant>,
    pub(crate) heard: Option<Instant>,
    /// Whether the watch has delivered a version that was not known before.
    pub(crate) news: bool,
    /// The time from which the watch delivers live events: its opening, or the end of its streaming list.
    pub(crate) live: Option<Instant>,
    /// The time of the last bookmark.
    marked: Option<Instant>,
    /// The time by which the end bookmark of the initial events is due.
    pub(crate) end_due: Option<Instant>,
    pub(crate) timeout: Duration,
}

/// The interval at which the server of a watch sends bookmarks. A watch that is silent for longer than this is
/// abandoned (REFL-10).
///
/// kube-apiserver sends no bookmarks for kinds that it does not cache. So no bookmark is expected before the first one,
/// nor after a watch that delivered none: after a restart, older servers send none for a kind until an object changes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bookmarks {
    /// The longest interval between two bookmarks so far, at least a minute; `None` if no bookmark is expected.
    every: Option<Duration>,
}

impl WatchActivity {
    pub(crate) fn open(&self, live: bool, now: Instant) -> Self {
        Self {
            opened: Some(now),
            live: live.then_some(now),
            timeout: self.timeout,
            ..Self::default()
        }
    }
}

impl Bookmarks {
    pub(crate) fn handle_bookmark(&mut self, watch_activity: &mut WatchActivity, now: Instant) {
        let before = watch_activity.marked.or(watch_activity.live);
        watch_activity.marked = Some(now);
        let gap = before.map_or(BOOKMARK, |before| now.saturating_duration_since(before));
        let known = self.every.unwrap_or(BOOKMARK);
        self.every = Some(gap.clamp(known, BOOKMARK_CAP));
    }

    /// Records that a watch was silent. If it delivered no bookmark at all, no further bookmark is expected (REFL-10).
    pub(crate) fn handle_silence(&mut self, watch_activity: &WatchActivity) {
        if watch_activity.marked.is_none() {
            self.every = None;
        }
    }

    /// Returns the time at which the open watch counts as dead if nothing arrives before.
    pub(crate) fn silent_at(
        &self,
        watch_activity: &WatchActivity,
        streaming: bool,
        now: Instant,
    ) -> Instant {
        let opened = watch_activity.opened.unwrap_or(now);
        let last = watch_activity.heard.unwrap_or(opened);
        if streaming {
            let stalled = last + STALL;
            let due = watch_activity.end_due.unwrap_or(stalled);
            return due.min(stalled);
        }
        let overdue = (opened + watch_activity.timeout + MARGIN).max(last + MARGIN);
        let missed = self.every.map(|every| last + every + MARGIN);
        missed.map_or(overdue, |missed| missed.min(overdue))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the origin of the test's instants.
    #[expect(clippy::disallowed_methods, reason = "an origin, not a clock")]
    fn origin() -> Instant {
        Instant::now()
    }

    fn open(now: Instant) -> WatchActivity {
        WatchActivity {
            opened: Some(now),
            live: Some(now),
            timeout: Duration::from_secs(280),
            ..WatchActivity::default()
        }
    }

    // REFL-10
    #[test]
    fn refl_10_bookmarks_are_expected_only_after_the_first_one() {
        let start = origin();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let mut bookmarks = Bookmarks::default();
        let mut watch_activity = open(start);
        assert_eq!(bookmarks.silent_at(&watch_activity, false, start), at(295));
        watch_activity.heard = Some(at(60));
        bookmarks.handle_bookmark(&mut watch_activity, at(60));
        assert_eq!(bookmarks.silent_at(&watch_activity, false, start), at(135));
        // The next watch is at the same server, so bookmarks are expected from the start.
        assert_eq!(bookmarks.silent_at(&open(start), false, start), at(75));
        // More frequent bookmarks do not shorten the deadline, because the server may become busy.
        for seconds in [62, 64, 66] {
            watch_activity.heard = Some(at(seconds));
            bookmarks.handle_bookmark(&mut watch_activity, at(seconds));
        }
        assert_eq!(bookmarks.silent_at(&watch_activity, false, start), at(141));
        // Less frequent bookmarks lengthen the deadline.
        watch_activity.heard = Some(at(186));
        bookmarks.handle_bookmark(&mut watch_activity, at(186));
        assert_eq!(bookmarks.silent_at(&open(start), false, start), at(135));
    }
}
