//! Tests Events over HTTPS in real time.

use steersman_api::ClientConfig;
use steersman_apiserver::ApiServer;

use crate::world::{World, config};

/// EVENT-3, EVENT-8
#[tokio::test]
async fn a_series_over_https() {
    let server = ApiServer::new();
    let serving = server.serve("127.0.0.1:0").await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config");
    serving.write_kubeconfig(&path).unwrap();
    let client_config = ClientConfig::from_kubeconfig(&path).await.unwrap();
    let world = World::over(server.clone(), client_config);
    let site = config("site");
    world.recorder.normal(&site, "Published", "Publish", "hi");
    world.until("the Event is there", |e| e.len() == 1).await;
    world.recorder.normal(&site, "Published", "Publish", "hi");
    let begun = |e: &[k8s_openapi::api::events::v1::Event]| e[0].series.is_some();
    world.until("its series begins", begun).await;
    world.recorder.normal(&site, "Published", "Publish", "hi");
    world.recorder.warning(&site, "Refused", "Publish", "no");
    world.stop().await;
    let events = world.events("default").await;
    let counts: Vec<_> = events
        .iter()
        .map(|e| e.series.as_ref().map(|s| s.count))
        .collect();
    assert_eq!(counts, [Some(3), None]);
    serving.stop().await;
}
