//! How much the player does in one turn, and what it counts.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::json;

use super::*;
use crate::registry::{RegistryOptions, Target, WriteOptions};
use crate::store::Stored;

const NOW: &str = "2026-01-01T00:00:00Z";

fn create(registry: &mut Registry, (group, plural): (&str, &str), object: serde_json::Value) {
    let resource = registry.resource(group, "v1", plural).unwrap();
    let namespace = resource.namespaced.then_some("default");
    let target = Target::collection(&resource, namespace);
    let now: Timestamp = NOW.parse().unwrap();
    registry
        .create(target, object, &WriteOptions::default(), now)
        .unwrap();
}

fn manners() -> Manners {
    Manners {
        speed: super::super::options::Speed::instant(),
        seed: 0,
        troubles: Vec::new(),
    }
}

fn now() -> Now {
    Now {
        wall: NOW.parse().unwrap(),
        tick: Duration::ZERO,
    }
}

/// PLAY-7
#[test]
fn a_turn_writes_no_more_than_its_budget() {
    let mut registry = Registry::new(RegistryOptions::default(), NOW.parse().unwrap());
    let mut machine = Machine::new(Played::everything());
    let labels = json!({"app": "web"});
    let template = json!({"metadata": {"labels": labels}, "spec": {
        "containers": [{"name": "c", "image": "i:1"}],
    }});
    create(
        &mut registry,
        ("apps", "deployments"),
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
            "spec": {"replicas": 300, "selector": {"matchLabels": labels}, "template": template},
        }),
    );
    let mut work = template;
    work["spec"]["restartPolicy"] = json!("Never");
    create(
        &mut registry,
        ("batch", "jobs"),
        json!({
            "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "work"},
            "spec": {"completions": 300, "parallelism": 300, "template": work},
        }),
    );
    let mut turns = 0;
    loop {
        let before = registry.revision();
        let next = machine.turn(&mut registry, &manners(), now(), 64);
        let written = registry.revision() - before;
        assert!(written <= 64 + 16, "{written} writes in one turn");
        turns += 1;
        if next != Next::Again {
            break;
        }
    }
    assert!(turns > 20, "{turns} turns");
    let pods = registry.resource("", "v1", "pods").unwrap();
    assert_eq!(registry.all_stored(&pods.storage, None).count(), 600);
}

/// SRV-STORE-7
#[test]
fn the_player_leaves_old_pods_as_they_are_kept() {
    let mut registry = Registry::new(RegistryOptions::default(), NOW.parse().unwrap());
    let mut machine = Machine::new(Played::everything());
    let labels = json!({"app": "web"});
    // So large that only a few of them are decoded at a time.
    let annotations = json!({"note": "x".repeat(100_000)});
    create(
        &mut registry,
        ("apps", "deployments"),
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
            "spec": {"replicas": 200, "selector": {"matchLabels": labels}, "template": {
                "metadata": {"labels": labels, "annotations": annotations},
                "spec": {"containers": [{"name": "c", "image": "i:1"}]},
            }},
        }),
    );
    while machine.turn(&mut registry, &manners(), now(), 64) == Next::Again {}
    machine.reconsider_pods();
    while machine.turn(&mut registry, &manners(), now(), 64) == Next::Again {}
    let pods = registry.resource("", "v1", "pods").unwrap();
    let all: Vec<_> = registry.all_stored(&pods.storage, None).collect();
    let ready = |pod: &Arc<Stored>| super::super::facts::holds(&pod.look(), "Ready");
    assert!(all.len() == 200 && all.iter().all(|pod| ready(pod)));
    let decoded = all.iter().filter(|pod| pod.is_decoded()).count();
    assert!(decoded < 50, "{decoded} of 200 Pods are decoded");
}

#[test]
fn a_node_that_comes_back_has_the_pods_that_are_on_it() {
    let mut registry = Registry::new(RegistryOptions::default(), NOW.parse().unwrap());
    let mut machine = Machine::new(Played::everything().nodes(2));
    let pod = |name: &str| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {
            "containers": [{"name": "c", "image": "i:1"}],
        }})
    };
    let settle = |machine: &mut Machine, registry: &mut Registry| {
        while machine.turn(registry, &manners(), now(), 64) == Next::Again {}
    };
    settle(&mut machine, &mut registry);
    for name in ["a", "b"] {
        create(&mut registry, ("", "pods"), pod(name));
        settle(&mut machine, &mut registry);
    }
    let nodes = registry.resource("", "v1", "nodes").unwrap();
    let wall: Timestamp = NOW.parse().unwrap();
    let gone = crate::registry::DeleteOptions::default();
    registry
        .delete(Target::object(&nodes, None, "node-1"), &gone, wall)
        .unwrap();
    settle(&mut machine, &mut registry);
    create(
        &mut registry,
        ("", "nodes"),
        json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"},
        }),
    );
    settle(&mut machine, &mut registry);
    assert_eq!(machine.view.crowds.get("node-1"), Some(&1));
    let pods = registry.resource("", "v1", "pods").unwrap();
    let now_gone = crate::registry::DeleteOptions {
        grace_period_seconds: Some(0),
        ..Default::default()
    };
    for name in ["a", "b"] {
        registry
            .delete(
                Target::object(&pods, Some("default"), name),
                &now_gone,
                wall,
            )
            .unwrap();
    }
    settle(&mut machine, &mut registry);
    assert!(machine.view.crowds.is_empty(), "{:?}", machine.view.crowds);
}
