//! Machine: decides when the state of each object is polled.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use steersman_object::{Jitter, ObjectKey};

/// The longest time between calls for an object that fail, as a multiple of the interval. The time doubles up to it.
const MOST_INTERVALS: u32 = 8;

#[derive(Debug)]
pub(crate) struct PollSchedule {
    every: Duration,
    max_concurrent: usize,
    jitter: Jitter,
    objects: HashMap<ObjectKey, Polled>,
    /// The objects that wait for a call, in the order of the times of these calls.
    due: BTreeMap<PollSlot, ObjectKey>,
    /// The last number given to a [`PollSlot`]; the number of an object's first slot is the id of the object.
    last_id: u64,
    /// The number of calls in progress.
    running: usize,
}

#[derive(Debug)]
struct Polled {
    /// A unique number. An object that was deleted and created again under the same key has another id, so that the end
    /// of a call for the deleted object is not taken for the end of a call for the new object.
    id: u64,
    call: CallState,
    failures: u32,
}

/// The time of an object's next call, and a number that orders objects with equal times.
type PollSlot = (Instant, u64);

#[derive(Debug)]
enum CallState {
    Waiting(PollSlot),
    Running {
        /// Whether the object changed during the call, so that the next call follows at once.
        again: bool,
    },
    /// No call follows, because the time of the next call is beyond the range of the clock.
    Never,
}

/// A call of the function for one object, which counts as in progress until [`PollSchedule::handle_end`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PollCall {
    pub(crate) key: ObjectKey,
    id: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallEnd {
    /// The call returned a state of the object.
    Answered,
    /// The call failed. `failures` is the number of consecutive failures, and the next call follows after `pause`.
    Failed { failures: u32, pause: Duration },
    /// The object was deleted during the call.
    Forgotten,
}

impl PollSchedule {
    /// Makes an empty schedule. An object has at most one call in progress, and all objects together at most
    /// `max_concurrent`.
    pub(crate) fn new(every: Duration, max_concurrent: usize, seed: u64) -> Self {
        Self {
            every,
            max_concurrent: max_concurrent.max(1),
            jitter: Jitter::new(seed),
            objects: HashMap::new(),
            due: BTreeMap::new(),
            last_id: 0,
            running: 0,
        }
    }

    /// Makes a call of the poll function due now for an object that appeared. Does nothing if the schedule already has
    /// the object.
    pub(crate) fn handle_appeared(&mut self, key: &ObjectKey, now: Instant) {
        if !self.objects.contains_key(key) {
            self.handle_call_now(key, now);
        }
    }

    /// Makes a call of the poll function due now for an object that appeared or changed. If a call for the object is in
    /// progress, the next call follows it at once.
    pub(crate) fn handle_call_now(&mut self, key: &ObjectKey, now: Instant) {
        let slot = self.slot(now);
        let Some(object) = self.objects.get_mut(key) else {
            let object = Polled {
                id: slot.1,
                call: CallState::Waiting(slot),
                failures: 0,
            };
            self.objects.insert(key.clone(), object);
            self.due.insert(slot, key.clone());
            return;
        };
        match &mut object.call {
            CallState::Running { again } => *again = true,
            CallState::Waiting(earlier) if earlier.0 <= now => {}
            CallState::Waiting(later) => {
                self.due.remove(later);
                *later = slot;
                self.due.insert(slot, key.clone());
            }
            never @ CallState::Never => {
                *never = CallState::Waiting(slot);
                self.due.insert(slot, key.clone());
            }
        }
    }

    /// Forgets an object (SRC-2). A call in progress for the object still ends, as [`CallEnd::Forgotten`].
    pub(crate) fn handle_gone(&mut self, key: &ObjectKey) {
        if let Some(object) = self.objects.remove(key)
            && let CallState::Waiting(slot) = object.call
        {
            self.due.remove(&slot);
        }
    }

    /// Returns the keys of the objects in a namespace; of all objects for `None`.
    pub(crate) fn keys_in(&self, namespace: Option<&str>) -> Vec<ObjectKey> {
        let keys = self.objects.keys();
        let within = keys.filter(|key| namespace.is_none_or(|name| key.namespace() == Some(name)));
        within.cloned().collect()
    }

    /// Returns the next call that is due; `None` if no call is due, or while the largest number of calls is in
    /// progress.
    pub(crate) fn next_call(&mut self, now: Instant) -> Option<PollCall> {
        if self.running >= self.max_concurrent {
            return None;
        }
        let first = self
            .due
            .first_entry()
            .filter(|first| first.key().0 <= now)?;
        let key = first.remove();
        let object = self.objects.get_mut(&key)?;
        object.call = CallState::Running { again: false };
        self.running += 1;
        Some(PollCall { key, id: object.id })
    }

    /// Returns the time of the next call; `None` if no object waits for a call, or while the largest number of calls is
    /// in progress.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let free = self.running < self.max_concurrent;
        let first = self.due.first_key_value().filter(|_| free)?;
        Some(first.0.0)
    }

    /// Ends a call, and schedules the next call for its object.
    pub(crate) fn handle_end(&mut self, call: &PollCall, succeeded: bool, now: Instant) -> CallEnd {
        self.running = self.running.saturating_sub(1);
        let next_slot = self.last_id + 1;
        let Some(object) = self.objects.get_mut(&call.key).filter(|o| o.id == call.id) else {
            return CallEnd::Forgotten;
        };
        object.failures = match succeeded {
            true => 0,
            false => object.failures.saturating_add(1),
        };
        let failures = object.failures;
        let intervals = 2_u32
            .saturating_pow(failures.saturating_sub(1))
            .min(MOST_INTERVALS);
        let pause = match object.call {
            // SRC-1: the object changed during the call, so the returned state may depend on its former spec.
            CallState::Running { again: true } => Duration::ZERO,
            _ => self.jitter.about(self.every.saturating_mul(intervals)),
        };
        object.call = CallState::Never;
        if let Some(due) = now.checked_add(pause) {
            self.last_id = next_slot;
            object.call = CallState::Waiting((due, next_slot));
            self.due.insert((due, next_slot), call.key.clone());
        }
        match succeeded {
            true => CallEnd::Answered,
            false => CallEnd::Failed { failures, pause },
        }
    }

    fn slot(&mut self, at: Instant) -> PollSlot {
        self.last_id += 1;
        (at, self.last_id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY: Duration = Duration::from_secs(100);

    fn key(name: &str) -> ObjectKey {
        ObjectKey::namespaced("shop", name)
    }

    fn now() -> Instant {
        tokio::time::Instant::now().into_std()
    }

    fn within(pause: Duration, intervals: u32) -> bool {
        let (least, most) = (EVERY * 9 / 10 * intervals, EVERY * 11 / 10 * intervals);
        (least..=most).contains(&pause)
    }

    #[test]
    fn an_object_is_called_at_once_and_then_at_the_jittered_interval() {
        let (mut schedule, start) = (PollSchedule::new(EVERY, 8, 1), now());
        assert_eq!(schedule.deadline(), None);
        schedule.handle_call_now(&key("a"), start);
        let mut pauses = Vec::new();
        let mut at = start;
        for _ in 0..20 {
            let call = schedule.next_call(at).unwrap();
            assert_eq!(schedule.next_call(at), None, "one call at a time");
            assert_eq!(schedule.handle_end(&call, true, at), CallEnd::Answered);
            let due = schedule.deadline().unwrap();
            assert_eq!(schedule.next_call(due - Duration::from_millis(1)), None);
            pauses.push(due - at);
            at = due;
        }
        assert!(pauses.iter().all(|pause| within(*pause, 1)), "{pauses:?}");
        pauses.dedup();
        assert!(pauses.len() > 10, "{pauses:?}");
    }

    #[test]
    fn at_most_the_given_number_of_calls_are_in_progress() {
        let (mut schedule, start) = (PollSchedule::new(EVERY, 2, 1), now());
        for name in ["a", "b", "c"] {
            schedule.handle_call_now(&key(name), start);
        }
        let first = schedule.next_call(start).unwrap();
        assert_eq!(schedule.next_call(start).unwrap().key, key("b"));
        assert_eq!(
            (schedule.next_call(start), schedule.deadline()),
            (None, None)
        );
        schedule.handle_end(&first, true, start);
        assert_eq!(schedule.deadline(), Some(start));
        assert_eq!(schedule.next_call(start).unwrap().key, key("c"));
        assert_eq!(PollSchedule::new(EVERY, 0, 1).max_concurrent, 1);
    }

    #[test]
    fn pauses_double_after_failures_up_to_eight_intervals_and_a_success_ends_that() {
        let (mut schedule, mut at) = (PollSchedule::new(EVERY, 1, 1), now());
        schedule.handle_call_now(&key("a"), at);
        for (number, intervals) in [(1, 1), (2, 2), (3, 4), (4, 8), (5, 8)] {
            let call = schedule.next_call(at).unwrap();
            let CallEnd::Failed { failures, pause } = schedule.handle_end(&call, false, at) else {
                panic!("the call failed");
            };
            assert_eq!(failures, number);
            assert!(within(pause, intervals), "{number}: {pause:?}");
            at += pause;
        }
        let call = schedule.next_call(at).unwrap();
        assert_eq!(schedule.handle_end(&call, true, at), CallEnd::Answered);
        assert!(within(schedule.deadline().unwrap() - at, 1));
    }

    #[test]
    fn an_object_that_changes_is_called_at_once_and_again_if_it_changes_during_a_call() {
        let (mut schedule, start) = (PollSchedule::new(EVERY, 1, 1), now());
        schedule.handle_call_now(&key("a"), start);
        let call = schedule.next_call(start).unwrap();
        schedule.handle_end(&call, true, start);
        assert_eq!(schedule.next_call(start), None);
        let later = start + Duration::from_secs(1);
        schedule.handle_call_now(&key("a"), later);
        let call = schedule.next_call(later).unwrap();
        schedule.handle_call_now(&key("a"), later);
        assert_eq!(schedule.next_call(later), None);
        schedule.handle_end(&call, true, later);
        let again = schedule.next_call(later).unwrap();
        schedule.handle_end(&again, true, later);
        assert_eq!(schedule.next_call(later), None);
        assert_eq!(schedule.due.len(), 1);
    }

    #[test]
    fn an_object_that_appears_again_is_not_called_again() {
        let (mut schedule, start) = (PollSchedule::new(EVERY, 1, 1), now());
        schedule.handle_appeared(&key("a"), start);
        let call = schedule.next_call(start).unwrap();
        schedule.handle_end(&call, true, start);
        schedule.handle_appeared(&key("a"), start);
        assert_eq!(schedule.next_call(start), None);
    }

    // SRC-2: a deleted object is not called again, and a call for it does not count for a new object.
    #[test]
    fn a_deleted_object_is_forgotten_also_during_a_call() {
        let (mut schedule, start) = (PollSchedule::new(EVERY, 4, 1), now());
        for name in ["waits", "runs"] {
            schedule.handle_call_now(&key(name), start);
        }
        schedule.handle_gone(&key("waits"));
        let call = schedule.next_call(start).unwrap();
        assert_eq!(call.key, key("runs"));
        schedule.handle_gone(&key("runs"));
        schedule.handle_call_now(&key("runs"), start);
        let newer = schedule.next_call(start).unwrap();
        assert_eq!(schedule.handle_end(&call, true, start), CallEnd::Forgotten);
        assert_eq!(schedule.handle_end(&newer, true, start), CallEnd::Answered);
        schedule.handle_gone(&key("runs"));
        assert_eq!(schedule.deadline(), None);
        assert!(schedule.objects.is_empty() && schedule.running == 0);
    }

    #[test]
    fn the_longest_interval_never_ends() {
        let (mut schedule, start) = (PollSchedule::new(Duration::MAX, 4, 1), now());
        schedule.handle_call_now(&key("a"), start);
        let call = schedule.next_call(start).unwrap();
        schedule.handle_end(&call, true, start);
        assert_eq!(schedule.deadline(), None);
        // A change of the object still causes a call, although its next call is never due.
        schedule.handle_call_now(&key("a"), start);
        assert!(schedule.next_call(start).is_some());
    }
}
