//! Machine: tries other desired states of the objects of a scenario.
//!
//! Each change of a field takes two kinds of worlds. In one the object has the changed state *alone*, from the
//! beginning. In the other the user applies the changed state and then the first one again, *there and back*: the
//! operator must come to the state of the first kind, and then to the one before the change.

mod trial;

use std::collections::BTreeMap;
use std::sync::Arc;

use trial::{DesiredTrial, TrialWorld};

use crate::desired::{DesiredChange, Target, targets};
use crate::finding::Finding;
use crate::object_id::ObjectMap;
use crate::perturbation::{Perturbation, PerturbationKind};
use crate::points::ReferencePoints;
use crate::reference::Reference;
use crate::report::{DesiredReport, PointOutcome, PointReport};
use crate::scenario::Scenario;
use crate::state::Expected;
use crate::world_order::{WorldPlan, WorldResult};

/// The number of worlds that show what differs from run to run, if anything may.
const MOST_RUNS: usize = 3;

/// The trials of an exploration.
#[derive(Debug, Default)]
pub(super) struct DesiredTrials {
    targets: Vec<TargetTrials>,
    /// The trials that have begun and not ended, by the numbers of their changes.
    running: BTreeMap<usize, DesiredTrial>,
    report: DesiredReport,
}

/// What the trials of one object share.
#[derive(Debug)]
struct TargetTrials {
    target: Target,
    /// The number of the first change.
    first: usize,
    /// How the operator learns of changes.
    points: ReferencePoints,
    /// The states of the worlds without a change, by run.
    runs: Vec<Vec<ObjectMap>>,
    missing_runs: usize,
    base: BaseStates,
    /// Whether requests fail without a change.
    may_fail: bool,
    /// Whether a change of a field had an effect, by its path.
    effects: BTreeMap<String, bool>,
}

/// The states of an object that is not changed.
#[derive(Debug)]
enum BaseStates {
    Unknown,
    /// One for each quiet step.
    Known(Vec<Arc<Expected>>),
    /// The worlds without a change went wrong, so that no change can be tried.
    Failed,
}

/// Why a world runs.
#[derive(Debug, Clone, Copy)]
pub(super) enum DesiredStep {
    /// It shows the object with the index of this target without a change.
    Base(usize),
    /// It tries the change with this number.
    Change(usize, TrialWorld),
}

/// A point that was tried, with what is wrong.
#[derive(Debug)]
pub(super) struct DesiredEnd {
    pub(super) point: PointReport,
    pub(super) finding: Option<Finding>,
}

impl DesiredTrials {
    /// Plans the trials of a scenario. `points` are those of an undisturbed world.
    pub(super) fn new(scenario: &Scenario, points: &ReferencePoints) -> Self {
        let mut trials = Self::default();
        let mut first = 1;
        let targets = targets(scenario, &mut trials.report.unmatched);
        for mut target in targets {
            trials.report.left_out += target.left_out;
            trials.report.skipped.append(&mut target.skipped);
            let next = first + target.changes.len();
            trials.targets.push(TargetTrials {
                target,
                first,
                points: points.without_requests(),
                runs: Vec::new(),
                missing_runs: MOST_RUNS,
                base: BaseStates::Unknown,
                may_fail: false,
                effects: BTreeMap::new(),
            });
            first = next;
        }
        trials
    }

    /// Returns the points: one for each change.
    pub(super) fn points(&self) -> impl Iterator<Item = Perturbation> {
        let many: usize = self
            .targets
            .iter()
            .map(|one| one.target.changes.len())
            .sum();
        (1..=many).map(point_of)
    }

    /// Begins the trial of the change with this number. Returns the end of the trial if there is no such change, or if it
    /// cannot be tried.
    pub(super) fn begin(&mut self, number: usize) -> Option<DesiredEnd> {
        let found = self.targets.iter().enumerate().find_map(|(at, target)| {
            let change = target.change(number)?;
            let may_run = !matches!(target.base, BaseStates::Failed);
            may_run.then(|| DesiredTrial::new(at, Arc::clone(change)))
        });
        match found {
            Some(trial) => {
                self.running.insert(number, trial);
                None
            }
            None => Some(not_reached(number)),
        }
    }

    /// Returns whether no further trial should begin: the worlds without a change are not known yet.
    pub(super) fn must_wait(&self) -> bool {
        let is_unknown =
            |trial: &DesiredTrial| matches!(self.targets[trial.target].base, BaseStates::Unknown);
        self.running.values().any(is_unknown)
    }

    /// Returns the next world of the begun trials; `None` if there is none now.
    pub(super) fn next_world(&mut self) -> Option<(DesiredStep, WorldPlan)> {
        for (number, trial) in &mut self.running {
            let target = &mut self.targets[trial.target];
            if let BaseStates::Known(base) = &target.base {
                let next =
                    trial.next_world(&target.target, base, (&target.points, target.may_fail));
                if let Some((world, plan)) = next {
                    return Some((DesiredStep::Change(*number, world), plan));
                }
            } else if target.missing_runs > 0 {
                target.missing_runs -= 1;
                let scenario = target.target.scenario.clone();
                let world = WorldPlan::of_desired_state(scenario, target.missing_runs);
                return Some((DesiredStep::Base(trial.target), world));
            }
        }
        None
    }

    /// Takes the result of a world. Returns the end of the trial, if it has ended.
    pub(super) fn take(
        &mut self,
        step: DesiredStep,
        mut result: WorldResult,
    ) -> Option<DesiredEnd> {
        let (number, world) = match step {
            DesiredStep::Base(target) => return self.take_base(target, result),
            DesiredStep::Change(number, world) => (number, world),
        };
        let mut trial = self.running.remove(&number)?;
        let target = &mut self.targets[trial.target];
        if target.may_fail {
            result.failing.clear();
        }
        let base = target
            .runs
            .first()
            .and_then(|states| states.get(target.target.quiet_step));
        let Some(outcome) = trial.take(world, (&target.target, base), result) else {
            self.running.insert(number, trial);
            return None;
        };
        if let (Some(state), BaseStates::Known(base)) = (&trial.changed_state, &target.base) {
            let has_effect = state.has_effect(&target.target, base);
            let known = target.effects.entry(trial.change.path.to_string());
            *known.or_default() |= has_effect;
        }
        if let Some(why) = &trial.unreachable {
            let (id, text) = (&target.target.id, &trial.change.text);
            self.report.unreachable.push(format!("{id} {text} ({why})"));
        }
        Some(trial.end(number, outcome))
    }

    /// Takes a world that could not run, because the server refuses a step. Returns the end of its trial.
    pub(super) fn fail(&mut self, step: DesiredStep) -> Option<DesiredEnd> {
        match step {
            DesiredStep::Base(target) => {
                let id = &self.targets[target].target.id;
                self.report
                    .untried
                    .push(format!("{id}: the server refuses a step"));
                self.fail_base(target)
            }
            DesiredStep::Change(number, _) => {
                let trial = self.running.remove(&number)?;
                Some(trial.end(number, PointOutcome::Refused))
            }
        }
    }

    /// Returns what was learned of the fields, and the findings of trials that have not ended.
    pub(super) fn finish(self) -> (DesiredReport, Vec<Finding>) {
        let mut report = self.report;
        for TargetTrials {
            target, effects, ..
        } in self.targets
        {
            let without = effects.into_iter().filter(|(_, has_effect)| !has_effect);
            let named = without.map(|(path, _)| format!("{} {path}", target.id.kind));
            report.without_effect.extend(named);
        }
        let unfinished = self.running.into_iter().filter_map(|(number, trial)| {
            let end = trial.end(number, PointOutcome::Found);
            end.finding
        });
        (report, unfinished.collect())
    }

    fn take_base(&mut self, target: usize, result: WorldResult) -> Option<DesiredEnd> {
        if let Some(problem) = result.problems.first() {
            let id = &self.targets[target].target.id;
            self.report.untried.push(format!("{id}: {problem}"));
            return self.fail_base(target);
        }
        let target = &mut self.targets[target];
        if matches!(target.base, BaseStates::Failed) {
            return None;
        }
        target.may_fail |= !result.failing.is_empty();
        target.runs.push(result.states);
        if target.runs.len() == MOST_RUNS {
            let runs: Vec<&[ObjectMap]> = target.runs.iter().map(Vec::as_slice).collect();
            let scenario = &target.target.scenario;
            let learned = Reference::learn(scenario, ReferencePoints::default(), &runs);
            target.base = BaseStates::Known(learned.states);
        }
        None
    }

    /// Gives up a target. Its only running trial ends, because others did not begin before its states were known.
    fn fail_base(&mut self, target: usize) -> Option<DesiredEnd> {
        // Other worlds of this target may still be running, and say the same.
        self.report.untried.dedup();
        self.targets[target].base = BaseStates::Failed;
        let (number, _) = self
            .running
            .iter()
            .find(|(_, trial)| trial.target == target)?;
        let number = *number;
        self.running.remove(&number);
        Some(not_reached(number))
    }
}

impl TargetTrials {
    fn change(&self, number: usize) -> Option<&Arc<DesiredChange>> {
        let at = number.checked_sub(self.first)?;
        self.target.changes.get(at)
    }
}

fn point_of(number: usize) -> Perturbation {
    Perturbation::at(PerturbationKind::DesiredState, number)
}

fn not_reached(number: usize) -> DesiredEnd {
    DesiredEnd {
        point: PointReport {
            perturbations: vec![point_of(number)],
            change: String::new(),
            outcome: PointOutcome::NotReached,
            time: std::time::Duration::ZERO,
            log: 0,
        },
        finding: None,
    }
}

#[cfg(test)]
mod tests;
