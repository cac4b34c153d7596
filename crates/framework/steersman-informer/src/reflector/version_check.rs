//! Machine: decides when to check that the server has reached the version of a resumed watch.
//!
//! A server that was restored from a backup opens a watch after a version that it has not reached, and stays silent.
//! The check is a list of one object at that version: such a server refuses the list.

use std::time::{Duration, Instant};

/// How long a resumed watch is silent before a list of one object checks that the server has reached the version of the
/// watch. An event or a bookmark makes the check unnecessary.
const QUIET: Duration = Duration::from_secs(5);
/// The time until the check is repeated, after it failed without an answer about the version.
const AGAIN: Duration = Duration::from_secs(30);
/// A watch counts as ended by its timeout, and not by a restart of the server, if it ends at most this long before it.
const MARGIN: Duration = Duration::from_secs(5);

/// The time of the check of the open watch, if one is needed (REFL-12).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct VersionCheck {
    /// Whether the server may have been restarted since it sent the version of the watch.
    is_wanted: bool,
    opened: Option<Instant>,
    due: Option<Instant>,
}

impl VersionCheck {
    /// Records the end of the watch, if it was opened. An end long before its `timeout` may be due to a restart.
    pub(crate) fn note_end(&mut self, now: Instant, timeout: Duration) {
        self.due = None;
        let opened = self.opened.take();
        self.is_wanted |= opened.is_some_and(|opened| now + MARGIN < opened + timeout);
    }

    pub(crate) fn note_outage(&mut self) {
        self.is_wanted = true;
    }

    /// Records that a watch was opened. A streaming list needs no check, because the server chose its version.
    pub(crate) fn note_open(&mut self, is_resumed: bool, now: Instant) {
        self.opened = Some(now);
        self.is_wanted &= is_resumed;
        self.due = self.is_wanted.then_some(now + QUIET);
    }

    /// Records an event, a bookmark or a list: each shows that the server has reached the version.
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
