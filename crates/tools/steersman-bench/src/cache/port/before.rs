//! Driver: the operator before the port, on kube-runtime.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_client::api::{Patch, PatchParams};
use kube_client::core::NamespaceResourceScope;
use kube_client::{Api, Client, Resource, ResourceExt};
use kube_runtime::controller::{Action, Config as ControllerConfig};
use kube_runtime::events::{Event, EventType, Recorder, Reporter};
use kube_runtime::finalizer::{Event as Finalizer, finalizer};
use kube_runtime::{Controller, watcher};
use serde_json::json;

use super::{INTERVAL, WORKERS};
use crate::cache::reconcile_count::ReconcileCount;
use crate::samples::document::{Document, DocumentStatus, FINALIZER};

const MANAGER: &str = "documents";

struct BeforeState {
    client: Client,
    recorder: Recorder,
    count: Arc<ReconcileCount>,
}

#[derive(Debug)]
enum BenchFailure {
    Kube(kube_client::Error),
    Finalizer(Box<kube_runtime::finalizer::Error<Self>>),
    NoTitle,
}

/// Runs until it is dropped.
pub(super) async fn run(client: Client, count: Arc<ReconcileCount>) {
    let watched = watcher::Config::default().streaming_lists();
    let recorder = Recorder::new(client.clone(), Reporter::from(MANAGER));
    let state = BeforeState {
        client: client.clone(),
        recorder,
        count,
    };
    Controller::new(Api::<Document>::all(client.clone()), watched.clone())
        .owns(Api::<ConfigMap>::all(client), watched)
        .with_config(ControllerConfig::default().concurrency(WORKERS))
        .run(reconcile, retry, Arc::new(state))
        .for_each(|_| std::future::ready(()))
        .await;
}

async fn reconcile(
    document: Arc<Document>,
    state: Arc<BeforeState>,
) -> Result<Action, BenchFailure> {
    let _ended = state.count.begin();
    let documents: Api<Document> = namespaced(&state, &document);
    let handled = finalizer(&documents, FINALIZER, document, |event| async {
        match event {
            Finalizer::Apply(document) => publish(&document, &state).await,
            Finalizer::Cleanup(document) => withdraw(&document, &state).await,
        }
    });
    handled
        .await
        .map_err(|error| BenchFailure::Finalizer(Box::new(error)))
}

async fn publish(document: &Document, state: &BeforeState) -> Result<Action, BenchFailure> {
    if document.spec.title.is_empty() {
        return Err(BenchFailure::NoTitle);
    }
    let was_hidden = document.status.as_ref().is_some_and(|status| status.hidden);
    if document.spec.hide && !was_hidden {
        tell(document, state, "HideRequested", "Hide").await?;
    }
    let name = document.name_any();
    let config = ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            namespace: document.namespace(),
            owner_references: document.controller_owner_ref(&()).map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from([("text".to_owned(), document.spec.text())])),
        ..ConfigMap::default()
    };
    let apply = PatchParams::apply(MANAGER).force();
    let configs: Api<ConfigMap> = namespaced(state, document);
    configs.patch(&name, &apply, &Patch::Apply(&config)).await?;
    let status = json!({
        "apiVersion": Document::api_version(&()),
        "kind": Document::kind(&()),
        "status": DocumentStatus { hidden: document.spec.hide },
    });
    let documents: Api<Document> = namespaced(state, document);
    documents
        .patch_status(&name, &apply, &Patch::Apply(&status))
        .await?;
    Ok(Action::requeue(INTERVAL))
}

async fn withdraw(document: &Document, state: &BeforeState) -> Result<Action, BenchFailure> {
    tell(document, state, "DeleteRequested", "Delete").await?;
    Ok(Action::await_change())
}

async fn tell(
    document: &Document,
    state: &BeforeState,
    reason: &str,
    action: &str,
) -> Result<(), BenchFailure> {
    let event = Event {
        type_: EventType::Normal,
        reason: reason.to_owned(),
        note: Some(format!("{} is changed", document.spec.title)),
        action: action.to_owned(),
        secondary: None,
    };
    let reference = document.object_ref(&());
    Ok(state.recorder.publish(&event, &reference).await?)
}

fn retry(_: Arc<Document>, _: &BenchFailure, _: Arc<BeforeState>) -> Action {
    Action::requeue(Duration::from_secs(5))
}

fn namespaced<K>(state: &BeforeState, document: &Document) -> Api<K>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
{
    let namespace = document.namespace().unwrap_or_default();
    Api::namespaced(state.client.clone(), &namespace)
}

impl From<kube_client::Error> for BenchFailure {
    fn from(error: kube_client::Error) -> Self {
        Self::Kube(error)
    }
}

impl fmt::Display for BenchFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kube(error) => error.fmt(f),
            Self::Finalizer(error) => error.fmt(f),
            Self::NoTitle => f.write_str("the document has no title"),
        }
    }
}

impl std::error::Error for BenchFailure {}
