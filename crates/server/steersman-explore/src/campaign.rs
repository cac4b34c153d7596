//! Machine: decides which worlds run, and collects what they find.
//!
//! EXPLORE-3: a finding is told only with the worlds that tried it again, and says how many of them showed it.
//! EXPLORE-4: a world is compared with the reference of its own steps: a shrunk scenario has references of its own.

mod shrinking;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use shrinking::{Shrinking, ShrinkStep};

use crate::finding::{Finding, Problem};
use crate::object_id::ObjectMap;
use crate::perturbation::{Perturbation, PerturbationKind};
use crate::points::{Point, ReferencePoints};
use crate::scenario::Scenario;
use crate::state::Expected;
use crate::world_event::WorldEvent;

/// The number of undisturbed worlds, which show what differs from run to run.
const REFERENCES: usize = 3;

/// How often a finding is tried again.
const REPEATS: usize = 3;

/// The number of findings that are shrunk; later ones are only tried again.
const MOST_SHRUNK: usize = 8;

/// What an exploration tries.
#[derive(Debug, Clone, Default)]
pub struct CampaignOptions {
    /// The only world to try, besides the reference; `None` for all.
    pub only: Option<Vec<Perturbation>>,
    /// After how long no further point is tried; `None` for no limit.
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
    /// The points of the reference.
    pub reference: Arc<ReferencePoints>,
    /// The final state of the reference; `None` for the reference itself.
    pub expected: Option<Arc<Expected>>,
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
    /// The objects at the end.
    pub objects: ObjectMap,
    /// Whether every perturbation happened.
    pub is_reached: bool,
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
    /// The number of worlds whose results are in, of any purpose.
    pub worlds: usize,
    /// The number of points that are planned so far, pairs included.
    pub planned: usize,
    /// The number of planned points whose worlds have ended.
    pub tried: usize,
    /// The number of findings so far.
    pub found: usize,
}

/// The counts of one kind of perturbation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KindCounts {
    /// The number of worlds that had the perturbation.
    pub tried: usize,
    /// The number of those worlds that never came to the point.
    pub not_reached: usize,
    /// The names of the perturbations that show a problem.
    pub found: Vec<String>,
}

/// What an exploration has found.
#[derive(Debug)]
pub struct CampaignResult {
    /// The findings, in the order of their discovery.
    pub findings: Vec<Finding>,
    /// Counts by kind of perturbation; pairs count as `pair`.
    pub kinds: BTreeMap<String, KindCounts>,
    /// Each point that was tried, with the number of its finding, if it showed one.
    pub points: Vec<(String, Option<usize>)>,
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
    /// The points and the final state, once all references are in.
    reference: Option<(Arc<ReferencePoints>, Arc<Expected>)>,
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
    /// For the finding with this number.
    Shrink(usize, ShrinkStep),
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
                kinds: BTreeMap::new(),
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
            let scenario = self.scenario.clone();
            return self.run(Purpose::Reference, scenario, Vec::new(), None);
        }
        let Some(reference) = self.reference.clone() else {
            return self.wait_or_end();
        };
        // Findings come first, so that an exploration that is interrupted can tell them.
        for finding in 0..self.shrinking.len() {
            let Some(shrinking) = self.shrinking.get_mut(finding) else {
                continue;
            };
            if let Some((step, scenario, perturbations, reference)) = shrinking.next_world(&reference) {
                let purpose = Purpose::Shrink(finding, step);
                return self.run(purpose, scenario, perturbations, reference);
            }
        }
        let is_over = self.options.budget.is_some_and(|budget| elapsed >= budget);
        if is_over {
            let left = std::mem::take(&mut self.queue);
            let names = left.iter().map(|one| crate::perturbation::join(one));
            self.result.not_tried.extend(names);
            return self.wait_or_end();
        }
        if self.queue.is_empty() && !self.has_pairs {
            self.has_pairs = true;
            self.plan_pairs();
        }
        match self.queue.pop_front() {
            Some(perturbations) => {
                let scenario = self.scenario.clone();
                self.run(Purpose::Point, scenario, perturbations, Some(reference))
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
        let left = self.queue.iter().map(|one| crate::perturbation::join(one));
        self.result.not_tried.extend(left);
        self.result.progress.found = self.result.findings.len();
        self.result
    }

    fn run(
        &mut self,
        purpose: Purpose,
        scenario: Scenario,
        perturbations: Vec<Perturbation>,
        reference: Option<(Arc<ReferencePoints>, Arc<Expected>)>,
    ) -> NextWorld {
        let (points, expected) = reference.unzip();
        let order = WorldOrder {
            id: self.next_id,
            scenario,
            perturbations,
            reference: points.unwrap_or_default(),
            expected,
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
        let states: Vec<ObjectMap> = self.references.iter().map(|one| one.objects.clone()).collect();
        let expected = Arc::new(Expected::learn(&states, &self.scenario.rules));
        self.result.varying = expected.varying();
        let broken = self.references.iter().position(|one| !one.problems.is_empty());
        let first = self.references.swap_remove(broken.unwrap_or(0));
        let repeated = self.references.iter().filter(|one| !one.problems.is_empty()).count();
        let writes = first.points.writes.iter().map(|write| write.point.to_string());
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
        let points = Arc::new(first.points);
        let singles = match &self.options.only {
            Some(only) if only.is_empty() => Vec::new(),
            Some(only) => vec![only.clone()],
            None => points.perturbations(&self.scenario).into_iter().map(|one| vec![one]).collect(),
        };
        self.result.progress.planned += singles.len();
        self.queue = singles.into();
        self.has_pairs = self.options.only.is_some();
        self.reference = Some((points, expected));
    }

    fn take_point(&mut self, order: &WorldOrder, result: WorldResult) {
        self.result.progress.tried += 1;
        let name = crate::perturbation::join(&order.perturbations);
        let kind = match order.perturbations.as_slice() {
            [one] => one.kind.name().to_owned(),
            _ => "pair".to_owned(),
        };
        let counts = self.result.kinds.entry(kind).or_default();
        counts.tried += 1;
        counts.not_reached += usize::from(!result.is_reached);
        let Some(problem) = result.problems.into_iter().next() else {
            self.result.points.push((name, None));
            return;
        };
        counts.found.push(name.clone());
        let key = (kinds_of(&order.perturbations), problem.signature());
        let known = self.result.findings.iter().position(|known| {
            (kinds_of(&known.perturbations), known.problem.signature()) == key
        });
        let number = known.unwrap_or(self.result.findings.len());
        self.result.points.push((name.clone(), Some(number)));
        if let Some(known) = self.result.findings.get_mut(number) {
            known.also.push(name);
            return;
        }
        let shrinks = self.shrinking.len() < MOST_SHRUNK && self.options.only.is_none();
        self.shrinking.push(Shrinking::new(&self.scenario, order, &result.events, shrinks, REPEATS));
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
        let Some((points, _)) = &self.reference else {
            return;
        };
        let found = |name: &str| self.result.points.iter().any(|(point, finding)| point == name && finding.is_some());
        let singles = points.perturbations(&self.scenario).into_iter();
        let singles: Vec<Perturbation> = singles
            .filter(|one| one.kind != PerturbationKind::SettledRestart && !found(&one.to_string()))
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

/// Returns the numbers of the writes, or of the reads, that have the form of a point, the last one first.
fn like(points: &ReferencePoints, perturbation: &Perturbation, point: &Point) -> Vec<usize> {
    let all: Vec<&Point> = if perturbation.kind.is_at_read() {
        points.reads.iter().collect()
    } else {
        points.writes.iter().map(|write| &write.point).collect()
    };
    let numbered = all.into_iter().enumerate().rev();
    numbered.filter(|(_, other)| point.is_like(other)).map(|(at, _)| at + 1).collect()
}
