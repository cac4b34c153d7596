//! Machine: decides when the version of a resumed watch is checked against the server.
//!
//! A server opens a watch after a version that it never reached, for instance after it was restored
//! from a backup, and stays silent. The check is a list of one object at that version, which such a
//! server refuses.

use std::time::{Duration, Instant};

/// The time for which a resumed watch is quiet before its version is checked. Events and bookmarks
/// are later than the version, so the watches of busy kinds need no check.
const QUIET: Duration = Duration::from_secs(5);
/// The time until a check that failed for another reason is repeated.
const AGAIN: Duration = Duration::from_secs(30);
/// A watch that ends at most this long before its timeout counts as ended by the timeout.
const MARGIN: Duration = Duration::from_secs(5);

/// Whether, and when, the open watch is checked (REFL-12).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct VersionCheck {
    /// Whether the server may have been restarted since the version was received.
    is_wanted: bool,
    /// When the present watch was opened.
    opened: Option<Instant>,
    due: Option<Instant>,
}

impl VersionCheck {
    /// Notes that the present watch has ended, if it was opened; `timeout` is the timeout of that watch.
    pub(crate) fn note_end(&mut self, now: Instant, timeout: Duration) {
        self.due = None;
        let opened = self.opened.take();
        self.is_wanted |= opened.is_some_and(|opened| now + MARGIN < opened + timeout);
    }

    pub(crate) fn note_outage(&mut self) {
        self.is_wanted = true;
    }

    /// Notes that a watch was opened. A streaming list is at a version of the server by itself.
    pub(crate) fn note_open(&mut self, is_resumed: bool, now: Instant) {
        self.opened = Some(now);
        self.is_wanted &= is_resumed;
        self.due = self.is_wanted.then_some(now + QUIET);
    }

    /// Notes an event or a bookmark, or a list, which shows that the server has reached the version.
    pub(crate) fn note_reached(&mut self) {
        (self.is_wanted, self.due) = (false, None);
    }

    pub(crate) fn note_failure(&mut self, now: Instant) {
        self.due = Some(now + AGAIN);
    }

    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.due.is_some_and(|due| due <= now)
    }

    pub(crate) fn or_before(&self, deadline: Instant) -> Instant {
        self.due.map_or(deadline, |due| due.min(deadline))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // REFL-12
    #[test]
    fn refl_12_only_a_quiet_watch_after_an_early_end_or_an_outage_is_checked() {
        #[expect(clippy::disallowed_methods, reason = "an origin, not a clock")]
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let timeout = Duration::from_secs(280);
        for (ended, outage, resumed, expected) in [
            (60, false, true, true),
            (280, false, true, false),
            (280, true, true, true),
            (60, true, false, false),
        ] {
            let mut check = VersionCheck::default();
            check.note_open(true, start);
            assert!(!check.is_due(at(1000)), "the first watch");
            check.note_end(at(ended), timeout);
            if outage {
                check.note_outage();
            }
            check.note_open(resumed, at(ended));
            let is_due = check.is_due(at(ended + 5));
            assert_eq!(is_due, expected, "{ended}, {outage}, {resumed}");
            assert!(!check.is_due(at(ended + 4)));
            check.note_reached();
            assert!(!check.is_due(at(1000)));
        }
    }
}
