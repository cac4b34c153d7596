//! CLIENT-7: a write that was sent is finished and noted, and is never repeated if it may have been executed.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use parking_lot::Mutex;
use prometheus::Registry;
use serde_json::json;
use steersman_api::{DeleteOptions, Patch};
use steersman_apiserver::faults::{Answer, Verb};
use steersman_cache::CacheOptions;
use steersman_client::{
    ClientMetrics, ClientOptions, RequestId, Write, WriteObserver, WriteOutcome, WrittenObject,
};
use steersman_object::{ListOptions, ResourceVersion};
use tokio::time::{Instant, timeout};

use crate::world::{World, config, key, set};

/// A call of an observer: the beginning of a write, or its end.
#[derive(Debug)]
enum Heard {
    Began,
    Done(Option<WrittenObject>),
    Refused(u16),
    Unknown,
}

#[derive(Default)]
struct Ears {
    heard: Mutex<Vec<(Write, Heard)>>,
}

impl WriteObserver for Ears {
    fn began(&self, write: &Write) {
        self.heard.lock().push((write.clone(), Heard::Began));
    }

    fn ended(&self, write: &Write, outcome: &WriteOutcome<'_>) {
        let heard = match outcome {
            WriteOutcome::Done(written) => Heard::Done(written.clone()),
            WriteOutcome::Refused(error) => Heard::Refused(error.code().unwrap_or_default()),
            WriteOutcome::Unknown(_) => Heard::Unknown,
            other => panic!("an outcome that is not known here: {other:?}"),
        };
        self.heard.lock().push((write.clone(), heard));
    }
}

impl Ears {
    fn take(&self) -> Vec<(Write, Heard)> {
        std::mem::take(&mut *self.heard.lock())
    }

    /// Returns the only write since the previous call, from its beginning to its end.
    fn one(&self) -> (Write, Heard) {
        let mut heard = self.take();
        let (write, end) = heard.pop().unwrap();
        let (begun, began) = heard.pop().unwrap();
        assert!(heard.is_empty() && matches!(began, Heard::Began) && begun.id == write.id);
        (write, end)
    }
}

fn world() -> (World, Arc<Ears>) {
    let ears = Arc::<Ears>::default();
    let observer = Arc::clone(&ears);
    let options = ClientOptions::new().observe_writes(observer);
    (World::with(CacheOptions::new(), options), ears)
}

/// CLIENT-7
#[tokio::test(start_paused = true)]
async fn a_write_is_finished_and_noted_after_its_caller_was_dropped() {
    let (world, ears) = world();
    let slow = Duration::from_secs(20);
    let delay = world
        .server
        .faults()
        .delay(Verb::Create, "configmaps", slow);
    let object = config("a");
    let create = world.client.create(&object);
    assert!(timeout(Duration::from_secs(1), create).await.is_err());
    let heard = ears.take();
    assert!(matches!(heard.as_slice(), [(_, Heard::Began)]), "{heard:?}");
    assert!(world.server.get("configmaps", "default", "a").is_none());
    let start = Instant::now();
    world.client.dry_run().writes_finished().await;
    assert_eq!(start.elapsed(), slow - Duration::from_secs(1));
    assert!(world.server.get("configmaps", "default", "a").is_some());
    let heard = ears.take();
    assert!(
        matches!(heard.as_slice(), [(_, Heard::Done(Some(written)))] if written.key == key("a")),
        "{heard:?}"
    );
    drop(delay);
}

#[tokio::test(start_paused = true)]
async fn an_observer_gets_the_object_the_request_and_the_version() {
    let (world, ears) = world();
    let request = RequestId::new("sites", key("front"));
    let client = world.client.for_request(request.clone());
    assert_eq!(client.request(), Some(&request));

    let mut object = config("");
    object.metadata.name = None;
    object.metadata.generate_name = Some("made-".to_owned());
    object.metadata.labels = Some([("l".to_owned(), "1".to_owned())].into());
    let created = client.create(&object).await.unwrap();
    let (write, end) = ears.one();
    assert_eq!((write.verb, write.request), ("create", Some(request)));
    assert_eq!(
        (write.key, write.namespace.as_deref()),
        (None, Some("default"))
    );
    assert_eq!(write.generate_name.as_deref(), Some("made-"));
    assert_eq!(write.kind.plural(), "configmaps");
    let Heard::Done(Some(written)) = end else {
        panic!("{end:?}")
    };
    let name = created.metadata.name.as_deref().unwrap();
    assert_eq!(written.key, key(name));
    assert_eq!(Some(&written.uid), created.metadata.uid.as_ref());
    assert_eq!(
        written.version,
        ResourceVersion::new(created.metadata.resource_version.as_deref().unwrap())
    );
    assert_eq!(written.labels.unwrap()["l"], "1");
    assert!(!written.deleting);

    // A finalizer keeps the object, so the delete is answered with the object at a version.
    client
        .add_finalizer(&created, "x.example.com/y")
        .await
        .unwrap();
    ears.one();
    client.delete_key::<ConfigMap>(&key(name)).await.unwrap();
    let (write, end) = ears.one();
    assert_eq!((write.verb, write.key), ("delete", Some(key(name))));
    assert!(
        matches!(&end, Heard::Done(Some(w)) if w.deleting && w.version.is_exact()),
        "{end:?}"
    );
    // Without a finalizer, the answer to the delete has only the uid.
    let created = client.create(&config("b")).await.unwrap();
    ears.one();
    client.delete(&created).await.unwrap();
    let (_, end) = ears.one();
    let Heard::Done(Some(written)) = end else {
        panic!("{end:?}")
    };
    assert_eq!(written.key, key("b"));
    assert_eq!(Some(&written.uid), created.metadata.uid.as_ref());
    assert!(!written.version.is_exact() && written.labels.is_none());
}

#[tokio::test(start_paused = true)]
async fn an_observer_gets_no_object_if_the_answer_is_about_none() {
    let (world, ears) = world();
    let client = &world.client;
    // The delete of a collection has no single object.
    let (all, options) = (
        ListOptions::new().namespace("default"),
        DeleteOptions::new(),
    );
    let deleted = client.delete_all::<ConfigMap>(&all, &options);
    deleted.await.unwrap();
    let (write, end) = ears.one();
    assert_eq!((write.verb, write.key), ("deletecollection", None));
    assert_eq!(write.generate_name, None);
    assert!(matches!(end, Heard::Done(None)), "{end:?}");

    // A scale has the version of the scaled object. An eviction has no object.
    let deployment: Deployment = serde_json::from_value(json!({
        "metadata": {"name": "d", "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": {"app": "d"}},
            "template": {
                "metadata": {"labels": {"app": "d"}}, "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
    }))
    .unwrap();
    let deployment = client.create(&deployment).await.unwrap();
    ears.one();
    let scale = client.subresource::<Deployment>("scale");
    let scale = scale.set_replicas(&key("d"), 3).await.unwrap();
    let (write, end) = ears.one();
    assert_eq!(write.subresource.as_deref(), Some("scale"));
    assert_eq!(write.kind.plural(), "deployments");
    assert!(
        matches!(&end, Heard::Done(Some(w)) if Some(&w.uid) == deployment.metadata.uid.as_ref()
            && Some(w.version.as_str()) == scale.metadata.resource_version.as_deref()
            && w.labels.is_none()),
        "{end:?}"
    );
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": "p", "namespace": "default"}, "spec": {"containers": [{"name": "c", "image": "i"}]},
    }))
    .unwrap();
    client.create(&pod).await.unwrap();
    ears.one();
    client.evict(&key("p"), &options).await.unwrap();
    let (write, end) = ears.one();
    assert_eq!(write.subresource.as_deref(), Some("eviction"));
    assert!(matches!(end, Heard::Done(None)), "{end:?}");

    // One write is refused, and one request is not sent.
    client
        .delete_key::<ConfigMap>(&key("absent"))
        .await
        .unwrap_err();
    assert!(matches!(ears.one(), (_, Heard::Refused(404))));
    client.create(&ConfigMap::default()).await.unwrap_err();
    client.dry_run().create(&config("c")).await.unwrap();
    assert!(
        ears.take().is_empty(),
        "neither an invalid request nor a dry run is a write"
    );
}

/// CLIENT-7
#[tokio::test(start_paused = true)]
async fn a_write_with_an_unknown_outcome_is_not_sent_again() {
    let (world, ears) = world();
    for (n, code) in [504, 503, 500].into_iter().enumerate() {
        let name = format!("a{n}");
        let lost = Answer::code(code).after_commit().retry_after(1).times(1);
        world
            .server
            .faults()
            .answer(Verb::Create, "configmaps", lost)
            .keep();
        let error = world.client.create(&config(&name)).await.unwrap_err();
        assert!(error.is_outcome_unknown(), "{error}");
        assert!(matches!(ears.one(), (_, Heard::Unknown)));
        // The server executed the create once.
        assert!(world.server.get("configmaps", "default", &name).is_some());
        assert_eq!(world.count(&[Verb::Create]), n + 1);
    }
    // A patch is not repeated either, although a second patch would change nothing.
    let lost = Answer::code(504).after_commit().retry_after(1).times(1);
    world
        .server
        .faults()
        .answer(Verb::Patch, "configmaps", lost)
        .keep();
    let patch = Patch::Merge(json!({"data": {"k": "1"}}));
    let error = world
        .client
        .patch::<ConfigMap>(&key("a0"), &patch)
        .await
        .unwrap_err();
    assert!(error.is_outcome_unknown(), "{error}");
    assert_eq!(world.count(&[Verb::Patch]), 1);
}

/// CLIENT-7
#[tokio::test(start_paused = true)]
async fn throttled_requests_are_sent_again_also_creates() {
    let registry = Registry::new();
    let ears = Arc::<Ears>::default();
    let observer = Arc::clone(&ears);
    let metrics = ClientMetrics::register(&registry).unwrap();
    let options = ClientOptions::new()
        .observe_writes(observer)
        .metrics(metrics);
    let world = World::with(CacheOptions::new(), options);
    let throttle = |verb| {
        let busy = Answer::code(429).retry_after(3).times(2);
        world
            .server
            .faults()
            .answer(verb, "configmaps", busy)
            .keep();
    };
    let start = Instant::now();
    let after = |seconds| assert_eq!(start.elapsed(), Duration::from_secs(seconds));
    throttle(Verb::Create);
    let created = world.client.create(&config("a")).await.unwrap();
    after(6);
    let heard = ears.take();
    assert_eq!(heard.len(), 6, "each attempt begins and ends: {heard:?}");
    let mut changed = created.clone();
    set(&mut changed, "k", "1");
    throttle(Verb::Update);
    world.client.update(&changed).await.unwrap();
    after(12);
    throttle(Verb::Get);
    let live = world.client.live();
    live.get::<ConfigMap>(&key("a")).await.unwrap();
    after(18);
    throttle(Verb::Patch);
    let add = Patch::Json(json!([{"op": "add", "path": "/data/j", "value": "1"}]));
    let key_a = key("a");
    let patched = world.client.patch::<ConfigMap>(&key_a, &add);
    patched.await.unwrap();
    after(24);
    throttle(Verb::Delete);
    world
        .client
        .delete_key::<ConfigMap>(&key("a"))
        .await
        .unwrap();
    after(30);
    let mut counted = Vec::new();
    let mut families = registry.gather();
    families.retain(|f| f.name() == "rest_client_request_retries_total");
    for metric in families.iter().flat_map(|family| family.get_metric()) {
        let labels: Vec<&str> = metric.get_label().iter().map(|l| l.value()).collect();
        let count = metric.get_counter().get_value();
        counted.push(format!("{} {} {count}", labels[0], labels[2]));
    }
    counted.sort();
    assert_eq!(
        counted,
        [
            "429 DELETE 2", "429 GET 2", "429 PATCH 2", "429 POST 2", "429 PUT 2"
        ]
    );
    let families = registry.gather();
    let waits = families
        .iter()
        .filter(|family| family.name() == "steersman_request_retry_wait_seconds")
        .flat_map(|family| family.get_metric());
    let waited: f64 = waits
        .map(|wait| wait.get_histogram().get_sample_sum())
        .sum();
    assert_eq!(waited, 30.0, "in seconds: two waits of three seconds each");
}

/// CLIENT-7
#[tokio::test(start_paused = true)]
async fn a_read_is_sent_again_where_a_5xx_says_when_and_a_write_is_not() {
    let (world, _ears) = world();
    let start = Instant::now();
    for verb in [Verb::Get, Verb::Create] {
        let away = Answer::code(503).retry_after(2).times(2);
        let faults = world.server.faults();
        faults.answer(verb, "configmaps", away).keep();
    }
    let live = world.client.live();
    let error = live.get::<ConfigMap>(&key("a")).await.unwrap_err();
    assert!(error.is_not_found(), "{error}");
    assert_eq!(start.elapsed(), Duration::from_secs(4));
    let error = world.client.create(&config("a")).await.unwrap_err();
    assert!(error.is_outcome_unknown(), "{error}");
    assert_eq!(world.count(&[Verb::Create]), 1);
    assert_eq!(start.elapsed(), Duration::from_secs(4));
}

#[tokio::test(start_paused = true)]
async fn the_request_timeout_is_set_per_client_or_per_call() {
    let (world, ears) = world();
    let limit = Duration::from_secs(5);
    let swallowed = world.server.faults().swallow_everything();
    let start = Instant::now();
    let quick = world.client.request_timeout(limit);
    let error = quick.live().get::<ConfigMap>(&key("a")).await.unwrap_err();
    assert!(
        error.to_string().contains("no answer within 5 s"),
        "{error}"
    );
    assert_eq!(start.elapsed(), limit);
    let error = quick.create(&config("a")).await.unwrap_err();
    assert!(error.is_outcome_unknown(), "{error}");
    assert!(matches!(ears.one(), (_, Heard::Unknown)));
    assert_eq!(start.elapsed(), limit * 2);
    // The client from which the copy was made keeps its own limit.
    let live = world.client.live();
    let error = live.get::<ConfigMap>(&key("a")).await.unwrap_err();
    assert!(
        error.to_string().contains("no answer within 65 s"),
        "{error}"
    );
    assert_eq!(start.elapsed(), limit * 2 + Duration::from_secs(65));
    for endless in [Duration::ZERO, Duration::MAX] {
        let patient = world.client.request_timeout(endless);
        let live = patient.live();
        let key = key("a");
        let read = live.get::<ConfigMap>(&key);
        let hour = Duration::from_secs(3600);
        assert!(timeout(hour, read).await.is_err());
    }
    drop(swallowed);
}

#[tokio::test(start_paused = true)]
async fn repetitions_end_with_the_limit() {
    let world = World::with(
        CacheOptions::new(),
        ClientOptions::new().retry_after_limit(Duration::from_secs(5)),
    );
    let busy = Answer::code(429).retry_after(2);
    world
        .server
        .faults()
        .answer(Verb::List, "configmaps", busy)
        .keep();
    let start = Instant::now();
    let list = world.client.live();
    let error = list
        .list::<ConfigMap>(&ListOptions::new())
        .await
        .unwrap_err();
    assert!(error.api().unwrap().is_throttled(), "{error}");
    assert_eq!(start.elapsed(), Duration::from_secs(4));
    assert_eq!(world.count(&[Verb::List]), 3);
}

/// CLIENT-7
#[tokio::test(start_paused = true)]
async fn a_write_without_an_answer_has_an_unknown_outcome() {
    let (world, ears) = world();
    let swallowed = world.server.faults().swallow_everything();
    let error = world.client.create(&config("a")).await.unwrap_err();
    assert!(
        error.api().unwrap().is_transport() && error.is_outcome_unknown(),
        "{error}"
    );
    assert!(matches!(ears.one(), (_, Heard::Unknown)));
    drop(swallowed);
    world.client.create(&config("a")).await.unwrap();
}

struct Panics;

impl WriteObserver for Panics {
    fn began(&self, write: &Write) {
        panic!("cannot hear the beginning of {}", write.verb);
    }

    fn ended(&self, write: &Write, _: &WriteOutcome<'_>) {
        panic!("cannot hear the end of {}", write.verb);
    }
}

/// MGR-7
#[tokio::test(start_paused = true)]
async fn a_panic_of_an_observer_affects_neither_the_write_nor_other_observers() {
    let ears = Arc::<Ears>::default();
    let observer = Arc::clone(&ears);
    let options = ClientOptions::new()
        .observe_writes(Arc::new(Panics))
        .observe_writes(observer);
    let world = World::with(CacheOptions::new(), options);
    let client = world.client.for_request(RequestId::new("sites", key("a")));
    let _events = world.cached::<ConfigMap>().await;
    client.create(&config("a")).await.unwrap();
    let (_, end) = ears.one();
    assert!(matches!(end, Heard::Done(Some(_))), "{end:?}");
    // RYOW-1: the write is noted for reads of the same request after the observers were called.
    assert!(
        client
            .get_opt::<ConfigMap>(&key("a"))
            .await
            .unwrap()
            .is_some()
    );
    client.writes_finished().await;
}

// CTRL-9
#[tokio::test(start_paused = true)]
async fn a_client_that_counts_apart_waits_for_its_own_writes_only() {
    let world = World::new();
    let slow = Duration::from_secs(20);
    let _delay = world
        .server
        .faults()
        .delay(Verb::Create, "configmaps", slow);
    let part = world.client.counting_apart();
    let inner = part.counting_apart();
    let create = |client: &steersman_client::Client, name: &str| {
        let (client, object) = (client.clone(), config(name));
        tokio::spawn(async move { client.create(&object).await })
    };
    let outside = create(&world.client, "outside");
    let requests = world.server.requests();
    requests.wait_for(1, |r| r.does(Verb::Create)).await;
    let start = Instant::now();
    part.writes_finished().await;
    assert_eq!(start.elapsed(), Duration::ZERO);
    tokio::time::sleep(Duration::from_secs(5)).await;
    let within = create(&inner.field_manager("other"), "within");
    requests.wait_for(2, |r| r.does(Verb::Create)).await;
    part.writes_finished().await;
    assert_eq!(start.elapsed(), slow + Duration::from_secs(5));
    world.client.writes_finished().await;
    assert!(outside.await.unwrap().is_ok() && within.await.unwrap().is_ok());
}
