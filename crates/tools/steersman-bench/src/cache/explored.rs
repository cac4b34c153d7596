//! Driver: the operator of the explorations by the program, in a process of its own.

use k8s_openapi::api::core::v1::ConfigMap;
use steersman_api::ClientConfig;
use steersman_controller::{Action, Context, Controller, Error, Reconciler, Request, predicate};
use steersman_manager::Manager;
use tokio_util::sync::CancellationToken;

use crate::process::BenchResult;

/// Keeps a copy of the ConfigMap `text`.
struct Copier;

impl Reconciler for Copier {
    async fn reconcile(&self, ctx: &Context, request: Request) -> Result<Action, Error> {
        let client = ctx.client();
        let Some(text) = client.get_opt::<ConfigMap>(&request.key).await? else {
            return Ok(Action::done());
        };
        let copy = ConfigMap {
            metadata: request.key.sibling("copy").to_meta(),
            data: text.data.clone(),
            ..ConfigMap::default()
        };
        match client.create(&copy).await {
            Err(error) if !error.is_already_exists() => Err(error.into()),
            _ => Ok(Action::done()),
        }
    }
}

/// Runs the operator until the process is killed.
pub(crate) async fn play() -> BenchResult<()> {
    let manager = Manager::builder(ClientConfig::infer().await?).build()?;
    let is_text = |object: &ConfigMap| object.metadata.name.as_deref() == Some("text");
    let controller = Controller::builder::<ConfigMap>()
        .with_predicates(predicate::object(is_text))
        .build(Copier)?;
    manager.add_controller(controller)?;
    Ok(manager.start(CancellationToken::new()).await?)
}
