//! Machine: the state of the queue: which keys are ready, delayed or held, and which key is next.

use std::time::{Duration, Instant};

use crate::causes::Causes;
use crate::delayed::DelayedKeys;
use crate::exchange::{Arrival, Released, Taken, Verdict};
use crate::held::{HeldKey, Rerun};
use crate::key::Key;
use crate::limiter::windows::Windows;
use crate::limiter::{LONGEST_DELAY, RateLimiter};
use crate::metrics::{Metrics, QueueSnapshot};
use crate::options::{Priority, QueueOptions};
use crate::ready::{KeySlot, ReadyKeys};
use crate::table::{KeyStatus, KeyTable, Retry};

mod arrivals;
mod verdicts;
mod reports;

/// The state of one queue. Its methods get the time from the caller, and read no clock.
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
///
/// WQ-11: a failed key that an add makes ready before its retry is due keeps the deadline of the retry. If that early
/// run fails too, the key is delayed until this deadline, and the failure does not count.
pub(crate) struct Machine<T> {
    table: KeyTable<T>,
    ready: ReadyKeys,
    delayed: DelayedKeys,
    held: Vec<HeldKey>,
    limiter: Box<dyn RateLimiter<T>>,
    /// The limit of the runs of each key (WQ-13); `None` without a limit.
    runs: Option<Windows<T>>,
    metrics: Option<Metrics>,
    records_times: bool,
    stage: QueueStage,
    dropped: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum QueueStage {
    Open,
    Draining,
    Closed,
}

/// A run that is requested for a later time.
#[derive(Clone, Copy)]
struct Delay {
    deadline: Instant,
    priority: Priority,
    causes: Causes,
    retry: Option<Retry>,
}

/// The run that the end of a ticket requests.
#[derive(Clone, Copy, Default)]
struct NextRun {
    /// The delay until the next run; `None` for no run.
    delay: Option<Duration>,
    retry: Option<Retry>,
}

// === impl Machine ===

impl<T: Key> Machine<T> {
    pub(crate) fn new(options: QueueOptions<T>) -> Self {
        Self {
            table: KeyTable::new(),
            ready: ReadyKeys::new(options.lower_share),
            delayed: DelayedKeys::default(),
            held: Vec::new(),
            limiter: options.limiter,
            runs: options.at_most.map(|(runs, per)| Windows::new(runs, per)),
            records_times: options.records_times,
            metrics: options.metrics,
            stage: QueueStage::Open,
            dropped: 0,
        }
    }

    /// Returns whether a key is delayed, so that `next`, and `release` without a delay, may use the time. If not, and
    /// if neither [`times_every_step`](Self::times_every_step) nor, for `next`, [`records_times`](Self::records_times)
    /// is true, the caller may pass any instant instead of reading the clock.
    pub(crate) fn needs_clock(&self) -> bool {
        !self.delayed.is_empty()
    }

    /// Returns whether every `add`, `next` and `release` uses the time: for metrics, or for a limit of runs. Otherwise
    /// an `add` without a delay uses the time only if it is spaced in a backoff (WQ-12).
    pub(crate) fn times_every_step(&self) -> bool {
        self.metrics.is_some() || self.runs.is_some()
    }

    /// Returns whether the start of each hold is recorded, so that `next` uses the time.
    pub(crate) fn records_times(&self) -> bool {
        self.records_times || self.times_every_step()
    }

    /// Adds a key. Returns whether a parked worker must be woken, because of a ready key or an earlier deadline.
    pub(crate) fn handle_add(&mut self, arrival: Arrival<T>) -> bool {
        self.table.expect(std::iter::once(arrival.hash));
        self.take_in(arrival)
    }

    /// Adds keys in order, which costs less than adding each key by itself.
    pub(crate) fn handle_adds(&mut self, arrivals: &mut Vec<Arrival<T>>) {
        self.table
            .expect(arrivals.iter().map(|arrival| arrival.hash));
        for arrival in arrivals.drain(..) {
            self.take_in(arrival);
        }
    }

    pub(crate) fn next_key(&mut self, now: Instant) -> Option<Taken<T>> {
        if self.stage == QueueStage::Closed {
            return None;
        }
        while let Some(slot) = self.delayed.pop_due(now) {
            self.fall_due(slot, now);
        }
        let table = &self.table;
        let slot = self.ready.pop(|turn, slot| table.is_ready(turn, slot))?;
        let entry = self.table.get_mut(slot)?;
        let KeyStatus::Ready {
            priority, causes, ..
        } = entry.status
        else {
            return None;
        };
        let key = entry.share()?;
        // WQ-1: a held key is not ready, so it cannot be taken again before its release.
        entry.status = KeyStatus::Held {
            priority,
            position: self.held.len() as u32,
        };
        self.held.push(HeldKey::new(slot, now));
        if let Some(metrics) = &self.metrics {
            let added = entry.added;
            metrics.waited(self.table.time_since(added, now));
        }
        if let Some(runs) = &mut self.runs {
            runs.begin(&key, now);
        }
        Some(Taken {
            slot,
            attempts: self.limiter.failures(&key),
            key,
            priority,
            causes,
        })
    }

    /// Ends the hold of a key (WQ-3). `next` is the priority of the next run; `None` means that of the ticket.
    pub(crate) fn handle_end(
        &mut self,
        slot: KeySlot,
        verdict: Verdict,
        next: Option<Priority>,
        now: Instant,
    ) -> Released {
        let Some(entry) = self.table.get_mut(slot) else {
            return Released::default();
        };
        let KeyStatus::Held { priority, position } = entry.status else {
            return Released::default();
        };
        entry.status = KeyStatus::Neither;
        let kept = entry.take_retry();
        let again = self.stop_holding(position, now);
        let asked = self.judge(slot, verdict, kept, now);
        let priority = next.unwrap_or(priority);
        let wake = self.follow(slot, priority, again, (verdict, asked), now);
        self.table.free_unless_used(slot);
        if self.stage == QueueStage::Draining && self.idle() {
            self.stage = QueueStage::Closed;
        }
        Released {
            wake,
            delay: asked.delay,
        }
    }

    /// Returns the next instant at which a delayed key becomes ready.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.delayed.earliest()
    }

    /// Returns whether another worker would find a key to take or a deadline to wait for.
    pub(crate) fn has_more(&self) -> bool {
        self.ready.len() > 0 || !self.delayed.is_empty()
    }

    /// Returns whether a key is ready, or a deadline has passed, even if an add has absorbed its delay.
    pub(crate) fn has_ready(&self, now: Instant) -> bool {
        self.ready.len() > 0 || self.deadline().is_some_and(|deadline| deadline <= now)
    }

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

    /// Returns the held keys, each with the start of its hold, in any order; none if the queue does not record times.
    pub(crate) fn held_since(&self) -> Vec<(T, Instant)> {
        let held = self.held.iter().filter(|_| self.records_times());
        held.filter_map(|held| Some((self.table.get(held.slot)?.key()?.clone(), held.since)))
            .collect()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.stage == QueueStage::Closed
    }

    /// Returns the number of keys that were dropped by a shut-down, by a drain, and by later ends of tickets.
    pub(crate) fn dropped(&self) -> usize {
        self.dropped
    }

    /// Drops all waiting keys and refuses later adds (WQ-6). Returns the number of dropped keys.
    pub(crate) fn handle_shut_down(&mut self) -> usize {
        let before = self.dropped;
        self.stage = QueueStage::Closed;
        for slot in self.table.slots() {
            self.drop_pending(slot);
        }
        self.ready.clear();
        self.delayed.clear();
        self.dropped - before
    }

    /// Refuses later adds and drops delayed keys. Ready keys are still handed out (WQ-8).
    pub(crate) fn handle_drain(&mut self, now: Instant) {
        if self.stage != QueueStage::Open {
            return;
        }
        self.stage = QueueStage::Draining;
        while let Some(slot) = self.delayed.pop_due(deadline(now, LONGEST_DELAY)) {
            if let Some(entry) = self.table.get_mut(slot) {
                entry.due = None;
            }
            self.dropped += 1;
            self.table.free_unless_used(slot);
        }
        if self.idle() {
            self.stage = QueueStage::Closed;
        }
    }

    pub(crate) fn snapshot(&self, now: Instant) -> QueueSnapshot {
        let mut snapshot = QueueSnapshot {
            depths: self
                .ready
                .depths()
                .map(|(priority, depth)| (priority.value(), depth))
                .collect(),
            ..QueueSnapshot::default()
        };
        for held in &self.held {
            let time = now.saturating_duration_since(held.since);
            snapshot.unfinished += time;
            snapshot.longest = snapshot.longest.max(time);
        }
        snapshot
    }

    fn take_in(&mut self, arrival: Arrival<T>) -> bool {
        if self.stage != QueueStage::Open {
            return false;
        }
        let Arrival {
            key,
            hash,
            options,
            now,
        } = arrival;
        let mut delay = options.after;
        let mut retry = None;
        if options.rate_limited {
            // Counted before anything else, because the failure counts even if the key is ready already.
            let backoff = back_off(&mut *self.limiter, self.metrics.as_ref(), &key, now);
            let shorter = delay.map_or(backoff, |after| after.min(backoff));
            delay = Some(shorter);
            retry = Some(Retry::at(deadline(now, shorter)));
        }
        let mut causes = options.causes.or(Causes::ADD);
        if retry.is_none() && delay.is_some_and(|delay| !delay.is_zero()) {
            causes |= Causes::DELAY;
        }
        let slot = self.table.slot_of(key, hash);
        let add = Rerun {
            priority: options.priority,
            add_delay: options.add_delay,
            causes,
        };
        match delay {
            Some(delay) if !delay.is_zero() => {
                self.wait(slot, add.delayed_until(deadline(now, delay), retry))
            }
            _ => self.arrive(slot, add, now),
        }
    }

    fn stop_holding(&mut self, at: u32, now: Instant) -> Option<Rerun> {
        let held = self.held.swap_remove(at as usize);
        if let Some(moved) = self.held.get(at as usize)
            && let Some(moved) = self.table.get_mut(moved.slot)
            && let KeyStatus::Held { position, .. } = &mut moved.status
        {
            *position = at;
        }
        if let Some(metrics) = &self.metrics {
            metrics.worked(now.saturating_duration_since(held.since));
        }
        held.again
    }

    fn drop_pending(&mut self, slot: KeySlot) {
        let holding = self.holding(slot);
        let marked = holding.is_some_and(|held| held.again.take().is_some());
        let Some(entry) = self.table.get_mut(slot) else {
            return;
        };
        let is_ready = matches!(entry.status, KeyStatus::Ready { .. });
        // `at` is set for a delayed run. A retry that is only kept for later is not counted.
        let is_due = entry.due.take().is_some_and(|due| due.at.is_some());
        if is_ready {
            entry.status = KeyStatus::Neither;
        }
        self.dropped += usize::from(is_ready || is_due || marked);
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
