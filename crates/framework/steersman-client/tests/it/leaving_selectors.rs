//! RYOW-8, RYOW-9: writes that take an object out of the cache's selectors, and deletes of objects that the cache never
//! saw.

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use serde_json::{Value, json};
use steersman_api::{DeleteOptions, Patch};
use steersman_apiserver::faults::{Effect, FaultSpec, RequestRecord, Verb};
use steersman_cache::{ByObject, CacheOptions};
use steersman_client::{Client, ClientOptions};
use steersman_object::whole::BuiltIn;
use steersman_object::{Object as _, TypedObject, WholeObject};
use tokio::time::{Instant, sleep};

use crate::own_writes::{all, deaf, hears_after, lagging, mine, names, reads};
use crate::world::{World, config, key};

const THREE: Duration = Duration::from_secs(3);

fn labelled(name: &str) -> ConfigMap {
    let mut object = config(name);
    object.metadata.labels = Some([("app".to_owned(), "web".to_owned())].into());
    object
}

/// Makes a world with a cache that selects config maps by a label, among them `a`, and receives no more events.
async fn narrow() -> World {
    let cache = CacheOptions::new().by_object::<ConfigMap>(ByObject::new().labels("app=web"));
    let world = World::with(cache, ClientOptions::new());
    world.client.create(&labelled("a")).await.unwrap();
    drop(world.cached::<ConfigMap>().await);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(names(&mine(&world)).await, ["a"]);
    assert_eq!(world.server.faults().silence_watches_of("configmaps"), 1);
    world
}

fn leave() -> Value {
    json!({"metadata": {"labels": {"app": null}}})
}

/// Takes `a` out of the selector by the write with this number.
async fn leaves(world: &World, client: &Client, how: usize) {
    let name = key("a");
    match how {
        0 => {
            let patch = Patch::Merge(leave());
            client.patch::<ConfigMap>(&name, &patch).await.unwrap();
        }
        1 => {
            let mut object: ConfigMap = world.client.live().get(&name).await.unwrap();
            object.metadata.labels = None;
            client.update(&object).await.unwrap();
        }
        2 => {
            let object = client.get::<ConfigMap>(&name).await.unwrap();
            let changed = client.modify(&*object, |c| c.metadata.labels = None);
            assert!(changed.await.unwrap().is_changed());
        }
        _ => {
            let part = json!({"metadata": {
                "name": "a", "namespace": "default", "labels": {"app": "db"},
            }});
            client.apply_part::<ConfigMap>(&part).await.unwrap();
        }
    }
}

/// RYOW-8, scenario 29: a get and a list of the writer wait until the cache no longer shows the object, whichever
/// verb took it out of the selector.
#[tokio::test(start_paused = true)]
async fn a_write_that_takes_an_object_out_of_the_labels_is_seen_by_its_writer() {
    for how in 0..4 {
        for get_first in [true, false] {
            let world = narrow().await;
            let client = mine(&world);
            leaves(&world, &client, how).await;
            assert_eq!(names(&world.client).await, ["a"], "others see the past");
            let (before, start) = (reads(&world), Instant::now());
            hears_after(&world, THREE);
            if get_first {
                let gone = client.get_opt::<ConfigMap>(&key("a")).await.unwrap();
                assert_eq!((gone, start.elapsed()), (None, THREE), "{how}");
            }
            assert!(names(&client).await.is_empty(), "{how}");
            assert_eq!((start.elapsed(), reads(&world)), (THREE, before), "{how}");
        }
    }
}

/// RYOW-5, RYOW-8: the wait is bounded; after it, the server tells that the cache would show nothing.
#[tokio::test(start_paused = true)]
async fn after_the_bound_a_get_of_an_object_that_left_the_selector_asks_the_server() {
    let world = narrow().await;
    let client = mine(&world);
    leaves(&world, &client, 0).await;
    let start = Instant::now();
    let gone = client.get_opt::<ConfigMap>(&key("a")).await.unwrap();
    assert_eq!((gone, start.elapsed().as_secs()), (None, 10));
    let error = client.list::<ConfigMap>(&all()).await.unwrap_err();
    assert!(error.to_string().contains("default/a"), "{error}");
}

/// RYOW-8: the cache did not see the object enter the selector, and a write of this key took it out, so a late arrival
/// is old.
#[tokio::test(start_paused = true)]
async fn an_object_that_left_the_selector_is_not_shown_when_its_arrival_is_late() {
    let cache = CacheOptions::new().by_object::<ConfigMap>(ByObject::new().labels("app=web"));
    let world = lagging(cache, ClientOptions::new()).await;
    world.client.create(&labelled("a")).await.unwrap();
    let client = mine(&world);
    leaves(&world, &client, 0).await;
    let start = Instant::now();
    assert!(names(&client).await.is_empty());
    assert_eq!(start.elapsed(), Duration::ZERO, "nothing to wait for");
    never_shown(&world, &client).await;
}

/// RYOW-8: the writes of one key take the object out and back, and no read shows an earlier state.
#[tokio::test(start_paused = true)]
async fn a_read_waits_for_an_object_that_left_the_selector_and_returned() {
    let world = narrow().await;
    let client = mine(&world);
    leaves(&world, &client, 0).await;
    let back = json!({"metadata": {"labels": {"app": "web"}}, "data": {"k": "v"}});
    client
        .patch::<ConfigMap>(&key("a"), &Patch::Merge(back))
        .await
        .unwrap();
    hears_after(&world, THREE);
    let start = Instant::now();
    let seen = client.get::<ConfigMap>(&key("a")).await.unwrap();
    assert_eq!(seen.data.as_ref().unwrap()["k"], "v");
    assert_eq!(start.elapsed(), THREE);
}

fn secret(name: &str) -> Secret {
    serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": "default"}, "type": "example.com/a",
    }))
    .unwrap()
}

fn deployment(name: &str) -> Deployment {
    serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"a": "b"}},
            "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
    }))
    .unwrap()
}

/// Makes a world that caches a kind with these options, and receives no more events.
async fn under<K: TypedObject + WholeObject<BuiltIn>>(
    by_object: ByObject,
    resource: &str,
    objects: &[K],
) -> World {
    let cache = CacheOptions::new().by_object::<K>(by_object);
    let world = World::with(cache, ClientOptions::new());
    for object in objects {
        world.client.create(object).await.unwrap();
    }
    drop(world.cached::<K>().await);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(world.server.faults().silence_watches_of(resource), 1);
    world
}

fn questions(world: &World, resource: &str) -> Vec<RequestRecord> {
    let requests = world.server.requests();
    requests.matching(|request| request.does(Verb::List) && request.is_for(resource))
}

/// RYOW-8: under a field selector that the client cannot evaluate, reads wait for objects that the cache holds, which
/// change or leave.
#[tokio::test(start_paused = true)]
async fn a_write_under_a_field_selector_is_seen_whether_it_leaves_or_stays() {
    for leaves in [true, false] {
        let by_phase = ByObject::new()
            .fields("status.phase!=Failed")
            .namespaces(["default"]);
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "p", "namespace": "default"},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        }))
        .unwrap();
        let world = under(by_phase, "pods", &[pod]).await;
        let client = mine(&world);
        let pod = client.get::<Pod>(&key("p")).await.unwrap();
        let phase = if leaves { "Failed" } else { "Running" };
        let status = client.status();
        let patched = status.modify(&*pod, |pod| {
            pod.status.get_or_insert_default().phase = Some(phase.to_owned());
        });
        patched.await.unwrap();
        let (before, start) = (reads(&world), Instant::now());
        hears_after(&world, THREE);
        let seen = client.get_opt::<Pod>(&key("p")).await.unwrap();
        let seen = seen.map(|pod| pod.status.as_ref().unwrap().phase.clone().unwrap());
        let expected = (!leaves).then(|| "Running".to_owned());
        assert_eq!((seen, start.elapsed()), (expected, THREE));
        assert_eq!(reads(&world), before, "the server was not asked");
    }
}

/// RYOW-8: if the cache holds nothing under a selector that the client cannot evaluate, the server is asked once.
#[tokio::test(start_paused = true)]
async fn a_create_under_a_field_selector_costs_one_request() {
    for (kind, inside) in [("example.com/a", true), ("example.com/b", false)] {
        let by_type = ByObject::new()
            .fields(format!("type={kind}"))
            .namespaces(["default"]);
        let world = under::<Secret>(by_type, "secrets", &[]).await;
        let client = mine(&world);
        client.create(&secret("s")).await.unwrap();
        world.server.requests().clear();
        let start = Instant::now();
        hears_after(&world, THREE);
        for _ in 0..2 {
            let listed = client.list::<Secret>(&all()).await.unwrap();
            assert_eq!(listed.len(), usize::from(inside));
        }
        let waited = if inside { THREE } else { Duration::ZERO };
        assert_eq!(start.elapsed(), waited);
        let asked = questions(&world, "secrets");
        assert_eq!(asked.len(), 1);
        let fields = asked[0].parameter("fieldSelector").unwrap().to_owned();
        assert!(fields.contains("metadata.name=s") && fields.contains("type="));
    }
}

/// RYOW-8: the informer has passed the write, so no request is sent.
#[tokio::test(start_paused = true)]
async fn a_write_that_the_informer_has_passed_costs_no_request() {
    let by_type = ByObject::new()
        .fields("type=example.com/b")
        .namespaces(["default"]);
    let world = under::<Secret>(by_type, "secrets", &[]).await;
    let client = mine(&world);
    client.create(&secret("s")).await.unwrap();
    world.server.faults().resume_watches();
    let mut other = secret("other");
    other.type_ = Some("example.com/b".to_owned());
    world.client.create(&other).await.unwrap();
    sleep(Duration::from_secs(1)).await;
    world.server.requests().clear();
    let listed = client.list::<Secret>(&all()).await.unwrap();
    assert_eq!((listed.len(), questions(&world, "secrets").len()), (1, 0));
}

/// RYOW-8: a selector of names is evaluated by the key.
#[tokio::test(start_paused = true)]
async fn a_selector_of_names_costs_no_request() {
    let one = ByObject::new().fields("metadata.name=a");
    let cache = CacheOptions::new().by_object::<ConfigMap>(one);
    let world = lagging(cache, ClientOptions::new()).await;
    let client = mine(&world);
    let (before, start) = (reads(&world), Instant::now());
    client.create(&config("b")).await.unwrap();
    let absent = client.get_opt::<ConfigMap>(&key("b")).await.unwrap();
    assert_eq!((absent, start.elapsed()), (None, Duration::ZERO));
    client.create(&config("a")).await.unwrap();
    hears_after(&world, THREE);
    assert_eq!(names(&client).await, ["a"]);
    assert_eq!((start.elapsed(), reads(&world)), (THREE, before));
}

/// RYOW-8: a scale is a write of its object, even if the cache has not seen the object.
#[tokio::test(start_paused = true)]
async fn a_read_waits_for_the_scale_of_an_object_that_the_cache_has_not_seen() {
    let world = under::<Deployment>(ByObject::new(), "deployments", &[]).await;
    world.client.create(&deployment("d")).await.unwrap();
    let client = mine(&world);
    let scale = client.subresource::<Deployment>("scale");
    scale.set_replicas(&key("d"), 3).await.unwrap();
    hears_after(&world, THREE);
    let start = Instant::now();
    let seen = client.get::<Deployment>(&key("d")).await.unwrap();
    assert_eq!(seen.spec.as_ref().unwrap().replicas, Some(3));
    assert_eq!(start.elapsed(), THREE);
}

/// Delivers the waiting events one by one, and reads `a` after each event.
async fn never_shown(world: &World, client: &Client) {
    let (bytes, millis) = (64, 200);
    let slow = FaultSpec::new(Effect::Chunks { bytes, millis });
    let _slow = world.server.faults().add(slow.verb(Verb::Watch)).unwrap();
    world.server.faults().cut_watches_of("configmaps");
    let (start, mut others) = (Instant::now(), 0);
    while start.elapsed() < Duration::from_secs(30) {
        others += names(&world.client).await.len();
        let gone = client.get_opt::<ConfigMap>(&key("a")).await.unwrap();
        assert_eq!(gone, None, "{:?}", start.elapsed());
        assert!(names(client).await.is_empty(), "{:?}", start.elapsed());
        sleep(Duration::from_millis(100)).await;
    }
    assert!(others > 0, "it came, and went");
}

/// RYOW-9: a late ADDED of a deleted object is not shown, however the delete named the object.
#[tokio::test(start_paused = true)]
async fn a_deleted_object_is_not_shown_when_its_arrival_is_late() {
    for how in 0..3 {
        let world = deaf().await;
        let client = mine(&world);
        let made = world.client.create(&config("a")).await.unwrap();
        match how {
            0 => client.delete(&made).await.unwrap(),
            1 => {
                let version = made.stored_version();
                let mut options = DeleteOptions::new();
                options.resource_version = Some(version);
                client
                    .delete_with::<ConfigMap>(&key("a"), &options)
                    .await
                    .unwrap();
            }
            _ => client.delete_key::<ConfigMap>(&key("a")).await.unwrap(),
        }
        let (before, start) = (reads(&world), Instant::now());
        let gone = client.get_opt::<ConfigMap>(&key("a")).await.unwrap();
        assert_eq!((gone, start.elapsed()), (None, Duration::ZERO), "{how}");
        // Without a known version of the deleted object, the server is asked.
        assert_eq!(reads(&world), before + usize::from(how == 2));
        never_shown(&world, &client).await;
    }
}

/// RYOW-7: while a list waits for another write, a deleted object arrives late; the list does not show it.
#[tokio::test(start_paused = true)]
async fn a_list_that_waits_does_not_show_a_late_arrival_of_a_deleted_object() {
    let world = deaf().await;
    let client = mine(&world);
    world.client.create(&config("a")).await.unwrap();
    client.create(&config("b")).await.unwrap();
    client.delete_key::<ConfigMap>(&key("a")).await.unwrap();
    // The ADDED of `a`, the ADDED of `b` and the DELETED of `a` arrive one by one.
    let (bytes, millis) = (64, 200);
    let slow = FaultSpec::new(Effect::Chunks { bytes, millis });
    let _slow = world.server.faults().add(slow.verb(Verb::Watch)).unwrap();
    world.server.faults().cut_watches_of("configmaps");
    let shown_to_others = async {
        while !names(&world.client).await.contains(&"b".to_owned()) {
            sleep(Duration::from_millis(10)).await;
        }
        names(&world.client).await
    };
    let (mine, others) = tokio::join!(names(&client), shown_to_others);
    assert_eq!(others, ["a", "b"], "it came before the other write");
    assert_eq!(mine, ["b"]);
}

/// RYOW-9: an object with a finalizer is deleted at the version in the answer.
#[tokio::test(start_paused = true)]
async fn a_held_object_is_shown_as_terminating_when_its_arrival_is_late() {
    let world = deaf().await;
    let mut held = config("a");
    held.metadata.finalizers = Some(vec!["x.example.com/y".to_owned()]);
    world.client.create(&held).await.unwrap();
    let client = mine(&world);
    client.delete_key::<ConfigMap>(&key("a")).await.unwrap();
    hears_after(&world, THREE);
    let start = Instant::now();
    let going = client.get::<ConfigMap>(&key("a")).await.unwrap();
    assert!(going.metadata.deletion_timestamp.is_some());
    assert_eq!(start.elapsed(), THREE);
}
