//! The kinds that a server serves, and the number of requests for them.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};
use steersman_api::wire::Wire;
use steersman_api::{ClientConfig, Mapper};
use steersman_apiserver::ApiServer;
use steersman_apiserver::faults::{Answer, RequestRecord};
use steersman_object::{Gvk, Gvr, Kind, Scope};
use tower::ServiceExt as _;
use tower::layer::layer_fn;

fn server() -> (ApiServer, Mapper) {
    let server = ApiServer::builder().seed(1).build();
    let mapper = Mapper::new(ClientConfig::in_process(server.service(), "default"));
    (server, mapper)
}

fn website(versions: &[&str]) -> Value {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let versions: Vec<Value> = versions
        .iter()
        .enumerate()
        .map(|(n, name)| json!({"name": name, "served": true, "storage": n == 0, "schema": schema}))
        .collect();
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "websites.web.example.com"},
        "spec": {
            "group": "web.example.com", "scope": "Namespaced", "versions": versions,
            "names": {"plural": "websites", "singular": "website", "kind": "Website", "listKind": "WebsiteList"},
        },
    })
}

fn paths(server: &ApiServer) -> Vec<String> {
    let all = server.requests().all();
    all.into_iter().map(|request| request.path).collect()
}

fn website_kind(version: &str) -> Gvk {
    Gvk::new("web.example.com", version, "Website")
}

#[tokio::test(start_paused = true)]
async fn a_kind_costs_its_own_document_once() {
    let (server, mapper) = server();
    assert!(paths(&server).is_empty(), "making a mapper asks nothing");
    let kind = mapper.kind(&Gvk::new("", "v1", "Pod")).await.unwrap();
    assert_eq!(kind, Kind::of::<Pod>());
    let node = mapper.kind(&Gvk::new("", "v1", "Node")).await.unwrap();
    assert_eq!(node.scope(), Scope::Cluster);
    let deployments = Gvr::new("apps", "v1", "deployments");
    let by_plural = mapper.kind_of_resource(&deployments).await.unwrap();
    assert_eq!(by_plural.gvk().kind(), "Deployment");
    let served = mapper
        .served(&Gvk::new("apps", "v1", "Deployment"))
        .await
        .unwrap();
    assert_eq!(served.short_names, ["deploy"]);
    assert!(served.subresources.iter().any(|s| s == "scale"));
    assert!(served.verbs.iter().any(|v| v == "deletecollection"));
    assert_eq!(paths(&server), ["/api/v1", "/apis/apps/v1"]);
}

#[tokio::test(start_paused = true)]
async fn concurrent_lookups_share_one_request() {
    let (server, mapper) = server();
    let gvk = Gvk::new("apps", "v1", "Deployment");
    let asking = (0..50).map(|_| mapper.kind(&gvk));
    let answers = futures::future::join_all(asking).await;
    assert!(answers.iter().all(Result::is_ok));
    assert_eq!(paths(&server).len(), 1);
    // Lookups that find nothing share one request, too.
    let missing = website_kind("v1");
    let answers = futures::future::join_all((0..50).map(|_| mapper.kind(&missing))).await;
    assert!(
        answers
            .iter()
            .all(|a| a.as_ref().is_err_and(|e| e.is_kind_not_served()))
    );
    assert_eq!(paths(&server).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_missing_kind_is_found_after_it_was_installed() {
    let (server, mapper) = server();
    let error = mapper.kind(&website_kind("v1")).await.unwrap_err();
    assert!(error.is_kind_not_served(), "{error}");
    assert!(
        error
            .to_string()
            .contains("install the definition of Website.v1.web.example.com"),
        "{error}"
    );
    server.install_crd(website(&["v1"])).unwrap();
    assert_eq!(
        mapper.kind(&website_kind("v1")).await.unwrap().plural(),
        "websites"
    );
    // A served version without the kind is another error, with another text.
    let odd = Gvk::new("web.example.com", "v1", "Webcite");
    let error = mapper.kind(&odd).await.unwrap_err();
    assert!(error.is_kind_not_served(), "{error}");
    assert!(error.to_string().contains("served without it"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_kind_is_kept_until_it_is_forgotten_or_its_version_is_gone() {
    let (server, mapper) = server();
    server.install_crd(website(&["v1", "v2"])).unwrap();
    mapper.kind(&website_kind("v2")).await.unwrap();
    server
        .delete(
            "customresourcedefinitions.apiextensions.k8s.io",
            "",
            "websites.web.example.com",
        )
        .unwrap();
    // Documents do not expire, so the kind is still known.
    tokio::time::sleep(Duration::from_secs(86_400)).await;
    mapper.kind(&website_kind("v2")).await.unwrap();
    // The other version is not known yet, and its 404 makes the mapper forget the whole group.
    assert!(
        mapper
            .kind(&website_kind("v1"))
            .await
            .unwrap_err()
            .is_kind_not_served()
    );
    assert!(
        mapper
            .kind(&website_kind("v2"))
            .await
            .unwrap_err()
            .is_kind_not_served()
    );
    server.install_crd(website(&["v2"])).unwrap();
    mapper.kind(&website_kind("v2")).await.unwrap();
    mapper.forget("web.example.com");
    let before = paths(&server).len();
    mapper.kind(&website_kind("v2")).await.unwrap();
    assert_eq!(paths(&server).len(), before + 1);
}

#[tokio::test(start_paused = true)]
async fn the_preferred_version_is_that_of_the_server() {
    let (server, mapper) = server();
    server.install_crd(website(&["v1beta1", "v1"])).unwrap();
    let kind = mapper
        .preferred("web.example.com", "Website")
        .await
        .unwrap();
    assert_eq!(kind.gvk(), &website_kind("v1"));
    assert_eq!(
        mapper.preferred("", "Pod").await.unwrap(),
        Kind::of::<Pod>()
    );
    let error = mapper
        .preferred("nowhere.example.com", "Thing")
        .await
        .unwrap_err();
    assert!(error.is_kind_not_served(), "{error}");
    let error = mapper
        .preferred("web.example.com", "Thing")
        .await
        .unwrap_err();
    assert!(error.is_kind_not_served(), "{error}");
}

#[tokio::test(start_paused = true)]
async fn all_kinds_are_read_in_two_requests_and_kept() {
    let (server, mapper) = server();
    server.install_crd(website(&["v1"])).unwrap();
    let everything = mapper.everything().await.unwrap();
    assert!(everything.failed.is_empty());
    assert_eq!(paths(&server), ["/api", "/apis"]);
    for gvk in [
        website_kind("v1"),
        Gvk::new("", "v1", "Pod"),
        Gvk::new("apps", "v1", "Deployment"),
    ] {
        assert!(
            everything.served.iter().any(|s| *s.kind.gvk() == gvk),
            "{gvk}"
        );
        mapper.kind(&gvk).await.unwrap();
    }
    assert_eq!(paths(&server).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_group_that_cannot_be_read_is_an_error_of_that_group() {
    let (server, mapper) = server();
    let apps = |r: &RequestRecord| r.path == "/apis/apps/v1";
    server
        .faults()
        .answer_matching(apps, Answer::code(503))
        .keep();
    let error = mapper
        .kind(&Gvk::new("apps", "v1", "Deployment"))
        .await
        .unwrap_err();
    assert_eq!(error.code(), Some(503), "{error}");
    mapper.kind(&Gvk::new("batch", "v1", "Job")).await.unwrap();

    // A server without aggregated discovery is asked version by version.
    let plain = layer_fn(|wire: Wire| {
        wire.map_request(|mut request: http::Request<_>| {
            let json = http::HeaderValue::from_static("application/json");
            request.headers_mut().insert("accept", json);
            request
        })
    });
    let old = ClientConfig::in_process(server.service(), "default").layer(plain);
    let mapper = Mapper::new(old);
    let everything = mapper.everything().await.unwrap();
    let failed: Vec<&str> = everything
        .failed
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    assert_eq!(failed, ["apps/v1"]);
    for gvk in [Gvk::new("", "v1", "Pod"), Gvk::new("batch", "v1", "Job")] {
        assert!(
            everything.served.iter().any(|s| *s.kind.gvk() == gvk),
            "{gvk}"
        );
    }
    server.faults().clear();
    mapper
        .kind(&Gvk::new("apps", "v1", "Deployment"))
        .await
        .unwrap();
}
