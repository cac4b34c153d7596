//! Tests of the number of writes per turn, and of the writes of single workloads.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::json;
use steersman_registry::{ObjectTarget, RegistryOptions, WriteOptions};
use steersman_store::Stored;

use super::*;

const NOW: &str = "2026-01-01T00:00:00Z";

fn create(registry: &mut Registry, (group, plural): (&str, &str), object: serde_json::Value) {
    let resource = registry.resource(group, "v1", plural).unwrap();
    let namespace = resource.namespaced.then_some("default");
    let target = ObjectTarget::collection(&resource, namespace);
    let now: Timestamp = NOW.parse().unwrap();
    registry
        .create(target, object, &WriteOptions::default(), now)
        .unwrap();
}

fn settings() -> PlayerSettings {
    PlayerSettings {
        speed: super::super::options::Speed::instant(),
        seed: 0,
        failures: Vec::new(),
    }
}

fn now() -> TurnTime {
    TurnTime {
        wall: NOW.parse().unwrap(),
        tick: Duration::ZERO,
    }
}

/// PLAY-7: a turn ends at about its maximum number of writes.
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
        let next = machine.turn(&mut registry, &settings(), now(), 64);
        let written = registry.revision() - before;
        assert!(written <= 64 + 16, "{written} writes in one turn");
        turns += 1;
        if next != NextTurn::Again {
            break;
        }
    }
    assert!(turns > 20, "{turns} turns");
    let pods = registry.resource("", "v1", "pods").unwrap();
    assert_eq!(registry.store().list(&pods.storage, None).count(), 600);
}

/// Simulates a Deployment with one Pod at the speed of a fast cluster, for a second.
fn played_deployment(template_labels: &serde_json::Value) -> Registry {
    let mut registry = Registry::new(RegistryOptions::default(), NOW.parse().unwrap());
    let mut machine = Machine::new(Played::everything());
    create(
        &mut registry,
        ("apps", "deployments"),
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
            "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": {
                "metadata": {"labels": template_labels},
                "spec": {"containers": [{"name": "c", "image": "i:1"}]},
            }},
        }),
    );
    let speed = super::super::options::Speed::brisk();
    let settings = PlayerSettings {
        speed,
        ..settings()
    };
    let mut tick = Duration::ZERO;
    for _ in 0..100 {
        let now = TurnTime { tick, ..now() };
        match machine.turn(&mut registry, &settings, now, 64) {
            NextTurn::Again => {}
            NextTurn::At(next) => tick = next,
            NextTurn::Change => return registry,
        }
    }
    panic!("the simulator still writes after 100 turns");
}

/// Returns all stored states of the only object of a kind.
fn states(registry: &Registry, group: &str, plural: &str) -> Vec<serde_json::Value> {
    let resource = registry.resource(group, "v1", plural).unwrap();
    let changes = registry.store().changes(&resource.storage, 0).ok().unwrap();
    changes.map(|change| change.new.value.clone()).collect()
}

/// A watch sees the writes of a real kube-controller-manager except one: the first status of the ReplicaSet, which
/// counts no Pods.
#[test]
fn a_deployment_becomes_ready_in_the_writes_of_a_real_controller() {
    let registry = played_deployment(&json!({"app": "web"}));
    let reason = |deployment: &serde_json::Value| {
        let conditions = deployment["status"]["conditions"].as_array();
        let mut conditions = conditions.into_iter().flatten();
        let found = conditions.find(|one| one["type"] == "Progressing");
        found.map_or_else(|| json!(null), |one| one["reason"].clone())
    };
    let deployments = states(&registry, "apps", "deployments");
    assert_eq!(
        deployments.iter().map(reason).collect::<Vec<_>>(),
        [
            json!(null),
            json!("NewReplicaSetCreated"),
            json!("ReplicaSetUpdated"),
            json!("NewReplicaSetAvailable")
        ]
    );
    let counts = |set: &serde_json::Value| {
        let fields = ["observedGeneration", "replicas", "readyReplicas"];
        fields.map(|field| set["status"][field].clone())
    };
    let sets = states(&registry, "apps", "replicasets");
    assert_eq!(
        sets.iter().map(counts).collect::<Vec<_>>(),
        [
            [json!(null), json!(0), json!(null)],
            [json!(1), json!(1), json!(null)],
            [json!(1), json!(1), json!(1)]
        ]
    );
    // The states of the Pod: created, bound, with waiting containers, and with running containers.
    assert_eq!(states(&registry, "", "pods").len(), 4);
}

#[test]
fn the_revision_of_a_deployment_is_written_and_owned_with_its_status() {
    let registry = played_deployment(&json!({"app": "web"}));
    let deployments = states(&registry, "apps", "deployments");
    let annotation = "deployment.kubernetes.io/revision";
    let first = &deployments[1]["metadata"];
    assert_eq!(first["annotations"][annotation], "1");
    let owners = first["managedFields"].as_array().unwrap();
    let is_controller = |owner: &&serde_json::Value| owner["manager"] == "kube-controller-manager";
    let controllers: Vec<_> = owners.iter().filter(is_controller).collect();
    let [owner] = controllers.as_slice() else {
        panic!("not one owner: {controllers:?}");
    };
    assert_eq!(owner["subresource"], "status");
    let fields = &owner["fieldsV1"]["f:metadata"]["f:annotations"];
    assert_eq!(fields[format!("f:{annotation}")], json!({}));
}

/// A template with a `pod-template-hash` label, copied from a ReplicaSet, makes one ReplicaSet.
#[test]
fn a_template_with_the_hash_of_another_set_gets_one_replica_set() {
    let registry = played_deployment(&json!({"app": "web", "pod-template-hash": "abc"}));
    let sets = registry.resource("apps", "v1", "replicasets").unwrap();
    assert_eq!(registry.store().list(&sets.storage, None).count(), 1);
}

/// SRV-STORE-7: old Pods are not kept decoded.
#[test]
fn the_player_leaves_old_pods_undecoded() {
    let mut registry = Registry::new(RegistryOptions::default(), NOW.parse().unwrap());
    let mut machine = Machine::new(Played::everything());
    let labels = json!({"app": "web"});
    // Annotations of this size leave room for only a few Pods in the memory for decoded objects.
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
    let mut play = |machine: &mut Machine| {
        while machine.turn(&mut registry, &settings(), now(), 64) == NextTurn::Again {
            registry.take_after_writes().finish();
        }
        registry.take_after_writes().finish();
    };
    play(&mut machine);
    machine.reconsider_pods();
    play(&mut machine);
    registry.take_after_writes().finish();
    let pods = registry.resource("", "v1", "pods").unwrap();
    let all: Vec<_> = registry.store().list(&pods.storage, None).collect();
    let ready =
        |pod: &Arc<Stored>| super::super::state::facts::is_condition_true(&pod.look(), "Ready");
    assert!(all.len() == 200 && all.iter().all(|pod| ready(pod)));
    let decoded = all.iter().filter(|pod| pod.is_decoded()).count();
    assert!(decoded < 50, "{decoded} of 200 Pods are decoded");
}

/// Each case is a kind that creates Pods. A status with the name of the refused Pod or with the time would change on
/// every refusal, and each such write would cause another turn.
#[test]
fn a_workload_stops_writing_when_a_quota_refuses_its_pods() {
    let mut registry = Registry::new(RegistryOptions::default(), NOW.parse().unwrap());
    let mut machine = Machine::new(Played::everything());
    create(
        &mut registry,
        ("", "resourcequotas"),
        json!({
            "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"},
            "spec": {"hard": {"pods": "1"}},
        }),
    );
    for (kind, plural) in [
        ("Deployment", "deployments"),
        ("ReplicaSet", "replicasets"),
        ("StatefulSet", "statefulsets"),
        ("DaemonSet", "daemonsets"),
        ("Job", "jobs"),
    ] {
        let group = if kind == "Job" { "batch" } else { "apps" };
        let labels = json!({"app": plural});
        let mut spec = json!({"template": {
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "c", "image": "i:1"}]},
        }});
        match kind {
            "Job" => {
                spec["parallelism"] = json!(3);
                spec["completions"] = json!(3);
                spec["template"]["spec"]["restartPolicy"] = json!("Never");
            }
            _ => spec["selector"] = json!({"matchLabels": labels}),
        }
        if !matches!(kind, "Job" | "DaemonSet") {
            spec["replicas"] = json!(3);
        }
        let version = format!("{group}/v1");
        create(
            &mut registry,
            (group, plural),
            json!({"apiVersion": version, "kind": kind, "metadata": {"name": "web"}, "spec": spec}),
        );
    }
    let mut turns = 0..100;
    let rests =
        turns.any(|_| machine.turn(&mut registry, &settings(), now(), 64) != NextTurn::Again);
    let before = registry.revision();
    machine.turn(&mut registry, &settings(), now(), 64);
    assert!(rests && registry.revision() == before);

    let failure = |plural: &str| {
        let resource = registry.resource("apps", "v1", plural).unwrap();
        let mut all = registry.store().list(&resource.storage, None);
        all.find_map(|one| {
            let all = one.lean()["status"]["conditions"].as_array()?;
            all.iter()
                .find(|one| one["type"] == "ReplicaFailure")
                .cloned()
        })
        .unwrap()
    };
    let condition = failure("deployments");
    assert_eq!(
        (&condition["status"], &condition["reason"]),
        (&json!("True"), &json!("FailedCreate"))
    );
    assert!(
        condition["message"]
            .as_str()
            .unwrap()
            .contains("exceeded quota: few")
    );
    assert_eq!(
        condition["lastUpdateTime"],
        failure("replicasets")["lastTransitionTime"]
    );
}

#[test]
fn a_budget_counts_by_the_scale_of_custom_controllers() {
    let mut registry = Registry::new(RegistryOptions::default(), NOW.parse().unwrap());
    let mut machine = Machine::new(Played::everything());
    let scale = json!({"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"});
    create(
        &mut registry,
        ("apiextensions.k8s.io", "customresourcedefinitions"),
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "crews.sea.io"},
            "spec": {"group": "sea.io", "scope": "Namespaced",
                "names": {"plural": "crews", "kind": "Crew"},
                "versions": [{"name": "v1", "served": true, "storage": true,
                    "subresources": {"scale": scale},
                    "schema": {"openAPIV3Schema": {"type": "object",
                        "x-kubernetes-preserve-unknown-fields": true}}}]},
        }),
    );
    let pod = json!({"containers": [{"name": "c", "image": "i:1"}]});
    for (group, plural, kind, spec) in [
        ("sea.io", "crews", "Crew", json!({"size": 5})),
        (
            "",
            "replicationcontrollers",
            "ReplicationController",
            json!({"replicas": 7, "selector": {"of": "ReplicationController"}, "template": {
                "metadata": {"labels": {"of": "ReplicationController"}}, "spec": pod,
            }}),
        ),
        ("coordination.k8s.io", "leases", "Lease", json!({})),
    ] {
        let version = format!("{group}/v1");
        let version = version.trim_start_matches('/');
        let owner =
            json!({"apiVersion": version, "kind": kind, "metadata": {"name": "a"}, "spec": spec});
        create(&mut registry, (group, plural), owner);
        let resource = registry.resource(group, "v1", plural).unwrap();
        let owner = registry
            .store()
            .get(&resource.storage, "default", "a")
            .unwrap();
        let owner = json!({"apiVersion": version, "kind": kind, "name": "a",
            "uid": owner.meta("uid"), "controller": true});
        let name = kind.to_lowercase();
        let labels = json!({"of": kind});
        create(
            &mut registry,
            ("", "pods"),
            json!({"apiVersion": "v1", "kind": "Pod", "spec": pod,
                "metadata": {"name": name, "labels": labels, "ownerReferences": [owner]}}),
        );
        create(
            &mut registry,
            ("policy", "poddisruptionbudgets"),
            json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
                "metadata": {"name": name},
                "spec": {"maxUnavailable": 2, "selector": {"matchLabels": labels}}}),
        );
    }
    for _ in 0..20 {
        machine.turn(&mut registry, &settings(), now(), 64);
    }
    let resource = registry
        .resource("policy", "v1", "poddisruptionbudgets")
        .unwrap();
    let status = |name: &str| {
        let budget = registry.store().get(&resource.storage, "default", name);
        budget.unwrap().lean()["status"].clone()
    };
    for (owner, expected, healthy) in [("crew", 5, 3), ("replicationcontroller", 7, 5)] {
        let status = status(owner);
        assert_eq!(
            (&status["expectedPods"], &status["desiredHealthy"]),
            (&json!(expected), &json!(healthy)),
            "{status}"
        );
    }
    assert_eq!(
        status("lease")["conditions"][0]["message"],
        "coordination.k8s.io/v1, Resource=leases does not implement the scale subresource"
    );
}

#[test]
fn a_recreated_node_counts_the_pods_bound_to_it() {
    let mut registry = Registry::new(RegistryOptions::default(), NOW.parse().unwrap());
    let mut machine = Machine::new(Played::everything().nodes(2));
    let pod = |name: &str| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {
            "containers": [{"name": "c", "image": "i:1"}],
        }})
    };
    let run_until_idle = |machine: &mut Machine, registry: &mut Registry| {
        while machine.turn(registry, &settings(), now(), 64) == NextTurn::Again {}
    };
    run_until_idle(&mut machine, &mut registry);
    for name in ["a", "b"] {
        create(&mut registry, ("", "pods"), pod(name));
        run_until_idle(&mut machine, &mut registry);
    }
    let nodes = registry.resource("", "v1", "nodes").unwrap();
    let wall: Timestamp = NOW.parse().unwrap();
    let gone = steersman_registry::DeleteOptions::default();
    registry
        .delete(ObjectTarget::object(&nodes, None, "node-1"), &gone, wall)
        .unwrap();
    run_until_idle(&mut machine, &mut registry);
    create(
        &mut registry,
        ("", "nodes"),
        json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"},
        }),
    );
    run_until_idle(&mut machine, &mut registry);
    assert_eq!(machine.cluster.pods_per_node.get("node-1"), Some(&1));
    let pods = registry.resource("", "v1", "pods").unwrap();
    let now_gone = steersman_registry::DeleteOptions {
        grace_period_seconds: Some(0),
        ..Default::default()
    };
    for name in ["a", "b"] {
        registry
            .delete(
                ObjectTarget::object(&pods, Some("default"), name),
                &now_gone,
                wall,
            )
            .unwrap();
    }
    run_until_idle(&mut machine, &mut registry);
    assert!(
        machine.cluster.pods_per_node.is_empty(),
        "{:?}",
        machine.cluster.pods_per_node
    );
}
