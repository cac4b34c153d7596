//! Words: why a reconcile runs: the changes, the timer or the failure that caused it.

use std::fmt;
use std::sync::Arc;

use steersman_informer::{Event, Origin};
use steersman_object::{Kind, ObjectKey, ResourceVersion};
use steersman_workqueue::Causes;

use crate::request::ClusterName;

/// The largest number of changed objects that one [`RunReason`] names. To save memory, more changes are only counted.
const NAMED: usize = 4;

/// The cause of runs that live events request.
pub(crate) const EVENT: Causes = Causes::custom(0);
/// The cause of runs that initial lists request.
pub(crate) const INITIAL: Causes = Causes::custom(1);
/// The cause of runs that resyncs request.
pub(crate) const RESYNC: Causes = Causes::custom(2);
/// The cause of runs that streams, channels, polls and periodic functions request.
pub(crate) const STREAM: Causes = Causes::custom(3);

/// Why a reconcile runs. Several causes of one request become one run, so a reason may have several parts.
///
/// A reason is meant for logs, metrics and tests. A reconcile should not depend on it: after a restart of the program
/// the reason of every request is the initial list.
///
/// `Display` prints one line, such as `Deployment.v1.apps shop/web was updated, and retry 2`.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct RunReason {
    causes: Causes,
    changes: ChangedObjects,
    attempt: u32,
}

/// A watched object that requested a reconcile by its last change.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChangedObject {
    /// The kind of the object.
    pub kind: Kind,
    /// The namespace and the name of the changed object.
    pub key: ObjectKey,
    /// The cluster of the object; `None` for the manager's own cluster.
    pub cluster: Option<ClusterName>,
    /// The last change of the object before the run.
    pub change: ObjectChange,
    /// The resource version of the object after the change; for a delete the last known version.
    pub version: ResourceVersion,
}

/// The last change of an object before a reconcile, as the cache observed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ObjectChange {
    /// The object appeared: it was created, or matches the selectors of the cache now.
    Created,
    /// The object existed before, and was changed.
    Updated,
    /// The object disappeared: it was deleted, or no longer matches the selectors of the cache.
    Deleted,
}

/// The changed objects that requested a run: the first [`NAMED`] by name, and the number of further changes.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChangedObjects {
    first: Vec<Arc<ChangedObject>>,
    more: usize,
}

pub(crate) fn cause_of<K>(event: &Event<K>) -> Causes {
    match event.origin() {
        Origin::Initial => INITIAL,
        Origin::Resync => RESYNC,
        _ if event.is_resync() => RESYNC,
        _ => EVENT,
    }
}

// === impl RunReason ===

impl RunReason {
    pub(crate) fn new(causes: Causes, changes: ChangedObjects, attempt: u32) -> Self {
        Self {
            causes,
            changes,
            attempt,
        }
    }

    /// Returns the changed objects that requested this run: the first four, in the order of their events.
    ///
    /// May be empty although [`is_event`](Self::is_event) is true: an event that arrives while the previous run begins
    /// requests this run, but its object may be named by the reason of the previous run.
    pub fn changes(&self) -> impl ExactSizeIterator<Item = &ChangedObject> {
        self.changes.first.iter().map(|changed| &**changed)
    }

    /// Returns the number of changed objects that requested this run and that [`changes`](Self::changes) does not name.
    pub fn more_changes(&self) -> usize {
        self.changes.more
    }

    /// Returns whether the change of a watched object requested this run.
    pub fn is_event(&self) -> bool {
        self.causes.contains(EVENT)
    }

    /// Returns whether an initial list requested this run: a list at the start of the controller, or of a cluster that
    /// was added later.
    pub fn is_initial(&self) -> bool {
        self.causes.contains(INITIAL)
    }

    /// Returns whether a resync of the cache requested this run.
    pub fn is_resync(&self) -> bool {
        self.causes.contains(RESYNC)
    }

    /// Returns whether a [stream of requests](crate::Watch::requests), a channel, a poll or a periodic function
    /// requested this run.
    pub fn is_requested(&self) -> bool {
        self.causes.contains(STREAM)
    }

    /// Returns whether a timer caused this run: the delay or time that the previous run asked for with its
    /// [`Action`](crate::Action), or the interval of [`at_least_every`](crate::ControllerBuilder::at_least_every).
    pub fn is_timer(&self) -> bool {
        self.causes.contains(Causes::DELAY)
    }

    /// Returns the number of the retry, from 1; `None` if this run is no retry.
    pub fn retry(&self) -> Option<u32> {
        let is_retry = self.causes.contains(Causes::BACKOFF);
        is_retry.then_some(self.attempt)
    }

    /// Returns the changed objects if nothing else requested this run and the reason names all of them; otherwise an
    /// empty slice, because an unnamed cause may not be a write of the previous run.
    pub(crate) fn only_changes(&self) -> &[Arc<ChangedObject>] {
        match self.causes == EVENT && self.changes.more == 0 {
            true => &self.changes.first,
            false => &[],
        }
    }
}

impl fmt::Display for RunReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts: Vec<String> = self.changes().map(ToString::to_string).collect();
        match self.more_changes() {
            0 if parts.is_empty() && self.is_event() => parts.push("a change".to_owned()),
            0 => {}
            more => parts.push(format!("{more} more changes")),
        }
        let others = [
            (self.is_initial(), "the initial list"),
            (self.is_resync(), "a resync"),
            (self.is_requested(), "a stream of requests"),
            (self.is_timer(), "a timer"),
        ];
        let others = others.into_iter().filter(|(applies, _)| *applies);
        parts.extend(others.map(|(_, text)| text.to_owned()));
        parts.extend(self.retry().map(|retry| format!("retry {retry}")));
        match parts.split_last() {
            None => f.write_str("a request"),
            Some((last, [])) => f.write_str(last),
            Some((last, others)) => write!(f, "{}, and {last}", others.join(", ")),
        }
    }
}

// === impl ObjectChange ===

impl ObjectChange {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Updated => "updated",
            Self::Deleted => "deleted",
        }
    }
}

// === impl ChangedObject ===

impl ChangedObject {
    pub(crate) fn of<K>(kind: &Kind, cluster: Option<&ClusterName>, event: &Event<K>) -> Self {
        let change = match (event.is_create(), event.is_delete()) {
            (true, _) => ObjectChange::Created,
            (_, true) => ObjectChange::Deleted,
            _ => ObjectChange::Updated,
        };
        Self {
            kind: kind.clone(),
            key: event.key().clone(),
            cluster: cluster.cloned(),
            change,
            version: event.entry().version().clone(),
        }
    }

    fn is_same_object(&self, other: &Self) -> bool {
        self.key == other.key && self.kind == other.kind && self.cluster == other.cluster
    }
}

impl fmt::Display for ChangedObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.kind)?;
        if let Some(cluster) = &self.cluster {
            write!(f, "{cluster}/")?;
        }
        write!(f, "{} was {}", self.key, self.change.as_str())
    }
}

// === impl ChangedObjects ===

impl ChangedObjects {
    /// Adds a change. It replaces an earlier change of the same object; beyond [`NAMED`] objects, changes are only
    /// counted.
    pub(crate) fn add(&mut self, changed: &Arc<ChangedObject>) {
        let is_same = |known: &&mut Arc<ChangedObject>| known.is_same_object(changed);
        if let Some(known) = self.first.iter_mut().find(is_same) {
            *known = Arc::clone(changed);
        } else if self.first.len() < NAMED {
            self.first.push(Arc::clone(changed));
        } else {
            self.more += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    fn changed(name: &str, change: ObjectChange, version: &str) -> Arc<ChangedObject> {
        Arc::new(ChangedObject {
            kind: Kind::of::<ConfigMap>(),
            key: ObjectKey::namespaced("shop", name),
            cluster: None,
            change,
            version: ResourceVersion::new(version),
        })
    }

    #[test]
    fn changes_of_one_object_are_its_last_one_and_the_rest_is_counted() {
        let mut changes = ChangedObjects::default();
        for name in ["a", "b", "a", "c", "d", "e", "f", "b"] {
            changes.add(&changed(name, ObjectChange::Updated, "1"));
        }
        changes.add(&changed("b", ObjectChange::Deleted, "2"));
        let reason = RunReason::new(EVENT | Causes::BACKOFF, changes, 3);
        let names: Vec<&str> = reason.changes().map(|changed| changed.key.name()).collect();
        assert_eq!(names, ["a", "b", "c", "d"]);
        assert_eq!(reason.more_changes(), 2);
        assert_eq!(reason.retry(), Some(3));
        assert_eq!(
            reason.to_string(),
            "ConfigMap.v1 shop/a was updated, ConfigMap.v1 shop/b was deleted, ConfigMap.v1 shop/c was updated, \
             ConfigMap.v1 shop/d was updated, 2 more changes, and retry 3"
        );
        assert!(reason.only_changes().is_empty());
    }

    #[test]
    fn every_cause_has_its_words() {
        let table = [
            (Causes::NONE, "a request"),
            (EVENT, "a change"),
            (INITIAL, "the initial list"),
            (RESYNC | STREAM, "a resync, and a stream of requests"),
            (Causes::DELAY, "a timer"),
            (Causes::BACKOFF, "retry 1"),
        ];
        for (causes, text) in table {
            let reason = RunReason::new(causes, ChangedObjects::default(), 1);
            assert_eq!(reason.to_string(), text);
        }
    }
}
