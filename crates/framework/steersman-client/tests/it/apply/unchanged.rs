//! CLIENT-10: an apply that would change nothing is not sent.

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use prometheus::Registry;
use serde_json::json;
use steersman_api::{ClientConfig, DeleteOptions};
use steersman_apiserver::faults::{Answer, Verb};
use steersman_cache::{ByObject, CacheOptions};
use steersman_client::{Client, ClientMetrics, ClientOptions, Ensured};
use steersman_informer::Subscription;
use steersman_object::{ListOptions, Object as _};

use crate::own_writes::{hears_after, mine};
use crate::world::{World, config, key, set, until};

fn applied(value: &str) -> ConfigMap {
    let mut object = config("a");
    set(&mut object, "k", value);
    object
}

fn patches(world: &World) -> usize {
    world.count(&[Verb::Patch])
}

/// Waits until the cache has the object at this version.
async fn until_at(events: &mut Subscription<ConfigMap>, applied: &ConfigMap) {
    let version = applied.stored_version();
    until(events, &applied.key(), |seen: &ConfigMap| {
        seen.stored_version() == version
    })
    .await;
}

async fn ensured(client: &Client, value: &str) -> Ensured<ConfigMap> {
    client.apply(&applied(value)).if_changed().await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn an_equal_apply_to_an_unchanged_object_is_not_sent() {
    let registry = Registry::new();
    let metrics = ClientMetrics::register(&registry).unwrap();
    let options = ClientOptions::new().metrics(metrics);
    let world = World::with(CacheOptions::new(), options);
    let mut events = world.cached::<ConfigMap>().await;
    let created = ensured(&world.client, "1").await;
    assert!(matches!(created, Ensured::Created(_)), "{created:?}");
    until_at(&mut events, created.object()).await;
    for _ in 0..3 {
        let unchanged = ensured(&world.client, "1").await;
        assert!(matches!(unchanged, Ensured::Unchanged(_)), "{unchanged:?}");
        assert_eq!(
            unchanged.object().stored_version(),
            created.object().stored_version()
        );
    }
    // A part that encodes as the same document has the same intent.
    let part = json!({"metadata": {"name": "a", "namespace": "default"}, "data": {"k": "1"}});
    let unchanged = world
        .client
        .apply_part::<ConfigMap>(&part)
        .if_changed()
        .await;
    assert!(!unchanged.unwrap().is_changed());
    assert_eq!(patches(&world), 1);
    let families = registry.gather();
    let skipped = families
        .iter()
        .find(|family| family.name() == "steersman_client_skipped_writes_total");
    let skipped = &skipped.unwrap().get_metric()[0];
    assert_eq!(skipped.get_label()[0].value(), "ConfigMap.v1");
    assert_eq!(skipped.get_counter().get_value(), 4.0);
}

#[tokio::test(start_paused = true)]
async fn an_apply_is_remembered_too_and_always_sent() {
    let world = World::new();
    let mut events = world.cached::<ConfigMap>().await;
    for _ in 0..2 {
        let sent = world.client.apply(&applied("1")).await.unwrap();
        if patches(&world) == 1 {
            until_at(&mut events, &sent).await;
        }
    }
    assert_eq!(patches(&world), 2);
    assert!(!ensured(&world.client, "1").await.is_changed());
    assert_eq!(patches(&world), 2);
}

/// Drift is corrected, and so is a deletion.
#[tokio::test(start_paused = true)]
async fn an_object_that_was_changed_or_deleted_is_applied_again() {
    let world = World::new();
    let mut events = world.cached::<ConfigMap>().await;
    until_at(&mut events, ensured(&world.client, "1").await.object()).await;

    let drift = json!({"data": {"k": "drifted"}});
    world
        .server
        .merge_patch("configmaps", "default", "a", &drift)
        .unwrap();
    let drifted = |seen: &ConfigMap| {
        seen.data
            .as_ref()
            .is_some_and(|data| data["k"] == "drifted")
    };
    until(&mut events, &key("a"), drifted).await;
    let corrected = ensured(&world.client, "1").await;
    assert!(matches!(corrected, Ensured::Updated(_)), "{corrected:?}");
    assert_eq!(corrected.object().data.as_ref().unwrap()["k"], "1");
    until_at(&mut events, corrected.object()).await;

    // CLIENT-12: a change of a field that this manager does not own causes no apply.
    let label = json!({"metadata": {"labels": {"theirs": "1"}}});
    world
        .server
        .merge_patch("configmaps", "default", "a", &label)
        .unwrap();
    until(&mut events, &key("a"), |seen: &ConfigMap| {
        seen.metadata.labels.is_some()
    })
    .await;
    assert!(!ensured(&world.client, "1").await.is_changed());
    assert_eq!(patches(&world), 2);

    world
        .client
        .delete_key::<ConfigMap>(&key("a"))
        .await
        .unwrap();
    let created = ensured(&world.client, "1").await;
    assert!(matches!(created, Ensured::Created(_)), "{created:?}");
    assert_eq!(patches(&world), 3);
}

#[tokio::test(start_paused = true)]
async fn another_document_manager_or_option_and_a_dry_run_are_sent() {
    let world = World::new();
    let mut events = world.cached::<ConfigMap>().await;
    let first = ensured(&world.client, "1").await;
    until_at(&mut events, first.object()).await;
    let client = &world.client;
    for other in [
        client.dry_run(),
        client.field_manager("other"),
        client.force(false),
    ] {
        let before = patches(&world);
        assert!(ensured(&other, "1").await.is_changed());
        assert_eq!(patches(&world), before + 1);
    }
    // The apply without force is the last one of this manager.
    let object = client.live().get::<ConfigMap>(&key("a")).await.unwrap();
    until_at(&mut events, &object).await;
    assert!(!ensured(&client.force(false), "1").await.is_changed());
    assert!(ensured(client, "1").await.is_changed());
    assert!(ensured(client, "2").await.is_changed());
    // A dry run leaves nothing to remember.
    let before = patches(&world);
    ensured(&client.dry_run(), "3").await;
    ensured(&client.dry_run(), "3").await;
    assert_eq!(patches(&world), before + 2);
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_the_cache_does_not_hold_is_always_applied() {
    let uncached = CacheOptions::new().by_object::<Secret>(ByObject::new().uncached());
    let world = World::with(uncached, ClientOptions::new());
    let secret = json!({"metadata": {"name": "a", "namespace": "default"}, "type": "Opaque"});
    for _ in 0..2 {
        // No informer of config maps runs, and none is started.
        assert!(ensured(&world.client, "1").await.is_changed());
        let sent = world
            .client
            .apply_part::<Secret>(&secret)
            .if_changed()
            .await;
        assert!(sent.unwrap().is_changed());
    }
    assert_eq!(patches(&world), 4);
    assert_eq!(world.server.requests().lists("configmaps"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_cached_as_metadata_is_always_applied() {
    let world = World::new();
    let reads = world.client.cache().metadata::<ConfigMap>();
    let mut events = reads.informers().unwrap().remove(0).subscribe();
    world.client.cache().wait_for_sync().await.unwrap();
    for _ in 0..2 {
        let sent = ensured(&world.client, "1").await;
        assert!(sent.is_changed());
        if patches(&world) == 1 {
            until(&mut events, &key("a"), |_| true).await;
        }
    }
    assert_eq!(patches(&world), 2);
}

/// RYOW-1: the second apply of a reconcile waits for the event of the first one instead of being sent.
#[tokio::test(start_paused = true)]
async fn a_lagging_cache_shows_the_own_apply_first() {
    let world = crate::own_writes::deaf().await;
    let client = mine(&world);
    assert!(ensured(&client, "1").await.is_changed());
    // The answer to the create shows the object before the cache does.
    assert!(!ensured(&client.own_answers(true), "1").await.is_changed());
    hears_after(&world, std::time::Duration::from_secs(3));
    assert!(!ensured(&client, "1").await.is_changed());
    assert_eq!(patches(&world), 1);
}

/// Scenario 28: an apply that changed nothing may be answered with the version of another client's change.
#[tokio::test(start_paused = true)]
async fn a_change_that_the_cache_has_not_seen_is_neither_lost_nor_taken_for_ones_own() {
    let world = World::new();
    let mut events = world.cached::<ConfigMap>().await;
    until_at(&mut events, ensured(&world.client, "1").await.object()).await;
    world.server.faults().silence_watches_of("configmaps");

    // The server answers this apply with the version of the change of the label.
    let label = json!({"metadata": {"labels": {"theirs": "1"}}});
    let server = &world.server;
    server
        .merge_patch("configmaps", "default", "a", &label)
        .unwrap();
    let answered = world.client.apply(&applied("1")).await.unwrap();
    assert!(answered.metadata.labels.is_some());
    // The cache is still at the version before that change.
    assert!(ensured(&world.client, "1").await.is_changed());
    let drift = json!({"data": {"k": "drifted"}});
    server
        .merge_patch("configmaps", "default", "a", &drift)
        .unwrap();

    world.server.faults().resume_watches();
    let drifted = |seen: &ConfigMap| {
        seen.data
            .as_ref()
            .is_some_and(|data| data["k"] == "drifted")
    };
    until(&mut events, &key("a"), drifted).await;
    let corrected = ensured(&world.client, "1").await;
    assert_eq!(corrected.object().data.as_ref().unwrap()["k"], "1");
}

/// If the answer to an apply is lost, the earlier apply of this manager no longer describes the object.
#[tokio::test(start_paused = true)]
async fn after_a_lost_answer_the_earlier_apply_is_sent_again() {
    let world = World::new();
    let mut events = world.cached::<ConfigMap>().await;
    until_at(&mut events, ensured(&world.client, "1").await.object()).await;
    world.server.faults().silence_watches_of("configmaps");
    let lost = Answer::code(504).times(1).after_commit();
    let lost = world
        .server
        .faults()
        .answer(Verb::Patch, "configmaps", lost);
    let error = world
        .client
        .apply(&applied("2"))
        .if_changed()
        .await
        .unwrap_err();
    assert!(error.is_outcome_unknown(), "{error}");
    drop(lost);
    let restored = ensured(&world.client, "1").await;
    assert!(restored.is_changed());
    assert_eq!(restored.object().data.as_ref().unwrap()["k"], "1");
}

/// CLIENT-10: if the answer to a delete is lost, or its caller is dropped, the object may be gone. The cache of these
/// tests shows it still.
#[tokio::test(start_paused = true)]
async fn after_a_delete_with_an_unknown_outcome_the_apply_is_sent() {
    let all = ListOptions::new().namespace("default");
    for way in 0..4 {
        let world = World::new();
        let mut events = world.cached::<ConfigMap>().await;
        until_at(&mut events, ensured(&world.client, "1").await.object()).await;
        assert!(!ensured(&world.client, "1").await.is_changed());
        world.server.faults().silence_watches_of("configmaps");
        let (client, object) = (&world.client, key("a"));
        let lost = || Answer::code(504).times(1).after_commit();
        let faults = world.server.faults();
        match way {
            0 => {
                let _lost = faults.answer(Verb::Delete, "configmaps", lost());
                let error = client.delete_key::<ConfigMap>(&object).await.unwrap_err();
                assert!(error.is_outcome_unknown(), "{error}");
            }
            1 => {
                let slow = std::time::Duration::from_secs(5);
                let _slow = faults.delay(Verb::Delete, "configmaps", slow);
                let delete = client.delete_key::<ConfigMap>(&object);
                let dropped = tokio::time::timeout(slow / 5, delete).await;
                assert!(dropped.is_err());
                tokio::time::sleep(2 * slow).await;
            }
            2 => {
                let options = DeleteOptions::new();
                let deleted = client.delete_all::<ConfigMap>(&all, &options).await;
                assert_eq!(deleted.unwrap(), [key("a")]);
            }
            _ => {
                let _lost = faults.answer(Verb::DeleteCollection, "configmaps", lost());
                let options = DeleteOptions::new();
                let deleted = client.delete_all::<ConfigMap>(&all, &options).await;
                assert!(deleted.unwrap_err().is_outcome_unknown());
            }
        }
        assert!(client.cache().get::<ConfigMap>(&object).await.is_ok());
        let created = ensured(client, "1").await;
        assert!(matches!(created, Ensured::Created(_)), "{way}: {created:?}");
    }
}

/// CLIENT-13: many later deletes make the client forget those that the cache has seen, and no other.
#[tokio::test(start_paused = true)]
async fn a_delete_that_the_cache_has_not_seen_is_remembered() {
    for way in 0..2 {
        let world = World::new();
        let mut events = world.cached::<ConfigMap>().await;
        until_at(&mut events, ensured(&world.client, "1").await.object()).await;
        world.server.faults().silence_watches_of("configmaps");
        let client = &world.client;
        match way {
            0 => client.delete_key::<ConfigMap>(&key("a")).await.unwrap(),
            _ => {
                let all = ListOptions::new().namespace("default");
                let options = DeleteOptions::new();
                let deleted = client.delete_all::<ConfigMap>(&all, &options).await;
                assert_eq!(deleted.unwrap(), [key("a")]);
            }
        }
        for number in 0..1200 {
            let absent = key(&format!("absent-{number}"));
            let error = client.delete_key::<ConfigMap>(&absent).await.unwrap_err();
            assert!(error.is_not_found(), "{error}");
        }
        assert!(client.cache().get::<ConfigMap>(&key("a")).await.is_ok());
        let created = ensured(client, "1").await;
        assert!(matches!(created, Ensured::Created(_)), "{way}: {created:?}");
    }
}

/// A dry run deletes nothing, so the apply is still known.
#[tokio::test(start_paused = true)]
async fn after_the_dry_run_of_a_delete_the_apply_is_not_sent() {
    let world = World::new();
    let mut events = world.cached::<ConfigMap>().await;
    until_at(&mut events, ensured(&world.client, "1").await.object()).await;
    let dry = world.client.dry_run();
    dry.delete_key::<ConfigMap>(&key("a")).await.unwrap();
    assert!(!ensured(&world.client, "1").await.is_changed());
}

/// CLIENT-12: a program that starts again decides by what the server holds.
#[tokio::test(start_paused = true)]
async fn a_restarted_program_applies_only_what_is_not_as_it_left_it() {
    let world = World::new();
    assert!(ensured(&world.client, "1").await.is_changed());
    let server = world.server.clone();
    drop(world);
    let restarted = || async {
        let client_config = ClientConfig::in_process(server.service(), "default");
        let (cache, client) = (CacheOptions::new(), ClientOptions::new());
        let world = World::over(server.clone(), client_config, cache, client);
        drop(world.cached::<ConfigMap>().await);
        world
    };
    let patched = |world: &World, before: usize| patches(world) - before;
    let before = patches(&restarted().await);
    let world = restarted().await;
    let unchanged = ensured(&world.client, "1").await;
    assert!(matches!(unchanged, Ensured::Unchanged(_)), "{unchanged:?}");
    // This other manager has applied nothing yet.
    let other = world.client.field_manager("other");
    assert!(ensured(&other, "1").await.is_changed());
    assert_eq!(patched(&world, before), 1);
    // Each kind of drift while the program is stopped.
    let drifts = [
        json!({"data": {"k": "drifted"}}),
        json!({"data": {"k": null}}),
        json!({"data": null}),
    ];
    for drift in drifts {
        drop(
            server
                .merge_patch("configmaps", "default", "a", &drift)
                .unwrap(),
        );
        let world = restarted().await;
        let corrected = ensured(&world.client, "1").await;
        assert!(matches!(corrected, Ensured::Updated(_)), "{corrected:?}");
        assert_eq!(corrected.object().data.as_ref().unwrap()["k"], "1");
    }
    // A new release of the program has another document.
    let world = restarted().await;
    assert!(!ensured(&world.client, "1").await.is_changed());
    assert!(ensured(&world.client, "2").await.is_changed());
}
