//! Leader election on Kubernetes Leases: at most one replica of an operator works at a time.
//!
//! ```
//! use std::time::Duration;
//! use steersman_api::ClientConfig;
//! use steersman_apiserver::ApiServer;
//! use steersman_lease::{Elector, LeaderElection};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), steersman_lease::Error> {
//! # let server = ApiServer::new();
//! # let client_config = ClientConfig::in_process(server.service(), "default");
//! let options = LeaderElection::new("website-operator").timing(
//!     Duration::from_secs(3),
//!     Duration::from_secs(2),
//!     Duration::from_millis(500),
//! );
//! let mut elector = Elector::new(options, &client_config)?;
//! elector.start()?;
//! let leadership = elector.leadership();
//! leadership.elected().await;
//! assert!(leadership.is_leader());
//! // After the work has ended.
//! elector.release().await;
//! # Ok(())
//! # }
//! ```
//!
//! An [`Elector`] is one candidate. It reads and writes one Lease object, in the form of client-go, so that
//! replicas with either library can share a Lease. It differs from client-go's elector in these points:
//!
//! - No replica works before the lease of every earlier holder that it knows has expired or was released, even if
//!   the Lease was deleted or overwritten by a third party meanwhile (LEASE-2, LEASE-3).
//! - A leader that cannot renew stops its work at the renew deadline, counted from the moment at which the last
//!   successful renewal was sent (LEASE-1). If the work has not stopped half-way to the expiry, the process is
//!   aborted (LEASE-4).
//! - The elector runs on a thread and a runtime of its own, and sends its requests through a client of its own, which
//!   has a hard deadline for each request (LEASE-6). Reconcilers that block their threads delay no renewal.
//!
//! # Reading order
//!
//! - [`error`] has [`Error`].
//! - `timing` has the three durations and their validation.
//! - `identity` makes the identity of a replica.
//! - [`status`] has [`LeaseStatus`], [`LossReason`] and [`ElectionChange`].
//! - [`options`] has [`LeaderElection`], and [`metrics`] has [`ElectionMetrics`].
//! - `record` has the content of a Lease, and `term_clock` the clock of its holder.
//! - `candidacy` decides when a candidate may take the lease, by its own observations.
//! - `machine` decides each request, the loss, the abort and the release: `machine::replies` what a reply means, and
//!   `machine::ending` how a term ends.
//! - `requests` sends the requests of the machine.
//! - `abort` aborts the process, `driver` runs the machine on a thread of its own, and `watchdog` aborts if that thread
//!   is blocked.
//! - [`elector`] has [`Elector`] and [`Leadership`].

pub mod error;
mod timing;
mod identity;
pub mod status;
pub mod options;
pub mod metrics;
mod record;
mod term_clock;
mod candidacy;
mod machine;
mod requests;
mod abort;
mod driver;
mod watchdog;
pub mod elector;

pub use elector::{Elector, Leadership};
pub use error::Error;
pub use metrics::ElectionMetrics;
pub use options::LeaderElection;
pub use status::{ElectionChange, Ending, LeaseStatus, LossReason, Overrun};
pub use timing::{DEFAULT_LEASE_DURATION, DEFAULT_RENEW_DEADLINE, DEFAULT_RETRY_PERIOD, Timing};
