//! Tests of Tables, metadata only, YAML, compression, and views that cannot be produced.

mod compression;

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{
    Answer, CONFIG_MAPS, WEBSITES, Watch, ask, create_config_maps, deployment, get, merge, server,
    website, website_crd,
};

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
const PARTIAL: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
const PARTIAL_LIST: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";

async fn get_as(server: &steersman_apiserver::ApiServer, path: &str, accept: &str) -> Answer {
    ask(server, "GET", path, &[("accept", accept)], "").await
}

fn columns(table: &Value) -> Vec<String> {
    let definitions = table["columnDefinitions"].as_array().unwrap().iter();
    definitions
        .map(|column| {
            let name = column["name"].as_str().unwrap();
            if column["priority"] == 0 {
                name.to_owned()
            } else {
                format!("{name} (wide)")
            }
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn tables_of_built_in_kinds() {
    let server = server();
    create_config_maps(&server, &["a"]).await;
    tokio::time::advance(Duration::from_secs(200)).await;
    let table = get_as(&server, CONFIG_MAPS, TABLE).await.expect(200);
    assert_eq!(
        (&table["kind"], &table["apiVersion"]),
        (&json!("Table"), &json!("meta.k8s.io/v1"))
    );
    assert_eq!(columns(&table), ["Name", "Data", "Age"]);
    assert_eq!(table["rows"][0]["cells"], json!(["a", 1, "3m20s"]));
    assert_eq!(table["rows"][0]["object"]["kind"], "PartialObjectMetadata");

    server.create(deployment("d")).unwrap();
    let status = json!({ "status": { "replicas": 2, "readyReplicas": 1, "updatedReplicas": 2, "availableReplicas": 1 } });
    server
        .merge_patch("deployments.apps/status", "default", "d", &status)
        .unwrap();
    let path = "/apis/apps/v1/namespaces/default/deployments/d?includeObject=None";
    let table = get_as(&server, path, TABLE).await.expect(200);
    let expected = [
        "Name", "Ready", "Up-to-date", "Available", "Age", "Containers (wide)", "Images (wide)",
        "Selector (wide)",
    ];
    assert_eq!(columns(&table), expected);
    let row = &table["rows"][0];
    assert_eq!(
        row["cells"],
        json!([
            "d", "1/2", 2, 1, "0s", "main", "registry.example.com/tool:1", "app=d"
        ])
    );
    assert_eq!(row["object"], Value::Null);

    let empty = get_as(&server, "/api/v1/namespaces/default/pods", TABLE)
        .await
        .expect(200);
    assert_eq!(
        columns(&empty)[..5],
        ["Name", "Ready", "Status", "Restarts", "Age"]
    );
    assert_eq!(empty["rows"], json!([]));
    // An error stays a Status.
    let absent = get_as(&server, &format!("{CONFIG_MAPS}/absent"), TABLE)
        .await
        .expect(404);
    assert_eq!(absent["kind"], "Status");
    let refused = get_as(&server, &format!("{CONFIG_MAPS}?includeObject=All"), TABLE).await;
    assert_eq!(refused.status, 400);
}

#[tokio::test(start_paused = true)]
async fn the_table_of_pods_shows_their_state() {
    let server = server();
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": "p" },
        "spec": { "containers": [{ "name": "main", "image": "i" }] },
    });
    server.create(pod).unwrap();
    let states = [
        (
            json!({ "phase": "Running", "containerStatuses": [{ "ready": true, "restartCount": 2, "state": { "running": {} } }] }),
            "1/1",
            "Running",
            "2",
        ),
        (
            json!({ "containerStatuses": [{ "ready": false, "restartCount": 2, "state": { "waiting": { "reason": "ImagePullBackOff" } } }] }),
            "0/1",
            "ImagePullBackOff",
            "2",
        ),
        (
            json!({ "phase": "Failed", "containerStatuses": [{ "ready": false, "restartCount": 3, "state": { "terminated": { "exitCode": 7 } } }] }),
            "0/1",
            "ExitCode:7",
            "3",
        ),
    ];
    for (status, ready, word, restarts) in states {
        server
            .merge_patch("pods/status", "default", "p", &json!({ "status": status }))
            .unwrap();
        let table = get_as(&server, "/api/v1/namespaces/default/pods", TABLE)
            .await
            .expect(200);
        let cells = &table["rows"][0]["cells"];
        assert_eq!(
            (&cells[1], &cells[2], &cells[3]),
            (&json!(ready), &json!(word), &json!(restarts))
        );
    }
    let table = get_as(&server, "/api/v1/namespaces/default/pods", TABLE)
        .await
        .expect(200);
    assert_eq!(table["rows"][0]["conditions"][0]["type"], "Completed");
}

#[tokio::test(start_paused = true)]
async fn tables_of_custom_resources_have_their_own_columns() {
    let server = server();
    server.install_crd(website_crd()).unwrap();
    server.create(website("one")).unwrap();
    server.create(website("two")).unwrap();
    let ready = json!({ "status": { "conditions": [
        { "type": "Synced", "status": "False" },
        { "type": "Ready", "status": "True" },
    ] } });
    server
        .merge_patch("websites.example.com/status", "default", "one", &ready)
        .unwrap();
    let table = get_as(&server, WEBSITES, TABLE).await.expect(200);
    assert_eq!(
        columns(&table),
        ["Name", "Image", "Ready", "Wanted (wide)", "Age"]
    );
    let image = "registry.example.com/site:1";
    assert_eq!(
        table["rows"][0]["cells"],
        json!(["one", image, "True", 1, "0s"])
    );
    assert_eq!(
        table["rows"][1]["cells"],
        json!(["two", image, null, 1, "0s"])
    );

    let mut plain = website_crd();
    plain["spec"]["versions"][0]
        .as_object_mut()
        .unwrap()
        .remove("additionalPrinterColumns");
    server.install_crd(plain).unwrap();
    let table = get_as(&server, WEBSITES, TABLE).await.expect(200);
    assert_eq!(columns(&table), ["Name", "Age"]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_can_be_of_tables_or_of_metadata() {
    let server = server();
    let path = format!(
        "{CONFIG_MAPS}?watch=1&resourceVersion={}",
        server.revision()
    );
    let mut tables = Watch::open_as(&server, &path, TABLE).await;
    let mut partial = Watch::open_as(&server, &path, PARTIAL).await;
    create_config_maps(&server, &["a", "b"]).await;
    let first = tables.next().await.unwrap();
    assert_eq!(columns(&first["object"]), ["Name", "Data", "Age"]);
    assert_eq!(first["object"]["rows"][0]["cells"], json!(["a", 1, "0s"]));
    // Only the first event carries the columns.
    let second = tables.next().await.unwrap();
    assert_eq!(second["object"]["columnDefinitions"], Value::Null);
    assert_eq!(second["object"]["rows"][0]["cells"][0], "b");
    let event = partial.next().await.unwrap();
    assert_eq!(event["object"]["kind"], "PartialObjectMetadata");
    assert_eq!(event["object"].get("data"), None);
    assert_eq!(event["object"]["metadata"]["name"], "a");
}

#[tokio::test(start_paused = true)]
async fn objects_and_lists_can_be_reduced_to_metadata() {
    let server = server();
    let empty = get_as(&server, CONFIG_MAPS, PARTIAL_LIST).await.expect(200);
    assert_eq!(empty["items"], Value::Null);
    create_config_maps(&server, &["a"]).await;
    let one = format!("{CONFIG_MAPS}/a");
    let found = get_as(&server, &one, PARTIAL).await.expect(200);
    assert_eq!(found["kind"], "PartialObjectMetadata");
    assert_eq!(found.get("data"), None);
    let list = get_as(&server, CONFIG_MAPS, PARTIAL_LIST).await.expect(200);
    assert_eq!(list["items"][0]["kind"], "PartialObjectMetadata");
    let refused = get_as(&server, CONFIG_MAPS, PARTIAL).await.expect(406);
    assert_eq!(
        refused["message"],
        "you requested PartialObjectMetadata, but the requested object is a list (*core.ConfigMapList)"
    );
    let refused = get_as(&server, &one, PARTIAL_LIST).await.expect(406);
    assert_eq!(
        refused["message"],
        "you requested PartialObjectMetadataList, but the requested object is not a list (*core.ConfigMap)"
    );
}

#[tokio::test(start_paused = true)]
async fn yaml_is_accepted_and_answered() {
    let server = server();
    let yaml = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: why\ndata:\n  a: \"1\"\n";
    let headers = [
        ("content-type", "application/yaml"),
        ("accept", "application/yaml"),
    ];
    let created = ask(&server, "POST", CONFIG_MAPS, &headers, yaml).await;
    assert_eq!(
        (created.status, created.header("content-type")),
        (201, "application/yaml")
    );
    assert!(created.text.contains("name: why\n"), "{}", created.text);
    let absent = get_as(
        &server,
        &format!("{CONFIG_MAPS}/absent"),
        "application/yaml",
    )
    .await;
    assert!(
        absent.text.contains("reason: NotFound\n"),
        "{}",
        absent.text
    );
    merge(
        &server,
        &format!("{CONFIG_MAPS}/why"),
        &json!({ "data": { "a": "2" } }),
    )
    .await
    .expect(200);
    let json = get(&server, &format!("{CONFIG_MAPS}/why"))
        .await
        .expect(200);
    assert_eq!(json["data"]["a"], "2");
}

#[tokio::test(start_paused = true)]
async fn views_that_cannot_be_produced_are_refused() {
    let server = server();
    for accept in [
        "text/html",
        "application/*",
        "application/json;as=Gadget;v=v1;g=meta.k8s.io",
    ] {
        let refused = get_as(&server, CONFIG_MAPS, accept).await.expect(406);
        assert_eq!(refused["reason"], "NotAcceptable", "{accept}");
    }
    // The refusal comes before the write.
    let body = crate::support::config_map("a").to_string();
    let refused = ask(
        &server,
        "POST",
        CONFIG_MAPS,
        &[("accept", "image/png")],
        body,
    )
    .await;
    assert_eq!(refused.status, 406);
    assert!(server.get("configmaps", "default", "a").is_none());
}

/// Returns the `object` of a Table's only row.
fn row_object(table: &Value) -> &Value {
    assert_eq!(table["kind"], "Table", "{table}");
    &table["rows"][0]["object"]
}

#[tokio::test(start_paused = true)]
async fn the_object_of_a_row_follows_the_tables_version_and_include_object() {
    let server = server();
    server.install_crd(website_crd()).unwrap();
    let since = server.revision();
    create_config_maps(&server, &["a"]).await;
    server.create(website("a")).unwrap();
    let one = |path: &str, query: &str| format!("{path}/a?{query}");
    let list = |path: &str, query: &str| format!("{path}?{query}");
    for path in [CONFIG_MAPS, WEBSITES] {
        let whole = get(&server, &one(path, "")).await.expect(200);
        for version in ["v1", "v1beta1"] {
            let accept = format!("application/json;as=Table;v={version};g=meta.k8s.io");
            let metadata = json!({
                "kind": "PartialObjectMetadata",
                "apiVersion": format!("meta.k8s.io/{version}"),
                "metadata": whole["metadata"],
            });
            for (query, expected) in [
                ("", &metadata),
                ("includeObject=", &metadata),
                ("includeObject=Metadata", &metadata),
                ("includeObject=Object", &whole),
                ("includeObject=None", &Value::Null),
            ] {
                for path in [one(path, query), list(path, query)] {
                    let table = get_as(&server, &path, &accept).await.expect(200);
                    assert_eq!(row_object(&table), expected, "{path}");
                }
                let watch = format!("{path}?watch=1&resourceVersion={since}&{query}");
                let mut watch = Watch::open_as(&server, &watch, &accept).await;
                let event = watch.next().await.unwrap();
                assert_eq!(row_object(&event["object"]), expected, "{path} {query}");
            }
        }
        let wrong = "includeObject=metadata";
        let watch = format!("watch=1&resourceVersion={since}&{wrong}");
        for path in [one(path, wrong), list(path, wrong), list(path, &watch)] {
            let refused = get_as(&server, &path, TABLE).await.expect(400);
            assert_eq!(
                refused["message"],
                "Unable to convert to Table as requested: includeObject: Invalid value: \
                 \"metadata\": must be 'Metadata', 'Object', 'None', or empty",
                "{path}"
            );
        }
    }
}
