//! Watches in protobuf: every type of event, and the content types that a client may ask for.

use std::time::Duration;

use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use steersman_apiserver::{ApiServer, ResponseBody};
use steersman_protobuf::Frames;

use super::{PODS, PROTOBUF, STREAM, decoded_event, decoded_events, fetch, get_as, pod};
use crate::support::{
    CONFIG_MAPS, WEBSITES, config_map, create_config_maps, delete, merge, send, server, website,
    website_crd,
};

const WATCH_LIST: &str = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=1";
const PARTIAL: &str = "as=PartialObjectMetadata;v=v1;g=meta.k8s.io";

/// An open watch, read frame by frame.
struct OpenWatch {
    body: ResponseBody,
    frames: Frames,
}

impl OpenWatch {
    async fn open(server: &ApiServer, path: &str) -> Self {
        let (status, headers, body) = send(server, "GET", path, &[("accept", STREAM)], "").await;
        assert_eq!(
            (status, headers["content-type"].to_str().unwrap()),
            (200, STREAM)
        );
        Self {
            body,
            frames: Frames::default(),
        }
    }

    /// Returns the next event; `None` at the end.
    async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(frame) = self.frames.next_frame().unwrap() {
                return Some(decoded_event(&frame));
            }
            let Some(chunk) = self.body.frame().await else {
                self.frames.finish().unwrap();
                return None;
            };
            self.frames.push(chunk.unwrap().into_data().unwrap());
        }
    }
}

/// Returns the events of a whole watch in JSON.
async fn json_events(server: &ApiServer, path: &str, accept: &str) -> Vec<Value> {
    let answer = get_as(server, path, accept).await;
    let lines = answer.body.split(|byte| *byte == b'\n');
    let lines = lines.filter(|line| !line.is_empty());
    lines
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn every_type_of_event_arrives() {
    let server = server();
    let since = server.revision();
    let path = format!("{CONFIG_MAPS}?watch=1&allowWatchBookmarks=true&resourceVersion={since}");
    let mut watch = OpenWatch::open(&server, &path).await;
    create_config_maps(&server, &["a"]).await;
    let one = format!("{CONFIG_MAPS}/a");
    let changed = merge(&server, &one, &json!({ "data": { "k": "2" } })).await;
    assert_eq!(watch.next().await.unwrap()["type"], "ADDED");
    let event = watch.next().await.unwrap();
    assert_eq!(
        event,
        json!({ "type": "MODIFIED", "object": changed.expect(200) })
    );
    delete(&server, &one).await.expect(200);
    let event = watch.next().await.unwrap();
    assert_eq!(
        (&event["type"], &event["object"]["data"]["k"]),
        (&json!("DELETED"), &json!("2"))
    );
    let bookmark = watch.next().await.unwrap();
    let revision = server.revision().to_string();
    assert_eq!(
        bookmark,
        json!({ "type": "BOOKMARK", "object": {
            "kind": "ConfigMap", "apiVersion": "v1", "metadata": { "resourceVersion": revision },
        } })
    );
    assert_eq!(server.faults().expire_watches(), 1);
    let error = watch.next().await.unwrap();
    assert_eq!(
        (&error["type"], &error["object"]["code"]),
        (&json!("ERROR"), &json!(410))
    );
    assert_eq!(watch.next().await, None);
    server.compact();
    let mut late = OpenWatch::open(&server, &path).await;
    let error = late.next().await.unwrap()["object"].take();
    assert_eq!(
        (&error["code"], &error["reason"]),
        (&json!(410), &json!("Expired"))
    );
    assert_eq!(late.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn both_encodings_send_the_same_events() {
    let server = server();
    let since = server.revision();
    server.create(pod("a")).unwrap();
    server.create(pod("b")).unwrap();
    let patch = json!({ "metadata": { "labels": { "app": "other" } } });
    server.merge_patch("pods", "default", "a", &patch).unwrap();
    for query in [
        format!("watch=1&resourceVersion={since}&timeoutSeconds=1"),
        // An object that begins or stops to match has an event of another type than its change.
        format!("watch=1&resourceVersion={since}&timeoutSeconds=1&labelSelector=app%3Da"),
        format!("watch=1&resourceVersion={since}&timeoutSeconds=1&labelSelector=app%3Dother"),
        WATCH_LIST.to_owned(),
    ] {
        let path = format!("{PODS}?{query}");
        let mut expected = json_events(&server, &path, "application/json").await;
        for event in &mut expected {
            if event["type"] == "BOOKMARK" {
                // As a kube-apiserver does, protobuf says more about an empty Pod than JSON of this server.
                event["object"]["spec"] = json!({ "containers": null });
                event["object"]["status"] = json!({});
            }
        }
        assert!(!expected.is_empty());
        let answer = get_as(&server, &path, STREAM).await;
        assert_eq!(decoded_events(&answer.body), expected, "{query}");
    }
}

#[tokio::test(start_paused = true)]
async fn any_way_to_name_protobuf_opens_a_stream() {
    let server = server();
    create_config_maps(&server, &["a"]).await;
    let path = format!("{CONFIG_MAPS}?watch=1&timeoutSeconds=1");
    for (accept, expected) in [
        (STREAM.to_owned(), STREAM),
        (PROTOBUF.to_owned(), STREAM),
        (format!("{STREAM},application/json"), STREAM),
        (format!("{PROTOBUF},application/json"), STREAM),
        (format!("application/json,{PROTOBUF}"), "application/json"),
    ] {
        let answer = get_as(&server, &path, &accept).await;
        assert_eq!(
            (answer.status, answer.content_type()),
            (200, expected),
            "{accept}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn metadata_alone_is_watched_also_of_custom_kinds() {
    let server = server();
    server.install_crd(website_crd()).unwrap();
    server.create(website("w")).unwrap();
    server.create(config_map("a")).unwrap();
    for collection in [CONFIG_MAPS, WEBSITES] {
        let path = format!("{collection}?{WATCH_LIST}");
        let expected = json_events(&server, &path, &format!("application/json;{PARTIAL}")).await;
        let answer = get_as(
            &server,
            &path,
            &format!("{PROTOBUF};{PARTIAL};stream=watch"),
        )
        .await;
        assert_eq!(answer.content_type(), STREAM);
        assert_eq!(decoded_events(&answer.body), expected);
        assert_eq!(expected.last().unwrap()["type"], "BOOKMARK");
    }
    let path = format!("{WEBSITES}?watch=1&timeoutSeconds=1");
    let answer = get_as(&server, &path, &format!("{STREAM},application/json")).await;
    assert_eq!(answer.content_type(), "application/json");
    assert_eq!(get_as(&server, &path, STREAM).await.status, 406);
}

#[tokio::test(start_paused = true)]
async fn faults_repeat_and_cut_frames() {
    let server = server();
    create_config_maps(&server, &["a"]).await;
    let path = format!("{CONFIG_MAPS}?watch=1");
    let mut watch = OpenWatch::open(&server, &path).await;
    watch.next().await.unwrap();
    assert_eq!(server.faults().cut_watches(), 1);
    assert_eq!(watch.next().await, None);
    let mut watch = OpenWatch::open(&server, &path).await;
    watch.next().await.unwrap();
    assert_eq!(server.faults().break_watches(), 1);
    assert!(watch.body.frame().await.unwrap().is_err());
    // HTTP errors of a watch are a Status without a frame.
    let headers = [("accept", STREAM)];
    let refused = fetch(
        &server,
        ("GET", &format!("{path}&resourceVersion=x")),
        &headers,
        "",
    )
    .await;
    assert_eq!((refused.status, refused.content_type()), (500, PROTOBUF));
    assert_eq!(refused.value()["kind"], "Status");
    tokio::time::sleep(Duration::from_secs(1)).await;
}
