//! Words: the state of an election as other parts of a program see it.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

/// The state of an election at one moment, as one candidate knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeaseStatus {
    /// The Lease, as `namespace/name`.
    pub lease: String,
    /// The uid of the Lease; `None` before the first response, and while there is no Lease.
    pub uid: Option<String>,
    /// The identity of this candidate.
    pub identity: String,
    /// Whether this candidate leads and may work.
    pub is_leader: bool,
    /// The holder in the Lease when the candidate last read or wrote it; `None` without a holder.
    pub holder: Option<String>,
    /// The time at which the holder acquired the Lease, by the clock of the holder.
    pub since: Option<Timestamp>,
    /// The time of the holder's last renewal, by the clock of the holder.
    pub last_renewal: Option<Timestamp>,
    /// The counter `leaseTransitions` of the Lease: how often the holder has changed.
    pub transitions: i32,
    /// The time since the Lease changed, or since a leader's last renewal; `None` before the first response.
    pub age: Option<Duration>,
    /// The lease duration of this candidate.
    pub lease_duration: Duration,
    /// The error of the last request; `None` after a success.
    pub last_error: Option<String>,
    /// Whether the elector runs.
    pub is_running: bool,
}

/// The reason why a leader no longer leads.
#[derive(Clone, Debug, PartialEq, Eq, derive_more::Display)]
#[non_exhaustive]
pub enum LossReason {
    /// No renewal succeeded within the renew deadline.
    #[display("no renewal succeeded within {deadline:?}{}", after_error(last_error.as_deref()))]
    RenewDeadline {
        /// The renew deadline.
        deadline: Duration,
        /// The error of the last attempt.
        last_error: Option<String>,
    },
    /// The Lease names another identity, although this candidate renewed it in time: another program wrote it.
    #[display("{}", taken_by(holder))]
    Taken {
        /// The identity in the Lease; empty if the Lease has none.
        holder: String,
    },
    /// The thread of the elector has panicked.
    #[display("the thread of the elector has ended")]
    ElectorEnded,
    /// The thread of the elector was blocked at the renew deadline: by a hook, a layer of the `ClientConfig` or a log.
    #[display(
        "the thread of the elector reported neither a renewal nor a loss within {deadline:?}: a hook, a layer of the \
         connection or a log blocks it"
    )]
    ElectorBlocked {
        /// The renew deadline.
        deadline: Duration,
    },
}

/// How the candidacy of one candidate ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ending {
    /// The Lease was released, so another candidate can take it at once.
    Released,
    /// The candidate did not hold the Lease.
    NotHeld,
    /// The Lease still names this candidate until it expires: the release failed, or work was left behind.
    Kept,
}

/// Work that still ran when half of the time between the renew deadline and the expiry of the lease had passed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Overrun {
    /// The Lease, as `namespace/name`.
    pub lease: String,
    /// How long work may run after a loss before the process is aborted.
    pub limit: Duration,
}

/// A change of the election, for the hook of [`LeaderElection::on_change`](crate::LeaderElection::on_change).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ElectionChange {
    /// The holder of the Lease has changed to another identity, or to none.
    NewHolder {
        /// The new holder; `None` after a release or a deletion.
        holder: Option<String>,
    },
    /// This candidate leads.
    Elected {
        /// The identity of this candidate.
        identity: String,
    },
    /// This candidate lost the Lease while it led.
    Lost {
        /// The identity of this candidate.
        identity: String,
        /// Why this candidate lost the Lease.
        reason: LossReason,
    },
    /// This candidate released the Lease.
    Released {
        /// The identity of this candidate.
        identity: String,
    },
}

impl LeaseStatus {
    /// Checks that a leader has renewed its lease within the lease duration plus `tolerance`, as client-go's
    /// `HealthzAdaptor` does. Passes for a standby, and before the start. Fails if the elector has ended or is stuck,
    /// because it would otherwise have reported the loss.
    ///
    /// # Errors
    ///
    /// A sentence that names the lease and the time since its last renewal.
    pub fn check(&self, tolerance: Duration) -> Result<(), String> {
        let limit = self.lease_duration.saturating_add(tolerance);
        let is_ours = self.holder.as_deref() == Some(&self.identity);
        match self.age {
            Some(age) if self.is_running && is_ours && age > limit => Err(format!(
                "the leader {} has not renewed the lease {} for {age:.1?}: the process should be restarted",
                self.identity, self.lease
            )),
            _ => Ok(()),
        }
    }
}

fn after_error(last: Option<&str>) -> String {
    last.map_or_else(String::new, |error| format!(" (last error: {error})"))
}

fn taken_by(holder: &str) -> String {
    match holder {
        "" => "another program cleared the holder of the Lease".to_owned(),
        holder => format!("{holder} holds the Lease"),
    }
}
