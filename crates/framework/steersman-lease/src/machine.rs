//! Machine: one candidate of an election: decides its requests and their times, its leadership and its loss.

use std::collections::BTreeMap;
use std::time::Instant;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::jiff::Timestamp;
use steersman_object::{Jitter, ObjectKey};

use crate::candidacy::{Candidacy, Claim};
use crate::options::ElectionOptions;
use crate::record::{LeaseRecord, add_labels, empty_lease};
use crate::status::{Ending, LossReason};
use crate::term_clock::TermClock;
use crate::timing::Timing;

mod replies;
mod ending;

/// One candidate of an election.
///
/// The driver carries out each [`ElectionStep`], and reports replies and commands.
#[derive(Debug)]
pub(crate) struct ElectionMachine {
    key: ObjectKey,
    labels: BTreeMap<String, String>,
    timing: Timing,
    policy: Policy,
    jitter: Jitter,
    /// The start of this candidate's monotonic clock.
    began: Instant,
    candidacy: Candidacy,
    stage: ElectionStage,
    sent: Option<Sent>,
    /// When the candidate sends its next request.
    next: Instant,
    attempt: LeaseAttempt,
    /// Whether the Lease may name this candidate, because such a write was sent.
    may_hold: bool,
    /// Whether a write that names this candidate has failed; the server may still execute it.
    has_lost_write: bool,
    /// Whether a create may have replaced the Lease of an unknown leader, and no later read has shown its result.
    has_sent_create: bool,
    /// Until this instant a new leader that created the Lease does not work (LEASE-3).
    hold_until: Instant,
    /// The number of renewals that needed a read first.
    pub(crate) slow_paths: u64,
    last_error: Option<String>,
}

/// The options for the end of a candidacy.
#[derive(Clone, Copy, Debug)]
struct Policy {
    /// Whether to abort the process if work outlives its lease.
    aborts: bool,
    releases: bool,
}

/// The progress of an attempt to take or renew the Lease.
#[derive(Clone, Copy, Debug)]
struct LeaseAttempt {
    began: Option<Instant>,
    /// Whether the next request is a read, because the known Lease may be outdated.
    must_read: bool,
    /// Whether the fast write of a renewal has failed.
    is_slow: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum ElectionStage {
    Standby,
    Leading(Term),
    /// The lease was lost, or work was left behind. The candidate sends no renewal; work may still run.
    Stopping {
        reason: Option<LossReason>,
        abort_at: Option<Instant>,
        /// The deadline for a release, well before another candidate can take the lease.
        release_until: Instant,
    },
    Releasing {
        until: Instant,
    },
    Ended(Ending),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Term {
    /// When the last successful renewal was sent.
    pub(crate) renewed: Instant,
    pub(crate) works_from: Instant,
}

#[derive(Clone, Copy, Debug)]
struct Sent {
    at: Instant,
    is_write: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ElectionStep {
    Wait(Option<Instant>),
    /// Send a request, and report its reply, or a failure at the deadline.
    Send(LeaseRequest, Instant),
    /// Wait for the reply to the request in flight, until the deadline.
    AwaitReply,
    /// Abort the process, because work has outlived its lease.
    Abort,
    End(Ending),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum LeaseRequest {
    Read,
    Create(Box<Lease>),
    Replace(Box<Lease>),
}

#[derive(Clone, Debug)]
pub(crate) enum Reply {
    Lease(Box<Lease>),
    Absent,
    /// A write has failed because the Lease has changed since it was read.
    Outdated(String),
    /// A request has failed. A write may have been executed nevertheless.
    Failed(String),
}

/// A command from the owner of the elector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// No work runs: release the Lease and end.
    Release,
    /// Work may still run: neither renew nor release.
    LeaveBehind,
    /// The owner is dropped: end without a release.
    Abandon,
}

/// The status of a candidate that other tasks wait for.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) enum CandidateStatus {
    #[default]
    Standby,
    /// Leads until this instant, or longer after a renewal.
    Leader(Instant),
    /// No longer leads; the reason is `None` after a stop.
    Lost(Option<LossReason>),
    Ended(Ending),
}

/// The state of an election that its handles and the watchdog read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Published {
    pub(crate) standing: CandidateStatus,
    pub(crate) record: Option<LeaseRecord>,
    pub(crate) uid: Option<String>,
    pub(crate) changed: Option<Instant>,
    pub(crate) last_error: Option<String>,
    pub(crate) is_started: bool,
    /// The instant at which the process is aborted if work still runs (LEASE-4).
    pub(crate) work_limit: Option<Instant>,
}

impl ElectionMachine {
    pub(crate) fn new(options: &ElectionOptions, now: Instant) -> Self {
        let given = &options.given;
        let timing = given.timing;
        Self {
            key: options.key.clone(),
            labels: given.labels.clone(),
            timing,
            policy: Policy {
                aborts: given.aborts,
                releases: given.releases,
            },
            jitter: Jitter::new(given.seed),
            began: now,
            candidacy: Candidacy::new(options.identity.clone(), timing.lease_seconds()),
            stage: ElectionStage::Standby,
            sent: None,
            next: now,
            attempt: LeaseAttempt {
                began: None,
                must_read: true,
                is_slow: false,
            },
            may_hold: false,
            has_lost_write: false,
            has_sent_create: false,
            hold_until: now,
            slow_paths: 0,
            last_error: None,
        }
    }

    /// Returns the step of the driver at `now`. `wall` is the time to write into the Lease.
    pub(crate) fn next_step(&mut self, now: Instant, wall: Timestamp) -> ElectionStep {
        self.check_deadline(now);
        match &mut self.stage {
            ElectionStage::Ended(ending) => ElectionStep::End(*ending),
            ElectionStage::Stopping { abort_at, .. } => match abort_at.take() {
                Some(at) if at <= now => ElectionStep::Abort,
                at => {
                    *abort_at = at;
                    ElectionStep::Wait(at)
                }
            },
            ElectionStage::Releasing { until } if *until <= now => self.end(Ending::Kept),
            ElectionStage::Standby
            | ElectionStage::Leading(_)
            | ElectionStage::Releasing { .. } => {
                if self.sent.is_some() {
                    return ElectionStep::AwaitReply;
                }
                if self.next > now {
                    return ElectionStep::Wait(Some(self.wake_at()));
                }
                self.send(now, wall)
            }
        }
    }

    /// Returns when to decide again while no request is in flight.
    fn wake_at(&self) -> Instant {
        match self.stage {
            ElectionStage::Leading(term) => self.next.min(self.lost_at(term)),
            ElectionStage::Releasing { until } => self.next.min(until),
            _ => self.next,
        }
    }

    fn send(&mut self, now: Instant, wall: Timestamp) -> ElectionStep {
        let request = match self.request(now, wall) {
            Ok(request) => request,
            Err(wait) => return wait,
        };
        let is_write = request != LeaseRequest::Read;
        self.sent = Some(Sent { at: now, is_write });
        self.attempt.began.get_or_insert(now);
        let mut deadline = now + self.timing.request_limit();
        match self.stage {
            // LEASE-1, LEASE-6: a request ends when its reply would come too late.
            ElectionStage::Leading(term) => deadline = deadline.min(self.lost_at(term)),
            ElectionStage::Releasing { until } => deadline = deadline.min(until),
            _ => {}
        }
        ElectionStep::Send(request, deadline)
    }

    /// Returns the request that is due, or the step that waits for a held lease.
    fn request(&mut self, now: Instant, wall: Timestamp) -> Result<LeaseRequest, ElectionStep> {
        if self.attempt.must_read {
            return Ok(LeaseRequest::Read);
        }
        match self.stage {
            ElectionStage::Releasing { .. } => match self.candidacy.observed() {
                Some(observed) if self.candidacy.is_holder() => {
                    let released = observed.record.released(wall);
                    Ok(LeaseRequest::Replace(Box::new(self.replacement(&released))))
                }
                // The Lease is absent or has another holder, so there is nothing to release.
                _ => Err(self.end(Ending::NotHeld)),
            },
            ElectionStage::Leading(_) => Ok(self.write(&self.renewal(wall), now)),
            _ => match self.candidacy.next_claim(now) {
                Claim::Free => {
                    self.may_hold = true;
                    let is_create = self.candidacy.observed().is_none();
                    self.has_sent_create |= is_create && !self.candidacy.is_holder_deleted;
                    Ok(self.write(&self.acquisition(wall), now))
                }
                Claim::HeldUntil(until) => {
                    self.pause(now, until);
                    Err(ElectionStep::Wait(Some(self.next)))
                }
            },
        }
    }

    /// Returns the request that writes a record: an update, or a create if the Lease is absent.
    fn write(&self, record: &LeaseRecord, now: Instant) -> LeaseRequest {
        let mut lease = self.replacement(record);
        TermClock(now.saturating_duration_since(self.began)).write(record, &mut lease);
        match self.candidacy.observed() {
            Some(_) => LeaseRequest::Replace(Box::new(lease)),
            None => LeaseRequest::Create(Box::new(lease)),
        }
    }

    /// Returns the known Lease, or a new one if it is absent, with another record.
    fn replacement(&self, record: &LeaseRecord) -> Lease {
        let observed = self.candidacy.observed().map(|o| o.lease.clone());
        let mut lease = observed.unwrap_or_else(|| empty_lease(&self.key));
        add_labels(&mut lease, &self.labels);
        record.write(&mut lease);
        lease
    }

    fn acquisition(&self, wall: Timestamp) -> LeaseRecord {
        let before = self.candidacy.observed().map(|o| &o.record);
        // A write of this candidate that was executed without a reply has already counted the transition.
        let is_ours = self.candidacy.is_holder();
        let transitions = before.map_or(0, |before| {
            before.transitions.saturating_add(i32::from(!is_ours))
        });
        self.own_record(wall, Some(wall), transitions)
    }

    fn renewal(&self, wall: Timestamp) -> LeaseRecord {
        let before = self.candidacy.observed().map(|o| &o.record);
        let acquired = before.and_then(|before| before.acquired).or(Some(wall));
        let transitions = before.map_or(0, |before| before.transitions);
        self.own_record(wall, acquired, transitions)
    }

    fn own_record(
        &self,
        wall: Timestamp,
        acquired: Option<Timestamp>,
        transitions: i32,
    ) -> LeaseRecord {
        LeaseRecord {
            holder: self.candidacy.identity().to_owned(),
            seconds: self.timing.lease_seconds(),
            acquired,
            renewed: Some(wall),
            transitions,
        }
    }

    pub(crate) fn published(&self, now: Instant) -> Published {
        let observed = self.candidacy.observed();
        Published {
            standing: self.standing(now),
            record: observed.map(|observed| observed.record.clone()),
            uid: observed.and_then(|observed| observed.lease.metadata.uid.clone()),
            changed: self.changed(),
            last_error: self.last_error.clone(),
            is_started: true,
            work_limit: self.work_limit(now),
        }
    }

    fn standing(&self, now: Instant) -> CandidateStatus {
        match &self.stage {
            ElectionStage::Leading(term) if term.works_from <= now => {
                CandidateStatus::Leader(self.lost_at(*term))
            }
            ElectionStage::Standby
            | ElectionStage::Leading(_)
            | ElectionStage::Releasing { .. } => CandidateStatus::Standby,
            ElectionStage::Stopping { reason, .. } => CandidateStatus::Lost(reason.clone()),
            ElectionStage::Ended(ending) => CandidateStatus::Ended(*ending),
        }
    }

    pub(crate) fn works_from(&self, now: Instant) -> Option<Instant> {
        match self.stage {
            ElectionStage::Leading(term) if term.works_from > now => Some(term.works_from),
            _ => None,
        }
    }

    /// Returns the instant at which the process is aborted if work still runs; `None` if none can run (LEASE-4).
    fn work_limit(&self, now: Instant) -> Option<Instant> {
        match self.stage {
            ElectionStage::Leading(term) if term.works_from <= now => {
                let limit = self.lost_at(term) + self.timing.stop_limit();
                self.policy.aborts.then_some(limit)
            }
            ElectionStage::Stopping { abort_at, .. } => abort_at,
            _ => None,
        }
    }

    /// Returns when a leader sent its last renewal, or when a standby saw the Lease change.
    fn changed(&self) -> Option<Instant> {
        match self.stage {
            ElectionStage::Leading(term) => Some(term.renewed),
            _ => self.candidacy.observed().map(|observed| observed.changed),
        }
    }
}

#[cfg(test)]
mod tests;
