//! Driver: the candidacy of a manager in its leader election.

use std::future::pending;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use parking_lot::Mutex;
use steersman_events::EventRecorder;
use steersman_lease::{Elector, Ending, Leadership, LossReason};
use steersman_object::ObjectKey;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;
use tracing::{error, info, warn};

use crate::error::Error;
use crate::shutdown::Shutdown;

/// The time limit of the release after a second request to stop.
const LAST_RELEASE: Duration = Duration::from_secs(1);
/// The name under which Events about the Lease are recorded.
pub(crate) const RECORDER: &str = "leader-election";
/// The reason of Events about the Lease, as in client-go.
const REASON: &str = "LeaderElection";

/// The remaining work of a replica at the end of its stop.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WorkAtEnd {
    /// Whether the runnables of the leader were started.
    pub(crate) has_led: bool,
    pub(crate) tasks: bool,
    pub(crate) writes: bool,
}

/// The candidacy of one manager. Without leader election there is no elector, and the manager leads from the start.
#[derive(Debug, Default)]
pub(crate) struct Campaign {
    elector: Option<Elector>,
    leadership: Option<Leadership>,
    is_started: bool,
}

/// The state of a manager's leader election that its handles share.
pub(crate) struct ManagerElection {
    /// The candidate for the lease; taken when the manager starts.
    elector: Mutex<Option<Elector>>,
    leadership: Option<Leadership>,
    /// Whether the runnables of the leader were started.
    leads: watch::Sender<bool>,
    workers: TaskTracker,
    recorder: EventRecorder,
}

/// Makes the Lease that an Event is about. `kubectl describe` selects Events by the uid.
pub(crate) fn lease_of_event(key: &ObjectKey, uid: Option<String>) -> Lease {
    let mut metadata = key.to_meta();
    metadata.uid = uid;
    Lease {
        metadata,
        ..Lease::default()
    }
}

impl ManagerElection {
    pub(crate) fn new(elector: Option<Elector>, recorder: EventRecorder) -> Self {
        Self {
            recorder,
            leadership: elector.as_ref().map(Elector::leadership),
            elector: Mutex::new(elector),
            leads: watch::Sender::new(false),
            workers: TaskTracker::new(),
        }
    }

    /// Returns the candidacy of this manager. Called once.
    pub(crate) fn campaign(&self) -> Campaign {
        Campaign {
            elector: self.elector.lock().take(),
            leadership: self.leadership.clone(),
            is_started: false,
        }
    }

    /// Returns a handle that shows the state of the election; `None` without leader election.
    pub(crate) fn leadership(&self) -> Option<&Leadership> {
        self.leadership.as_ref()
    }

    /// Records an Event that this replica leads, and tells the receivers of [`started`](Self::started).
    pub(crate) fn leads(&self) {
        self.record("BecomeLeader", "became leader");
        self.leads.send_replace(true);
    }

    /// Records an Event that this replica stopped leading, after the runnables of the leader have ended.
    pub(crate) fn stops_leading(&self) {
        self.record("StopLeading", "stopped leading");
    }

    /// Records an Event about the Lease, with the reason and the note of client-go (`resourcelock`, `RecordEvent`).
    ///
    /// The Event is recorded by the task of the manager, because a hook of the election would start the task that sends
    /// Events on the elector's thread.
    fn record(&self, action: &str, what: &str) {
        let Some(leadership) = &self.leadership else {
            return;
        };
        let status = leadership.status();
        let Ok(key) = status.lease.parse::<ObjectKey>() else {
            return;
        };
        let lease = lease_of_event(&key, status.uid);
        let note = format_args!("{} {what}", status.identity);
        self.recorder.normal(&lease, REASON, action, note);
    }

    /// Returns a receiver that tells whether the runnables of the leader were started.
    pub(crate) fn started(&self) -> watch::Receiver<bool> {
        self.leads.subscribe()
    }

    pub(crate) fn workers(&self) -> TaskTracker {
        self.workers.clone()
    }
}

impl Campaign {
    /// Begins to request the lease.
    pub(crate) fn start(&mut self) -> Result<(), Error> {
        if let Some(elector) = &mut self.elector {
            elector.start().map_err(Error::LeaderElection)?;
            self.is_started = true;
            info!(
                lease = elector.leadership().status().lease,
                identity = elector.leadership().identity(),
                "this replica is a candidate: what only the leader runs starts when it holds the lease"
            );
        }
        Ok(())
    }

    /// Waits until this replica leads. Cancel safe.
    pub(crate) async fn elected(&self) {
        if let Some(leadership) = &self.leadership {
            leadership.elected().await;
        }
    }

    /// Waits until this replica has lost the lease. Cancel safe.
    pub(crate) async fn lost(&self) -> LossReason {
        match &self.leadership {
            Some(leadership) if self.is_started => leadership.lost().await,
            _ => pending().await,
        }
    }

    /// LEASE-7: ends the candidacy of a standby at the beginning of its stop, without waiting.
    pub(crate) fn withdraw(&self) {
        if let Some(elector) = self.elector.as_ref().filter(|_| self.is_started) {
            elector.withdraw();
        }
    }

    pub(crate) fn is_candidate(&self) -> bool {
        self.elector.is_some() && self.is_started
    }

    /// LEASE-8: releases the lease after every runnable has stopped, unless work of a leader remains. A further request
    /// to stop ends the wait for the release.
    pub(crate) async fn end(self, work: WorkAtEnd, is_urgent: bool, shutdown: &mut Shutdown) {
        let Some(elector) = self.elector.filter(|_| self.is_started) else {
            return;
        };
        let lease = elector.leadership().status().lease;
        if work.has_led && (work.tasks || work.writes) {
            error!(
                lease,
                tasks = work.tasks,
                writes = work.writes,
                "the lease is not released, because tasks were left behind or writes are in flight"
            );
            elector.leave_behind();
            return;
        }
        let limit = if is_urgent {
            LAST_RELEASE
        } else {
            Duration::MAX
        };
        let ending = tokio::select! {
            biased;
            ending = timeout(limit, elector.release()) => ending.unwrap_or(Ending::Kept),
            () = shutdown.requested_again() => Ending::Kept,
        };
        match ending {
            Ending::Released => info!(lease, "the lease was released last of all"),
            Ending::Kept => warn!(
                lease,
                "the lease was not released: another replica takes it over when it has expired"
            ),
            _ => {}
        }
    }
}
