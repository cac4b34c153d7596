//! Machine: the state of the queue: which keys are ready, delayed or held, and which key is next.

use std::time::{Duration, Instant};

use crate::delayed::DelayedKeys;
use crate::exchange::{Arrival, Released, Taken, Verdict};
use crate::held::{HeldKey, Rerun};
use crate::key::Key;
use crate::limiter::RateLimiter;
use crate::metrics::{Metrics, Snapshot};
use crate::options::{Priority, QueueOptions};
use crate::ready::{ReadyKeys, Slot};
use crate::table::{Due, Standing, Table};

/// The maximum delay. Longer delays are shortened to it, so that no deadline overflows the clock.
const LONGEST_DELAY: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// The state of one queue. Its methods are given the time and never read a clock.
///
/// A key is in the table exactly while it is ready, delayed or held:
///
/// ```text
///            add                    next
///   absent ───────▶ ready ────────────────────▶ held ──▶ absent   (forget, settle)
///      │              ▲                          │  ▲
///      │ add after    │ deadline, or an add      │  └ an add only asks for a rerun: `again`
///      └─────────▶ delayed ◀─────────────────────┘   (after, backoff)
///                     ready ◀────────────────────┘   (any end, if a rerun was asked for)
/// ```
pub(crate) struct Machine<T> {
    table: Table<T>,
    ready: ReadyKeys,
    delayed: DelayedKeys,
    held: Vec<HeldKey>,
    limiter: Box<dyn RateLimiter<T>>,
    metrics: Option<Metrics>,
    stage: Stage,
    dropped: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Open,
    Draining,
    Closed,
}

#[derive(Clone, Copy)]
struct Delay {
    deadline: Instant,
    priority: Priority,
    backoff: bool,
}

// === impl Machine ===

impl<T: Key> Machine<T> {
    pub(crate) fn new(options: QueueOptions<T>) -> Self {
        Self {
            table: Table::new(),
            ready: ReadyKeys::new(options.lower_share),
            delayed: DelayedKeys::default(),
            held: Vec::new(),
            limiter: options.limiter,
            metrics: options.metrics,
            stage: Stage::Open,
            dropped: 0,
        }
    }

    /// Returns whether `next` and `release` use the time. If not, the caller may pass any instant
    /// instead of reading the clock. `add` without a delay uses the time only for metrics.
    pub(crate) fn needs_clock(&self) -> bool {
        self.metrics.is_some() || !self.delayed.is_empty()
    }

    /// Adds a key. Returns whether a parked worker must be woken, because of a ready key or an
    /// earlier deadline.
    pub(crate) fn add(&mut self, arrival: Arrival<T>) -> bool {
        self.table.expect(std::iter::once(arrival.hash));
        self.take_in(arrival)
    }

    /// Adds keys in their order, which costs less than adding them one by one.
    pub(crate) fn add_all(&mut self, arrivals: &mut Vec<Arrival<T>>) {
        self.table
            .expect(arrivals.iter().map(|arrival| arrival.hash));
        for arrival in arrivals.drain(..) {
            self.take_in(arrival);
        }
    }

    /// Hands out the next key.
    pub(crate) fn next(&mut self, now: Instant) -> Option<Taken<T>> {
        if self.stage == Stage::Closed {
            return None;
        }
        while let Some(slot) = self.delayed.pop_due(now) {
            if let Some(due) = self.table.get_mut(slot).and_then(|entry| entry.due.take()) {
                self.arrive(slot, due.priority, false, now);
            }
        }
        let table = &self.table;
        let slot = self.ready.pop(|turn, slot| table.is_ready(turn, slot))?;
        let entry = self.table.get_mut(slot)?;
        let Standing::Ready { priority, .. } = entry.standing else {
            return None;
        };
        let key = entry.share()?;
        // WQ-1: a held key is in no ready line, so it cannot be taken again before it is released.
        entry.standing = Standing::Held {
            priority,
            position: self.held.len() as u32,
        };
        self.held.push(HeldKey::new(slot, now));
        if let Some(metrics) = &self.metrics {
            let added = entry.added;
            metrics.waited(self.table.time_since(added, now));
        }
        Some(Taken {
            slot,
            attempts: self.limiter.failures(&key),
            key,
            priority,
        })
    }

    /// Ends the hold of a key (WQ-3).
    pub(crate) fn release(&mut self, slot: Slot, verdict: Verdict, now: Instant) -> Released {
        let Some(entry) = self.table.get_mut(slot) else {
            return Released::default();
        };
        let Standing::Held { priority, position } = entry.standing else {
            return Released::default();
        };
        entry.standing = Standing::Neither;
        let again = self.stop_holding(position, now);
        let delay = self.judge(slot, verdict, now);
        let wake = self.follow(slot, priority, again, (verdict, delay), now);
        self.table.free_unless_used(slot);
        if self.stage == Stage::Draining && self.idle() {
            self.stage = Stage::Closed;
        }
        Released { wake, delay }
    }

    /// Returns the next instant at which a delayed key becomes ready.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.delayed.earliest()
    }

    /// Returns whether another worker would find a key to take or a deadline to wait for.
    pub(crate) fn has_more(&self) -> bool {
        self.ready.len() > 0 || !self.delayed.is_empty()
    }

    /// Returns whether a key is ready or a delay has passed. The delay may be one that an add has absorbed.
    pub(crate) fn has_ready(&self, now: Instant) -> bool {
        self.ready.len() > 0 || self.next_deadline().is_some_and(|deadline| deadline <= now)
    }

    /// Returns the number of ready keys.
    pub(crate) fn len(&self) -> usize {
        self.ready.len()
    }

    /// Returns whether no key is ready, delayed or held.
    pub(crate) fn idle(&self) -> bool {
        self.ready.len() == 0 && self.delayed.is_empty() && self.held.is_empty()
    }

    /// Returns the keys that are held, in no particular order.
    pub(crate) fn held(&self) -> Vec<T> {
        let held = self.held.iter();
        held.filter_map(|held| self.table.get(held.slot)?.key().cloned())
            .collect()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.stage == Stage::Closed
    }

    /// Returns the number of keys dropped by a shut-down, by a drain, and by tickets that ended
    /// after them.
    pub(crate) fn dropped(&self) -> usize {
        self.dropped
    }

    /// Drops all waiting keys and refuses later adds (WQ-6). Returns the number of dropped keys.
    pub(crate) fn shut_down(&mut self) -> usize {
        let before = self.dropped;
        self.stage = Stage::Closed;
        for slot in self.table.slots() {
            self.drop_pending(slot);
        }
        self.ready.clear();
        self.delayed.clear();
        self.dropped - before
    }

    /// Refuses later adds and drops delayed keys. Ready keys are still handed out.
    pub(crate) fn drain(&mut self, now: Instant) {
        if self.stage != Stage::Open {
            return;
        }
        self.stage = Stage::Draining;
        while let Some(slot) = self.delayed.pop_due(deadline(now, LONGEST_DELAY)) {
            if let Some(entry) = self.table.get_mut(slot) {
                entry.due = None;
            }
            self.dropped += 1;
            self.table.free_unless_used(slot);
        }
        if self.idle() {
            self.stage = Stage::Closed;
        }
    }

    /// Returns the values of the metrics at this moment.
    pub(crate) fn snapshot(&self, now: Instant) -> Snapshot {
        let mut snapshot = Snapshot {
            depths: self
                .ready
                .depths()
                .map(|(priority, depth)| (priority.value(), depth))
                .collect(),
            ..Snapshot::default()
        };
        for held in &self.held {
            let time = now.saturating_duration_since(held.since);
            snapshot.unfinished += time;
            snapshot.longest = snapshot.longest.max(time);
        }
        snapshot
    }

    // === the steps of the methods above ===

    fn take_in(&mut self, arrival: Arrival<T>) -> bool {
        if self.stage != Stage::Open {
            return false;
        }
        let Arrival {
            key,
            hash,
            options,
            now,
        } = arrival;
        let mut delay = options.after;
        if options.rate_limited {
            // The failure counts even if the key is ready already.
            let backoff = back_off(&mut *self.limiter, self.metrics.as_ref(), &key, now);
            delay = Some(delay.map_or(backoff, |after| after.min(backoff)));
        }
        let slot = self.table.slot_of(key, hash);
        match delay {
            Some(delay) if !delay.is_zero() => self.wait(
                slot,
                Delay {
                    deadline: deadline(now, delay),
                    priority: options.priority,
                    backoff: options.rate_limited,
                },
            ),
            _ => self.arrive(slot, options.priority, options.keep_backoff, now),
        }
    }

    // Decides whether the end of a ticket causes an immediate run, a delayed run, or none.
    fn follow(
        &mut self,
        slot: Slot,
        mut priority: Priority,
        again: Option<Rerun>,
        (verdict, delay): (Verdict, Option<Duration>),
        now: Instant,
    ) -> bool {
        if self.stage == Stage::Closed {
            self.dropped += usize::from(delay.is_some());
            return false;
        }
        if let Some(again) = again {
            if verdict != Verdict::Backoff || !again.keep_backoff {
                // WQ-2, WQ-4: the rerun is immediate, for every verdict. The add was already
                // counted in the metrics.
                let due = self.absorb(slot).unwrap_or(again.priority);
                return self.line_up(slot, again.priority.max(due));
            }
            // The retry, or an earlier deadline, is the one later run that WQ-2 guarantees for the
            // add.
            priority = priority.max(again.priority);
        }
        match delay {
            None => false,
            // WQ-8: a draining queue drops every run that a ticket asks for.
            Some(_) if self.stage == Stage::Draining => {
                self.dropped += 1;
                false
            }
            Some(delay) if delay.is_zero() => self.arrive(slot, priority, false, now),
            Some(delay) => self.wait(
                slot,
                Delay {
                    deadline: deadline(now, delay),
                    priority,
                    backoff: verdict == Verdict::Backoff,
                },
            ),
        }
    }

    // Updates the number of failures, and returns the delay that the verdict asks for.
    fn judge(&mut self, slot: Slot, verdict: Verdict, now: Instant) -> Option<Duration> {
        let key = self.table.get(slot)?.key()?;
        match verdict {
            Verdict::Forget => {
                self.limiter.forget(key);
                None
            }
            Verdict::Settle => None,
            Verdict::After(delay) => {
                self.limiter.forget(key);
                Some(delay)
            }
            Verdict::Backoff => Some(back_off(
                &mut *self.limiter,
                self.metrics.as_ref(),
                key,
                now,
            )),
        }
    }

    // Handles an immediate add, and a deadline that has passed.
    fn arrive(&mut self, slot: Slot, priority: Priority, keep_backoff: bool, now: Instant) -> bool {
        let Some(entry) = self.table.get_mut(slot) else {
            return false;
        };
        if let Some(due) = &mut entry.due
            && due.backoff
            && keep_backoff
        {
            due.priority = due.priority.max(priority);
            return false;
        }
        if let Standing::Ready { .. } = entry.standing {
            self.raise(slot, priority);
            return false;
        }
        let held = self.holding(slot).map(|held| held.again.is_some());
        // The time in the queue starts with the first add that requested the rerun.
        if held != Some(true)
            && let Some(metrics) = &self.metrics
        {
            metrics.added();
            self.table.stamp(slot, now);
        }
        // WQ-4: the end of the ticket decides whether an add that keeps a backoff runs at once.
        // Until then the deadline stays, because the ticket may end in backoff.
        let absorbs = held.is_none() || !keep_backoff;
        let due = absorbs.then(|| self.absorb(slot)).flatten();
        let priority = priority.max(due.unwrap_or(priority));
        if let Some(held) = self.holding(slot) {
            held.mark(priority, keep_backoff);
            return false;
        }
        self.line_up(slot, priority)
    }

    // Handles a delayed add, and a verdict with a delay.
    fn wait(&mut self, slot: Slot, delay: Delay) -> bool {
        let holding = self.holding(slot);
        if let Some(again) = holding.and_then(|held| held.again.as_mut())
            && !again.keep_backoff
        {
            again.priority = again.priority.max(delay.priority);
            return false;
        }
        let Some(entry) = self.table.get_mut(slot) else {
            return false;
        };
        if let Standing::Ready { .. } = entry.standing {
            // A ready key stays ready.
            self.raise(slot, delay.priority);
            return false;
        }
        let old = entry.due.take();
        let earlier = self
            .delayed
            .insert(slot, delay.deadline, old.as_ref().map(|old| old.at));
        let Some(at) = earlier.or(old.as_ref().map(|old| old.at)) else {
            return false;
        };
        let due = Due {
            at,
            priority: old
                .as_ref()
                .map_or(delay.priority, |old| old.priority.max(delay.priority)),
            backoff: delay.backoff || old.as_ref().is_some_and(|old| old.backoff),
        };
        entry.due = Some(Box::new(due));
        earlier.is_some() && self.delayed.earliest() == Some(delay.deadline)
    }

    // The hold of a key, if a ticket holds it.
    fn holding(&mut self, slot: Slot) -> Option<&mut HeldKey> {
        let Standing::Held { position, .. } = self.table.get(slot)?.standing else {
            return None;
        };
        self.held.get_mut(position as usize)
    }

    fn line_up(&mut self, slot: Slot, priority: Priority) -> bool {
        if let Some(entry) = self.table.get_mut(slot) {
            let turn = self.ready.push(slot, priority);
            entry.standing = Standing::Ready { priority, turn };
        }
        true
    }

    // Moves a ready key to the end of the line of a higher priority.
    fn raise(&mut self, slot: Slot, priority: Priority) {
        let Some(entry) = self.table.get_mut(slot) else {
            return;
        };
        if let Standing::Ready { priority: left, .. } = entry.standing
            && priority > left
        {
            let turn = self.ready.push(slot, priority);
            entry.standing = Standing::Ready { priority, turn };
            self.ready.abandon(left);
        }
    }

    // Removes a pending delay and returns its priority.
    fn absorb(&mut self, slot: Slot) -> Option<Priority> {
        let due = self.table.get_mut(slot)?.due.take()?;
        self.delayed.remove(due.at);
        Some(due.priority)
    }

    fn stop_holding(&mut self, at: u32, now: Instant) -> Option<Rerun> {
        let held = self.held.swap_remove(at as usize);
        if let Some(moved) = self.held.get(at as usize)
            && let Some(moved) = self.table.get_mut(moved.slot)
            && let Standing::Held { position, .. } = &mut moved.standing
        {
            *position = at;
        }
        if let Some(metrics) = &self.metrics {
            metrics.worked(now.saturating_duration_since(held.since));
        }
        held.again
    }

    fn drop_pending(&mut self, slot: Slot) {
        let holding = self.holding(slot);
        let marked = holding.is_some_and(|held| held.again.take().is_some());
        let Some(entry) = self.table.get_mut(slot) else {
            return;
        };
        let pending = [
            matches!(entry.standing, Standing::Ready { .. }),
            entry.due.take().is_some(),
            marked,
        ];
        if pending[0] {
            entry.standing = Standing::Neither;
        }
        self.dropped += usize::from(pending.contains(&true));
        self.table.free_unless_used(slot);
    }
}

fn back_off<T: Key>(
    limiter: &mut dyn RateLimiter<T>,
    metrics: Option<&Metrics>,
    key: &T,
    now: Instant,
) -> Duration {
    if let Some(metrics) = metrics {
        metrics.retried();
    }
    limiter.delay(key, now)
}

fn deadline(now: Instant, delay: Duration) -> Instant {
    now.checked_add(delay.min(LONGEST_DELAY)).unwrap_or(now)
}

#[cfg(test)]
mod tests;
