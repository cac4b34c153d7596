//! Handle: reads the health of a manager from its caches and controllers, and keeps the stage of its run.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use steersman_cache::internal::CacheInternals as _;
use steersman_cache::{Cache, InformerFailure};
use steersman_controller::ControllerStatus;
use steersman_object::Kind;

use crate::health::{ControllerHealth, Health, InformerHealth};
use crate::liveness::Liveness;
use crate::order::Group;

/// The caches and controllers of one manager, for reads while they run (MGR-6).
#[derive(Default)]
pub(crate) struct Monitor {
    /// The clusters, the manager's own first.
    pub(crate) clusters: Mutex<Vec<(String, Cache)>>,
    controllers: Mutex<Vec<WatchedKinds>>,
    stage: Mutex<RunStage>,
    /// The names of the running runnables, with their groups.
    pub(crate) tasks: Mutex<BTreeMap<String, Group>>,
    /// The tasks of the framework that ended without being asked to stop.
    pub(crate) ended_tasks: Mutex<Vec<String>>,
    pub(crate) liveness: Mutex<Liveness>,
    /// The problems of client certificates, by the name of the cluster.
    pub(crate) client_certificates: Mutex<BTreeMap<String, String>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum RunStage {
    /// At least one group before the leader-elected group is not ready.
    #[default]
    Starting,
    /// Every group before the leader-elected group is ready. This includes a standby.
    Started,
    /// The manager was told to stop, or failed.
    Stopping,
}

#[derive(Clone)]
pub(crate) struct WatchedKinds {
    pub(crate) status: ControllerStatus,
    /// The kind of the requests; `None` for requests of another type.
    pub(crate) primary: Option<Kind>,
    pub(crate) own: Vec<Kind>,
    pub(crate) in_clusters: Vec<Kind>,
}

#[must_use]
pub(crate) struct ShownCluster {
    monitor: Arc<Monitor>,
    cluster: String,
    /// The cache of an added cluster; `None` for the manager's own cluster, which is never removed.
    added: Option<Cache>,
}

impl Monitor {
    pub(crate) fn new(cluster: &str, cache: Cache) -> Self {
        Self {
            clusters: Mutex::new(vec![(cluster.to_owned(), cache)]),
            ..Self::default()
        }
    }

    /// Returns whether the operator installs or converts this kind, so that listing it may need a ready operator
    /// (HEALTH-2).
    pub(crate) fn is_provided(&self, kind: &Kind) -> bool {
        let own = self.clusters.lock().first().map(|(_, cache)| cache.clone());
        own.is_some_and(|cache| cache.is_provided(kind.gvk()))
    }

    pub(crate) fn stage(&self) -> RunStage {
        *self.stage.lock()
    }

    /// Records the stage of the manager's run. After a stop, no other stage is recorded.
    pub(crate) fn reach(&self, stage: RunStage) {
        let mut known = self.stage.lock();
        if *known != RunStage::Stopping {
            *known = stage;
        }
    }

    /// Returns the controllers with the kinds of their requests, by name.
    pub(crate) fn controllers_with_kinds(&self) -> Vec<(ControllerStatus, Option<Kind>)> {
        let controllers = self.controllers.lock();
        controllers
            .iter()
            .map(|known| (known.status.clone(), known.primary.clone()))
            .collect()
    }

    /// Returns the informers that do not follow their server, each with the name of its cluster if it was added.
    pub(crate) fn failures(&self) -> Vec<(Option<String>, InformerFailure)> {
        let clusters = self.clusters.lock().clone().into_iter().enumerate();
        let of_cluster = clusters.flat_map(|(position, (cluster, cache))| {
            let cluster = (position > 0).then_some(cluster);
            let failures = cache.informer_failures().into_iter();
            failures.map(move |failure| (cluster.clone(), failure))
        });
        of_cluster.collect()
    }

    pub(crate) fn controllers(&self) -> Vec<ControllerStatus> {
        let controllers = self.controllers.lock();
        controllers
            .iter()
            .map(|known| known.status.clone())
            .collect()
    }

    /// Shows a cluster in the health until the result is dropped. A cluster that is shown already stays unchanged.
    pub(crate) fn show(monitor: &Arc<Self>, cluster: &str, cache: &Cache) -> ShownCluster {
        let mut clusters = monitor.clusters.lock();
        let is_known = clusters.iter().any(|(_, known)| known.is_same(cache));
        if !is_known {
            clusters.push((cluster.to_owned(), cache.clone()));
        }
        ShownCluster {
            monitor: Arc::clone(monitor),
            cluster: cluster.to_owned(),
            added: (!is_known).then(|| cache.clone()),
        }
    }

    pub(crate) fn add_controller(&self, watched: WatchedKinds) {
        let mut controllers = self.controllers.lock();
        controllers.retain(|known| known.status.controller() != watched.status.controller());
        controllers.push(watched);
        controllers.sort_by(|a, b| a.status.controller().cmp(b.status.controller()));
    }

    pub(crate) fn health(&self) -> Health {
        // The lists are copied, so that the lock is not held while caches and controllers are read.
        let controllers = self.controllers.lock().clone();
        let clusters = self.clusters.lock().clone();
        let mut health = Health::default();
        for (position, (cluster, cache)) in clusters.iter().enumerate() {
            for failure in cache.informer_failures() {
                let is_own = position == 0;
                let watches = |watched: &&WatchedKinds| {
                    let kinds = if is_own {
                        &watched.own
                    } else {
                        &watched.in_clusters
                    };
                    kinds.contains(&failure.kind)
                };
                let watching = controllers.iter().filter(watches);
                let watching = watching.map(|watched| watched.status.controller().to_owned());
                health.informers.push(InformerHealth {
                    cluster: cluster.clone(),
                    controllers: watching.collect(),
                    failure,
                });
            }
        }
        let controllers = controllers
            .iter()
            .map(|watched| of_controller(&watched.status));
        health.controllers = controllers.collect();
        health
    }
}

fn of_controller(status: &ControllerStatus) -> ControllerHealth {
    ControllerHealth {
        name: status.controller().to_owned(),
        is_waiting: status.is_waiting(),
        waiting_for: status.waiting_for(),
        handler_panics: status.handler_panics(),
        last_handler_panic: status.last_handler_panic(),
        handler_errors: status.handler_errors(),
        last_handler_error: status.last_handler_error(),
    }
}

impl ShownCluster {
    pub(crate) fn note_client_certificate(&self, problem: Option<String>) {
        let mut known = self.monitor.client_certificates.lock();
        match problem {
            Some(problem) => known.insert(self.cluster.clone(), problem),
            None => known.remove(&self.cluster),
        };
    }
}

impl Drop for ShownCluster {
    fn drop(&mut self) {
        self.note_client_certificate(None);
        if let Some(cache) = &self.added {
            let mut clusters = self.monitor.clusters.lock();
            clusters.retain(|(_, known)| !known.is_same(cache));
        }
    }
}
