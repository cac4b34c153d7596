//! Handle: the leader election of a manager, for the code of operators.

use steersman_lease::{Leadership, LeaseStatus};

use super::Manager;

impl Manager {
    /// Returns whether this replica leads. Without [leader election](crate::ManagerBuilder::leader_election) it does
    /// from the start of the controllers on.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        match self.election().leadership() {
            Some(leadership) => leadership.is_leader(),
            None => *self.election().started().borrow(),
        }
    }

    /// Waits until this replica leads and the runnables of the leader are being started; for ever, if the manager ends
    /// before.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn elected(&self) {
        // The sender lives as long as `self`, so the wait cannot fail.
        let _ = self.election().started().wait_for(|leads| *leads).await;
    }

    /// Returns the state of the leader election; `None` without one. Sends no request.
    #[must_use]
    pub fn lease_status(&self) -> Option<LeaseStatus> {
        self.election().leadership().map(Leadership::status)
    }
}
