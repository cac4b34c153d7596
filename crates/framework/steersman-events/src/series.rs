//! Machine: one Event, on the server or queued, with the number of its occurrences.

use std::sync::Arc;
use std::time::Instant;

use k8s_openapi::jiff::Timestamp;

use crate::event_limits::EventLimits;
use crate::event_type::EventType;
use crate::object_ref::ObjectRef;

/// The recorder of an event and the object that the event is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct EventSubject {
    pub(crate) reporter: Arc<Reporter>,
    pub(crate) regarding: ObjectRef,
}

/// The name of a recorder, as `reportingController` and `reportingInstance`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Reporter {
    pub(crate) controller: String,
    pub(crate) instance: String,
}

/// The fields that are equal in similar events: all but the subject, the time and the note.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Similarity {
    pub(crate) event_type: EventType,
    pub(crate) reason: String,
    pub(crate) action: String,
    pub(crate) related: Option<ObjectRef>,
}

/// The fields of an Event that never change.
#[derive(Debug)]
pub(crate) struct EventBody {
    pub(crate) subject: Arc<EventSubject>,
    pub(crate) similarity: Arc<Similarity>,
    pub(crate) note: String,
    pub(crate) name: String,
    pub(crate) time: Timestamp,
}

#[derive(Debug)]
pub(crate) struct Series {
    pub(crate) body: Arc<EventBody>,
    count: u32,
    /// The count of the Event on the server; 0 without an Event.
    written: u32,
    written_at: Instant,
    last: Instant,
    last_time: Timestamp,
    /// The number of failed attempts of the current write.
    pub(crate) attempts: u32,
    pub(crate) stage: SeriesStage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SeriesStage {
    Idle,
    Queued,
    InFlight { count: u32 },
}

#[derive(Clone, Debug)]
pub(crate) struct EventWrite {
    pub(crate) series: u64,
    pub(crate) body: Arc<EventBody>,
    pub(crate) verb: WriteVerb,
    pub(crate) count: u32,
    pub(crate) last_time: Timestamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteVerb {
    Create,
    Patch,
}

impl Series {
    pub(crate) fn new(body: EventBody, now: Instant) -> Self {
        Self {
            last_time: body.time,
            body: Arc::new(body),
            count: 1,
            written: 0,
            written_at: now,
            last: now,
            attempts: 0,
            stage: SeriesStage::Idle,
        }
    }

    pub(crate) fn repeat(&mut self, now: Instant, time: Timestamp) {
        self.count = self.count.saturating_add(1);
        self.last = now;
        self.last_time = time;
    }

    /// Returns whether the count should be written now (EVENT-3): a new Event and its first repetition at once, later
    /// repetitions every 30 minutes and at the end of the series.
    pub(crate) fn wants_write(&self, now: Instant, closing: bool, limits: &EventLimits) -> bool {
        let more = self.count > self.written;
        let refresh = self.written_at + limits.refresh;
        let due = self.written < 2 || now >= refresh || self.is_over(now, limits);
        more && (due || closing)
    }

    /// Returns whether the last occurrence is so long ago that the Event is finished.
    pub(crate) fn is_over(&self, now: Instant, limits: &EventLimits) -> bool {
        now >= self.last + limits.finish
    }

    /// Returns when the series needs a write or ends, if no event occurs until then.
    pub(crate) fn next_deadline(&self, limits: &EventLimits) -> Instant {
        let end = self.last + limits.finish;
        match self.count > self.written {
            true => end.min(self.written_at + limits.refresh),
            false => end,
        }
    }

    pub(crate) fn begin_write(&mut self, series: u64) -> EventWrite {
        self.stage = SeriesStage::InFlight { count: self.count };
        EventWrite {
            series,
            body: Arc::clone(&self.body),
            verb: match self.written {
                0 => WriteVerb::Create,
                _ => WriteVerb::Patch,
            },
            count: self.count,
            last_time: self.last_time,
        }
    }

    /// Records that the server has the count that was sent.
    pub(crate) fn written(&mut self, now: Instant) {
        if let SeriesStage::InFlight { count } = self.stage {
            self.written = count;
        }
        self.settle(now);
    }

    /// Records that an earlier attempt has created the Event, with an unknown count.
    pub(crate) fn exists(&mut self, now: Instant) {
        self.written = 1;
        self.settle(now);
    }

    /// Records that the server no longer has the Event.
    pub(crate) fn is_gone(&mut self) {
        self.written = 0;
    }

    /// Returns the number of occurrences that the server does not have.
    pub(crate) fn unwritten(&self) -> u32 {
        self.count.saturating_sub(self.written)
    }

    fn settle(&mut self, now: Instant) {
        self.written_at = now;
        self.attempts = 0;
        self.stage = SeriesStage::Idle;
    }
}
