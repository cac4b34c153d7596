//! Handle: the gauges of one informer, and their sums over all informers of one kind.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use steersman_object::ResourceVersion;

use crate::state::{InformerState, ListCause};

/// The gauges of one informer, updated as it changes.
#[derive(Debug, Default)]
pub(crate) struct Gauges {
    objects: AtomicUsize,
    malformed: AtomicUsize,
    bytes: AtomicUsize,
    packed: AtomicUsize,
    decoded: AtomicUsize,
    /// The number of deltas that wait for the store.
    queued: AtomicUsize,
    /// The last 15 digits of the last applied resource version; 0 before the first one, or if they are not a number.
    version: AtomicU64,
    last_seen: Mutex<LastSeen>,
}

#[derive(Debug, Default)]
struct LastSeen {
    state: Option<&'static str>,
    event: Option<Instant>,
    bookmark: Option<Instant>,
    list: Option<(Instant, ListCause)>,
}

/// What an informer holds and has received, at one moment.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct InformerUsage {
    /// The number of objects in the store.
    pub objects: usize,
    /// The number of objects that do not decode.
    pub malformed: usize,
    /// The JSON of the objects, in bytes.
    pub bytes: usize,
    /// The packed objects, in bytes.
    pub packed: usize,
    /// The estimated size of the decoded objects that the cache keeps, in bytes.
    pub decoded: usize,
    /// The number of deltas that wait for the store.
    pub queued: usize,
    /// When the last event or list arrived.
    pub last_event: Option<Instant>,
    /// When the last bookmark arrived.
    pub last_bookmark: Option<Instant>,
    /// When the last list began, and why.
    pub last_list: Option<(Instant, ListCause)>,
}

/// The gauges of one kind over all its informers: sums, but the lowest version and the highest ages.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Sum {
    pub(crate) objects: usize,
    pub(crate) malformed: usize,
    pub(crate) bytes: usize,
    pub(crate) packed: usize,
    pub(crate) decoded: usize,
    pub(crate) queued: usize,
    pub(crate) version: Option<u64>,
    /// The time since the last event of an informer: the longest of all informers of the kind.
    pub(crate) event_age: Option<Duration>,
    pub(crate) bookmark_age: Option<Duration>,
    pub(crate) states: BTreeMap<&'static str, u32>,
}

impl Gauges {
    pub(crate) fn hold(&self, objects: usize, malformed: usize, bytes: usize) {
        self.objects.store(objects, Ordering::Relaxed);
        self.malformed.store(malformed, Ordering::Relaxed);
        self.bytes.store(bytes, Ordering::Relaxed);
    }

    pub(crate) fn pack(&self, before: usize, now: usize) {
        self.packed.fetch_add(now, Ordering::Relaxed);
        self.packed.fetch_sub(before, Ordering::Relaxed);
    }

    pub(crate) fn decode(&self, before: usize, now: usize) {
        self.decoded.fetch_add(now, Ordering::Relaxed);
        self.decoded.fetch_sub(before, Ordering::Relaxed);
    }

    pub(crate) fn reach(&self, version: &ResourceVersion) {
        self.version.store(number(version), Ordering::Relaxed);
    }

    pub(crate) fn enqueue(&self) {
        self.queued.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn dequeue(&self, deltas: usize) {
        self.queued.fetch_sub(deltas, Ordering::Relaxed);
    }

    pub(crate) fn note_event(&self, now: Instant) {
        self.last_seen.lock().event = Some(now);
    }

    pub(crate) fn note_list(&self, cause: ListCause, now: Instant) {
        self.last_seen.lock().list = Some((now, cause));
    }

    pub(crate) fn usage(&self) -> InformerUsage {
        let count = |number: &AtomicUsize| number.load(Ordering::Relaxed);
        let last_seen = self.last_seen.lock();
        InformerUsage {
            objects: count(&self.objects),
            malformed: count(&self.malformed),
            bytes: count(&self.bytes),
            packed: count(&self.packed),
            decoded: count(&self.decoded),
            queued: count(&self.queued),
            last_event: last_seen.event,
            last_bookmark: last_seen.bookmark,
            last_list: last_seen.list,
        }
    }

    pub(crate) fn note_bookmark(&self, now: Instant) {
        self.last_seen.lock().bookmark = Some(now);
    }

    pub(crate) fn enter(&self, state: &InformerState) {
        self.last_seen.lock().state = Some(state.as_str());
    }
}

impl Sum {
    /// Adds the gauges of an informer, unless it has stopped.
    pub(crate) fn add(&mut self, gauges: &Gauges, now: Instant) {
        let (state, event, bookmark) = {
            let last_seen = gauges.last_seen.lock();
            (last_seen.state, last_seen.event, last_seen.bookmark)
        };
        if state == Some(InformerState::Stopped.as_str()) {
            return;
        }
        if let Some(state) = state {
            *self.states.entry(state).or_default() += 1;
        }
        self.objects += gauges.objects.load(Ordering::Relaxed);
        self.malformed += gauges.malformed.load(Ordering::Relaxed);
        self.bytes += gauges.bytes.load(Ordering::Relaxed);
        self.packed += gauges.packed.load(Ordering::Relaxed);
        self.decoded += gauges.decoded.load(Ordering::Relaxed);
        self.queued += gauges.queued.load(Ordering::Relaxed);
        let version = gauges.version.load(Ordering::Relaxed);
        let version = Some(version).filter(|version| *version > 0);
        self.version = self.version.into_iter().chain(version).min();
        let age = |since: Option<Instant>| since.map(|at| now.saturating_duration_since(at));
        self.event_age = self.event_age.max(age(event));
        self.bookmark_age = self.bookmark_age.max(age(bookmark));
    }
}

/// Returns the last 15 digits of a version, as client-go does: a gauge (a 64-bit float) holds 15 digits exactly.
fn number(version: &ResourceVersion) -> u64 {
    let text = version.as_str();
    let last = text.get(text.len().saturating_sub(15)..);
    last.and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Instant {
        tokio::time::Instant::now().into_std()
    }

    #[test]
    fn informers_of_one_kind_are_added_up_with_the_oldest_version() {
        let (one, another, stopped) = (Gauges::default(), Gauges::default(), Gauges::default());
        let start = now();
        let at = |seconds| start + Duration::from_secs(seconds);
        one.hold(3, 1, 300);
        one.pack(0, 90);
        one.decode(0, 1000);
        one.reach(&ResourceVersion::new("12"));
        one.note_event(at(1));
        one.enter(&InformerState::Synced);
        another.hold(2, 0, 100);
        another.pack(0, 50);
        another.pack(50, 20);
        another.decode(0, 700);
        another.decode(700, 0);
        another.reach(&ResourceVersion::new("9"));
        another.enqueue();
        another.enqueue();
        another.dequeue(1);
        another.note_event(at(4));
        another.note_bookmark(at(3));
        another.enter(&InformerState::Synced);
        stopped.hold(7, 7, 7);
        stopped.enter(&InformerState::Stopped);
        let mut sum = Sum::default();
        for gauges in [&one, &another, &stopped] {
            sum.add(gauges, at(10));
        }
        let expected = Sum {
            objects: 5,
            malformed: 1,
            bytes: 400,
            packed: 110,
            decoded: 1000,
            queued: 1,
            version: Some(9),
            event_age: Some(Duration::from_secs(9)),
            bookmark_age: Some(Duration::from_secs(7)),
            states: BTreeMap::from([("synced", 2)]),
        };
        assert_eq!(sum, expected);
    }

    #[test]
    fn a_version_gauge_has_the_last_15_digits_or_zero() {
        let number = |text: &str| number(&ResourceVersion::new(text));
        assert_eq!(number("42"), 42);
        assert_eq!(number("1234567890123456789"), 567_890_123_456_789);
        assert_eq!((number("abc"), number("")), (0, 0));
    }
}
