//! Machine: decides which worlds run, and collects what they find.
//!
//! EXPLORE-3: a finding says how many worlds tried it again, and how many of them showed it again.
//! EXPLORE-4: a world is compared with the reference of its own steps: a shorter scenario has references of its own.

mod shrinking;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use shrinking::{ShrinkStep, Shrinking};

use crate::finding::{Finding, Problem};
use crate::object_id::ObjectMap;
use crate::perturbation::{Perturbation, PerturbationKind, join};
use crate::points::{Point, ReferencePoints};
use crate::reference::Reference;
use crate::report::{ExploreReport, PointOutcome, PointReport};
use crate::scenario::Scenario;
use crate::world_event::WorldEvent;

/// The number of undisturbed worlds, which show what differs from run to run.
const REFERENCES: usize = 3;

/// The number of worlds that try a finding again.
const REPEATS: usize = 3;

/// The number of findings that are shrunk; later ones are only tried again.
const MOST_SHRUNK: usize = 8;

/// What an exploration tries.
#[derive(Debug, Clone, Default)]
pub struct CampaignOptions {
    /// The perturbations of the only world to try besides the reference; empty for the reference alone, `None` for all
    /// perturbations that fit.
    pub only: Option<Vec<Perturbation>>,
    /// The time after which no further point is tried; `None` for no limit. Repeats and shrinking of findings go on.
    pub budget: Option<Duration>,
    /// The number of pairs of perturbations that are tried after all single ones.
    pub pairs: usize,
    /// The seed that chooses the pairs.
    pub seed: u64,
}

/// A world to run.
#[derive(Debug, Clone)]
pub struct WorldOrder {
    /// The number of the world, which its result names.
    pub id: usize,
    /// The scenario, perhaps with fewer steps.
    pub scenario: Scenario,
    /// What is perturbed; empty for an undisturbed world.
    pub perturbations: Vec<Perturbation>,
    /// What undisturbed worlds did; `None` for the reference itself.
    pub reference: Option<Arc<Reference>>,
    /// The seed of the server's uids and generated names. The worlds of a reference have different seeds, which shows
    /// the fields that depend on the seed.
    pub seed: u64,
}

/// What a world did.
#[derive(Debug, Default)]
pub struct WorldResult {
    /// What is wrong.
    pub problems: Vec<Problem>,
    /// What happened.
    pub events: Vec<WorldEvent>,
    /// The points of the world.
    pub points: ReferencePoints,
    /// The objects at each step [`Quiet`](crate::Step::Quiet), and at the end. A world that went wrong may have fewer.
    pub states: Vec<ObjectMap>,
    /// Whether every perturbation happened.
    pub is_reached: bool,
    /// How long the world ran.
    pub time: Duration,
}

/// What a driver does next.
#[derive(Debug)]
pub enum NextWorld {
    /// Runs a world.
    Run(Box<WorldOrder>),
    /// Waits for the result of a running world.
    Wait,
    /// Ends: all results are in.
    Done,
}

/// How far an exploration is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CampaignProgress {
    /// The number of worlds that have ended, those of the reference, repeats and shrinking included.
    pub worlds: usize,
    /// The number of points that are planned so far, pairs included.
    pub planned: usize,
    /// The number of planned points that were tried.
    pub tried: usize,
    /// The number of findings so far.
    pub found: usize,
}

/// What an exploration has found.
#[derive(Debug)]
pub struct CampaignResult {
    /// The findings, in the order of their discovery.
    pub findings: Vec<Finding>,
    /// Each point that was tried.
    pub points: Vec<PointReport>,
    /// The points that were not tried because the budget ended.
    pub not_tried: Vec<String>,
    /// The parts of the state that differ from run to run, so that they are not compared.
    pub varying: Vec<String>,
    /// The writes of the reference, as the points number them.
    pub writes: Vec<String>,
    /// The progress at the end.
    pub progress: CampaignProgress,
}

/// An exploration: which worlds run next, and what they found.
#[derive(Debug)]
pub struct Campaign {
    scenario: Scenario,
    options: CampaignOptions,
    next_id: usize,
    running: BTreeMap<usize, (Purpose, WorldOrder)>,
    references: Vec<WorldResult>,
    missing_references: usize,
    /// What the references did, once all are in.
    reference: Option<Arc<Reference>>,
    queue: VecDeque<Vec<Perturbation>>,
    has_pairs: bool,
    shrinking: Vec<Shrinking>,
    result: CampaignResult,
}

/// Why a world runs.
#[derive(Debug, Clone)]
enum Purpose {
    Reference,
    Point,
    /// Tries the finding with this index again, or a shorter scenario for it.
    Shrink(usize, ShrinkStep),
}

/// A world that is to run.
#[derive(Debug)]
struct WorldPlan {
    scenario: Scenario,
    perturbations: Vec<Perturbation>,
    reference: Option<Arc<Reference>>,
    seed: u64,
}

impl WorldPlan {
    /// Plans an undisturbed world. `missing` is the number of undisturbed worlds that follow, and makes their seeds
    /// different.
    fn undisturbed(scenario: Scenario, missing: usize) -> Self {
        Self {
            scenario,
            perturbations: Vec::new(),
            reference: None,
            seed: missing as u64,
        }
    }
}

impl CampaignResult {
    /// Returns the result as a report. `scenario` and `operator` name what was explored, and `again` is the command that
    /// repeats a finding, with `{name}` in place of its name.
    #[must_use]
    pub fn into_report(
        self,
        scenario: String,
        operator: String,
        time: Duration,
        again: String,
    ) -> ExploreReport {
        ExploreReport {
            scenario,
            operator,
            worlds: self.progress.worlds,
            time,
            points: self.points,
            not_tried: self.not_tried,
            varying: self.varying,
            findings: self.findings,
            again,
        }
    }
}

impl Campaign {
    /// Begins an exploration.
    #[must_use]
    pub fn new(scenario: Scenario, options: CampaignOptions) -> Self {
        Self {
            scenario,
            options,
            next_id: 0,
            running: BTreeMap::new(),
            references: Vec::new(),
            missing_references: REFERENCES,
            reference: None,
            queue: VecDeque::new(),
            has_pairs: false,
            shrinking: Vec::new(),
            result: CampaignResult {
                findings: Vec::new(),
                points: Vec::new(),
                not_tried: Vec::new(),
                varying: Vec::new(),
                writes: Vec::new(),
                progress: CampaignProgress::default(),
            },
        }
    }

    /// Returns what to do next. `elapsed` is the time since the exploration began.
    pub fn next_world(&mut self, elapsed: Duration) -> NextWorld {
        if self.missing_references > 0 {
            self.missing_references -= 1;
            let world = WorldPlan::undisturbed(self.scenario.clone(), self.missing_references);
            return self.run(Purpose::Reference, world);
        }
        let Some(reference) = self.reference.clone() else {
            return self.wait_or_end();
        };
        // Findings come first, so that an exploration that is interrupted can tell them.
        for finding in 0..self.shrinking.len() {
            let Some(shrinking) = self.shrinking.get_mut(finding) else {
                continue;
            };
            if let Some((step, world)) = shrinking.next_world(&reference) {
                return self.run(Purpose::Shrink(finding, step), world);
            }
        }
        let is_over = self.options.budget.is_some_and(|budget| elapsed >= budget);
        if is_over {
            let left = std::mem::take(&mut self.queue);
            let names = left.iter().map(|one| join(one));
            self.result.not_tried.extend(names);
            return self.wait_or_end();
        }
        if self.queue.is_empty() && !self.has_pairs {
            self.has_pairs = true;
            self.plan_pairs();
        }
        match self.queue.pop_front() {
            Some(perturbations) => {
                let world = WorldPlan {
                    scenario: self.scenario.clone(),
                    perturbations,
                    reference: Some(reference),
                    seed: 0,
                };
                self.run(Purpose::Point, world)
            }
            None => self.wait_or_end(),
        }
    }

    /// Takes the result of a world.
    pub fn finish_world(&mut self, id: usize, result: WorldResult) {
        let Some((purpose, order)) = self.running.remove(&id) else {
            return;
        };
        self.result.progress.worlds += 1;
        match purpose {
            Purpose::Reference => self.take_reference(result),
            Purpose::Point => self.take_point(&order, result),
            Purpose::Shrink(finding, step) => {
                let shrinking = self.shrinking.get_mut(finding);
                let found = self.result.findings.get_mut(finding);
                if let (Some(shrinking), Some(found)) = (shrinking, found) {
                    shrinking.take(step, &order, result, found);
                }
            }
        }
    }

    /// Takes a world that could not run. Returns whether the exploration can go on: a shorter scenario may be one that no
    /// server accepts, such as a patch of an object that is no longer created.
    #[must_use]
    pub fn fail_world(&mut self, id: usize) -> bool {
        match self.running.remove(&id) {
            Some((Purpose::Shrink(finding, ShrinkStep::Reference(trial)), _)) => {
                if let Some(shrinking) = self.shrinking.get_mut(finding) {
                    shrinking.give_up_trial(trial);
                }
                true
            }
            _ => false,
        }
    }

    /// Returns how far the exploration is.
    #[must_use]
    pub fn progress(&self) -> CampaignProgress {
        CampaignProgress {
            found: self.result.findings.len(),
            ..self.result.progress
        }
    }

    /// Returns the findings so far.
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        &self.result.findings
    }

    /// Ends the exploration. Points that were not tried yet are named as such.
    #[must_use]
    pub fn finish(mut self) -> CampaignResult {
        let left = self.queue.iter().map(|one| join(one));
        self.result.not_tried.extend(left);
        self.result.progress.found = self.result.findings.len();
        self.result
    }

    fn run(&mut self, purpose: Purpose, world: WorldPlan) -> NextWorld {
        let order = WorldOrder {
            id: self.next_id,
            scenario: world.scenario,
            perturbations: world.perturbations,
            reference: world.reference,
            seed: world.seed,
        };
        self.next_id += 1;
        self.running.insert(order.id, (purpose, order.clone()));
        NextWorld::Run(Box::new(order))
    }

    fn wait_or_end(&self) -> NextWorld {
        if self.running.is_empty() {
            NextWorld::Done
        } else {
            NextWorld::Wait
        }
    }

    fn take_reference(&mut self, result: WorldResult) {
        self.references.push(result);
        if self.references.len() < REFERENCES {
            return;
        }
        let worlds: Vec<&[ObjectMap]> = self
            .references
            .iter()
            .map(|one| one.states.as_slice())
            .collect();
        let mut reference = Reference::learn(&self.scenario, ReferencePoints::default(), &worlds);
        self.result.varying = reference.varying();
        let broken = self
            .references
            .iter()
            .position(|one| !one.problems.is_empty());
        let first = self.references.swap_remove(broken.unwrap_or(0));
        let repeated = self
            .references
            .iter()
            .filter(|one| !one.problems.is_empty())
            .count();
        let writes = first
            .points
            .writes
            .iter()
            .map(|write| write.point.to_string());
        self.result.writes = writes.collect();
        if let Some(problem) = first.problems.into_iter().next() {
            // An operator that fails undisturbed has no reference, so nothing else can be tried.
            self.result.findings.push(Finding {
                perturbations: Vec::new(),
                problem,
                steps: self.scenario.steps.to_vec(),
                tries: REFERENCES - 1,
                repeated,
                events: first.events,
                also: Vec::new(),
            });
            return;
        }
        reference.points = first.points;
        let singles = match &self.options.only {
            Some(only) if only.is_empty() => Vec::new(),
            Some(only) => vec![only.clone()],
            None => reference
                .points
                .perturbations(&self.scenario)
                .into_iter()
                .map(|one| vec![one])
                .collect(),
        };
        self.result.progress.planned += singles.len();
        self.queue = singles.into();
        self.has_pairs = self.options.only.is_some();
        self.reference = Some(Arc::new(reference));
    }

    fn take_point(&mut self, order: &WorldOrder, result: WorldResult) {
        self.result.progress.tried += 1;
        let outcome = match (result.problems.is_empty(), result.is_reached) {
            (false, _) => PointOutcome::Found,
            (true, true) => PointOutcome::Passed,
            (true, false) => PointOutcome::NotReached,
        };
        self.result.points.push(PointReport {
            perturbations: order.perturbations.clone(),
            outcome,
            time: result.time,
        });
        let Some(problem) = result.problems.into_iter().next() else {
            return;
        };
        let key = (kinds_of(&order.perturbations), problem.signature());
        let known = self
            .result
            .findings
            .iter_mut()
            .find(|known| (kinds_of(&known.perturbations), known.problem.signature()) == key);
        if let Some(known) = known {
            known.also.push(join(&order.perturbations));
            return;
        }
        let shrinks = self.shrinking.len() < MOST_SHRUNK && self.options.only.is_none();
        self.shrinking.push(Shrinking::new(
            &self.scenario, order, &result.events, shrinks, REPEATS,
        ));
        self.result.findings.push(Finding {
            perturbations: order.perturbations.clone(),
            problem,
            steps: self.scenario.steps.to_vec(),
            tries: 0,
            repeated: 0,
            events: result.events,
            also: Vec::new(),
        });
    }

    /// Plans pairs of perturbations of different points, by the seed, without those that found a problem alone.
    fn plan_pairs(&mut self) {
        let Some(reference) = &self.reference else {
            return;
        };
        let found = |one: &Perturbation| {
            let mut points = self.result.points.iter();
            points
                .any(|point| point.outcome == PointOutcome::Found && point.perturbations == [*one])
        };
        let singles = reference.points.perturbations(&self.scenario).into_iter();
        let singles: Vec<Perturbation> = singles
            .filter(|one| one.kind != PerturbationKind::SettledRestart && !found(one))
            .collect();
        let mut rng = fastrand::Rng::with_seed(self.options.seed);
        for _ in 0..self.options.pairs {
            let (Some(first), Some(second)) = (rng.choice(&singles), rng.choice(&singles)) else {
                return;
            };
            if (first.at, first.kind.is_at_read()) == (second.at, second.kind.is_at_read()) {
                continue;
            }
            let mut pair = vec![*first, *second];
            pair.sort_by_key(|one| one.at);
            if !self.queue.contains(&pair) {
                self.queue.push_back(pair);
            }
        }
        self.result.progress.planned += self.queue.len();
    }
}

fn kinds_of(perturbations: &[Perturbation]) -> Vec<PerturbationKind> {
    perturbations.iter().map(|one| one.kind).collect()
}

/// Returns the numbers of the writes, or of the reads, that are [like](Point::is_like) a point, the last one first.
fn like(points: &ReferencePoints, perturbation: &Perturbation, point: &Point) -> Vec<usize> {
    let all: Vec<&Point> = if perturbation.kind.is_at_read() {
        points.reads.iter().collect()
    } else {
        points.writes.iter().map(|write| &write.point).collect()
    };
    let numbered = all.into_iter().enumerate().rev();
    numbered
        .filter(|(_, other)| point.is_like(other))
        .map(|(at, _)| at + 1)
        .collect()
}

#[cfg(test)]
mod tests;
