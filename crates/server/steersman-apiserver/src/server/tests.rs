//! Tests of the objects that stay decoded after requests.

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Empty};
use serde_json::json;
use steersman_registry::Snapshot;
use steersman_schema::resource::StorageKey;
use tower::ServiceExt;

use super::*;

/// Sends a GET request and reads the body of the answer; of a watch, which does not end, only the first frame.
async fn ask(server: &ApiServer, uri: &str, accept: &str) -> Bytes {
    let request = Request::get(uri).header("accept", accept);
    let request = request.body(Empty::<Bytes>::new()).unwrap();
    let answer = server.service().oneshot(request).await.unwrap();
    assert_eq!(answer.status(), 200, "{uri}");
    let mut body = answer.into_body();
    let mut first = Bytes::new();
    while let Some(frame) = body.frame().await {
        first = frame.unwrap().into_data().unwrap_or_default();
        if uri.contains("watch") {
            break;
        }
    }
    first
}

// SRV-STORE-7: of the current objects only the newest are kept decoded.
#[tokio::test]
async fn reads_leave_no_object_decoded() {
    let first = ApiServer::new();
    for number in 0..20 {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("p{number}")},
            "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}});
        first.create(pod).unwrap();
    }
    let mut text = Vec::new();
    let snapshot = first.context.with_registry(|registry| registry.snapshot());
    snapshot.write(&mut text).unwrap();
    let snapshot = Snapshot::read(&text).unwrap();
    let server = ApiServer::new();
    let decoded = |when: &str| {
        let pods = StorageKey::new("", "pods");
        let decoded = server
            .context
            .with_registry(|registry| registry.store().decoded(&pods));
        assert_eq!(decoded, 0, "{when}");
    };
    server
        .context
        .with_registry(|registry| registry.restore(&snapshot));
    decoded("after it was read");
    assert_eq!(server.list("pods", "default").len(), 20);
    assert!(server.get("pods", "default", "p1").is_some());
    let (table, partial) = (
        "application/json;as=Table;g=meta.k8s.io;v=v1",
        "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
    );
    for accept in ["application/json", table, partial] {
        for query in [
            "",
            "?fieldSelector=spec.nodeName%3Dn",
            "?labelSelector=!x",
            "?watch=true&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan",
        ] {
            if accept == partial && query.contains("watch") {
                continue;
            }
            ask(&server, &format!("/api/v1/pods{query}"), accept).await;
            decoded(&format!("{accept} {query}"));
        }
    }
}
