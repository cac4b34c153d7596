//! Machine: wakes the watches of a storage (the objects of one kind) after a change: a `WatchWaker` per watch, one
//! `StorageWakers` per storage.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures::task::AtomicWaker;

/// A round (the pause between two wake-ups of many watches) lasts this time per watch: about the time to poll one.
const EACH: Duration = Duration::from_micros(20);

/// Up to this length there is no round (the pause between two wake-ups of many watches): up to fifty watches are woken
/// at each change.
const SHORTEST: Duration = Duration::from_millis(1);

/// Maximum length of a round, the pause between two wake-ups of many watches, so that no event waits longer.
const LONGEST: Duration = Duration::from_millis(100);

/// Wakes the task of one watch. A flag and a waker are enough, so that neither waiting nor waking takes a lock or a
/// list entry per event, even with a thousand watches of the same changes.
#[derive(Debug, Default)]
pub(crate) struct WatchWaker {
    woken: AtomicBool,
    task: AtomicWaker,
}

/// The wakers of all watches of one storage. Dropped wakers are removed.
///
/// A few watches are woken at each change. Many watches are woken at most once per round, because waking them takes
/// longer than the time to the next change, and waking each once for two changes halves the cost (as with the interrupt
/// coalescing of a network card). The first change after a round wakes the watches at once and begins a round; later
/// changes in the round wake them at its end (SRV-WATCH-3).
#[derive(Debug, Default)]
pub(crate) struct StorageWakers {
    wakers: Vec<Weak<WatchWaker>>,
    /// The end of the round, until which changes do not wake the watches at once; may be past. `None` if the last
    /// change woke at most fifty watches, so that the next change wakes them at once.
    ends: Option<Instant>,
    /// Whether a change in the round waits to wake the watches at the end of the round.
    waits: bool,
}

impl WatchWaker {
    pub(crate) fn wake(&self) {
        // If the flag is set already, the task has been woken and has not polled since.
        if !self.woken.swap(true, Ordering::AcqRel) {
            self.task.wake();
        }
    }

    /// Returns whether `wake` was called since the last call; if not, the next `wake` wakes `context`.
    ///
    /// SRV-2: call this before checking for changes, never after: a change after the check wakes the task again.
    pub(crate) fn poll_woken(&self, context: &Context<'_>) -> Poll<()> {
        if self.woken.swap(false, Ordering::AcqRel) {
            return Poll::Ready(());
        }
        self.task.register(context.waker());
        // If `wake` was called between the two statements above, it woke the previously registered task, not this one.
        if self.woken.swap(false, Ordering::AcqRel) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}

impl StorageWakers {
    pub(crate) fn add(&mut self, waker: &Arc<WatchWaker>) {
        // `wake_all` removes dropped wakers at each change; this removes them from storages that never change.
        if self.wakers.len() == self.wakers.capacity() {
            self.wakers.retain(|waker| waker.strong_count() > 0);
        }
        self.wakers.push(Arc::downgrade(waker));
    }

    /// Wakes the watches after a change, if no round is in progress. Otherwise returns, for the first change in the
    /// round, the time to call [`end_round`](Self::end_round), and `None` for later changes.
    #[must_use]
    pub(crate) fn wake(&mut self, now: Instant) -> Option<Instant> {
        match self.ends.filter(|ends| now < *ends) {
            None => {
                self.wake_all(now);
                None
            }
            Some(_) if self.waits => None,
            Some(ends) => {
                self.waits = true;
                Some(ends)
            }
        }
    }

    /// Ends a round: wakes the watches if there was a change in the round.
    pub(crate) fn end_round(&mut self, now: Instant) {
        if self.waits {
            self.wake_all(now);
        }
    }

    /// Wakes the watches at once. If there are more than fifty, begins a round: later changes wake them at its end.
    pub(crate) fn wake_all(&mut self, now: Instant) {
        self.wakers.retain(|waker| match waker.upgrade() {
            Some(waker) => {
                waker.wake();
                true
            }
            None => false,
        });
        let woken = u32::try_from(self.wakers.len()).unwrap_or(u32::MAX);
        let round = EACH.saturating_mul(woken).min(LONGEST);
        self.ends = (round > SHORTEST).then(|| now + round);
        self.waits = false;
    }

    pub(crate) fn has_no_watches(&self) -> bool {
        self.wakers.iter().all(|waker| waker.strong_count() == 0)
    }
}

#[cfg(test)]
mod tests {
    use futures::task::noop_waker_ref;

    use super::*;

    fn now() -> Instant {
        tokio::time::Instant::now().into_std()
    }

    /// Creates a thousand wakers of one storage.
    fn thousand_wakers() -> (StorageWakers, Vec<Arc<WatchWaker>>) {
        let mut wakers = StorageWakers::default();
        let watches: Vec<Arc<WatchWaker>> = (0..1000).map(|_| Arc::default()).collect();
        for waker in &watches {
            wakers.add(waker);
        }
        (wakers, watches)
    }

    /// SRV-2: no change between a check and the wait after it is missed.
    #[test]
    fn a_change_right_after_the_check_wakes_the_watch() {
        let mut wakers = StorageWakers::default();
        let waker = Arc::new(WatchWaker::default());
        wakers.add(&waker);
        let context = Context::from_waker(noop_waker_ref());
        let mut wake = || assert_eq!(wakers.wake(now()), None, "few wait for no round");
        assert!(waker.poll_woken(&context).is_pending());
        wake();
        assert!(waker.poll_woken(&context).is_ready());
        // A real task would check for changes at this point. The next two changes come after that check, so they must
        // wake the task again, once for both.
        wake();
        wake();
        assert!(waker.poll_woken(&context).is_ready());
        assert!(waker.poll_woken(&context).is_pending());
    }

    #[test]
    fn a_dropped_waker_is_removed() {
        let mut wakers = StorageWakers::default();
        assert!(wakers.has_no_watches());
        let kept = Arc::new(WatchWaker::default());
        wakers.add(&kept);
        for _ in 0..1000 {
            wakers.add(&Arc::new(WatchWaker::default()));
        }
        assert!(wakers.wakers.len() < 10, "{} are kept", wakers.wakers.len());
        assert!(!wakers.has_no_watches());
        drop(kept);
        assert!(wakers.has_no_watches());
        assert_eq!(wakers.wake(now()), None);
        assert!(wakers.wakers.is_empty());
    }

    /// SRV-WATCH-3: a watch receives a change at once, or at most a tenth of a second after an earlier change.
    #[test]
    fn many_watches_wake_at_the_first_change_and_again_at_the_end_of_the_round() {
        let (mut wakers, watches) = thousand_wakers();
        let context = Context::from_waker(noop_waker_ref());
        let is_woken = |waker: &Arc<WatchWaker>| waker.poll_woken(&context).is_ready();
        let begins = now();
        assert_eq!(wakers.wake(begins), None);
        assert!(watches.iter().all(is_woken));

        let ends = begins + 1000 * EACH;
        assert_eq!(wakers.wake(begins + EACH), Some(ends));
        assert_eq!(
            wakers.wake(begins + 2 * EACH),
            None,
            "it is seen to already"
        );
        assert!(!watches.iter().any(is_woken));
        wakers.end_round(ends);
        assert!(watches.iter().all(is_woken));

        // The next round began at the end of the first; nothing changes during the next round.
        let ends = ends + 1000 * EACH;
        wakers.end_round(ends);
        assert!(!watches.iter().any(is_woken));
        assert_eq!(wakers.wake(ends), None);
        assert!(watches.iter().all(is_woken));
    }

    /// SRV-WATCH-3: a watch receives a change at once, or at most a tenth of a second after an earlier change.
    #[test]
    fn a_late_change_does_not_wait_for_a_round_that_was_never_ended() {
        let (mut wakers, watches) = thousand_wakers();
        let begins = now();
        assert_eq!(wakers.wake(begins), None);
        assert!(wakers.wake(begins).is_some());
        let context = Context::from_waker(noop_waker_ref());
        assert!(watches[0].poll_woken(&context).is_ready());
        assert_eq!(wakers.wake(begins + LONGEST), None);
        assert!(watches[0].poll_woken(&context).is_ready());
    }
}
