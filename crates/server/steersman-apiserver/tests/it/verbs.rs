//! Tests of creates, reads, updates and deletes as HTTP requests.

use serde_json::{Value, json};
use steersman_apiserver::ApiServer;

use crate::support::{
    CONFIG_MAPS, WEBSITES, Watch, ask, config_map, create_config_maps, delete, deployment, get,
    merge, post, put, server, website, website_crd,
};

#[tokio::test(start_paused = true)]
async fn an_object_is_created_read_changed_and_removed() {
    let server = server();
    let path = format!("{CONFIG_MAPS}/a");
    let created = post(&server, CONFIG_MAPS, &config_map("a"))
        .await
        .expect(201);
    assert_eq!(
        created["metadata"]["creationTimestamp"],
        "2026-01-01T00:00:00Z"
    );
    assert_eq!(created["metadata"]["namespace"], "default");
    assert_eq!(get(&server, &path).await.expect(200), created);

    let mut changed = created.clone();
    changed["data"]["k"] = json!("w");
    let updated = put(&server, &path, &changed).await.expect(200);
    assert_eq!(updated["data"]["k"], "w");
    let stale = put(&server, &path, &changed).await.expect(409);
    assert_eq!(stale["reason"], "Conflict");

    let patched = merge(&server, &path, &json!({ "data": { "k": null, "n": "1" } })).await;
    assert_eq!(patched.expect(200)["data"], json!({ "n": "1" }));

    let headers = [("content-type", "application/json-patch+json")];
    let operations = json!([{ "op": "add", "path": "/data/m", "value": "2" }]);
    let patched = ask(&server, "PATCH", &path, &headers, operations.to_string())
        .await
        .expect(200);
    assert_eq!(patched["data"], json!({ "n": "1", "m": "2" }));

    let gone = delete(&server, &path).await.expect(200);
    assert_eq!(gone["status"], "Success");
    let absent = get(&server, &path).await.expect(404);
    assert_eq!(absent["message"], "configmaps \"a\" not found");
    assert_eq!(
        absent["details"],
        json!({ "name": "a", "kind": "configmaps" })
    );
    assert!(server.get("configmaps", "default", "a").is_none());
}

#[tokio::test(start_paused = true)]
async fn finalizers_hold_a_delete() {
    let server = server();
    let path = format!("{CONFIG_MAPS}/a");
    let mut held = config_map("a");
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    post(&server, CONFIG_MAPS, &held).await.expect(201);
    let marked = delete(&server, &path).await.expect(200);
    assert_eq!(
        marked["metadata"]["deletionTimestamp"],
        "2026-01-01T00:00:00Z"
    );
    get(&server, &path).await.expect(200);
    merge(
        &server,
        &path,
        &json!({ "metadata": { "finalizers": null } }),
    )
    .await
    .expect(200);
    get(&server, &path).await.expect(404);
}

/// SRV-REG-5, for every type of write, for a kind with a grace period, a custom resource, and a
/// cluster-scoped object.
#[tokio::test(start_paused = true)]
async fn a_write_that_takes_the_last_finalizer_is_not_stored() {
    let server = server();
    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    post(&server, crds, &website_crd()).await.expect(201);
    let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "a" },
        "spec": { "nodeName": "n", "containers": [{ "name": "c", "image": "i" }] } });
    let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "a" } });
    for (path, object) in [
        (CONFIG_MAPS, config_map("a")),
        ("/api/v1/namespaces/default/pods", pod),
        (WEBSITES, website("a")),
        ("/api/v1/namespaces", namespace),
    ] {
        for media in [
            "json", "merge-patch+json", "json-patch+json", "apply-patch+yaml",
        ] {
            take_the_last_finalizer(&server, path, &object, media).await;
        }
    }
}

async fn take_the_last_finalizer(server: &ApiServer, path: &str, object: &Value, media: &str) {
    let one = format!("{path}/a?fieldManager=m");
    let apply = [("content-type", "application/apply-patch+yaml")];
    let mut held = object.clone();
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    let made = ask(server, "PATCH", &one, &apply, held.to_string()).await;
    made.expect(201);
    delete(server, &one).await.expect(200);
    let now = format!("{path}/a?gracePeriodSeconds=0");
    delete(server, &now).await.expect(200);
    let mut held = get(server, &one).await.expect(200);
    let version = held["metadata"]["resourceVersion"].clone();

    let free = || {
        let mut free = held.clone();
        free["metadata"]["finalizers"] = Value::Null;
        free
    };
    let (verb, body) = match media {
        "json" => ("PUT", free()),
        "merge-patch+json" => ("PATCH", json!({ "metadata": { "finalizers": null } })),
        "json-patch+json" => {
            let operation = json!({ "op": "remove", "path": "/metadata/finalizers" });
            ("PATCH", json!([operation]))
        }
        _ => ("PATCH", object.clone()),
    };
    let sent = format!("application/{media}");
    let headers = [("content-type", sent.as_str())];
    let since = server.revision();
    let mut watch = Watch::open(server, &format!("{path}?watch=1&resourceVersion={since}")).await;
    let dry = format!("{one}&dryRun=All");
    for is_dry in [true, false] {
        let whole = if is_dry { &dry } else { &one };
        let answer = ask(server, verb, whole, &headers, body.to_string()).await;
        let metadata = &answer.expect(200)["metadata"];
        let of = format!("{path} by {media}, dry: {is_dry}");
        assert_eq!(metadata["resourceVersion"], version, "{of}");
        assert!(metadata["deletionTimestamp"].is_string(), "{of}");
        assert!(metadata["finalizers"].is_null(), "{of}");
        let found = get(server, &one).await.status;
        assert_eq!(found, if is_dry { 200 } else { 404 }, "{of}");
    }
    // The only event has the object as it was stored, at the version of its removal.
    held["metadata"]["resourceVersion"] = json!((since + 1).to_string());
    let event = watch.next().await.unwrap();
    let deleted = json!({ "type": "DELETED", "object": held });
    assert_eq!(event, deleted, "{path} by {media}");
    assert!(watch.is_quiet().await, "{path} by {media}");
}

#[tokio::test(start_paused = true)]
async fn status_and_scale_are_written_separately() {
    let server = server();
    let path = "/apis/apps/v1/namespaces/default/deployments";
    post(&server, path, &deployment("d")).await.expect(201);
    let status =
        json!({ "status": { "replicas": 1, "readyReplicas": 1 }, "spec": { "replicas": 9 } });
    let patched = merge(&server, &format!("{path}/d/status"), &status)
        .await
        .expect(200);
    assert_eq!(patched["status"]["readyReplicas"], 1);
    assert_eq!(patched["spec"]["replicas"], 2);
    let scale = format!("{path}/d/scale");
    assert_eq!(get(&server, &scale).await.expect(200)["kind"], "Scale");
    merge(&server, &scale, &json!({ "spec": { "replicas": 5 } }))
        .await
        .expect(200);
    let found = server.get("deployments.apps", "default", "d").unwrap();
    assert_eq!(found["spec"]["replicas"], 5);
    assert_eq!(found["metadata"]["generation"], 2);
    // A subresource that the resource does not have is an unknown path.
    let none = get(&server, &format!("{CONFIG_MAPS}/x/status"))
        .await
        .expect(404);
    assert_eq!(
        none["message"],
        "the server could not find the requested resource"
    );
}

#[tokio::test(start_paused = true)]
async fn a_collection_is_deleted_by_its_labels() {
    let server = server();
    create_config_maps(&server, &["a", "b"]).await;
    let label = json!({ "metadata": { "labels": { "going": "yes" } } });
    merge(&server, &format!("{CONFIG_MAPS}/a"), &label)
        .await
        .expect(200);
    let removed = delete(&server, &format!("{CONFIG_MAPS}?labelSelector=going%3Dyes")).await;
    assert_eq!(removed.expect(200)["items"].as_array().unwrap().len(), 1);
    let left = server.list("configmaps", "default");
    assert_eq!(left.len(), 1);
    assert_eq!(left[0]["metadata"]["name"], "b");
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_stores_nothing() {
    let server = server();
    let before = server.revision();
    post(
        &server,
        &format!("{CONFIG_MAPS}?dryRun=All"),
        &config_map("a"),
    )
    .await
    .expect(201);
    assert_eq!(server.revision(), before);
    create_config_maps(&server, &["a"]).await;
    let path = format!("{CONFIG_MAPS}/a?dryRun=All");
    delete(&server, &path).await.expect(200);
    assert!(server.get("configmaps", "default", "a").is_some());
}

#[tokio::test(start_paused = true)]
async fn unknown_fields_are_warned_about() {
    let server = server();
    server.install_crd(website_crd()).unwrap();
    let mut object = website("a");
    object["spec"]["extra"] = json!(1);
    let answer = post(&server, WEBSITES, &object).await;
    assert_eq!(answer.status, 201);
    assert_eq!(
        answer.header("warning"),
        r#"299 - "unknown field \"spec.extra\"""#
    );
    let strict = post(
        &server,
        &format!("{WEBSITES}?fieldValidation=Strict"),
        &object,
    )
    .await;
    assert_eq!(strict.status, 400);
}

#[tokio::test(start_paused = true)]
async fn a_method_that_the_path_does_not_support_is_refused() {
    let server = server();
    let body = config_map("x").to_string();
    for (method, path) in [
        ("POST", format!("{CONFIG_MAPS}/x")),
        ("PUT", CONFIG_MAPS.to_owned()),
        ("PATCH", CONFIG_MAPS.to_owned()),
        ("POST", "/api/v1/configmaps".to_owned()),
        ("DELETE", "/api/v1/configmaps".to_owned()),
        ("FOO", format!("{CONFIG_MAPS}/x")),
        (
            "POST",
            "/api/v1/namespaces/default/pods/x/status".to_owned(),
        ),
        ("DELETE", "/api/v1/namespaces".to_owned()),
        ("POST", "/apis/apps/v1".to_owned()),
    ] {
        let headers = [("content-type", "application/json")];
        let refused = ask(&server, method, &path, &headers, body.clone())
            .await
            .expect(405);
        assert_eq!(refused["reason"], "MethodNotAllowed", "{method} {path}");
    }
}

#[tokio::test(start_paused = true)]
async fn unknown_paths_answer_a_status_or_a_text_page() {
    let server = server();
    for path in [
        "/api/v1/namespaces/default/gadgets",
        "/apis/apps/v0/deployments",
        "/api/v9",
    ] {
        let refused = get(&server, path).await.expect(404);
        assert_eq!(refused["reason"], "NotFound", "{path}");
    }
    for path in [
        "/apis/nothing.example.com/v1/things",
        "/nowhere",
        "/apis/nothing.example.com",
    ] {
        let refused = get(&server, path).await;
        assert_eq!(
            (refused.status, refused.text.as_str()),
            (404, "404 page not found\n"),
            "{path}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_dropped_request_has_done_all_of_its_work_or_none() {
    // SRV-1
    let server = server();
    let before = server.revision();
    let delay = std::time::Duration::from_secs(5);
    let guard = server.faults().delay(
        steersman_apiserver::faults::Verb::Create,
        "configmaps",
        delay,
    );
    let object = config_map("a");
    let abandoned = post(&server, CONFIG_MAPS, &object);
    assert!(tokio::time::timeout(delay / 2, abandoned).await.is_err());
    tokio::time::sleep(delay * 2).await;
    assert_eq!(server.revision(), before);
    drop(guard);
    post(&server, CONFIG_MAPS, &object).await.expect(201);
}

#[tokio::test(start_paused = true)]
async fn dependents_are_deleted_with_their_owner_if_the_collector_is_played() {
    for played in [true, false] {
        let server = ApiServer::builder().play_controllers(played).build();
        let owner = post(&server, CONFIG_MAPS, &config_map("owner"))
            .await
            .expect(201);
        let mut dependent = config_map("dependent");
        dependent["metadata"]["ownerReferences"] = json!([{
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": "owner",
            "uid": owner["metadata"]["uid"],
        }]);
        post(&server, CONFIG_MAPS, &dependent).await.expect(201);
        delete(&server, &format!("{CONFIG_MAPS}/owner"))
            .await
            .expect(200);
        let left = server.get("configmaps", "default", "dependent");
        assert_eq!(left.is_none(), played);
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_deleted_without_a_policy_orphans_its_pods() {
    let server = server();
    let jobs = "/apis/batch/v1/namespaces/default/jobs";
    let job = |name: &str| {
        json!({ "apiVersion": "batch/v1", "kind": "Job", "metadata": { "name": name },
            "spec": { "template": { "spec": { "restartPolicy": "Never",
                "containers": [{ "name": "c", "image": "i" }] } } } })
    };
    post(&server, jobs, &job("j")).await.expect(201);
    let answer = delete(&server, &format!("{jobs}/j")).await;
    let warned = answer.header("warning").to_owned();
    assert!(
        warned.starts_with("299 - \"child pods are preserved by default when jobs are deleted; "),
        "{warned}"
    );
    assert_eq!(
        answer.expect(200)["metadata"]["finalizers"],
        json!(["orphan"])
    );
    post(&server, jobs, &job("k")).await.expect(201);
    let path = format!("{jobs}/k?propagationPolicy=Background");
    let answer = delete(&server, &path).await;
    assert_eq!((answer.status, answer.header("warning")), (200, ""));
}
