//! Writes of the status, by difference.

use k8s_openapi::api::apps::v1::{Deployment, DeploymentCondition};
use k8s_openapi::api::core::v1::ConfigMap;
use kube_core::DynamicObject;
use serde_json::json;
use steersman_apiserver::faults::Verb;
use steersman_client::{Ensured, Error};
use steersman_object::Kind;

use crate::world::{World, config, key, until};

async fn deployment(world: &World) -> std::sync::Arc<Deployment> {
    let mut events = world.cached::<Deployment>().await;
    let object = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "d", "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": {"app": "d"}},
            "template": {
                "metadata": {"labels": {"app": "d"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
    });
    world.server.create(object).unwrap();
    until(&mut events, &key("d"), |_| true).await
}

fn ready(deployment: &mut Deployment) {
    let status = deployment.status.get_or_insert_default();
    status.ready_replicas = Some(1);
    status.replicas = Some(1);
}

fn condition(kind: &str) -> DeploymentCondition {
    DeploymentCondition {
        type_: kind.to_owned(),
        status: "True".to_owned(),
        ..DeploymentCondition::default()
    }
}

#[tokio::test(start_paused = true)]
async fn an_unchanged_status_is_not_sent() {
    let world = World::new();
    let before = deployment(&world).await;
    let patched = world.client.status().modify(&*before, ready).await.unwrap();
    assert!(
        matches!(&patched, Ensured::Updated(d) if d.status.as_ref().unwrap().ready_replicas == Some(1))
    );
    let sent = world.writes();
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].subresource.as_deref(), Some("status"));

    let after = patched.into_object();
    let again = world.client.status().modify(&*after, ready).await.unwrap();
    assert!(!again.is_changed());
    assert_eq!(world.writes().len(), 1, "no request when nothing changes");

    // Changes outside the status are not sent.
    let label = |d: &mut Deployment| {
        d.metadata
            .labels
            .get_or_insert_default()
            .insert("l".into(), "1".into());
    };
    assert!(
        !world
            .client
            .status()
            .modify(&*after, label)
            .await
            .unwrap()
            .is_changed()
    );
}

/// CLIENT-2
#[tokio::test(start_paused = true)]
async fn a_status_computed_from_an_old_object_is_computed_again() {
    let world = World::new();
    let old = deployment(&world).await;
    let theirs = json!({"status": {"conditions": [{"type": "Theirs", "status": "True"}]}});
    world
        .server
        .merge_patch("deployments.apps/status", "default", "d", &theirs)
        .unwrap();
    let push = |d: &mut Deployment| {
        let conditions = &mut d.status.get_or_insert_default().conditions;
        conditions.get_or_insert_default().push(condition("Ours"));
    };
    let patched = world
        .client
        .status()
        .modify(&*old, push)
        .await
        .unwrap()
        .into_object();
    let conditions = patched
        .status
        .as_ref()
        .unwrap()
        .conditions
        .as_ref()
        .unwrap();
    let kinds: Vec<&str> = conditions.iter().map(|c| c.type_.as_str()).collect();
    assert_eq!(kinds, ["Theirs", "Ours"]);
    assert_eq!(
        (world.count(&[Verb::Patch]), world.count(&[Verb::Get])),
        (2, 1)
    );
}

#[tokio::test(start_paused = true)]
async fn the_status_of_a_replaced_object_is_not_written() {
    let world = World::new();
    let old = deployment(&world).await;
    world
        .server
        .delete("deployments.apps", "default", "d")
        .unwrap();
    let fault = |d: &mut Deployment| {
        d.status.get_or_insert_default().conditions = Some(vec![condition("Ours")]);
    };
    let error = world
        .client
        .status()
        .modify(&*old, fault)
        .await
        .unwrap_err();
    assert!(error.is_not_found(), "{error}");
    let mut anew = Deployment::clone(&old);
    anew.metadata.uid = None;
    anew.metadata.resource_version = None;
    world.client.create(&anew).await.unwrap();
    let error = world
        .client
        .status()
        .modify(&*old, fault)
        .await
        .unwrap_err();
    assert!(
        matches!(error, Error::Replaced { .. }) && error.is_not_found(),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_update_of_the_status_needs_the_newest_version() {
    let world = World::new();
    let old = deployment(&world).await;
    let mut changed = Deployment::clone(&old);
    ready(&mut changed);
    let updated = world.client.status().update(&changed).await.unwrap();
    assert_eq!(updated.status.unwrap().ready_replicas, Some(1));
    assert!(
        world
            .client
            .status()
            .update(&changed)
            .await
            .unwrap_err()
            .is_conflict()
    );
}

/// CLIENT-8: a type without a status would lose every change of the status.
#[tokio::test(start_paused = true)]
async fn a_status_of_a_type_without_one_is_an_error() {
    let world = World::new();
    let map = world.client.create(&config("a")).await.unwrap();
    world.server.requests().clear();
    let status = world.client.status();
    let other = map.clone();
    let errors = [
        status.modify(&map, |_| {}).await.unwrap_err(),
        status.merge(&map, &other).await.unwrap_err(),
    ];
    for error in errors {
        assert!(
            matches!(error, Error::NoStatus { source: None, .. }),
            "{error}"
        );
        let text = error.to_string();
        assert!(
            text.contains("ConfigMap.v1 default/a") && text.contains("Rust type"),
            "{text}"
        );
    }
    assert_eq!(world.writes().len(), 0);
}

/// CLIENT-8: the server's 404 of the subresource does not mean an absent object.
#[tokio::test(start_paused = true)]
async fn a_status_that_the_server_does_not_serve_is_an_error() {
    let world = World::new();
    world.client.create(&config("a")).await.unwrap();
    let kind = Kind::of::<ConfigMap>();
    let maps = world.client.of::<DynamicObject>(&kind);
    let map = maps.live().get(&key("a")).await.unwrap();
    let ready = |map: &mut DynamicObject| map.data["status"] = json!({"ready": true});
    let mut replaced = map.clone();
    ready(&mut replaced);
    let part = json!({"status": {"ready": true}});
    let status = maps.status();
    for error in [
        status.modify(&map, ready).await.unwrap_err(),
        status.merge(&map, &replaced).await.unwrap_err(),
        status.update(&replaced).await.unwrap_err(),
        status.apply(&key("a"), &part).await.unwrap_err(),
    ] {
        assert!(
            matches!(
                error,
                Error::NoStatus {
                    source: Some(_),
                    ..
                }
            ),
            "{error}"
        );
        assert!(error.is_kind_not_served() && !error.is_not_found());
        assert!(error.to_string().contains("subresources.status"), "{error}");
    }
    // An unchanged status is no error for a type with a status.
    assert!(!status.modify(&map, |_| {}).await.unwrap().is_changed());
}
