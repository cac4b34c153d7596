//! RYOW: a cached read sees the writes of its own key, however far behind the cache is.

mod answers;
mod first_lists;

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use steersman_api::{DeleteOptions, Patch};
use steersman_apiserver::faults::{Answer, Verb};
use steersman_cache::{ByObject, CacheOptions, ListOptions};
use steersman_client::{Client, ClientOptions, Error, ReadConsistency, RequestId};
use steersman_object::Object as _;
use tokio::time::{Instant, sleep, timeout};

use crate::world::{World, config, key, set};

const BOUND: Duration = Duration::from_secs(10);

/// A client with reads that wait for the cache instead of using the answers to its writes.
pub(crate) fn mine(world: &World) -> Client {
    answering(world).own_answers(false)
}

pub(crate) fn answering(world: &World) -> Client {
    world
        .client
        .for_request(RequestId::new("sites", key("front")))
}

pub(crate) fn other(world: &World) -> Client {
    world
        .client
        .for_request(RequestId::new("sites", key("back")))
}

/// Makes a world that caches config maps and receives no more events about them.
pub(crate) async fn lagging(cache: CacheOptions, client: ClientOptions) -> World {
    let world = World::with(cache, client);
    drop(world.cached::<ConfigMap>().await);
    // The first watch opens within a second after the sync.
    sleep(Duration::from_secs(1)).await;
    assert_eq!(world.server.faults().silence_watches_of("configmaps"), 1);
    world
}

pub(crate) async fn deaf() -> World {
    lagging(CacheOptions::new(), ClientOptions::new()).await
}

/// Lets the cache receive events again after a time.
pub(crate) fn hears_after(world: &World, wait: Duration) {
    let server = world.server.clone();
    tokio::spawn(async move {
        sleep(wait).await;
        server.faults().resume_watches();
    });
}

pub(crate) fn reads(world: &World) -> usize {
    world.count(&[Verb::Get, Verb::List])
}

pub(crate) fn all() -> ListOptions {
    ListOptions::new().namespace("default")
}

pub(crate) async fn names(client: &Client) -> Vec<String> {
    let listed = client.list::<ConfigMap>(&all()).await.unwrap();
    let mut names: Vec<String> = listed.iter().map(|c| c.key().name().to_owned()).collect();
    names.retain(|name| name != "kube-root-ca.crt");
    names.sort();
    names
}

/// RYOW-1
#[tokio::test(start_paused = true)]
async fn reads_of_the_key_that_wrote_wait_until_the_cache_has_it() {
    let world = deaf().await;
    let client = mine(&world);
    client.create(&config("a")).await.unwrap();
    let before = reads(&world);
    hears_after(&world, Duration::from_secs(3));
    let start = Instant::now();
    client.get::<ConfigMap>(&key("a")).await.unwrap();
    assert_eq!(start.elapsed(), Duration::from_secs(3));
    assert_eq!(names(&client).await, ["a"]);
    assert_eq!(start.elapsed(), Duration::from_secs(3), "seen is seen");
    assert_eq!(reads(&world), before, "the server was not asked");

    world.server.faults().silence_watches_of("configmaps");
    let mut changed = config("a");
    set(&mut changed, "k", "v");
    client
        .ensure(changed.clone(), |c| set(c, "k", "v"))
        .await
        .unwrap();
    client.create(&config("b")).await.unwrap();
    hears_after(&world, Duration::from_secs(2));
    assert_eq!(names(&client).await, ["a", "b"]);
    let seen = client.get::<ConfigMap>(&key("a")).await.unwrap();
    assert_eq!(seen.data, changed.data);
    assert_eq!(start.elapsed(), Duration::from_secs(5));
}

/// RYOW-1: no read waits for writes of other keys, for other objects, or for other namespaces.
#[tokio::test(start_paused = true)]
async fn other_reads_do_not_wait() {
    let world = deaf().await;
    mine(&world).create(&config("a")).await.unwrap();
    let start = Instant::now();
    assert!(names(&other(&world)).await.is_empty());
    assert!(names(&world.client).await.is_empty());
    let client = mine(&world);
    assert!(
        client
            .get_opt::<ConfigMap>(&key("b"))
            .await
            .unwrap()
            .is_none()
    );
    let elsewhere = ListOptions::new().namespace("kube-system");
    client.list::<ConfigMap>(&elsewhere).await.unwrap();
    let indifferent = client.read_consistency(ReadConsistency::None);
    assert!(names(&indifferent).await.is_empty());
    let cached = client.cache().get_opt::<ConfigMap>(&key("a")).await;
    assert!(
        cached.unwrap().is_none(),
        "a read of the cache itself does not wait"
    );
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn under_process_consistency_reads_wait_for_all_writes() {
    let options = ClientOptions::new().read_consistency(ReadConsistency::Process);
    let world = lagging(CacheOptions::new(), options).await;
    mine(&world).create(&config("a")).await.unwrap();
    world.client.create(&config("b")).await.unwrap();
    hears_after(&world, Duration::from_secs(3));
    let start = Instant::now();
    assert_eq!(names(&other(&world)).await, ["a", "b"]);
    assert_eq!(start.elapsed(), Duration::from_secs(3));
}

/// RYOW-2: a delete is seen when the uid is gone; a new object of the same name is another object.
#[tokio::test(start_paused = true)]
async fn a_delete_and_a_new_object_of_the_name_are_seen() {
    let world = World::new();
    world.client.create(&config("a")).await.unwrap();
    drop(world.cached::<ConfigMap>().await);
    sleep(Duration::from_secs(1)).await;
    let client = mine(&world);
    let old = client.get::<ConfigMap>(&key("a")).await.unwrap();

    world.server.faults().silence_watches_of("configmaps");
    client.delete(&*old).await.unwrap();
    hears_after(&world, Duration::from_secs(3));
    let start = Instant::now();
    assert!(
        client
            .get_opt::<ConfigMap>(&key("a"))
            .await
            .unwrap()
            .is_none()
    );
    assert_eq!(start.elapsed(), Duration::from_secs(3));

    let old = client.create(&config("a")).await.unwrap();
    client.get::<ConfigMap>(&key("a")).await.unwrap();
    world.server.faults().silence_watches_of("configmaps");
    client.delete(&old).await.unwrap();
    let new = client.create(&config("a")).await.unwrap();
    hears_after(&world, Duration::from_secs(2));
    let seen = client.get::<ConfigMap>(&key("a")).await.unwrap();
    assert_eq!(seen.uid_str(), new.uid_str());
}

/// RYOW-5
#[tokio::test(start_paused = true)]
async fn after_the_bound_a_get_asks_the_server_once_and_a_list_fails() {
    let registry = prometheus::Registry::new();
    let metrics = steersman_client::ClientMetrics::register(&registry).unwrap();
    let options = ClientOptions::new().metrics(metrics);
    let world = lagging(CacheOptions::new(), options).await;
    let client = mine(&world);
    client.create(&config("a")).await.unwrap();
    let (before, start) = (reads(&world), Instant::now());
    client.get::<ConfigMap>(&key("a")).await.unwrap();
    assert_eq!((start.elapsed(), reads(&world)), (BOUND, before + 1));

    // No read waits for the same write a second time.
    client.get::<ConfigMap>(&key("a")).await.unwrap();
    assert_eq!((start.elapsed(), reads(&world)), (BOUND, before + 2));
    let error = client.list::<ConfigMap>(&all()).await.unwrap_err();
    assert_eq!((start.elapsed(), reads(&world)), (BOUND, before + 2));
    let Error::OwnWritesUnseen { unseen, waited, .. } = &error else {
        panic!("{error}");
    };
    assert_eq!((unseen.as_slice(), *waited), ([key("a")].as_slice(), BOUND));
    assert!(error.to_string().contains("default/a"), "{error}");

    let counted = |name: &str| -> f64 {
        let families = registry.gather();
        let family = families.iter().find(|f| f.name() == name).unwrap();
        let metrics = family.get_metric().iter();
        metrics
            .map(|m| m.get_counter().get_value() + m.get_histogram().get_sample_count() as f64)
            .sum()
    };
    assert_eq!(counted("steersman_own_write_wait_seconds"), 1.0);
    assert_eq!(counted("steersman_own_write_expiries_total"), 3.0);

    // A later write has its own wait, and is read from the cache once the cache has it.
    client.create(&config("b")).await.unwrap();
    hears_after(&world, Duration::from_secs(2));
    client.get::<ConfigMap>(&key("b")).await.unwrap();
    assert_eq!(start.elapsed(), BOUND + Duration::from_secs(2));
    assert_eq!(names(&client).await, ["a", "b"]);
    assert_eq!(reads(&world), before + 2);
}

/// RYOW-5: cancelled reads do not keep a key from the server forever.
#[tokio::test(start_paused = true)]
async fn cancelled_reads_share_one_wait_for_a_write() {
    let world = lagging(CacheOptions::new(), ClientOptions::new()).await;
    let client = mine(&world);
    client.create(&config("a")).await.unwrap();
    let (before, start) = (reads(&world), Instant::now());
    let part = BOUND * 2 / 5;
    for _ in 0..2 {
        let name = key("a");
        let read = client.get::<ConfigMap>(&name);
        timeout(part, read).await.unwrap_err();
    }
    client.get::<ConfigMap>(&key("a")).await.unwrap();
    assert_eq!((start.elapsed(), reads(&world)), (BOUND, before + 1));
}

/// RYOW-4: reads do not wait for objects that the cache would not show.
#[tokio::test(start_paused = true)]
async fn reads_do_not_wait_for_objects_outside_the_cache() {
    let scoped = ByObject::new().labels("app=web").namespaces(["default"]);
    let cache = CacheOptions::new().by_object::<ConfigMap>(scoped);
    let world = lagging(cache, ClientOptions::new()).await;
    let client = mine(&world);
    let start = Instant::now();
    client.create(&config("unlabelled")).await.unwrap();
    let mut elsewhere = config("elsewhere");
    elsewhere.metadata.namespace = Some("kube-system".to_owned());
    client.create(&elsewhere).await.unwrap();
    let mut labelled = config("dry");
    labelled.metadata.labels = Some([("app".to_owned(), "web".to_owned())].into());
    client.dry_run().create(&labelled).await.unwrap();
    assert!(names(&client).await.is_empty());
    assert_eq!(start.elapsed(), Duration::ZERO);

    client.create(&labelled).await.unwrap();
    hears_after(&world, Duration::from_secs(1));
    assert_eq!(names(&client).await, ["dry"]);
    let kept = DeleteOptions::new().dry_run(true);
    world.server.faults().silence_watches_of("configmaps");
    client
        .delete_with::<ConfigMap>(&key("dry"), &kept)
        .await
        .unwrap();
    assert_eq!(names(&client).await, ["dry"]);
    assert_eq!(start.elapsed(), Duration::from_secs(1));
}

/// RYOW-2: bookmarks and lists count as well.
#[tokio::test(start_paused = true)]
async fn a_relist_shows_the_write() {
    let world = deaf().await;
    let client = mine(&world);
    client.create(&config("a")).await.unwrap();
    world.server.faults().expire_watches();
    let start = Instant::now();
    assert_eq!(names(&client).await, ["a"]);
    assert!(start.elapsed() < BOUND);
}

/// Kinds without an informer have no reads that could wait.
#[tokio::test(start_paused = true)]
async fn writes_of_an_uncached_kind_are_not_noted() {
    let world = World::new();
    let client = mine(&world);
    client.create(&config("a")).await.unwrap();
    drop(world.cached::<ConfigMap>().await);
    let start = Instant::now();
    client.get::<ConfigMap>(&key("a")).await.unwrap();
    assert_eq!(start.elapsed(), Duration::ZERO);
}

/// A write of a subresource is noted as a write of its object.
#[tokio::test(start_paused = true)]
async fn a_scale_is_noted_as_a_write_of_its_object() {
    let world = World::new();
    let deployment: Deployment = serde_json::from_value(json!({
        "metadata": {"name": "d", "namespace": "default"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"a": "b"}},
            "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
    }))
    .unwrap();
    world.client.create(&deployment).await.unwrap();
    drop(world.cached::<Deployment>().await);
    sleep(Duration::from_secs(1)).await;
    world.server.faults().silence_watches_of("deployments");
    let client = mine(&world);
    let scale = client.subresource::<Deployment>("scale");
    scale.set_replicas(&key("d"), 3).await.unwrap();
    hears_after(&world, Duration::from_secs(3));
    let (before, start) = (reads(&world), Instant::now());
    let seen = client.get::<Deployment>(&key("d")).await.unwrap();
    assert_eq!(seen.spec.as_ref().unwrap().replicas, Some(3));
    assert_eq!(start.elapsed(), Duration::from_secs(3));
    assert_eq!(reads(&world), before);
}

/// A client without consistency notes nothing, so no other client waits for its writes.
#[tokio::test(start_paused = true)]
async fn writes_of_a_client_without_consistency_are_not_noted() {
    let world = deaf().await;
    let client = mine(&world);
    let none = client.read_consistency(ReadConsistency::None);
    none.create(&config("a")).await.unwrap();
    let start = Instant::now();
    assert!(names(&none).await.is_empty());
    assert!(names(&client).await.is_empty());
    assert_eq!(start.elapsed(), Duration::ZERO);
}

/// RYOW-2: another client that deletes the written object, and makes a new one of its name, ends the wait.
#[tokio::test(start_paused = true)]
async fn a_new_object_of_the_name_ends_the_wait_for_a_delete() {
    let world = World::new();
    world.client.create(&config("a")).await.unwrap();
    drop(world.cached::<ConfigMap>().await);
    sleep(Duration::from_secs(1)).await;
    let client = mine(&world);
    let old = client.get::<ConfigMap>(&key("a")).await.unwrap();
    world.server.faults().silence_watches_of("configmaps");
    client.delete(&*old).await.unwrap();
    let new = world.client.create(&config("a")).await.unwrap();
    hears_after(&world, Duration::from_secs(2));
    let start = Instant::now();
    let seen = client.get::<ConfigMap>(&key("a")).await.unwrap();
    assert_eq!(seen.uid_str(), new.uid_str());
    assert_eq!(start.elapsed(), Duration::from_secs(2));
}

/// RYOW-5: a read of a kind that never synced fails at once, without a request.
#[tokio::test(start_paused = true)]
async fn a_kind_that_never_synced_is_an_error_at_once() {
    let world = World::new();
    let faults = world.server.faults();
    for verb in [Verb::List, Verb::Watch] {
        faults.answer(verb, "configmaps", Answer::code(403)).keep();
    }
    world.client.cache().informer::<ConfigMap>().unwrap();
    world.client.cache().settled().await;
    let client = mine(&world);
    client.create(&config("a")).await.unwrap();
    let lost = Answer::code(504).times(1).after_commit();
    faults.answer(Verb::Create, "configmaps", lost).keep();
    client.create(&config("b")).await.unwrap_err();
    let (before, start) = (reads(&world), Instant::now());
    for name in ["a", "b"] {
        let error = client.get::<ConfigMap>(&key(name)).await.unwrap_err();
        let said = matches!(&error, Error::Cache(error) if error.is_unavailable());
        assert!(said, "{name}: {error}");
    }
    client.list::<ConfigMap>(&all()).await.unwrap_err();
    assert_eq!((reads(&world), start.elapsed()), (before, Duration::ZERO));
}

/// RYOW-2: a list without the written object shows that the object is gone.
#[tokio::test(start_paused = true)]
async fn a_relist_without_the_written_object_ends_the_wait() {
    let world = deaf().await;
    let client = mine(&world);
    client.create(&config("a")).await.unwrap();
    world
        .client
        .delete_key::<ConfigMap>(&key("a"))
        .await
        .unwrap();
    world.server.faults().expire_watches();
    let start = Instant::now();
    let gone = client.get_opt::<ConfigMap>(&key("a")).await.unwrap();
    assert!(gone.is_none() && start.elapsed() < BOUND);
}

/// RYOW-2: an object with a finalizer is deleted once it is terminating.
#[tokio::test(start_paused = true)]
async fn a_delete_of_a_held_object_is_seen_when_it_terminates() {
    let world = World::new();
    let mut held = config("a");
    held.metadata.finalizers = Some(vec!["x.example.com/y".to_owned()]);
    world.client.create(&held).await.unwrap();
    drop(world.cached::<ConfigMap>().await);
    sleep(Duration::from_secs(1)).await;
    world.server.faults().silence_watches_of("configmaps");
    let client = mine(&world);
    client.delete_key::<ConfigMap>(&key("a")).await.unwrap();
    hears_after(&world, Duration::from_secs(3));
    let start = Instant::now();
    let going = client.get::<ConfigMap>(&key("a")).await.unwrap();
    assert!(going.metadata.deletion_timestamp.is_some());
    assert_eq!(start.elapsed(), Duration::from_secs(3));
}

/// RYOW-2: a write that removes the last finalizer is answered with the object at the version before, and the object
/// is gone: its writer does not read it again.
#[tokio::test(start_paused = true)]
async fn a_write_that_takes_the_last_finalizer_is_seen_by_its_writer() {
    for is_cached in [true, false] {
        let world = World::new();
        let mut held = config("a");
        held.metadata.finalizers = Some(vec!["x.example.com/y".to_owned()]);
        world.client.create(&held).await.unwrap();
        world.server.delete("configmaps", "default", "a").unwrap();
        if is_cached {
            drop(world.cached::<ConfigMap>().await);
            sleep(Duration::from_secs(1)).await;
            world.server.faults().silence_watches_of("configmaps");
        }
        let client = mine(&world);
        let take = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        client.patch::<ConfigMap>(&key("a"), &take).await.unwrap();
        hears_after(&world, Duration::from_secs(3));
        world.client.cache().informer::<ConfigMap>().unwrap();
        let (before, start) = (reads(&world), Instant::now());
        let read = client.get_opt::<ConfigMap>(&key("a")).await.unwrap();
        assert_eq!(read, None, "cached: {is_cached}");
        if is_cached {
            assert_eq!(start.elapsed(), Duration::from_secs(3));
            assert_eq!(reads(&world), before);
        }
    }
}

/// RYOW-1, CLIENT-7: a write that was sent is noted even if the reconcile that sent it was cancelled.
#[tokio::test(start_paused = true)]
async fn a_write_of_a_cancelled_reconcile_is_seen_by_the_next() {
    let world = deaf().await;
    let slow = Duration::from_secs(5);
    let delay = world
        .server
        .faults()
        .delay(Verb::Create, "configmaps", slow);
    let (client, object) = (mine(&world), config("a"));
    let cancelled = timeout(Duration::from_secs(1), client.create(&object));
    assert!(cancelled.await.is_err());
    drop((client, delay));
    world.client.writes_finished().await;
    let start = Instant::now();
    hears_after(&world, Duration::from_secs(3));
    assert_eq!(names(&mine(&world)).await, ["a"]);
    assert_eq!(start.elapsed(), Duration::from_secs(3));
}

/// RYOW-5: with a bound of zero no read waits, and with the maximum a read waits for as long as the cache needs.
#[tokio::test(start_paused = true)]
async fn a_bound_of_zero_never_waits_and_the_maximum_never_ends() {
    let bound = |bound| ClientOptions::new().own_write_wait(bound);
    let world = lagging(CacheOptions::new(), bound(Duration::ZERO)).await;
    let client = mine(&world);
    client.create(&config("a")).await.unwrap();
    let (before, start) = (reads(&world), Instant::now());
    client.get::<ConfigMap>(&key("a")).await.unwrap();
    assert_eq!(reads(&world), before + 1, "the get asks the server");
    let error = client.list::<ConfigMap>(&all()).await.unwrap_err();
    assert!(
        matches!(error, Error::OwnWritesUnseen { waited, .. } if waited.is_zero()),
        "{error}"
    );
    assert_eq!(start.elapsed(), Duration::ZERO);

    let world = lagging(CacheOptions::new(), bound(Duration::MAX)).await;
    let client = mine(&world);
    client.create(&config("a")).await.unwrap();
    let before = reads(&world);
    // The delay is shorter than the silence after which the informer opens another watch.
    let late = Duration::from_secs(30);
    hears_after(&world, late);
    let start = Instant::now();
    assert_eq!(names(&client).await, ["a"]);
    assert_eq!(start.elapsed(), late, "longer than the default");
    client.get::<ConfigMap>(&key("a")).await.unwrap();
    assert_eq!(reads(&world), before, "the server was not asked");
}
