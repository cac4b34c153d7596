//! Tests of the trials of desired states: a simulated operator makes a ConfigMap of a Site.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::campaign::{Campaign, CampaignOptions, NextWorld};
use crate::campaign_result::CampaignResult;
use crate::finding::Problem;
use crate::judge::Judge;
use crate::object_id::{ObjectId, ObjectMap};
use crate::report::PointOutcome;
use crate::scenario::{Scenario, ScenarioRules, Step};
use crate::world_order::{WorldOrder, WorldResult};

/// An operator: makes the data of a ConfigMap of the spec of its Site, and of the data that is there.
type Operator = fn(&Value, Option<&Value>) -> Option<Value>;

fn scenario() -> Scenario {
    let spec = json!({"type": "object", "required": ["size"], "properties": {
        "size": {"type": "integer", "minimum": 1, "maximum": 3}, "note": {"type": "string"},
    }});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "sites.example.com"},
        "spec": {"group": "example.com", "names": {"kind": "Site"}, "versions": [{
            "name": "v1",
            "schema": {"openAPIV3Schema": {"required": ["spec"], "properties": {"spec": spec}}},
        }]},
    });
    let site = json!({
        "apiVersion": "example.com/v1", "kind": "Site", "metadata": {"namespace": "shop", "name": "a"},
        "spec": {"size": 2},
    });
    let apply = Step::Apply {
        source: "a.yaml".to_owned(),
        objects: vec![site],
    };
    Scenario {
        initial: vec![definition].into(),
        steps: vec![apply].into(),
        rules: Arc::new(ScenarioRules::default()),
    }
}

/// Runs a world: what the operator makes of each applied Site. A Site with the size 3 is refused.
fn world(order: &WorldOrder, operator: Operator, refuses: bool) -> Option<WorldResult> {
    let judge = Judge::new(&order.scenario, order.reference.clone());
    let (mut objects, mut result) = (
        ObjectMap::new(),
        WorldResult {
            is_reached: true,
            ..WorldResult::default()
        },
    );
    let mut quiet_steps = 0;
    let mut data: Option<Value> = None;
    for (at, step) in order.scenario.steps.iter().enumerate() {
        match step {
            Step::Apply {
                objects: applied, ..
            } => {
                let site = &applied[0];
                if refuses && site["spec"]["size"] == 3 {
                    order.reference.as_ref()?;
                    result.refused.push(at + 1);
                    continue;
                }
                objects.insert(ObjectId::of(site), site.clone());
                data = operator(&site["spec"], data.as_ref());
                let Some(data) = &data else {
                    continue;
                };
                let child = json!({
                    "apiVersion": "v1", "kind": "ConfigMap", "data": data,
                    "metadata": {"namespace": "shop", "name": "a"},
                });
                objects.insert(ObjectId::of(&child), child);
            }
            Step::Quiet if data.is_none() => {
                result.problems.push(Problem::NotQuiet {
                    last_writes: Vec::new(),
                });
                return Some(result);
            }
            Step::Quiet => {
                result.problems =
                    judge.wrong_when_quiet(Some(quiet_steps), &objects, &objects, Value::default);
                if !result.problems.is_empty() {
                    return Some(result);
                }
                quiet_steps += 1;
                result.states.push(objects.clone());
            }
            _ => {}
        }
    }
    result.states.push(objects);
    Some(result)
}

fn explore(operator: Operator, refuses: bool, options: CampaignOptions) -> CampaignResult {
    let mut campaign = Campaign::new(scenario(), options);
    loop {
        match campaign.next_world(Duration::ZERO) {
            NextWorld::Run(order) => match world(&order, operator, refuses) {
                Some(result) => campaign.finish_world(order.id, result),
                None => assert!(campaign.fail_world(order.id, true)),
            },
            NextWorld::Wait => panic!("no world runs"),
            NextWorld::Done => return campaign.finish(),
        }
    }
}

/// Returns the field and the kind of the problem of each finding.
fn found(result: &CampaignResult) -> Vec<(&str, &'static str)> {
    let all = result.findings.iter();
    all.map(|one| {
        (
            one.change.as_ref().map_or("", |one| &one.field),
            one.problem.kind(),
        )
    })
    .collect()
}

fn outcomes(result: &CampaignResult) -> Vec<PointOutcome> {
    let all = result
        .points
        .iter()
        .filter(|point| point.name().starts_with("desired-state"));
    all.map(|point| point.outcome).collect()
}

#[test]
fn an_operator_that_follows_each_change_passes() {
    let follows: Operator = |spec, _| Some(json!({"size": spec["size"].to_string()}));
    let result = explore(follows, false, CampaignOptions::default());
    assert!(result.findings.is_empty(), "{:?}", result.findings);
    // The sizes 3 and 1, and a note.
    assert_eq!(outcomes(&result), [PointOutcome::Passed; 3]);
    assert_eq!(result.desired_states.without_effect, ["Site spec.note"]);
    assert_eq!(result.progress.planned, result.progress.tried);
}

#[test]
fn an_ignored_change_differs_from_an_object_that_was_created_so() {
    let ignores: Operator = |spec, made| {
        Some(
            made.cloned()
                .unwrap_or(json!({"size": spec["size"].to_string()})),
        )
    };
    let result = explore(ignores, false, CampaignOptions::default());
    assert_eq!(found(&result), [("Site spec.size", "not-as-created")]);
    let finding = &result.findings[0];
    assert_eq!((finding.tries, finding.repeated), (3, 3));
    assert_eq!(finding.name(), "desired-state@1");
    assert_eq!(finding.also, ["desired-state@2"]);
}

#[test]
fn what_stays_of_a_removed_field_is_found_on_the_way_back() {
    let keeps: Operator = |spec, made| {
        let mut data = made.cloned().unwrap_or(json!({}));
        data["size"] = spec["size"].clone();
        if let Some(note) = spec.get("note") {
            data["note"] = note.clone();
        }
        Some(data)
    };
    let result = explore(keeps, false, CampaignOptions::default());
    assert_eq!(found(&result), [("Site spec.note", "not-undone")]);
}

#[test]
fn only_the_way_back_is_tried_if_the_operator_cannot_reach_a_state() {
    let fails: Operator =
        |spec, _| (spec["size"] != 3).then(|| json!({"size": spec["size"].to_string()}));
    let result = explore(fails, false, CampaignOptions::default());
    assert!(result.findings.is_empty(), "{:?}", result.findings);
    assert_eq!(
        result.desired_states.unreachable,
        ["Site shop/a spec.size: 3 instead of 2 (it does not become quiet)"]
    );
    let stuck: Operator = |spec, made| {
        let is_stuck = made.is_some_and(|made| made["stuck"] == true);
        match &spec["size"] {
            size if size == 3 => None,
            size => Some(json!({"size": size.to_string(), "stuck": is_stuck})),
        }
    };
    let result = explore(stuck, false, CampaignOptions::default());
    assert!(result.findings.is_empty(), "{:?}", result.findings);
}

#[test]
fn a_state_that_the_server_refuses_is_no_finding() {
    let follows: Operator = |spec, _| Some(json!({"size": spec["size"].to_string()}));
    let result = explore(follows, true, CampaignOptions::default());
    assert!(result.findings.is_empty(), "{:?}", result.findings);
    assert_eq!(outcomes(&result)[0], PointOutcome::Refused);
}

#[test]
fn one_change_can_be_tried_alone() {
    let ignores: Operator = |_, made| Some(made.cloned().unwrap_or(json!({"size": "2"})));
    let only = |name: &str| CampaignOptions {
        only: Some(vec![name.parse().unwrap()]),
        ..CampaignOptions::default()
    };
    let result = explore(ignores, false, only("desired-state@2"));
    assert_eq!(outcomes(&result), [PointOutcome::Passed]);
    let result = explore(ignores, false, only("desired-state@9"));
    assert_eq!(outcomes(&result), [PointOutcome::NotReached]);
}
