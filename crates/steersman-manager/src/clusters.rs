//! Driver: the clusters of a manager besides its own: their metrics, their run and their removal.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{IntGauge, Registry};
use steersman_controller::{ClusterMember, ClusterName, Clusters};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::cluster::Cluster;
use crate::error::BoxError;
use crate::order::Group;
use crate::runnable::{RunContext, Runnable};

/// The clusters that were added to a manager.
pub(crate) struct AddedClusters {
    pub(crate) set: Clusters,
    pub(crate) metrics: ClusterMetrics,
    /// One token per cluster, cancelled once no task of the cluster runs.
    pub(crate) ended: Mutex<HashMap<ClusterName, CancellationToken>>,
}

/// Collects the metrics of each cluster, which have the label `cluster`, when the registry of the manager is
/// scraped.
#[derive(Clone)]
pub(crate) struct ClusterMetrics {
    registries: Arc<Mutex<BTreeMap<ClusterName, Registry>>>,
    count: IntGauge,
}

/// Runs the cache of a cluster until the cluster is removed.
pub(crate) struct MemberRun {
    cluster: Cluster,
    member: ClusterMember,
    ended: DropGuard,
}

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
            ended: Mutex::default(),
        })
    }

    /// MGR-9: removes a cluster from the set and from the metrics. Returns the token of its end, if there was such a
    /// cluster.
    pub(crate) fn forget(&self, name: &ClusterName) -> Option<CancellationToken> {
        self.set.remove(name)?;
        self.metrics.remove(name);
        self.ended.lock().remove(name)
    }

    /// Makes the runnable of a cluster.
    pub(crate) fn run(&self, cluster: Cluster, member: &ClusterMember) -> MemberRun {
        let ended = CancellationToken::new();
        let name = member.name().clone();
        self.ended.lock().insert(name, ended.clone());
        MemberRun {
            cluster,
            member: member.clone(),
            ended: ended.drop_guard(),
        }
    }
}

// === impl ClusterMetrics ===

impl ClusterMetrics {
    /// Makes the registry of one cluster; the label `cluster` names it.
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
        // Copied, so that no metric is collected under the lock.
        let registries: Vec<Registry> = self.registries.lock().values().cloned().collect();
        self.count
            .set(i64::try_from(registries.len()).unwrap_or(i64::MAX));
        let mut families = self.count.collect();
        families.extend(registries.iter().flat_map(Registry::gather));
        families
    }
}

// === impl MemberRun ===

impl Runnable for MemberRun {
    fn name(&self) -> String {
        title(self.member.name())
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
        let Self {
            cluster,
            member,
            ended,
        } = self;
        let removed = member.removed();
        let result = tokio::select! {
            biased;
            () = removed.cancelled() => Ok(()),
            result = cluster.run(context) => result,
        };
        // Only now, because the future of `run` was dropped above.
        drop(ended);
        result
    }
}

/// Returns the name of a cluster among the runnables of a manager.
pub(crate) fn title(cluster: &ClusterName) -> String {
    format!("cluster {cluster}")
}
