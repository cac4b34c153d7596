//! Driver: the state of an informer, its publication and its log lines.

use parking_lot::MutexGuard;

use super::problem_log::LogLine;
use super::{Core, RunState, StoreWriter, projection_index};
use crate::reflector::step::RequestProblem;
use crate::state::{InformerState, Reason};
use steersman_api::Projection;
use steersman_api::clock::now;

impl Core {
    pub(super) fn report(&self, problem: Option<&RequestProblem>) {
        let mut writer = self.writer.lock();
        let now = now();
        let line = writer.problem_log.next_line(problem.map(|p| p.reason), now);
        let synced = self.reached().is_some();
        let changed = writer.problem.as_ref() != problem;
        if changed {
            writer.problem = problem.cloned();
            self.publish(&writer);
        }
        drop(writer);
        if changed {
            self.notify_applied();
        }
        // A problem is logged once, and not at each attempt.
        match (line, problem) {
            (LogLine::Ends, _) => tracing::info!(kind = %self.name, "recovered"),
            // The definition was probably deleted on purpose, so the line has no advice to restore it.
            (LogLine::Begins, Some(problem)) if synced && problem.reason == Reason::NotServed => {
                tracing::warn!(
                    kind = %self.name,
                    "is no longer served; goes on when it is served again"
                );
            }
            (LogLine::Begins, Some(problem))
                if !synced && self.options.expected_at_first.contains(&problem.reason) =>
            {
                tracing::info!(
                    kind = %self.name,
                    error = %problem.message,
                    "cannot be listed before this operator has installed its definition and serves its conversion; \
                     trying again"
                );
            }
            // Resource versions expire regularly, and a list follows, so the line has no advice.
            (LogLine::Begins, Some(problem)) if problem.reason == Reason::Expired => {
                tracing::info!(
                    kind = %self.name,
                    error = %problem.message,
                    "versions expire before they can be used; listing again, later each time"
                )
            }
            (LogLine::Begins, Some(problem)) => {
                let advise = self.options.failure_advice.as_ref();
                let remedy = advise.and_then(|advise| advise(problem.reason));
                tracing::warn!(
                    kind = %self.name,
                    reason = %problem.reason,
                    // The field is not named `message`, because that would replace the text of the line.
                    error = %problem.message,
                    // The remedy is the last field and has no quotes, because it may contain an RBAC rule to copy.
                    remedy = remedy.map(tracing::field::display),
                    "degraded; trying again until it works"
                );
            }
            (LogLine::Begins | LogLine::None, _) => {}
        }
    }

    pub(super) fn publish(&self, writer: &StoreWriter) {
        for needs in Projection::ALL {
            let synced = self.has_synced(needs);
            let state = match (writer.run, &writer.problem, synced) {
                (RunState::Declared, _, _) => InformerState::Declared,
                (RunState::Stopped | RunState::Ended, _, _) => InformerState::Stopped,
                (RunState::Running, Some(problem), _) => InformerState::Degraded {
                    reason: problem.reason,
                    message: problem.message.clone(),
                    since: problem.since,
                },
                (RunState::Running, None, true) => InformerState::Synced,
                (RunState::Running, None, false) => InformerState::Syncing,
            };
            self.states[projection_index(needs)].send_if_modified(|now| {
                let modified = *now != state;
                *now = state;
                modified
            });
        }
        if let Some(gauges) = self.counters.gauges() {
            gauges.enter(&self.state(self.wanted()));
        }
    }

    /// Marks the informer as running. Returns whether this is its first run.
    pub(super) fn start(&self) -> bool {
        let mut writer = self.writer.lock();
        let first = writer.run == RunState::Declared;
        if first {
            writer.run = RunState::Running;
            self.publish(&writer);
        }
        first
    }

    pub(crate) fn end_unstarted(&self) {
        let writer = self.writer.lock();
        if writer.run == RunState::Declared {
            self.close(writer, RunState::Stopped);
        }
    }

    /// FAN-4: ends the informer, and discards the waiting deliveries of its subscribers.
    pub(crate) fn end(&self) {
        let writer = self.writer.lock();
        let discarded = writer.fanout.discard();
        self.close(writer, RunState::Ended);
        // The discarded deliveries are freed after the lock is released, because there may be many.
        drop(discarded);
    }

    pub(super) fn stop(&self) {
        let writer = self.writer.lock();
        if writer.run != RunState::Ended {
            self.close(writer, RunState::Stopped);
        }
    }

    fn close(&self, mut writer: MutexGuard<'_, StoreWriter>, run: RunState) {
        writer.run = run;
        writer.fanout.close();
        self.publish(&writer);
        self.progress
            .send_modify(|progress| progress.stopped = true);
        self.notify_applied();
    }
}
