//! Machine: decides which worlds run, and collects what they find.
//!
//! EXPLORE-3: a finding says how many worlds tried it again, and how many of them showed it again.
//! EXPLORE-4: a world is compared with the reference of its own steps: a shorter scenario has references of its own.

mod desired_trials;
mod shrinking;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use desired_trials::{DesiredEnd, DesiredStep, DesiredTrials};
use shrinking::{ShrinkStep, Shrinking};

use crate::campaign_result::{CampaignProgress, CampaignResult};
use crate::finding::Finding;
use crate::object_id::ObjectMap;
use crate::perturbation::{Perturbation, PerturbationKind, join};
use crate::points::{Point, ReferencePoints};
use crate::reference::Reference;
use crate::report::{DesiredReport, PointOutcome, PointReport};
use crate::request_log::{LogLine, differing, digest, request_log};
use crate::scenario::Scenario;
use crate::world_order::{WorldOrder, WorldPlan, WorldResult};

/// The number of undisturbed worlds, which show what differs from run to run.
const REFERENCES: usize = 3;

/// The seed of the reference that is repeated.
const REPEATED_SEED: usize = 0;

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
    /// Whether worlds with the same seed should send the same requests, as on a paused clock. Then one more undisturbed world
    /// runs, and the result names the requests that differ.
    pub is_repeatable: bool,
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

/// An exploration: which worlds run next, and what they found.
#[derive(Debug)]
pub struct Campaign {
    scenario: Scenario,
    options: CampaignOptions,
    next_id: usize,
    running: BTreeMap<usize, (Purpose, WorldOrder)>,
    references: Vec<WorldResult>,
    missing_references: usize,
    repetition: Repetition,
    /// What the references did, once all are in.
    reference: Option<Arc<Reference>>,
    queue: VecDeque<Vec<Perturbation>>,
    desired: DesiredTrials,
    has_pairs: bool,
    shrinking: Vec<Shrinking>,
    result: CampaignResult,
}

/// Two undisturbed worlds with the same seed, [`REPEATED_SEED`].
#[derive(Debug, Default)]
struct Repetition {
    is_ordered: bool,
    logs: Vec<Vec<LogLine>>,
}

/// Why a world runs.
#[derive(Debug, Clone)]
enum Purpose {
    Reference,
    /// Repeats a reference with the same seed.
    Repetition,
    Point,
    /// Tries the finding with this index again, or a shorter scenario for it.
    Shrink(usize, ShrinkStep),
    /// Tries another desired state.
    Desired(DesiredStep),
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
            repetition: Repetition::default(),
            reference: None,
            queue: VecDeque::new(),
            desired: DesiredTrials::default(),
            has_pairs: false,
            shrinking: Vec::new(),
            result: CampaignResult {
                findings: Vec::new(),
                points: Vec::new(),
                not_tried: Vec::new(),
                varying: Vec::new(),
                writes: Vec::new(),
                desired_states: DesiredReport::default(),
                unrepeatable: Vec::new(),
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
        if self.options.is_repeatable && !self.repetition.is_ordered {
            self.repetition.is_ordered = true;
            let world = WorldPlan::undisturbed(self.scenario.clone(), REPEATED_SEED);
            return self.run(Purpose::Repetition, world);
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
        if let Some((step, world)) = self.desired.next_world() {
            return self.run(Purpose::Desired(step), world);
        }
        if self.desired.must_wait() {
            return self.wait_or_end();
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
        self.next_point(&reference)
    }

    /// Takes the result of a world.
    pub fn finish_world(&mut self, id: usize, result: WorldResult) {
        let Some((purpose, order)) = self.running.remove(&id) else {
            return;
        };
        self.result.progress.worlds += 1;
        match purpose {
            Purpose::Reference => {
                if order.seed == REPEATED_SEED as u64 {
                    self.take_log(&result);
                }
                self.take_reference(result);
            }
            Purpose::Repetition => self.take_log(&result),
            Purpose::Point => self.take_point(&order, result),
            Purpose::Shrink(finding, step) => {
                let shrinking = self.shrinking.get_mut(finding);
                let found = self.result.findings.get_mut(finding);
                if let (Some(shrinking), Some(found)) = (shrinking, found) {
                    shrinking.take(step, &order, result, found);
                }
            }
            Purpose::Desired(step) => {
                let end = self.desired.take(step, result);
                self.take_desired(end);
            }
        }
    }

    /// Takes a world that could not run. Returns whether the exploration can go on: a shorter scenario may be one that no
    /// server accepts, such as a patch of an object that is no longer created, and a server may refuse another desired state.
    /// `is_refused` says whether the server refused an object or a step of the user.
    #[must_use]
    pub fn fail_world(&mut self, id: usize, is_refused: bool) -> bool {
        match self.running.remove(&id) {
            Some((Purpose::Shrink(finding, ShrinkStep::Reference(trial)), _)) => {
                if let Some(shrinking) = self.shrinking.get_mut(finding) {
                    shrinking.give_up_trial(trial);
                }
                true
            }
            Some((Purpose::Desired(step), _)) if is_refused => {
                let end = self.desired.fail(step);
                self.take_desired(end);
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
        let (desired_states, unfinished) = self.desired.finish();
        self.result.desired_states = desired_states;
        self.result.findings.extend(unfinished);
        self.result.progress.found = self.result.findings.len();
        self.result
    }

    fn run(&mut self, purpose: Purpose, world: WorldPlan) -> NextWorld {
        let order = world.order(self.next_id);
        self.next_id += 1;
        self.running.insert(order.id, (purpose, order.clone()));
        NextWorld::Run(Box::new(order))
    }

    /// Begins to try the next point. A desired state takes several worlds.
    fn next_point(&mut self, reference: &Arc<Reference>) -> NextWorld {
        while let Some(point) = self.queue.pop_front() {
            let change = point
                .iter()
                .find(|one| one.kind == PerturbationKind::DesiredState);
            let Some(change) = change else {
                let (scenario, reference) = (self.scenario.clone(), Arc::clone(reference));
                return self.run(
                    Purpose::Point,
                    WorldPlan::perturbed(scenario, point, reference),
                );
            };
            let end = self.desired.begin(change.at);
            self.take_desired(end);
            if let Some((step, world)) = self.desired.next_world() {
                return self.run(Purpose::Desired(step), world);
            }
        }
        self.wait_or_end()
    }

    fn wait_or_end(&self) -> NextWorld {
        if self.running.is_empty() {
            NextWorld::Done
        } else {
            NextWorld::Wait
        }
    }

    fn take_log(&mut self, result: &WorldResult) {
        self.repetition.logs.push(request_log(&result.events));
        if let [one, other] = self.repetition.logs.as_slice() {
            self.result.unrepeatable = differing(one, other);
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
        reference.may_fail = self.references.iter().any(|one| !one.failing.is_empty());
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
                change: None,
                steps: self.scenario.steps.to_vec(),
                tries: REFERENCES - 1,
                repeated,
                events: first.events,
                also: Vec::new(),
            });
            return;
        }
        reference.points = first.points;
        let kind = PerturbationKind::DesiredState;
        let only = self.options.only.as_ref();
        let is_wanted = match only {
            Some(only) => only.iter().any(|one| one.kind == kind),
            None => self.scenario.rules.tries(kind),
        };
        if is_wanted {
            self.desired = DesiredTrials::new(&self.scenario, &reference.points);
        }
        let singles = match only {
            Some(only) if only.is_empty() => Vec::new(),
            Some(only) => vec![only.clone()],
            None => {
                let of_requests = reference.points.perturbations(&self.scenario).into_iter();
                let all = of_requests.chain(self.desired.points());
                all.map(|one| vec![one]).collect()
            }
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
            change: String::new(),
            outcome,
            time: result.time,
            log: digest(&request_log(&result.events)),
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
        let shrunk = self.shrinking.iter().filter(|one| one.is_shrunk());
        let shrinks = shrunk.count() < MOST_SHRUNK && self.options.only.is_none();
        self.shrinking.push(Shrinking::new(
            &self.scenario, order, &result.events, shrinks, REPEATS,
        ));
        self.result.findings.push(Finding {
            perturbations: order.perturbations.clone(),
            problem,
            change: None,
            steps: self.scenario.steps.to_vec(),
            tries: 0,
            repeated: 0,
            events: result.events,
            also: Vec::new(),
        });
    }

    /// Takes the end of the trial of a desired state.
    fn take_desired(&mut self, end: Option<DesiredEnd>) {
        let Some(DesiredEnd { point, finding }) = end else {
            return;
        };
        self.result.progress.tried += 1;
        let name = point.name();
        self.result.points.push(point);
        let Some(finding) = finding else {
            return;
        };
        let signature = finding.problem.signature();
        let mut findings = self.result.findings.iter_mut();
        let field = |finding: &Finding| finding.change.as_ref().map(|one| one.field.clone());
        let of_field = field(&finding);
        let known = findings
            .find(|known| field(known) == of_field && known.problem.signature() == signature);
        match known {
            Some(known) => known.also.push(name),
            None => {
                // Its trial has tried it again, and its steps are as few as they can be.
                self.shrinking.push(Shrinking::none(&self.scenario));
                self.result.findings.push(finding);
            }
        }
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
