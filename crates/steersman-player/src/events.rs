//! Machine: Events as the parts of a cluster write them, counted where they repeat.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use super::facts::Place;

/// How many different messages of one reason are told one by one.
const SIMILAR: usize = 10;
/// How long a recorder remembers that messages were similar.
const SIMILAR_FOR: Duration = Duration::from_secs(600);
/// How many Events of one object a source may write at once, and after how long one more.
const BURST: u32 = 25;
const REFILL: Duration = Duration::from_secs(300);
/// How much a recorder remembers of each sort.
const REMEMBERED: usize = 4096;
/// How long an Event is kept.
pub(super) const KEPT: Duration = Duration::from_secs(3600);

/// Who tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Source {
    Deployments,
    ReplicaSets,
    StatefulSets,
    DaemonSets,
    Jobs,
    CronJobs,
    Volumes,
    Scheduler,
    Kubelet,
}

/// What is told.
#[derive(Debug, Clone)]
pub(super) struct Told {
    pub(super) warning: bool,
    pub(super) reason: &'static str,
    pub(super) message: String,
    /// The container that is spoken of, as a path.
    pub(super) field: String,
}

/// What is remembered of what was told: client-go's `EventCorrelator`.
#[derive(Debug, Default)]
pub(super) struct Recorder {
    similar: Bounded<Group, Similar>,
    counted: Bounded<Counted, Arc<str>>,
    allowed: Bounded<(Arc<str>, Source), Allowance>,
    /// When to look whether an Event is old, the first to look at first.
    kept: VecDeque<(Duration, Place)>,
    /// Makes names unique though the clock may stand still.
    serial: u64,
}

/// The uid of the object, who tells, whether it is a warning, the reason, and the container.
pub(super) type Group = (Arc<str>, Source, bool, &'static str, String);

/// How many more Events a source may write about an object; since when it has been fewer than all.
#[derive(Debug)]
struct Allowance {
    since: Duration,
    left: u32,
}

/// What is counted in one Event.
pub(super) type Counted = (Group, String);

#[derive(Debug, Default)]
struct Similar {
    at: Duration,
    messages: HashSet<String>,
}

/// A map that forgets what came to it first.
#[derive(Debug)]
struct Bounded<K, V> {
    known: HashMap<K, V>,
    order: VecDeque<K>,
}

impl<K, V> Default for Bounded<K, V> {
    fn default() -> Self {
        Self {
            known: HashMap::new(),
            order: VecDeque::new(),
        }
    }
}

impl<K: Hash + Eq + Clone, V> Bounded<K, V> {
    fn entry(&mut self, key: &K, new: impl FnOnce() -> V) -> &mut V {
        if !self.known.contains_key(key) {
            self.order.push_back(key.clone());
            if self.order.len() > REMEMBERED
                && let Some(first) = self.order.pop_front()
            {
                self.known.remove(&first);
            }
        }
        self.known.entry(key.clone()).or_insert_with(new)
    }
}

impl Source {
    pub(super) fn component(self) -> &'static str {
        match self {
            Self::Deployments => "deployment-controller",
            Self::ReplicaSets => "replicaset-controller",
            Self::StatefulSets => "statefulset-controller",
            Self::DaemonSets => "daemonset-controller",
            Self::Jobs => "job-controller",
            Self::CronJobs => "cronjob-controller",
            Self::Volumes => "persistentvolume-controller",
            Self::Scheduler => "default-scheduler",
            Self::Kubelet => "kubelet",
        }
    }
}

impl Told {
    pub(super) fn normal(reason: &'static str, message: String) -> Self {
        Self {
            warning: false,
            reason,
            message,
            field: String::new(),
        }
    }

    pub(super) fn warning(reason: &'static str, message: String) -> Self {
        Self {
            warning: true,
            ..Self::normal(reason, message)
        }
    }

    /// About a container.
    pub(super) fn of(self, container: &str) -> Self {
        Self {
            field: format!("spec.containers{{{container}}}"),
            ..self
        }
    }
}

impl Recorder {
    /// What an Event says, and the key under which it is counted; `None` for one too many.
    pub(super) fn correlate(
        &mut self,
        uid: &Arc<str>,
        source: Source,
        told: &Told,
        tick: Duration,
    ) -> Option<(String, Counted)> {
        let group = (
            Arc::clone(uid),
            source,
            told.warning,
            told.reason,
            told.field.clone(),
        );
        let similar = self.similar.entry(&group, Similar::default);
        if tick > similar.at.saturating_add(SIMILAR_FOR) {
            *similar = Similar::default();
        }
        similar.at = tick;
        let single = similar.messages.len() < SIMILAR || similar.messages.contains(&told.message);
        let (message, key) = if single {
            similar.messages.insert(told.message.clone());
            (told.message.clone(), told.message.clone())
        } else {
            let message = format!("(combined from similar events): {}", told.message);
            (message, String::new())
        };
        let allowed = self
            .allowed
            .entry(&(Arc::clone(uid), source), || Allowance {
                since: tick,
                left: BURST,
            });
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

    /// The Event in which something is counted so far.
    pub(super) fn name_of(&self, counted: &Counted) -> Option<Arc<str>> {
        self.counted.known.get(counted).cloned()
    }

    /// Notes in which Event something was counted.
    pub(super) fn note(&mut self, counted: &Counted, place: Place, tick: Duration) {
        let name = &place.1;
        *self.counted.entry(counted, || Arc::clone(name)) = Arc::clone(name);
        self.kept.push_back((tick.saturating_add(KEPT), place));
    }

    /// A number that no Event had yet.
    pub(super) fn number(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }

    /// An Event to look at, whether it is old.
    pub(super) fn next_old(&mut self, tick: Duration) -> Option<Place> {
        self.kept.front().filter(|(at, _)| *at <= tick)?;
        self.kept.pop_front().map(|(_, place)| place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_repeats_is_counted_and_what_is_too_much_is_left_out() {
        let mut recorder = Recorder::default();
        let uid: Arc<str> = "uid".into();
        let mut correlate = |message: &str, seconds: u64| {
            let told = Told::normal("Created", message.to_owned());
            let tick = Duration::from_secs(seconds);
            let found = recorder.correlate(&uid, Source::ReplicaSets, &told, tick);
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
        // After a while messages are told one by one again.
        assert_eq!(correlate("pod 20", 3_000), Some("pod 20".to_owned()));
    }
}
