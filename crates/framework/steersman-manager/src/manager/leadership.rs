//! Handle: the leader election of a manager, for the code of operators.

use serde_json::{Value, json};
use steersman_lease::{Leadership, LeaseStatus};

use super::Manager;

impl Manager {
    /// Returns whether this replica leads. Without [leader election](crate::ManagerBuilder::leader_election) every
    /// replica leads from the start of its controllers on.
    pub fn is_leader(&self) -> bool {
        match self.election().leadership() {
            Some(leadership) => leadership.is_leader(),
            None => *self.election().started().borrow(),
        }
    }

    /// Waits until this replica leads and starts the runnables of the leader. If the manager ends before, the future
    /// never resolves.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn elected(&self) {
        // The sender lives as long as `self`, so the wait cannot fail.
        let _ = self.election().started().wait_for(|leads| *leads).await;
    }

    /// Adds the section `lease` to the diagnostics of a manager with leader election.
    pub(crate) fn describe_election(&self) {
        if let Some(leadership) = self.election().leadership().cloned() {
            let describe = move || describe(&leadership.status());
            self.diagnostics().add("lease", describe);
        }
    }

    /// Returns the state of the leader election; `None` without one. Sends no request.
    pub fn lease_status(&self) -> Option<LeaseStatus> {
        self.election().leadership().map(Leadership::status)
    }
}

fn describe(status: &LeaseStatus) -> Value {
    json!({
        "lease": status.lease,
        "identity": status.identity,
        "isLeader": status.is_leader,
        "isRunning": status.is_running,
        "holder": status.holder,
        "since": status.since.map(|time| time.to_string()),
        "lastRenewal": status.last_renewal.map(|time| time.to_string()),
        "lastChangeSeconds": status.age.map(|age| age.as_secs_f64()),
        "transitions": status.transitions,
        "lastError": status.last_error,
    })
}
