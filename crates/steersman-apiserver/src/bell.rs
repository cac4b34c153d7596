//! Machine: what wakes a watch: a bell, rung by whatever may give it something to do.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures::task::AtomicWaker;

/// What ringing one bell and hearing it out is worth of a round.
const EACH: Duration = Duration::from_micros(20);

/// A shorter round than this is none: fifty watches hear of each change at once.
const SHORTEST: Duration = Duration::from_millis(1);

/// The longest round, however many listen.
const LONGEST: Duration = Duration::from_millis(100);

/// Wakes the one task that listens to it. A thousand watches listen to the same changes, so neither
/// listening nor ringing takes a lock, or a place in a list, each time.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    rung: AtomicBool,
    listener: AtomicWaker,
}

/// Bells that are rung together. One whose listener is gone is forgotten.
///
/// A few are rung at each change. A crowd is rung in rounds: to wake it takes longer than the next change
/// does to come, and who is woken once for two changes costs half as much, as with a network card that
/// collects its interrupts. The first change after a rest is told at once, what comes within the
/// round by its end (SRV-WATCH-3).
#[derive(Debug, Default)]
pub(crate) struct Bells {
    hung: Vec<Weak<Bell>>,
    /// The end of the round, once a crowd was rung.
    ends: Option<Instant>,
    /// Whether the end of the round is to be rung.
    waits: bool,
}

impl Bell {
    pub(crate) fn ring(&self) {
        // Whoever finds it rung already relies on the ring before: the listener has not looked since.
        if !self.rung.swap(true, Ordering::AcqRel) {
            self.listener.wake();
        }
    }

    /// Whether it was rung since it was last asked; if not, `context` is woken when it is.
    ///
    /// SRV-2: look at what may have changed after this, never before: a change that comes after the
    /// look rings again.
    pub(crate) fn poll_rung(&self, context: &Context<'_>) -> Poll<()> {
        if self.rung.swap(false, Ordering::AcqRel) {
            return Poll::Ready(());
        }
        self.listener.register(context.waker());
        // A ring between the two found the old listener.
        if self.rung.swap(false, Ordering::AcqRel) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}

impl Bells {
    pub(crate) fn hang(&mut self, bell: &Arc<Bell>) {
        // Where nothing ever rings, those that are gone would be kept.
        if self.hung.len() == self.hung.capacity() {
            self.hung.retain(|bell| bell.strong_count() > 0);
        }
        self.hung.push(Arc::downgrade(bell));
    }

    /// Rings for a change. Answers when to call [`end_round`](Self::end_round), where that has
    /// to be: whoever is told sees to it.
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

    /// Rings for what changed in the round.
    pub(crate) fn end_round(&mut self, now: Instant) {
        if self.waits {
            self.ring_all(now);
        }
    }

    /// Rings at once, and begins a round where there is a crowd.
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

    /// Whether nobody listens any more.
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

    /// A thousand, which hang together.
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
    fn a_ring_that_comes_right_after_the_look_is_heard() {
        let mut bells = Bells::default();
        let bell = Arc::new(Bell::default());
        bells.hang(&bell);
        let context = Context::from_waker(noop_waker_ref());
        let mut ring = || assert_eq!(bells.ring(now()), None, "few wait for no round");
        assert!(bell.poll_rung(&context).is_pending());
        ring();
        assert!(bell.poll_rung(&context).is_ready());
        // Here the listener looks; what comes now it has not seen.
        ring();
        ring();
        assert!(bell.poll_rung(&context).is_ready());
        assert!(bell.poll_rung(&context).is_pending());
    }

    #[test]
    fn a_bell_whose_listener_is_gone_is_taken_down() {
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
    fn a_crowd_hears_the_first_change_at_once_and_the_others_by_the_end_of_the_round() {
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

        // The next round began with that; nothing changes in it.
        let ends = ends + 1000 * EACH;
        bells.end_round(ends);
        assert!(!crowd.iter().any(hears));
        assert_eq!(bells.ring(ends), None);
        assert!(crowd.iter().all(hears));
    }

    /// SRV-WATCH-3
    #[test]
    fn a_change_that_comes_late_is_not_held_up_by_a_round_that_nobody_ended() {
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
