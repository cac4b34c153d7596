//! Machine: wakes the watches of a storage when it changes: a `Bell` per watch, `Bells` per
//! storage.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures::task::AtomicWaker;

/// Length of a round per watch: about the time to wake one watch and poll it.
const EACH: Duration = Duration::from_micros(20);

/// Below this length there are no rounds: up to fifty watches are woken at each change.
const SHORTEST: Duration = Duration::from_millis(1);

/// Maximum length of a round, however many watches there are.
const LONGEST: Duration = Duration::from_millis(100);

/// Wakes the task of one watch. It is a flag and a waker, so neither waiting nor waking takes a
/// lock or a list entry per event, even with a thousand watches of the same changes.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    rung: AtomicBool,
    listener: AtomicWaker,
}

/// The bells of all watches of one storage. Dropped bells are removed.
///
/// A few watches are woken at each change. Many watches are woken in rounds, because waking them
/// takes longer than the time to the next change, and waking each once for two changes halves the
/// cost (as with the interrupt coalescing of a network card). The first change after a pause wakes
/// the watches at once, later changes within the round at its end (SRV-WATCH-3).
#[derive(Debug, Default)]
pub(crate) struct Bells {
    hung: Vec<Weak<Bell>>,
    /// The end of the current round, after many watches were woken.
    ends: Option<Instant>,
    /// Whether changes wait for the end of the round.
    waits: bool,
}

impl Bell {
    pub(crate) fn ring(&self) {
        // If the flag is set already, the listener has been woken and has not polled since.
        if !self.rung.swap(true, Ordering::AcqRel) {
            self.listener.wake();
        }
    }

    /// Whether the bell was rung since the last call; if not, `context` is woken at the next ring.
    ///
    /// SRV-2: call this before checking for changes, never after: a change after the check rings
    /// again.
    pub(crate) fn poll_rung(&self, context: &Context<'_>) -> Poll<()> {
        if self.rung.swap(false, Ordering::AcqRel) {
            return Poll::Ready(());
        }
        self.listener.register(context.waker());
        // A ring between the two lines above woke the previous waker.
        if self.rung.swap(false, Ordering::AcqRel) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}

impl Bells {
    pub(crate) fn hang(&mut self, bell: &Arc<Bell>) {
        // Removes dropped bells here too, for storages that never change.
        if self.hung.len() == self.hung.capacity() {
            self.hung.retain(|bell| bell.strong_count() > 0);
        }
        self.hung.push(Arc::downgrade(bell));
    }

    /// Wakes the watches for a change, or returns when the caller must call
    /// [`end_round`](Self::end_round) to do so.
    #[must_use]
    pub(crate) fn ring(&mut self, now: Instant) -> Option<Instant> {
        match self.ends.filter(|ends| now < *ends) {
            None => {
                self.ring_all(now);
                None
            }
            Some(_) if self.waits => None,
            Some(ends) => {
                self.waits = true;
                Some(ends)
            }
        }
    }

    /// Wakes the watches for the changes of the round.
    pub(crate) fn end_round(&mut self, now: Instant) {
        if self.waits {
            self.ring_all(now);
        }
    }

    /// Wakes the watches at once, and begins a round if there are many.
    pub(crate) fn ring_all(&mut self, now: Instant) {
        self.hung.retain(|bell| match bell.upgrade() {
            Some(bell) => {
                bell.ring();
                true
            }
            None => false,
        });
        let heard = u32::try_from(self.hung.len()).unwrap_or(u32::MAX);
        let round = EACH.saturating_mul(heard).min(LONGEST);
        self.ends = (round > SHORTEST).then(|| now + round);
        self.waits = false;
    }

    /// Whether all bells were dropped.
    pub(crate) fn is_unheard(&self) -> bool {
        self.hung.iter().all(|bell| bell.strong_count() == 0)
    }
}

#[cfg(test)]
mod tests {
    use futures::task::noop_waker_ref;

    use super::*;

    fn now() -> Instant {
        tokio::time::Instant::now().into_std()
    }

    /// Creates a thousand bells of one storage.
    fn crowd() -> (Bells, Vec<Arc<Bell>>) {
        let mut bells = Bells::default();
        let crowd: Vec<Arc<Bell>> = (0..1000).map(|_| Arc::default()).collect();
        for bell in &crowd {
            bells.hang(bell);
        }
        (bells, crowd)
    }

    /// SRV-2
    #[test]
    fn a_change_right_after_the_check_wakes_the_watch() {
        let mut bells = Bells::default();
        let bell = Arc::new(Bell::default());
        bells.hang(&bell);
        let context = Context::from_waker(noop_waker_ref());
        let mut ring = || assert_eq!(bells.ring(now()), None, "few wait for no round");
        assert!(bell.poll_rung(&context).is_pending());
        ring();
        assert!(bell.poll_rung(&context).is_ready());
        // Here the listener checks for changes; it has not seen later ones.
        ring();
        ring();
        assert!(bell.poll_rung(&context).is_ready());
        assert!(bell.poll_rung(&context).is_pending());
    }

    #[test]
    fn a_dropped_bell_is_removed() {
        let mut bells = Bells::default();
        assert!(bells.is_unheard());
        let kept = Arc::new(Bell::default());
        bells.hang(&kept);
        for _ in 0..1000 {
            bells.hang(&Arc::new(Bell::default()));
        }
        assert!(bells.hung.len() < 10, "{} are kept", bells.hung.len());
        assert!(!bells.is_unheard());
        drop(kept);
        assert!(bells.is_unheard());
        assert_eq!(bells.ring(now()), None);
        assert!(bells.hung.is_empty());
    }

    /// SRV-WATCH-3
    #[test]
    fn many_watches_wake_at_the_first_change_and_again_at_the_end_of_the_round() {
        let (mut bells, crowd) = crowd();
        let context = Context::from_waker(noop_waker_ref());
        let hears = |bell: &Arc<Bell>| bell.poll_rung(&context).is_ready();
        let begins = now();
        assert_eq!(bells.ring(begins), None);
        assert!(crowd.iter().all(hears));

        let ends = begins + 1000 * EACH;
        assert_eq!(bells.ring(begins + EACH), Some(ends));
        assert_eq!(bells.ring(begins + 2 * EACH), None, "it is seen to already");
        assert!(!crowd.iter().any(hears));
        bells.end_round(ends);
        assert!(crowd.iter().all(hears));

        // The next round began then; nothing changes during it.
        let ends = ends + 1000 * EACH;
        bells.end_round(ends);
        assert!(!crowd.iter().any(hears));
        assert_eq!(bells.ring(ends), None);
        assert!(crowd.iter().all(hears));
    }

    /// SRV-WATCH-3
    #[test]
    fn a_late_change_does_not_wait_for_a_round_that_was_never_ended() {
        let (mut bells, crowd) = crowd();
        let begins = now();
        assert_eq!(bells.ring(begins), None);
        assert!(bells.ring(begins).is_some());
        let context = Context::from_waker(noop_waker_ref());
        assert!(crowd[0].poll_rung(&context).is_ready());
        assert_eq!(bells.ring(begins + LONGEST), None);
        assert!(crowd[0].poll_rung(&context).is_ready());
    }
}
