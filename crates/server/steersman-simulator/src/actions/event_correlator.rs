//! Machine: decides which Events of the simulated components share one object or are dropped, as client-go's
//! `EventCorrelator` does.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use crate::state::facts::{Component, NamespacedName};

/// Maximum number of Events that differ only in the message; further messages share one Event, as in client-go.
const MAX_SIMILAR: usize = 10;
/// After this time without a similar Event, the messages that count against `MAX_SIMILAR` are forgotten.
const AGGREGATION_INTERVAL: Duration = Duration::from_secs(600);
/// Number of Events about one object that a component may write at once; further Events wait for `REFILL`.
const BURST: u32 = 25;
/// After each interval of this length, a component may write one more Event about an object, up to `BURST`.
const REFILL: Duration = Duration::from_secs(300);
/// Maximum number of entries in each map of [`Recorder`], which bounds its memory; the oldest entry is dropped.
const MAX_ENTRIES: usize = 4096;
/// The age at which the simulator deletes an Event: the default of kube-apiserver's `--event-ttl`.
pub(crate) const EVENT_TTL: Duration = Duration::from_secs(3600);

#[derive(Debug, Clone)]
pub(crate) struct EventContent {
    pub(crate) by: Component,
    pub(crate) warning: bool,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
    /// `involvedObject.fieldPath`: the path of the container that the Event is about; empty for other Events.
    pub(crate) field: String,
}

/// What the simulator remembers of its Events, to count repetitions and to limit rates as `EventCorrelator` does.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    similar: BoundedMap<AggregationKey, SimilarMessages>,
    counted: BoundedMap<CountKey, Arc<str>>,
    allowed: BoundedMap<(Arc<str>, &'static str), TokenBucket>,
    /// The time on the simulator's clock at which each written Event may reach `EVENT_TTL`, the earliest first.
    kept: VecDeque<(Duration, NamespacedName)>,
    /// Counts the new Events. Part of their names, so that the names differ even if the wall time stands still.
    serial: u64,
}

/// The key of similar Events, which differ only in the message: uid of the object, component, whether the Event is a
/// warning, reason, and field path of the container.
pub(crate) type AggregationKey = (Arc<str>, &'static str, bool, &'static str, String);

/// The number of Events that a component may still write about an object, and the time of the last refill.
#[derive(Debug, Default)]
struct TokenBucket {
    since: Duration,
    left: u32,
}

/// The key of one written Event: its aggregation key, and its message, or `""` if further similar messages share it.
pub(crate) type CountKey = (AggregationKey, String);

#[derive(Debug, Default)]
struct SimilarMessages {
    at: Duration,
    messages: HashSet<String>,
}

/// A map with at most `MAX_ENTRIES` entries, which drops its oldest entry when it is full.
#[derive(Debug, Default)]
struct BoundedMap<K, V> {
    known: HashMap<K, V>,
    order: VecDeque<K>,
}

impl<K: Hash + Eq + Clone, V> BoundedMap<K, V> {
    fn entry(&mut self, key: &K, new: impl FnOnce() -> V) -> &mut V {
        if !self.known.contains_key(key) {
            self.order.push_back(key.clone());
            if self.order.len() > MAX_ENTRIES
                && let Some(first) = self.order.pop_front()
            {
                self.known.remove(&first);
            }
        }
        self.known.entry(key.clone()).or_insert_with(new)
    }
}

impl EventContent {
    pub(crate) fn normal(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            by: Component::Controllers,
            warning: false,
            reason,
            message: message.into(),
            field: String::new(),
        }
    }

    pub(crate) fn warning(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            warning: true,
            ..Self::normal(reason, message)
        }
    }

    pub(crate) fn of_scheduler(self) -> Self {
        let by = Component::Scheduler;
        Self { by, ..self }
    }

    /// Makes this an Event of the kubelet about the container with this name.
    pub(crate) fn of_container(self, container: &str) -> Self {
        let field = format!("spec.containers{{{container}}}");
        let by = Component::Kubelet;
        Self { by, field, ..self }
    }
}

impl Recorder {
    /// Returns the message to write and the key of the Event that counts it; `None` if the component exceeds its rate.
    pub(crate) fn correlate(
        &mut self,
        uid: &Arc<str>,
        component: &'static str,
        content: &EventContent,
        tick: Duration,
    ) -> Option<(String, CountKey)> {
        let (warning, field) = (content.warning, content.field.clone());
        let group = (Arc::clone(uid), component, warning, content.reason, field);
        let similar = self.similar.entry(&group, SimilarMessages::default);
        if tick > similar.at.saturating_add(AGGREGATION_INTERVAL) {
            *similar = SimilarMessages::default();
        }
        similar.at = tick;
        let single =
            similar.messages.len() < MAX_SIMILAR || similar.messages.contains(&content.message);
        let (message, key) = if single {
            similar.messages.insert(content.message.clone());
            (content.message.clone(), content.message.clone())
        } else {
            let message = format!("(combined from similar events): {}", content.message);
            (message, String::new())
        };
        let full = || TokenBucket {
            since: tick,
            left: BURST,
        };
        let allowed = self.allowed.entry(&(Arc::clone(uid), component), full);
        while allowed.left < BURST && tick.saturating_sub(allowed.since) >= REFILL {
            allowed.since += REFILL;
            allowed.left += 1;
        }
        if allowed.left == BURST {
            allowed.since = tick;
        }
        allowed.left = allowed.left.checked_sub(1)?;
        Some((message, (group, key)))
    }

    /// Returns the name of the Event written earlier with this key; `None` if no such Event is remembered.
    pub(crate) fn name_of(&self, counted: &CountKey) -> Option<Arc<str>> {
        self.counted.known.get(counted).cloned()
    }

    pub(crate) fn remember(&mut self, counted: &CountKey, event: NamespacedName, tick: Duration) {
        let name = &event.1;
        *self.counted.entry(counted, || Arc::clone(name)) = Arc::clone(name);
        self.kept.push_back((tick.saturating_add(EVENT_TTL), event));
    }

    /// Returns a number that no other Event of this simulator has in its name.
    pub(crate) fn next_serial(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }

    /// Takes the next Event that may have reached `EVENT_TTL` at `tick`. A repetition may have made the Event younger.
    pub(crate) fn next_old(&mut self, tick: Duration) -> Option<NamespacedName> {
        self.kept.front().filter(|(at, _)| *at <= tick)?;
        self.kept.pop_front().map(|(_, name)| name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_events_are_counted_and_events_beyond_the_rate_are_dropped() {
        let mut recorder = Recorder::default();
        let uid: Arc<str> = "uid".into();
        let mut correlate = |message: &str, seconds: u64| {
            let content = EventContent::normal("Created", message.to_owned());
            let tick = Duration::from_secs(seconds);
            let found = recorder.correlate(&uid, "replicaset-controller", &content, tick);
            found.map(|(message, _)| message)
        };
        for number in 0..10 {
            let message = format!("pod {number}");
            assert_eq!(correlate(&message, 0), Some(message));
        }
        assert_eq!(
            correlate("pod 10", 0),
            Some("(combined from similar events): pod 10".to_owned())
        );
        assert_eq!(correlate("pod 3", 0), Some("pod 3".to_owned()));
        for _ in 12..25 {
            assert!(correlate("pod 1", 0).is_some());
        }
        assert_eq!(correlate("pod 1", 0), None);
        assert!(correlate("pod 1", 300).is_some());
        assert_eq!(correlate("pod 1", 301), None);
        // After ten minutes, different messages get Events of their own again.
        assert_eq!(correlate("pod 20", 3_000), Some("pod 20".to_owned()));
    }
}
