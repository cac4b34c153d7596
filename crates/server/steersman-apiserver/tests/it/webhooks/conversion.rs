//! Tests of conversion webhooks.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use steersman_apiserver::ResponseBody;

use super::*;
use crate::support::{WEBSITES, Watch, send};

const BETA: &str = "/apis/example.com/v1beta1/namespaces/default/websites";

/// Returns a CRD with the field `picture` in its older version and `image` in the stored one.
fn definition() -> Value {
    let mut crd = website_crd();
    let mut beta = crd["spec"]["versions"][0].clone();
    beta["name"] = json!("v1beta1");
    beta["storage"] = json!(false);
    let spec = &mut beta["schema"]["openAPIV3Schema"]["properties"]["spec"];
    spec["required"] = json!(["picture"]);
    spec["properties"] = json!({"picture": {"type": "string"}, "replicas": {"type": "integer"}});
    crd["spec"]["versions"].as_array_mut().unwrap().push(beta);
    crd["spec"]["conversion"] = json!({
        "strategy": "Webhook",
        "webhook": {
            "conversionReviewVersions": ["v1"],
            "clientConfig": {"service": {"namespace": "hooks", "name": "converter"}},
        },
    });
    crd
}

fn rename(object: &Value, to: &Value) -> Value {
    let mut object = object.clone();
    let (from, name) = if *to == "example.com/v1" {
        ("picture", "image")
    } else {
        ("image", "picture")
    };
    let spec = object["spec"].as_object_mut().unwrap();
    if let Some(value) = spec.remove(from) {
        spec.insert(name.to_owned(), value);
    }
    object["apiVersion"] = to.clone();
    object
}

/// Lets a closure change the response of a converter that renames the field.
fn convert_with(
    server: &ApiServer,
    change: impl Fn(&Value, &mut Value) + Clone + Send + Sync + 'static,
) -> Seen {
    let seen = Seen::default();
    let record = Arc::clone(&seen);
    let service = tower::service_fn(move |request: Request<Full<Bytes>>| {
        let (change, record) = (change.clone(), Arc::clone(&record));
        async move {
            let body = request.into_body().collect().await?.to_bytes();
            let review: Value = serde_json::from_slice(&body).unwrap();
            let asked = review["request"].clone();
            let objects = asked["objects"].as_array().unwrap().iter();
            let to = &asked["desiredAPIVersion"];
            let converted: Vec<Value> = objects.map(|one| rename(one, to)).collect();
            let mut answer = json!({"apiVersion": review["apiVersion"], "kind": "ConversionReview",
                "response": {"uid": asked["uid"], "result": {"status": "Success"},
                    "convertedObjects": converted}});
            change(&asked, &mut answer);
            record.lock().push(asked);
            Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(answer.to_string()))))
        }
    });
    server.route_service_to("hooks", "converter", service);
    seen
}

fn beta(name: &str, picture: &str) -> Value {
    json!({"apiVersion": "example.com/v1beta1", "kind": "Website", "metadata": {"name": name},
        "spec": {"picture": picture}})
}

#[tokio::test(start_paused = true)]
async fn objects_are_written_and_read_through_the_webhook() {
    let server = server();
    server.install_crd(definition()).unwrap();
    let seen = convert_with(&server, |_, _| {});
    let made = post(&server, BETA, &beta("a", "one")).await.expect(201);
    assert_eq!(made["apiVersion"], "example.com/v1beta1");
    // SRV-CRD-2: the webhook gets the object with the defaults of the storage version.
    assert_eq!(made["spec"], json!({"picture": "one", "replicas": 1}));
    let kept = server.get("websites.example.com", "default", "a").unwrap();
    assert_eq!(kept["apiVersion"], "example.com/v1");
    assert_eq!(kept["spec"]["image"], "one");
    assert_eq!(kept["metadata"], made["metadata"]);
    let read = get(&server, &format!("{BETA}/a")).await.expect(200);
    assert_eq!(read["spec"]["picture"], "one");
    let patch = json!({"spec": {"picture": "two"}});
    let patched = merge(&server, &format!("{BETA}/a"), &patch)
        .await
        .expect(200);
    assert_eq!(patched["spec"]["picture"], "two");
    assert_ne!(
        patched["metadata"]["resourceVersion"],
        read["metadata"]["resourceVersion"]
    );
    let stored = get(&server, &format!("{WEBSITES}/a")).await.expect(200);
    assert_eq!(stored["spec"]["image"], "two");
    seen.lock().clear();
    server.create(website("b")).unwrap();
    let list = get(&server, BETA).await.expect(200);
    let pictures: Vec<&Value> = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["spec"]["picture"])
        .collect();
    assert_eq!(
        pictures,
        [&json!("two"), &json!("registry.example.com/site:1")]
    );
    // One call for the whole list, and none for the stored version.
    assert_eq!(seen.lock().len(), 1);
    assert_eq!(seen.lock()[0]["objects"].as_array().unwrap().len(), 2);
    get(&server, WEBSITES).await.expect(200);
    assert_eq!(seen.lock().len(), 1);
    delete(&server, &format!("{BETA}/a")).await.expect(200);
    assert!(server.get("websites.example.com", "default", "a").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_watch_is_converted_too() {
    let server = server();
    server.install_crd(definition()).unwrap();
    convert_with(&server, |_, _| {});
    server.create(website("a")).unwrap();
    let mut watch = Watch::open(&server, &format!("{BETA}?watch=true")).await;
    let first = watch.next().await.unwrap();
    assert_eq!(first["type"], "ADDED");
    assert_eq!(
        first["object"]["spec"]["picture"],
        "registry.example.com/site:1"
    );
    post(&server, BETA, &beta("b", "two")).await.expect(201);
    let second = watch.next().await.unwrap();
    assert_eq!(second["object"]["spec"]["picture"], "two");
    server
        .delete("websites.example.com", "default", "a")
        .unwrap();
    let third = watch.next().await.unwrap();
    assert_eq!(third["type"], "DELETED");
    assert_eq!(third["object"]["apiVersion"], "example.com/v1beta1");
    convert_with(&server, |_, answer| {
        answer["response"]["result"] = json!({"status": "Failure", "message": "lost"});
    });
    server
        .delete("websites.example.com", "default", "b")
        .unwrap();
    let last = watch.next().await.unwrap();
    assert_eq!(last["type"], "ERROR");
    assert_eq!(last["object"]["code"], 500);
    assert!(watch.next().await.is_none());
}

/// SRV-STOP-1: a webhook that does not answer holds up no watch that is to end.
#[tokio::test(start_paused = true)]
async fn a_watch_that_waits_for_its_conversion_ends_with_the_server() {
    let server = server();
    server.install_crd(definition()).unwrap();
    server.create(website("a")).unwrap();
    let never = tower::service_fn(|_: Request<Full<Bytes>>| {
        std::future::pending::<Result<Response<Full<Bytes>>, Infallible>>()
    });
    server.route_service_to("hooks", "converter", never);
    let from = server.revision() - 1;
    let path = format!("{BETA}?watch=true&allowWatchBookmarks=true&resourceVersion={from}");
    let mut watch = Watch::open(&server, &path).await;
    assert!(futures::poll!(std::pin::pin!(watch.next())).is_pending());
    let began = tokio::time::Instant::now();
    server.shut_down();
    assert!(watch.next().await.is_none());
    assert_eq!(
        began.elapsed(),
        std::time::Duration::ZERO,
        "the webhook's timeout"
    );
}

/// SRV-WATCH-4: as in the first run of an operator: the definition gets its conversion after
/// clients have begun to watch.
#[tokio::test(start_paused = true)]
async fn a_watch_from_before_the_conversion_ends_and_its_client_lists_again() {
    let server = server();
    let mut unconverted = definition();
    unconverted["spec"]["conversion"] = json!({"strategy": "None"});
    server.install_crd(unconverted).unwrap();
    server.create(website("a")).unwrap();
    let from = server.revision();
    let path = format!("{BETA}?watch=true&allowWatchBookmarks=true&resourceVersion={from}");
    let mut watch = Watch::open(&server, &path).await;
    server.create(website("b")).unwrap();
    assert_eq!(watch.next_short().await.unwrap(), "ADDED b");
    convert_with(&server, |_, _| {});
    server.install_crd(definition()).unwrap();
    server.create(website("c")).unwrap();
    assert!(watch.next().await.is_none());
    let mut resumed = Watch::open(&server, &path).await;
    let expired = resumed.next().await.unwrap();
    assert_eq!(
        (&expired["type"], &expired["object"]["code"]),
        (&json!("ERROR"), &json!(410))
    );
    assert!(resumed.next().await.is_none());
    let list = get(&server, BETA).await.expect(200);
    let items = list["items"].as_array().unwrap();
    assert_eq!(items.len(), 3);
    assert!(items.iter().all(|one| one["spec"]["picture"].is_string()));
    let version = list["metadata"]["resourceVersion"].as_str().unwrap();
    let mut again = Watch::open(
        &server,
        &format!("{BETA}?watch=true&resourceVersion={version}"),
    )
    .await;
    server.create(website("d")).unwrap();
    let event = again.next().await.unwrap();
    assert!(event["object"]["spec"]["picture"].is_string(), "{event}");
    // Another authority of the webhook is another conversion.
    let mut renewed = definition();
    renewed["spec"]["conversion"]["webhook"]["clientConfig"]["caBundle"] =
        json!(STANDARD.encode(tls::authority()));
    server.install_crd(renewed).unwrap();
    assert!(again.next().await.is_none());
}

/// A converter that does not answer delays the events of its own edition only.
#[tokio::test(start_paused = true)]
async fn a_watch_that_waits_for_its_converter_ends_with_its_definition() {
    let server = server();
    server.install_crd(definition()).unwrap();
    let path = format!("{BETA}?watch=true&resourceVersion={}", server.revision());
    let mut watch = Watch::open(&server, &path).await;
    let silent = |_: Request<Full<Bytes>>| {
        std::future::pending::<Result<Response<ResponseBody>, Infallible>>()
    };
    server.route_service_to("hooks", "converter", tower::service_fn(silent));
    server.create(website("a")).unwrap();
    assert!(futures::poll!(std::pin::pin!(watch.next())).is_pending());
    let mut other = definition();
    other["spec"]["conversion"]["webhook"]["clientConfig"]["service"]["name"] = json!("other");
    server.install_crd(other).unwrap();
    assert!(watch.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn an_apply_reads_and_writes_its_own_version() {
    let server = server();
    server.install_crd(definition()).unwrap();
    convert_with(&server, |_, _| {});
    let headers = [("content-type", "application/apply-patch+yaml")];
    let path = format!("{BETA}/a?fieldManager=me");
    for picture in ["one", "two"] {
        let body = beta("a", picture).to_string();
        let applied = ask(&server, "PATCH", &path, &headers, body).await;
        assert!(applied.status < 300, "{}", applied.text);
        assert_eq!(applied.json()["spec"]["picture"], picture);
    }
    let kept = server.get("websites.example.com", "default", "a").unwrap();
    assert_eq!(kept["spec"]["image"], "two");
}

/// ADM-2
/// ADM-1
#[tokio::test(start_paused = true)]
async fn the_conversions_of_one_write_are_no_changes_of_its_object() {
    let server = server();
    server.install_crd(definition()).unwrap();
    let (behind, changes) = (server.clone(), Arc::new(AtomicUsize::new(0)));
    let changed = Arc::clone(&changes);
    convert_with(&server, move |asked, _| {
        let is_read = asked["desiredAPIVersion"] == "example.com/v1beta1";
        let number = changed.load(Ordering::SeqCst);
        // Another writer, while the webhook converts the stored object: as often as a webhook may be asked again.
        if is_read && (1..=5).contains(&number) {
            changed.store(number + 1, Ordering::SeqCst);
            let patch = json!({"spec": {"replicas": number}});
            let written = behind.merge_patch("websites.example.com", "default", "a", &patch);
            written.unwrap();
        }
    });
    post(&server, BETA, &beta("a", "one")).await.expect(201);
    changes.store(1, Ordering::SeqCst);
    let patch = json!({"spec": {"picture": "two"}});
    let written = merge(&server, &format!("{BETA}/a"), &patch).await;
    let written = written.expect(200);
    assert_eq!(changes.load(Ordering::SeqCst), 6);
    assert_eq!(written["spec"], json!({"picture": "two", "replicas": 5}));
}

#[tokio::test(start_paused = true)]
async fn a_conversion_that_fails_changes_nothing() {
    let server = server();
    server.install_crd(definition()).unwrap();
    server.create(website("a")).unwrap();
    let before = server.revision();
    let of = "conversion for example.com/v1beta1, Kind=Website";
    let call = "failed: conversion webhook for /, Kind= failed";
    type Change = fn(&Value, &mut Value);
    let cases: [(Change, String); 5] = [
        (
            |_, answer| answer["response"]["result"] = json!({"status": "Failed", "message": "no"}),
            format!("{of} {call}: no"),
        ),
        (
            |_, answer| answer["response"] = Value::Null,
            format!("{of} {call}: no response provided"),
        ),
        (
            |_, answer| answer["response"]["convertedObjects"] = json!([]),
            format!("{of} returned 0 objects, expected 1"),
        ),
        (
            |_, answer| {
                answer["response"]["convertedObjects"][0]["apiVersion"] = json!("example.com/v7")
            },
            format!(
                "{of} returned invalid converted object at index 1: invalid groupVersion (expected example.com/v1, received example.com/v7)"
            ),
        ),
        (
            |_, answer| answer["response"]["convertedObjects"][0]["metadata"]["name"] = json!("z"),
            format!(
                "{of} returned invalid converted object at index 1: must have the same name: b != z"
            ),
        ),
    ];
    for (change, message) in cases {
        convert_with(&server, change);
        let answer = post(&server, BETA, &beta("b", "x")).await;
        assert_eq!(refusal(&answer), (500, message));
        assert_eq!(get(&server, BETA).await.status, 500);
        assert_eq!(delete(&server, &format!("{BETA}/a")).await.status, 500);
    }
    assert_eq!(server.revision(), before);
}

#[tokio::test(start_paused = true)]
async fn a_list_continues_at_its_revision_after_a_conversion() {
    let server = server();
    server.install_crd(definition()).unwrap();
    server.create(website("a")).unwrap();
    let (behind, first) = (server.clone(), server.revision());
    let seen = convert_with(&server, move |_, _| {
        behind
            .create(website(&format!("n{}", behind.revision())))
            .unwrap();
    });
    let list = get(&server, BETA).await.expect(200);
    assert_eq!(list["items"].as_array().unwrap().len(), 1);
    assert_eq!(
        list["metadata"]["resourceVersion"],
        json!(first.to_string())
    );
    assert_eq!(seen.lock().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_hanging_converter_times_out_after_thirty_seconds() {
    let server = server();
    server.install_crd(definition()).unwrap();
    server.create(website("a")).unwrap();
    let silent = |_: Request<Full<Bytes>>| {
        std::future::pending::<Result<Response<ResponseBody>, Infallible>>()
    };
    server.route_service_to("hooks", "converter", tower::service_fn(silent));
    let began = server.now();
    let (status, _, _) = send(&server, "GET", &format!("{BETA}/a"), &[], "").await;
    assert_eq!(status, 500);
    assert_eq!(server.now().duration_since(began).as_secs(), 30);
}

/// A migration calls the webhook as a request does, and waits while the webhook fails.
#[tokio::test(start_paused = true)]
async fn a_migration_of_stored_versions_is_converted_by_the_webhook() {
    let server = ApiServer::builder().storage_migrations(true).build();
    server.install_crd(definition()).unwrap();
    for name in ["a", "b"] {
        server.create(website(name)).unwrap();
    }
    let mut crd = definition();
    for version in crd["spec"]["versions"].as_array_mut().unwrap() {
        version["storage"] = json!(version["name"] == "v1beta1");
    }
    server.install_crd(crd).unwrap();
    let fails = Arc::new(AtomicBool::new(true));
    let failing = Arc::clone(&fails);
    let seen = convert_with(&server, move |_, answer| {
        if failing.load(Ordering::Relaxed) {
            answer["response"]["result"] = json!({"status": "Failure", "message": "later"});
        }
    });
    let migration = json!({"apiVersion": "storagemigration.k8s.io/v1beta1",
        "kind": "StorageVersionMigration", "metadata": {"name": "m"},
        "spec": {"resource": {"group": "example.com", "resource": "websites"}}});
    server.create(migration).unwrap();
    let kind = "storageversionmigrations.storagemigration.k8s.io";
    let has = |condition: &str| {
        let found = server.get(kind, "", "m").unwrap();
        let all = found["status"]["conditions"].as_array().cloned();
        let mut all = all.into_iter().flatten();
        all.any(|one| one["type"] == condition && one["status"] == "True")
    };
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    assert!(has("Running") && !has("Failed"));
    let calls = seen.lock().len();
    assert!((5..50).contains(&calls), "{calls} calls in a minute");
    fails.store(false, Ordering::Relaxed);
    tokio::time::sleep(std::time::Duration::from_secs(600)).await;
    assert!(has("Succeeded") && !has("Running"));
    let crd = server.get(
        "customresourcedefinitions.apiextensions.k8s.io",
        "",
        "websites.example.com",
    );
    assert_eq!(crd.unwrap()["status"]["storedVersions"], json!(["v1beta1"]));
    let mut text = Vec::new();
    server.snapshot().write(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert_eq!(text.matches("\"picture\":\"registry").count(), 2, "{text}");
}
