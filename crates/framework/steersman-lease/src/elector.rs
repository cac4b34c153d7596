//! Handle: a candidate of an election, and the view of it that other parts of a program hold.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use steersman_api::{ClientConfig, ProblemLog};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, timeout};

use crate::driver::{ElectionDriver, Published, at};
use crate::error::Error;
use crate::machine::{CandidateStatus, Command};
use crate::metrics::ElectionMetrics;
use crate::options::{ElectionOptions, LeaderElection};
use crate::requests::LeaseRequests;
use crate::status::{Ending, LeaseStatus, LossReason};
use crate::timing::Timing;
use crate::watchdog::{OwnersWork, Watchdog};

/// How long, after the end of the last request of a release, its outcome is waited for.
const RELEASE_MARGIN: Duration = Duration::from_secs(1);
/// The pause between two warnings of one error of requests.
const BETWEEN_WARNINGS: Duration = Duration::from_secs(60);

/// A candidate of an election.
///
/// The owner starts it, works while its [`Leadership`] leads, stops the work at a loss, and calls
/// [`release`](Self::release) when no work runs any more. Dropping it ends the candidacy without a release: the
/// lease expires.
#[must_use = "call `start`, and `release` after the work has ended"]
pub struct Elector {
    options: ElectionOptions,
    client_config: ClientConfig,
    metrics: Option<ElectionMetrics>,
    leadership: Leadership,
    commands: mpsc::UnboundedSender<Command>,
    /// The ends of the channels for the driver, until it starts.
    driver_ends: Option<(watch::Sender<Published>, mpsc::UnboundedReceiver<Command>)>,
    work: OwnersWork,
}

/// A view of an election: whether this replica leads, and the state of the Lease. Cheap to clone; it keeps no
/// election alive.
#[derive(Clone)]
#[must_use]
pub struct Leadership {
    published: watch::Receiver<Published>,
    lease: Arc<str>,
    identity: Arc<str>,
    timing: Timing,
}

impl Elector {
    /// Makes a candidate. No request is sent before [`start`](Self::start).
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

    /// Starts the candidate, on a thread and a runtime of its own, or on the current runtime after
    /// [`LeaderElection::on_callers_runtime`]. A second thread aborts the process if the first one is blocked while
    /// work outlives the lease (LEASE-4), unless [`LeaderElection::abort_on_overrun`] is off.
    ///
    /// # Errors
    ///
    /// [`Error::Thread`] if a thread cannot be started; [`Error::AlreadyStarted`].
    ///
    /// # Panics
    ///
    /// After `on_callers_runtime`, if it is called outside a tokio runtime.
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
        let watched = self.leadership.published.clone();
        let watchdog = Watchdog::new(watched, self.options.clone(), &self.work);
        // The watchdog first: it ends by itself if the elector cannot be started.
        let watching = match self.options.given.aborts {
            true => run_on_a_thread("lease-watchdog", watchdog.run()),
            false => Ok(()),
        };
        let started = watching.and_then(|()| run_on_a_thread("leader-election", driver.run()));
        started.map_err(|source| Error::Thread { lease, source })
    }

    /// Releases the Lease if this candidate holds it, and ends the candidacy. Call it when no work runs any more
    /// (LEASE-8): another replica may lead before this function returns.
    ///
    /// A release that fails is repeated for at most the renew deadline; then the lease expires by itself. The
    /// function returns a second later at the latest, also if the thread of the elector is blocked.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends the candidacy without waiting for the release.
    pub async fn release(self) -> Ending {
        self.end(Command::Release).await
    }

    /// Ends the candidacy of a replica that does no work, without waiting: call [`release`](Self::release) for that
    /// later. If it has just become the leader, the Lease is released.
    pub fn withdraw(&self) {
        self.work.end();
        let _ = self.commands.send(Command::Release);
    }

    /// Ends the candidacy although work may run on: the Lease is neither renewed nor released. If the owner's work
    /// outlives half of the time between the renew deadline and the expiry, the process is aborted (LEASE-4).
    pub fn leave_behind(self) {
        let _ = self.commands.send(Command::LeaveBehind);
        // The process is what ends this election: an abandoned one would not abort it.
        std::mem::forget(self.commands);
        std::mem::forget(self.work);
    }

    async fn end(self, command: Command) -> Ending {
        self.work.end();
        if self.driver_ends.is_some() || self.commands.send(command).is_err() {
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
}

impl Leadership {
    /// Returns whether this replica leads and may work. It is false from the renew deadline on, even if the thread
    /// of the elector is late.
    pub fn is_leader(&self) -> bool {
        leads(&self.published.borrow())
    }

    /// Waits until this replica leads; for ever, if it never does.
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

    /// Waits until this replica has lost the Lease while it led, and returns the reason. If the thread of the elector
    /// is blocked at the renew deadline and reports nothing, the wait ends after a further tenth of the time in which
    /// work must stop (LEASE-4), with [`LossReason::ElectorBlocked`].
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
                // LEASE-1: a little after the renew deadline, at which the elector reports the loss with its reason.
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
                // The thread of a started elector ends with a status that says so, unless it panicked.
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

/// LEASE-1
fn leads(published: &Published) -> bool {
    matches!(published.standing, CandidateStatus::Leader(until) if Instant::now().into_std() < until)
}

impl fmt::Debug for Elector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Elector")
            .field("lease", &self.leadership.lease)
            .field("identity", &self.leadership.identity)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Leadership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leadership")
            .field("lease", &self.lease)
            .field("identity", &self.identity)
            .field("is_leader", &self.is_leader())
            .finish()
    }
}
