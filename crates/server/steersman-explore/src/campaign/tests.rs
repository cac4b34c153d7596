//! Tests of the campaign.

use serde_json::{Value, json};

use super::*;
use crate::finding::Problem;
use crate::object_id::ObjectId;
use crate::points::{PointCounter, ReferenceWrite};
use crate::request::{OperatorRequest, RequestVerb};
use crate::scenario::{ScenarioRules, Step};
use crate::world_event::{ObjectChange, WorldEvent, WorldEventKind};

const NO_TIME: Duration = Duration::ZERO;

fn config_map(text: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "default", "name": "a"},
        "data": {"text": text},
    })
}

fn scenario(steps: usize) -> Scenario {
    let steps = (0..steps).map(|number| Step::Apply {
        source: format!("{number}.yaml"),
        objects: vec![config_map(&number.to_string())],
    });
    Scenario {
        initial: Vec::new().into(),
        steps: steps.collect::<Vec<_>>().into(),
        rules: Arc::new(ScenarioRules::default()),
    }
}

/// Returns the result of a world with one write for each step; `wrong` is the text of the last state.
fn result(steps: usize, text: &str) -> WorldResult {
    let mut counter = PointCounter::default();
    let mut points = ReferencePoints::default();
    let mut events = Vec::new();
    for number in 0..steps {
        let at = NO_TIME;
        events.push(WorldEvent {
            at,
            what: WorldEventKind::User(format!("step {number}")),
        });
        let request = OperatorRequest {
            sequence: number as u64,
            process: 1,
            verb: RequestVerb::Patch,
            resource: "configmaps".to_owned(),
            subresource: None,
            namespace: Some("default".to_owned()),
            name: Some("a".to_owned()),
            is_dry_run: false,
            may_be_stale: false,
            is_streaming_list: false,
        };
        let (_, point) = counter.count(&request).unwrap();
        let after = Some(config_map(text));
        let change = Some(ObjectChange {
            id: ObjectId::of(&config_map(text)),
            before: None,
            after,
        });
        points.writes.push(ReferenceWrite {
            point,
            change,
            revision: 5,
            step_revision: 4,
        });
    }
    WorldResult {
        points,
        events,
        states: vec![ObjectId::map([config_map(text)])],
        is_reached: true,
        ..WorldResult::default()
    }
}

/// Runs a campaign. `problem` says whether a world with these steps and perturbations goes wrong.
fn run(
    steps: usize,
    options: CampaignOptions,
    problem: impl Fn(&WorldOrder) -> bool,
) -> (CampaignResult, Vec<WorldOrder>) {
    let mut campaign = Campaign::new(scenario(steps), options);
    let mut orders = Vec::new();
    loop {
        match campaign.next_world(NO_TIME) {
            NextWorld::Run(order) => {
                let mut result = result(order.scenario.steps.len(), "x");
                if problem(&order) {
                    let perturbed = WorldEventKind::Perturbed("it happens".to_owned());
                    result.events.insert(
                        1,
                        WorldEvent {
                            at: NO_TIME,
                            what: perturbed,
                        },
                    );
                    result.problems = vec![Problem::NotQuiet {
                        last_writes: Vec::new(),
                    }];
                }
                campaign.finish_world(order.id, result);
                orders.push(*order);
            }
            NextWorld::Wait => panic!("no world runs"),
            NextWorld::Done => return (campaign.finish(), orders),
        }
    }
}

fn has(order: &WorldOrder, kind: PerturbationKind) -> bool {
    order.perturbations.iter().any(|one| one.kind == kind)
}

#[test]
fn every_point_is_tried_once_after_three_references() {
    let (result, orders) = run(1, CampaignOptions::default(), |_| false);
    let (references, points) = orders.split_at(3);
    assert!(
        references
            .iter()
            .all(|order| order.reference.is_none() && order.perturbations.is_empty())
    );
    // The servers of references have different seeds, so that what depends on them is learned.
    let mut seeds: Vec<u64> = references.iter().map(|order| order.seed).collect();
    seeds.sort_unstable();
    assert_eq!(seeds, [0, 1, 2]);
    assert!(points.iter().all(|order| order.reference.is_some()));
    assert_eq!(result.points.len(), points.len());
    assert_eq!(
        (result.progress.planned, result.progress.tried),
        (points.len(), points.len())
    );
    assert!(result.findings.is_empty() && result.not_tried.is_empty());
}

/// EXPLORE-3: a finding is tried again, and says how often it was seen.
#[test]
fn a_finding_is_tried_again_three_times() {
    let lost = |order: &WorldOrder| has(order, PerturbationKind::LostAnswer);
    let (result, _) = run(1, CampaignOptions::default(), lost);
    let [finding] = result.findings.as_slice() else {
        panic!("{:?}", result.findings);
    };
    assert_eq!(
        (finding.name().as_str(), finding.tries, finding.repeated),
        ("lost-answer@1", 3, 3)
    );
    let found = result
        .points
        .iter()
        .filter(|point| point.outcome == PointOutcome::Found);
    assert_eq!(found.count(), 1);
}

/// EXPLORE-3: a finding is tried again, and says how often it was seen.
#[test]
fn a_finding_that_does_not_repeat_says_so() {
    let first = std::cell::Cell::new(true);
    let once =
        |order: &WorldOrder| has(order, PerturbationKind::LostAnswer) && first.replace(false);
    let (result, _) = run(2, CampaignOptions::default(), once);
    assert_eq!(
        (result.findings[0].tries, result.findings[0].repeated),
        (3, 0)
    );
    // Nothing is shrunk that does not repeat.
    assert_eq!(result.findings[0].steps.len(), 2);
}

#[test]
fn the_same_problem_of_one_kind_is_one_finding() {
    let refused = |order: &WorldOrder| has(order, PerturbationKind::Refuse);
    let (result, _) = run(1, CampaignOptions::default(), refused);
    let [finding] = result.findings.as_slice() else {
        panic!("{:?}", result.findings);
    };
    assert_eq!(
        finding.also,
        [
            "refuse@1:422", "refuse@1:429", "refuse@1:500", "refuse@1:503"
        ]
    );
}

/// EXPLORE-4: a shrunk scenario is compared with references of its own.
#[test]
fn a_finding_is_shrunk_to_the_fewest_steps() {
    let lost = |order: &WorldOrder| has(order, PerturbationKind::LostAnswer);
    let (result, orders) = run(3, CampaignOptions::default(), lost);
    assert_eq!(result.findings[0].steps.len(), 1);
    // The name is that of the whole scenario, so that it can be tried again.
    assert_eq!(result.findings[0].name(), "lost-answer@1");
    let shrunk = orders
        .iter()
        .filter(|order| order.scenario.steps.len() < 3 && !order.perturbations.is_empty());
    for order in shrunk {
        let points = &order.reference.as_ref().unwrap().points;
        assert_eq!(points.writes.len(), order.scenario.steps.len());
    }
}

#[test]
fn an_operator_that_fails_undisturbed_is_one_finding_and_nothing_else_is_tried() {
    let (result, orders) = run(1, CampaignOptions::default(), |_| true);
    assert_eq!(orders.len(), 3);
    assert_eq!(result.findings.len(), 1);
    assert_eq!(
        (
            result.findings[0].name().as_str(),
            result.findings[0].repeated
        ),
        ("reference", 2)
    );
}

#[test]
fn only_one_perturbation_is_tried_if_it_is_named() {
    let only = Some(Perturbation::parse_all("refuse@1:409").unwrap());
    let options = CampaignOptions {
        only,
        pairs: 5,
        ..CampaignOptions::default()
    };
    let (result, orders) = run(1, options, |_| false);
    assert_eq!(orders.len(), 4);
    assert_eq!(result.points.len(), 1);
}

#[test]
fn pairs_follow_by_the_seed_and_have_two_points() {
    let options = |seed| CampaignOptions {
        pairs: 4,
        seed,
        ..CampaignOptions::default()
    };
    let pairs = |seed| -> Vec<Vec<Perturbation>> {
        let (_, orders) = run(2, options(seed), |_| false);
        let pairs = orders.into_iter().map(|order| order.perturbations);
        pairs
            .filter(|perturbations| perturbations.len() == 2)
            .collect()
    };
    let first = pairs(1);
    assert!(!first.is_empty() && first.iter().all(|pair| pair[0].at != pair[1].at));
    assert_eq!(first, pairs(1));
    assert_ne!(first, pairs(2));
}

#[test]
fn points_beyond_the_budget_are_named() {
    let budget = Some(Duration::from_secs(1));
    let mut campaign = Campaign::new(
        scenario(1),
        CampaignOptions {
            budget,
            ..CampaignOptions::default()
        },
    );
    let mut worlds = 0;
    let result = loop {
        // The fifth world begins after the end of the budget.
        let elapsed = Duration::from_millis(worlds * 250);
        match campaign.next_world(elapsed) {
            NextWorld::Run(order) => {
                worlds += 1;
                campaign.finish_world(order.id, result(1, "x"));
            }
            NextWorld::Wait => panic!("no world runs"),
            NextWorld::Done => break campaign.finish(),
        }
    };
    assert_eq!(result.progress.tried, 1);
    assert_eq!(result.not_tried.len() + 1, result.progress.planned);
}

#[test]
fn a_shorter_scenario_that_no_server_accepts_is_given_up() {
    let mut campaign = Campaign::new(scenario(2), CampaignOptions::default());
    let mut failed = 0;
    loop {
        match campaign.next_world(NO_TIME) {
            NextWorld::Run(order) if order.scenario.steps.len() < 2 => {
                failed += 1;
                assert!(campaign.fail_world(order.id, true));
            }
            NextWorld::Run(order) => {
                let mut result = result(2, "x");
                if has(&order, PerturbationKind::LostAnswer) {
                    result.problems = vec![Problem::NotQuiet {
                        last_writes: Vec::new(),
                    }];
                }
                campaign.finish_world(order.id, result);
            }
            NextWorld::Wait => panic!("no world runs"),
            NextWorld::Done => break,
        }
    }
    assert!(failed > 0);
    assert_eq!(campaign.finish().findings[0].steps.len(), 2);
    // A reference that cannot run ends the exploration.
    let mut campaign = Campaign::new(scenario(1), CampaignOptions::default());
    let NextWorld::Run(order) = campaign.next_world(NO_TIME) else {
        panic!("the first world is a reference");
    };
    assert!(!campaign.fail_world(order.id, true));
}
