//! Slots of the embedded server: the selector in the requests, and the memory that a lost slot frees.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use prometheus::Registry;
use serde_json::json;
use steersman_api::{ApiListWatch, ClientConfig};
use steersman_apiserver::ApiServer;
use steersman_informer::{Informer, InformerMetrics, InformerOptions, ShardFilter};
use steersman_object::{Kind, ObjectKey, ShardBy, SlotSet};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::world::{MAPS, server, take};

fn slot(by: ShardBy, namespace: &str) -> SlotSet {
    [by.slot_of(&ObjectKey::namespaced(namespace, "x"))]
        .into_iter()
        .collect()
}

fn put(server: &ApiServer, namespace: &str, name: &str) {
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
    });
    server.create(map).unwrap();
}

fn start(server: &ApiServer, options: InformerOptions) -> (Informer<ConfigMap>, CancellationToken) {
    let client_config = ClientConfig::in_process(server.service(), "default");
    let kind = Kind::of::<ConfigMap>();
    let list_watch = ApiListWatch::new(client_config.client().unwrap(), kind.clone(), None);
    let (informer, cancel) = (Informer::new(kind, options), CancellationToken::new());
    tokio::spawn(informer.run(list_watch, cancel.clone()));
    (informer, cancel)
}

fn with_namespaces(namespaces: [&str; 2]) -> ApiServer {
    let server = server();
    for namespace in namespaces {
        let object =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        server.create(object).unwrap();
    }
    server
}

// SHARD-8
#[tokio::test(start_paused = true)]
async fn shard_8_requests_carry_the_selector_of_the_wanted_slots_if_the_server_knows_the_hash() {
    for (by, streams) in [
        (ShardBy::NamespaceOnServer, true),
        (ShardBy::NamespaceOnServer, false),
        (ShardBy::Namespace, true),
        (ShardBy::Namespace, false),
    ] {
        // The names differ early, so that both hashes separate them.
        let server = with_namespaces(["alpha", "zulu"]);
        put(&server, "alpha", "x");
        put(&server, "zulu", "y");
        let (one, other) = (slot(by, "alpha"), slot(by, "zulu"));
        assert_ne!(one, other);
        let (wanted, slots) = watch::channel(one);
        let options = InformerOptions::new()
            .seed(7)
            .watch_list(streams)
            .page_size(1);
        let options = options.shards(ShardFilter::new(by, slots));
        let (informer, cancel) = start(&server, options);
        let mut seen = informer.subscribe();
        assert_eq!(take(&mut seen, 2).await, ["+x", "synced"]);
        tokio::time::sleep(Duration::from_secs(2)).await;
        server.faults().cut_watches();
        tokio::time::sleep(Duration::from_secs(2)).await;
        let sent = |server: &ApiServer| -> Vec<Option<String>> {
            let requests = server.requests();
            let requests = requests.matching(|request| request.is_for(MAPS));
            let sent = requests.iter();
            sent.map(|request| request.parameter("shardSelector").map(ToOwned::to_owned))
                .collect()
        };
        let selectors = sent(&server);
        assert!(selectors.len() >= 2, "{selectors:?}");
        assert!(
            selectors
                .iter()
                .all(|sent| *sent == by.selector(&one, true)),
            "{selectors:?}"
        );
        assert_eq!(selectors[0].is_some(), by == ShardBy::NamespaceOnServer);

        server.requests().clear();
        wanted.send_replace(one.union(&other));
        assert_eq!(take(&mut seen, 1).await, ["+y"]);
        tokio::time::sleep(Duration::from_secs(1)).await;
        let both = by.selector(&one.union(&other), true);
        let selectors = sent(&server);
        assert!(!selectors.is_empty() && selectors.iter().all(|sent| *sent == both));
        cancel.cancel();
    }
}

// SHARD-4
#[tokio::test(start_paused = true)]
async fn shard_4_a_lost_slot_frees_its_objects() {
    let by = ShardBy::Namespace;
    let server = with_namespaces(["a", "b"]);
    for number in 0..100 {
        put(
            &server,
            if number < 10 { "a" } else { "b" },
            &format!("m{number}"),
        );
    }
    let (wanted, slots) = watch::channel(SlotSet::ALL);
    let registry = Registry::new();
    let metrics = InformerMetrics::register(&registry).unwrap();
    let options = InformerOptions::new().seed(7).metrics(metrics);
    let options = options.shards(ShardFilter::new(by, slots));
    let (informer, _cancel) = start(&server, options);
    informer.wait_for_sync().await.unwrap();
    let gauge = |name: &str| {
        let families = registry.gather();
        let family = families
            .iter()
            .find(|family| family.name() == name)
            .unwrap();
        family.get_metric()[0].get_gauge().get_value()
    };
    let shown = || {
        ["objects", "bytes", "packed_bytes"]
            .map(|name| gauge(&format!("steersman_informer_{name}")))
    };
    let [objects, bytes, packed] = shown();
    wanted.send_replace(slot(by, "a"));
    tokio::time::sleep(Duration::from_millis(1)).await;
    let [fewer, fewer_bytes, fewer_packed] = shown();
    assert!(objects >= 100.0);
    assert_eq!(fewer, 10.0);
    assert_eq!(informer.store().list().len(), 10);
    assert!(fewer_bytes < bytes / 5.0, "{fewer_bytes} of {bytes}");
    assert!(fewer_packed < packed / 5.0, "{fewer_packed} of {packed}");
}
