//! Room: the certificates of webhooks with a built-in authority, which is kept in a Secret.

mod authority;
pub mod authority_metrics;
mod stored_certificates;
pub mod report;
mod rotation;
mod injection;
pub mod trusted_authorities;
pub mod built_in;
mod leader;
mod follower;

pub use authority_metrics::AuthorityMetrics;
pub use built_in::{BuiltInCertificates, InvalidCertificates};
pub use report::CertificateReport;
pub use trusted_authorities::AuthoritiesReceiver;
