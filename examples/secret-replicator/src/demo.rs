//! Driver: a run of the operator on an embedded API server.

use std::fmt::Display;

use example_program::BoxError;
use example_program::demo;
use example_program::once::run_until;
use serde_json::{Value, json};
use steersman::{CacheOptions, ClientConfig, Manager};
use steersman_testenv::apiserver::ApiServer;

use crate::controller;
use crate::names::{ACCEPT, NAMESPACES, ROLE, SOURCE};

/// The data of the sample, in base64, before and after its change.
const VALUES: [&str; 2] = ["Zmlyc3Q=", "c2Vjb25k"];

/// Runs the operator and changes a source, a copy and a namespace. Passes one text per step to `say`.
///
/// # Errors
///
/// If a step does not have its effect in time.
pub async fn run(say: impl Fn(&dyn Display), server: &ApiServer) -> Result<(), BoxError> {
    let client_config = ClientConfig::in_process(server.service(), "default");
    let manager = Manager::builder(client_config)
        .cache(controller::cache(CacheOptions::new()))
        .build()?;
    controller::declare(&manager)?;
    run_until(&manager, steps(say, server)).await
}

async fn steps(say: impl Fn(&dyn Display), server: &ApiServer) -> Result<(), BoxError> {
    server.create(namespace("shop", "true"))?;
    server.create(namespace("private", "false"))?;
    server.create(source("shop,private,later"))?;
    holds(server, "shop", Some(VALUES[0])).await?;
    say(&"the Secret default/token has a copy in shop");

    patch(server, "default", &json!({"data": {"key": VALUES[1]}}))?;
    holds(server, "shop", Some(VALUES[1])).await?;
    say(&"a change of the source reached the copy");

    patch(server, "shop", &json!({"data": {"key": VALUES[0]}}))?;
    holds(server, "shop", Some(VALUES[1])).await?;
    say(&"a change of the copy was corrected");

    server.create(namespace("later", "true"))?;
    holds(server, "later", Some(VALUES[1])).await?;
    say(&"the new namespace later got a copy");

    let only_later = json!({"metadata": {"annotations": {NAMESPACES: "later"}}});
    patch(server, "default", &only_later)?;
    holds(server, "shop", None).await?;
    say(&"the source does not name shop any more, and its copy was deleted");

    server.delete("secrets", "default", "token")?;
    holds(server, "later", None).await?;
    holds(server, "private", None).await?;
    say(&"the source was deleted, and so was its last copy");

    Ok(())
}

fn patch(server: &ApiServer, namespace: &str, patch: &Value) -> Result<(), BoxError> {
    server.merge_patch("secrets", namespace, "token", patch)?;
    Ok(())
}

/// Waits until the copy in a namespace has this value, or until there is no copy.
async fn holds(server: &ApiServer, namespace: &str, value: Option<&str>) -> Result<(), BoxError> {
    demo::holds(server, ("secrets", namespace, "token"), "key", value).await
}

fn namespace(name: &str, accept: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": name, "labels": {ACCEPT: accept}},
    })
}

fn source(namespaces: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {
            "name": "token", "namespace": "default",
            "labels": {ROLE: SOURCE}, "annotations": {NAMESPACES: namespaces},
        },
        "data": {"key": VALUES[0]},
    })
}
