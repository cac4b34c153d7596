//! Machine: tries a finding again, and looks for fewer steps that still show it.

use std::collections::VecDeque;
use std::sync::Arc;

use super::{WorldOrder, WorldResult, like};
use crate::finding::Finding;
use crate::object_id::ObjectMap;
use crate::perturbation::Perturbation;
use crate::points::{Point, ReferencePoints};
use crate::scenario::{Scenario, Step};
use crate::state::Expected;
use crate::world_event::{WorldEvent, WorldEventKind};

/// The number of undisturbed worlds of a shorter scenario.
const REFERENCES: usize = 2;

/// The number of points of a shorter scenario at which a perturbation is tried.
const MOST_POINTS: usize = 2;

type Reference = (Arc<ReferencePoints>, Arc<Expected>);

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
}

/// A shorter scenario that is being tried.
#[derive(Debug)]
struct Trial {
    scenario: Scenario,
    missing_references: usize,
    references: Vec<WorldResult>,
    reference: Option<Reference>,
    /// What is to be tried on the shorter scenario.
    candidates: VecDeque<Vec<Perturbation>>,
    is_running: bool,
}

/// The part of a world in the work on a finding.
#[derive(Debug, Clone, Copy)]
pub(super) enum ShrinkStep {
    /// The finding is tried again.
    Repeat,
    /// An undisturbed run of a shorter scenario.
    Reference,
    /// A shorter scenario is tried.
    Candidate,
}

impl Shrinking {
    pub(super) fn new(
        scenario: &Scenario,
        order: &WorldOrder,
        events: &[WorldEvent],
        shrinks: bool,
        repeats: usize,
    ) -> Self {
        let points = order.perturbations.iter().map(|one| order.reference.point(one).cloned());
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
        }
    }

    /// Returns the next world of this finding; `None` if there is none now.
    pub(super) fn next_world(
        &mut self,
        reference: &Reference,
    ) -> Option<(ShrinkStep, Scenario, Vec<Perturbation>, Option<Reference>)> {
        if self.repeats > 0 {
            self.repeats -= 1;
            let whole = self.scenario.clone();
            return Some((ShrinkStep::Repeat, whole, self.perturbations.clone(), Some(reference.clone())));
        }
        if self.trial.is_none() {
            self.trial = self.shorter.pop_front().map(|scenario| Trial {
                scenario,
                missing_references: REFERENCES,
                references: Vec::new(),
                reference: None,
                candidates: VecDeque::new(),
                is_running: false,
            });
        }
        let trial = self.trial.as_mut()?;
        if trial.missing_references > 0 {
            trial.missing_references -= 1;
            return Some((ShrinkStep::Reference, trial.scenario.clone(), Vec::new(), None));
        }
        if trial.is_running {
            return None;
        }
        let reference = trial.reference.clone()?;
        let perturbations = trial.candidates.pop_front()?;
        trial.is_running = true;
        Some((ShrinkStep::Candidate, trial.scenario.clone(), perturbations, Some(reference)))
    }

    /// Takes the result of a world of this finding, and updates the finding.
    pub(super) fn take(
        &mut self,
        step: ShrinkStep,
        order: &WorldOrder,
        result: WorldResult,
        found: &mut Finding,
    ) {
        let same = result.problems.iter().position(|problem| problem.kind() == found.problem.kind());
        match step {
            ShrinkStep::Repeat => {
                found.tries += 1;
                found.repeated += usize::from(same.is_some());
                if found.repeated == 0 && self.repeats == 0 {
                    // What does not repeat cannot be shrunk.
                    self.shorter.clear();
                }
            }
            ShrinkStep::Reference => self.take_reference(result),
            ShrinkStep::Candidate => match same {
                Some(at) => {
                    self.scenario = order.scenario.clone();
                    self.shorter = without_one(&self.scenario).collect();
                    self.trial = None;
                    found.steps = order.scenario.steps.to_vec();
                    found.problem = result.problems.into_iter().nth(at).unwrap_or_else(|| found.problem.clone());
                    found.events = result.events;
                }
                None => {
                    let is_last = self.trial.as_ref().is_none_or(|trial| trial.candidates.is_empty());
                    match &mut self.trial {
                        Some(trial) if !is_last => trial.is_running = false,
                        _ => self.trial = None,
                    }
                }
            },
        }
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
        let states: Vec<ObjectMap> = trial.references.iter().map(|one| one.objects.clone()).collect();
        let expected = Expected::learn(&states, &trial.scenario.rules);
        let points = trial.references.swap_remove(0).points;
        trial.candidates = candidates(&self.perturbations, &self.points, &points);
        trial.reference = Some((Arc::new(points), Arc::new(expected)));
        if !is_sound || trial.candidates.is_empty() {
            self.trial = None;
        }
    }
}

/// Returns the perturbations of a shorter scenario that have the form of those of the whole one; empty if it lacks one.
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
    let perturbed = events.iter().position(|event| matches!(event.what, WorldEventKind::Perturbed(_)))?;
    let before = events.iter().take(perturbed);
    let acts = before.filter(|event| matches!(event.what, WorldEventKind::User(_))).count();
    let mut seen = 0;
    let kept = scenario.steps.iter().take_while(|step| {
        seen += usize::from(step.acts());
        seen <= acts
    });
    let kept: Vec<Step> = kept.cloned().collect();
    let is_shorter = kept.iter().filter(|step| step.acts()).count() < scenario.steps.iter().filter(|step| step.acts()).count();
    is_shorter.then(|| scenario.with_steps(kept))
}

/// Returns the scenarios without one of the acting steps each, and without the waiting steps behind that step.
fn without_one(scenario: &Scenario) -> impl Iterator<Item = Scenario> {
    let steps = &scenario.steps;
    let acting: Vec<usize> = (0..steps.len()).filter(|at| steps[*at].acts()).collect();
    let candidates = if acting.len() > 1 { acting } else { Vec::new() };
    candidates.into_iter().map(|at| {
        let end = (at + 1..steps.len()).find(|next| steps[*next].acts()).unwrap_or(steps.len());
        let kept = steps.iter().enumerate().filter(|(place, _)| *place < at || *place >= end);
        scenario.with_steps(kept.map(|(_, step)| step.clone()).collect::<Vec<_>>())
    })
}
