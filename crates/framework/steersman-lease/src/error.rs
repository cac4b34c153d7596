//! Words: the errors of an elector that cannot be made or started.

use std::time::Duration;

use thiserror::Error as ThisError;

/// Why an elector cannot be made or started.
///
/// A failed request is not such an error: the elector logs it, shows it in
/// [`LeaseStatus`](crate::LeaseStatus::last_error), and tries again.
#[derive(Debug, ThisError)]
#[non_exhaustive]
pub enum Error {
    /// The three durations contradict each other.
    #[error(
        "the lease {lease:?} cannot have a lease duration of {lease_duration:?}, a renew deadline of {renew_deadline:?} and a retry period of {retry_period:?}: {problem}"
    )]
    Timing {
        /// The name of the Lease.
        lease: String,
        /// The lease duration.
        lease_duration: Duration,
        /// The renew deadline.
        renew_deadline: Duration,
        /// The retry period.
        retry_period: Duration,
        /// The rule that the durations violate.
        problem: &'static str,
    },
    /// The name of the Lease, its namespace or the identity is not valid.
    #[error("the lease {lease:?} cannot be used for an election: {problem}")]
    Name {
        /// The name of the Lease.
        lease: String,
        /// The problem and the remedy.
        problem: &'static str,
    },
    /// Neither the options nor the `ClientConfig` have a namespace.
    #[error(
        "the lease {lease:?} has no namespace: set it with `LeaderElection::namespace`, or in the current context of the kubeconfig, or run in a Pod with a ServiceAccount"
    )]
    NoNamespace {
        /// The name of the Lease.
        lease: String,
    },
    /// The thread of the elector, or its runtime, could not be started.
    #[error("the thread of the elector of the lease {lease} could not be started")]
    Thread {
        /// The Lease, as `namespace/name`.
        lease: String,
        /// The error of the operating system.
        #[source]
        source: std::io::Error,
    },
    /// [`Elector::start`](crate::Elector::start) was called twice.
    #[error("the elector of the lease {lease} has been started already: make a new one")]
    AlreadyStarted {
        /// The Lease, as `namespace/name`.
        lease: String,
    },
}
