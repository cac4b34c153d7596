//! The demo and the copier on a paused clock, in process.

mod explore;

use std::fmt::Display;
use std::sync::atomic::{AtomicUsize, Ordering};

use example_program::BoxError;
use serde_json::json;
use steersman::manager::Shutdown;
use steersman::{CancellationToken, ClientConfig, Manager};
use steersman_harness::OperatorTest;
use steersman_testenv::apiserver::ApiServer;
use steersman_testenv::eventually;
use two_clusters::copier;
use two_clusters::demo;

#[tokio::test(start_paused = true)]
async fn every_step_of_the_demo_has_its_effect() -> Result<(), BoxError> {
    let (hub, west) = (ApiServer::new(), ApiServer::new());
    let steps = AtomicUsize::new(0);
    let count = |_: &dyn Display| {
        steps.fetch_add(1, Ordering::Relaxed);
    };
    demo::run(count, &hub, &west).await?;
    assert_eq!(steps.into_inner(), 6);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn binary_data_is_copied_with_the_texts() -> Result<(), BoxError> {
    let (hub, west) = (ApiServer::new(), ApiServer::new());
    let client_config = |server: &ApiServer| ClientConfig::in_process(server.service(), "default");
    let manager = Manager::builder(client_config(&hub))
        .cache(copier::cache())
        .build()?;
    copier::add(&manager)?;
    let stop = CancellationToken::new();
    let running = tokio::spawn(manager.start(Shutdown::from(stop.clone())));
    manager.add_cluster("west", client_config(&west), copier::cache())?;
    let original = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "logo", "namespace": "default", "labels": {"copy": "yes"}},
        "data": {"name": "logo"}, "binaryData": {"logo.png": "iVBORw=="},
    });
    let created = hub.create(original);
    created.map_err(|status| status.to_string())?;
    let copied = eventually("west has the copy", || async {
        let copy = west.get("configmaps", "default", "logo");
        copy.ok_or_else(|| "there is none".to_owned())
    });
    let copy = copied.await?;
    assert_eq!(copy["binaryData"], json!({"logo.png": "iVBORw=="}));
    stop.cancel();
    running.await??;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn settled_copies_are_written_in_no_cluster() -> Result<(), BoxError> {
    let (hub, west) = (ApiServer::new(), ApiServer::new());
    let original = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "motd", "namespace": "default", "labels": {"copy": "yes"}},
        "data": {"text": "good morning"},
    });
    let created = hub.create(original);
    created.map_err(|status| status.to_string())?;
    let to_west = ClientConfig::in_process(west.service(), "default");
    let declare = move |manager: &Manager| -> Result<(), BoxError> {
        copier::add(manager)?;
        manager.add_cluster("west", to_west.clone(), copier::cache())?;
        Ok(())
    };
    let operator = OperatorTest::declared(declare)
        .server(hub)
        .other_server(&west)
        .cache(copier::cache());
    let mut operator = operator.start().await?;
    operator.tick_until_steady(20).await?;
    let copy = west.get("configmaps", "default", "motd");
    assert!(copy.is_some_and(|copy| copy["data"]["text"] == "good morning"));
    operator.assert_settled().await?;
    operator.stop().await?;
    Ok(())
}
