//! The record of all runs of one simulation, and the rules that they obey.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use steersman_controller::Context;
use tokio::time::Instant;

use super::plan::{Limiter, Plan};

/// The versions of an object and its child; `None` for an object that does not exist.
pub(super) type Seen = [Option<String>; 2];

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    Succeeded,
    Terminal,
    /// The run failed, panicked or was dropped.
    Failed,
}

#[derive(Clone, Debug)]
struct RunRecord {
    began: u64,
    ended: Option<(u64, Ended)>,
    attempt: u32,
    is_retry: bool,
    is_last: bool,
    saw: Option<Seen>,
    /// The number of controller starts before this run.
    life: u32,
}

#[derive(Debug, Default)]
struct Records {
    runs: u64,
    life: u32,
    by_name: BTreeMap<String, Vec<RunRecord>>,
    /// The time at which the running controller was told to stop.
    stopping: Option<u64>,
    is_calm: bool,
    violations: Vec<String>,
}

#[derive(Debug)]
pub(super) struct Ledger {
    start: Instant,
    records: Mutex<Records>,
    initial: Vec<String>,
}

/// One run. Dropped without an end, it counts as failed.
pub(super) struct Run {
    ledger: Arc<Ledger>,
    name: String,
    position: usize,
    number: u64,
    ended: Mutex<bool>,
}

impl Ledger {
    pub(super) fn new(plan: &Plan) -> Self {
        let names = usize::try_from(plan.objects).unwrap();
        Self {
            start: Instant::now(),
            records: Mutex::default(),
            initial: plan.names().take(names).collect(),
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap()
    }

    pub(super) fn begin(self: &Arc<Self>, name: &str, ctx: &Context) -> Run {
        let began = self.now();
        let mut records = self.records.lock();
        records.runs += 1;
        let (number, life, stopping) = (records.runs, records.life, records.stopping);
        // A worker may take a key while its controller has not noticed the request to stop.
        if stopping.is_some_and(|at| began > at) {
            records
                .violations
                .push(format!("{name} runs at {began} after the stop"));
        }
        let runs = records.by_name.entry(name.to_owned()).or_default();
        let is_running = runs.last().is_some_and(|last| last.ended.is_none());
        runs.push(RunRecord {
            began,
            ended: None,
            attempt: ctx.attempt(),
            is_retry: ctx.reason().retry().is_some(),
            is_last: ctx.is_last_attempt(),
            saw: None,
            life,
        });
        let position = runs.len() - 1;
        if is_running {
            records
                .violations
                .push(format!("two runs of {name} at {began}"));
        }
        Run {
            ledger: Arc::clone(self),
            name: name.to_owned(),
            position,
            number,
            ended: Mutex::new(false),
        }
    }

    pub(super) fn is_calm(&self) -> bool {
        self.records.lock().is_calm
    }

    pub(super) fn calms_down(&self) {
        self.records.lock().is_calm = true;
    }

    pub(super) fn starts(&self) {
        let mut records = self.records.lock();
        records.life += 1;
        records.stopping = None;
    }

    pub(super) fn stops(&self) {
        let now = self.now();
        self.records.lock().stopping = Some(now);
    }

    /// No run goes on after the end of the controller.
    pub(super) fn has_stopped(&self) {
        let records = self.records.lock();
        for (name, runs) in &records.by_name {
            let last = runs.last().unwrap();
            assert!(last.ended.is_some(), "{name} runs after the stop: {last:?}");
        }
    }

    /// No event is lost: the last run saw the last state. A controller is not told of objects that were deleted before
    /// its start.
    pub(super) fn check_last(&self, name: &str, state: &Seen) {
        let records = self.records.lock();
        let runs = records.by_name.get(name).map(Vec::as_slice);
        let runs = runs.unwrap_or_default();
        let last = runs.last().filter(|last| last.life == records.life);
        match last {
            Some(last) => {
                assert_eq!(
                    last.saw.as_ref(),
                    Some(state),
                    "the last state of {name}: {last:?}"
                );
            }
            None => assert_eq!(*state, [None, None], "{name} was not reconciled"),
        }
    }

    pub(super) fn check(&self, plan: &Plan) {
        let records = self.records.lock();
        assert!(records.violations.is_empty(), "{:?}", records.violations);
        let wait = plan.longest_wait();
        // Nothing starves: the first controller reconciles every object that it finds, whatever happens meanwhile.
        if records.life == 1 {
            for name in &self.initial {
                // An object may be deleted before the controller has listed it.
                let Some(first) = records.by_name.get(name).and_then(|runs| runs.first()) else {
                    continue;
                };
                assert!(first.began <= wait, "{name} starved: {first:?}");
            }
        }
        for (name, runs) in &records.by_name {
            for life in 1..=records.life {
                let runs: Vec<&RunRecord> = runs.iter().filter(|run| run.life == life).collect();
                let is_last_life = life == records.life;
                check_backoff(name, &runs, plan, wait, is_last_life);
                check_limit(name, &runs, plan);
            }
        }
    }
}

/// Follows the attempts and the deadlines of the retries of one key (WQ-11, CTRL-21).
fn check_backoff(name: &str, runs: &[&RunRecord], plan: &Plan, wait: u64, is_last_life: bool) {
    let limiter: Limiter = plan.limiter;
    let mut failures = 0;
    // The deadline of the pending retry.
    let mut pending: Option<u64> = None;
    for (position, run) in runs.iter().enumerate() {
        let told = format!("run {position} of {name}, retry at {pending:?}: {run:?}");
        assert_eq!(run.attempt, failures, "{told}");
        match pending {
            Some(deadline) => {
                assert!(!run.is_retry || run.began >= deadline, "too early: {told}");
                assert!(run.began <= deadline + wait, "too late: {told}");
            }
            None => assert!(!run.is_retry, "no retry is pending: {told}"),
        }
        let is_turn = run.is_retry || plan.max_retries == Some(0);
        let is_last = plan.max_retries.is_some_and(|most| failures >= most) && is_turn;
        assert_eq!(run.is_last, is_last, "{told}");
        let Some((ended, how)) = run.ended else {
            continue;
        };
        match how {
            Ended::Succeeded => {
                failures = 0;
                pending = None;
            }
            Ended::Terminal => pending = None,
            Ended::Failed if is_last => {
                failures = 0;
                pending = None;
            }
            // A run before the retry costs no attempt.
            Ended::Failed if !run.is_retry && pending.is_some_and(|deadline| ended < deadline) => {}
            Ended::Failed => {
                pending = Some(ended + limiter.delay(failures));
                failures += 1;
            }
        }
    }
    assert!(
        !is_last_life || pending.is_none(),
        "the last retry of {name} is missing"
    );
}

/// No span holds more runs than the limit (WQ-13).
fn check_limit(name: &str, runs: &[&RunRecord], plan: &Plan) {
    let Some((most, millis)) = plan.at_most else {
        return;
    };
    for span in runs.windows(usize::try_from(most).unwrap() + 1) {
        let (first, last) = (span[0].began, span[span.len() - 1].began);
        assert!(last - first >= millis, "{name} runs too often: {span:?}");
    }
}

impl Run {
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn saw(&self, seen: Seen) {
        self.change(|run| run.saw = Some(seen));
    }

    pub(super) fn ended(&self, how: Ended) {
        *self.ended.lock() = true;
        let now = self.ledger.now();
        self.change(|run| run.ended = Some((now, how)));
    }

    fn change(&self, change: impl FnOnce(&mut RunRecord)) {
        let mut records = self.ledger.records.lock();
        let runs = records.by_name.get_mut(&self.name).unwrap();
        change(&mut runs[self.position]);
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if !*self.ended.lock() {
            self.ended(Ended::Failed);
        }
    }
}
