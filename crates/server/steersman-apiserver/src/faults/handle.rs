//! Handle: `Faults`, which injects faults into requests, and ends or silences open watches.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use steersman_apimachinery::status::Status;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::outage::{History, Outage, Restart, RestartPhase};
use super::plan::{Condition, Decision, FaultPlan, PlannedFault, failure};
use super::record::{RequestRecord, Verb};
use super::spec::{Effect, FaultSpec, LONGEST_MILLIS};
use super::watches::{OpenWatches, WatchMode};

/// Injects faults: makes requests fail, and ends or silences open watches. Cheap to clone.
///
/// Its methods take resources as in [`RequestRecord::is_for`]: `pods`, `pods/status`, `deployments.apps`, `*` for all.
#[derive(Debug, Clone)]
pub struct Faults {
    shared: Arc<SharedFaults>,
    pub(crate) watches: OpenWatches,
}

#[derive(Debug)]
struct SharedFaults {
    plan: Mutex<FaultPlan>,
    outage: Mutex<Option<Outage>>,
    /// The instant from which the times of faults and of simulated restarts are measured.
    began: Instant,
    /// Wakes the requests that a fault leaves unanswered, when a fault is removed.
    lifted: Notify,
}

/// A failure with which the server answers requests, how many requests get it, and after how long they may be repeated.
#[derive(Debug, Clone)]
pub struct Answer {
    status: Status,
    times: Option<u32>,
    commit: bool,
}

/// A planned fault. Dropping the guard removes the fault from the plan.
#[derive(Debug)]
#[must_use = "dropping the guard removes the fault"]
pub struct FaultGuard {
    shared: Arc<SharedFaults>,
    id: u64,
    kept: bool,
    /// The open watches, if dropping the guard also lets silenced watches deliver again; otherwise `None`.
    resumes: Option<OpenWatches>,
}

impl Answer {
    /// Creates a failure with this HTTP status code, and with the `reason` that Kubernetes uses for the code.
    pub fn code(code: u16) -> Self {
        Self::status(failure(code))
    }

    /// Creates an answer with this Status, which should be a failure.
    #[must_use]
    pub fn status(status: Status) -> Self {
        Self {
            status,
            times: None,
            commit: false,
        }
    }

    /// Sets the `message` of the Status that the client gets.
    #[must_use]
    pub fn message(mut self, message: &str) -> Self {
        message.clone_into(&mut self.status.message);
        self
    }

    /// Limits the answer to the next `times` requests that match. Default: no limit, until the guard is dropped.
    #[must_use]
    pub fn times(mut self, times: u32) -> Self {
        self.times = Some(times);
        self
    }

    /// Lets the server carry out the request and replaces only its answer, as if the real answer got lost.
    #[must_use]
    pub fn after_commit(mut self) -> Self {
        self.commit = true;
        self
    }

    /// Asks for a retry after this many seconds, in the Status and in a `Retry-After` header.
    #[must_use]
    pub fn retry_after(mut self, seconds: u32) -> Self {
        self.status = self.status.with_retry_after(seconds);
        self
    }
}

/// Converts an answer into an effect: code, message, `Retry-After`, and whether the request is carried out. Use the
/// effect in a [`FaultSpec`] for conditions that [`Faults::answer`] does not have, such as a user. The number of times
/// is not part of an effect: set [`FaultSpec::times`], or convert the answer into a [`FaultSpec`].
impl From<Answer> for Effect {
    fn from(answer: Answer) -> Self {
        let details = answer.status.details.as_deref();
        Self::Answer {
            code: answer.status.code,
            retry_after_seconds: details.map_or(0, |details| details.retry_after_seconds),
            message: Some(answer.status.message),
            commit: answer.commit,
        }
    }
}

/// Converts an answer into a fault that gives the answer to every request, up to the answer's number of times.
impl From<Answer> for FaultSpec {
    fn from(answer: Answer) -> Self {
        let times = answer.times;
        let mut spec = Self::new(answer.into());
        spec.times = times.map(u64::from);
        spec
    }
}

impl Faults {
    /// Answers requests with this verb (with any verb if it is `None`) for this resource with a failure instead of
    /// carrying them out. Faults that were planned earlier take precedence.
    pub fn answer(
        &self,
        verb: impl Into<Option<Verb>>,
        resource: &str,
        answer: Answer,
    ) -> FaultGuard {
        self.answer_matching(fits(verb.into(), resource), answer)
    }

    /// Answers requests for which `condition` returns true with a failure instead of carrying them out. The condition
    /// runs under a lock and must not call the server.
    pub fn answer_matching(
        &self,
        condition: impl Fn(&RequestRecord) -> bool + Send + Sync + 'static,
        answer: Answer,
    ) -> FaultGuard {
        let spec = FaultSpec::from(answer.clone());
        let status = Some(Box::new(answer.status));
        self.plan(spec, Some(Box::new(condition)), status)
    }

    /// Plans a fault, which affects requests until the guard is dropped.
    ///
    /// # Errors
    /// 400 for a contradictory or invalid fault.
    pub fn add(&self, spec: FaultSpec) -> Result<FaultGuard, Status> {
        match spec.problem() {
            Some(problem) => Err(Status::bad_request(problem)),
            None => Ok(self.plan(spec, None, None)),
        }
    }

    /// Makes the server look unreachable until the guard is dropped: no request is answered, and every open watch is
    /// silent. Afterwards the waiting requests are carried out and the watches deliver the events they missed.
    pub fn swallow_everything(&self) -> FaultGuard {
        self.silence_watches();
        let mut guard = self.plan(FaultSpec::new(Effect::Swallow), None, None);
        guard.resumes = Some(self.watches.clone());
        guard
    }

    /// Returns every planned fault, the oldest first.
    pub fn planned(&self) -> Vec<PlannedFault> {
        self.shared.plan.lock().all()
    }

    /// Removes a fault by its number, even if its guard still exists. Returns whether the fault was planned.
    pub fn remove(&self, id: u64) -> bool {
        let was = self.shared.plan.lock().remove(id);
        self.shared.lifted.notify_waiters();
        was
    }

    /// Removes every fault, even those with guards that still exist. Returns the number of removed faults.
    pub fn clear(&self) -> usize {
        let many = self.shared.plan.lock().clear();
        self.shared.lifted.notify_waiters();
        many
    }

    /// Delays requests with this verb (with any verb if it is `None`) for this resource before they are carried out. A
    /// delay of more than a year counts as a year.
    pub fn delay(
        &self,
        verb: impl Into<Option<Verb>>,
        resource: &str,
        delay: Duration,
    ) -> FaultGuard {
        let millis = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
        let millis = millis.min(LONGEST_MILLIS);
        let effect = Effect::Delay {
            millis,
            jitter_millis: 0,
        };
        let mut spec = FaultSpec::new(effect).resource(resource);
        spec.verb = verb.into();
        self.plan(spec, None, None)
    }

    /// Lets watches of a resource that begin later open, but receive no events, until the guard is dropped.
    pub fn silence_new_watches(&self, resource: &str) -> FaultGuard {
        let spec = FaultSpec::new(Effect::Silence);
        self.plan(spec.verb(Verb::Watch).resource(resource), None, None)
    }

    /// Ends every open watch as if the server had closed it. Returns the number of these watches.
    pub fn cut_watches(&self) -> usize {
        self.watches.switch(WatchMode::Cut, |_| true)
    }

    /// Ends the open watches of a resource as if the server had closed them. Returns the number of these watches.
    pub fn cut_watches_of(&self, resource: &str) -> usize {
        self.switch(WatchMode::Cut, resource)
    }

    /// Ends every open watch with an error in the middle of its stream. Returns the number of these watches.
    pub fn break_watches(&self) -> usize {
        self.watches.switch(WatchMode::Broken, |_| true)
    }

    /// Ends every open watch with an `ERROR` event of 410, as after a compaction. Returns the number of these watches.
    pub fn expire_watches(&self) -> usize {
        self.watches.switch(WatchMode::Expired, |_| true)
    }

    pub(crate) fn switch(&self, mode: WatchMode, resource: &str) -> usize {
        self.watches.switch(mode, |record| record.is_for(resource))
    }

    /// Silences every open watch: the connection stays open, but neither events nor bookmarks nor the end of the watch
    /// arrive. Watches opened later are not affected. Returns the number of these watches.
    pub fn silence_watches(&self) -> usize {
        self.watches.switch(WatchMode::Silent, |_| true)
    }

    /// Silences the open watches of a resource: their connections stay open, but neither events nor bookmarks nor the
    /// end of a watch arrive. Returns the number of these watches.
    pub fn silence_watches_of(&self, resource: &str) -> usize {
        self.switch(WatchMode::Silent, resource)
    }

    /// Lets silenced watches deliver again, with the events they missed first. Returns the number of all open watches.
    pub fn resume_watches(&self) -> usize {
        self.watches.switch(WatchMode::Live, |_| true)
    }

    /// Returns the number of open watches of a resource.
    pub fn open_watches(&self, resource: &str) -> usize {
        self.watches.count(|record| record.is_for(resource))
    }

    pub(crate) fn new(seed: u64) -> Self {
        Self {
            shared: Arc::new(SharedFaults {
                plan: Mutex::new(FaultPlan::new(seed)),
                outage: Mutex::default(),
                began: Instant::now(),
                lifted: Notify::new(),
            }),
            watches: OpenWatches::default(),
        }
    }

    pub(crate) fn begin_outage(&self, restart: Restart) {
        let outage = Outage::new(restart, self.shared.began.elapsed());
        *self.shared.outage.lock() = Some(outage);
    }

    /// Returns the phase of a simulated restart and the time until the phase ends; `None` without a restart.
    pub(crate) fn outage(&self) -> Option<(RestartPhase, Duration)> {
        let now = self.shared.began.elapsed();
        self.shared.outage.lock().as_ref()?.phase(now)
    }

    /// Returns how long a simulated restart will still refuse connections; `None` if connections are accepted.
    pub(crate) fn away_for(&self) -> Option<Duration> {
        self.outage()
            .and_then(|(phase, left)| (phase == RestartPhase::Away).then_some(left))
    }

    /// Forgets a simulated restart that is over. Returns whether it lost the history, which the caller then compacts.
    pub(crate) fn end_outage(&self) -> bool {
        let now = self.shared.began.elapsed();
        let mut outage = self.shared.outage.lock();
        let over = outage.take_if(|outage| outage.phase(now).is_none());
        over.is_some_and(|outage| outage.restart.history == History::Lost)
    }

    pub(crate) fn decide(&self, record: &RequestRecord) -> Decision {
        let now = self.shared.began.elapsed();
        self.shared.plan.lock().decide(record, now)
    }

    pub(crate) async fn lifted(&self, id: u64) {
        loop {
            let lifted = self.shared.lifted.notified();
            tokio::pin!(lifted);
            // FAULT-2: registers before it checks the plan, so that the request misses no removal of its fault.
            lifted.as_mut().enable();
            if !self.shared.plan.lock().has(id) {
                return;
            }
            lifted.await;
        }
    }

    fn plan(
        &self,
        spec: FaultSpec,
        condition: Option<Condition>,
        status: Option<Box<Status>>,
    ) -> FaultGuard {
        let now = self.shared.began.elapsed();
        let id = self.shared.plan.lock().add(spec, condition, status, now);
        FaultGuard {
            shared: Arc::clone(&self.shared),
            id,
            kept: false,
            resumes: None,
        }
    }
}

impl FaultGuard {
    /// Returns the number of requests that the fault affected.
    pub fn hits(&self) -> u64 {
        self.shared.plan.lock().hits(self.id)
    }

    /// Returns the fault's number, as in [`Faults::planned`].
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Keeps the fault planned although the guard is dropped, until [`Faults::remove`] or [`Faults::clear`] removes it.
    pub fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for FaultGuard {
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        self.shared.plan.lock().remove(self.id);
        self.shared.lifted.notify_waiters();
        if let Some(watches) = &self.resumes {
            watches.switch(WatchMode::Live, |_| true);
        }
    }
}

fn fits(verb: Option<Verb>, resource: &str) -> impl Fn(&RequestRecord) -> bool + use<> {
    let resource = resource.to_owned();
    move |record| verb.is_none_or(|verb| record.does(verb)) && record.is_for(&resource)
}
