//! Machine: decides which of the planned faults affect a request.

use std::time::Duration;

use serde::Serialize;
use steersman_apimachinery::status::Status;
use steersman_registry::Rng;

use super::record::RequestRecord;
use super::spec::{Effect, FaultSpec};

/// A condition on requests as Rust code, in addition to the fields of the `FaultSpec`.
pub(crate) type Condition = Box<dyn Fn(&RequestRecord) -> bool + Send + Sync>;

#[derive(Debug)]
pub(crate) struct FaultPlan {
    rules: Vec<FaultRule>,
    next: u64,
    rng: Rng,
}

#[derive(derive_more::Debug)]
#[debug("Rule {{ id: {id:?}, spec: {spec:?}, hits: {hits:?}, .. }}")]
struct FaultRule {
    id: u64,
    spec: FaultSpec,
    condition: Option<Condition>,
    /// The full Status of the answer, if it has members that a `FaultSpec` does not have; otherwise `None`.
    status: Option<Box<Status>>,
    /// When the fault was planned, as time since the server was created.
    added: Duration,
    /// Number of matching requests, without those that an earlier fault ended. The first `skip` are not affected.
    seen: u64,
    hits: u64,
}

/// A planned fault, as `Faults::planned` lists it: its number, its hits and its conditions.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PlannedFault {
    /// The number by which `Faults::remove` removes the fault.
    pub id: u64,
    /// Number of requests that the fault affected.
    pub hits: u64,
    /// Whether a condition in Rust code, which only the process of the server has, applies in addition to the spec.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub has_condition: bool,
    /// The fault as it was planned: its conditions and its effect.
    #[serde(flatten)]
    pub spec: FaultSpec,
}

#[derive(Debug, Default)]
pub(crate) struct Decision {
    pub(crate) delay: Duration,
    /// The number of the fault that leaves the request unanswered until the fault is removed.
    pub(crate) swallowed_by: Option<u64>,
    pub(crate) answer: Option<Box<Status>>,
    pub(crate) cut: bool,
    /// Whether the request is carried out even though its answer is replaced or missing.
    pub(crate) commit: bool,
    /// For a list: by how many revisions its answer is older than the newest state.
    pub(crate) stale: u64,
    pub(crate) chop: Chop,
    pub(crate) watch: WatchFaults,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Chop {
    /// The size in bytes of the pieces in which the body is sent, and the delay before each.
    pub(crate) pieces: Option<(usize, Duration)>,
    /// The number of bytes of the body after which the connection ends.
    pub(crate) cut_after: Option<u64>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent faults, which can be combined"
)]
pub(crate) struct WatchFaults {
    pub(crate) silent: bool,
    pub(crate) expired: bool,
    pub(crate) events_twice: bool,
    pub(crate) bookmarks_twice: bool,
    pub(crate) bookmarks_late: Duration,
}

impl FaultPlan {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            rules: Vec::new(),
            next: 0,
            rng: Rng::new(seed),
        }
    }

    pub(crate) fn add(
        &mut self,
        spec: FaultSpec,
        condition: Option<Condition>,
        status: Option<Box<Status>>,
        now: Duration,
    ) -> u64 {
        let id = self.next;
        self.next += 1;
        self.rules.push(FaultRule {
            id,
            spec,
            condition,
            status,
            added: now,
            seen: 0,
            hits: 0,
        });
        id
    }

    pub(crate) fn remove(&mut self, id: u64) -> bool {
        let before = self.rules.len();
        self.rules.retain(|rule| rule.id != id);
        self.rules.len() < before
    }

    pub(crate) fn clear(&mut self) -> usize {
        let many = self.rules.len();
        self.rules.clear();
        many
    }

    pub(crate) fn has(&self, id: u64) -> bool {
        self.rules.iter().any(|rule| rule.id == id)
    }

    pub(crate) fn hits(&self, id: u64) -> u64 {
        let rule = self.rules.iter().find(|rule| rule.id == id);
        rule.map_or(0, |rule| rule.hits)
    }

    pub(crate) fn all(&self) -> Vec<PlannedFault> {
        let planned = |rule: &FaultRule| PlannedFault {
            id: rule.id,
            hits: rule.hits,
            has_condition: rule.condition.is_some(),
            spec: rule.spec.clone(),
        };
        self.rules.iter().map(planned).collect()
    }

    /// Combines the faults that match a request. Delays add up; of several faults that end the request by an answer or
    /// a cut, the one planned first takes effect (FAULT-1).
    pub(crate) fn decide(&mut self, record: &RequestRecord, now: Duration) -> Decision {
        let mut decision = Decision::default();
        for rule in &mut self.rules {
            if !rule.applies(record, now) {
                continue;
            }
            let ended = decision.answer.is_some() || decision.cut;
            let ends = matches!(rule.spec.effect, Effect::Answer { .. } | Effect::Cut { .. });
            if ended && ends {
                continue;
            }
            rule.seen += 1;
            if rule.seen <= rule.spec.skip {
                continue;
            }
            if let Some(share) = rule.spec.probability
                && self.rng.share() >= share
            {
                continue;
            }
            rule.hits += 1;
            let number = self.rng.share();
            rule.take_effect(&mut decision, number);
        }
        decision
    }
}

impl FaultRule {
    fn applies(&self, record: &RequestRecord, now: Duration) -> bool {
        let spec = &self.spec;
        let after = |time: Duration, millis| time.saturating_add(Duration::from_millis(millis));
        let begins = after(self.added, spec.after_millis);
        let ends = spec.for_millis.map(|millis| after(begins, millis));
        let condition = self.condition.as_ref();
        // A fault without a delay begins at once, also if a caller with another clock, such as the server's page while a
        // test pauses tokio's clock, planned it.
        (spec.after_millis == 0 || now >= begins)
            && ends.is_none_or(|ends| now < ends)
            && spec.times.is_none_or(|times| self.hits < times)
            && spec.fits(record)
            && condition.is_none_or(|condition| condition(record))
    }

    fn take_effect(&self, decision: &mut Decision, number: f64) {
        let watch = &mut decision.watch;
        match &self.spec.effect {
            Effect::Delay {
                millis,
                jitter_millis,
            } => {
                let jitter = Duration::from_millis(*jitter_millis).mul_f64(number);
                let delay = Duration::from_millis(*millis).saturating_add(jitter);
                decision.delay = decision.delay.saturating_add(delay);
            }
            Effect::Answer {
                code,
                message,
                retry_after_seconds,
                commit,
            } => {
                let status = self.status.clone().unwrap_or_else(|| {
                    let mut status = failure(*code);
                    if let Some(message) = message {
                        status.message.clone_from(message);
                    }
                    if *retry_after_seconds > 0 {
                        status = status.with_retry_after(*retry_after_seconds);
                    }
                    Box::new(status)
                });
                decision.answer = Some(status);
                decision.commit = *commit;
            }
            Effect::Cut { commit } => (decision.cut, decision.commit) = (true, *commit),
            Effect::CutBody { after_bytes } => decision.chop.cut_after = Some(*after_bytes),
            Effect::Chunks { bytes, millis } => {
                let bytes = usize::try_from(*bytes).unwrap_or(usize::MAX).max(1);
                decision.chop.pieces = Some((bytes, Duration::from_millis(*millis)));
            }
            Effect::Swallow => decision.swallowed_by = Some(self.id),
            Effect::Silence => watch.silent = true,
            Effect::ExpireWatch => watch.expired = true,
            Effect::DuplicateEvents => watch.events_twice = true,
            Effect::DuplicateBookmarks => watch.bookmarks_twice = true,
            Effect::LateBookmarks { millis } => {
                watch.bookmarks_late = Duration::from_millis(*millis);
            }
            Effect::StaleList { revisions } => decision.stale = *revisions,
        }
    }
}

pub(crate) fn failure(code: u16) -> Status {
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
    Status::failure(code, reason, format!("a fault answers {code}"))
}

#[cfg(test)]
mod tests;
