//! The predicates of errors of the cache and the server.

use std::time::Duration;

use k8s_openapi::api::authentication::v1::TokenReview;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube_core::DynamicObject;
use serde_json::json;
use steersman_apiserver::faults::{Answer, Verb};
use steersman_cache::CacheOptions;
use steersman_client::ClientOptions;
use steersman_object::{Gvk, Kind, ObjectKey, Scope};

use crate::world::{World, config, key};

#[tokio::test(start_paused = true)]
async fn errors_of_the_cache_differ_from_errors_of_the_server() {
    let scope = CacheOptions::new().default_namespaces(["default"]);
    let world = World::with(scope, ClientOptions::new());
    let elsewhere = ObjectKey::namespaced("web", "a");
    let error = world.client.get::<ConfigMap>(&elsewhere).await.unwrap_err();
    assert!(error.is_outside_scope() && !error.is_not_found(), "{error}");
    assert!(error.cache().is_some() && error.api().is_none());
    let inside = world.client.in_namespace("default");
    let error = inside
        .live()
        .get::<ConfigMap>(&elsewhere)
        .await
        .unwrap_err();
    assert!(error.is_outside_scope() && error.cache().is_none());

    let website = Gvk::new("web.example.com", "v1", "Website");
    let kind = Kind::new(website, "websites", Scope::Namespaced);
    let sites = world.client.of::<DynamicObject>(&kind);
    let error = sites.get(&key("a")).await.unwrap_err();
    assert!(error.is_unavailable() && !error.is_not_found(), "{error}");
    let error = sites.live().get(&key("a")).await.unwrap_err();
    assert!(
        error.is_kind_not_served() && !error.is_unavailable(),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn each_refusal_of_the_server_has_a_predicate() {
    let world = World::new();
    let client = &world.client;
    let mut wrong = config("Not a name");
    let error = client.create(&wrong).await.unwrap_err();
    assert!(error.is_invalid() && !error.is_internal(), "{error}");

    world
        .server
        .create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "web"}}))
        .unwrap();
    // A finalizer holds an object in the namespace.
    let mut held = config("held");
    held.metadata.namespace = Some("web".to_owned());
    held.metadata.finalizers = Some(vec!["x/y".to_owned()]);
    client.create(&held).await.unwrap();
    let web = ObjectKey::cluster_scoped("web");
    client.delete_key::<Namespace>(&web).await.unwrap();
    wrong.metadata.name = Some("late".to_owned());
    wrong.metadata.namespace = Some("web".to_owned());
    let error = client.create(&wrong).await.unwrap_err();
    assert!(error.is_namespace_terminating(), "{error}");
    assert!(error.is_forbidden() && !error.is_unauthorized());

    let nothing_to_read = client.live().get::<TokenReview>(&web).await;
    let error = nothing_to_read.unwrap_err();
    assert!(error.is_method_not_supported(), "{error}");

    let faults = world.server.faults();
    let busy = Answer::code(429).retry_after(60);
    let throttled = faults.answer(Verb::Get, "configmaps", busy);
    let read = client.live().get::<ConfigMap>(&key("a")).await;
    let error = read.unwrap_err();
    assert!(error.is_throttled(), "{error}");
    assert_eq!(error.retry_after(), Some(Duration::from_secs(60)));
    drop(throttled);
    for (code, timeout, internal) in [(500, false, true), (504, true, false)] {
        let answer = Answer::code(code).times(1);
        let _fault = faults.answer(Verb::Create, "configmaps", answer);
        let error = client.create(&config("b")).await.unwrap_err();
        assert_eq!(
            (error.is_timeout(), error.is_internal()),
            (timeout, internal)
        );
        assert!(error.is_outcome_unknown());
    }
}

/// The error of a create with a `generateName` shows that prefix.
#[tokio::test(start_paused = true)]
async fn a_failed_create_names_its_generate_name() {
    let world = World::new();
    let refused = Answer::code(403);
    let _fault = world
        .server
        .faults()
        .answer(Verb::Create, "configmaps", refused);
    let mut made = config("");
    made.metadata.name = None;
    made.metadata.generate_name = Some("shop-".to_owned());
    let error = world.client.create(&made).await.unwrap_err().to_string();
    assert!(
        error.contains("create ConfigMap.v1 default/shop-* (generateName)"),
        "{error}"
    );
}
