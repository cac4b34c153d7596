//! Ensure: creating an object, or changing it by difference.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use steersman_api::ClientConfig;
use steersman_apiserver::ApiServer;
use steersman_apiserver::faults::{Answer, Verb};
use steersman_cache::{ByObject, CacheOptions};
use steersman_client::{ClientOptions, Ensured, Error, OptimisticLock};

use crate::world::{World, config, key, set, until};

#[tokio::test(start_paused = true)]
async fn an_object_is_created_then_changed_then_left_alone() {
    let world = World::new();
    let mut events = world.cached::<ConfigMap>().await;
    let ensured = world
        .client
        .ensure(config("a"), |config| set(config, "k", "1"))
        .await
        .unwrap();
    assert!(matches!(&ensured, Ensured::Created(c) if c.data.as_ref().unwrap()["k"] == "1"));
    until(&mut events, &key("a"), |_| true).await;

    let ensured = world
        .client
        .ensure(config("a"), |config| set(config, "k", "2"))
        .await
        .unwrap();
    assert!(matches!(&ensured, Ensured::Updated(c) if c.data.as_ref().unwrap()["k"] == "2"));
    until(&mut events, &key("a"), |c| {
        c.data.as_ref().unwrap()["k"] == "2"
    })
    .await;

    let before = world.server.requests().all().len();
    let cached = world.client.get::<ConfigMap>(&key("a")).await.unwrap();
    let ensured = world
        .client
        .ensure(config("a"), |config| set(config, "k", "2"))
        .await
        .unwrap();
    assert!(!ensured.is_changed());
    assert!(
        Arc::ptr_eq(&ensured.into_object(), &cached),
        "the object of the cache, without a copy"
    );
    assert_eq!(
        world.server.requests().all().len(),
        before,
        "nothing to send, nothing sent"
    );
}

#[tokio::test(start_paused = true)]
async fn ensure_keeps_the_fields_of_others() {
    let world = World::new();
    let mut events = world.cached::<ConfigMap>().await;
    world
        .client
        .ensure(config("a"), |c| set(c, "ours", "1"))
        .await
        .unwrap();
    let theirs = json!({"data": {"theirs": "1"}, "metadata": {"labels": {"l": "1"}}});
    world
        .server
        .merge_patch("configmaps", "default", "a", &theirs)
        .unwrap();
    until(&mut events, &key("a"), |_| true).await;
    // Whether or not the cache has the other client's change, the difference names only our field.
    let ensured = world
        .client
        .ensure(config("a"), |c| set(c, "ours", "2"))
        .await
        .unwrap();
    let data = ensured.object().data.clone().unwrap();
    assert_eq!((data["ours"].as_str(), data["theirs"].as_str()), ("2", "1"));
    assert!(ensured.object().metadata.labels.is_some());
}

/// CLIENT-2
#[tokio::test(start_paused = true)]
async fn a_list_computed_from_an_old_object_is_computed_again() {
    let world = World::new();
    let mut events = world.cached::<ConfigMap>().await;
    world.client.create(&config("a")).await.unwrap();
    until(&mut events, &key("a"), |_| true).await;
    world.server.faults().silence_watches();
    // Another writer adds a finalizer, and the cache does not receive it.
    let theirs = json!({"metadata": {"finalizers": ["example.com/theirs"]}});
    world
        .server
        .merge_patch("configmaps", "default", "a", &theirs)
        .unwrap();

    let ours = "example.com/ours".to_owned();
    let add = |c: &mut ConfigMap| {
        c.metadata
            .finalizers
            .get_or_insert_default()
            .push(ours.clone())
    };
    let ensured = world.client.ensure(config("a"), add).await.unwrap();
    let finalizers = ensured.object().metadata.finalizers.clone().unwrap();
    assert_eq!(finalizers, ["example.com/theirs", "example.com/ours"]);
    assert_eq!(
        (world.count(&[Verb::Patch]), world.count(&[Verb::Get])),
        (2, 1)
    );
}

/// CLIENT-2
#[tokio::test(start_paused = true)]
async fn an_object_that_keeps_changing_is_an_error_after_all_attempts() {
    let options = ClientOptions::new()
        .lock(OptimisticLock::Always)
        .attempts(3);
    let world = World::with(CacheOptions::new(), options);
    let mut events = world.cached::<ConfigMap>().await;
    world.client.create(&config("a")).await.unwrap();
    until(&mut events, &key("a"), |_| true).await;
    let fault = world
        .server
        .faults()
        .answer(Verb::Patch, "configmaps", Answer::code(409));
    let error = world
        .client
        .ensure(config("a"), |c| set(c, "k", "1"))
        .await
        .unwrap_err();
    assert!(error.is_conflict(), "{error}");
    assert!(
        matches!(error, Error::KeptChanging { attempts: 3, .. }),
        "{error}"
    );
    assert_eq!(fault.hits(), 3);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_the_cache_has_not_seen_is_changed_not_created_twice() {
    let world = World::new();
    let _events = world.cached::<ConfigMap>().await;
    world.server.faults().silence_watches();
    let mut present = config("a");
    set(&mut present, "k", "1");
    world.client.create(&present).await.unwrap();
    let ensured = world
        .client
        .ensure(config("a"), |c| set(c, "k", "2"))
        .await
        .unwrap();
    assert!(matches!(ensured, Ensured::Updated(_)), "{ensured:?}");
    let ensured = world
        .client
        .ensure(config("a"), |c| set(c, "k", "2"))
        .await
        .unwrap();
    assert!(matches!(ensured, Ensured::Unchanged(_)), "{ensured:?}");
}

#[tokio::test(start_paused = true)]
async fn ensure_creates_an_object_that_only_the_cache_still_has() {
    let world = World::new();
    let mut events = world.cached::<ConfigMap>().await;
    world.client.create(&config("a")).await.unwrap();
    until(&mut events, &key("a"), |_| true).await;
    world.server.faults().silence_watches();
    world.server.delete("configmaps", "default", "a").unwrap();
    let ensured = world
        .client
        .ensure(config("a"), |c| set(c, "k", "1"))
        .await
        .unwrap();
    assert!(matches!(ensured, Ensured::Created(_)), "{ensured:?}");
}

#[tokio::test(start_paused = true)]
async fn a_create_names_the_selector_that_hides_the_existing_object() {
    let scoped = ByObject::new().labels("app=web");
    let options = CacheOptions::new().by_object::<ConfigMap>(scoped);
    let world = World::with(options, ClientOptions::new());
    let _events = world.cached::<ConfigMap>().await;
    world
        .server
        .create(serde_json::to_value(config("a")).unwrap())
        .unwrap();
    let error = world.client.create(&config("a")).await.unwrap_err();
    assert!(error.is_already_exists());
    assert_eq!(error.scoped_by(), Some("labels \"app=web\""));
    assert!(
        error.to_string().contains("the cache cannot see it"),
        "{error}"
    );
    // `ensure` still works, because the server has the object.
    let ensured = world
        .client
        .ensure(config("a"), |c| set(c, "k", "1"))
        .await
        .unwrap();
    assert!(matches!(ensured, Ensured::Updated(_)), "{ensured:?}");
}

#[tokio::test(start_paused = true)]
async fn a_change_cannot_rename() {
    let world = World::new();
    let _events = world.cached::<ConfigMap>().await;
    let rename = |c: &mut ConfigMap| c.metadata.name = Some("b".to_owned());
    let error = world.client.ensure(config("a"), rename).await.unwrap_err();
    assert!(matches!(error, Error::Renamed { .. }), "{error}");
    assert!(world.writes().is_empty());
}

fn deployment() -> Deployment {
    serde_json::from_value(json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "d", "namespace": "default"},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"app": "d"}},
            "template": {
                "metadata": {"labels": {"app": "d"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
    }))
    .unwrap()
}

/// The five results of `controllerutil.CreateOrPatch`, each with its requests.
#[tokio::test(start_paused = true)]
async fn an_object_and_its_status_are_ensured_by_one_closure() {
    // The played controllers would write the status, too.
    let server = ApiServer::builder().play_controllers(false).build();
    let client_config = ClientConfig::in_process(server.service(), "default");
    let world = World::over(
        server,
        client_config,
        CacheOptions::new(),
        ClientOptions::new(),
    );
    let mut events = world.cached::<Deployment>().await;
    let created = |e: &Ensured<Deployment>| matches!(e, Ensured::Created(_));
    let updated = |e: &Ensured<Deployment>| matches!(e, Ensured::Updated(_));
    // The values of the minimum seconds and of the ready replicas; then whether the object is created, updated, and its
    // status changed.
    let steps = [
        (1, 1, [true, false, true], 2),
        (1, 1, [false, false, false], 0),
        (2, 1, [false, true, false], 1),
        (3, 2, [false, true, true], 2),
        (3, 3, [false, false, true], 1),
    ];
    for (seconds, ready, expected, requests) in steps {
        let before = world.writes().len();
        let ensured = world
            .client
            .ensure(deployment(), |d| {
                d.spec.get_or_insert_default().min_ready_seconds = Some(seconds);
                let status = d.status.get_or_insert_default();
                status.ready_replicas = Some(ready);
                status.replicas = Some(ready);
            })
            .with_status();
        let ensured = ensured.await.unwrap();
        let found = [
            created(&ensured.ensured),
            updated(&ensured.ensured),
            ensured.is_status_changed,
        ];
        assert_eq!(found, expected, "{seconds} {ready}");
        assert_eq!(world.writes().len() - before, requests, "{seconds} {ready}");
        assert_eq!(ensured.is_changed(), requests > 0);
        let stored = ensured.into_object();
        assert_eq!(
            stored.spec.as_ref().unwrap().min_ready_seconds,
            Some(seconds)
        );
        assert_eq!(stored.status.as_ref().unwrap().ready_replicas, Some(ready));
        if requests > 0 {
            let version = stored.metadata.resource_version.clone();
            until(&mut events, &key("d"), |d| {
                d.metadata.resource_version == version
            })
            .await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn of_a_kind_without_a_status_only_the_object_is_ensured() {
    let world = World::new();
    let _events = world.cached::<ConfigMap>().await;
    let ensured = world
        .client
        .ensure(config("a"), |c| set(c, "k", "1"))
        .with_status();
    let ensured = ensured.await.unwrap();
    assert!(matches!(ensured.ensured, Ensured::Created(_)) && !ensured.is_status_changed);
    assert_eq!(world.writes().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_key_stands_for_an_empty_object_of_its_name() {
    let world = World::new();
    let _events = world.cached::<ConfigMap>().await;
    let (a, fill) = (key("a"), |config: &mut ConfigMap| set(config, "k", "1"));
    let ensured = world.client.ensure(&a, fill).await.unwrap();
    assert!(matches!(ensured, Ensured::Created(_)));
    assert_eq!(ensured.object().metadata.name.as_deref(), Some("a"));
    let again = world.client.ensure(a, fill).await.unwrap();
    assert!(!again.is_changed());
}

/// With a status the object of another owner is refused, too, and its status is not written.
#[tokio::test(start_paused = true)]
async fn the_status_of_an_object_of_another_owner_is_left_alone() {
    let world = World::new();
    let mut events = world.cached::<Deployment>().await;
    let owner = world.client.create(&config("owner")).await.unwrap();
    world.client.create(&deployment()).await.unwrap();
    until(&mut events, &key("d"), |_| true).await;
    let before = world.writes().len();
    let report = |d: &mut Deployment| d.status.get_or_insert_default().replicas = Some(7);
    let ensured = world.client.ensure(deployment(), report).owned_by(&owner);
    let refused = ensured.with_status().await.unwrap_err();
    assert!(matches!(refused, Error::Owner(_)), "{refused}");
    assert_eq!(world.writes().len(), before);
}
