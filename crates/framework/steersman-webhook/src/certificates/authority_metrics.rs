//! Words: the metrics of the built-in authority.

use prometheus::{
    IntCounter, IntCounterVec, IntGauge, Registry, register_int_counter_vec_with_registry,
    register_int_counter_with_registry, register_int_gauge_with_registry,
};

/// The metrics of built-in certificates in one registry. Cheap to clone.
#[derive(Clone, Debug)]
#[must_use]
pub struct AuthorityMetrics {
    pub(crate) expiry: IntGauge,
    rotations: IntCounterVec,
    pub(crate) errors: IntCounter,
}

impl AuthorityMetrics {
    /// Creates and registers
    ///
    /// - `steersman_webhook_certificate_expiry_timestamp_seconds`: the expiry of the certificate that this replica
    ///   presents, in seconds since 1970; 0 without a certificate,
    /// - `steersman_webhook_certificate_rotations_total`: certificates that this replica has replaced as the leader,
    ///   with a label `what`: `leaf` for a serving certificate, `authority` for an authority,
    /// - `steersman_webhook_certificate_errors_total`: failed requests of the built-in authority, and reads of an
    ///   unusable Secret.
    ///
    /// # Errors
    ///
    /// If the registry has metrics of these names: create one set per registry, and clone it.
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        let metrics = Self {
            expiry: register_int_gauge_with_registry!(
                "steersman_webhook_certificate_expiry_timestamp_seconds",
                "When the certificate that this replica presents expires, in seconds since 1970",
                registry
            )?,
            rotations: register_int_counter_vec_with_registry!(
                "steersman_webhook_certificate_rotations_total",
                "Certificates of webhooks that this replica has replaced",
                &["what"],
                registry
            )?,
            errors: register_int_counter_with_registry!(
                "steersman_webhook_certificate_errors_total",
                "Failed requests of the built-in authority, and reads of a Secret that cannot be used",
                registry
            )?,
        };
        for what in ["leaf", "authority"] {
            let _ = metrics.rotations.with_label_values(&[what]);
        }
        Ok(metrics)
    }

    pub(crate) fn count(&self, has_new_leaf: bool, has_new_authority: bool) {
        let count = |what: &str, replaced: bool| {
            let counter = self.rotations.with_label_values(&[what]);
            counter.inc_by(u64::from(replaced));
        };
        count("leaf", has_new_leaf);
        count("authority", has_new_authority);
    }
}
