//! Words: the metrics of definitions.

use prometheus::{
    IntCounterVec, IntGaugeVec, Registry, register_int_counter_vec_with_registry,
    register_int_gauge_vec_with_registry,
};

/// The metrics of definitions in one registry. Cheap to clone.
#[derive(Clone, Debug)]
#[must_use]
pub struct CrdMetrics {
    pub(crate) refused: IntGaugeVec,
    pub(crate) migrated: IntCounterVec,
    pub(crate) remaining: IntGaugeVec,
    pub(crate) errors: IntCounterVec,
}

const LABEL: &[&str] = &["definition"];

impl CrdMetrics {
    /// Creates and registers the metrics, each with the label `definition`:
    ///
    /// - `steersman_definition_refused`: 1 while a definition is refused because it accepts less than that on the
    ///   server; otherwise 0,
    /// - `steersman_definition_migrated_objects_total`: objects that this replica has migrated to the stored version,
    /// - `steersman_definition_remaining_objects`: objects that a migration has left, if the server reports them,
    /// - `steersman_definition_errors_total`: failed attempts to install a definition or to migrate its objects.
    ///
    /// # Errors
    ///
    /// If the registry has metrics of these names: create one set per registry, and clone it.
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        let gauge = |name: &str, help: &str| {
            register_int_gauge_vec_with_registry!(name, help, LABEL, registry)
        };
        let counter = |name: &str, help: &str| {
            register_int_counter_vec_with_registry!(name, help, LABEL, registry)
        };
        Ok(Self {
            refused: gauge(
                "steersman_definition_refused",
                "1 while a definition is not installed because it accepts less than the one on the server",
            )?,
            migrated: counter(
                "steersman_definition_migrated_objects_total",
                "Objects that were stored in the present version of their definition",
            )?,
            remaining: gauge(
                "steersman_definition_remaining_objects",
                "Objects that are left of a migration, as far as the server tells",
            )?,
            errors: counter(
                "steersman_definition_errors_total",
                "Failed tries to install a definition or to migrate its objects",
            )?,
        })
    }
}
