//! Machine: what wakes a watch: a bell, rung by whatever may give it something to do.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use futures::task::AtomicWaker;

/// Wakes the one task that listens to it. A thousand watches listen to the same changes, so neither
/// listening nor ringing takes a lock, or a place in a list, each time.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    rung: AtomicBool,
    listener: AtomicWaker,
}

/// Bells that are rung together. One whose listener is gone is forgotten.
#[derive(Debug, Default)]
pub(crate) struct Bells {
    hung: Vec<Weak<Bell>>,
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

    pub(crate) fn ring(&mut self) {
        self.hung.retain(|bell| match bell.upgrade() {
            Some(bell) => {
                bell.ring();
                true
            }
            None => false,
        });
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

    /// SRV-2
    #[test]
    fn a_ring_that_comes_right_after_the_look_is_heard() {
        let mut bells = Bells::default();
        let bell = Arc::new(Bell::default());
        bells.hang(&bell);
        let context = Context::from_waker(noop_waker_ref());
        assert!(bell.poll_rung(&context).is_pending());
        bells.ring();
        assert!(bell.poll_rung(&context).is_ready());
        // Here the listener looks; what comes now it has not seen.
        bells.ring();
        bells.ring();
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
        bells.ring();
        assert!(bells.hung.is_empty());
    }
}
