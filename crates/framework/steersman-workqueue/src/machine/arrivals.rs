//! Machine: decides whether an add, a passed deadline or a delay makes a key ready, delayed or run again.

use std::time::Instant;

use super::{Delay, Machine, QueueStage};
use crate::causes::Causes;
use crate::held::{HeldKey, Rerun};
use crate::key::Key;
use crate::options::AddDelay;
use crate::ready::KeySlot;
use crate::table::{Deadlines, KeyStatus, Retry};

impl<T: Key> Machine<T> {
    /// Handles a delay that has passed.
    pub(super) fn fall_due(&mut self, slot: KeySlot, now: Instant) {
        let Some(entry) = self.table.get_mut(slot) else {
            return;
        };
        let Some(mut due) = entry.due.take() else {
            return;
        };
        let mut add = Rerun::at_once(due.priority, due.causes);
        match due.retry {
            // WQ-11: this run begins before the retry is due, and the retry is kept in case the run fails.
            Some(retry) if retry.deadline > now => {
                due.keep_retry();
                entry.due = Some(due);
            }
            Some(_) => add.causes |= Causes::BACKOFF,
            None => {}
        }
        self.arrive(slot, add, now);
    }

    /// Handles an immediate add, or a deadline that has passed. Returns whether a worker must be woken.
    pub(super) fn arrive(&mut self, slot: KeySlot, add: Rerun, now: Instant) -> bool {
        let Some(entry) = self.table.get_mut(slot) else {
            return false;
        };
        if let Some(due) = &mut entry.due
            && due.at.is_some()
            && let Some(retry) = due.retry
        {
            let early = match add.add_delay {
                AddDelay::Now => now,
                AddDelay::Spaced => retry.earliest_run(now),
                AddDelay::Backoff => retry.deadline,
            };
            if add.add_delay > AddDelay::Now && early >= retry.deadline {
                due.merge(add);
                return false;
            }
            if early > now {
                return self.wait(slot, add.delayed_until(early, None));
            }
        }
        if let KeyStatus::Ready { .. } = entry.status {
            self.raise(slot, add);
            return false;
        }
        let again = self.holding(slot).map(|held| held.again.is_some());
        if again.is_none()
            && let Some(free) = self.next_free(slot, now)
        {
            return self.wait(slot, add.delayed_until(free, None));
        }
        // The measured time in the queue starts with the first add that requested the rerun.
        if again != Some(true)
            && let Some(metrics) = &self.metrics
        {
            metrics.added();
            self.table.stamp(slot, now);
        }
        // WQ-4: only the end of the ticket tells whether an add that waits in a backoff (`Spaced`, `Backoff`) runs at
        // once. Until then the deadline stays, because the ticket may end in backoff.
        let absorbs = again.is_none() || add.add_delay == AddDelay::Now;
        let add = if absorbs { self.absorb(slot, add) } else { add };
        if let Some(held) = self.holding(slot) {
            held.mark(add);
            return false;
        }
        self.line_up(slot, add, now)
    }

    /// Handles a delayed add, or a verdict with a delay. Returns whether a worker must be woken.
    pub(super) fn wait(&mut self, slot: KeySlot, delay: Delay) -> bool {
        let holding = self.holding(slot);
        if let Some(again) = holding.and_then(|held| held.again.as_mut())
            && again.add_delay == AddDelay::Now
        {
            again.priority = again.priority.max(delay.priority);
            again.causes |= delay.causes.without(Causes::DELAY);
            return false;
        }
        let Some(entry) = self.table.get_mut(slot) else {
            return false;
        };
        if let KeyStatus::Ready { .. } = entry.status {
            // A ready key stays ready, with the highest priority and all causes.
            let add = Rerun::at_once(delay.priority, delay.causes.without(Causes::DELAY));
            self.raise(slot, add);
            return false;
        }
        let old = entry.due.take();
        let old_at = old.as_ref().and_then(|old| old.at);
        let earlier = self.delayed.insert(slot, delay.deadline, old_at);
        let Some(at) = earlier.or(old_at) else {
            return false;
        };
        let mut due = Deadlines {
            at: Some(at),
            priority: delay.priority,
            causes: delay.causes,
            retry: delay.retry,
        };
        if let Some(old) = old {
            due.priority = due.priority.max(old.priority);
            due.causes |= old.causes;
            due.retry = Retry::earlier(due.retry, old.retry);
        }
        entry.due = Some(Box::new(due));
        earlier.is_some() && self.delayed.earliest() == Some(delay.deadline)
    }

    pub(super) fn holding(&mut self, slot: KeySlot) -> Option<&mut HeldKey> {
        let KeyStatus::Held { position, .. } = self.table.get(slot)?.status else {
            return None;
        };
        self.held.get_mut(position as usize)
    }

    /// Makes a key ready or, if it has run too often, delays it until the limit allows the run (WQ-13).
    pub(super) fn line_up(&mut self, slot: KeySlot, add: Rerun, now: Instant) -> bool {
        if let Some(free) = self.next_free(slot, now) {
            return self.wait(slot, add.delayed_until(free, None));
        }
        if let Some(entry) = self.table.get_mut(slot) {
            entry.status = KeyStatus::Ready {
                priority: add.priority,
                turn: self.ready.push(slot, add.priority),
                causes: add.causes,
            };
        }
        true
    }

    /// Replaces a pending delay by `add`, with the higher priority and both causes. A retry of a failed key stays.
    pub(super) fn absorb(&mut self, slot: KeySlot, mut add: Rerun) -> Rerun {
        if let Some(entry) = self.table.get_mut(slot)
            && let Some(pending) = &mut entry.due
            && let Some(at) = pending.at
        {
            add.priority = add.priority.max(pending.priority);
            add.causes |= pending.causes.without(Causes::DELAY);
            match pending.retry {
                Some(_) => pending.keep_retry(),
                None => entry.due = None,
            }
            self.delayed.remove(at);
        }
        add
    }

    pub(super) fn keep(&mut self, slot: KeySlot, retry: Retry) {
        let Some(entry) = self.table.get_mut(slot) else {
            return;
        };
        match &mut entry.due {
            Some(due) => due.retry = Some(retry),
            None => entry.due = Some(Box::new(Deadlines::of_retry(retry))),
        }
    }

    /// Adds the causes of an add to a ready key. A higher priority moves the key to the end of that priority's line.
    fn raise(&mut self, slot: KeySlot, add: Rerun) {
        let Some(entry) = self.table.get_mut(slot) else {
            return;
        };
        let KeyStatus::Ready {
            priority,
            turn,
            causes,
        } = &mut entry.status
        else {
            return;
        };
        *causes |= add.causes;
        if add.priority > *priority {
            let left = *priority;
            *priority = add.priority;
            *turn = self.ready.push(slot, add.priority);
            self.ready.leave(left);
        }
    }

    /// Returns the instant at which a key may run again; `None` if it may run now.
    fn next_free(&self, slot: KeySlot, now: Instant) -> Option<Instant> {
        // A draining queue delays no run.
        let runs = self
            .runs
            .as_ref()
            .filter(|_| self.stage == QueueStage::Open)?;
        runs.next_free(self.table.get(slot)?.key()?, now)
    }
}

// === impl Rerun ===

impl Rerun {
    pub(super) fn delayed_until(self, deadline: Instant, retry: Option<Retry>) -> Delay {
        Delay {
            deadline,
            priority: self.priority,
            causes: self.causes,
            retry,
        }
    }
}
