//! Tests of bad bodies and queries: each gets one clear Status, and never a panic.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::Request;
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use jiff::Timestamp;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};
use steersman_apiserver::ApiServer;
use tower::ServiceExt;

use crate::support::{
    CONFIG_MAPS, WEBSITES, ask, config_map, create_config_maps, get, server, website, website_crd,
};

#[tokio::test(start_paused = true)]
async fn a_body_that_is_not_json_is_refused() {
    let server = server();
    for body in ["not json at all", "", "[1,2]", "{\"a\":", "\"text\""] {
        let refused = ask(&server, "POST", CONFIG_MAPS, &[], body)
            .await
            .expect(400);
        assert_eq!(refused["reason"], "BadRequest", "{body}");
        let message = refused["message"].as_str().unwrap();
        assert!(message.contains("must be of type ConfigMap"), "{message}");
    }
    let refused = ask(&server, "POST", CONFIG_MAPS, &[], &b"\xff\xfe\x00"[..]).await;
    assert_eq!(refused.status, 400);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_is_too_large_is_refused() {
    let server = server();
    let body = "x".repeat(3 * 1024 * 1024 + 1);
    let refused = ask(&server, "POST", CONFIG_MAPS, &[], body.clone())
        .await
        .expect(413);
    assert_eq!(refused["reason"], "RequestEntityTooLarge");
    assert_eq!(
        refused["message"],
        "Request entity too large: limit is 3145728"
    );
    let announced = [("content-length", "99999999")];
    assert_eq!(
        ask(&server, "POST", CONFIG_MAPS, &announced, "{}")
            .await
            .status,
        413
    );
    // A body one byte shorter is read, and refused for its content.
    assert_eq!(
        ask(&server, "POST", CONFIG_MAPS, &[], body[1..].to_owned())
            .await
            .status,
        400
    );
}

#[tokio::test(start_paused = true)]
async fn a_body_of_another_content_type_is_refused() {
    let server = server();
    create_config_maps(&server, &["a"]).await;
    let cbor = [("content-type", "application/cbor")];
    let refused = ask(&server, "POST", CONFIG_MAPS, &cbor, "{}")
        .await
        .expect(415);
    assert_eq!(
        refused["message"],
        "the body of the request was in an unknown format - accepted media types include: \
         application/json, application/yaml, application/vnd.kubernetes.protobuf"
    );
    let json = [("content-type", "application/json")];
    let refused = ask(&server, "PATCH", &format!("{CONFIG_MAPS}/a"), &json, "{}")
        .await
        .expect(415);
    assert_eq!(refused["reason"], "UnsupportedMediaType");
}

#[tokio::test(start_paused = true)]
async fn malformed_protobuf_and_protobuf_of_custom_resources_are_refused() {
    let server = server();
    server.install_crd(website_crd()).unwrap();
    let protobuf = [("content-type", "application/vnd.kubernetes.protobuf")];
    let config_map = "k8s\0\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12";
    for (path, body, why) in [
        (
            CONFIG_MAPS,
            format!("{config_map}\x02\x0a\x05"),
            "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: unexpected EOF",
        ),
        (
            CONFIG_MAPS,
            "{}".to_owned(),
            "the object provided is unrecognized (must be of type ConfigMap): provided data does not \
             appear to be a protobuf message, expected prefix [107 56 115 0] ({})",
        ),
        (
            WEBSITES,
            format!("{config_map}\x00"),
            "ConfigMap in version \"v1\" cannot be handled as a Website: object \
             *unstructured.Unstructured does not implement the protobuf marshalling interface and \
             cannot be encoded to a protobuf message",
        ),
    ] {
        let refused = ask(&server, "POST", path, &protobuf, body)
            .await
            .expect(400);
        assert_eq!(refused["message"], why, "{path}");
    }
    let named = format!("{config_map}\x07\x0a\x05\x0a\x03one");
    let created = ask(&server, "POST", CONFIG_MAPS, &protobuf, named)
        .await
        .expect(201);
    assert_eq!(created["metadata"]["name"], "one");
    assert!(created.get("data").is_none());
    // DeleteOptions with a dry run.
    let options = "k8s\0\x0a\x13\x0a\x02v1\x12\x0dDeleteOptions\x12\x05\x2a\x03All";
    let one = format!("{CONFIG_MAPS}/one");
    ask(&server, "DELETE", &one, &protobuf, options)
        .await
        .expect(200);
    get(&server, &one).await.expect(200);
}

#[tokio::test(start_paused = true)]
async fn a_duplicate_key_is_reported() {
    let server = server();
    let body = r#"{"metadata":{"name":"a"},"data":{"k":"1"},"data":{"k":"2"}}"#;
    let strict = format!("{CONFIG_MAPS}?fieldValidation=Strict");
    let refused = ask(&server, "POST", &strict, &[], body).await.expect(400);
    assert!(
        refused["message"]
            .as_str()
            .unwrap()
            .ends_with("duplicate field \"data\"")
    );
    let warned = ask(&server, "POST", CONFIG_MAPS, &[], body).await;
    assert_eq!(
        warned.header("warning"),
        r#"299 - "duplicate field \"data\"""#
    );
    assert_eq!(warned.expect(201)["data"]["k"], "2");
}

#[tokio::test(start_paused = true)]
async fn invalid_selectors_are_refused() {
    let server = server();
    let refused = get(&server, &format!("{CONFIG_MAPS}?fieldSelector=data%3Dx"))
        .await
        .expect(400);
    let message = refused["message"].as_str().unwrap();
    assert!(
        message.starts_with("\"data\" is not a known field selector"),
        "{message}"
    );
    let refused = get(&server, &format!("{CONFIG_MAPS}?labelSelector=a%20b"))
        .await
        .expect(400);
    assert_eq!(refused["reason"], "BadRequest");
    get(&server, &format!("{CONFIG_MAPS}?limit=few"))
        .await
        .expect(400);
}

#[tokio::test(start_paused = true)]
async fn invalid_delete_options_are_refused() {
    let server = server();
    create_config_maps(&server, &["a"]).await;
    let path = format!("{CONFIG_MAPS}/a");
    for body in ["{bad".to_owned(), config_map("a").to_string()] {
        assert_eq!(ask(&server, "DELETE", &path, &[], body).await.status, 400);
    }
    let preconditions = json!({ "preconditions": { "uid": "another" } }).to_string();
    assert_eq!(
        ask(&server, "DELETE", &path, &[], preconditions)
            .await
            .status,
        409
    );
    assert!(server.get("configmaps", "default", "a").is_some());
}

#[tokio::test(start_paused = true)]
async fn no_path_or_query_makes_the_server_panic() {
    // SRV-3
    let server = server();
    let ends = [
        "",
        "/",
        "//",
        "/%",
        "/%ff",
        "/..",
        "?",
        "?%",
        "?watch=1&timeoutSeconds=99999999999999999999",
        "?limit=-9223372036854775808",
        "?continue=%00",
        "?resourceVersion=18446744073709551616",
    ];
    let starts = [
        "/", "/api", "/apis", "/api/v1/pods", "/apis/apps/v1", "/openapi/v3", CONFIG_MAPS,
        "/api/v1/watch", "/api/v1/namespaces",
    ];
    for start in starts {
        for end in ends {
            for method in ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"] {
                let path = format!("{start}{end}");
                let (status, _, _) = crate::support::send(&server, method, &path, &[], "{}").await;
                assert!(status >= 200, "{method} {path}");
            }
        }
    }
}

/// Generates requests from valid and invalid parts.
fn any_request() -> impl Strategy<Value = (&'static str, String, &'static str, Vec<u8>)> {
    let methods = ["GET", "POST", "PUT", "PATCH", "DELETE"];
    let resources = [
        "configmaps", "pods", "websites", "namespaces", "customresourcedefinitions",
    ];
    let groups = [
        "/api/v1",
        "/apis/example.com/v1",
        "/apis/apiextensions.k8s.io/v1",
    ];
    let names = [
        "", "/a", "/a/status", "/a/scale", "/a/binding", "/a/eviction", "/a/log", "/a/proxy/x",
        "/websites.example.com",
    ];
    let queries = [
        "", "?watch=1&timeoutSeconds=1", "?dryRun=All", "?fieldValidation=Strict",
        "?limit=1&continue=x", "?fieldSelector=a%3D,,", "?labelSelector=a+in+(",
        "?includeObject=None",
    ];
    let types = [
        "application/json", "application/yaml", "application/merge-patch+json",
        "application/json-patch+json",
    ];
    let body = prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..40),
        "[\\[{\":,a0-9}\\]\\\\ ]{0,40}".prop_map(String::into_bytes),
        select(vec![
            config_map("a").to_string(),
            website_crd().to_string(),
            website("a").to_string(),
            r#"{"metadata":[],"spec":7,"kind":{},"apiVersion":null}"#.to_owned(),
            r#"[{"op":"add","path":"/metadata","value":[]}]"#.to_owned(),
            r#"[{"op":"move","from":"","path":"/a/b/-1"}]"#.to_owned(),
            r#"{"metadata":null,"spec":{"replicas":-9223372036854775808}}"#.to_owned(),
            r#"{"spec":{"replicas":1e400}}"#.to_owned(),
        ])
        .prop_map(String::into_bytes),
    ];
    let place = (
        select(groups.to_vec()),
        any::<bool>(),
        select(resources.to_vec()),
    );
    let rest = (
        select(names.to_vec()),
        select(queries.to_vec()),
        select(types.to_vec()),
        body,
    );
    (select(methods.to_vec()), place, rest).prop_map(|(method, place, rest)| {
        let ((group, in_namespace, resource), (name, query, content_type, body)) = (place, rest);
        let namespace = if in_namespace {
            "/namespaces/default"
        } else {
            ""
        };
        (
            method,
            format!("{group}{namespace}/{resource}{name}{query}"),
            content_type,
            body,
        )
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(60) })]

    /// SRV-3: each request of a sequence is answered, and the server still answers afterwards.
    #[test]
    fn no_sequence_of_requests_makes_the_server_panic(
        requests in proptest::collection::vec(any_request(), 1..30)
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            let server = server();
            server.install_crd(website_crd()).unwrap();
            for (method, path, content_type, body) in requests {
                let table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
                let headers = [("content-type", content_type), ("accept", table)];
                let answer = ask(&server, method, &path, &headers, body).await;
                assert!((200..600).contains(&answer.status));
            }
            get(&server, CONFIG_MAPS).await.expect(200);
        });
    }
}

/// A body that panics when it is read.
struct Broken;

impl Body for Broken {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        panic!("a mistake in the middle of a request")
    }
}

async fn failure(server: &ApiServer, request: Request<Broken>) -> Value {
    let response = server.service().oneshot(request).await.unwrap();
    assert_eq!(response.status(), 500);
    assert_eq!(response.headers()["content-type"], "application/json");
    let body = response.into_body().collect().await.unwrap().to_bytes();
    serde_json::from_slice(&body).unwrap()
}

/// SRV-4: a panic ends only its own request, with a Status.
#[tokio::test(start_paused = true)]
async fn a_request_that_panics_is_answered() {
    let server = server();
    for path in [CONFIG_MAPS, "/steersman/faults"] {
        let request = Request::post(path).body(Broken).unwrap();
        let status = failure(&server, request).await;
        assert_eq!(status["kind"], "Status", "{path}");
        assert_eq!(status["reason"], "InternalError", "{path}");
        assert_eq!(
            status["message"],
            "Internal error occurred: This request caused apiserver to panic. Look in the logs for details."
        );
    }
    create_config_maps(&server, &["a"]).await;
    let records = server.requests().all();
    assert!(records.iter().any(|record| record.status == Some(500)));
}

/// SRV-4: the same for a panic outside the verbs.
#[tokio::test(start_paused = true)]
async fn a_clock_that_panics_is_answered() {
    let stopped = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&stopped);
    let now: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
    let clock = move || {
        assert!(!seen.load(Ordering::SeqCst), "the clock has stopped");
        now
    };
    let server = ApiServer::builder().clock(clock).build();
    stopped.store(true, Ordering::SeqCst);
    let request = Request::get(CONFIG_MAPS).body(Broken).unwrap();
    assert_eq!(failure(&server, request).await["reason"], "InternalError");
    stopped.store(false, Ordering::SeqCst);
    get(&server, CONFIG_MAPS).await;
}
