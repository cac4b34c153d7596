//! Tests of the requests to webhooks, of their answers, and of the effects on writes.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_new_object_is_mutated_and_then_validated() {
    let server = server();
    let changer = answer_for(&server, "changer", |_| {
        patched(&json!([{"op": "add", "path": "/data/added", "value": "1"}]))
    });
    let judge = answer_for(&server, "judge", |_| allowed());
    mutating(&server, "changer", &json!({}));
    validating(&server, "judge", &json!({}));
    let path = format!("{CONFIG_MAPS}?fieldManager=me");
    let made = post(&server, &path, &config_map("a")).await.expect(201);
    assert_eq!(made["data"], json!({"k": "v", "added": "1"}));
    let changer = changer.lock().remove(0);
    assert_eq!(changer["operation"], "CREATE");
    let kind = json!({"group": "", "version": "v1", "kind": "ConfigMap"});
    let resource = json!({"group": "", "version": "v1", "resource": "configmaps"});
    for (field, expected) in [
        ("kind", &kind),
        ("requestKind", &kind),
        ("resource", &resource),
        ("requestResource", &resource),
        ("name", &json!("a")),
        ("namespace", &json!("default")),
        ("dryRun", &json!(false)),
        ("oldObject", &Value::Null),
        (
            "options",
            &json!({"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1", "fieldManager": "me"}),
        ),
    ] {
        assert_eq!(changer[field], *expected, "{field}");
    }
    assert!(changer.get("subResource").is_none());
    // The server sets its own fields after the mutating webhooks.
    assert!(changer["object"]["metadata"].get("uid").is_none());
    let judged = judge.lock().remove(0);
    assert_eq!(judged["object"], {
        let mut expected = made.clone();
        expected["metadata"]
            .as_object_mut()
            .unwrap()
            .remove("resourceVersion");
        expected
    });
    let managed = made["metadata"]["managedFields"][0].to_string();
    assert!(managed.contains("f:k") && !managed.contains("f:added"));
    let unnamed = json!({"metadata": {"generateName": "g-"}, "data": {"k": "v"}});
    let made = post(&server, CONFIG_MAPS, &unnamed).await.expect(201);
    let judged = judge.lock().remove(0);
    // Validating webhooks see the generated name.
    assert_eq!(judged["name"], judged["object"]["metadata"]["name"]);
    assert_eq!(
        judged["object"]["metadata"]["name"],
        made["metadata"]["name"]
    );
}

/// ADM-2
#[tokio::test(start_paused = true)]
async fn a_refusal_changes_nothing() {
    let server = server();
    create_config_maps(&server, &["a"]).await;
    let judge = answer_for(
        &server,
        "judge",
        |_| json!({"allowed": false, "status": {"code": 403, "reason": "Forbidden", "message": "no"}}),
    );
    validating(&server, "judge", &json!({}));
    let before = server.revision();
    let message = "admission webhook \"judge.example.com\" denied the request: no";
    let refused = (403, message.to_owned());
    assert_eq!(
        refusal(&post(&server, CONFIG_MAPS, &config_map("b")).await),
        refused
    );
    assert_eq!(
        refusal(&put(&server, &at("a"), &config_map("a")).await),
        refused
    );
    let patch = json!({"data": {"k": "w"}});
    assert_eq!(refusal(&merge(&server, &at("a"), &patch).await), refused);
    assert_eq!(refusal(&delete(&server, &at("a")).await), refused);
    assert_eq!(refusal(&delete(&server, CONFIG_MAPS).await), refused);
    assert_eq!(server.revision(), before);
    let operations: Vec<Value> = judge
        .lock()
        .iter()
        .map(|one| one["operation"].clone())
        .collect();
    assert_eq!(
        operations,
        ["CREATE", "UPDATE", "UPDATE", "DELETE", "DELETE"]
    );
    let seen = judge.lock();
    assert_eq!(seen[2]["oldObject"]["data"]["k"], "v");
    assert_eq!(seen[2]["object"]["data"]["k"], "w");
    assert_eq!(seen[3]["object"], Value::Null);
    assert_eq!(seen[3]["oldObject"]["metadata"]["name"], "a");
    assert!(seen[4].get("name").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_webhook_that_cannot_be_called_fails_or_is_ignored() {
    let server = server();
    never_answering(&server);
    server.route_service_to(
        "hooks",
        "broken",
        tower::service_fn(|_: Request<Full<Bytes>>| async {
            let mut response = Response::new(Full::new(Bytes::from("on fire\n")));
            *response.status_mut() = http::StatusCode::INTERNAL_SERVER_ERROR;
            Ok::<_, Infallible>(response)
        }),
    );
    server.route_service_to(
        "hooks",
        "odd",
        tower::service_fn(|_: Request<Full<Bytes>>| async {
            Ok::<_, Infallible>(Response::new(Full::new(Bytes::from("[]"))))
        }),
    );
    for (service, why) in [
        (
            "slow",
            "failed to call webhook: Post \"https://slow.hooks.svc:443/ask?timeout=10s\": context deadline exceeded",
        ),
        (
            "broken",
            "failed to call webhook: an error on the server (\"on fire\") has prevented the request from succeeding",
        ),
        (
            "absent",
            "failed to call webhook: Post \"https://absent.hooks.svc:443/ask?timeout=10s\": service \"absent\" not found",
        ),
    ] {
        for kind in ["Mutating", "Validating"] {
            let kind = format!("{kind}WebhookConfiguration");
            server
                .create(configuration(&kind, service, &json!({})))
                .unwrap();
            let began = server.now();
            let refused = refusal(&post(&server, CONFIG_MAPS, &config_map("x")).await);
            let message = format!(
                "Internal error occurred: failed calling webhook \"{service}.example.com\": {why}"
            );
            assert_eq!(refused, (500, message));
            let took = server.now().duration_since(began).as_secs();
            assert_eq!(took, if service == "slow" { 10 } else { 0 });
            let plural = format!("{}s.admissionregistration.k8s.io", kind.to_lowercase());
            server.delete(&plural, "", service).unwrap();
            let ignoring = json!({"failurePolicy": "Ignore", "timeoutSeconds": 3});
            server
                .create(configuration(&kind, service, &ignoring))
                .unwrap();
            post(&server, CONFIG_MAPS, &config_map("x"))
                .await
                .expect(201);
            delete(&server, &at("x")).await.expect(200);
            server.delete(&plural, "", service).unwrap();
        }
    }
    validating(&server, "odd", &json!({}));
    assert_eq!(
        post(&server, CONFIG_MAPS, &config_map("x")).await.status,
        500
    );
}

fn never_answering(server: &ApiServer) {
    server.route_service_to(
        "hooks",
        "slow",
        tower::service_fn(|_: Request<Full<Bytes>>| {
            std::future::pending::<Result<Response<Full<Bytes>>, Infallible>>()
        }),
    );
}

/// The message is that of apiserver's `finisher.go`.
/// Answers with a redirect, and records the paths of the requests.
fn redirecting(server: &ApiServer, service: &str) -> Arc<Mutex<Vec<String>>> {
    let paths = Arc::new(Mutex::new(Vec::new()));
    let record = Arc::clone(&paths);
    let redirect = tower::service_fn(move |request: Request<Full<Bytes>>| {
        record.lock().push(request.uri().path().to_owned());
        async {
            let mut response = Response::new(Full::new(Bytes::new()));
            *response.status_mut() = http::StatusCode::TEMPORARY_REDIRECT;
            let elsewhere = http::HeaderValue::from_static("/elsewhere");
            response.headers_mut().insert("location", elsewhere);
            Ok::<_, Infallible>(response)
        }
    });
    server.route_service_to("hooks", service, redirect);
    paths
}

#[tokio::test(start_paused = true)]
async fn paths_are_cleaned_and_redirects_are_not_followed() {
    let server = server();
    let paths = redirecting(&server, "moved");
    let client = json!({"clientConfig": {"url": "https://moved.hooks.svc//a/./b/"}});
    validating(&server, "moved", &client);
    let refused = refusal(&post(&server, CONFIG_MAPS, &config_map("x")).await);
    let message = "Internal error occurred: failed calling webhook \"moved.example.com\": failed to call webhook: the server responded with the status code 307 but did not return more information";
    assert_eq!(refused, (500, message.to_owned()));
    assert_eq!(*paths.lock(), ["/a/b"]);
}

#[tokio::test(start_paused = true)]
async fn a_request_waits_for_webhooks_up_to_its_timeout() {
    let server = server();
    never_answering(&server);
    server
        .create(configuration(
            "ValidatingWebhookConfiguration",
            "slow",
            &json!({}),
        ))
        .unwrap();
    let began = server.now();
    let path = format!("{CONFIG_MAPS}?timeout=2s");
    let refused = refusal(&post(&server, &path, &config_map("x")).await);
    let message =
        "Timeout: request did not complete within requested timeout - context deadline exceeded";
    assert_eq!(refused, (504, message.to_owned()));
    assert_eq!(server.now().duration_since(began).as_secs(), 2);
    get(&server, &at("x")).await.expect(404);
}

#[tokio::test(start_paused = true)]
async fn a_webhooks_result_is_validated() {
    let server = server();
    for (service, patch, expected) in [
        (
            "breaker",
            json!([{"op": "add", "path": "/data/bad key", "value": "1"}]),
            (
                422,
                "ConfigMap \"a\" is invalid: data[bad key]: Invalid value: \"bad key\": a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')",
            ),
        ),
        (
            "misser",
            json!([{"op": "remove", "path": "/spec"}]),
            (
                500,
                "Internal error occurred: error in remove for path: '/spec': Unable to remove nonexistent key: spec: missing value",
            ),
        ),
        (
            "mover",
            json!([{"op": "replace", "path": "/metadata/namespace", "value": "kube-system"}]),
            (
                400,
                "the namespace of the provided object does not match the namespace sent on the request",
            ),
        ),
    ] {
        answer_for(&server, service, move |_| patched(&patch));
        mutating(&server, service, &json!({}));
        let (code, message) = expected;
        let found = refusal(&post(&server, CONFIG_MAPS, &config_map("a")).await);
        assert_eq!(found, (code, message.to_owned()));
        let plural = "mutatingwebhookconfigurations.admissionregistration.k8s.io";
        server.delete(plural, "", service).unwrap();
    }
    answer_for(&server, "typist", |_| {
        patched(&json!([{"op": "replace", "path": "/data", "value": 7}]))
    });
    mutating(&server, "typist", &json!({}));
    let (code, message) = refusal(&post(&server, CONFIG_MAPS, &config_map("a")).await);
    assert_eq!(code, 500);
    assert!(
        message.starts_with("Internal error occurred: json: cannot unmarshal number"),
        "{message}"
    );
}

#[tokio::test(start_paused = true)]
async fn webhooks_run_by_name_and_again_if_needed() {
    let server = server();
    let add = |letter: &'static str| {
        move |request: &Value| {
            let text = request["object"]["data"]["said"]
                .as_str()
                .unwrap_or_default();
            if text.len() >= 4 {
                return allowed();
            }
            patched(
                &json!([{"op": "add", "path": "/data/said", "value": format!("{text}{letter}")}]),
            )
        }
    };
    let last = answer_for(&server, "c", add("c"));
    let first = answer_for(&server, "a", add("a"));
    answer_for(&server, "b", add("b"));
    mutating(&server, "c", &json!({}));
    mutating(&server, "a", &json!({"reinvocationPolicy": "IfNeeded"}));
    mutating(&server, "b", &json!({}));
    let made = post(&server, CONFIG_MAPS, &config_map("x"))
        .await
        .expect(201);
    assert_eq!(made["data"]["said"], "abca");
    assert_eq!((first.lock().len(), last.lock().len()), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn warnings_reach_the_client_with_every_answer() {
    let server = server();
    answer_for(&server, "judge", |request| {
        let allowed = request["name"] == "good";
        json!({"allowed": allowed, "warnings": ["mind the gap", "mind the gap"]})
    });
    validating(&server, "judge", &json!({}));
    for name in ["good", "bad"] {
        let answer = post(&server, CONFIG_MAPS, &config_map(name)).await;
        assert_eq!(answer.status, if name == "good" { 201 } else { 400 });
        assert_eq!(answer.header("warning"), "299 - \"mind the gap\"");
    }
    let answer = delete(&server, &at("good")).await;
    assert_eq!(answer.header("warning"), "299 - \"mind the gap\"");
}

/// ADM-1
#[tokio::test(start_paused = true)]
async fn webhooks_are_called_again_if_the_object_changed_meanwhile() {
    let server = server();
    create_config_maps(&server, &["a"]).await;
    let behind = server.clone();
    let judge = answer_for(&server, "judge", move |request| {
        if request["oldObject"]["data"].get("raced").is_none() {
            let patch = json!({"data": {"raced": "yes"}});
            behind
                .merge_patch("configmaps", "default", "a", &patch)
                .unwrap();
        }
        allowed()
    });
    validating(&server, "judge", &json!({}));
    let patch = json!({"data": {"k": "w"}});
    let written = merge(&server, &at("a"), &patch).await.expect(200);
    assert_eq!(written["data"], json!({"k": "w", "raced": "yes"}));
    let seen = judge.lock();
    assert_eq!(seen.len(), 2);
    assert_eq!(seen[1]["object"]["data"], written["data"]);
    assert_ne!(seen[0]["uid"], seen[1]["uid"]);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_keeps_changing_is_a_conflict() {
    let server = server();
    create_config_maps(&server, &["a"]).await;
    let behind = server.clone();
    answer_for(&server, "judge", move |request| {
        let version = &request["oldObject"]["metadata"]["resourceVersion"];
        let patch = json!({"data": {"raced": version}});
        behind
            .merge_patch("configmaps", "default", "a", &patch)
            .unwrap();
        allowed()
    });
    validating(&server, "judge", &json!({}));
    let answer = merge(&server, &at("a"), &json!({"data": {"k": "w"}})).await;
    assert_eq!(answer.status, 409, "{}", answer.text);
}

/// The generated uids and names do not depend on the number of runs of the verb.
#[tokio::test(start_paused = true)]
async fn every_run_of_a_verb_generates_the_same_uid() {
    let server = server();
    let judge = answer_for(&server, "judge", |_| allowed());
    validating(&server, "judge", &json!({}));
    let made = post(&server, CONFIG_MAPS, &config_map("a"))
        .await
        .expect(201);
    let seen = judge.lock();
    assert_eq!(seen.len(), 1);
    assert_eq!(
        seen[0]["object"]["metadata"]["uid"],
        made["metadata"]["uid"]
    );
}
