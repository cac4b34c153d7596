//! Driver: the clusters that were added to a manager: their metrics, their run and their removal.

use std::collections::{BTreeMap, HashMap};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use parking_lot::Mutex;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{IntGauge, Registry};
use steersman_api::kube_client::Client;
use steersman_api::{ApiListWatch, Error as ConnectError, ListWatch as _};
use steersman_cache::Reason;
use steersman_cache::internal::CacheInternals as _;
use steersman_controller::{ClusterMember, ClusterName, Clusters, ControllerError};
use steersman_object::{Kind, report};
use tokio::time::{sleep, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::cluster::Cluster;
use crate::error::BoxError;
use crate::order::Group;
use crate::runnable::{RunContext, Runnable};

/// The clusters that were added to a manager. Cheap to clone; clones share one table.
#[derive(Clone)]
pub(crate) struct AddedClusters {
    pub(crate) set: Clusters,
    pub(crate) metrics: ClusterMetrics,
    /// Locked while a cluster is added or removed, so that the set, the metrics and the table agree.
    table: Arc<Mutex<HashMap<ClusterName, AddedCluster>>>,
}

#[derive(Clone)]
pub(crate) struct AddedCluster {
    member: ClusterMember,
    has_started: Arc<AtomicBool>,
    /// Cancelled when all tasks of the cluster have ended.
    ended: CancellationToken,
}

/// Collects the metrics of each cluster, which have the label `cluster`, when the registry of the manager is
/// scraped.
#[derive(Clone)]
pub(crate) struct ClusterMetrics {
    registries: Arc<Mutex<BTreeMap<ClusterName, Registry>>>,
    count: IntGauge,
}

pub(crate) struct MemberRun {
    cluster: Cluster,
    added: AddedCluster,
    clusters: AddedClusters,
    _ended: DropGuard,
}

/// The pause after the first failure to make a client for a cluster. Each later pause is twice as long, up to
/// [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// The longest pause between two tries to make a client for a cluster.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// The time for a cluster's first answer, after which reads of the cluster fail (CTRL-12: it delays no other cluster).
const FIRST_ANSWER: Duration = Duration::from_secs(5);

/// The pause between two requests to a cluster that has not answered yet.
const ASK_AGAIN: Duration = Duration::from_secs(5);

// === impl AddedClusters ===

impl AddedClusters {
    pub(crate) fn new() -> prometheus::Result<Self> {
        Ok(Self {
            set: Clusters::new(),
            metrics: ClusterMetrics {
                registries: Arc::default(),
                count: IntGauge::new(
                    "steersman_clusters",
                    "Clusters of the manager besides its own",
                )?,
            },
            table: Arc::default(),
        })
    }

    pub(crate) fn add(
        &self,
        name: ClusterName,
        cluster: Cluster,
        registry: Registry,
    ) -> Result<(ClusterMember, MemberRun), ControllerError> {
        let mut table = self.table.lock();
        let (cache, client) = (cluster.cache().clone(), cluster.client().clone());
        let member = self.set.add(name.clone(), cache, client)?;
        self.metrics.add(name.clone(), registry);
        let ended = CancellationToken::new();
        let added = AddedCluster {
            member: member.clone(),
            has_started: Arc::default(),
            ended: ended.clone(),
        };
        table.insert(name, added.clone());
        let run = MemberRun {
            cluster,
            added,
            clusters: self.clone(),
            _ended: ended.drop_guard(),
        };
        Ok((member, run))
    }

    /// MGR-9: removes a cluster from the set and from the metrics. Returns `None` if no cluster has this name.
    pub(crate) fn remove(&self, name: &ClusterName) -> Option<AddedCluster> {
        self.remove_from(&mut self.table.lock(), name)
    }

    /// Removes this cluster; does nothing if a later cluster has its name by now.
    pub(crate) fn remove_member(&self, member: &ClusterMember) {
        let mut table = self.table.lock();
        let present = table.get(member.name());
        if present.is_some_and(|added| added.member.is_same(member)) {
            self.remove_from(&mut table, member.name());
        }
    }

    fn remove_from(
        &self,
        table: &mut HashMap<ClusterName, AddedCluster>,
        name: &ClusterName,
    ) -> Option<AddedCluster> {
        let added = table.remove(name)?;
        self.set.remove(name);
        self.metrics.remove(name);
        Some(added)
    }
}

impl AddedCluster {
    /// Waits until all tasks of the cluster have ended; at once for a cluster that has not started, because it never
    /// will. Cancel safe.
    pub(crate) async fn ended(&self) {
        if self.has_started.load(Ordering::Acquire) {
            self.ended.cancelled().await;
        }
    }
}

// === impl ClusterMetrics ===

impl ClusterMetrics {
    /// Makes the registry of one cluster. Its metrics have the name of the cluster as the label `cluster`.
    pub(crate) fn registry_of(name: &ClusterName) -> prometheus::Result<Registry> {
        let label = ("cluster".to_owned(), name.to_string());
        Registry::new_custom(None, Some(HashMap::from([label])))
    }

    pub(crate) fn add(&self, name: ClusterName, registry: Registry) {
        self.registries.lock().insert(name, registry);
    }

    pub(crate) fn remove(&self, name: &ClusterName) {
        self.registries.lock().remove(name);
    }
}

impl Collector for ClusterMetrics {
    fn desc(&self) -> Vec<&Desc> {
        self.count.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        // The registries are copied, so that the lock is not held while metrics are collected.
        let registries: Vec<Registry> = self.registries.lock().values().cloned().collect();
        self.count
            .set(i64::try_from(registries.len()).unwrap_or(i64::MAX));
        let mut families = self.count.collect();
        families.extend(registries.iter().flat_map(Registry::gather));
        families
    }
}

// === impl MemberRun ===

impl MemberRun {
    /// Waits until a client can be made. CTRL-12: unusable credentials affect this cluster alone.
    async fn connectable(&self, context: &RunContext) -> Client {
        let mut pause = FIRST_PAUSE;
        loop {
            let error = match self.connect().await {
                Ok(client) => return client,
                Err(error) => error,
            };
            // Neither later groups nor readers wait for this cluster.
            context.ready();
            let problem = format!("no client can be made: {}", report(&error));
            self.note(Reason::Unauthorized, &problem);
            tracing::error!(
                cluster = %self.added.member.name(),
                error = %report(&error),
                retry_after = ?pause,
                "no client can be made for the cluster: correct its credentials; other clusters go on"
            );
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Makes a client. Readers do not wait for it, because a credential plugin may hang.
    async fn connect(&self) -> Result<Client, ConnectError> {
        let mut connecting = pin!(self.cluster.client_config().connect());
        if let Ok(connected) = timeout(FIRST_ANSWER, &mut connecting).await {
            return connected;
        }
        let problem = format!("no client was made within {FIRST_ANSWER:?}");
        self.note(Reason::Unauthorized, &problem);
        connecting.await
    }

    async fn run_cache(self, context: RunContext) -> Result<(), BoxError> {
        let stopped = context.cancellation();
        let client = tokio::select! {
            biased;
            () = stopped.cancelled() => return Ok(()),
            client = self.connectable(&context) => client,
        };
        // The clone is only for the requests: the started cache is in the original.
        let (asked, name) = (self.cluster.clone(), self.added.member.name().clone());
        let mut running = pin!(self.cluster.run(context));
        tokio::select! {
            biased;
            ended = &mut running => return ended,
            () = first_answer(&asked, &name, client) => {}
        }
        running.await
    }

    /// Records the reason why no client can be made, for the errors of reads from the cluster.
    fn note(&self, reason: Reason, problem: &str) {
        let cache = self.cluster.cache();
        cache.note_server_problem(Some((reason, problem)));
    }
}

/// Waits until a cluster answers a request. CTRL-12: before that, a reader that waited for a first list would occupy a
/// worker for the time limit of the list.
async fn first_answer(cluster: &Cluster, name: &ClusterName, client: Client) {
    let requests = ApiListWatch::new(client, Kind::of::<ConfigMap>(), None);
    let mut is_known = false;
    loop {
        let problem = match timeout(FIRST_ANSWER, requests.ready()).await {
            Ok(Some(Err(error))) if error.code().is_none() => report(&error).to_string(),
            Ok(_) => break,
            Err(_) => format!("the server has not answered within {FIRST_ANSWER:?}"),
        };
        let noted = (Reason::Network, &*problem);
        cluster.cache().note_server_problem(Some(noted));
        if !std::mem::replace(&mut is_known, true) {
            tracing::warn!(
                cluster = %name,
                problem,
                "the cluster does not answer, and its objects cannot be read until it does; other clusters go on"
            );
        }
        sleep(ASK_AGAIN).await;
    }
    cluster.cache().note_server_problem(None);
    if is_known {
        tracing::info!(cluster = %name, "the cluster answers");
    }
}

impl Runnable for MemberRun {
    fn name(&self) -> String {
        format!("cluster {}", self.added.member.name())
    }

    fn group(&self) -> Group {
        Group::Caches
    }

    fn says_when_ready(&self) -> bool {
        true
    }

    fn begin(&mut self) {
        self.cluster.begin();
    }

    async fn run(self, context: RunContext) -> Result<(), BoxError> {
        self.added.has_started.store(true, Ordering::Release);
        let (clusters, member) = (self.clusters.clone(), self.added.member.clone());
        let removed = member.removed();
        let result = tokio::select! {
            biased;
            () = removed.cancelled() => Ok(()),
            result = self.run_cache(context) => result,
        };
        // MGR-9: a cluster that was removed through its set loses its metrics here.
        clusters.remove_member(&member);
        result
    }
}
