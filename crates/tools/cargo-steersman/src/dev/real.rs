//! Driver: reads the cluster of a kubeconfig, for `dev --real`.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use futures::future::OptionFuture;
use kube_core::DynamicObject;
use serde_json::Value;
use steersman_api::kube_client::Client;
use steersman_api::{Api, ClientConfig, Decoded, Paging, WriteOptions};
use steersman_crds::stored_kind;
use steersman_description::Description;
use steersman_object::{Kind, ListOptions};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{Instant, sleep};
use tokio_util::task::AbortOnDropHandle;

use super::clock::now;
use super::lines::ReconcileLines;
use super::samples::Samples;
use super::view::snapshot::OperatorSnapshot;
use crate::dev::page_source::{PageSource, PageViews};
use crate::error::Error;
use crate::kubeconfig::{self, AGENT};

/// The cluster of a kubeconfig. Cheap to clone.
#[derive(Clone, derive_more::Debug)]
#[debug("RealCluster({:?})", self.url())]
pub(crate) struct RealCluster {
    client_config: ClientConfig,
    client: Client,
}

/// A task that reports what an operator does in a cluster. Dropping it ends the task.
#[derive(Debug)]
pub(crate) struct Follower {
    /// Closed when the task ends, which happens when the operator ends.
    pub(crate) news: UnboundedReceiver<ClusterNews>,
    _task: AbortOnDropHandle<()>,
}

#[derive(Debug)]
pub(crate) enum ClusterNews {
    Line(String),
    Objects(Vec<Value>),
    Problem(String),
}

/// The pause between two looks at the debug page.
const LOOK: Duration = Duration::from_secs(1);
/// The time after which the objects are listed again even without a reconcile.
const LONGEST: Duration = Duration::from_secs(15);
/// The number of objects of each kind that are listed.
const MOST: u32 = 500;

impl RealCluster {
    /// Finds the cluster of a context, by default of the current context. Changes nothing.
    pub(crate) async fn find(context: Option<&str>) -> Result<Self, Error> {
        let client_config = kubeconfig::find(context).await.map_err(Error::cluster(
            "the search for the cluster of the kubeconfig",
        ))?;
        let client = client_config
            .client()
            .map_err(Error::cluster("the connection to the cluster"))?;
        Ok(Self {
            client_config,
            client,
        })
    }

    pub(crate) fn url(&self) -> String {
        self.client_config.endpoint()
    }

    /// Returns the context of the kubeconfig; `None` if this process runs in a Pod without a kubeconfig.
    pub(crate) fn context(&self) -> Option<&str> {
        self.client_config.context()
    }

    pub(crate) async fn apply(&self, samples: &Samples) -> Result<usize, Error> {
        let options = WriteOptions::new().field_manager(AGENT);
        samples
            .apply(&self.client_config, &self.client, &options)
            .await
    }

    /// Starts a task that follows the debug page of an operator and the objects of its kinds.
    pub(crate) fn follow(&self, description: &Description, source: Option<PageSource>) -> Follower {
        let (sender, news) = unbounded_channel();
        let kinds: Vec<Kind> = description
            .definitions
            .iter()
            .filter_map(stored_kind)
            .collect();
        let task = tokio::spawn(follow(self.clone(), kinds, source, sender));
        Follower {
            news,
            _task: AbortOnDropHandle::new(task),
        }
    }

    async fn list(&self, kinds: &[Kind]) -> Result<Vec<Value>, String> {
        let mut objects = Vec::new();
        for kind in kinds {
            let api = Api::<DynamicObject>::new(self.client.clone(), kind.clone());
            let paging = Paging::new().page_size(MOST);
            let page = match api.list(&ListOptions::new(), &paging).await {
                Ok(page) => page,
                // A 404 means that the operator has not installed the definition yet.
                Err(error) if error.code() == Some(404) => continue,
                Err(error) => {
                    let kind = kind.qualified_plural();
                    return Err(format!("{kind} cannot be listed: {}", error.brief()));
                }
            };
            for object in page.items.into_iter().filter_map(Decoded::good) {
                let mut object = serde_json::to_value(&object).unwrap_or_default();
                object["kind"] = kind.gvk().kind().into();
                objects.push(object);
            }
        }
        Ok(objects)
    }
}

/// Formats the cluster for the middle of a sentence.
impl fmt::Display for RealCluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the cluster {}", self.url())?;
        match self.context() {
            Some(context) => write!(f, " (context {context})"),
            None => f.write_str(" (of this Pod)"),
        }
    }
}

/// Sends news until the receiver is dropped. To spare large clusters, lists the objects only after a reconcile.
async fn follow(
    cluster: RealCluster,
    kinds: Vec<Kind>,
    source: Option<PageSource>,
    news: UnboundedSender<ClusterNews>,
) {
    let mut views = PageViews::default();
    let mut lines = ReconcileLines::default();
    let mut finished: BTreeMap<String, u64> = BTreeMap::new();
    let mut listed: Option<Instant> = None;
    let mut problem = String::new();
    loop {
        let mut is_due = listed.is_none_or(|listed| listed.elapsed() >= LONGEST);
        let renewed = OptionFuture::from(source.as_ref().map(|source| source.renew(&mut views)));
        // The operator may be starting or stopping.
        if let Some(Ok(())) = renewed.await {
            let snapshot = OperatorSnapshot::read(&views, now());
            let controllers = snapshot.controllers.into_iter();
            let now: BTreeMap<_, _> = controllers.map(|one| (one.name, one.finished)).collect();
            is_due |= now != finished;
            finished = now;
            for line in lines.new_ones(&snapshot.reconciles) {
                if news.send(ClusterNews::Line(line)).is_err() {
                    return;
                }
            }
        }
        if is_due {
            listed = Some(Instant::now());
            match cluster.list(&kinds).await {
                Ok(objects) => {
                    problem.clear();
                    if news.send(ClusterNews::Objects(objects)).is_err() {
                        return;
                    }
                }
                // An unchanged problem is not reported again.
                Err(found) if found == problem => {}
                Err(found) => {
                    problem.clone_from(&found);
                    if news.send(ClusterNews::Problem(found)).is_err() {
                        return;
                    }
                }
            }
        }
        sleep(LOOK).await;
    }
}
