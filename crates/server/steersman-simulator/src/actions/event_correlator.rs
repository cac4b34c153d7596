//! Machine: counts repeated Events of the simulated components in one object, as client-go's `EventCorrelator` does.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use crate::state::facts::{Component, NamespacedName};

/// Maximum number of different messages with one reason that get Events of their own; further ones share one Event.
const MAX_SIMILAR: usize = 10;
/// If no similar message comes for this time, the count of different messages starts again from zero.
const AGGREGATION_INTERVAL: Duration = Duration::from_secs(600);
/// Number of Events about one object that a component may write at once, without waiting for a refill.
const BURST: u32 = 25;
/// The time after which a component may write one more Event about the object, up to the burst.
const REFILL: Duration = Duration::from_secs(300);
/// Maximum number of entries in each map of the recorder; beyond it the oldest entry is dropped.
const MAX_ENTRIES: usize = 4096;
/// The age at which the simulator deletes an Event, as the default `--event-ttl` of kube-apiserver.
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

/// What the simulator remembers of its Events, as client-go's `EventCorrelator`: similar ones, counts, and rates.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    similar: BoundedMap<AggregationKey, SimilarMessages>,
    counted: BoundedMap<CountKey, Arc<str>>,
    allowed: BoundedMap<(Arc<str>, &'static str), TokenBucket>,
    /// For each written Event the time (on the simulator's clock) at which its age is checked, the earliest first.
    kept: VecDeque<(Duration, NamespacedName)>,
    /// A counter for the names of Events, which makes them unique even if the clock stands still.
    serial: u64,
}

/// The key of similar Events, which differ only in the message: uid of the object, component, whether the Event is a
/// warning, reason, and field path of the container.
pub(crate) type AggregationKey = (Arc<str>, &'static str, bool, &'static str, String);

/// A token bucket for Events: the number that may still be written, and the time of the last refill.
#[derive(Debug, Default)]
struct TokenBucket {
    since: Duration,
    left: u32,
}

/// The key of the Event that counts a repeated message: the aggregation key, and the message.
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
    /// Returns the message and the key under which an Event is counted; `None` if the component exceeds its rate.
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

    /// Returns the name of the existing Event that counts messages with this key; `None` if there is none.
    pub(crate) fn name_of(&self, counted: &CountKey) -> Option<Arc<str>> {
        self.counted.known.get(counted).cloned()
    }

    pub(crate) fn remember(&mut self, counted: &CountKey, event: NamespacedName, tick: Duration) {
        let name = &event.1;
        *self.counted.entry(counted, || Arc::clone(name)) = Arc::clone(name);
        self.kept.push_back((tick.saturating_add(EVENT_TTL), event));
    }

    /// Returns the next value of the counter for the names of Events.
    pub(crate) fn next_serial(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }

    /// Returns the next Event that may be too old at the time `tick` of the simulator's clock.
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
