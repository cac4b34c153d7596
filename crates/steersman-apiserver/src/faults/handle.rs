//! Handle: failures on demand.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use steersman_text::status::Status;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::outage::{Outage, Phase, Restart};
use super::plan::{Condition, Decision, Plan, PlannedFault, failure};
use super::record::{RequestRecord, Verb};
use super::spec::{Effect, FaultSpec, LONGEST_MILLIS};
use super::watches::{OpenWatches, WatchMode, WatchTap};

/// Makes requests fail, and open watches end or fall silent. Cheap to clone.
///
/// Resources are written as in [`RequestRecord::is_for`].
#[derive(Debug, Clone)]
pub struct Faults {
    shared: Arc<Shared>,
    watches: OpenWatches,
}

#[derive(Debug)]
struct Shared {
    plan: Mutex<Plan>,
    /// The restart that goes on.
    outage: Mutex<Option<Outage>>,
    /// When the plan's clock began.
    began: Instant,
    /// Tells requests that are swallowed that a fault was taken out.
    lifted: Notify,
}

/// What a fault answers, how often, and when to come back.
#[derive(Debug, Clone)]
pub struct Answer {
    status: Status,
    times: Option<u32>,
    commit: bool,
}

/// A planned fault. Dropping it takes the fault out of the plan.
#[must_use = "dropping the guard takes the fault out again"]
pub struct FaultGuard {
    shared: Arc<Shared>,
    id: u64,
    kept: bool,
    /// The watches that deliver again when it goes.
    resumes: Option<OpenWatches>,
}

impl Answer {
    /// A failure with this HTTP status code and the reason that Kubernetes gives it.
    pub fn code(code: u16) -> Self {
        Self::status(failure(code))
    }

    /// This Status.
    #[must_use]
    pub fn status(status: Status) -> Self {
        Self {
            status,
            times: None,
            commit: false,
        }
    }

    /// This text as its message.
    #[must_use]
    pub fn message(mut self, message: &str) -> Self {
        message.clone_into(&mut self.status.message);
        self
    }

    /// Only for the next `times` requests that fit; without it, until the guard is dropped.
    #[must_use]
    pub fn times(mut self, times: u32) -> Self {
        self.times = Some(times);
        self
    }

    /// Only in place of the answer: what was asked is done all the same, as when an answer gets lost.
    #[must_use]
    pub fn after_commit(mut self) -> Self {
        self.commit = true;
        self
    }

    /// Asks for a retry after so many seconds, in the Status and in a `Retry-After` header.
    #[must_use]
    pub fn retry_after(mut self, seconds: u32) -> Self {
        self.status = self.status.with_retry_after(seconds);
        self
    }
}

/// The effect of a fault with other conditions than [`Faults::answer`] has: its code, message,
/// `Retry-After` and whether the request is done all the same. How often it happens is no part of an
/// effect: that is [`FaultSpec::times`], or the conversion into a [`FaultSpec`].
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

/// The answer to every request, as often as it says.
impl From<Answer> for FaultSpec {
    fn from(answer: Answer) -> Self {
        let times = answer.times;
        let mut spec = Self::new(answer.into());
        spec.times = times.map(u64::from);
        spec
    }
}

impl Faults {
    /// Answers requests of this verb (any, with `None`) for this resource with a failure instead of
    /// doing them. Faults planned earlier win.
    pub fn answer(
        &self,
        verb: impl Into<Option<Verb>>,
        resource: &str,
        answer: Answer,
    ) -> FaultGuard {
        self.answer_matching(fits(verb.into(), resource), answer)
    }

    /// Like [`Faults::answer`] for requests that fit a condition. The condition runs under a lock
    /// and must not call the server.
    pub fn answer_matching(
        &self,
        condition: impl Fn(&RequestRecord) -> bool + Send + Sync + 'static,
        answer: Answer,
    ) -> FaultGuard {
        let Answer {
            status,
            times,
            commit,
        } = answer;
        let mut spec = FaultSpec::new(Effect::Answer {
            code: status.code,
            message: Some(status.message.clone()),
            retry_after_seconds: 0,
            commit,
        });
        spec.times = times.map(u64::from);
        self.plan(spec, Some(Box::new(condition)), Some(Box::new(status)))
    }

    /// Adds a fault of any sort.
    ///
    /// # Errors
    /// 400 for one that makes no sense.
    pub fn add(&self, spec: FaultSpec) -> Result<FaultGuard, Status> {
        match spec.problem() {
            Some(problem) => Err(Status::bad_request(problem)),
            None => Ok(self.plan(spec, None, None)),
        }
    }

    /// Lets a link swallow everything: no request is answered, and every open watch is silent, until
    /// the guard is dropped. Then requests are done and watches tell what they missed.
    pub fn swallow_everything(&self) -> FaultGuard {
        self.silence_watches();
        let mut guard = self.plan(FaultSpec::new(Effect::Swallow), None, None);
        guard.resumes = Some(self.watches.clone());
        guard
    }

    /// Every fault that is planned, the oldest first.
    #[must_use]
    pub fn planned(&self) -> Vec<PlannedFault> {
        self.shared.plan.lock().all()
    }

    /// Takes a fault out by its number; answers whether it was there.
    pub fn remove(&self, id: u64) -> bool {
        let was = self.shared.plan.lock().remove(id);
        self.shared.lifted.notify_waiters();
        was
    }

    /// Takes every fault out, also those whose guards live. Returns how many there were.
    pub fn clear(&self) -> usize {
        let many = self.shared.plan.lock().clear();
        self.shared.lifted.notify_waiters();
        many
    }

    /// Lets requests of this verb (any, with `None`) for this resource wait before they are done,
    /// for a year at most.
    pub fn delay(
        &self,
        verb: impl Into<Option<Verb>>,
        resource: &str,
        delay: Duration,
    ) -> FaultGuard {
        let millis = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
        let millis = millis.min(LONGEST_MILLIS);
        let mut spec = FaultSpec::new(Effect::Delay {
            millis,
            jitter_millis: 0,
        });
        (spec.verb, spec.resource) = (verb.into(), Some(resource.to_owned()));
        self.plan(spec, None, None)
    }

    /// Lets new watches of a resource open and say nothing.
    pub fn silence_new_watches(&self, resource: &str) -> FaultGuard {
        let spec = FaultSpec::new(Effect::Silence);
        self.plan(spec.verb(Verb::Watch).resource(resource), None, None)
    }

    /// Ends every open watch as if the server had closed it. Returns how many there were.
    pub fn cut_watches(&self) -> usize {
        self.watches.switch(WatchMode::Cut, |_| true)
    }

    /// Ends the open watches of a resource. Returns how many there were.
    pub fn cut_watches_of(&self, resource: &str) -> usize {
        self.watches
            .switch(WatchMode::Cut, |record| record.is_for(resource))
    }

    /// Ends every open watch with an error in the middle of its stream. Returns how many there
    /// were.
    pub fn break_watches(&self) -> usize {
        self.watches.switch(WatchMode::Broken, |_| true)
    }

    /// Ends every open watch with an `ERROR` event of 410, as when it falls behind. Returns how many
    /// there were.
    pub fn expire_watches(&self) -> usize {
        self.watches.switch(WatchMode::Expired, |_| true)
    }

    /// Does one of these to the open watches of a resource.
    pub(crate) fn switch(&self, mode: WatchMode, resource: &str) -> usize {
        self.watches.switch(mode, |record| record.is_for(resource))
    }

    /// Lets every open watch fall silent: the connection stays open, and neither events nor
    /// bookmarks nor its end ever come. Watches opened later are not touched. Returns how many
    /// there were.
    pub fn silence_watches(&self) -> usize {
        self.watches.switch(WatchMode::Silent, |_| true)
    }

    /// Lets the open watches of a resource fall silent. Returns how many there were.
    pub fn silence_watches_of(&self, resource: &str) -> usize {
        self.watches
            .switch(WatchMode::Silent, |record| record.is_for(resource))
    }

    /// Lets watches that fell silent deliver again, beginning with what they missed.
    pub fn resume_watches(&self) -> usize {
        self.watches.switch(WatchMode::Live, |_| true)
    }

    /// How many watches of a resource are open.
    #[must_use]
    pub fn open_watches(&self, resource: &str) -> usize {
        self.watches.count(|record| record.is_for(resource))
    }

    pub(crate) fn new(seed: u64) -> Self {
        let shared = Shared {
            plan: Mutex::new(Plan::new(seed)),
            outage: Mutex::default(),
            began: Instant::now(),
            lifted: Notify::new(),
        };
        Self {
            shared: Arc::new(shared),
            watches: OpenWatches::default(),
        }
    }

    /// Begins a restart that takes time.
    pub(crate) fn begin_outage(&self, restart: Restart) {
        let outage = Outage::new(restart, self.shared.began.elapsed());
        *self.shared.outage.lock() = Some(outage);
    }

    /// The phase of the restart that goes on, and how much is left of it.
    pub(crate) fn outage(&self) -> Option<(Phase, Duration)> {
        let now = self.shared.began.elapsed();
        self.shared.outage.lock().as_ref()?.phase(now)
    }

    /// How long the server still refuses connections, where it does.
    pub(crate) fn away_for(&self) -> Option<Duration> {
        self.outage()
            .and_then(|(phase, left)| (phase == Phase::Away).then_some(left))
    }

    /// Ends a restart whose phases are over. Returns whether the past is to be forgotten now.
    pub(crate) fn end_outage(&self) -> bool {
        let now = self.shared.began.elapsed();
        let mut outage = self.shared.outage.lock();
        let over = outage.take_if(|outage| outage.phase(now).is_none());
        over.is_some_and(|outage| outage.forgets())
    }

    pub(crate) fn decide(&self, record: &RequestRecord) -> Decision {
        let now = self.shared.began.elapsed();
        self.shared.plan.lock().decide(record, now)
    }

    /// Waits until a fault is taken out.
    pub(crate) async fn lifted(&self, id: u64) {
        loop {
            let lifted = self.shared.lifted.notified();
            tokio::pin!(lifted);
            // FAULT-2: it listens before it looks, so it is not left waiting.
            lifted.as_mut().enable();
            if !self.shared.plan.lock().has(id) {
                return;
            }
            lifted.await;
        }
    }

    pub(crate) fn open(
        &self,
        record: &RequestRecord,
        mode: WatchMode,
        stop: CancellationToken,
    ) -> WatchTap {
        self.watches.open(record, mode, stop)
    }

    /// Ends the watches whose listener has stopped.
    pub(crate) fn end_stopped(&self) {
        self.watches.end_stopped();
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
    /// How many requests met the fault.
    #[must_use]
    pub fn hits(&self) -> u64 {
        self.shared.plan.lock().hits(self.id)
    }

    /// The fault's number, as in [`Faults::planned`].
    #[must_use]
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Keeps the fault for as long as the server lives.
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

impl fmt::Debug for FaultGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultGuard")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

fn fits(verb: Option<Verb>, resource: &str) -> impl Fn(&RequestRecord) -> bool + use<> {
    let resource = resource.to_owned();
    move |record| verb.is_none_or(|verb| record.does(verb)) && record.is_for(&resource)
}
