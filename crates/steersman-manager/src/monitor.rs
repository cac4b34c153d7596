//! Handle: reads the health of a manager from its caches and controllers.

use parking_lot::Mutex;
use steersman_cache::Cache;
use steersman_controller::ControllerStatus;
use steersman_object::Kind;

use crate::health::{ControllerHealth, Health, InformerHealth};

/// The caches and controllers of one manager, for reads while they run (MGR-6).
pub(crate) struct Monitor {
    /// The clusters, the manager's own first.
    clusters: Mutex<Vec<(String, Cache)>>,
    controllers: Mutex<Vec<(ControllerStatus, Vec<Kind>)>>,
}

impl Monitor {
    pub(crate) fn new(cluster: &str, cache: Cache) -> Self {
        Self {
            clusters: Mutex::new(vec![(cluster.to_owned(), cache)]),
            controllers: Mutex::default(),
        }
    }

    /// Adds a cluster that the manager runs besides its own. A known cluster is left as it is.
    pub(crate) fn add_cluster(&self, cluster: &str, cache: &Cache) {
        let mut clusters = self.clusters.lock();
        if !clusters.iter().any(|(_, known)| known.is_same(cache)) {
            clusters.push((cluster.to_owned(), cache.clone()));
        }
    }

    pub(crate) fn add_controller(&self, status: ControllerStatus, kinds: Vec<Kind>) {
        let mut controllers = self.controllers.lock();
        controllers.retain(|(known, _)| known.controller() != status.controller());
        controllers.push((status, kinds));
        controllers.sort_by(|(a, _), (b, _)| a.controller().cmp(b.controller()));
    }

    pub(crate) fn health(&self) -> Health {
        // Copied, so that no cache or controller is read under a lock.
        let controllers = self.controllers.lock().clone();
        let clusters = self.clusters.lock().clone();
        let mut health = Health::default();
        for (position, (cluster, cache)) in clusters.iter().enumerate() {
            for trouble in cache.trouble() {
                // The controllers of a manager watch only its own cluster.
                let watching = controllers.iter().filter(|_| position == 0);
                let watching = watching.filter(|(_, kinds)| kinds.contains(&trouble.kind));
                let watching = watching.map(|(status, _)| status.controller().to_owned());
                health.informers.push(InformerHealth {
                    cluster: cluster.clone(),
                    controllers: watching.collect(),
                    trouble,
                });
            }
        }
        let controllers = controllers.iter().map(|(status, _)| of_controller(status));
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
