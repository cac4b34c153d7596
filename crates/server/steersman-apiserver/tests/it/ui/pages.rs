//! Tests of the lists: kinds, objects and requests, with their filters and pages.

use std::io::{BufRead, BufReader, Write};

use serde_json::{Value, json};
use steersman_apiserver::{ApiServer, Snapshot};

use super::{connect, get, html, json as read, serve};
use crate::support::{
    CONFIG_MAPS, Watch, ask, config_map, create_config_maps, post, server, website_crd,
};

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

#[tokio::test(start_paused = true)]
async fn each_kind_is_listed_once_with_the_number_of_its_objects() {
    let server = server();
    server.install_crd(website_crd()).unwrap();
    create_config_maps(&server, &["a", "b"]).await;
    let page = serve(&server);
    let kinds = read(&page, "/api/kinds");
    let rows = kinds["kinds"].as_array().unwrap();
    assert_eq!(
        rows[0]["resource"], "websites.example.com",
        "custom kinds come first"
    );
    let of = |resource: &str| {
        let rows: Vec<_> = rows
            .iter()
            .filter(|row| row["resource"] == resource)
            .collect();
        assert_eq!(rows.len(), 1, "{resource}");
        rows[0]["objects"].as_u64().unwrap()
    };
    assert_eq!(
        (of("configmaps"), of("namespaces"), of("deployments.apps")),
        (2, 4, 0)
    );
    // Events are served in two groups, and stored once.
    assert_eq!(of("events"), 0);
    assert!(
        !rows
            .iter()
            .any(|row| row["resource"] == "events.events.k8s.io")
    );
    let shown = html(&page, "/");
    assert!(shown.contains("href=\"/objects/configmaps\""), "{shown}");
}

/// Returns a server with ConfigMaps from `map-00000` on. It reads them from a snapshot, because creating them takes long.
fn with_config_maps(many: usize) -> ApiServer {
    let server = ApiServer::new();
    server.create(config_map("map-00000")).unwrap();
    let mut text = Vec::new();
    server.snapshot().write(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let line = text
        .lines()
        .find(|line| line.contains("map-00000"))
        .unwrap();
    let map = line.trim_end_matches([',', ']']);
    let maps = (0..many).map(|number| map.replace("map-00000", &format!("map-{number:05}")));
    let maps: Vec<String> = maps.collect();
    let snapshot = Snapshot::read(text.replace(map, &maps.join(",\n")).as_bytes());
    ApiServer::builder().restore(snapshot.unwrap()).build()
}

#[tokio::test(start_paused = true)]
async fn fifty_thousand_objects_are_shown_a_page_at_a_time() {
    let server = with_config_maps(50_000);
    let page = serve(&server);
    let mut path = "/api/objects/configmaps".to_owned();
    for expected in 0..3 {
        let shown = read(&page, &path);
        let names: Vec<&str> = shown["objects"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| text(&row["name"]))
            .collect();
        assert_eq!(names.len(), 100);
        assert_eq!(names[0], format!("map-{:05}", expected * 100));
        assert_eq!(
            (&shown["fitting"], &shown["skipped"]),
            (&json!(50_000), &json!(expected * 100))
        );
        let next = text(&shown["next"]).replace('/', "%2F");
        path = format!("/api/objects/configmaps?after={next}");
    }
    let last = read(
        &page,
        "/api/objects/configmaps?name=map-49&namespace=default&after=default%2Fmap-49950",
    );
    assert_eq!(last["fitting"], 1_000);
    assert_eq!(last["next"], Value::Null);
    assert_eq!(last["objects"].as_array().unwrap().len(), 49);
    let shown = html(&page, "/objects/configmaps");
    assert!(shown.contains("1 to 100 of 50,000 objects"));
    assert!(shown.len() < 60_000, "a page has {} bytes", shown.len());
}

#[tokio::test(start_paused = true)]
async fn objects_have_the_columns_of_kubectl() {
    let server = server();
    let body = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    post(&server, "/api/v1/namespaces/default/pods", &body)
        .await
        .expect(201);
    let page = serve(&server);
    let pods = read(&page, "/api/objects/pods");
    assert_eq!(
        pods["columns"],
        json!(["Ready", "Status", "Restarts", "Age"])
    );
    assert_eq!(
        pods["objects"][0]["cells"],
        json!(["0/1", "Pending", "0", "0s"])
    );
}

#[tokio::test(start_paused = true)]
async fn requests_are_filtered_and_say_which_client_sent_them() {
    let server = server();
    create_config_maps(&server, &["a"]).await;
    let headers = [("user-agent", "my-operator/v1")];
    for name in ["a", "missing"] {
        ask(
            &server,
            "GET",
            &format!("{CONFIG_MAPS}/{name}"),
            &headers,
            "",
        )
        .await;
    }
    let _watch = Watch::open(&server, &format!("{CONFIG_MAPS}?watch=1")).await;
    let page = serve(&server);
    let paths = |query: &str| -> Vec<String> {
        let shown = read(&page, &format!("/api/requests?{query}"));
        let rows = shown["requests"].as_array().unwrap().iter();
        rows.map(|row| format!("{} {}", text(&row["verb"]), row["status"]))
            .collect()
    };
    assert_eq!(paths(""), ["watch 200", "get 404", "get 200", "create 201"]);
    assert_eq!(paths("client=my-operator&code=4xx"), ["get 404"]);
    assert_eq!(paths("code=open"), ["watch 200"]);
    assert_eq!(
        paths("verb=create&resource=configmaps&namespace=default&text=configmaps"),
        ["create 201"]
    );
    let shown = read(&page, "/api/requests?verb=create");
    let clients = shown["clients"].as_array().unwrap();
    let operator = clients
        .iter()
        .find(|one| one["userAgent"] == "my-operator/v1")
        .unwrap();
    assert_eq!(
        (&operator["requests"], &operator["failures"]),
        (&json!(2), &json!(1))
    );
    let shown = html(&page, "/requests?client=my-operator");
    assert!(shown.contains("2 requests of 4"), "{shown}");
}

#[tokio::test(start_paused = true)]
async fn an_event_tells_open_pages_of_each_change() {
    let server = server();
    let page = serve(&server);
    let mut socket = connect(page.addr());
    let request = format!("GET /api/events HTTP/1.1\r\nhost: {}\r\n\r\n", page.addr());
    socket.write_all(request.as_bytes()).unwrap();
    let mut lines = BufReader::new(socket).lines();
    let mut next = || -> Value {
        loop {
            let line = lines.next().unwrap().unwrap();
            if let Some(data) = line.strip_prefix("data: ") {
                return serde_json::from_str(data).unwrap();
            }
        }
    };
    let first = next();
    assert_eq!(first["revision"], server.revision());
    let object = config_map("a");
    server.create(object).unwrap();
    assert_eq!(next()["revision"], server.revision());
    let fault = steersman_apiserver::faults::Answer::code(503);
    let guard = server.faults().add(fault.into()).unwrap();
    assert_eq!(next()["faults"], json!([[guard.id(), 0]]));
}

#[tokio::test(start_paused = true)]
async fn an_address_without_a_page_is_named() {
    let server = server();
    let page = serve(&server);
    for path in [
        "/no", "/objects/nothings", "/objects/pods/default/p", "/requests/7",
    ] {
        let answer = get(&page, path);
        assert_eq!(answer.status, 404, "{path}");
        assert!(
            answer.body.contains(&format!("{path} does not exist")),
            "{}",
            answer.body
        );
        assert_eq!(get(&page, &format!("/api{path}")).status, 404, "{path}");
    }
}
