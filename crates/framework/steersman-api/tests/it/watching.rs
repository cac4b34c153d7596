//! Watches over the wire.

use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use steersman_api::{
    ApiListWatch, ClientConfig, Decoded, ListPart, ListWatch, PageRequest, RawObject, WatchEvent,
    WatchOptions, WatchStream,
};
use steersman_apiserver::ApiServer;
use steersman_object::{Kind, ResourceVersion};

fn list_watch(server: &ApiServer) -> ApiListWatch {
    let client_config = ClientConfig::in_process(server.service(), "default");
    let client = client_config.client().unwrap();
    let namespace = Some("default".to_owned());
    ApiListWatch::new(client, Kind::of::<ConfigMap>(), namespace)
}

fn put(server: &ApiServer, name: &str) {
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default"},
    });
    server.create(map).unwrap();
}

async fn next(stream: &mut WatchStream) -> String {
    let show = |what: &str, object: Decoded<RawObject>| {
        let map = object.good().unwrap();
        assert!(!String::from_utf8_lossy(map.json()).contains("managedFields"));
        format!("{what} {}", map.head().key.name())
    };
    match stream.next().await {
        Some(Ok(WatchEvent::Added(object))) => show("added", object),
        Some(Ok(WatchEvent::Modified(object))) => show("modified", object),
        Some(Ok(WatchEvent::Deleted(object))) => show("deleted", object),
        Some(Ok(WatchEvent::Bookmark {
            initial_events_end, ..
        })) if initial_events_end => "all there".into(),
        Some(Ok(WatchEvent::Bookmark { .. })) => "bookmark".into(),
        Some(Ok(WatchEvent::Error(error))) => format!("error {:?}", error.code()),
        Some(Ok(_)) => "unknown".into(),
        Some(Err(error)) => format!("failed: {error}"),
        None => "end".into(),
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_follows_a_list_until_the_server_ends_it() {
    let server = ApiServer::builder().seed(1).build();
    put(&server, "a");
    let list_watch = list_watch(&server);
    let mut page = list_watch.list(&PageRequest::default()).await.unwrap();
    let mut listed = Vec::new();
    let end = loop {
        match page.next().await {
            Some(Ok(ListPart::Object(object))) => listed.extend(object.good()),
            Some(Ok(ListPart::End(end))) => break end,
            other => panic!("{other:?}"),
        }
    };
    assert!(page.next().await.is_none());
    assert_eq!(listed.len(), 1);
    assert!(
        listed
            .iter()
            .all(|map| !String::from_utf8_lossy(map.json()).contains("managedFields"))
    );
    let options = WatchOptions::after(end.version).timeout(Duration::from_secs(30));
    let mut stream = list_watch.watch(&options).await.unwrap();
    put(&server, "b");
    server.delete("configmaps", "default", "a").unwrap();
    assert_eq!(next(&mut stream).await, "added b");
    assert_eq!(next(&mut stream).await, "deleted a");
    loop {
        match next(&mut stream).await.as_str() {
            "bookmark" => {}
            other => break assert_eq!(other, "end"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_streaming_list_ends_the_initial_events_with_a_bookmark() {
    let server = ApiServer::builder().seed(1).build();
    put(&server, "a");
    put(&server, "b");
    let options = WatchOptions::streaming_list(ResourceVersion::unset());
    let mut stream = list_watch(&server).watch(&options).await.unwrap();
    for expected in ["added a", "added b", "all there"] {
        assert_eq!(next(&mut stream).await, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn an_expired_version_is_an_error_before_or_in_the_stream() {
    let server = ApiServer::builder().seed(1).build();
    put(&server, "a");
    put(&server, "b");
    server.compact();
    let options = WatchOptions::after(ResourceVersion::new("1"));
    match list_watch(&server).watch(&options).await {
        Ok(mut stream) => assert_eq!(next(&mut stream).await, "error Some(410)"),
        Err(error) => assert!(error.is_expired(), "{error}"),
    }
}

#[tokio::test]
async fn a_broken_connection_is_a_transport_error() {
    let server = ApiServer::builder().seed(1).build();
    let serving = server.serve("127.0.0.1:0").await.unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    serving.write_kubeconfig(file.path()).unwrap();
    let client_config = ClientConfig::from_kubeconfig(file.path()).await.unwrap();
    let client = client_config.client().unwrap();
    let list_watch: ApiListWatch = ApiListWatch::new(client, Kind::of::<ConfigMap>(), None);
    let options = WatchOptions::streaming_list(ResourceVersion::unset());
    let mut stream = list_watch.watch(&options).await.unwrap();
    while next(&mut stream).await != "all there" {}
    put(&server, "a");
    assert_eq!(next(&mut stream).await, "added a");
    server.faults().break_watches();
    let broken = next(&mut stream).await;
    assert!(
        broken.starts_with("failed: could not watch configmaps"),
        "{broken}"
    );
    assert_eq!(next(&mut stream).await, "end");
    serving.stop().await;
}
