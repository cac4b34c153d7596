//! Informers of the embedded server: requests are counted, watches cut, versions expired.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use steersman_api::ClientConfig;
use steersman_apiserver::ApiServer;
use steersman_apiserver::faults::{Answer, Verb};
use steersman_informer::{InformerOptions, InformerState, Reason};
use steersman_object::{Kind, LabelSelector, ObjectKey};

use tower::ServiceExt as _;

use super::world::{MAPS, World, delete, next, put, server, take};

fn options() -> InformerOptions {
    InformerOptions::new().seed(7)
}

#[tokio::test(start_paused = true)]
async fn one_streaming_list_serves_any_number_of_subscribers() {
    let server = server();
    put(&server, "a", "1");
    let world = World::of_maps(&server, options());
    let mut subscriptions: Vec<_> = (0..5).map(|_| world.informer.subscribe()).collect();
    for subscription in &mut subscriptions {
        assert_eq!(take(subscription, 2).await, ["+a", "synced"]);
    }
    put(&server, "b", "1");
    delete(&server, "a");
    for subscription in &mut subscriptions {
        assert_eq!(take(subscription, 2).await, ["+b", "-a"]);
    }
    let log = server.requests();
    let counts = (log.watch_lists(MAPS), log.lists(MAPS), log.watches(MAPS));
    assert_eq!(counts, (1, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn without_streaming_it_is_one_list_and_one_watch() {
    for (streams, asks) in [(true, false), (false, true)] {
        let server = ApiServer::builder().seed(1).watch_list(streams).build();
        for n in 0..5 {
            put(&server, &format!("m{n}"), "1");
        }
        // A server without WatchList refuses the request, or never ends the list.
        let options = options().watch_list(asks).page_size(2);
        let world = World::of_maps(&server, options);
        world.informer.wait_for_sync().await.unwrap();
        assert_eq!(world.stored(), world.served(MAPS));
        put(&server, "late", "1");
        world.converged(MAPS).await;
        let log = server.requests();
        assert_eq!(log.lists(MAPS), 1);
        assert_eq!(log.watches(MAPS), 1);
    }
}

// REFL-8
#[tokio::test(start_paused = true)]
async fn refl_8_cut_watches_resume_without_a_list() {
    let server = server();
    put(&server, "a", "1");
    let world = World::of_maps(&server, options());
    let mut seen = world.informer.subscribe();
    assert_eq!(take(&mut seen, 2).await, ["+a", "synced"]);
    for round in 0..5 {
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(server.faults().cut_watches(), 1);
        put(&server, "a", &format!("{round}x"));
        assert_eq!(next(&mut seen).await, "~a");
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    server.faults().break_watches();
    delete(&server, "a");
    assert_eq!(next(&mut seen).await, "-a");
    let log = server.requests();
    assert_eq!((log.watch_lists(MAPS), log.lists(MAPS)), (1, 0));
    assert_eq!(log.watches(MAPS), 6);
}

// STORE-3, STORE-4
#[tokio::test(start_paused = true)]
async fn store_3_deletes_missed_during_an_expired_watch_are_delivered() {
    for watch_list in [true, false] {
        let server = server();
        for name in ["a", "b", "c", "d"] {
            put(&server, name, "1");
        }
        let world = World::of_maps(&server, options().watch_list(watch_list));
        let mut seen = world.informer.subscribe();
        let expected = ["+a", "+b", "+c", "+d", "synced"];
        assert_eq!(take(&mut seen, 5).await, expected);
        tokio::time::sleep(Duration::from_secs(2)).await;
        server.faults().cut_watches();
        delete(&server, "b");
        put(&server, "c", "2");
        delete(&server, "d");
        put(&server, "d", "1");
        put(&server, "e", "1");
        server.compact();
        let mut words = take(&mut seen, 5).await;
        // The deletes come first, then the other changes in the order of the list.
        words[..2].sort();
        assert_eq!(words[..2], ["-b?", "-d?"]);
        words[2..].sort();
        assert_eq!(words[2..], ["+d", "+e", "~c"]);
        world.converged(MAPS).await;
        assert_eq!(seen.waiting(), 0);
        assert!(world.informer.state().is_synced());
    }
}

#[tokio::test(start_paused = true)]
async fn a_410_as_an_http_status_is_an_expired_version_too() {
    let server = server();
    put(&server, "a", "1");
    let world = World::of_maps(&server, options());
    let mut seen = world.informer.subscribe();
    assert_eq!(take(&mut seen, 2).await, ["+a", "synced"]);
    tokio::time::sleep(Duration::from_secs(2)).await;
    let gone = Answer::code(410).times(1);
    let fault = server.faults().answer(Verb::Watch, MAPS, gone);
    server.faults().cut_watches();
    put(&server, "b", "1");
    assert_eq!(next(&mut seen).await, "+b");
    assert_eq!(fault.hits(), 1);
    assert_eq!(server.requests().watch_lists(MAPS), 2);
}

#[tokio::test(start_paused = true)]
async fn an_expired_continue_token_does_not_prevent_the_sync() {
    let server = server();
    for n in 0..10 {
        put(&server, &format!("m{n}"), "1");
    }
    let expired = Answer::code(410).times(3);
    let later_pages =
        |r: &steersman_apiserver::faults::RequestRecord| r.parameter("continue").is_some();
    server.faults().answer_matching(later_pages, expired).keep();
    // The embedded server pages only lists of the newest state, which the informer requests after a 410.
    let first = Answer::code(410).times(1);
    server.faults().answer(Verb::List, MAPS, first).keep();
    let world = World::of_maps(&server, options().watch_list(false).page_size(3));
    world.informer.wait_for_sync().await.unwrap();
    assert_eq!(world.stored(), world.served(MAPS));
    assert!(server.requests().count(later_pages) >= 1);
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_is_noticed_and_no_event_is_missed() {
    let server = server();
    put(&server, "a", "1");
    let world = World::of_maps(&server, options());
    let mut seen = world.informer.subscribe();
    assert_eq!(take(&mut seen, 2).await, ["+a", "synced"]);
    assert_eq!(server.faults().silence_watches(), 1);
    put(&server, "b", "1");
    let start = tokio::time::Instant::now();
    assert_eq!(next(&mut seen).await, "+b");
    assert!(start.elapsed() <= Duration::from_secs(310));
    assert_eq!(server.requests().lists(MAPS), 0);
}

// Broken watches and expired versions over sockets and TLS, in real time.
#[tokio::test]
async fn over_https_broken_watches_and_expired_versions_recover_too() {
    let server = server();
    put(&server, "a", "1");
    put(&server, "b", "1");
    let serving = server.serve("127.0.0.1:0").await.unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    serving.write_kubeconfig(file.path()).unwrap();
    let client_config = ClientConfig::from_kubeconfig(file.path()).await.unwrap();
    let kind = Kind::of::<ConfigMap>();
    let world: World<ConfigMap> = World::over(&client_config, &server, kind, options());
    let mut seen = world.informer.subscribe();
    assert_eq!(take(&mut seen, 3).await, ["+a", "+b", "synced"]);
    server.faults().break_watches();
    put(&server, "c", "1");
    assert_eq!(next(&mut seen).await, "+c");
    server.faults().cut_watches();
    delete(&server, "b");
    put(&server, "a", "2");
    server.compact();
    assert_eq!(take(&mut seen, 2).await, ["-b?", "~a"]);
    assert_eq!(world.stored(), world.served(MAPS));
    serving.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_kind_is_synced_as_soon_as_it_is_served() {
    let server = server();
    let world: World<Thing> = World::start(&server, Kind::of::<Thing>(), options());
    let mut states = world.informer.state_changes();
    let degraded = states
        .wait_for(InformerState::is_degraded)
        .await
        .unwrap()
        .clone();
    let InformerState::Degraded {
        reason, message, ..
    } = degraded
    else {
        panic!("{degraded}");
    };
    assert_eq!(reason, Reason::NotServed);
    assert!(message.contains("the server answered 404"), "{message}");
    server.install_crd(loose_crd()).unwrap();
    server.create(thing("a", &json!({"size": 1}))).unwrap();
    world.informer.wait_for_sync().await.unwrap();
    world.converged("things.example.com").await;
    assert_eq!(world.stored().len(), 1);
    assert!(world.informer.state().is_synced());
}

#[derive(kube_derive::CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "example.com",
    version = "v1",
    kind = "Thing",
    namespaced,
    crates(kube_core = "kube_core")
)]
struct ThingSpec {
    size: u32,
}

/// Returns a CRD that allows objects which do not decode as the Rust type.
fn loose_crd() -> serde_json::Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                }},
            }],
        },
    })
}

fn thing(name: &str, spec: &serde_json::Value) -> serde_json::Value {
    json!({
        "apiVersion": "example.com/v1", "kind": "Thing",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": name}},
        "spec": spec,
    })
}

#[tokio::test(start_paused = true)]
async fn a_malformed_object_of_a_loose_crd_heals_when_it_is_corrected() {
    const THINGS: &str = "things.example.com";
    for watch_list in [true, false] {
        let server = server();
        server.install_crd(loose_crd()).unwrap();
        server.create(thing("a", &json!({"size": 1}))).unwrap();
        server.create(thing("p", &json!({"size": "huge"}))).unwrap();
        let options = options().watch_list(watch_list);
        let world: World<Thing> = World::start(&server, Kind::of::<Thing>(), options);
        let mut seen = world.informer.subscribe();
        assert_eq!(take(&mut seen, 2).await, ["+a", "synced"]);
        let store = world.informer.store();
        assert_eq!(store.malformed().len(), 1);

        // A malformed update arrives: the last good version stays.
        let spoil = json!({"spec": {"size": -1}});
        server.merge_patch(THINGS, "default", "a", &spoil).unwrap();
        server.create(thing("b", &json!({"size": 2}))).unwrap();
        assert_eq!(next(&mut seen).await, "+b");
        let key = ObjectKey::namespaced("default", "a");
        assert_eq!(store.get(&key).unwrap().spec.size, 1);
        assert!(store.malformed_at(&key).unwrap().error.contains("-1"));
        let labels: LabelSelector = "app in (a,b)".parse().unwrap();
        assert_eq!(store.list_with(Some("default"), &labels).len(), 2);

        for name in ["p", "a"] {
            let heal = json!({"spec": {"size": 3}});
            server.merge_patch(THINGS, "default", name, &heal).unwrap();
        }
        assert_eq!(take(&mut seen, 2).await, ["+p", "~a"]);
        assert!(store.malformed().is_empty());
        world.converged(THINGS).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_throttled_informer_waits_as_long_as_the_server_asks() {
    let server = server();
    put(&server, "a", "1");
    let throttled = Answer::code(429).retry_after(9).times(1);
    let fault = server.faults().answer(None, MAPS, throttled);
    let start = tokio::time::Instant::now();
    let world = World::of_maps(&server, options());
    world.informer.wait_for_sync().await.unwrap();
    assert!(start.elapsed() >= Duration::from_secs(9));
    assert_eq!(fault.hits(), 1);
}

#[tokio::test(start_paused = true)]
async fn selectors_are_sent_to_the_server() {
    let server = server();
    for (name, app) in [("a", "web"), ("b", "db")] {
        put(&server, name, "1");
        let labels = json!({"metadata": {"labels": {"app": app}}});
        server.merge_patch(MAPS, "default", name, &labels).unwrap();
    }
    for watch_list in [true, false] {
        let options = options().watch_list(watch_list).labels("app=web");
        let world = World::of_maps(&server, options);
        let mut seen = world.informer.subscribe();
        assert_eq!(take(&mut seen, 2).await, ["+a", "synced"]);
        let moved = json!({"metadata": {"labels": {"app": "db"}}});
        server.merge_patch(MAPS, "default", "a", &moved).unwrap();
        assert_eq!(next(&mut seen).await, "-a");
        let back = json!({"metadata": {"labels": {"app": "web"}}});
        server.merge_patch(MAPS, "default", "a", &back).unwrap();
        assert_eq!(next(&mut seen).await, "+a");
    }
}

// REFL-12
#[tokio::test(start_paused = true)]
async fn refl_12_a_server_restored_from_an_older_snapshot_is_listed_again() {
    for watch_list in [true, false] {
        let first = server();
        put(&first, "a", "1");
        let older = first.snapshot();
        for value in ["2", "3", "4"] {
            put(&first, "a", value);
        }
        put(&first, "lost", "1");
        let present = Arc::new(Mutex::new(first.clone()));
        let behind = Arc::clone(&present);
        let service = tower::service_fn(move |request| behind.lock().service().oneshot(request));
        let client_config = ClientConfig::in_process(service, "default");
        let world: World<ConfigMap> = World::over(
            &client_config,
            &first,
            Kind::of::<ConfigMap>(),
            options().watch_list(watch_list),
        );
        let mut seen = world.informer.subscribe();
        assert_eq!(take(&mut seen, 3).await, ["+a", "+lost", "synced"]);
        tokio::time::sleep(Duration::from_secs(60)).await;
        let second = ApiServer::builder().restore(older).build();
        assert!(second.revision() < first.revision());
        *present.lock() = second.clone();
        let restarted = tokio::time::Instant::now();
        first.faults().cut_watches();
        let mut words = take(&mut seen, 2).await;
        words.sort();
        assert_eq!(words, ["-lost?", "~a"]);
        // The watch is silent for five seconds, and the server waits three seconds for the revision.
        assert!(restarted.elapsed() < Duration::from_secs(12));
        put(&second, "new", "1");
        assert_eq!(next(&mut seen).await, "+new");
        assert!(world.informer.state().is_synced());
        assert_eq!(
            second.requests().watches(MAPS),
            if watch_list { 1 } else { 2 }
        );
    }
}

// REFL-12
#[tokio::test(start_paused = true)]
async fn refl_12_a_watch_that_is_resumed_at_the_same_server_is_checked_once() {
    let server = server();
    put(&server, "a", "1");
    let world = World::of_maps(&server, options());
    world.informer.wait_for_sync().await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    server.requests().clear();
    server.faults().cut_watches();
    tokio::time::sleep(Duration::from_secs(200)).await;
    let log = server.requests();
    assert_eq!((log.watches(MAPS), log.lists(MAPS)), (1, 1));
    assert!(world.informer.state().is_synced());
}
