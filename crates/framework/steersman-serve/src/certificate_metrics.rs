//! Handle: the metrics of certificates that servers use.

use prometheus::{
    IntCounter, IntGaugeVec, Registry, register_int_counter_with_registry,
    register_int_gauge_vec_with_registry,
};

use crate::error::Error;

/// The metrics of certificate files, under the names of controller-runtime's certificate watcher. Cheap to clone;
/// the servers of one registry share them.
#[derive(Clone, Debug)]
#[must_use]
pub struct CertificateMetrics {
    pub(crate) reads: IntCounter,
    pub(crate) errors: IntCounter,
    pub(crate) not_before: IntGaugeVec,
    pub(crate) not_after: IntGaugeVec,
}

impl CertificateMetrics {
    /// Registers `certwatcher_read_certificate_total` and `certwatcher_read_certificate_errors_total`, and
    /// `steersman_certificate_not_before_timestamp_seconds` and `steersman_certificate_not_after_timestamp_seconds`
    /// with the label `server`.
    ///
    /// # Errors
    ///
    /// [`Error::Metrics`] if the registry has them already.
    pub fn register(registry: &Registry) -> Result<Self, Error> {
        let register = || {
            Ok(Self {
                reads: register_int_counter_with_registry!(
                    "certwatcher_read_certificate_total",
                    "Reads of certificate files that had changed, or that could not be used",
                    registry
                )?,
                errors: register_int_counter_with_registry!(
                    "certwatcher_read_certificate_errors_total",
                    "Reads of certificate files that could not be used",
                    registry
                )?,
                not_before: register_int_gauge_vec_with_registry!(
                    "steersman_certificate_not_before_timestamp_seconds",
                    "From when on the certificate of a server is valid, in seconds since 1970",
                    &["server"],
                    registry
                )?,
                not_after: register_int_gauge_vec_with_registry!(
                    "steersman_certificate_not_after_timestamp_seconds",
                    "When the certificate of a server expires, in seconds since 1970",
                    &["server"],
                    registry
                )?,
            })
        };
        register().map_err(Error::Metrics)
    }
}
