//! CLIENT-5: server-side apply of whole and partial objects, conflicts, and extracted fields.

mod unchanged;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use serde::Serialize;
use serde_json::{Value, json};
use steersman_api::Patch;
use steersman_apiserver::faults::Verb;
use steersman_client::{Ensured, Error};
use steersman_object::ObjectKey;

use crate::world::{World, config, key, set};

fn deployment() -> Deployment {
    serde_json::from_value(json!({
        "metadata": {"name": "d", "namespace": "default"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": "d"}},
            "template": {
                "metadata": {"labels": {"app": "d"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
    }))
    .unwrap()
}

#[tokio::test(start_paused = true)]
async fn an_apply_names_its_manager_and_is_forced_by_default() {
    let world = World::new();
    let mut object = config("a");
    set(&mut object, "k", "1");
    let applied = world
        .client
        .field_manager("ours")
        .apply(&object)
        .await
        .unwrap();
    assert_eq!(applied.data.as_ref().unwrap()["k"], "1");
    // An object can be applied again as the server returned it.
    let again = world
        .client
        .field_manager("ours")
        .apply(&applied)
        .await
        .unwrap();
    assert_eq!(again, applied);

    let sent = world.writes();
    for request in &sent {
        assert_eq!(request.verb, Some(Verb::Patch));
        assert_eq!(request.name.as_deref(), Some("a"));
        assert_eq!(request.parameter("fieldManager"), Some("ours"));
        assert_eq!(request.parameter("force"), Some("true"));
        assert_eq!(request.parameter("fieldValidation"), None);
    }
    // Without a field manager, the name of the program is the manager.
    world.client.apply(&object).await.unwrap();
    let last = world.writes().pop().unwrap();
    let program = world.client.client_config().program();
    assert_eq!(last.parameter("fieldManager"), Some(program.as_str()));
}

/// CLIENT-5
#[tokio::test(start_paused = true)]
async fn a_partial_apply_leaves_other_fields_alone() {
    #[derive(Serialize)]
    struct Paused {
        metadata: Value,
        spec: Spec,
    }
    #[derive(Serialize)]
    struct Spec {
        paused: Option<bool>,
        replicas: Option<i32>,
    }
    let world = World::new();
    world.client.create(&deployment()).await.unwrap();
    let part = Paused {
        metadata: json!({"name": "d", "namespace": "default"}),
        spec: Spec {
            paused: Some(true),
            replicas: None,
        },
    };
    let freeze = world.client.field_manager("freeze");
    let applied: Deployment = freeze.apply_part(&part).await.unwrap();
    let spec = applied.spec.unwrap();
    assert_eq!((spec.paused, spec.replicas), (Some(true), Some(1)));

    // A manifest names its own kind.
    let manifest = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "namespace": "default"}, "data": {"k": "1"},
    });
    let applied = freeze.apply_manifest(&manifest).await.unwrap();
    assert_eq!(applied.data["data"]["k"], "1");
    let error = freeze
        .apply_manifest(&json!({"metadata": {"name": "m"}}))
        .await
        .unwrap_err();
    assert!(matches!(error, Error::NotApplicable { .. }), "{error}");
    let error = freeze
        .apply_part::<Deployment>(&manifest)
        .await
        .unwrap_err();
    assert!(matches!(error, Error::NotApplicable { .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_conflict_without_force_names_the_other_manager_and_its_fields() {
    let world = World::new();
    world
        .client
        .field_manager("theirs")
        .apply(&deployment())
        .await
        .unwrap();
    let mut object = deployment();
    object.spec.as_mut().unwrap().replicas = Some(3);
    let ours = world.client.field_manager("ours");
    let error = ours.force(false).apply(&object).await.unwrap_err();
    assert!(error.is_conflict() && error.api().is_some(), "{error}");
    let conflicts: Vec<_> = error
        .conflicts()
        .iter()
        .map(|conflict| (conflict.manager.as_str(), conflict.field.as_str()))
        .collect();
    assert_eq!(conflicts, [("theirs", ".spec.replicas")]);
    let text = error.to_string();
    assert!(
        text.contains("\"theirs\" owns .spec.replicas") && text.contains("\"ours\""),
        "{text}"
    );
    let taken = ours.apply(&object).await.unwrap();
    assert_eq!(taken.spec.unwrap().replicas, Some(3));
}

#[tokio::test(start_paused = true)]
async fn extracted_fields_can_be_changed_and_applied_again() {
    let world = World::new();
    world
        .client
        .field_manager("theirs")
        .create(&deployment())
        .await
        .unwrap();
    let ours = world.client.field_manager("ours");
    let part = json!({
        "metadata": {"name": "d", "namespace": "default", "labels": {"tier": "front"}},
        "spec": {"minReadySeconds": 5},
    });
    ours.apply_part::<Deployment>(&part).await.unwrap();
    let live: Deployment = ours.live().get(&key("d")).await.unwrap();
    let mut own = ours.extract(&live).unwrap();
    assert_eq!(
        own,
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "d", "namespace": "default", "labels": {"tier": "front"}},
            "spec": {"minReadySeconds": 5},
        })
    );
    // An applied field that the next apply leaves out is given up.
    own["metadata"]["labels"] = json!({});
    own["spec"]["minReadySeconds"] = json!(7);
    let applied: Deployment = ours.apply_part(&own).await.unwrap();
    assert_eq!(applied.metadata.labels.unwrap_or_default().len(), 0);
    assert_eq!(applied.spec.unwrap().min_ready_seconds, Some(7));
}

#[tokio::test(start_paused = true)]
async fn a_status_is_applied_through_its_subresource() {
    let world = World::new();
    let object = world.client.create(&deployment()).await.unwrap();
    let status = json!({"spec": {"replicas": 9}, "status": {"replicas": 2, "readyReplicas": 1}});
    let applied: Deployment = world
        .client
        .field_manager("ours")
        .status()
        .apply(&key("d"), &status)
        .await
        .unwrap();
    assert_eq!(applied.status.as_ref().unwrap().ready_replicas, Some(1));
    assert_eq!(applied.spec.as_ref().unwrap().replicas, Some(1));
    let sent = world.writes().pop().unwrap();
    assert_eq!(sent.subresource.as_deref(), Some("status"));
    assert_eq!(sent.parameter("fieldManager"), Some("ours"));

    let mut after = applied.clone();
    after.status.as_mut().unwrap().ready_replicas = Some(2);
    let merged = world.client.status().merge(&applied, &after).await.unwrap();
    assert!(merged.is_changed());
    // A patch of the status carries the version.
    let error = world
        .client
        .status()
        .merge(&object, &after)
        .await
        .unwrap_err();
    assert!(error.is_conflict(), "{error}");
}

#[tokio::test(start_paused = true)]
async fn every_patch_type_has_its_content_type() {
    let world = World::new();
    world.client.create(&deployment()).await.unwrap();
    let client = world.client.field_manager("ours");
    let patches = [
        Patch::Merge(json!({"spec": {"replicas": 2}})),
        Patch::Json(json!([{"op": "replace", "path": "/spec/replicas", "value": 3}])),
        Patch::Strategic(json!({
            "spec": {"replicas": 4, "template": {"spec": {"containers": [{"name": "side", "image": "s"}]}}},
        })),
        Patch::Apply(json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {"minReadySeconds": 5},
        })),
    ];
    for (n, patch) in patches.iter().enumerate() {
        let patched: Deployment = client.patch(&key("d"), patch).await.unwrap();
        let spec = patched.spec.unwrap();
        assert_eq!(spec.replicas, Some([2, 3, 4, 4][n]));
        let containers = spec.template.spec.unwrap().containers.len();
        assert_eq!(
            containers,
            [1, 1, 2, 2][n],
            "a strategic patch merges lists by their keys"
        );
    }
    let error = client
        .patch::<ConfigMap>(&ObjectKey::namespaced("default", "none"), &patches[0])
        .await
        .unwrap_err();
    assert!(error.is_not_found(), "{error}");
}

/// CLIENT-11
#[tokio::test(start_paused = true)]
async fn an_apply_to_a_found_object_changes_no_other_object_and_creates_none() {
    let world = World::new();
    let client = &world.client;
    let part = |value: &str| json!({"metadata": {"name": "a", "namespace": "default"}, "data": {"k": value}});
    let is_refused = |applied: Result<Ensured<ConfigMap>, Error>| {
        let error = applied.unwrap_err();
        matches!(error, Error::NotAsFound { .. }) && error.is_conflict() && !error.is_invalid()
    };
    let created = client
        .apply_part::<ConfigMap>(&part("1"))
        .only_to(None)
        .if_changed()
        .await;
    let created = created.unwrap();
    assert!(matches!(created, Ensured::Created(_)), "{created:?}");
    let first = created.into_object();
    assert!(is_refused(
        client
            .apply_part(&part("2"))
            .only_to(None)
            .if_changed()
            .await
    ));
    let updated = client
        .apply_part(&part("3"))
        .only_to(Some(&*first))
        .if_changed()
        .await;
    assert!(matches!(updated, Ok(Ensured::Updated(_))), "{updated:?}");
    client.delete(&*first).await.unwrap();
    assert!(is_refused(
        client
            .apply_part(&part("4"))
            .only_to(Some(&*first))
            .if_changed()
            .await
    ));
    assert_eq!(world.server.get("configmaps", "default", "a"), None);

    let second: ConfigMap = client.apply_part(&part("5")).await.unwrap();
    assert!(is_refused(
        client
            .apply_part(&part("6"))
            .only_to(Some(&*first))
            .if_changed()
            .await
    ));
    let stored = world.server.get("configmaps", "default", "a").unwrap();
    assert_eq!(stored["data"]["k"], "5");
    // The failed precondition names no fields of a manager, and a conflict of managers stays a conflict.
    client
        .apply_part(&part("7"))
        .only_to(Some(&second))
        .if_changed()
        .await
        .unwrap();
    let stored = world.server.get("configmaps", "default", "a").unwrap();
    let entries = stored["metadata"]["managedFields"].as_array().unwrap();
    assert_eq!(entries.len(), 1);
    assert_eq!(entries[0]["fieldsV1"], json!({"f:data": {"f:k": {}}}));
    let other = client.field_manager("other").force(false);
    let refused = other
        .apply_part(&part("8"))
        .only_to(Some(&second))
        .if_changed()
        .await;
    assert!(
        matches!(refused, Err(Error::ApplyConflict { .. })),
        "{refused:?}"
    );
}
