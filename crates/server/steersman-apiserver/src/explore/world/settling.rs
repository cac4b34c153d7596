//! Driver: waits until the operator of a world is quiet, and asks what is wrong then.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;
use steersman_explore::{ObjectId, Problem, WorldEventKind};

use super::{LONGEST_START, World, without_those_of_server};
use crate::explore::error::ExploreError;
use crate::explore::host::ReconcileOutcomes;
use crate::explore::world_state::ProcessStart;

/// How long a changed state lasts before it is judged again.
const REST: Duration = Duration::from_millis(500);

#[derive(Debug, PartialEq, Eq)]
enum QuietWait {
    Quiet,
    TooLate,
    /// The operator cannot become quiet, because of a problem that is noted.
    Broken,
}

/// What a judgement depends on; the objects by the revision of the server.
#[derive(PartialEq)]
struct JudgedState {
    revision: u64,
    records: Vec<Value>,
    reconciles: ReconcileOutcomes,
}

/// The end of the wait for the state of the reference.
#[derive(Debug)]
pub(super) enum Settled {
    AsExpected,
    /// Not as expected, or not quiet. Problems that are noted already are not among these.
    Wrong(Vec<Problem>),
}

impl World {
    /// Waits until the operator is quiet in a state that is as it must be, at a quiet step or at the end. Returns what is
    /// wrong then.
    pub(super) async fn settle(&self, quiet_step: Option<usize>) -> Settled {
        let patience = self.order.scenario.rules.patience;
        let mut limit = self.core.now() + patience;
        loop {
            match self.wait_until_quiet(limit).await {
                QuietWait::Quiet => {}
                // What is held back may be what the operator waits for.
                QuietWait::TooLate if self.release_held().await => {
                    limit = self.core.now() + patience;
                    continue;
                }
                QuietWait::TooLate => {
                    self.note_not_quiet();
                    // The state of a busy operator says nothing.
                    return Settled::Wrong(Vec::new());
                }
                QuietWait::Broken => return Settled::Wrong(Vec::new()),
            }
            self.core.tell(WorldEventKind::Quiet);
            if self.release_held().await {
                limit = self.core.now() + patience;
                continue;
            }
            // Read first: a change while the state is judged is a reason to judge again.
            let before = self.judged_state();
            let objects = self.objects();
            let compared = self.compared(&objects);
            let (mut wrong, is_over) = {
                let judge = &self.core.state.lock().judge;
                let compared = compared.as_ref().unwrap_or(&objects);
                let list = || Value::Array(without_those_of_server(self.core.objects()));
                let wrong = judge.wrong_when_quiet(quiet_step, &objects, compared, list);
                (wrong, judge.is_over())
            };
            let ReconcileOutcomes { failing, panics } = before.reconciles.clone();
            self.note_panics(panics);
            let reference = self.order.reference.as_ref();
            let must_succeed = !is_over && reference.is_some_and(|reference| !reference.may_fail);
            if wrong.is_empty() && must_succeed && !failing.is_empty() {
                wrong.push(Problem::Failing(failing.clone()));
            }
            if wrong.is_empty() {
                self.failing.lock().extend(failing);
                self.states.lock().push(compared.unwrap_or(objects));
                return Settled::AsExpected;
            }
            // The operator may still get there, for instance after a backoff.
            if !self.wait_for_change(&before, limit).await {
                return Settled::Wrong(wrong);
            }
        }
    }

    fn judged_state(&self) -> JudgedState {
        JudgedState {
            revision: self.core.server.revision(),
            records: self.core.host.records(),
            reconciles: self.core.host.reconciles(),
        }
    }

    /// Waits until a state that was judged has changed, and until the new state has lasted for [`REST`]. Returns false if the
    /// state cannot change, or does not until patience ends, at `limit` at the earliest.
    async fn wait_for_change(&self, judged: &JudgedState, limit: Duration) -> bool {
        let mut changed = self.core.changed.subscribe();
        let mut state = self.judged_state();
        while state == *judged {
            let limit = self.limit(limit);
            if self.core.now() >= limit || self.is_broken() {
                return false;
            }
            // Changes of the server itself, such as those of played controllers, and of records outside of the cluster
            // wake no task.
            let next = limit.min(self.core.now() + self.quiet_time());
            self.wait(&mut changed, next).await;
            state = self.judged_state();
        }
        // A played Deployment changes many objects one after the other: only the last state is worth a judgement.
        loop {
            let until = self.core.now() + REST.min(self.order.scenario.rules.quiet / 4);
            while self.core.now() < until && !self.is_broken() {
                self.wait(&mut changed, until).await;
            }
            let next = self.judged_state();
            if next == state || self.is_broken() || self.core.now() >= self.limit(limit) {
                return true;
            }
            state = next;
        }
    }

    /// Restarts all processes, and notes what they write although all is settled.
    pub(super) async fn restart_settled(&self) -> Result<(), ExploreError> {
        let restarted = "the operator is restarted; nothing is left to do".to_owned();
        self.core.tell(WorldEventKind::Perturbed(restarted));
        let before = self.core.state.lock().changes.len();
        let records = ObjectId::map(self.core.host.records());
        self.core.kill_all().await;
        for _ in 0..self.order.scenario.rules.replicas {
            self.core.start_process().await?;
        }
        let limit = self.core.now() + self.order.scenario.rules.patience;
        if self.wait_until_quiet(limit).await == QuietWait::TooLate {
            self.note_not_quiet();
        }
        self.note_panics(self.core.host.reconciles().panics);
        let mut state = self.core.state.lock();
        let mut writes = state.changes.get(before..).unwrap_or_default().to_vec();
        let after = ObjectId::map(self.core.host.records());
        let all: BTreeSet<&ObjectId> = records.keys().chain(after.keys()).collect();
        let changed = all
            .into_iter()
            .filter(|id| records.get(id) != after.get(id));
        writes.extend(changed.map(|id| format!("change {id}, outside of the cluster")));
        if !writes.is_empty() {
            state.judge.note(Problem::SettledWrites(writes));
        }
        Ok(())
    }

    /// Notes panics, which are problems wherever they happen.
    fn note_panics(&self, panics: Vec<String>) {
        let mut state = self.core.state.lock();
        for text in panics {
            state.judge.note(Problem::Panic(text));
        }
    }

    /// Lets arrive what perturbations hold back. Returns whether anything was held back.
    pub(super) async fn release_held(&self) -> bool {
        let actions = self.core.state.lock().interceptor.become_quiet();
        if actions.is_empty() {
            return false;
        }
        self.core.act(actions).await;
        true
    }

    /// Returns when patience ends, at `limit` at the earliest: patience begins when the processes have started, and one
    /// leads. An operator that has sent its first requests may still be starting, so that an undisturbed world allows
    /// [`LONGEST_START`] in any case.
    fn limit(&self, limit: Duration) -> Duration {
        let patience = self.order.scenario.rules.patience;
        let state = self.core.state.lock();
        let mut limit = limit.max(state.leads_by() + patience);
        if self.order.reference.is_none() {
            limit = limit.max(state.start_at() + LONGEST_START + patience);
        }
        match state.start() {
            ProcessStart::Starting(since) => limit.max(since + patience.max(LONGEST_START)),
            ProcessStart::Started(at) => limit.max(at + patience),
            ProcessStart::None => limit,
        }
    }

    /// Waits until the operator is quiet, or until patience ends. An operator that writes nothing in an undisturbed world is
    /// quiet [`LONGEST_START`] after its start at the earliest.
    async fn wait_until_quiet(&self, limit: Duration) -> QuietWait {
        let quiet = self.quiet_time();
        let mut changed = self.core.changed.subscribe();
        loop {
            if self.core.state.lock().never_waits() {
                return QuietWait::TooLate;
            }
            if self.is_broken() {
                return QuietWait::Broken;
            }
            let limit = self.limit(limit);
            let (quiet_at, idle_at) = {
                let state = self.core.state.lock();
                let idle = state.idle_since().filter(|_| !state.is_displaced());
                // An operator that has written nothing yet may still be starting, whatever it watches.
                let first_write_by = if self.order.reference.is_none() && state.writes.is_empty() {
                    state.start_at() + LONGEST_START
                } else {
                    Duration::ZERO
                };
                let quiet_since = state.quiet_since();
                (
                    quiet_since.map(|since| (since + quiet).max(first_write_by)),
                    idle.map(|since| since + quiet),
                )
            };
            let now = self.core.now();
            if quiet_at.is_some_and(|at| at <= now) {
                return QuietWait::Quiet;
            }
            if now >= limit {
                // An operator that polls no more has nothing to do.
                return match idle_at {
                    Some(at) if at <= now => QuietWait::Quiet,
                    _ => QuietWait::TooLate,
                };
            }
            self.wait(&mut changed, quiet_at.unwrap_or(limit).min(limit))
                .await;
        }
    }

    /// Lets time pass, unless the operator never waits. What perturbations hold back arrives when the operator is quiet.
    pub(super) async fn pass(&self, time: Duration) {
        let until = self.core.now() + time;
        let mut changed = self.core.changed.subscribe();
        while self.core.now() < until && !self.core.state.lock().never_waits() {
            let quiet_since = self.core.state.lock().quiet_since();
            let quiet_at = quiet_since.map(|since| since + self.quiet_time());
            if quiet_at.is_some_and(|at| at <= self.core.now()) && self.release_held().await {
                continue;
            }
            let next = quiet_at.filter(|at| *at > self.core.now());
            self.wait(&mut changed, next.unwrap_or(until).min(until))
                .await;
        }
    }

    /// Waits until something happens, at most until a time.
    pub(super) async fn wait(
        &self,
        changed: &mut tokio::sync::watch::Receiver<u64>,
        until: Duration,
    ) {
        tokio::select! {
            // The sender lives as long as the core, so waiting cannot fail.
            _ = changed.changed() => {}
            () = tokio::time::sleep_until(self.core.instant(until)) => {}
        }
    }

    fn note_not_quiet(&self) {
        self.note_panics(self.core.host.reconciles().panics);
        let mut state = self.core.state.lock();
        let mut writes = state.writes.clone();
        if state.quiet_since().is_none() {
            writes.push("no process of the operator has started its watches, or leads, since the last start".to_owned());
        }
        state.judge.note_not_quiet(&writes);
    }
}
