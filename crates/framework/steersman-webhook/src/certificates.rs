//! Room: the certificates of webhooks with a built-in authority, which is kept in a Secret.

pub mod authority_metrics;
mod injection;
pub mod trusted_authorities;
pub mod built_in;
mod leader;
mod follower;

pub use authority_metrics::AuthorityMetrics;
pub use built_in::{BuiltInCertificates, InvalidCertificates};
pub use steersman_certificates::CertificateReport;
pub use trusted_authorities::AuthoritiesReceiver;
