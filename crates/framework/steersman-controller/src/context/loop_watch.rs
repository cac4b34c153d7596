//! Driver: reports the writes, runs and events of one controller to the detector of requests that trigger themselves.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Mutex, MutexGuard};
use steersman_api::clock::now;
use steersman_client::{RequestId, Write, WriteObserver, WriteOutcome};
use steersman_informer::Event;
use steersman_object::{Kind, Object};

use crate::context::loops::{LoopDetector, LoopFinding, changed_fields};
use crate::context::reason::RunReason;
use crate::journal::LoopReport;
use crate::metrics::Metrics;

/// Finds requests of one controller that trigger themselves, counts their runs and logs a warning (CTRL-24).
pub(crate) struct LoopWatch {
    controller: String,
    metrics: Metrics,
    detector: Mutex<LoopDetector>,
    /// The last warnings, the newest last.
    reports: Mutex<VecDeque<LoopReport>>,
    // `has_writes`: the detector knows a write of a request. `observes`: it records the changed fields of an object.
    // Most runs and events read only these flags, and do not wait for the lock of `detector`.
    has_writes: AtomicBool,
    observes: AtomicBool,
}

/// The number of warnings that are kept.
const MOST_REPORTS: usize = 16;

impl LoopWatch {
    pub(crate) fn new(controller: &str, metrics: Metrics) -> Self {
        Self {
            controller: controller.to_owned(),
            metrics,
            detector: Mutex::new(LoopDetector::new()),
            reports: Mutex::default(),
            has_writes: AtomicBool::new(false),
            observes: AtomicBool::new(false),
        }
    }

    pub(crate) fn begin(&self, request: &RequestId, reason: &RunReason) {
        // A relaxed load is enough: the queue orders the runs of a request, so this run sees that an earlier run of its
        // request has written.
        if self.has_writes.load(Ordering::Relaxed) {
            let mut detector = self.detector.lock();
            detector.handle_begin(request, reason.only_changes(), now());
            self.set_flags(&detector);
        }
    }

    /// Records the fields that an event changed, if a warning about a loop that writes the object may soon name them.
    pub(crate) fn observe<K: Object>(&self, kind: &Kind, event: &Event<K>) {
        if !self.observes.load(Ordering::Relaxed)
            || !self.detector.lock().observes(kind, event.key())
        {
            return;
        }
        let (Some(old), Some(new)) = (event.old(), event.current()) else {
            return;
        };
        let value = |object: &K| serde_json::to_value(object).unwrap_or_default();
        // The fields are compared outside the lock of `detector`, because decoding and comparing the objects takes
        // time.
        let fields = changed_fields(&value(&old.object()), &value(&new.object()));
        self.detector
            .lock()
            .handle_change(kind, event.key(), fields);
    }

    /// Returns the last warnings, the newest last.
    pub(crate) fn reports(&self) -> Vec<LoopReport> {
        self.reports.lock().iter().cloned().collect()
    }

    fn keep(&self, report: LoopReport) {
        let mut reports = self.reports.lock();
        if reports.len() == MOST_REPORTS {
            reports.pop_front();
        }
        reports.push_back(report);
    }

    fn set_flags(&self, detector: &MutexGuard<'_, LoopDetector>) {
        self.has_writes
            .store(!detector.is_empty(), Ordering::Relaxed);
        self.observes
            .store(detector.observes_any(), Ordering::Relaxed);
    }
}

impl WriteObserver for LoopWatch {
    fn ended(&self, write: &Write, outcome: &WriteOutcome<'_>) {
        let (Some(request), WriteOutcome::Done(Some(written))) = (&write.request, outcome) else {
            return;
        };
        if write.verb == "delete" || written.finalized || !written.version.is_exact() {
            return;
        }
        let finding = {
            let mut detector = self.detector.lock();
            let (kind, key) = (&write.kind, &written.key);
            let finding = detector.handle_write(request, kind, key, &written.version, now());
            self.set_flags(&detector);
            finding
        };
        match finding {
            LoopFinding::Ordinary => {}
            LoopFinding::InLoop => self.metrics.self_triggered.inc(),
            LoopFinding::Warn { runs, fields } => {
                self.metrics.self_triggered.inc();
                tracing::warn!(
                    controller = self.controller,
                    request = ?request,
                    kind = %write.kind,
                    object = %written.key,
                    fields,
                    runs,
                    "the controller triggers itself: each of these runs wrote the object, and that write alone caused \
                     the next run; write only what differs, or let a predicate hold back these changes"
                );
                self.keep(LoopReport {
                    at: now(),
                    request: request.key_text(),
                    kind: write.kind.clone(),
                    key: written.key.clone(),
                    fields,
                    runs,
                });
            }
        }
    }
}
