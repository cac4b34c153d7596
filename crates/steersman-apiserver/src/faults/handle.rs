//! Handle: failures on demand.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::plan::{Decision, Fault, Plan};
use super::record::{RequestRecord, Verb};
use super::watches::{OpenWatches, WatchMode, WatchTap};
use crate::status::Status;

/// Makes requests fail, and open watches end or fall silent. Cheap to clone.
///
/// Resources are written as in [`RequestRecord::is_for`].
#[derive(Debug, Clone, Default)]
pub struct Faults {
    plan: Arc<Mutex<Plan>>,
    watches: OpenWatches,
}

/// What a fault answers, how often, and when to come back.
#[derive(Debug, Clone)]
pub struct Answer {
    status: Status,
    times: Option<u32>,
}

/// A planned fault. Dropping it takes the fault out of the plan.
#[must_use = "dropping the guard takes the fault out again"]
pub struct FaultGuard {
    plan: Arc<Mutex<Plan>>,
    id: u64,
    kept: bool,
}

impl Answer {
    /// A failure with this HTTP status code and the reason that Kubernetes gives it.
    pub fn code(code: u16) -> Self {
        let reason = match code {
            400 => "BadRequest",
            401 => "Unauthorized",
            403 => "Forbidden",
            404 => "NotFound",
            405 => "MethodNotAllowed",
            409 => "Conflict",
            410 => "Expired",
            413 => "RequestEntityTooLarge",
            422 => "Invalid",
            429 => "TooManyRequests",
            500 => "InternalError",
            503 => "ServiceUnavailable",
            504 => "Timeout",
            _ => "",
        };
        Self::status(Status::failure(
            code,
            reason,
            format!("a fault answers {code}"),
        ))
    }

    /// This Status.
    #[must_use]
    pub fn status(status: Status) -> Self {
        Self {
            status,
            times: None,
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

    /// Asks for a retry after so many seconds, in the Status and in a `Retry-After` header.
    #[must_use]
    pub fn retry_after(mut self, seconds: u32) -> Self {
        self.status = self.status.with_retry_after(seconds);
        self
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
        self.plan(
            condition,
            Fault::Answer(Box::new(answer.status)),
            answer.times,
        )
    }

    /// Lets requests of this verb (any, with `None`) for this resource wait before they are done.
    pub fn delay(
        &self,
        verb: impl Into<Option<Verb>>,
        resource: &str,
        delay: Duration,
    ) -> FaultGuard {
        self.plan(fits(verb.into(), resource), Fault::Delay(delay), None)
    }

    /// Lets new watches of a resource open and say nothing.
    pub fn silence_new_watches(&self, resource: &str) -> FaultGuard {
        self.plan(fits(Some(Verb::Watch), resource), Fault::Silence, None)
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

    pub(crate) fn decide(&self, record: &RequestRecord) -> Decision {
        self.plan.lock().decide(record)
    }

    pub(crate) fn open(&self, record: &RequestRecord, mode: WatchMode) -> WatchTap {
        self.watches.open(record, mode)
    }

    fn plan(
        &self,
        condition: impl Fn(&RequestRecord) -> bool + Send + Sync + 'static,
        fault: Fault,
        times: Option<u32>,
    ) -> FaultGuard {
        let id = self.plan.lock().add(Box::new(condition), fault, times);
        FaultGuard {
            plan: Arc::clone(&self.plan),
            id,
            kept: false,
        }
    }
}

impl FaultGuard {
    /// How many requests met the fault.
    #[must_use]
    pub fn hits(&self) -> u64 {
        self.plan.lock().hits(self.id)
    }

    /// Keeps the fault for as long as the server lives.
    pub fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for FaultGuard {
    fn drop(&mut self) {
        if !self.kept {
            self.plan.lock().remove(self.id);
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
