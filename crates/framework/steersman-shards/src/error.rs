//! Words: the errors of a membership that cannot be made or started.

use std::time::Duration;

use thiserror::Error as ThisError;

/// Why a replica cannot become a member of its group.
///
/// A failed request is no such error: it is logged and repeated.
#[derive(Debug, ThisError)]
#[non_exhaustive]
pub enum Error {
    /// The three durations contradict each other.
    #[error(
        "the shards of {group:?} cannot have a lease duration of {lease_duration:?}, a renew deadline of {renew_deadline:?} and a retry period of {retry_period:?}: {problem}"
    )]
    Timing {
        /// The name of the group.
        group: String,
        /// The lease duration.
        lease_duration: Duration,
        /// The renew deadline.
        renew_deadline: Duration,
        /// The retry period.
        retry_period: Duration,
        /// The rule that the durations violate.
        problem: &'static str,
    },
    /// The name of the group cannot be a label and the beginning of names of Leases.
    #[error(
        "the group of shards {group:?} needs another name: at most 40 lower-case letters, digits and `-`, with a letter or digit at the start and the end"
    )]
    Name {
        /// The name of the group.
        group: String,
    },
    /// Neither the options nor the `ClientConfig` have a namespace.
    #[error(
        "the group of shards {group:?} has no namespace: set it with `Shards::in_namespace`, or in the current context of the kubeconfig, or run in a Pod with a ServiceAccount"
    )]
    NoNamespace {
        /// The name of the group.
        group: String,
    },
    /// The thread of the membership, or its runtime, could not be started.
    #[error("the thread of the shards of {group} could not be started")]
    Thread {
        /// The name of the group.
        group: String,
        /// The error of the operating system.
        #[source]
        source: std::io::Error,
    },
}
