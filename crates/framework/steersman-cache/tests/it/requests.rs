//! The effect of each option on the requests in the server's log; [`scoping`](super::scoping) tests
//! selectors and their inheritance.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Service};
use kube_core::DynamicObject;
use serde_json::json;
use steersman_api::{ClientConfig, kube_client};
use steersman_apiserver::faults::{Answer, RequestRecord, Verb};
use steersman_cache::internal::{CacheInternals as _, LiveList};
use steersman_cache::{ByObject, CacheOptions, ListOptions, Settings, Transform};
use steersman_informer::{Delivery, Origin};
use steersman_object::{Gvk, Kind, Scope};
use tower::util::MapRequestLayer;

use crate::world::{World, asked, initial, key, soon};

/// Creates a world that caches the ConfigMaps.
async fn cached(options: CacheOptions) -> World {
    let mut world = World::new(options);
    world.cache.informers::<ConfigMap>().unwrap();
    world.start();
    soon(world.cache.wait_for_sync()).await.unwrap();
    world
}

/// Returns the requests for ConfigMaps, oldest first.
fn requests(world: &World) -> Vec<RequestRecord> {
    let requests = world.server.requests();
    requests.matching(|r| r.is_for("configmaps"))
}

/// Waits until the first watch has opened, which is after the sync.
async fn watching() {
    tokio::time::sleep(Duration::from_secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn each_default_namespace_is_requested_and_a_kind_may_override_them() {
    let options = || CacheOptions::new().default_namespaces(["b", "a"]);
    let world = cached(options()).await;
    assert_eq!(asked(&world, "configmaps"), ["a[][]", "b[][]"]);
    world.stop().await.unwrap();

    let all = ByObject::new().all_namespaces();
    let world = cached(options().by_object::<ConfigMap>(all)).await;
    assert_eq!(asked(&world, "configmaps"), ["*[][]"]);
    world.stop().await.unwrap();

    let one = ByObject::new().namespaces(["default"]);
    let world = cached(options().by_object::<ConfigMap>(one)).await;
    assert_eq!(asked(&world, "configmaps"), ["default[][]"]);
    world.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn default_other_namespaces_are_requested_without_the_named_ones() {
    let options = CacheOptions::new()
        .default_namespace("a", Settings::new().labels("app=web"))
        .default_other_namespaces(Settings::new().labels("app=other"));
    let mut world = World::new(options);
    world.cache.informers::<ConfigMap>().unwrap();
    world.cache.informers::<Namespace>().unwrap();
    world.start();
    soon(world.cache.wait_for_sync()).await.unwrap();
    let expected = ["*[app=other][metadata.namespace!=a]", "a[app=web][]"];
    assert_eq!(asked(&world, "configmaps"), expected);
    assert_eq!(asked(&world, "namespaces"), ["*[][]"]);
    world.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_kind_known_only_at_runtime_is_requested_by_its_options() {
    let gvk = Gvk::new("web.example.com", "v1", "Website");
    let websites = Kind::new(gvk, "websites", Scope::Namespaced);
    let in_a = ByObject::new().namespaces(["a"]).labels("app=web");
    let mut world = World::new(CacheOptions::new().by_kind(&websites, in_a));
    world.install_websites();
    world.start();
    let reads = world.cache.of::<DynamicObject>(&websites);
    soon(reads.list(&ListOptions::new())).await.unwrap();
    assert_eq!(asked(&world, "websites"), ["a[app=web][]"]);
    world.stop().await.unwrap();
}

/// An uncached kind is requested by a watch, and not by a read.
#[tokio::test(start_paused = true)]
async fn an_uncached_kind_is_requested_only_by_watchers() {
    for options in [
        CacheOptions::new().disable_for::<Service>(),
        CacheOptions::new().by_object::<Service>(ByObject::new().uncached()),
    ] {
        let mut world = World::new(options);
        world.start();
        let read = soon(world.cache.get::<Service>(&key("a", "s"))).await;
        assert!(read.is_err());
        let kind = Kind::of::<Service>();
        let subscribed = world.cache.of::<Service>(&kind).subscribe();
        assert!(
            subscribed.is_err(),
            "a subscription does not declare the kind"
        );
        assert!(asked(&world, "services").is_empty());
        let mut watched = world.cache.informer::<Service>().unwrap().subscribe();
        assert_eq!(soon(initial(&mut watched)).await, 0);
        assert_eq!(asked(&world, "services"), ["*[][]"]);
        world.stop().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn lists_are_streamed_or_paged() {
    let world = cached(CacheOptions::new()).await;
    watching().await;
    let [streamed] = &requests(&world)[..] else {
        panic!("{:?}", requests(&world));
    };
    assert!(streamed.watch_list);
    let parameter = |name| streamed.parameter(name);
    assert_eq!(parameter("resourceVersionMatch"), Some("NotOlderThan"));
    assert_eq!(parameter("allowWatchBookmarks"), Some("true"));
    world.stop().await.unwrap();

    let world = cached(CacheOptions::new().watch_list(false)).await;
    watching().await;
    let [list, watch] = &requests(&world)[..] else {
        panic!("{:?}", requests(&world));
    };
    assert!(list.does(Verb::List) && watch.does(Verb::Watch) && !watch.watch_list);
    let of_list = (list.parameter("resourceVersion"), list.parameter("limit"));
    assert_eq!(of_list, (Some("0"), Some("500")));
    let after = watch.parameter("resourceVersion").unwrap();
    assert!(after.parse::<u64>().unwrap() > 0, "{after}");
    world.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_most_specific_page_size_applies() {
    let limits = async |options: CacheOptions| {
        let world = cached(options.watch_list(false)).await;
        let lists = requests(&world).into_iter().filter(|r| r.does(Verb::List));
        let limits = lists.map(|list| list.parameter("limit").map(str::to_owned));
        let limits: Vec<_> = limits.collect();
        world.stop().await.unwrap();
        limits
    };
    let two = || CacheOptions::new().defaults(Settings::new().page_size(2));
    let limit = |limit: &str| Some(limit.to_owned());
    assert_eq!(limits(CacheOptions::new()).await, [limit("500")]);
    assert_eq!(limits(two()).await, [limit("2")]);
    let all = ByObject::new().settings(Settings::new().page_size(0));
    assert_eq!(limits(two().by_object::<ConfigMap>(all)).await, [None]);
}

/// Settings of an earlier call remain if a later call does not set them.
#[tokio::test(start_paused = true)]
async fn later_settings_add_to_earlier_ones() {
    let all_at_once = Settings::new().page_size(0);
    let by_object = ByObject::new()
        .labels("app=web")
        .fields("metadata.name=c")
        .settings(all_at_once.clone().labels("app=shop"));
    let options = CacheOptions::new()
        .defaults(Settings::new().labels("app=other"))
        .defaults(all_at_once)
        .watch_list(false);
    let mut world = World::new(options.by_object::<ConfigMap>(by_object));
    world.cache.informers::<ConfigMap>().unwrap();
    world.cache.informers::<Service>().unwrap();
    world.start();
    soon(world.cache.wait_for_sync()).await.unwrap();
    let maps = asked(&world, "configmaps");
    assert_eq!(maps[0], "*[app=shop][metadata.name=c]");
    assert_eq!(asked(&world, "services")[0], "*[app=other][]");
    world.stop().await.unwrap();
}

/// A subscriber that takes no events has, beyond the bound, one event per existing object.
#[tokio::test(start_paused = true)]
async fn a_mailbox_coalesces_events_beyond_its_bound() {
    let bound = Settings::new().mailbox_bound(4);
    let world = cached(CacheOptions::new().defaults(bound)).await;
    let mut subscription = world.cache.informer::<ConfigMap>().unwrap().subscribe();
    assert_eq!(soon(initial(&mut subscription)).await, 0);
    for name in ["c", "d"] {
        world.config_map("a", name, &json!({}));
    }
    let store = world.cache.informer::<ConfigMap>().unwrap().store();
    for value in 0..10 {
        for name in ["c", "d"] {
            let change = json!({
                "apiVersion": "v1", "kind": "ConfigMap", "data": {"v": value.to_string()},
                "metadata": {"namespace": "a", "name": name},
            });
            world.server.update("configmaps", change).unwrap();
        }
    }
    let last = || {
        let map = store.get(&key("a", "d"))?;
        map.data.as_ref()?.get("v").cloned()
    };
    while last().as_deref() != Some("9") {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(subscription.waiting(), 2);
    world.stop().await.unwrap();
}

/// Two caches with the same seed request watches of the same durations, which differ between informers.
#[tokio::test(start_paused = true)]
async fn a_seed_decides_how_long_watches_last() {
    let lengths = async |seed: u64| {
        let options = CacheOptions::new().default_namespaces(["a", "b", "default"]);
        let cache = steersman_cache::Cache::new(options.seed(seed)).unwrap();
        let server = steersman_apiserver::ApiServer::new();
        cache.informers::<ConfigMap>().unwrap();
        let client_config = ClientConfig::in_process(server.service(), "default");
        let running = tokio::spawn(cache.run(client_config, Default::default()));
        soon(cache.wait_for_sync()).await.unwrap();
        running.abort();
        let asked = server.requests().matching(|r| r.is_for("configmaps"));
        let lengths = asked.iter().map(|request| {
            let seconds: u64 = request.parameter("timeoutSeconds")?.parse().ok()?;
            Some((request.namespace.clone(), seconds))
        });
        let mut lengths: Vec<_> = lengths.collect::<Option<_>>().unwrap();
        lengths.sort();
        lengths
    };
    let (one, again, another) = (lengths(1).await, lengths(1).await, lengths(2).await);
    assert_eq!(one, again);
    assert_ne!(one, another);
    assert!(one.windows(2).any(|two| two[0].1 != two[1].1), "{one:?}");
    for (_, seconds) in one.iter().chain(&another) {
        assert!((270..=290).contains(seconds), "{one:?} {another:?}");
    }
}

/// A resync sends no request and does not change the watches.
#[tokio::test(start_paused = true)]
async fn a_resync_sends_no_request() {
    let every = Duration::from_secs(20);
    let world = cached(CacheOptions::new().defaults(Settings::new().resync(every))).await;
    world.config_map("a", "c", &json!({}));
    let mut events = world.cache.informer::<ConfigMap>().unwrap().subscribe();
    watching().await;
    let before = requests(&world).len();
    let mut resynced = 0;
    while resynced < 5 {
        if let Delivery::Event(event) = soon(events.next()).await.unwrap() {
            resynced += usize::from(event.origin() == Origin::Resync);
        }
    }
    assert_eq!(requests(&world).len(), before);
    world.stop().await.unwrap();
}

/// A metadata-only reader requests metadata only, unless a transform needs whole objects.
#[tokio::test(start_paused = true)]
async fn metadata_is_requested_until_a_reader_needs_whole_objects() {
    let whole = |_: &mut ConfigMap| Ok::<_, std::convert::Infallible>(());
    let seen_whole = Settings::new().transform(Transform::typed("whole", whole));
    for (settings, is_metadata) in [
        (Settings::new(), true),
        (Settings::new().keep_managed_fields(true), true),
        (Settings::new().transform(Transform::identity()), true),
        (seen_whole, false),
    ] {
        for watch_list in [true, false] {
            let options = CacheOptions::new().defaults(settings.clone());
            let mut world = World::new(options.watch_list(watch_list));
            world.cache.metadata::<ConfigMap>().informers().unwrap();
            world.start();
            soon(world.cache.wait_for_sync()).await.unwrap();
            watching().await;
            let asked = requests(&world);
            assert_eq!(asked.len(), if watch_list { 1 } else { 2 });
            let metadata = asked.iter().all(RequestRecord::is_metadata_only);
            let whole = !asked.iter().any(RequestRecord::is_metadata_only);
            assert_eq!((metadata, whole), (is_metadata, !is_metadata), "{asked:?}");
            world.stop().await.unwrap();
        }
    }
}

/// Sets settings of the ConfigMaps at one level: for all kinds, for a default namespace, for the kind, or for the kind
/// in a namespace.
type SetAt = fn(Settings, CacheOptions, ByObject) -> (CacheOptions, ByObject);

/// The levels of settings, the least specific first.
const PLACES: [SetAt; 4] = [
    |settings, options, by_object| (options.defaults(settings), by_object),
    |settings, options, by_object| (options.default_namespace("a", settings), by_object),
    |settings, options, by_object| (options, by_object.settings(settings)),
    |settings, options, by_object| (options, by_object.namespace("a", settings)),
];

/// Returns every setting with one of two values.
fn every_setting(which: bool) -> Settings {
    let name = if which { "one" } else { "another" };
    let mark = Transform::typed(name, move |map: &mut ConfigMap| {
        map.data = Some([("mark".to_owned(), name.to_owned())].into());
        Ok::<_, std::convert::Infallible>(())
    });
    Settings::new()
        .labels(format!("from={name}"))
        .fields(format!("metadata.name!={name}"))
        .bookmarks(which)
        .page_size(if which { 11 } else { 22 })
        .keep_managed_fields(which)
        .resync(Duration::from_secs(if which { 60 } else { 6000 }))
        .transform(mark)
}

#[tokio::test(start_paused = true)]
async fn the_most_specific_value_of_every_setting_applies() {
    for (place, farther) in PLACES.iter().enumerate() {
        for closer in &PLACES[place + 1..] {
            for which in [true, false] {
                let options = CacheOptions::new().watch_list(false);
                let (options, by_object) = farther(every_setting(!which), options, ByObject::new());
                let (options, by_object) = closer(every_setting(which), options, by_object);
                counts(options.by_object::<ConfigMap>(by_object), which).await;
            }
        }
    }
}

/// Checks the requests and their effects.
async fn counts(options: CacheOptions, which: bool) {
    let name = if which { "one" } else { "another" };
    let mut world = World::new(options);
    world.config_map("a", "map", &json!({"from": name}));
    // The first list accepts any version, and the server returns it whole; the list after an expired version has pages.
    let gone = Answer::code(410).times(1);
    let _gone = world.server.faults().answer(Verb::List, "configmaps", gone);
    let informer = world.cache.informers::<ConfigMap>().unwrap().remove(0);
    let mut events = informer.subscribe();
    world.start();
    soon(world.cache.wait_for_sync()).await.unwrap();
    watching().await;
    let asked = requests(&world);
    for request in &asked {
        let parameter = |name| request.parameter(name);
        let (labels, fields) = (format!("from={name}"), format!("metadata.name!={name}"));
        assert_eq!(parameter("labelSelector"), Some(&*labels), "{request:?}");
        assert_eq!(parameter("fieldSelector"), Some(&*fields), "{request:?}");
        if request.does(Verb::List) {
            let limit = if which { "11" } else { "22" };
            assert_eq!(parameter("limit"), Some(limit), "{request:?}");
        } else {
            let bookmarks = parameter("allowWatchBookmarks") == Some("true");
            assert_eq!(bookmarks, which, "{request:?}");
        }
    }
    assert_eq!(asked.len(), 3, "{asked:?}");
    let map = world
        .cache
        .get::<ConfigMap>(&key("a", "map"))
        .await
        .unwrap();
    assert_eq!(map.metadata.managed_fields.is_some(), which);
    assert_eq!(map.data.as_ref().unwrap()["mark"], name);
    assert_eq!(initial(&mut events).await, 1);
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(events.waiting() > 0, which, "resyncs");
    world.stop().await.unwrap();
}

/// RYOW-6: some servers ignore field selectors and return more objects than requested.
#[tokio::test(start_paused = true)]
async fn a_live_read_of_one_object_returns_no_other_object() {
    let world = cached(CacheOptions::new()).await;
    for name in ["b", "z"] {
        world.config_map("a", name, &json!({}));
    }
    let ignores = MapRequestLayer::new(|mut request: http::Request<kube_client::client::Body>| {
        *request.uri_mut() = http::Uri::try_from(request.uri().path()).unwrap();
        request
    });
    let client_config = ClientConfig::in_process(world.server.service(), "default").layer(ignores);
    let client = client_config.client().unwrap();
    let kind = Kind::of::<ConfigMap>();
    let reads = world.cache.live_reads(kind.gvk(), Some("a")).unwrap();
    for (name, found) in [("b", true), ("c", false)] {
        let answer = reads.object::<ConfigMap>(client.clone(), name).await;
        let answer = answer.unwrap();
        let here = [key("a", name)];
        let expected = if found { &here[..] } else { &[] };
        let keys = |list: &LiveList| -> Vec<_> {
            let objects = list.objects.iter();
            objects.map(|object| object.key.clone()).collect()
        };
        assert_eq!(keys(&answer.list), expected);
        match answer.object {
            Ok(object) => assert_eq!(object.metadata.name.as_deref(), Some(name)),
            Err(error) => assert!(error.is_not_found() && !found, "{error}"),
        }
        let list = reads.identity(client.clone(), name).await.unwrap();
        assert_eq!(keys(&list), expected);
        assert!(list.version.is_exact(), "{}", list.version);
    }
    world.stop().await.unwrap();
}
