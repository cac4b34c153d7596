//! Handle: reads the health of a manager from its caches and controllers.

use std::sync::Arc;

use parking_lot::Mutex;
use steersman_cache::Cache;
use steersman_controller::ControllerStatus;
use steersman_object::Kind;

use crate::health::{ControllerHealth, Health, InformerHealth};

/// The caches and controllers of one manager, for reads while they run (MGR-6).
pub(crate) struct Monitor {
    /// The clusters, the manager's own first.
    clusters: Mutex<Vec<(String, Cache)>>,
    controllers: Mutex<Vec<WatchedKinds>>,
}

/// The kinds that one controller watches.
#[derive(Clone)]
pub(crate) struct WatchedKinds {
    pub(crate) status: ControllerStatus,
    /// Those of the manager's own cluster.
    pub(crate) own: Vec<Kind>,
    /// Those of each other cluster.
    pub(crate) in_clusters: Vec<Kind>,
}

/// Removes a cluster from the monitor when it is dropped.
#[must_use]
pub(crate) struct ShownCluster {
    monitor: Arc<Monitor>,
    /// `None` for the manager's own cluster, which always stays.
    added: Option<Cache>,
}

impl Monitor {
    pub(crate) fn new(cluster: &str, cache: Cache) -> Self {
        Self {
            clusters: Mutex::new(vec![(cluster.to_owned(), cache)]),
            controllers: Mutex::default(),
        }
    }

    /// Shows a cluster until the result is dropped. A known cluster is left as it is.
    pub(crate) fn show(monitor: &Arc<Self>, cluster: &str, cache: &Cache) -> ShownCluster {
        let mut clusters = monitor.clusters.lock();
        let is_known = clusters.iter().any(|(_, known)| known.is_same(cache));
        if !is_known {
            clusters.push((cluster.to_owned(), cache.clone()));
        }
        ShownCluster {
            monitor: Arc::clone(monitor),
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
        // Copied, so that no cache or controller is read under a lock.
        let controllers = self.controllers.lock().clone();
        let clusters = self.clusters.lock().clone();
        let mut health = Health::default();
        for (position, (cluster, cache)) in clusters.iter().enumerate() {
            for trouble in cache.trouble() {
                let is_own = position == 0;
                let watches = |watched: &&WatchedKinds| {
                    let kinds = if is_own {
                        &watched.own
                    } else {
                        &watched.in_clusters
                    };
                    kinds.contains(&trouble.kind)
                };
                let watching = controllers.iter().filter(watches);
                let watching = watching.map(|watched| watched.status.controller().to_owned());
                health.informers.push(InformerHealth {
                    cluster: cluster.clone(),
                    controllers: watching.collect(),
                    trouble,
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
    }
}

impl Drop for ShownCluster {
    fn drop(&mut self) {
        if let Some(cache) = &self.added {
            let mut clusters = self.monitor.clusters.lock();
            clusters.retain(|(_, known)| !known.is_same(cache));
        }
    }
}
