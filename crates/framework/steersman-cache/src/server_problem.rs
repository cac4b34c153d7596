//! Handle: a problem of the whole server, noted by the owner of a cache because no informer can observe the problem.

use std::sync::Arc;

use steersman_informer::Reason;
use tokio::sync::watch;

/// A problem of the whole server: no informer of the cache can sync at the moment, whatever its kind, for example
/// because no client can be made. Clones share the problem.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServerProblem(Arc<watch::Sender<Option<ExplainedReason>>>);

/// The reason of a problem, for the choice of the remedy, and a text that names the cause.
type ExplainedReason = (Reason, Arc<str>);

impl ServerProblem {
    pub(crate) fn get(&self) -> Option<ExplainedReason> {
        self.0.borrow().clone()
    }

    pub(crate) fn set(&self, problem: Option<(Reason, &str)>) {
        let problem = problem.map(|(reason, text)| (reason, text.into()));
        self.0.send_replace(problem);
    }

    /// Waits until there is a problem. Cancel safe.
    pub(crate) async fn occurs(&self) {
        let mut changes = self.0.subscribe();
        // This handle owns the sender, so the wait cannot fail.
        let _problem = changes.wait_for(Option::is_some).await;
    }
}
