//! Tests of revisions: their differences, the requests that made them, and the owners of fields.

use serde_json::{Value, json};

use super::{get, html, json as read, serve};
use crate::support::{CONFIG_MAPS, ask, delete, merge, post, server};

const MERGE: &str = "application/merge-patch+json";

#[tokio::test(start_paused = true)]
async fn each_revision_has_its_difference_and_its_request() {
    let server = server();
    let body = json!({"metadata": {"name": "a"}, "data": {"x": "1"}});
    let before = json!({"metadata": {"name": "before"}});
    post(&server, CONFIG_MAPS, &before).await.expect(201);
    let page = serve(&server);
    post(&server, CONFIG_MAPS, &body).await.expect(201);
    let path = format!("{CONFIG_MAPS}/a");
    let headers = [
        ("content-type", MERGE),
        ("user-agent", "my-operator/v1 (linux)"),
    ];
    let patch = json!({"data": {"x": "2"}}).to_string();
    ask(&server, "PATCH", &path, &headers, patch)
        .await
        .expect(200);
    delete(&server, &path).await.expect(200);

    let shown = read(&page, "/api/objects/configmaps/default/a");
    assert_eq!(shown["state"]["exists"], false);
    let history = shown["history"].as_array().unwrap();
    let changes: Vec<&Value> = history.iter().map(|one| &one["change"]).collect();
    assert_eq!(changes, ["deleted", "changed", "created"]);
    assert_eq!(history[1]["by"]["userAgent"], "my-operator/v1 (linux)");
    assert_eq!(history[1]["by"]["verb"], "patch");
    assert_eq!(history[1]["managers"], json!(["my-operator"]));
    assert_eq!(
        history[1]["fields"],
        json!([{"path": "data.x", "lines": [{"sign": "removed", "text": "\"1\""}, {"sign": "added", "text": "\"2\""}]}])
    );
    // The request of a revision, and the revisions of a request.
    let sequence = &history[1]["by"]["sequence"];
    let request = read(&page, &format!("/api/requests/{sequence}"));
    assert_eq!(request["revisions"][0]["revision"], history[1]["revision"]);
    assert_eq!(request["revisions"][0]["name"], "a");
    let shown = html(&page, "/changes?name=a");
    assert!(
        shown.contains("patch</a> by <span title=\"user system:admin\">my-operator"),
        "{shown}"
    );

    let unknown = read(&page, "/api/objects/configmaps/default/before");
    assert_eq!(
        unknown["history"][0]["by"],
        json!({"type": "unknown"}),
        "nothing was recorded before"
    );
    assert_eq!(unknown["history"][0]["at"], Value::Null);
    server
        .create(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "direct"}}))
        .unwrap();
    let direct = read(&page, "/api/objects/configmaps/default/direct");
    assert_eq!(direct["history"][0]["by"], json!({"type": "server"}));
}

#[tokio::test(start_paused = true)]
async fn a_long_history_has_pages() {
    let server = server();
    post(&server, CONFIG_MAPS, &json!({"metadata": {"name": "a"}}))
        .await
        .expect(201);
    for number in 0..60 {
        merge(
            &server,
            &format!("{CONFIG_MAPS}/a"),
            &json!({"data": {"n": number.to_string()}}),
        )
        .await
        .expect(200);
    }
    let page = serve(&server);
    let (mut next, mut lengths) = (Value::Null, Vec::new());
    loop {
        let query = next
            .as_u64()
            .map_or(String::new(), |next| format!("?before={next}"));
        let shown = read(&page, &format!("/api/objects/configmaps/default/a{query}"));
        lengths.push(shown["history"].as_array().unwrap().len());
        next = shown["next"].clone();
        if next.is_null() {
            break;
        }
    }
    assert_eq!(lengths, [25, 25, 11]);
}

#[tokio::test(start_paused = true)]
async fn owners_of_fields_are_listed_with_values() {
    let server = server();
    let apply = [("content-type", "application/apply-patch+yaml")];
    let path = format!("{CONFIG_MAPS}/a?fieldManager=first");
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": "1", "y": "2"}});
    ask(&server, "PATCH", &path, &apply, body.to_string())
        .await
        .expect(201);
    let update = format!("{CONFIG_MAPS}/a?fieldManager=second");
    let headers = [("content-type", MERGE)];
    ask(
        &server,
        "PATCH",
        &update,
        &headers,
        json!({"data": {"y": "3"}}).to_string(),
    )
    .await
    .expect(200);
    let page = serve(&server);
    let shown = read(&page, "/api/objects/configmaps/default/a");
    let managers = shown["owners"]["managers"].as_array().unwrap();
    let named: Vec<_> = managers
        .iter()
        .map(|one| (&one["manager"], &one["operation"]))
        .collect();
    assert_eq!(
        named,
        [
            (&json!("first"), &json!("Apply")),
            (&json!("second"), &json!("Update"))
        ]
    );
    assert_eq!(
        shown["owners"]["fields"],
        json!([{"path": "data.x", "value": "1", "owners": [0]}, {"path": "data.y", "value": "3", "owners": [1]}])
    );
}

#[tokio::test(start_paused = true)]
async fn no_page_shows_a_value_of_a_secret() {
    let server = server();
    let page = serve(&server);
    let secrets = "/api/v1/namespaces/default/secrets";
    let applied = "{\"stringData\":{\"password\":\"hunter22\"}}";
    let body = json!({"metadata": {"name": "s",
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": applied}},
        "stringData": {"password": "hunter22"}});
    post(&server, secrets, &body).await.expect(201);
    let patch = json!({"data": {"password": "aHVudGVyMjM="}});
    merge(&server, &format!("{secrets}/s"), &patch)
        .await
        .expect(200);
    delete(&server, &format!("{secrets}/s")).await.expect(200);
    for path in [
        "/", "/objects/secrets", "/objects/secrets/default/s", "/changes", "/requests",
        "/requests/0", "/requests/1", "/requests/2",
    ] {
        let prefix = if path == "/" {
            "/api/kinds"
        } else {
            &format!("/api{path}")
        };
        for path in [path, prefix] {
            let answer = get(&page, path);
            assert_eq!(answer.status, 200, "{path}");
            for value in ["hunter22", "hunter23", "aHVudGVyMjI=", "aHVudGVyMjM="] {
                assert!(!answer.body.contains(value), "{path}: {}", answer.body);
            }
        }
    }
    let shown = read(&page, "/api/objects/secrets/default/s");
    let changed = &shown["history"][1]["fields"][0];
    assert_eq!(
        changed["path"], "data.password",
        "a change of a value is shown, without the value"
    );
}
