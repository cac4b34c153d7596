//! Machine: when something last came over an open watch, and when its silence means that the link is dead.

use std::time::{Duration, Instant};

/// A watch that outlives its own end, or the bookmark that is due, by this much without a word is dead.
pub(crate) const MARGIN: Duration = Duration::from_secs(15);
/// A streaming list that says nothing for this long, or sends no end of the initial events for this
/// long after they were over, has no end in sight.
pub(crate) const STALL: Duration = Duration::from_secs(30);
/// A watch that ended sooner did not really begin.
pub(crate) const SHORT: Duration = Duration::from_secs(1);
/// How often kube-apiserver sends a bookmark to each watch that asks for them.
const BOOKMARK: Duration = Duration::from_secs(60);
/// Bookmarks that come less often than this are no sign of life: the watch ends before.
const BOOKMARK_CAP: Duration = Duration::from_secs(240);

/// The times at which something came over the open watch.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WatchActivity {
    pub(crate) opened: Option<Instant>,
    pub(crate) heard: Option<Instant>,
    /// Whether it brought anything newer than what was known before it.
    pub(crate) news: bool,
    /// Since when it has brought what happens, and not what is there.
    pub(crate) live: Option<Instant>,
    /// When the last bookmark came.
    marked: Option<Instant>,
    /// When the end of the initial events has to be there at the latest.
    pub(crate) end_due: Option<Instant>,
    pub(crate) timeout: Duration,
}

/// The bookmarks that a server has promised by sending them (REFL-10).
///
/// A server sends bookmarks to each watch that asks for them, or to none: kinds that kube-apiserver does not hold in
/// memory have none. So no bookmark is expected before the first one came, nor after a whole watch without one: older
/// servers send none of a kind after a restart until one of its objects changes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bookmarks {
    /// The longest time between two of them, and at least a minute.
    every: Option<Duration>,
}

impl WatchActivity {
    /// The watch was opened; what was heard of the one before is nothing of it.
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
    /// A bookmark came on an ordinary watch.
    pub(crate) fn handle_bookmark(&mut self, watch_activity: &mut WatchActivity, now: Instant) {
        let before = watch_activity.marked.or(watch_activity.live);
        watch_activity.marked = Some(now);
        let gap = before.map_or(BOOKMARK, |before| now.saturating_duration_since(before));
        let known = self.every.unwrap_or(BOOKMARK);
        self.every = Some(gap.clamp(known, BOOKMARK_CAP));
    }

    /// Forgets the promise where a watch that was silent for too long brought no bookmark at all.
    pub(crate) fn handle_silence(&mut self, watch_activity: &WatchActivity) {
        if watch_activity.marked.is_none() {
            self.every = None;
        }
    }

    /// When an open watch is silent for too long.
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
            return watch_activity
                .end_due
                .map_or(stalled, |due| due.min(stalled));
        }
        let overdue = (opened + watch_activity.timeout + MARGIN).max(last + MARGIN);
        let missed = self.every.map(|every| last + every + MARGIN);
        missed.map_or(overdue, |missed| missed.min(overdue))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An origin of time for tables.
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
    fn refl_10_bookmarks_are_expected_once_one_came_and_not_before() {
        let start = origin();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let mut bookmarks = Bookmarks::default();
        let mut watch_activity = open(start);
        assert_eq!(bookmarks.silent_at(&watch_activity, false, start), at(295));
        watch_activity.heard = Some(at(60));
        bookmarks.handle_bookmark(&mut watch_activity, at(60));
        assert_eq!(bookmarks.silent_at(&watch_activity, false, start), at(135));
        // The next watch has the same server.
        assert_eq!(bookmarks.silent_at(&open(start), false, start), at(75));
        // One that sends them more often is not held to that: it may be busy.
        for seconds in [62, 64, 66] {
            watch_activity.heard = Some(at(seconds));
            bookmarks.handle_bookmark(&mut watch_activity, at(seconds));
        }
        assert_eq!(bookmarks.silent_at(&watch_activity, false, start), at(141));
        // One that sends them less often is waited for.
        watch_activity.heard = Some(at(186));
        bookmarks.handle_bookmark(&mut watch_activity, at(186));
        assert_eq!(bookmarks.silent_at(&open(start), false, start), at(135));
    }
}
