//! Machine: detects requests that trigger themselves: each run writes an object, and that write alone causes the next
//! run, which writes the object again.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use steersman_client::RequestId;
use steersman_object::{Kind, ObjectKey, ResourceVersion};

use crate::context::reason::{ChangedObject, ObjectChange};

/// The number of consecutive runs, each caused by the write of the run before, that make a loop. A reconcile that needs
/// several steps to reach its goal ends before that.
pub(crate) const LOOP: u32 = 10;

/// The longest time between the writes of two consecutive runs of a loop. A slower loop costs too little to report.
const LONGEST_ROUND: Duration = Duration::from_secs(60);

/// The shortest time between two warnings about one object, so that a loop does not flood the log.
const BETWEEN_WARNINGS: Duration = Duration::from_secs(600);

/// The largest number of objects that the warnings of one controller name within [`BETWEEN_WARNINGS`].
const MOST_WARNED: usize = 16;

/// The number of tracked requests from which on the detector searches for requests without recent writes to remove.
const SWEEP_FROM: usize = 1024;

/// The largest number of objects with changed fields on record: to record them, each event of the object is decoded.
const MOST_OBSERVED: usize = 16;

/// How long the changed fields of an object are recorded: the longest time in which [`LOOP`] runs can write the object.
const OBSERVED_FOR: Duration = LONGEST_ROUND.saturating_mul(LOOP);

/// The largest number of written objects per run that the detector records. It detects no loops of further objects.
const MOST_WRITES: usize = 64;

/// The largest number of changed fields that a warning names.
const NAMED_FIELDS: usize = 3;

/// Detects requests that trigger themselves. For each request, it compares the writes of a run with the changes that
/// cause the next run.
#[derive(Debug, Default)]
pub(crate) struct LoopDetector {
    requests: HashMap<RequestId, WritingRequest>,
    /// The objects that a warning may name soon. Their changed fields are recorded, because the warning names them as
    /// well.
    observed: HashMap<(Kind, ObjectKey), ObservedObject>,
    sweep_at: usize,
    /// The objects that recent warnings have named, each with the time of its warning.
    warned: HashMap<(Kind, ObjectKey), Instant>,
}

#[derive(Debug)]
struct WritingRequest {
    /// The writes of the previous run that caused the current run; empty if anything else also caused the current run.
    causes: Vec<OwnWrite>,
    writes: Vec<OwnWrite>,
    last: Instant,
}

#[derive(Debug)]
struct ObservedObject {
    since: Instant,
    /// The paths of the fields that the last event of the object changed.
    fields: Vec<String>,
}

#[derive(Debug, Clone)]
struct OwnWrite {
    kind: Kind,
    key: ObjectKey,
    version: ResourceVersion,
    /// The number of consecutive runs that were caused by the write of this object alone, and wrote the object again.
    runs: u32,
}

/// Whether a write belongs to a loop of runs that cause one another, and whether a warning about the loop is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LoopFinding {
    Ordinary,
    InLoop,
    /// The write belongs to a loop, and a warning about its object is due.
    Warn {
        /// The number of consecutive runs of the loop.
        runs: u32,
        /// The paths of the fields that the last recorded event changed, separated by commas; else `unknown`.
        fields: String,
    },
}

impl LoopDetector {
    pub(crate) fn new() -> Self {
        Self {
            sweep_at: SWEEP_FROM,
            ..Self::default()
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Returns whether the detector records the changed fields of this object.
    pub(crate) fn observes(&self, kind: &Kind, key: &ObjectKey) -> bool {
        let object = (kind.clone(), key.clone());
        !self.observed.is_empty() && self.observed.contains_key(&object)
    }

    /// Returns whether the detector records the changed fields of any object.
    pub(crate) fn observes_any(&self) -> bool {
        !self.observed.is_empty()
    }

    pub(crate) fn handle_change(&mut self, kind: &Kind, key: &ObjectKey, fields: Vec<String>) {
        let object = (kind.clone(), key.clone());
        if let Some(observed) = self.observed.get_mut(&object) {
            observed.fields = fields;
        }
    }

    /// Begins a run of a request: keeps the writes of the previous run that caused this run. `changes` has the changed
    /// objects that caused the run; it is empty if anything else also caused the run.
    pub(crate) fn handle_begin(
        &mut self,
        request: &RequestId,
        changes: &[Arc<ChangedObject>],
        now: Instant,
    ) {
        self.observed
            .retain(|_, object| now.saturating_duration_since(object.since) <= OBSERVED_FOR);
        let Some(writing) = self.requests.get_mut(request) else {
            return;
        };
        let mut before = std::mem::take(&mut writing.writes);
        let is_recent = now.saturating_duration_since(writing.last) <= LONGEST_ROUND;
        let is_own = |changed: &Arc<ChangedObject>| {
            changed.cluster.is_none()
                && changed.change != ObjectChange::Deleted
                && before.iter().any(|write| write.caused(changed))
        };
        let is_caused = is_recent && !changes.is_empty() && changes.iter().all(is_own);
        if !is_caused {
            before.clear();
        }
        before.retain(|write| changes.iter().any(|changed| write.caused(changed)));
        if before.is_empty() {
            // No write of the previous run caused this run, so the detector forgets the earlier runs.
            self.requests.remove(request);
            return;
        }
        writing.causes = before;
    }

    pub(crate) fn handle_write(
        &mut self,
        request: &RequestId,
        kind: &Kind,
        key: &ObjectKey,
        version: &ResourceVersion,
        now: Instant,
    ) -> LoopFinding {
        self.sweep(now);
        let writing = self
            .requests
            .entry(request.clone())
            .or_insert_with(|| WritingRequest {
                causes: Vec::new(),
                writes: Vec::new(),
                last: now,
            });
        writing.last = now;
        let is_it = |write: &&mut OwnWrite| write.key == *key && write.kind == *kind;
        if let Some(again) = writing.writes.iter_mut().find(is_it) {
            again.version = version.clone();
            return LoopFinding::Ordinary;
        }
        let cause = writing.causes.iter_mut().find(is_it);
        // The server answers a write that changes nothing with the version that the object already had. Such a write
        // causes no event, and belongs to no loop.
        if cause
            .as_ref()
            .is_some_and(|cause| cause.version == *version)
        {
            return LoopFinding::Ordinary;
        }
        if writing.writes.len() == MOST_WRITES {
            return LoopFinding::Ordinary;
        }
        let runs = cause.map_or(0, |cause| cause.runs.saturating_add(1));
        writing.writes.push(OwnWrite {
            kind: kind.clone(),
            key: key.clone(),
            version: version.clone(),
            runs,
        });
        self.judge(kind, key, runs, now)
    }

    fn judge(&mut self, kind: &Kind, key: &ObjectKey, runs: u32, now: Instant) -> LoopFinding {
        if runs + 2 < LOOP {
            return LoopFinding::Ordinary;
        }
        let object = (kind.clone(), key.clone());
        let is_due = self.is_warning_due(&object, now);
        if runs < LOOP {
            if is_due {
                let _is_observed = self.observe(object, now);
            }
            return LoopFinding::Ordinary;
        }
        let observed = self.observed.remove(&object);
        if !is_due {
            return LoopFinding::InLoop;
        }
        let fields = match observed {
            Some(observed) => observed.fields,
            // The fields that the loop changes are not on record. `observe` starts to record them, and the next write
            // of the loop causes the warning.
            None if self.observe(object.clone(), now) => return LoopFinding::InLoop,
            None => Vec::new(),
        };
        self.warned.insert(object, now);
        LoopFinding::Warn {
            runs,
            fields: match fields.is_empty() {
                true => "unknown".to_owned(),
                false => fields.join(", "),
            },
        }
    }

    /// Returns whether a loop that writes the object is to be reported by a warning now: no recent warning has named
    /// the object, and recent warnings have named fewer than [`MOST_WARNED`] objects.
    fn is_warning_due(&mut self, object: &(Kind, ObjectKey), now: Instant) -> bool {
        self.warned
            .retain(|_, at| now.saturating_duration_since(*at) < BETWEEN_WARNINGS);
        self.warned.len() < MOST_WARNED && !self.warned.contains_key(object)
    }

    /// Starts to record the changed fields of an object. Returns false if [`MOST_OBSERVED`] others are on record.
    fn observe(&mut self, object: (Kind, ObjectKey), now: Instant) -> bool {
        if self.observed.len() >= MOST_OBSERVED && !self.observed.contains_key(&object) {
            return false;
        }
        self.observed.entry(object).or_insert(ObservedObject {
            since: now,
            fields: Vec::new(),
        });
        true
    }

    /// Removes requests without recent writes when `requests` has grown to `sweep_at` entries, to bound its memory.
    fn sweep(&mut self, now: Instant) {
        if self.requests.len() < self.sweep_at {
            return;
        }
        let is_recent =
            |writing: &WritingRequest| now.saturating_duration_since(writing.last) <= LONGEST_ROUND;
        self.requests.retain(|_, writing| is_recent(writing));
        self.observed.clear();
        self.sweep_at = (2 * self.requests.len()).max(SWEEP_FROM);
    }
}

impl OwnWrite {
    fn caused(&self, changed: &ChangedObject) -> bool {
        self.version == changed.version && self.key == changed.key && self.kind == changed.kind
    }
}

/// Returns the paths of the first [`NAMED_FIELDS`] fields that differ, except fields that the server changes with every
/// write.
pub(crate) fn changed_fields(old: &Value, new: &Value) -> Vec<String> {
    let mut found = Vec::new();
    compare("", Some(old), Some(new), &mut found);
    found
}

fn compare(path: &str, old: Option<&Value>, new: Option<&Value>, found: &mut Vec<String>) {
    const BY_THE_SERVER: [&str; 3] = [
        "metadata.resourceVersion", "metadata.generation", "metadata.managedFields",
    ];
    if found.len() == NAMED_FIELDS || old == new || BY_THE_SERVER.contains(&path) {
        return;
    }
    match (old, new) {
        (Some(Value::Object(before)), Some(Value::Object(after))) => {
            let added = after.keys().filter(|name| !before.contains_key(*name));
            for name in before.keys().chain(added) {
                let path = if path.is_empty() {
                    name.clone()
                } else {
                    format!("{path}.{name}")
                };
                compare(&path, before.get(name), after.get(name), found);
            }
        }
        (Some(Value::Array(before)), Some(Value::Array(after))) if before.len() == after.len() => {
            for (index, (old, new)) in before.iter().zip(after).enumerate() {
                compare(&format!("{path}[{index}]"), Some(old), Some(new), found);
            }
        }
        _ => found.push(path.to_owned()),
    }
}

#[cfg(test)]
mod tests;
