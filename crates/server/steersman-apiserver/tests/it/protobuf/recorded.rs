//! Objects and errors that a real server sent: `crates/framework/steersman-protobuf/tests/golden/`.

use std::fs;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use steersman_protobuf::{Message, encode_text, seal};

use super::{PROTOBUF, get_as};
use crate::support::server;

fn read(path: &Path) -> Vec<Value> {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

fn folder() -> &'static Path {
    Path::new(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../framework/steersman-protobuf/tests/golden"
    ))
}

#[tokio::test(start_paused = true)]
async fn a_recorded_object_comes_back_with_the_bytes_of_its_json() {
    let server = server();
    server
        .create(json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "pb" } }))
        .unwrap();
    let (mut compared, mut refused) = (0, Vec::new());
    for file in fs::read_dir(folder()).unwrap() {
        let file = file.unwrap().path();
        if file.ends_with("streams.json") {
            continue;
        }
        for recorded in read(&file) {
            let path = recorded["path"].as_str().unwrap();
            let mut object = recorded["json"].clone();
            let metadata = object["metadata"].as_object_mut().unwrap();
            for set in [
                "resourceVersion", "uid", "creationTimestamp", "deletionTimestamp",
            ] {
                metadata.remove(set);
            }
            // Some objects exist from the start, and others need objects that were not recorded.
            if let Err(why) = server.create(object)
                && why.reason != "AlreadyExists"
            {
                refused.push(format!("{path}: {why}"));
                continue;
            }
            let json = get_as(&server, path, "application/json").await;
            let protobuf = get_as(&server, path, PROTOBUF).await;
            assert_eq!((protobuf.status, protobuf.content_type()), (200, PROTOBUF));
            let value = json.value();
            assert_eq!(protobuf.value(), value, "{path}");
            let word = |name: &str| value[name].as_str().unwrap();
            let (api_version, kind) = (word("apiVersion"), word("kind"));
            let message = Message::of_kind(api_version, kind).unwrap();
            let encoded = encode_text(message, &json.body).unwrap();
            assert_eq!(encoded.unknown, None, "{path}");
            assert!(
                seal(api_version, kind, &encoded.raw) == protobuf.body,
                "{path}"
            );
            compared += 1;
        }
    }
    assert!(compared > 100, "{compared}, because of {refused:#?}");
}

#[tokio::test(start_paused = true)]
async fn an_error_has_the_recorded_bytes() {
    let streams = read(&folder().join("streams.json"));
    let recorded = streams
        .iter()
        .find(|one| one["about"] == "not found" && one["accept"] == PROTOBUF);
    let recorded = recorded.unwrap();
    let answer = get_as(&server(), recorded["path"].as_str().unwrap(), PROTOBUF).await;
    assert_eq!(answer.status, 404);
    let bytes = STANDARD.decode(recorded["body"].as_str().unwrap()).unwrap();
    assert!(answer.body == bytes, "{:?}", answer.body);
}
