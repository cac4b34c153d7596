//! Machine: tries a finding again, and looks for fewer steps that still show it.

use std::collections::VecDeque;
use std::sync::Arc;

use super::like;
use crate::finding::Finding;
use crate::object_id::ObjectMap;
use crate::perturbation::Perturbation;
use crate::points::{Point, ReferencePoints};
use crate::reference::Reference;
use crate::scenario::{Scenario, Step};
use crate::world_event::{WorldEvent, WorldEventKind};
use crate::world_order::{WorldOrder, WorldPlan, WorldResult};

/// The number of undisturbed worlds of a shorter scenario.
const REFERENCES: usize = 2;

/// The number of points of a shorter scenario at which a perturbation is tried.
const MOST_POINTS: usize = 2;

/// The repeats and the shrinking of one finding.
#[derive(Debug)]
pub(super) struct Shrinking {
    /// The scenario with the fewest steps so far.
    scenario: Scenario,
    perturbations: Vec<Perturbation>,
    /// The points of the perturbations in the whole scenario; `None` for those of the whole world.
    points: Vec<Option<Point>>,
    repeats: usize,
    /// Shorter scenarios that are to be tried.
    shorter: VecDeque<Scenario>,
    trial: Option<Trial>,
    /// The number of trials so far.
    trials: usize,
}

/// A shorter scenario that is being tried.
#[derive(Debug)]
struct Trial {
    number: usize,
    scenario: Scenario,
    missing_references: usize,
    references: Vec<WorldResult>,
    reference: Option<Arc<Reference>>,
    /// What is to be tried on the shorter scenario.
    candidates: VecDeque<Vec<Perturbation>>,
    is_running: bool,
}

/// Why a world runs for a finding.
#[derive(Debug, Clone, Copy)]
pub(super) enum ShrinkStep {
    /// The finding is tried again.
    Repeat,
    /// An undisturbed run of a shorter scenario, in the trial with this number.
    Reference(usize),
    /// A shorter scenario is tried, in the trial with this number.
    Candidate(usize),
}

impl Shrinking {
    pub(super) fn new(
        scenario: &Scenario,
        order: &WorldOrder,
        events: &[WorldEvent],
        shrinks: bool,
        repeats: usize,
    ) -> Self {
        let reference = order.reference.as_ref();
        let point = |one: &Perturbation| {
            reference
                .and_then(|reference| reference.points.point(one))
                .cloned()
        };
        let points = order.perturbations.iter().map(point);
        let mut shorter = VecDeque::new();
        if shrinks {
            shorter.extend(truncated(scenario, events));
            shorter.extend(without_one(scenario));
        }
        Self {
            scenario: scenario.clone(),
            perturbations: order.perturbations.clone(),
            points: points.collect(),
            repeats,
            shorter,
            trial: None,
            trials: 0,
        }
    }

    /// Creates a placeholder for a finding that is neither repeated nor shrunk.
    pub(super) fn none(scenario: &Scenario) -> Self {
        Self {
            scenario: scenario.clone(),
            perturbations: Vec::new(),
            points: Vec::new(),
            repeats: 0,
            shorter: VecDeque::new(),
            trial: None,
            trials: 0,
        }
    }

    /// Returns whether shorter scenarios are or were tried.
    pub(super) fn is_shrunk(&self) -> bool {
        self.trials > 0 || !self.shorter.is_empty()
    }

    /// Returns the next world of this finding; `None` if there is none now.
    pub(super) fn next_world(
        &mut self,
        reference: &Arc<Reference>,
    ) -> Option<(ShrinkStep, WorldPlan)> {
        if self.repeats > 0 {
            self.repeats -= 1;
            let (scenario, perturbations) = (self.scenario.clone(), self.perturbations.clone());
            let world = WorldPlan::perturbed(scenario, perturbations, Arc::clone(reference));
            return Some((ShrinkStep::Repeat, world));
        }
        if self.trial.is_none()
            && let Some(scenario) = self.shorter.pop_front()
        {
            self.trials += 1;
            self.trial = Some(Trial::new(self.trials, scenario));
        }
        let trial = self.trial.as_mut()?;
        if trial.missing_references > 0 {
            trial.missing_references -= 1;
            let world = WorldPlan::undisturbed(trial.scenario.clone(), trial.missing_references);
            return Some((ShrinkStep::Reference(trial.number), world));
        }
        if trial.is_running {
            return None;
        }
        let reference = trial.reference.clone()?;
        let perturbations = trial.candidates.pop_front()?;
        trial.is_running = true;
        let world = WorldPlan::perturbed(trial.scenario.clone(), perturbations, reference);
        Some((ShrinkStep::Candidate(trial.number), world))
    }

    /// Takes the result of a world of this finding, and updates the finding.
    pub(super) fn take(
        &mut self,
        step: ShrinkStep,
        order: &WorldOrder,
        result: WorldResult,
        found: &mut Finding,
    ) {
        let same = result
            .problems
            .iter()
            .position(|problem| problem.is_like(&found.problem));
        match step {
            ShrinkStep::Repeat => {
                found.tries += 1;
                found.repeated += usize::from(same.is_some());
                if found.repeated == 0 && self.repeats == 0 {
                    // What does not repeat cannot be shrunk.
                    self.shorter.clear();
                }
            }
            // A world of a trial that was given up says nothing.
            ShrinkStep::Reference(trial) | ShrinkStep::Candidate(trial)
                if !self.is_trial(trial) => {}
            ShrinkStep::Reference(_) => self.take_reference(result),
            ShrinkStep::Candidate(_) => match same {
                Some(at) => {
                    self.scenario = order.scenario.clone();
                    self.shorter = without_one(&self.scenario).collect();
                    self.trial = None;
                    found.steps = order.scenario.steps.to_vec();
                    found.problem = result
                        .problems
                        .into_iter()
                        .nth(at)
                        .unwrap_or_else(|| found.problem.clone());
                    found.events = result.events;
                }
                None => {
                    let is_last = self
                        .trial
                        .as_ref()
                        .is_none_or(|trial| trial.candidates.is_empty());
                    match &mut self.trial {
                        Some(trial) if !is_last => trial.is_running = false,
                        _ => self.trial = None,
                    }
                }
            },
        }
    }

    /// Gives up the trial with this number. Results of its worlds that are still running are ignored.
    pub(super) fn give_up_trial(&mut self, number: usize) {
        if self.is_trial(number) {
            self.trial = None;
        }
    }

    fn is_trial(&self, number: usize) -> bool {
        self.trial
            .as_ref()
            .is_some_and(|trial| trial.number == number)
    }

    fn take_reference(&mut self, result: WorldResult) {
        let Some(trial) = &mut self.trial else {
            return;
        };
        trial.references.push(result);
        if trial.references.len() < REFERENCES {
            return;
        }
        let is_sound = trial.references.iter().all(|one| one.problems.is_empty());
        let points = trial
            .references
            .first_mut()
            .map(|one| std::mem::take(&mut one.points))
            .unwrap_or_default();
        trial.candidates = candidates(&self.perturbations, &self.points, &points);
        let worlds: Vec<&[ObjectMap]> = trial
            .references
            .iter()
            .map(|one| one.states.as_slice())
            .collect();
        let mut reference = Reference::learn(&trial.scenario, points, &worlds);
        reference.may_fail = trial.references.iter().any(|one| !one.failing.is_empty());
        trial.reference = Some(Arc::new(reference));
        if !is_sound || trial.candidates.is_empty() {
            self.trial = None;
        }
    }
}

impl Trial {
    fn new(number: usize, scenario: Scenario) -> Self {
        Self {
            number,
            scenario,
            missing_references: REFERENCES,
            references: Vec::new(),
            reference: None,
            candidates: VecDeque::new(),
            is_running: false,
        }
    }
}

/// Returns the perturbations to try on a shorter scenario, at points like those of the whole scenario; empty if a point
/// has no counterpart.
fn candidates(
    perturbations: &[Perturbation],
    points: &[Option<Point>],
    shorter: &ReferencePoints,
) -> VecDeque<Vec<Perturbation>> {
    let mut all = vec![Vec::new()];
    for (perturbation, point) in perturbations.iter().zip(points) {
        let places = match point {
            None => vec![0],
            Some(point) => like(shorter, perturbation, point),
        };
        let places = places.into_iter().take(MOST_POINTS);
        let places: Vec<usize> = places.collect();
        all = all
            .into_iter()
            .flat_map(|before: Vec<Perturbation>| {
                let extended = places.iter().map(move |at| {
                    let mut one = *perturbation;
                    one.at = *at;
                    let mut extended = before.clone();
                    extended.push(one);
                    extended
                });
                extended.collect::<Vec<_>>()
            })
            .collect();
    }
    all.into()
}

/// Returns the scenario without the steps that came after the first perturbation; `None` if there are none.
fn truncated(scenario: &Scenario, events: &[WorldEvent]) -> Option<Scenario> {
    let perturbed = events
        .iter()
        .position(|event| matches!(event.what, WorldEventKind::Perturbed(_)))?;
    let before = events.iter().take(perturbed);
    let acts = before
        .filter(|event| matches!(event.what, WorldEventKind::User(_)))
        .count();
    let mut seen = 0;
    let kept = scenario.steps.iter().take_while(|step| {
        seen += usize::from(step.acts());
        seen <= acts
    });
    let kept: Vec<Step> = kept.cloned().collect();
    let is_shorter = kept.iter().filter(|step| step.acts()).count()
        < scenario.steps.iter().filter(|step| step.acts()).count();
    is_shorter.then(|| scenario.with_steps(kept))
}

/// Returns a scenario for each acting step, without that step and the waiting steps behind it. A single acting step
/// stays.
fn without_one(scenario: &Scenario) -> impl Iterator<Item = Scenario> {
    let steps = &scenario.steps;
    let acting: Vec<usize> = (0..steps.len()).filter(|at| steps[*at].acts()).collect();
    let candidates = if acting.len() > 1 { acting } else { Vec::new() };
    candidates.into_iter().map(|at| {
        let end = (at + 1..steps.len())
            .find(|next| steps[*next].acts())
            .unwrap_or(steps.len());
        let kept = steps
            .iter()
            .enumerate()
            .filter(|(place, _)| *place < at || *place >= end);
        scenario.with_steps(kept.map(|(_, step)| step.clone()).collect::<Vec<_>>())
    })
}
