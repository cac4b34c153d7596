//! Words: the metrics of elections, named as in client-go and controller-runtime.

use prometheus::{
    IntCounterVec, IntGaugeVec, Registry, register_int_counter_vec_with_registry,
    register_int_gauge_vec_with_registry,
};

/// The metrics of elections in one registry. Cheap to clone.
///
/// The label `name` is the name of the Lease.
#[derive(Clone, Debug)]
pub struct ElectionMetrics {
    leads: IntGaugeVec,
    slow_paths: IntCounterVec,
}

impl ElectionMetrics {
    /// Creates and registers `leader_election_master_status` and `leader_election_slowpath_total`
    /// (controller-runtime, `pkg/metrics/leaderelection.go`).
    ///
    /// # Errors
    ///
    /// If the registry has metrics of these names: create one set per registry, and clone it.
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        Ok(Self {
            leads: register_int_gauge_vec_with_registry!(
                "leader_election_master_status",
                "Gauge of if the reporting system is master of the relevant lease, 0 indicates backup, 1 indicates master. 'name' is the string used to identify the lease. Please make sure to group by name.",
                &["name"],
                registry
            )?,
            slow_paths: register_int_counter_vec_with_registry!(
                "leader_election_slowpath_total",
                "Total number of slow path exercised in renewing leader leases. 'name' is the string used to identify the lease. Please make sure to group by name.",
                &["name"],
                registry
            )?,
        })
    }

    /// Sets whether the candidate leads, and the number of its renewals that had to read first.
    pub(crate) fn set(&self, lease: &str, is_leader: bool, slow_paths: u64) {
        let leads = self.leads.with_label_values(&[lease]);
        leads.set(i64::from(is_leader));
        let counter = self.slow_paths.with_label_values(&[lease]);
        counter.inc_by(slow_paths.saturating_sub(counter.get()));
    }
}
