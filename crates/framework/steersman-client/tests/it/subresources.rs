//! Subresources of several types.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::autoscaling::v1::Scale;
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use serde_json::{Value, json};
use steersman_api::{DeleteOptions, Patch};
use steersman_apiserver::faults::Verb;
use steersman_object::ObjectKey;

use crate::world::{World, key};

fn of<K: serde::de::DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

async fn pod(world: &World, name: &str) {
    let pod: Pod = of(json!({
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]},
    }));
    world.client.create(&pod).await.unwrap();
}

/// Returns the subresources written so far, with the verbs.
fn parts(world: &World) -> Vec<(Verb, String)> {
    let parts = world
        .server
        .requests()
        .matching(|r| r.subresource.is_some());
    let parts = parts.into_iter();
    parts
        .map(|r| (r.verb.unwrap(), r.subresource.unwrap()))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_scale_is_read_replaced_patched_and_applied() {
    let world = World::new();
    let deployment: Deployment = of(json!({
        "metadata": {"name": "d", "namespace": "default"},
        "spec": {
            "replicas": 1, "selector": {"matchLabels": {"app": "d"}},
            "template": {
                "metadata": {"labels": {"app": "d"}}, "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
    }));
    world.client.create(&deployment).await.unwrap();
    let scale = world.client.subresource::<Deployment>("scale");
    let replicas = |scale: &Scale| scale.spec.as_ref().unwrap().replicas;
    let mut now: Scale = scale.get(&key("d")).await.unwrap();
    assert_eq!(replicas(&now), Some(1));
    now.spec.as_mut().unwrap().replicas = Some(2);
    let updated: Scale = scale.update(&key("d"), &now).await.unwrap();
    assert_eq!(replicas(&updated), Some(2));
    let stale = scale.update::<Scale>(&key("d"), &now).await.unwrap_err();
    assert!(stale.is_conflict(), "{stale}");
    assert_eq!(
        replicas(&scale.set_replicas(&key("d"), 3).await.unwrap()),
        Some(3)
    );
    let wanted = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "spec": {"replicas": 4}});
    let applied: Scale = scale.apply(&key("d"), &wanted).await.unwrap();
    assert_eq!(replicas(&applied), Some(4));
    assert_eq!(
        parts(&world),
        [
            Verb::Get,
            Verb::Update,
            Verb::Update,
            Verb::Patch,
            Verb::Patch
        ]
        .map(|v| (v, "scale".to_owned()))
    );
    let missing = scale.get::<Scale>(&key("absent")).await.unwrap_err();
    assert!(missing.is_not_found(), "{missing}");
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_bound_resized_debugged_and_evicted() {
    let world = World::new();
    pod(&world, "p").await;
    world.client.bind(&key("p"), "node-1").await.unwrap();
    let again = world.client.bind(&key("p"), "node-2").await.unwrap_err();
    assert!(again.is_conflict(), "{again}");

    let resize = Patch::Strategic(json!({
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]},
    }));
    let pods = world.client.subresource::<Pod>("resize");
    let resized: Pod = pods.patch(&key("p"), &resize).await.unwrap();
    let containers = &resized.spec.as_ref().unwrap().containers;
    let requests = containers[0]
        .resources
        .as_ref()
        .unwrap()
        .requests
        .as_ref()
        .unwrap();
    assert_eq!(requests["cpu"].0, "2");

    let mut debugged = resized;
    let debugger = of(json!({"name": "debug", "image": "busybox"}));
    debugged.spec.as_mut().unwrap().ephemeral_containers = Some(vec![debugger]);
    let containers = world.client.subresource::<Pod>("ephemeralcontainers");
    let debugged: Pod = containers.update(&key("p"), &debugged).await.unwrap();
    assert_eq!(
        debugged.spec.unwrap().ephemeral_containers.unwrap().len(),
        1
    );

    let now = DeleteOptions::new().grace_period(std::time::Duration::ZERO);
    let other = now.clone().uid("another");
    let refused = world.client.evict(&key("p"), &other).await.unwrap_err();
    assert!(refused.is_conflict(), "{refused}");
    world.client.dry_run().evict(&key("p"), &now).await.unwrap();
    assert!(world.server.get("pods", "default", "p").is_some());
    world.client.evict(&key("p"), &now).await.unwrap();
    assert!(world.server.get("pods", "default", "p").is_none());
    let names: Vec<String> = parts(&world).into_iter().map(|(_, name)| name).collect();
    assert_eq!(
        names,
        [
            "binding", "binding", "resize", "ephemeralcontainers", "eviction", "eviction",
            "eviction"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_service_account_has_a_token() {
    let world = World::new();
    let account: ServiceAccount =
        of(json!({"metadata": {"name": "robot", "namespace": "default"}}));
    world.client.create(&account).await.unwrap();
    let request = TokenRequest {
        spec: Some(TokenRequestSpec {
            audiences: Some(vec!["vault".to_owned()]),
            expiration_seconds: Some(3600),
            ..TokenRequestSpec::default()
        }),
        ..TokenRequest::default()
    };
    let answer = world.client.token(&key("robot"), &request).await.unwrap();
    assert!(!answer.status.unwrap().token.unwrap().is_empty());
    let absent = ObjectKey::namespaced("default", "absent");
    assert!(
        world
            .client
            .token(&absent, &request)
            .await
            .unwrap_err()
            .is_not_found()
    );
}
