//! Driver: the operator after the port, on this workspace.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use steersman_api::ClientConfig;
use steersman_client::finalizer::{self, FinalizerStage};
use steersman_controller::predicate::{finalizers_changed, generation_changed, or};
use steersman_controller::{Action, Context, Controller, Error, Reconciler, Request};
use steersman_manager::Manager;
use steersman_object::Object as _;

use super::{INTERVAL, WORKERS};
use crate::cache::reconcile_count::ReconcileCount;
use crate::process::BenchResult;
use crate::samples::document::{Document, FINALIZER};

struct DocumentReconciler {
    count: Arc<ReconcileCount>,
}

pub(super) fn operator(
    client_config: ClientConfig,
    count: Arc<ReconcileCount>,
) -> BenchResult<Manager> {
    let manager = Manager::builder(client_config).build()?;
    let documents = Controller::builder::<Document>()
        .name("documents")
        .with_predicates(or(generation_changed(), finalizers_changed()))
        .owns::<ConfigMap>()
        .max_concurrent_reconciles(WORKERS.into())
        .build(DocumentReconciler { count })?;
    manager.add_controller(documents)?;
    Ok(manager)
}

impl Reconciler for DocumentReconciler {
    async fn reconcile(&self, ctx: &Context, request: Request) -> Result<Action, Error> {
        let _ended = self.count.begin();
        let client = ctx.client();
        let Some(document) = client.get_opt::<Document>(&request.key).await? else {
            return Ok(Action::done());
        };
        let document = match finalizer::stage(&*document, FINALIZER) {
            FinalizerStage::Missing => {
                let added = client.add_finalizer(&*document, FINALIZER).await?;
                if added.object().is_being_deleted() {
                    return Ok(Action::done());
                }
                added.into_object()
            }
            FinalizerStage::Held => document,
            FinalizerStage::CleanUp => {
                tell(ctx, &document, "DeleteRequested", "Delete");
                client.remove_finalizer(&*document, FINALIZER).await?;
                return Ok(Action::done());
            }
            FinalizerStage::Released => return Ok(Action::done()),
        };
        publish(ctx, &document).await
    }
}

async fn publish(ctx: &Context, document: &Document) -> Result<Action, Error> {
    if document.spec.title.is_empty() {
        return Err(Error::msg("the document has no title").terminal());
    }
    let was_hidden = document.status.as_ref().is_some_and(|status| status.hidden);
    if document.spec.hide && !was_hidden {
        tell(ctx, document, "HideRequested", "Hide");
    }
    let text = document.spec.text();
    let fill = |config: &mut ConfigMap| {
        config.data = Some(BTreeMap::from([("text".to_owned(), text.clone())]));
    };
    let config = ctx.client().ensure(document.key(), fill);
    config.owned_by(document).await?;
    let report = |document: &mut Document| {
        document.status.get_or_insert_default().hidden = document.spec.hide;
    };
    ctx.client().status().modify(document, report).await?;
    Ok(Action::requeue_after(INTERVAL))
}

fn tell(ctx: &Context, document: &Document, reason: &'static str, action: &'static str) {
    let note = format!("{} is changed", document.spec.title);
    ctx.events().normal(document, reason, action, note);
}
