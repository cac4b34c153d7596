//! Tests of gzip answers.

use std::io::Read as _;

use flate2::read::{GzDecoder, MultiGzDecoder};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use steersman_apiserver::ApiServer;

use crate::support::{CONFIG_MAPS, config_map, get, send};

const GZIP: [(&str, &str); 1] = [("accept-encoding", "deflate, gzip")];

/// Creates a server with one small and one large ConfigMap.
fn server() -> ApiServer {
    let server = ApiServer::new();
    server.create(config_map("small")).unwrap();
    let mut large = config_map("large");
    // Lines that differ, so that they are still long when compressed.
    let lines: String = (0..20_000).map(|n| format!("{n}\n")).collect();
    large["data"] = json!({ "lines": lines, "more": "x".repeat(64 * 1024) });
    server.create(large).unwrap();
    server
}

async fn bytes(server: &ApiServer, path: &str) -> (Vec<u8>, bool) {
    let (status, headers, body) = send(server, "GET", path, &GZIP, "").await;
    assert_eq!(status, 200);
    let encoding = headers.get("content-encoding");
    assert_eq!(encoding.is_some(), headers.contains_key("vary"));
    (
        body.collect().await.unwrap().to_bytes().to_vec(),
        encoding.is_some(),
    )
}

#[tokio::test(start_paused = true)]
async fn long_answers_are_compressed_and_short_ones_are_not() {
    let server = server();
    let large = format!("{CONFIG_MAPS}/large");
    for path in [
        CONFIG_MAPS,
        &large,
        "/apis/apps/v1/namespaces/default/deployments",
    ] {
        let (sent, packed) = bytes(&server, path).await;
        let plain = get(&server, path).await;
        assert!(plain.headers.get("content-encoding").is_none());
        assert_eq!(packed, plain.text.len() > 128 * 1024, "{path}");
        let mut read = String::new();
        if packed {
            assert!(sent.len() < plain.text.len() / 2, "{path}");
            GzDecoder::new(&sent[..]).read_to_string(&mut read).unwrap();
        } else {
            read = String::from_utf8(sent).unwrap();
        }
        assert_eq!(read, plain.text, "{path}");
    }
    let (_, packed) = bytes(&server, &format!("{CONFIG_MAPS}/small")).await;
    assert!(!packed);
}

#[tokio::test(start_paused = true)]
async fn a_watch_is_compressed_per_event_if_enabled() {
    let path = format!("{CONFIG_MAPS}?watch=1&timeoutSeconds=1");
    let server = ApiServer::new();
    server.create(config_map("a")).unwrap();
    let (_, packed) = bytes(&server, &path).await;
    assert!(!packed);

    let server = ApiServer::builder().gzip_watches(true).build();
    server.create(config_map("a")).unwrap();
    let (_, _, mut body) = send(&server, "GET", &path, &GZIP, "").await;
    // The first event can be decompressed before there is a second.
    let frame = body.frame().await.unwrap().unwrap();
    let mut read = String::new();
    GzDecoder::new(&frame.into_data().unwrap()[..])
        .read_to_string(&mut read)
        .unwrap();
    let event: Value = serde_json::from_str(&read).unwrap();
    assert_eq!(event["type"], "ADDED");
    server.create(config_map("b")).unwrap();
    let rest = body.collect().await.unwrap().to_bytes();
    read.clear();
    MultiGzDecoder::new(&rest[..])
        .read_to_string(&mut read)
        .unwrap();
    assert!(read.contains("\"name\":\"b\""), "{read}");
}
