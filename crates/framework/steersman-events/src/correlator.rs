//! Machine: turns events into few writes: series, combined Events, rate limits, and the queue of
//! writes.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::jiff::Timestamp;

use crate::drop_reason::DropReason;
use crate::event_group::Membership;
use crate::event_limits::EventLimits;
use crate::event_type::EventType;
use crate::names::{NOTE_LIMIT, cut, event_name};
use crate::new_event::NewEvent;
use crate::object_events::ObjectEvents;
use crate::series::{EventBody, EventSubject, EventWrite, Series, SeriesStage, Similarity};

/// The maximum number of waiting writes (`maxQueuedEvents` of client-go).
pub(crate) const QUEUE_LIMIT: usize = 1000;

/// The maximum number of attempts to write an Event (`maxTriesPerEvent` of client-go).
const ATTEMPTS: u32 = 12;

/// The pause when the server cannot be reached (`defaultSleepDuration` of client-go), without its random part.
const PAUSE: Duration = Duration::from_secs(10);

/// The longest pause that a `Retry-After` of the server can cause.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// The shortest pause that a `Retry-After` can cause: with `Retry-After: 0`, all attempts would be made at once.
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);

/// The pause before a series asks for room in a full queue again.
const QUEUE_FULL_PAUSE: Duration = Duration::from_secs(10);

/// The maximum number of objects that one call of [`Correlator::advance`] processes.
const ADVANCED: usize = 256;

/// The prefix of the note of a combined Event (client-go's text).
const COMBINED: &str = "(combined from similar events): ";

/// The state of all recorded events that may be repeated, and the queue of writes.
///
/// EVENT-6: the memory is bounded by the objects that events are about. An object has at most 25
/// followed Events; an Event is followed until six minutes after its last occurrence, and an object
/// until all tokens of its bucket are back, 125 minutes after its last new Event at the latest. No
/// object displaces the state of another.
#[derive(Debug, Default)]
pub(crate) struct Correlator {
    objects: HashMap<Arc<EventSubject>, ObjectEvents>,
    series: HashMap<u64, Series>,
    /// The series that wait to be written, by number.
    queue: VecDeque<u64>,
    in_flight: usize,
    /// When to process each object again.
    timers: BTreeMap<(Instant, u64), Arc<EventSubject>>,
    /// The instant before which no write begins.
    paused_until: Option<Instant>,
    pub(crate) closing: bool,
    /// The last number that was given to a series or a timer.
    numbers: u64,
    seed: u64,
    limits: EventLimits,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recorded {
    /// The event causes a write, which is queued.
    Queued,
    /// The event was counted. A later write, or the write at the end of the series, has the count.
    Counted,
    Dropped(DropReason),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteAnswer {
    Written,
    Exists,
    /// The patched Event does not exist on the server.
    Gone,
    /// The server was not reached, or asks to try again, after the given time if any.
    Later(Option<Duration>),
    Refused(DropReason),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lost {
    pub(crate) event_type: EventType,
    pub(crate) reason: DropReason,
    pub(crate) events: u64,
}

impl Correlator {
    /// Makes an empty correlator. `seed` makes the names of Events differ from those of other processes.
    pub(crate) fn new(seed: u64, limits: EventLimits) -> Self {
        Self {
            seed,
            limits,
            ..Self::default()
        }
    }

    pub(crate) fn handle_record(
        &mut self,
        subject: &EventSubject,
        event: NewEvent,
        now: Instant,
        time: Timestamp,
    ) -> Recorded {
        if self.closing {
            return Recorded::Dropped(DropReason::Stopped);
        }
        if event.reason.is_empty() || subject.regarding.name().is_empty() {
            return Recorded::Dropped(DropReason::Incomplete);
        }
        let note = hash(&event.note);
        let similarity = Similarity {
            event_type: event.event_type,
            reason: event.reason,
            action: event.action,
            related: event.related,
        };
        let membership = self.member(subject, &similarity, note, now);
        if let Membership::Repeats(series) = membership {
            return self.repeat(series, now, time);
        }
        if self.queue.len() >= QUEUE_LIMIT {
            return Recorded::Dropped(DropReason::QueueFull);
        }
        let is_combined = membership == Membership::NewCombined;
        let mut text = event.note;
        if is_combined {
            text.insert_str(0, COMBINED);
            cut(&mut text, NOTE_LIMIT);
        }
        let subject = self.followed(subject, now);
        let number = self.number();
        let Some(object) = self.objects.get_mut(&subject) else {
            // Unreachable: `followed` has added the object.
            return Recorded::Dropped(DropReason::QueueFull);
        };
        if !object.take_token(now, &self.limits) {
            return Recorded::Dropped(DropReason::RateLimited);
        }
        let group = object.add(similarity, (!is_combined).then_some(note), number, now);
        let unique = hash(&(self.seed, number, &*subject, time.as_nanosecond()));
        let body = EventBody {
            similarity: Arc::clone(&group.similarity),
            note: text,
            name: event_name(subject.regarding.name(), unique),
            time,
            subject,
        };
        let mut series = Series::new(body, now);
        series.stage = SeriesStage::Queued;
        self.series.insert(number, series);
        self.queue.push_back(number);
        Recorded::Queued
    }

    /// Returns the series that an event repeats, if any.
    fn member(
        &mut self,
        subject: &EventSubject,
        similarity: &Similarity,
        note: u64,
        now: Instant,
    ) -> Membership {
        let Some((known, object)) = self.objects.get_key_value(subject) else {
            return Membership::New;
        };
        if object.timer.0 <= now {
            // Series that have ended are finished first, because `advance` may be late.
            let known = Arc::clone(known);
            self.look_at(&known, now);
        }
        let limits = self.limits;
        let object = self.objects.get_mut(subject);
        object.map_or(Membership::New, |object| {
            object.member(similarity, note, now, &limits)
        })
    }

    /// Counts a repetition of a followed Event.
    fn repeat(&mut self, number: u64, now: Instant, time: Timestamp) -> Recorded {
        if let Some(series) = self.series.get_mut(&number) {
            series.repeat(now, time);
        }
        if self.enqueue_if_wanted(number, now) {
            return Recorded::Queued;
        }
        self.arm(number);
        Recorded::Counted
    }

    /// Returns the stored subject for an object, and starts to follow the object.
    fn followed(&mut self, subject: &EventSubject, now: Instant) -> Arc<EventSubject> {
        if let Some((known, _)) = self.objects.get_key_value(subject) {
            return Arc::clone(known);
        }
        let subject = Arc::new(subject.clone());
        let timer = (now + self.limits.finish, self.number());
        self.timers.insert(timer, Arc::clone(&subject));
        let object = ObjectEvents::new(timer, now, &self.limits);
        self.objects.insert(Arc::clone(&subject), object);
        subject
    }

    /// Begins the next write, if a series waits and no pause is on.
    pub(crate) fn next_write(&mut self, now: Instant) -> Option<EventWrite> {
        if self.paused_until.is_some_and(|until| now < until) {
            return None;
        }
        self.paused_until = None;
        loop {
            let number = self.queue.pop_front()?;
            if let Some(series) = self.series.get_mut(&number) {
                self.in_flight += 1;
                return Some(series.begin_write(number));
            }
        }
    }

    /// Processes the result of a write, and returns the events that are lost with it (EVENT-9).
    pub(crate) fn handle_answer(
        &mut self,
        number: u64,
        answer: WriteAnswer,
        now: Instant,
    ) -> Option<Lost> {
        self.in_flight = self.in_flight.saturating_sub(1);
        let closing = self.closing;
        let series = self.series.get_mut(&number)?;
        match answer {
            WriteAnswer::Written => series.written(now),
            WriteAnswer::Exists => series.exists(now),
            WriteAnswer::Refused(reason) => return self.lose(number, reason),
            WriteAnswer::Gone | WriteAnswer::Later(_) => {
                if answer == WriteAnswer::Gone {
                    series.is_gone();
                }
                series.attempts += 1;
                let is_last = series.attempts >= ATTEMPTS;
                series.stage = SeriesStage::Queued;
                let attempts = series.attempts;
                if let WriteAnswer::Later(after) = answer {
                    if is_last || closing {
                        return self.lose(number, DropReason::Unreachable);
                    }
                    self.pause(after, attempts, now);
                } else if is_last {
                    return self.lose(number, DropReason::Refused);
                }
                self.queue.push_front(number);
                return None;
            }
        }
        if self.enqueue_if_wanted(number, now) {
            return None;
        }
        if closing {
            self.remove(number);
        } else {
            self.arm(number);
        }
        None
    }

    /// Processes the objects with a fired timer: finishes and refreshes series, and forgets objects without a series.
    /// The number of objects is bounded, because recorders wait for the lock meanwhile.
    pub(crate) fn handle_tick(&mut self, now: Instant) {
        for _ in 0..ADVANCED {
            let Some(first) = self.timers.first_entry() else {
                return;
            };
            if first.key().0 > now {
                return;
            }
            let subject = Arc::clone(first.get());
            self.look_at(&subject, now);
        }
    }

    /// Finishes and refreshes the series of one object, and then sets its timer or forgets the object.
    fn look_at(&mut self, subject: &Arc<EventSubject>, now: Instant) {
        let Some(object) = self.objects.get(subject) else {
            return;
        };
        let (timer, numbers): (_, Vec<u64>) = (object.timer, object.members().collect());
        self.timers.remove(&timer);
        let mut next: Option<Instant> = None;
        for number in numbers {
            let queued = self.enqueue_if_wanted(number, now);
            let Some(series) = self.series.get(&number) else {
                continue;
            };
            // The result of the write sets the timer again.
            if queued || series.stage != SeriesStage::Idle {
                continue;
            }
            if series.is_over(now, &self.limits) && series.unwritten() == 0 {
                self.remove(number);
                continue;
            }
            let at = match series.next_deadline(&self.limits) {
                at if at > now => at,
                // The queue is full, so the write that is due has to wait.
                _ => now + QUEUE_FULL_PAUSE,
            };
            next = Some(next.map_or(at, |next| next.min(at)));
        }
        let number = self.number();
        let Some(object) = self.objects.get_mut(subject) else {
            return;
        };
        match object.expire(now, &self.limits) {
            None => drop(self.objects.remove(subject)),
            Some(end) => {
                object.timer = (next.map_or(end, |next| next.min(end)), number);
                self.timers.insert(object.timer, Arc::clone(subject));
            }
        }
    }

    /// Sets the timer of an object so that it fires when this series ends or needs a write.
    fn arm(&mut self, number: u64) {
        let Some(series) = self.series.get(&number) else {
            return;
        };
        let at = series.next_deadline(&self.limits);
        let Some(object) = self.objects.get_mut(&series.body.subject) else {
            return;
        };
        if at < object.timer.0 {
            let subject = self.timers.remove(&object.timer);
            object.timer.0 = at;
            let subject = subject.unwrap_or_else(|| Arc::clone(&series.body.subject));
            self.timers.insert(object.timer, subject);
        }
    }

    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// Returns the instant of the next call of [`advance`](Self::advance) or [`next_write`](Self::next_write).
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let timer = self.timers.keys().next().map(|(at, _)| *at);
        let resumed = self.paused_until.filter(|_| !self.queue.is_empty());
        match (timer, resumed) {
            (Some(timer), Some(resumed)) => Some(timer.min(resumed)),
            (one, other) => one.or(other),
        }
    }

    /// Refuses further events, and queues writes for all counts that the server lacks (EVENT-8).
    pub(crate) fn handle_close(&mut self, now: Instant) {
        self.closing = true;
        self.paused_until = None;
        let mut wanting = Vec::new();
        for (number, series) in &mut self.series {
            if series.stage == SeriesStage::Idle && series.wants_write(now, true, &self.limits) {
                series.stage = SeriesStage::Queued;
                wanting.push(*number);
            }
        }
        wanting.sort_unstable();
        self.queue.extend(wanting);
    }

    /// Returns whether the correlator is closed and all writes are done.
    pub(crate) fn is_drained(&self) -> bool {
        self.closing && self.queue.is_empty() && self.in_flight == 0
    }

    pub(crate) fn has_writes(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Requeues the writes that were in flight when the sending task was dropped.
    pub(crate) fn requeue_in_flight(&mut self) {
        self.in_flight = 0;
        for (number, series) in &mut self.series {
            if let SeriesStage::InFlight { .. } = series.stage {
                series.stage = SeriesStage::Queued;
                self.queue.push_front(*number);
            }
        }
    }

    /// Forgets all state, and returns the events that the server does not have.
    pub(crate) fn abandon(&mut self) -> Vec<Lost> {
        self.closing = true;
        let lost = self
            .series
            .drain()
            .map(|(_, series)| lost(&series, DropReason::Stopped))
            .filter(|lost| lost.events > 0)
            .collect();
        self.objects.clear();
        self.timers.clear();
        self.queue.clear();
        self.in_flight = 0;
        lost
    }

    fn pause(&mut self, after: Option<Duration>, attempts: u32, now: Instant) {
        let number = self.number();
        // A random part of up to a quarter keeps many processes from returning at the same moment.
        let quarter = u64::try_from(PAUSE.as_millis() / 4).unwrap_or(1);
        let random = Duration::from_millis(hash(&(self.seed, number, attempts)) % quarter);
        let pause = after.map_or(PAUSE + random, |after| {
            after.clamp(SHORTEST_PAUSE, LONGEST_PAUSE)
        });
        let until = now + pause;
        self.paused_until = Some(self.paused_until.map_or(until, |before| before.max(until)));
    }

    /// Queues a write for a series that needs one now. Returns whether it was queued.
    fn enqueue_if_wanted(&mut self, number: u64, now: Instant) -> bool {
        let Some(series) = self.series.get_mut(&number) else {
            return false;
        };
        let wants_write = series.wants_write(now, self.closing, &self.limits);
        let wanted = series.stage == SeriesStage::Idle && wants_write;
        // EVENT-2: with a full queue, the write waits in its series.
        let has_room = self.queue.len() < QUEUE_LIMIT || self.closing;
        if wanted && has_room {
            series.stage = SeriesStage::Queued;
            self.queue.push_back(number);
        }
        wanted && has_room
    }

    /// Drops a series. Returns its occurrences that the server does not have.
    fn lose(&mut self, number: u64, reason: DropReason) -> Option<Lost> {
        let lost = lost(self.series.get(&number)?, reason);
        self.remove(number);
        Some(lost)
    }

    fn remove(&mut self, number: u64) {
        let Some(series) = self.series.remove(&number) else {
            return;
        };
        if let Some(object) = self.objects.get_mut(&series.body.subject) {
            object.remove(number);
        }
    }
}

/// Returns the occurrences of a series that the server does not have.
fn lost(series: &Series, reason: DropReason) -> Lost {
    Lost {
        event_type: series.body.similarity.event_type,
        reason,
        events: u64::from(series.unwritten()),
    }
}

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests;
