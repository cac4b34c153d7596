//! CLIENT-1: reads are answered from memory, and writes go to the server only.

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use serde_json::json;
use steersman_api::Patch;
use steersman_apiserver::faults::Verb;
use steersman_cache::{ByObject, CacheOptions, ListOptions};
use steersman_client::{ClientOptions, Error};
use steersman_object::FieldSelector;

use crate::world::{World, config, key, set, until};

/// CLIENT-1
#[tokio::test(start_paused = true)]
async fn reads_send_nothing_and_writes_do_not_touch_the_cache() {
    let world = World::new();
    let mut events = world.cached::<ConfigMap>().await;
    // From here on the cache receives no events, so a change in it could only come from a write.
    world.server.faults().silence_watches();
    let before = world.server.requests().all().len();

    let created = world.client.create(&config("a")).await.unwrap();
    assert!(!created.metadata.uid.unwrap().is_empty());
    assert!(
        world
            .client
            .get_opt::<ConfigMap>(&key("a"))
            .await
            .unwrap()
            .is_none()
    );
    assert!(
        world
            .client
            .list::<ConfigMap>(&ListOptions::new())
            .await
            .unwrap()
            .is_empty()
    );
    assert!(
        world
            .client
            .get::<ConfigMap>(&key("a"))
            .await
            .unwrap_err()
            .is_not_found()
    );
    assert_eq!(
        world.server.requests().all().len(),
        before + 1,
        "only the create was sent"
    );

    world.server.faults().resume_watches();
    let seen = until(&mut events, &key("a"), |_| true).await;
    let read = world.client.get::<ConfigMap>(&key("a")).await.unwrap();
    assert_eq!(read.metadata.uid, seen.metadata.uid);
    assert_eq!(world.count(&[Verb::Get, Verb::List]), 0);
}

#[tokio::test(start_paused = true)]
async fn each_verb_has_its_effect() {
    let world = World::new();
    let client = world.client.field_manager("tester");
    let created = client.create(&config("a")).await.unwrap();
    let error = client.create(&config("a")).await.unwrap_err();
    assert!(error.is_already_exists(), "{error}");

    let mut changed = created.clone();
    set(&mut changed, "k", "1");
    let updated = client.update(&changed).await.unwrap();
    assert_eq!(updated.data.unwrap()["k"], "1");
    let error = client.update(&created).await.unwrap_err();
    assert!(error.is_conflict(), "{error}");

    let patch = Patch::Merge(json!({"data": {"k": "2"}}));
    let patched: ConfigMap = client.patch(&key("a"), &patch).await.unwrap();
    assert_eq!(patched.data.unwrap()["k"], "2");
    assert!(
        world
            .writes()
            .iter()
            .all(|r| r.parameter("fieldManager") == Some("tester"))
    );

    // The uid of an earlier object of the same name.
    let mut other = created.clone();
    other.metadata.uid = Some("another".to_owned());
    let error = client.delete(&other).await.unwrap_err();
    assert!(error.is_conflict(), "{error}");
    client.delete(&created).await.unwrap();
    assert!(client.delete(&created).await.unwrap_err().is_not_found());
    client.create(&config("a")).await.unwrap();
    client.delete_key::<ConfigMap>(&key("a")).await.unwrap();
    assert!(world.server.get("configmaps", "default", "a").is_none());
}

#[tokio::test(start_paused = true)]
async fn live_reads_do_not_wait_for_the_cache() {
    let world = World::new();
    let live = world.client.live();
    assert!(
        live.get_opt::<ConfigMap>(&key("a"))
            .await
            .unwrap()
            .is_none()
    );
    for n in 0..501 {
        let mut object = config(&format!("c{n:03}"));
        object.metadata.labels = Some([("n".to_owned(), (n % 2).to_string())].into());
        world
            .server
            .create(serde_json::to_value(object).unwrap())
            .unwrap();
    }
    let all = live
        .list::<ConfigMap>(&ListOptions::new().namespace("default"))
        .await
        .unwrap();
    assert_eq!(all.len(), 501);
    let odd = ListOptions::new().labels("n=1".parse().unwrap());
    assert_eq!(live.list::<ConfigMap>(&odd).await.unwrap().len(), 250);
    live.get::<ConfigMap>(&key("c007")).await.unwrap();
    let one = FieldSelector::new().equals("metadata.name", "c007");
    let one = ListOptions::new().fields(one);
    assert_eq!(live.list::<ConfigMap>(&one).await.unwrap().len(), 1);
    let indexed = ListOptions::new().index("n", "1");
    let error = live.list::<ConfigMap>(&indexed).await.unwrap_err();
    assert!(matches!(error, Error::IndexNeedsCache { .. }), "{error}");
    assert_eq!(world.count(&[Verb::Watch]), 0, "the cache was left alone");
}

/// CLIENT-1
#[tokio::test(start_paused = true)]
async fn a_kind_declared_uncached_is_read_from_the_server() {
    let options = CacheOptions::new().by_object::<Secret>(ByObject::new().uncached());
    let world = World::with(options, ClientOptions::new());
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "default"},
    });
    world.server.create(secret).unwrap();
    world.client.get::<Secret>(&key("s")).await.unwrap();
    assert_eq!(
        world
            .client
            .list::<Secret>(&ListOptions::new())
            .await
            .unwrap()
            .len(),
        1
    );
    assert_eq!(
        (
            world.count(&[Verb::Get, Verb::List]),
            world.count(&[Verb::Watch])
        ),
        (2, 0)
    );
}
