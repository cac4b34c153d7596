//! The certificates of operators, without tasks and connections: an authority that is kept in a Secret, the rotation
//! of that authority, and the validity of any certificate chain.
//!
//! `steersman-webhook` drives the rotation, `steersman-serve` logs the state of the certificates that it presents, and
//! `cargo steersman doctor` reports both.
//!
//! ```
//! use std::time::Duration;
//!
//! use k8s_openapi::jiff::Timestamp;
//! use steersman_certificates::{CertificateState, CertificateTimes, KeyedCertificate};
//!
//! # fn main() -> Result<(), String> {
//! let made: Timestamp = Timestamp::UNIX_EPOCH;
//! let week = Duration::from_secs(7 * 24 * 3600);
//! let authority = KeyedCertificate::authority(week, made)?;
//! let serving = authority.issue(&["hooks.shop.svc".to_owned()], week, made)?;
//! assert!(serving.certificate.is_signed_by(&authority.certificate));
//! let times = CertificateTimes::of_pem(serving.certificate.pem().as_bytes()).ok_or("no chain")?;
//! assert_eq!(times.state(made), CertificateState::Valid);
//! # Ok(())
//! # }
//! ```
//!
//! # Reading order
//!
//! - `certificate_times` has [`CertificateTimes`], the validity of a chain, and [`CertificateState`].
//! - `authority` makes, signs and reads certificates: [`KeyedCertificate`] and [`ParsedCertificate`].
//! - `stored_certificates` reads and writes the Secret as [`StoredCertificates`], and `report` summarizes it.
//! - `rotation` decides the next content of the Secret: [`Rotation`].

mod certificate_times;
mod authority;
mod stored_certificates;
mod report;
mod rotation;

pub use authority::{KeyedCertificate, ParsedCertificate};
pub use certificate_times::{CertificateState, CertificateTimes};
pub use report::CertificateReport;
pub use rotation::{Observation, Rotation, RotationChange, RotationSettings, RotationStep};
pub use stored_certificates::{RotationPhase, StoredCertificates};
