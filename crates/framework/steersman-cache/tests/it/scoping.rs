//! The requests that follow from namespaces and selectors in the options.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret, Service};
use kube_core::DynamicObject;
use serde_json::json;
use steersman_cache::{
    ByObject, CacheOptions, Error, ListOptions, Settings, Transform, Undeclared,
};
use steersman_informer::{Delivery, Origin, Subscription};
use steersman_object::{FieldSelector, Kind, LabelSelector};

use crate::world::{World, asked, initial, key, soon};

/// Creates a world that has synced the ConfigMaps.
async fn synced(options: CacheOptions) -> World {
    let mut world = World::new(options);
    for (namespace, name) in [("a", "in-a"), ("b", "in-b"), ("default", "elsewhere")] {
        world.config_map(namespace, name, &json!({"app": "web"}));
    }
    world.cache.informers::<ConfigMap>().unwrap();
    world.start();
    world.cache.wait_for_sync().await.unwrap();
    world
}

#[tokio::test(start_paused = true)]
async fn the_most_specific_selector_applies() {
    let options = CacheOptions::new()
        .defaults(
            Settings::new()
                .labels("from=defaults")
                .fields("metadata.name!=d"),
        )
        .default_namespace("a", Settings::new().labels("from=namespace"))
        .default_namespace("b", Settings::new());
    let world = synced(options.clone()).await;
    let expected = [
        "a[from=namespace][metadata.name!=d]",
        "b[from=defaults][metadata.name!=d]",
    ];
    assert_eq!(asked(&world, "configmaps"), expected);
    world.stop().await.unwrap();

    // The kind overrides the default namespace; its own namespace overrides the kind.
    let by_object = ByObject::new()
        .labels("from=kind")
        .namespace("a", Settings::new().labels("from=here"))
        .namespace("b", Settings::new().all_fields());
    let world = synced(options.clone().by_object::<ConfigMap>(by_object)).await;
    let expected = ["a[from=here][metadata.name!=d]", "b[from=kind][]"];
    assert_eq!(asked(&world, "configmaps"), expected);
    world.stop().await.unwrap();

    // An opt-out overrides an inherited value.
    let all = Settings::new().all_labels().all_fields();
    let by_object = ByObject::new().settings(all);
    let world = synced(options.by_object::<ConfigMap>(by_object)).await;
    assert_eq!(asked(&world, "configmaps"), ["a[][]", "b[][]"]);
    world.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_cluster_scoped_kind_ignores_default_namespaces() {
    let options = CacheOptions::new()
        .defaults(Settings::new().labels("a=b"))
        .default_namespace("a", Settings::new().labels("c=d"));
    let mut world = World::new(options);
    world.cache.informer::<Namespace>().unwrap();
    world.start();
    world.cache.wait_for_sync().await.unwrap();
    assert_eq!(asked(&world, "namespaces"), ["*[a=b][]"]);
    world.stop().await.unwrap();
}

/// CACHE-1
#[tokio::test(start_paused = true)]
async fn other_namespaces_are_requested_without_the_named_ones() {
    let by_object = ByObject::new()
        .namespace("a", Settings::new().labels("app=web"))
        .namespace("b", Settings::new().labels("app=none"))
        .other_namespaces(Settings::new().fields("metadata.name!=x"));
    let world = synced(CacheOptions::new().by_object::<ConfigMap>(by_object)).await;
    let excluded = "metadata.name!=x,metadata.namespace!=a,metadata.namespace!=b";
    let expected = [
        format!("*[][{excluded}]"),
        "a[app=web][]".into(),
        "b[app=none][]".into(),
    ];
    assert_eq!(asked(&world, "configmaps"), expected);
    // A read of the kind covers several informers.
    let reads = world.cache.of::<ConfigMap>(&Kind::of::<ConfigMap>());
    let listed = reads.list(&ListOptions::new()).await.unwrap();
    let mut names: Vec<&str> = listed
        .iter()
        .filter_map(|m| m.metadata.name.as_deref())
        .collect();
    names.sort_unstable();
    names.retain(|name| !name.starts_with("kube-"));
    assert_eq!(names, ["elsewhere", "in-a"]);
    assert_eq!(listed.versions.len(), 3);
    assert!(reads.get(&key("default", "elsewhere")).await.is_ok());
    let hidden = reads.get(&key("b", "in-b")).await.unwrap_err();
    assert_eq!(hidden.scoped_by(), Some("labels \"app=none\""));
    world.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_field_selector_for_one_namespace_becomes_a_watch_of_that_namespace() {
    let fields = FieldSelector::new()
        .equals("metadata.namespace", "a")
        .not_equals("metadata.name", "x");
    let by_object = ByObject::new().fields(fields);
    let world = synced(CacheOptions::new().by_object::<ConfigMap>(by_object)).await;
    assert_eq!(asked(&world, "configmaps"), ["a[][metadata.name!=x]"]);
    let error = world
        .cache
        .get::<ConfigMap>(&key("b", "in-b"))
        .await
        .unwrap_err();
    assert!(error.is_outside_scope(), "{error}");
    world.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_typed_selector_is_sent_in_its_text_form() {
    let by_object = ByObject::new().labels(LabelSelector::label("app", "web"));
    let world = synced(CacheOptions::new().by_object::<ConfigMap>(by_object)).await;
    assert_eq!(asked(&world, "configmaps"), ["*[app=web][]"]);
    world.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn without_bookmarks_none_are_requested_and_lists_are_not_streamed() {
    for on in [true, false] {
        let options = CacheOptions::new().defaults(Settings::new().bookmarks(on));
        let world = synced(options).await;
        let requests = world.server.requests().matching(|r| r.is_for("configmaps"));
        let bookmarks = |r: &&steersman_apiserver::faults::RequestRecord| {
            r.parameter("allowWatchBookmarks") == Some("true")
        };
        assert_eq!(requests.iter().filter(bookmarks).count(), usize::from(on));
        assert_eq!(
            world.server.requests().watch_lists("configmaps"),
            usize::from(on)
        );
        world.stop().await.unwrap();
    }
}

async fn next_origin(subscription: &mut Subscription<ConfigMap>) -> Option<Origin> {
    let hours = Duration::from_secs(24 * 3600);
    match tokio::time::timeout(hours, subscription.next())
        .await
        .ok()?
    {
        Some(Delivery::Event(event)) => Some(event.origin()),
        _ => None,
    }
}

#[tokio::test(start_paused = true)]
async fn a_resync_repeats_every_object_at_about_the_set_interval() {
    let every = Duration::from_secs(3600);
    let mut gaps = Vec::new();
    for namespace in ["a", "b"] {
        let options = CacheOptions::new()
            .defaults(Settings::new().resync(every))
            .default_namespaces([namespace]);
        let world = synced(options).await;
        let mut events = world.cache.informer::<ConfigMap>().unwrap().subscribe();
        initial(&mut events).await;
        let before = tokio::time::Instant::now();
        assert_eq!(next_origin(&mut events).await, Some(Origin::Resync));
        let gap = before.elapsed();
        assert!(
            gap > every.mul_f64(0.89) && gap < every.mul_f64(1.11),
            "{gap:?}"
        );
        gaps.push(gap);
        world.stop().await.unwrap();
    }
    assert_ne!(gaps[0], gaps[1], "informers spread their resyncs");
    let options = CacheOptions::new().defaults(Settings::new().resync(every));
    let none = ByObject::new().settings(Settings::new().no_resync());
    let world = synced(options.by_object::<ConfigMap>(none)).await;
    let mut events = world.cache.informer::<ConfigMap>().unwrap().subscribe();
    initial(&mut events).await;
    assert_eq!(next_origin(&mut events).await, None);
    world.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn managed_fields_are_kept_only_for_kinds_that_set_the_option() {
    let keep = ByObject::new().settings(Settings::new().keep_managed_fields(true));
    for (options, kept) in [
        (CacheOptions::new(), false),
        (CacheOptions::new().by_object::<ConfigMap>(keep), true),
    ] {
        let world = synced(options).await;
        let map = world
            .cache
            .get::<ConfigMap>(&key("a", "in-a"))
            .await
            .unwrap();
        assert_eq!(map.metadata.managed_fields.is_some(), kept);
        world.stop().await.unwrap();
    }
}

fn mark() -> Transform {
    Transform::typed("mark", |map: &mut ConfigMap| {
        if map.metadata.name.as_deref() == Some("in-b") {
            return Err("not this one");
        }
        map.data = Some([("marked".to_owned(), "yes".to_owned())].into());
        Ok(())
    })
}

#[tokio::test(start_paused = true)]
async fn a_transform_changes_every_read_and_its_failures_are_malformed_objects() {
    let options = CacheOptions::new().by_object::<ConfigMap>(ByObject::new().transform(mark()));
    let world = synced(options).await;
    let kind = Kind::of::<ConfigMap>();
    assert_eq!(world.cache.transformed(&kind).as_deref(), Some("mark"));
    let map = world
        .cache
        .get::<ConfigMap>(&key("a", "in-a"))
        .await
        .unwrap();
    assert_eq!(map.data.as_ref().unwrap()["marked"], "yes");
    let dynamic = world.cache.of::<DynamicObject>(&kind);
    let any = dynamic.get(&key("a", "in-a")).await.unwrap();
    assert_eq!(any.data["data"]["marked"], "yes");
    let error = world
        .cache
        .get::<ConfigMap>(&key("b", "in-b"))
        .await
        .unwrap_err();
    assert!(error.is_malformed(), "{error}");
    assert!(
        error
            .to_string()
            .contains("the transform \"mark\" failed: not this one"),
        "{error}"
    );
    assert!(
        dynamic
            .get(&key("b", "in-b"))
            .await
            .unwrap_err()
            .is_malformed()
    );
    world.stop().await.unwrap();

    // The identity transform replaces a default transform.
    let options = CacheOptions::new()
        .defaults(Settings::new().transform(mark()))
        .by_object::<ConfigMap>(ByObject::new().transform(Transform::identity()));
    let world = synced(options).await;
    assert_eq!(world.cache.transformed(&kind), None);
    let map = world
        .cache
        .get::<ConfigMap>(&key("b", "in-b"))
        .await
        .unwrap();
    assert_eq!(map.data, None);
    world.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn undeclared_reads_start_an_informer_fail_or_are_live() {
    let read = async |undeclared| {
        let mut world = World::new(CacheOptions::new().on_undeclared(undeclared));
        world.start();
        let cached = world.cache.typed::<Service>().is_cached();
        let read = soon(world.cache.list::<Service>(&ListOptions::new())).await;
        (world, cached, read.map(drop))
    };
    let (world, cached, answer) = read(Undeclared::Start).await;
    assert!(cached && answer.is_ok());
    assert_eq!(asked(&world, "services").len(), 1);

    let (world, cached, answer) = read(Undeclared::Fail).await;
    let error = answer.unwrap_err();
    assert!(
        cached && matches!(error, Error::NotDeclared { .. }),
        "{error}"
    );
    assert!(
        error.to_string().contains(".by_object::<Service>("),
        "{error}"
    );
    assert!(asked(&world, "services").is_empty());
    world.cache.informer::<Service>().unwrap();
    soon(world.cache.list::<Service>(&ListOptions::new()))
        .await
        .unwrap();

    let (world, cached, answer) = read(Undeclared::Live).await;
    assert!(!cached && matches!(answer, Err(Error::NotCached { .. })));
    assert!(asked(&world, "services").is_empty());
    // A kind that a controller declared is cached, so reads are served from memory.
    world.cache.informer::<Service>().unwrap();
    assert!(world.cache.typed::<Service>().is_cached());
    soon(world.cache.list::<Service>(&ListOptions::new()))
        .await
        .unwrap();
}

#[test]
fn disabling_a_kind_keeps_its_other_options() {
    let before = CacheOptions::new()
        .by_object::<Secret>(ByObject::new().labels("a=b"))
        .disable_for::<Secret>();
    let after = CacheOptions::new()
        .disable_for::<Secret>()
        .by_object::<Secret>(ByObject::new().labels("a=b"));
    for options in [before, after] {
        let options = options.disable_for::<Service>();
        let cache = steersman_cache::Cache::new(options).unwrap();
        assert!(!cache.typed::<Secret>().is_cached() && !cache.typed::<Service>().is_cached());
        assert!(cache.typed::<ConfigMap>().is_cached());
        let kind = Kind::of::<Secret>();
        assert_eq!(cache.scoped_by(&kind).as_deref(), Some("labels \"a=b\""));
    }
}

#[test]
fn contradictory_settings_are_refused_at_every_level() {
    let refused = |options: CacheOptions| {
        let refused = steersman_cache::Cache::new(options).map(drop);
        refused.unwrap_err().to_string()
    };
    let bad = Settings::new().labels("a in b");
    for options in [
        CacheOptions::new().defaults(bad.clone()),
        CacheOptions::new().default_namespace("a", bad.clone()),
        CacheOptions::new().by_object::<Secret>(ByObject::new().namespace("a", bad.clone())),
        CacheOptions::new().by_object::<Secret>(ByObject::new().other_namespaces(bad)),
    ] {
        let text = refused(options);
        assert!(text.contains("\"a in b\""), "{text}");
    }
    let others = ByObject::new().other_namespaces(Settings::new());
    let text = refused(CacheOptions::new().by_object::<Namespace>(others));
    assert!(text.contains("cluster-scoped"), "{text}");
}

/// A read of several informers applies the limit to their sum, and returns each value of an index once.
#[tokio::test(start_paused = true)]
async fn limits_and_index_values_span_all_informers_of_a_kind() {
    let by_object = ByObject::new().namespaces(["b", "a"]);
    let mut world = World::new(CacheOptions::new().by_object::<ConfigMap>(by_object));
    for (namespace, name, app) in [
        ("a", "one", "web"),
        ("a", "two", "db"),
        ("b", "three", "web"),
        ("b", "four", "cron"),
    ] {
        world.config_map(namespace, name, &json!({"app": app}));
    }
    world.cache.index_label::<ConfigMap>("app").unwrap();
    world.start();
    soon(world.cache.wait_for_sync()).await.unwrap();
    let kind = Kind::of::<ConfigMap>();
    let reads = world.cache.of::<ConfigMap>(&kind);
    let values = reads.index_values("app").await.unwrap();
    let values: Vec<&str> = values.iter().map(|value| &**value).collect();
    assert_eq!(values, ["cron", "db", "web"]);
    for limit in 0..6 {
        let some = ListOptions::new().limit(limit);
        let expected = limit.min(4);
        assert_eq!(reads.list(&some).await.unwrap().len(), expected);
        assert_eq!(reads.keys(&some).await.unwrap().len(), expected);
        let web = some.index("app", "web");
        assert_eq!(reads.keys(&web).await.unwrap().len(), limit.min(2));
        // The limit also applies to reads without a view.
        let dynamic = world.cache.of::<DynamicObject>(&kind);
        let some = ListOptions::new().limit(limit);
        let mut passed = 0;
        dynamic.for_each(&some, |_| passed += 1).await.unwrap();
        assert_eq!(passed, expected);
    }
    // Cluster-scoped objects are part of a list of any namespace.
    let everything = ListOptions::new();
    let all = soon(world.cache.list::<Namespace>(&everything)).await;
    let all = all.unwrap().len();
    let in_a = ListOptions::new().namespace("a");
    let found = world.cache.list::<Namespace>(&in_a).await.unwrap().len();
    assert_eq!(found, all);
    world.stop().await.unwrap();
}

/// A missing declaration is logged once, with the location of the read.
#[tokio::test(start_paused = true)]
async fn undeclared_reads_of_a_kind_are_logged_once() {
    let log = steersman_testenv::log::capture();
    let mut world = World::new(CacheOptions::new());
    world.start();
    for _ in 0..3 {
        let all = ListOptions::new();
        soon(world.cache.list::<Service>(&all)).await.unwrap();
    }
    let text = log.text();
    assert_eq!(
        text.matches("an undeclared read started").count(),
        1,
        "{text}"
    );
    assert!(text.contains("scoping.rs"), "{text}");
    world.stop().await.unwrap();
}
