//! Machine: the trial of one change of a desired state.

use std::sync::Arc;
use std::time::Duration;

use super::{DesiredEnd, MOST_RUNS, point_of};
use crate::campaign::REPEATS;
use crate::desired::{DesiredChange, Target, restore};
use crate::finding::{ComparedState, FieldChange, Finding, Problem};
use crate::object_id::ObjectMap;
use crate::points::ReferencePoints;
use crate::reference::Reference;
use crate::report::{PointOutcome, PointReport};
use crate::request_log::{digest, request_log};
use crate::state::Expected;
use crate::world_order::{WorldPlan, WorldResult};

/// The trial of one change.
#[derive(Debug)]
pub(super) struct DesiredTrial {
    /// The index of the object.
    pub(super) target: usize,
    pub(super) change: Arc<DesiredChange>,
    /// Why the operator cannot reach the changed state; `None` if it can.
    pub(super) unreachable: Option<String>,
    /// What the change led to, once it is known.
    pub(super) changed_state: Option<ChangedState>,
    /// The states with the changed object alone, by run.
    alone: Vec<ObjectMap>,
    /// The number of these runs that are needed.
    needed_alone: usize,
    is_running: bool,
    /// What a world there and back must show; `None` until it is known.
    reference: Option<Arc<Reference>>,
    /// What is wrong, and the kind of the world that shows it.
    found: Option<(Finding, TrialWorld)>,
    time: Duration,
    /// The digest of the requests of the last world.
    log: u64,
}

/// A world of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::campaign) enum TrialWorld {
    /// The object has the changed state from the beginning.
    Alone,
    /// The user applies the changed state, and then the first one again.
    ThereAndBack,
}

/// The states of one world before and after a change.
#[derive(Debug)]
pub(super) struct ChangedState {
    before: ObjectMap,
    after: ObjectMap,
}

// ===== impl DesiredTrial =====

impl DesiredTrial {
    pub(super) fn new(target: usize, change: Arc<DesiredChange>) -> Self {
        Self {
            target,
            change,
            unreachable: None,
            changed_state: None,
            alone: Vec::new(),
            needed_alone: 1,
            is_running: false,
            reference: None,
            found: None,
            time: Duration::ZERO,
            log: 0,
        }
    }

    fn is_reachable(&self) -> bool {
        self.unreachable.is_none()
    }

    /// Returns the next world; `None` while one is running. `known` are the points of the reference, and whether requests may
    /// fail.
    pub(super) fn next_world(
        &mut self,
        target: &Target,
        base: &[Arc<Expected>],
        known: (&ReferencePoints, bool),
    ) -> Option<(TrialWorld, WorldPlan)> {
        if self.is_running {
            return None;
        }
        self.is_running = true;
        let is_alone = match &self.found {
            Some((_, world)) => *world == TrialWorld::Alone,
            None => self.is_reachable() && self.alone.len() < self.needed_alone,
        };
        if is_alone {
            let scenario = target.alone(&self.change);
            let plan = WorldPlan::of_desired_state(scenario, self.alone.len());
            return Some((TrialWorld::Alone, plan));
        }
        let reference = self.reference.take();
        let reference = reference.unwrap_or_else(|| Arc::new(self.learned(target, base, known)));
        self.reference = Some(Arc::clone(&reference));
        let scenario = target.there_and_back(&self.change, self.is_reachable());
        let plan = WorldPlan {
            reference: Some(reference),
            ..WorldPlan::of_desired_state(scenario, 0)
        };
        Some((TrialWorld::ThereAndBack, plan))
    }

    /// Takes the result of a world. Returns the outcome once the trial has ended.
    ///
    /// `base` is the state without a change.
    pub(super) fn take(
        &mut self,
        world: TrialWorld,
        (target, base): (&Target, Option<&ObjectMap>),
        mut result: WorldResult,
    ) -> Option<PointOutcome> {
        self.is_running = false;
        self.time += result.time;
        self.log = digest(&request_log(&result.events));
        let problems = std::mem::take(&mut result.problems).into_iter();
        let changed = self.is_reachable().then_some(target.quiet_step + 1);
        let problems = problems.map(|one| compared(one, target, changed));
        let problems: Vec<Problem> = problems.collect();
        if let Some((finding, _)) = &mut self.found {
            finding.tries += 1;
            let is_same = problems.iter().any(|one| one.is_like(&finding.problem));
            finding.repeated += usize::from(is_same);
            return (finding.tries == REPEATS).then_some(PointOutcome::Found);
        }
        match world {
            TrialWorld::Alone => self.take_alone((target, base), problems, result),
            TrialWorld::ThereAndBack => self.take_there_and_back(target, problems, result),
        }
    }

    /// Ends the trial.
    pub(super) fn end(self, number: usize, outcome: PointOutcome) -> DesiredEnd {
        let perturbations = vec![point_of(number)];
        let finding = self.found.map(|(finding, _)| Finding {
            perturbations: perturbations.clone(),
            ..finding
        });
        let point = PointReport {
            perturbations,
            change: self.change.text.clone(),
            outcome,
            time: self.time,
            log: self.log,
        };
        DesiredEnd { point, finding }
    }

    fn take_alone(
        &mut self,
        (target, base): (&Target, Option<&ObjectMap>),
        problems: Vec<Problem>,
        mut result: WorldResult,
    ) -> Option<PointOutcome> {
        let is_busy = |one: &Problem| matches!(one, Problem::NotQuiet { .. });
        let state = result.states.get(target.quiet_step);
        let condition = base
            .zip(state)
            .and_then(|(base, state)| target.other_condition(base, state));
        self.unreachable = if problems.iter().any(is_busy) {
            Some("it does not become quiet".to_owned())
        } else if let Some(failing) = result.failing.first() {
            Some(format!("a request keeps failing: {failing}"))
        } else {
            condition
        };
        // An operator need not become quiet with a state that it cannot reach, but it must not end.
        match problems.into_iter().find(|one| !is_busy(one)) {
            Some(problem) => self.find(TrialWorld::Alone, target, problem, result),
            None if !self.is_reachable() => {}
            None if target.quiet_step < result.states.len() => {
                let state = result.states.swap_remove(target.quiet_step);
                self.alone.push(state);
            }
            None => return Some(PointOutcome::NotReached),
        }
        None
    }

    fn take_there_and_back(
        &mut self,
        target: &Target,
        problems: Vec<Problem>,
        result: WorldResult,
    ) -> Option<PointOutcome> {
        let changes = target.scenario.steps.len() + 1;
        // After a refusal the world ends, so its state says nothing.
        let is_refused = !result.refused.is_empty();
        let problem = problems
            .into_iter()
            .find(|one| !is_refused || ComparedState::of(one).is_none());
        if problem.is_none() && result.refused.contains(&changes) {
            return Some(PointOutcome::Refused);
        }
        let states = (target.quiet_step, target.quiet_step + 1);
        if self.is_reachable()
            && let (Some(before), Some(after)) =
                (result.states.get(states.0), result.states.get(states.1))
        {
            self.changed_state = Some(ChangedState {
                before: before.clone(),
                after: after.clone(),
            });
        }
        let Some(problem) = problem else {
            return Some(PointOutcome::Passed);
        };
        let is_known = self.alone.len() == MOST_RUNS || !self.is_reachable();
        if ComparedState::of(&problem) == Some(ComparedState::CreatedChanged) && !is_known {
            // One run does not show what differs from run to run.
            self.needed_alone = MOST_RUNS;
            self.reference = None;
            return None;
        }
        self.find(TrialWorld::ThereAndBack, target, problem, result);
        None
    }

    /// Returns what a world there and back must show.
    fn learned(
        &self,
        target: &Target,
        base: &[Arc<Expected>],
        (points, may_fail): (&ReferencePoints, bool),
    ) -> Reference {
        let before: Vec<Arc<Expected>> = base.iter().take(target.quiet_step + 1).cloned().collect();
        let changed = || Arc::new(Expected::learn(&self.alone, &target.scenario.rules));
        let changed = self.is_reachable().then(changed);
        let after = before.last().cloned();
        Reference {
            points: points.clone(),
            states: before.into_iter().chain(changed).chain(after).collect(),
            may_fail,
        }
    }

    fn find(&mut self, world: TrialWorld, target: &Target, problem: Problem, result: WorldResult) {
        let scenario = match world {
            TrialWorld::Alone => target.alone(&self.change),
            TrialWorld::ThereAndBack => target.there_and_back(&self.change, self.is_reachable()),
        };
        let finding = Finding {
            perturbations: Vec::new(),
            problem,
            change: Some(FieldChange {
                field: format!("{} {}", target.id.kind, self.change.path),
                text: self.change.text.clone(),
            }),
            steps: scenario.steps.to_vec(),
            tries: 0,
            repeated: 0,
            events: result.events,
            also: Vec::new(),
        };
        self.found = Some((finding, world));
    }
}

// ===== impl ChangedState =====

impl ChangedState {
    /// Returns whether anything outside of the desired state of the object itself has changed. True if the server stored no
    /// other desired state, because such a change says nothing.
    pub(super) fn has_effect(&self, target: &Target, base: &[Arc<Expected>]) -> bool {
        let mut after = self.after.clone();
        for (id, object) in &mut after {
            let before = self.before.get(id).filter(|_| target.is(id));
            if let Some(before) = before
                && !restore(object, before)
            {
                return true;
            }
        }
        let expected = base.get(target.quiet_step);
        expected.is_some_and(|expected| !expected.differences(&after).is_empty())
    }
}

/// Names the state with which a state was compared.
///
/// `changed` is the number of the quiet step with the changed state.
fn compared(problem: Problem, target: &Target, changed: Option<usize>) -> Problem {
    match problem {
        Problem::WrongState {
            quiet_step,
            differences,
            ..
        } => {
            let than = match quiet_step {
                Some(step) if step <= target.quiet_step => ComparedState::Undisturbed,
                Some(step) if Some(step) == changed => ComparedState::CreatedChanged,
                _ => ComparedState::BeforeChange,
            };
            Problem::WrongState {
                quiet_step,
                than,
                differences,
            }
        }
        other => other,
    }
}
