//! Handle: a candidate of an election, and a view of its state for other parts of a program.

use std::sync::Arc;
use std::time::Duration;

use steersman_api::clock::at;
use steersman_api::{ClientConfig, ProblemLog};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, timeout};

use crate::driver::ElectionDriver;
use crate::error::Error;
use crate::machine::{CandidateStatus, Command, Published};
use crate::metrics::ElectionMetrics;
use crate::options::{ElectionOptions, LeaderElection};
use crate::requests::LeaseRequests;
use crate::status::{Ending, LeaseStatus, LossReason};
use crate::timing::Timing;
use crate::watchdog::{OwnersWork, Watchdog};

/// How long to wait for the result of a release after the deadline of its last request.
const RELEASE_MARGIN: Duration = Duration::from_secs(1);
/// The pause between two warnings about the same error.
const BETWEEN_WARNINGS: Duration = Duration::from_secs(60);

/// A candidate of an election.
///
/// The owner starts it, works while its [`Leadership`] leads, stops the work at a loss, and calls
/// [`release`](Self::release) when no work runs any more. Dropping it ends the candidacy without a release: the
/// lease expires.
#[derive(derive_more::Debug)]
#[debug("Elector {{ lease: {:?}, identity: {:?}, .. }}", leadership.lease, leadership.identity)]
#[must_use = "call `start`, and `release` after the work has ended"]
pub struct Elector {
    options: ElectionOptions,
    client_config: ClientConfig,
    metrics: Option<ElectionMetrics>,
    leadership: Leadership,
    commands: mpsc::UnboundedSender<Command>,
    /// The driver's ends of the channels, until the driver starts.
    driver_ends: Option<(watch::Sender<Published>, mpsc::UnboundedReceiver<Command>)>,
    work: OwnersWork,
}

/// A view of an election: whether this replica leads, and the Lease. Cheap to clone; it keeps no election alive.
#[derive(Clone, derive_more::Debug)]
#[debug(
    "Leadership {{ lease: {lease:?}, identity: {identity:?}, is_leader: {} }}",
    self.is_leader()
)]
#[must_use]
pub struct Leadership {
    published: watch::Receiver<Published>,
    lease: Arc<str>,
    identity: Arc<str>,
    timing: Timing,
}

impl Elector {
    /// Makes a candidate. It sends no request before [`start`](Self::start).
    ///
    /// # Errors
    ///
    /// [`Error::Timing`], [`Error::Name`] or [`Error::NoNamespace`] if the options cannot work.
    pub fn new(options: LeaderElection, client_config: &ClientConfig) -> Result<Self, Error> {
        let options = options.validate(client_config.namespace())?;
        let (publish, published) = watch::channel(Published::default());
        let (commands, received) = mpsc::unbounded_channel();
        let leadership = Leadership {
            published,
            lease: options.key.to_string().into(),
            identity: options.identity.as_str().into(),
            timing: options.given.timing,
        };
        Ok(Self {
            options,
            client_config: client_config.clone(),
            metrics: None,
            leadership,
            commands,
            driver_ends: Some((publish, received)),
            work: OwnersWork::default(),
        })
    }

    /// Sets the metrics. Default: none.
    pub fn metrics(mut self, metrics: ElectionMetrics) -> Self {
        metrics.set(self.options.key.name(), false, 0);
        self.metrics = Some(metrics);
        self
    }

    /// Returns the view of the election.
    pub fn leadership(&self) -> Leadership {
        self.leadership.clone()
    }

    /// Starts the candidate, on its own thread and runtime, or on the current runtime after
    /// [`LeaderElection::on_callers_runtime`]. A second thread aborts the process if the first is blocked while work
    /// outlives the lease (LEASE-4), unless [`LeaderElection::abort_on_overrun`] is off.
    ///
    /// # Errors
    ///
    /// [`Error::Thread`] if a thread cannot be started; [`Error::AlreadyStarted`].
    ///
    /// # Panics
    ///
    /// If it is called outside a tokio runtime after `on_callers_runtime`.
    pub fn start(&mut self) -> Result<(), Error> {
        let lease = self.options.key.to_string();
        let Some((published, commands)) = self.driver_ends.take() else {
            return Err(Error::AlreadyStarted { lease });
        };
        let timing = self.options.given.timing;
        let driver = ElectionDriver {
            requests: LeaseRequests::new(&self.client_config, self.options.key.clone(), timing),
            options: self.options.clone(),
            metrics: self.metrics.clone(),
            published,
            commands,
            failures: ProblemLog::repeating_after(BETWEEN_WARNINGS),
        };
        if self.options.given.on_callers_runtime {
            tokio::spawn(driver.run());
            return Ok(());
        }
        let watchdog = Watchdog {
            published: self.leadership.published.clone(),
            options: self.options.clone(),
            work_ended: Arc::clone(&self.work.ended),
        };
        // The watchdog starts first, and ends itself if the elector cannot be started.
        let watching = match self.options.given.aborts {
            true => run_on_a_thread("lease-watchdog", watchdog.run()),
            false => Ok(()),
        };
        let started = watching.and_then(|()| run_on_a_thread("leader-election", driver.run()));
        started.map_err(|source| Error::Thread { lease, source })
    }

    /// Releases the Lease if this candidate holds it, and ends the candidacy. Call it when no work runs (LEASE-8):
    /// another replica may lead before it returns.
    ///
    /// A failed release is retried until the renew deadline; then the lease expires. The function returns at most one
    /// second later, even if the thread of the elector is blocked.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends the candidacy without waiting for the release.
    pub async fn release(self) -> Ending {
        self.work.end();
        if self.driver_ends.is_some() || self.commands.send(Command::Release).is_err() {
            return Ending::NotHeld;
        }
        let mut published = self.leadership.published.clone();
        let limit = self.leadership.timing.renew_deadline + RELEASE_MARGIN;
        let ended =
            published.wait_for(|published| matches!(published.standing, CandidateStatus::Ended(_)));
        let ended = timeout(limit, ended).await;
        match ended.map(|ended| ended.map(|published| published.standing.clone())) {
            Ok(Ok(CandidateStatus::Ended(ending))) => ending,
            _ => Ending::Kept,
        }
    }

    /// Ends the candidacy of a replica that does no work, without waiting: [`release`](Self::release) waits for the
    /// end. If the replica has just become the leader, it releases the Lease.
    pub fn withdraw(&self) {
        self.work.end();
        let _ = self.commands.send(Command::Release);
    }

    /// Ends the candidacy while work may still run: the Lease is neither renewed nor released. If the work outlives
    /// half of the time between the renew deadline and the expiry, the process is aborted (LEASE-4).
    pub fn leave_behind(self) {
        let _ = self.commands.send(Command::LeaveBehind);
        // The channel must stay open: the driver takes a closed one for an abandoned election and would not abort.
        std::mem::forget(self.commands);
        std::mem::forget(self.work);
    }
}

impl Leadership {
    /// Returns whether this replica leads and may work; `false` from the renew deadline on, even if the elector lags.
    pub fn is_leader(&self) -> bool {
        leads(&self.published.borrow())
    }

    /// Waits until this replica leads, which may never happen.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn elected(&self) {
        let mut published = self.published.clone();
        if published.wait_for(leads).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Waits until this replica has lost the Lease as the leader, and returns the reason. If the thread of the elector
    /// is blocked at the renew deadline, the wait ends with [`LossReason::ElectorBlocked`] after a tenth of the time in
    /// which work must stop (LEASE-4).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn lost(&self) -> LossReason {
        let mut published = self.published.clone();
        loop {
            let standing = published.borrow_and_update().standing.clone();
            let blocked_at = match standing {
                CandidateStatus::Lost(Some(reason)) => return reason,
                // LEASE-1: the margin lets the elector report the loss with its reason at the renew deadline.
                CandidateStatus::Leader(until) => Some(until + self.timing.stop_limit() / 10),
                _ => None,
            };
            let changed = tokio::select! {
                biased;
                changed = published.changed() => changed,
                () = at(blocked_at) => {
                    let deadline = self.timing.renew_deadline;
                    return LossReason::ElectorBlocked { deadline };
                }
            };
            if changed.is_err() {
                // The thread of a started elector publishes its end, unless it has panicked.
                let standing = published.borrow().standing.clone();
                if matches!(
                    standing,
                    CandidateStatus::Standby | CandidateStatus::Leader(_)
                ) {
                    return LossReason::ElectorEnded;
                }
                std::future::pending::<()>().await;
            }
        }
    }

    /// Returns the identity of this replica.
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// Returns the state of the election. Sends no request.
    pub fn status(&self) -> LeaseStatus {
        let published = self.published.borrow().clone();
        let now = Instant::now().into_std();
        let record = published.record.as_ref();
        LeaseStatus {
            lease: self.lease.to_string(),
            uid: published.uid.clone(),
            identity: self.identity.to_string(),
            is_leader: leads(&published),
            holder: record
                .map(|record| record.holder.clone())
                .filter(|holder| !holder.is_empty()),
            since: record.and_then(|record| record.acquired),
            last_renewal: record.and_then(|record| record.renewed),
            transitions: record.map_or(0, |record| record.transitions),
            age: published
                .changed
                .map(|changed| now.saturating_duration_since(changed)),
            lease_duration: self.timing.lease_duration,
            last_error: published.last_error.clone(),
            is_running: published.is_started
                && !matches!(published.standing, CandidateStatus::Ended(_)),
        }
    }
}

fn run_on_a_thread(
    name: &str,
    run: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let thread = std::thread::Builder::new().name(name.to_owned());
    thread.spawn(move || runtime.block_on(run))?;
    Ok(())
}

/// LEASE-1: a leader stops leading before its lease can expire for another candidate.
fn leads(published: &Published) -> bool {
    matches!(published.standing, CandidateStatus::Leader(until) if Instant::now().into_std() < until)
}
