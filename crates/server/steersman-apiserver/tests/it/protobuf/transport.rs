//! Lengths, compression, `HEAD`, the request log, and objects that cannot be encoded.

use std::io::Read as _;

use flate2::read::GzDecoder;
use serde_json::json;
use steersman_apiserver::{ApiServer, Snapshot};

use super::{PROTOBUF, STREAM, decoded_events, fetch, get_as};
use crate::support::{CONFIG_MAPS, config_map, create_config_maps, server};

#[tokio::test(start_paused = true)]
async fn a_long_list_is_sent_in_pieces_and_compressed() {
    let server = server();
    for index in 0..300 {
        let mut object = config_map(&format!("c{index:03}"));
        object["data"] = json!({ "text": "x".repeat(1000 + index) });
        server.create(object).unwrap();
    }
    let plain = get_as(&server, CONFIG_MAPS, PROTOBUF).await;
    assert_eq!(plain.value()["items"].as_array().unwrap().len(), 300);
    let headers = [("accept", PROTOBUF), ("accept-encoding", "gzip")];
    let packed = fetch(&server, ("GET", CONFIG_MAPS), &headers, "").await;
    assert_eq!(packed.headers["content-encoding"], "gzip");
    let mut unpacked = Vec::new();
    GzDecoder::new(&packed.body[..])
        .read_to_end(&mut unpacked)
        .unwrap();
    assert!(unpacked == plain.body);
    // The answer to `HEAD` has the length of the answer to `GET`.
    let refused = get_as(&server, "/apis/apps/v1/nothing", PROTOBUF).await;
    let path = "/apis/apps/v1/nothing";
    let head = fetch(&server, ("HEAD", path), &[("accept", PROTOBUF)], "").await;
    assert!(head.body.is_empty());
    let length = refused.body.len().to_string();
    assert_eq!(head.headers["content-length"], length.as_str());
    assert_eq!(head.content_type(), PROTOBUF);
    // A second list after one write has the new object, and the others as they were.
    server.delete("configmaps", "default", "c299").unwrap();
    server.create(config_map("d")).unwrap();
    let again = get_as(&server, CONFIG_MAPS, PROTOBUF).await.value();
    assert_eq!(
        again["items"].as_array().unwrap()[..299],
        plain.value()["items"].as_array().unwrap()[..299]
    );
    assert_eq!(again["items"][299]["metadata"]["name"], "d");
}

#[tokio::test(start_paused = true)]
async fn the_log_and_the_metrics_count_answers_in_protobuf() {
    let server = server();
    create_config_maps(&server, &["a"]).await;
    get_as(&server, &format!("{CONFIG_MAPS}/a"), PROTOBUF).await;
    get_as(&server, &format!("{CONFIG_MAPS}/b"), PROTOBUF).await;
    let log = server.requests();
    let found = log.matching(|request| request.accept == PROTOBUF);
    let codes: Vec<_> = found.iter().map(|request| request.status).collect();
    assert_eq!(codes, [Some(200), Some(404)]);
}

/// Creates a server with an object that validation would refuse: a number in the data of a ConfigMap.
fn with_wrong_object() -> ApiServer {
    let first = ApiServer::new();
    let mut object = config_map("a");
    object["data"]["k"] = json!("not a text");
    first.create(object).unwrap();
    first.create(config_map("b")).unwrap();
    let mut text = Vec::new();
    first.snapshot().write(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let text = text.replace("\"not a text\"", "17");
    ApiServer::builder()
        .restore(Snapshot::read(text.as_bytes()).unwrap())
        .build()
}

#[tokio::test(start_paused = true)]
async fn an_object_that_cannot_be_encoded_is_an_internal_error() {
    let server = with_wrong_object();
    let one = format!("{CONFIG_MAPS}/a");
    assert_eq!(get_as(&server, &one, "application/json").await.status, 200);
    for path in [&one, CONFIG_MAPS] {
        let answer = get_as(&server, path, PROTOBUF).await;
        assert_eq!(
            (answer.status, answer.content_type()),
            (500, PROTOBUF),
            "{path}"
        );
        let status = answer.value();
        assert_eq!(status["reason"], "InternalError");
        let message = status["message"].as_str().unwrap();
        assert!(message.contains(".data.k: "), "{message}");
    }
    let log = server.requests();
    assert_eq!(log.count(|request| request.status == Some(500)), 2);
    // A watch ends with the error.
    let path = format!("{CONFIG_MAPS}?watch=1");
    let answer = get_as(&server, &path, STREAM).await;
    let events = decoded_events(&answer.body);
    assert_eq!(events.len(), 1);
    assert_eq!(
        (&events[0]["type"], &events[0]["object"]["code"]),
        (&json!("ERROR"), &json!(500))
    );
}
