//! Machine: decides from the last events of an open watch when its connection is dead.

use std::time::{Duration, Instant};

/// A watch is dead if it is silent for this long after its own timeout, or after a bookmark is due.
pub(crate) const MARGIN: Duration = Duration::from_secs(15);
/// A streaming list has failed if it is silent for this long, or if its end is missing for this
/// long after the first live event.
pub(crate) const STALL: Duration = Duration::from_secs(30);
/// A watch that ended sooner does not count as open.
pub(crate) const SHORT: Duration = Duration::from_secs(1);
/// The interval in which kube-apiserver sends bookmarks.
const BOOKMARK: Duration = Duration::from_secs(60);
/// Bookmarks that are rarer than this are no sign of life: the watch times out before.
const BOOKMARK_CAP: Duration = Duration::from_secs(240);

/// The times of the last events of the open watch.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WatchActivity {
    pub(crate) opened: Option<Instant>,
    pub(crate) heard: Option<Instant>,
    /// Whether the watch delivered a newer version than was known before.
    pub(crate) news: bool,
    /// The time since which the watch delivers live events.
    pub(crate) live: Option<Instant>,
    /// The time of the last bookmark.
    marked: Option<Instant>,
    /// The time by which the end of the initial events is due.
    pub(crate) end_due: Option<Instant>,
    pub(crate) timeout: Duration,
}

/// The bookmarks that a server can be expected to send (REFL-10).
///
/// A server sends bookmarks to each watch that asks for them, or to none: kinds that kube-apiserver
/// does not cache have none. So no bookmark is expected before the first one, nor after a whole
/// watch without one: after a restart, older servers send none for a kind until one of its objects
/// changes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bookmarks {
    /// The longest interval between two bookmarks, at least a minute.
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

    /// Expects no bookmarks any more if a silent watch delivered none at all.
    pub(crate) fn handle_silence(&mut self, watch_activity: &WatchActivity) {
        if watch_activity.marked.is_none() {
            self.every = None;
        }
    }

    /// Returns the time at which an open watch counts as silent for too long.
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

    /// Returns an origin of time for the tables.
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
        // The next watch has the same server.
        assert_eq!(bookmarks.silent_at(&open(start), false, start), at(75));
        // Bookmarks that come more often set no shorter deadline: the server may become busy.
        for seconds in [62, 64, 66] {
            watch_activity.heard = Some(at(seconds));
            bookmarks.handle_bookmark(&mut watch_activity, at(seconds));
        }
        assert_eq!(bookmarks.silent_at(&watch_activity, false, start), at(141));
        // Bookmarks that come less often set a longer deadline.
        watch_activity.heard = Some(at(186));
        bookmarks.handle_bookmark(&mut watch_activity, at(186));
        assert_eq!(bookmarks.silent_at(&open(start), false, start), at(135));
    }
}
