//! Driver: how the informer is doing, and who is told when that changes.

use parking_lot::MutexGuard;

use super::{Core, Run, Writer, place};
use crate::body::Extent;
use crate::reflector::step::Problem;
use crate::state::{Reason, State};

impl Core {
    pub(super) fn report(&self, problem: Option<&Problem>) {
        let mut writer = self.writer.lock();
        let reason = |problem: Option<&Problem>| problem.map(|p| p.reason);
        let changed = reason(writer.problem.as_ref()) != reason(problem);
        if writer.problem.as_ref() == problem {
            return;
        }
        writer.problem = problem.cloned();
        let synced = self.reached().is_some();
        self.publish(&writer);
        drop(writer);
        self.bump();
        // Once per change of the reason, not once per attempt.
        match problem {
            // Somebody deleted the definition: what happened, and no advice to undo it.
            Some(problem) if changed && synced && problem.reason == Reason::NotServed => {
                tracing::warn!(
                    kind = %self.name,
                    "is no longer served; goes on when it is served again"
                );
            }
            Some(problem) if changed => tracing::warn!(
                kind = %self.name,
                reason = %problem.reason,
                // Not `message`: that is the name of the text itself, which would be lost.
                error = %problem.message,
                // Last and without quotes: it may hold a rule to copy.
                way_out = self.options.ways_out.of(problem.reason).map(tracing::field::display),
                "degraded; trying again until it works"
            ),
            None if changed => tracing::info!(kind = %self.name, "recovered"),
            Some(_) | None => {}
        }
    }

    pub(super) fn publish(&self, writer: &Writer) {
        for needs in [Extent::Metadata, Extent::Whole] {
            let synced = self.has_synced(needs);
            let state = match (writer.run, &writer.problem, synced) {
                (Run::Declared, _, _) => State::Declared,
                (Run::Stopped, _, _) => State::Stopped,
                (Run::Running, Some(problem), _) => State::Degraded {
                    reason: problem.reason,
                    message: problem.message.clone(),
                    since: problem.since,
                },
                (Run::Running, None, true) => State::Synced,
                (Run::Running, None, false) => State::Syncing,
            };
            self.states[place(needs)].send_if_modified(|now| {
                let modified = *now != state;
                *now = state;
                modified
            });
        }
        if let Some(gauges) = self.counters.gauges() {
            gauges.enter(&self.state(self.wanted()));
        }
    }

    /// Marks the informer as running. An informer runs once.
    pub(super) fn start(&self) -> bool {
        let mut writer = self.writer.lock();
        let first = writer.run == Run::Declared;
        if first {
            writer.run = Run::Running;
            self.publish(&writer);
        }
        first
    }

    pub(crate) fn end_unstarted(&self) {
        let writer = self.writer.lock();
        if writer.run == Run::Declared {
            self.stopped(writer);
        }
    }

    pub(super) fn stop(&self) {
        self.stopped(self.writer.lock());
    }

    fn stopped(&self, mut writer: MutexGuard<'_, Writer>) {
        writer.run = Run::Stopped;
        writer.fanout.close();
        self.publish(&writer);
        self.progress
            .send_modify(|progress| progress.stopped = true);
        self.bump();
    }
}
