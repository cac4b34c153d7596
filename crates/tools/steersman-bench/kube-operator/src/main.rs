//! Publishes the message of each Greeting in a ConfigMap, with kube-runtime.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::api::{Patch, PatchParams};
use kube_client::{Api, Client, Resource as _, ResourceExt as _};
use kube_derive::CustomResource;
use kube_runtime::controller::Action;
use kube_runtime::{Controller, watcher};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// The wanted state of a Greeting.
#[derive(Clone, Debug, CustomResource, Deserialize, JsonSchema, Serialize)]
#[kube(
    group = "example.com",
    version = "v1alpha1",
    kind = "Greeting",
    namespaced,
    status = "GreetingStatus",
    crates(kube_core = "kube_core")
)]
pub struct GreetingSpec {
    /// The text to publish.
    pub message: String,
}

/// The observed state of a Greeting.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GreetingStatus {
    /// The generation that was reconciled last.
    pub observed_generation: Option<i64>,
}

const MANAGER: &str = "greeter";

async fn reconcile(
    greeting: Arc<Greeting>,
    client: Arc<Client>,
) -> Result<Action, kube_client::Error> {
    let (namespace, name) = (greeting.namespace().unwrap_or_default(), greeting.name_any());
    let child = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "ownerReferences": [greeting.controller_owner_ref(&())]},
        "data": {"message": greeting.spec.message},
    });
    let params = PatchParams::apply(MANAGER).force();
    let children = Api::<ConfigMap>::namespaced((*client).clone(), &namespace);
    children.patch(&name, &params, &Patch::Apply(child)).await?;
    let status = json!({
        "apiVersion": "example.com/v1alpha1",
        "kind": "Greeting",
        "status": {"observedGeneration": greeting.metadata.generation},
    });
    let greetings = Api::<Greeting>::namespaced((*client).clone(), &namespace);
    greetings.patch_status(&name, &params, &Patch::Apply(status)).await?;
    Ok(Action::await_change())
}

#[tokio::main]
async fn main() -> Result<(), kube_client::Error> {
    tracing_subscriber::fmt::init();
    let client = Client::try_default().await?;
    let greetings = Api::<Greeting>::all(client.clone());
    Controller::new(greetings, watcher::Config::default())
        .owns(Api::<ConfigMap>::all(client.clone()), watcher::Config::default())
        .shutdown_on_signal()
        .run(
            reconcile,
            |_, error, _| {
                tracing::error!(%error, "a reconcile failed");
                Action::requeue(Duration::from_secs(5))
            },
            Arc::new(client),
        )
        .for_each(|_| std::future::ready(()))
        .await;
    Ok(())
}
