//! An operator with nothing to do writes nothing.

use std::time::Duration;

use example_program::once::is_ready;
use serde_json::json;
use steersman::CacheOptions;
use steersman::cache::Settings;
use steersman::k8s_openapi::api::core::v1::ConfigMap;
use steersman_harness::{OperatorTest, Prepared};
use website_operator::controller;
use website_operator::website::{Website, WebsiteSpec};

use crate::world::simulator;

/// Declares the operator with one site.
fn operator() -> OperatorTest {
    let create = |prepared: Prepared| async move {
        let mut pages: ConfigMap = serde_json::from_value(json!({"data": {"index.html": "hi"}}))?;
        pages.metadata = prepared.key("pages").to_meta();
        prepared.client().create(&pages).await?;
        let spec = WebsiteSpec {
            image: "nginx:1.29".to_owned(),
            replicas: 3,
            pages: "pages".to_owned(),
            host: None,
        };
        let mut site = Website::new("hello", spec);
        site.metadata.namespace = Some(prepared.namespace().to_owned());
        prepared.client().create(&site).await?;
        Ok(())
    };
    OperatorTest::declared(controller::declare)
        .server(simulator())
        .crd_of::<Website>()
        .before_start(create)
}

#[tokio::test(start_paused = true)]
async fn a_settled_site_is_not_written() {
    let mut operator = operator().start().await.unwrap();
    operator.tick_until_steady(100).await.unwrap();
    let key = operator.key("hello");
    let site: Website = operator.client().live().get(&key).await.unwrap();
    assert!(is_ready(&site), "{:?}", site.status);
    operator.assert_settled().await.unwrap();
    operator.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_settled_reconcile_sends_no_request() {
    let minute = Duration::from_secs(60);
    let cache = CacheOptions::new().defaults(Settings::new().resync(minute));
    let mut operator = operator().cache(cache).start().await.unwrap();
    operator.tick_until_steady(100).await.unwrap();
    let (reconciles, requests) = (operator.reconciles(), operator.requests_sent().unwrap());
    // A resync requests the owners of all children.
    tokio::time::sleep(2 * minute).await;
    assert!(operator.reconciles() > reconciles);
    assert_eq!(operator.requests_sent().unwrap(), requests);
    operator.stop().await.unwrap();
}
