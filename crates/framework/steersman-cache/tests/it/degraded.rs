//! CACHE-2: a kind that cannot be listed causes an immediate error for its own readers and affects
//! no other kind.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Service};
use parking_lot::Mutex;
use serde_json::json;
use steersman_api::{ClientConfig, kube_client};
use steersman_apiserver::faults::Answer;
use steersman_cache::internal::CacheInternals as _;
use steersman_cache::{ByObject, Cache, CacheOptions, Error, ListOptions, Reason, Unsynced};
use tokio::time::Instant;

use crate::world::{Website, World, key, soon};

/// CACHE-2
#[tokio::test(start_paused = true)]
async fn a_forbidden_kind_is_an_error_at_once_and_the_others_go_on() {
    let mut world = World::new(CacheOptions::new());
    world.config_map("a", "c", &json!({}));
    let forbidden = Answer::code(403).message("services is forbidden: User \"op\" cannot list");
    let fault = world.server.faults().answer(None, "services", forbidden);
    world.cache.informer::<ConfigMap>().unwrap();
    world.cache.informer::<Service>().unwrap();
    world.start();
    world.cache.settled().await;

    let before = Instant::now();
    let error = world
        .cache
        .list::<Service>(&ListOptions::new())
        .await
        .unwrap_err();
    assert_eq!(
        Instant::now(),
        before,
        "a known failure is returned without a wait"
    );
    assert!(error.is_unavailable());
    let text = error.to_string();
    assert!(
        text.starts_with("services could not be cached: ")
            && text.contains("services is forbidden"),
        "{text}"
    );
    assert!(
        text.contains(r#"resources: ["services"], verbs: [get, list, watch]"#),
        "{text}"
    );
    world.cache.get::<ConfigMap>(&key("a", "c")).await.unwrap();

    // After the rule is granted, the kind recovers by itself.
    drop(fault);
    soon(world.cache.wait_for_sync()).await.unwrap();
    assert!(
        world
            .cache
            .list::<Service>(&ListOptions::new())
            .await
            .unwrap()
            .is_empty()
    );
    world.stop().await.unwrap();
}

/// CACHE-2
#[tokio::test(start_paused = true)]
async fn a_kind_with_a_missing_definition_recovers_when_it_is_installed() {
    let mut world = World::new(CacheOptions::new());
    world.start();
    let error = soon(world.cache.get::<Website>(&key("a", "home")))
        .await
        .unwrap_err();
    let text = error.to_string();
    assert!(error.is_unavailable(), "{text}");
    assert!(
        text.ends_with(
            "; install the CustomResourceDefinition websites.web.example.com with version v1"
        ),
        "{text}"
    );
    // The message contains only the more specific of two remedies.
    assert_eq!(text.matches("install").count(), 1, "{text}");

    world.install_websites();
    world.website("home", &json!("nginx"));
    soon(world.cache.wait_for_sync()).await.unwrap();
    let site = world.cache.get::<Website>(&key("a", "home")).await.unwrap();
    assert_eq!(site.metadata.name.as_deref(), Some("home"));
    world.stop().await.unwrap();
}

/// CACHE-2
#[tokio::test(start_paused = true)]
async fn waiting_for_sync_names_every_kind_that_did_not() {
    let limit = Duration::from_secs(20);
    let mut world = World::new(CacheOptions::new().sync_timeout(limit));
    let refusing = world
        .server
        .faults()
        .answer(None, "services", Answer::code(403));
    world.cache.informer::<ConfigMap>().unwrap();
    world.cache.informer::<Service>().unwrap();
    world.cache.informer::<Website>().unwrap();
    world.start();
    let error = soon(world.cache.wait_for_sync()).await.unwrap_err();
    let Error::SyncTimeout { timeout, .. } = &error else {
        panic!("{error}")
    };
    assert_eq!(*timeout, limit);
    let unsynced = error.unsynced();
    let count = |is: fn(&Unsynced) -> bool| unsynced.iter().filter(|u| is(u)).count();
    let counts = (
        count(Unsynced::is_forbidden),
        count(Unsynced::is_not_served),
    );
    assert_eq!(counts, (1, 1));
    let mut kinds: Vec<String> = unsynced.iter().map(|u| u.kind.to_string()).collect();
    kinds.sort();
    assert_eq!(kinds, ["Service.v1", "Website.v1.web.example.com"]);
    assert!(unsynced.iter().all(|u| u.remedy.is_some()), "{error}");
    drop(refusing);
    world.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_read_waits_for_a_hanging_list_until_the_sync_timeout() {
    let limit = Duration::from_secs(20);
    let mut world = World::new(CacheOptions::new().sync_timeout(limit));
    let slow = world
        .server
        .faults()
        .delay(None, "services", Duration::from_secs(25));
    world.start();
    let before = Instant::now();
    let error = soon(world.cache.list::<Service>(&ListOptions::new()))
        .await
        .unwrap_err();
    assert_eq!(Instant::now() - before, limit);
    assert!(matches!(error, Error::SyncTimeout { .. }), "{error}");
    assert!(error.unsynced().iter().all(Unsynced::is_syncing));
    assert_eq!(error.unsynced().len(), 1);
    drop(slow);
    soon(world.cache.wait_for_sync()).await.unwrap();
    world.stop().await.unwrap();
}

#[tokio::test]
async fn a_server_that_cannot_be_reached_is_named() {
    // No process listens on port 1: the connection is refused.
    let uri = "http://127.0.0.1:1".parse().unwrap();
    let client_config = ClientConfig::from_config(kube_client::Config::new(uri));
    let cache = Cache::new(CacheOptions::new()).unwrap();
    let cancel = tokio_util::sync::CancellationToken::new();
    let run = tokio::spawn(cache.run(client_config, cancel.clone()));
    cache.informer::<ConfigMap>().unwrap();
    cache.settled().await;
    let error = cache.get::<ConfigMap>(&key("a", "c")).await.unwrap_err();
    assert_eq!(error.unsynced()[0].failing(), Some(Reason::Network));
    let text = error.to_string();
    assert!(
        error.is_unavailable() && text.contains("127.0.0.1:1"),
        "{text}"
    );
    assert!(
        text.contains("check that the API server is reachable"),
        "{text}"
    );
    cancel.cancel();
    run.await.unwrap().unwrap();
}

/// The error for a page of another web server does not suggest to install a definition.
#[tokio::test]
async fn an_address_of_another_kind_of_server_is_reported() {
    let nginx = tower::service_fn(|_: http::Request<kube_client::client::Body>| async {
        let page = "<html><title>404 Not Found</title></html>".to_owned();
        let answer = http::Response::builder().status(404).body(page);
        Ok::<_, std::convert::Infallible>(answer.unwrap())
    });
    let cache = Cache::new(CacheOptions::new()).unwrap();
    let cancel = tokio_util::sync::CancellationToken::new();
    let client_config = ClientConfig::in_process(nginx, "default");
    let run = tokio::spawn(cache.run(client_config, cancel.clone()));
    cache.informer::<Website>().unwrap();
    cache.settled().await;
    let error = cache.get::<Website>(&key("a", "home")).await.unwrap_err();
    assert!(error.unsynced()[0].is_undecodable());
    let text = error.to_string();
    assert!(
        text.contains("the address does not look like a Kubernetes API server"),
        "{text}"
    );
    assert!(
        text.contains("; check that the address is that of an API server")
            && !text.contains("install"),
        "{text}"
    );
    cancel.cancel();
    run.await.unwrap().unwrap();
}

/// CACHE-2
#[tokio::test(start_paused = true)]
async fn each_kind_of_failure_has_its_own_remedy() {
    let by_colour = ByObject::new().fields("spec.colour=red");
    let options = CacheOptions::new().by_object::<Service>(by_colour);
    for (code, reason, advice) in [
        (401, Reason::Unauthorized, "renew the credentials"),
        (
            403,
            Reason::Forbidden,
            "bind the operator's service account",
        ),
        (
            400,
            Reason::Rejected,
            "\"spec.colour=red\" comes from `fields(…)` of `by_object::<Service>()`",
        ),
        (
            429,
            Reason::Throttled,
            "check which other clients send requests",
        ),
        (500, Reason::Server, "check the health of the API server"),
    ] {
        let mut world = World::new(options.clone());
        let refusing = world
            .server
            .faults()
            .answer(None, "services", Answer::code(code));
        world.start();
        let everything = ListOptions::new();
        let read = soon(world.cache.list::<Service>(&everything)).await;
        let error = read.unwrap_err();
        let [unsynced] = error.unsynced() else {
            panic!("{error}");
        };
        assert_eq!(unsynced.failing(), Some(reason));
        assert_eq!(unsynced.is_forbidden(), code == 403);
        assert_eq!(unsynced.is_throttled(), code == 429);
        assert_eq!(unsynced.is_unreachable(), code == 500);
        let text = error.to_string();
        let said: Vec<&str> = text.split("; ").collect();
        assert_eq!(said.len(), 2, "{text}");
        assert!(said[1].starts_with(advice), "{text}");
        drop(refusing);
        world.stop().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn waiting_for_sync_ignores_kinds_that_start_meanwhile() {
    let mut world = World::new(CacheOptions::new());
    world.cache.informer::<ConfigMap>().unwrap();
    let (first, late) = (Duration::from_secs(1), Duration::from_secs(10));
    let _first = world.server.faults().delay(None, "configmaps", first);
    let _late = world.server.faults().delay(None, "services", late);
    let before = Instant::now();
    world.start();
    let reader = world.cache.clone();
    let read = tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(500)).await;
        reader.get_opt::<Service>(&key("a", "s")).await
    });
    soon(world.cache.wait_for_sync()).await.unwrap();
    assert!(!read.is_finished(), "{:?}", before.elapsed());
    assert_eq!(world.cache.all_unsynced().len(), 1);
    assert!(soon(read).await.unwrap().unwrap().is_none());
    world.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn waiting_for_the_sync_of_a_cache_that_stops_or_never_starts_fails() {
    let mut world = World::new(CacheOptions::new());
    world.cache.informer::<Service>().unwrap();
    let long = Duration::from_secs(60);
    let _slow = world.server.faults().delay(None, "services", long);
    world.start();
    let cache = world.cache.clone();
    let waiting = tokio::spawn(async move { cache.wait_for_sync().await });
    tokio::task::yield_now().await;
    world.stop().await.unwrap();
    let error = soon(waiting).await.unwrap().unwrap_err();
    assert!(matches!(error, Error::Stopped { .. }), "{error}");

    let never = Cache::new(CacheOptions::new()).unwrap();
    let error = soon(never.wait_for_sync()).await.unwrap_err();
    assert!(error.is_unavailable(), "{error}");
    assert!(error.to_string().contains("not started"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn the_error_hook_receives_each_attempt_with_kind_scope_and_reason() {
    type HookCall = (String, Option<String>, Reason, u32);
    let calls: Arc<Mutex<Vec<HookCall>>> = Arc::default();
    let hook_calls = Arc::clone(&calls);
    let options = CacheOptions::new()
        .by_object::<Service>(ByObject::new().namespaces(["a"]))
        .on_watch_error(move |error| {
            let kind = error.kind.plural().to_owned();
            let namespace = error.namespace.as_deref().map(str::to_owned);
            let attempt = (kind, namespace, error.reason, error.attempt);
            hook_calls.lock().push(attempt);
        });
    let mut world = World::new(options);
    let refused = Answer::code(403).times(3);
    let _refused = world.server.faults().answer(None, "services", refused);
    world.cache.informer::<ConfigMap>().unwrap();
    world.cache.informer::<Service>().unwrap();
    world.start();
    soon(world.cache.wait_for_sync()).await.unwrap();
    let expected = |attempt| {
        let namespace = Some("a".to_owned());
        ("services".to_owned(), namespace, Reason::Forbidden, attempt)
    };
    assert_eq!(*calls.lock(), [1, 2, 3].map(expected));

    // After a success, the count of attempts begins anew.
    let server = Answer::code(500).times(1);
    let _server = world.server.faults().answer(None, "services", server);
    world.server.faults().cut_watches();
    tokio::time::sleep(Duration::from_secs(120)).await;
    let last = calls.lock().last().cloned().unwrap();
    assert_eq!((last.2, last.3), (Reason::Server, 1));
    world.stop().await.unwrap();
}

/// CACHE-2
#[tokio::test(start_paused = true)]
async fn readers_do_not_wait_for_a_server_that_is_known_to_be_unreachable() {
    let mut world = World::new(CacheOptions::new());
    world.config_map("a", "c", &json!({}));
    world.cache.informer::<ConfigMap>().unwrap();
    let hangs = world.server.faults().swallow_everything();
    world.start();
    let (name, before) = (key("a", "c"), Instant::now());
    let waiting = world.cache.get::<ConfigMap>(&name);
    let noting = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let problem = Some((Reason::Unauthorized, "no client can be made"));
        world.cache.note_server_problem(problem);
    };
    let error = tokio::join!(waiting, noting).0.unwrap_err();
    assert!(error.is_unavailable(), "{error}");
    assert!(error.to_string().contains("no client"), "{error}");
    assert!(
        error.to_string().contains("renew the credentials"),
        "{error}"
    );
    let again = world.cache.get::<ConfigMap>(&name).await.unwrap_err();
    assert!(again.is_unavailable(), "{again}");
    assert_eq!(before.elapsed(), Duration::from_secs(1));
    let failure = world.cache.informer_failures();
    assert!(failure[0].to_string().contains("no client"), "{failure:?}");

    drop(hangs);
    world.cache.note_server_problem(None);
    soon(world.cache.wait_for_sync()).await.unwrap();
    world.cache.get::<ConfigMap>(&name).await.unwrap();
}
