//! Driver: a run of the copier on embedded API servers, one per cluster.

use std::fmt::Display;

use example_program::BoxError;
use example_program::demo;
use example_program::once::run_until;
use serde_json::{Value, json};
use steersman::{ClientConfig, Manager};
use steersman_testenv::apiserver::ApiServer;

use crate::copier;

/// Runs the copier, adds a cluster, removes it, and adds it again. Passes one text per step to `say`.
///
/// # Errors
///
/// If a step does not have its effect in time.
pub async fn run(
    say: impl Fn(&dyn Display),
    hub: &ApiServer,
    west: &ApiServer,
) -> Result<(), BoxError> {
    let manager = Manager::builder(client_config(hub))
        .cache(copier::cache())
        .build()?;
    copier::add(&manager)?;
    run_until(&manager, steps(say, hub, west, &manager)).await
}

async fn steps(
    say: impl Fn(&dyn Display),
    hub: &ApiServer,
    west: &ApiServer,
    manager: &Manager,
) -> Result<(), BoxError> {
    hub.create(config_map("motd", "good morning"))?;
    say(&"hub has the ConfigMap motd, and the manager has no other cluster");

    manager.add_cluster("west", client_config(west), copier::cache())?;
    holds(west, "motd", Some("good morning")).await?;
    say(&"west was added and has a copy of motd");

    write(hub, "motd", "good evening")?;
    holds(west, "motd", Some("good evening")).await?;
    say(&"a change of the original reached the copy");

    write(west, "motd", "edited by hand")?;
    holds(west, "motd", Some("good evening")).await?;
    say(&"a change of the copy was corrected");

    manager.remove_cluster("west").await;
    hub.create(config_map("later", "made while west was away"))?;
    hub.delete("configmaps", "default", "motd")?;
    say(&"west was removed; the hub has a new ConfigMap, and motd is deleted");
    holds(west, "motd", Some("good evening")).await?;
    holds(west, "later", None).await?;

    manager.add_cluster("west", client_config(west), copier::cache())?;
    holds(west, "later", Some("made while west was away")).await?;
    holds(west, "motd", None).await?;
    say(&"west was added again: it has the new copy, and lost the one without an original");

    Ok(())
}

fn client_config(server: &ApiServer) -> ClientConfig {
    ClientConfig::in_process(server.service(), "default")
}

fn write(server: &ApiServer, name: &str, text: &str) -> Result<(), BoxError> {
    let data = json!({"data": {"text": text}});
    server.merge_patch("configmaps", "default", name, &data)?;
    Ok(())
}

/// Waits until the text of a ConfigMap is `text`, or until the ConfigMap is gone.
async fn holds(server: &ApiServer, name: &str, text: Option<&str>) -> Result<(), BoxError> {
    demo::holds(server, ("configmaps", "default", name), "text", text).await
}

fn config_map(name: &str, text: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default", "labels": {"copy": "yes"}},
        "data": {"text": text},
    })
}
