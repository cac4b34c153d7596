//! Machine: decides the next run of a key after the end of its ticket.

use std::time::Instant;

use super::{Machine, NextRun, QueueStage, back_off, deadline};
use crate::causes::Causes;
use crate::exchange::Verdict;
use crate::held::Rerun;
use crate::key::Key;
use crate::options::{AddDelay, Priority};
use crate::ready::KeySlot;
use crate::table::{KeyEntry, Retry};

impl<T: Key> Machine<T> {
    /// Decides whether the key runs at once, later or not at all. Returns whether a worker must be woken.
    pub(super) fn follow(
        &mut self,
        slot: KeySlot,
        priority: Priority,
        again: Option<Rerun>,
        (verdict, asked): (Verdict, NextRun),
        now: Instant,
    ) -> bool {
        if self.stage == QueueStage::Closed {
            self.dropped += usize::from(asked.delay.is_some());
            return false;
        }
        let causes = match verdict {
            Verdict::Backoff => Causes::NONE,
            _ => Causes::DELAY,
        };
        let mut add = Rerun::at_once(priority, causes);
        if let Some(again) = again {
            if verdict != Verdict::Backoff || again.add_delay != AddDelay::Backoff {
                return self.run_again(slot, again, asked, now);
            }
            // The retry, or an earlier deadline, is the one later run that WQ-2 guarantees for the add.
            add.priority = add.priority.max(again.priority);
            add.causes |= again.causes;
        }
        match asked.delay {
            None => false,
            // WQ-8: a draining queue drops every run that a ticket requests.
            Some(_) if self.stage == QueueStage::Draining => {
                self.dropped += 1;
                false
            }
            Some(delay) if delay.is_zero() => {
                if verdict == Verdict::Backoff {
                    add.causes |= Causes::BACKOFF;
                }
                self.arrive(slot, add, now)
            }
            Some(delay) => {
                let deadline = deadline(now, delay);
                self.wait(slot, add.delayed_until(deadline, asked.retry))
            }
        }
    }

    /// Runs a key again, because it was added while a ticket held it.
    fn run_again(&mut self, slot: KeySlot, again: Rerun, asked: NextRun, now: Instant) -> bool {
        // WQ-11: the retry is kept, in case the run before it fails as well.
        if let Some(retry) = asked.retry
            && self.stage == QueueStage::Open
        {
            let early = retry.earliest_run(now);
            if again.add_delay == AddDelay::Spaced && early > now {
                return self.wait(slot, again.delayed_until(early, Some(retry)));
            }
            self.keep(slot, retry);
        }
        // WQ-2, WQ-4: the rerun is immediate and absorbs the delay. The metrics have already counted the add.
        let add = self.absorb(slot, again);
        self.line_up(slot, add, now)
    }

    /// Updates the failures, and returns the run that the verdict requests. `kept` is the retry from before this run.
    pub(super) fn judge(
        &mut self,
        slot: KeySlot,
        verdict: Verdict,
        kept: Option<Retry>,
        now: Instant,
    ) -> NextRun {
        let Some(key) = self.table.get(slot).and_then(KeyEntry::key) else {
            return NextRun::default();
        };
        let delay = match verdict {
            Verdict::Forget => {
                self.limiter.forget(key);
                None
            }
            Verdict::Settle => None,
            Verdict::SettleAfter(delay) => Some(delay),
            Verdict::After(delay) => {
                self.limiter.forget(key);
                Some(delay)
            }
            Verdict::Backoff => return self.retry(slot, kept, now),
        };
        NextRun { delay, retry: None }
    }

    fn retry(&mut self, slot: KeySlot, kept: Option<Retry>, now: Instant) -> NextRun {
        // WQ-11: a failed run before the retry keeps the deadline of the retry and does not count.
        if let Some(kept) = kept.filter(|kept| kept.deadline > now) {
            return NextRun {
                delay: Some(kept.deadline.saturating_duration_since(now)),
                retry: Some(kept.after_failure()),
            };
        }
        let Some(key) = self.table.get(slot).and_then(KeyEntry::key) else {
            return NextRun::default();
        };
        let delay = back_off(&mut *self.limiter, self.metrics.as_ref(), key, now);
        NextRun {
            delay: Some(delay),
            retry: (!delay.is_zero()).then(|| Retry::at(deadline(now, delay))),
        }
    }
}
