//! Machine: one candidate of an election: what it requests and when, when it leads, and when it loses.

use std::collections::BTreeMap;
use std::time::Instant;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::jiff::Timestamp;
use steersman_object::{Jitter, ObjectKey};

use crate::candidacy::{Candidacy, Claim};
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
    /// The beginning of the candidate's own clock.
    began: Instant,
    candidacy: Candidacy,
    stage: ElectionStage,
    sent: Option<Sent>,
    /// The next instant at which the candidate sends a request of its own accord.
    next: Instant,
    attempt: LeaseAttempt,
    /// Whether the Lease may name this candidate: a write that does so was sent.
    may_hold: bool,
    /// Whether a write that names this candidate failed, so that the server may execute it later.
    has_lost_write: bool,
    /// Whether a create was sent that may have replaced the Lease of an unknown leader, and no later read told its
    /// outcome.
    has_sent_create: bool,
    /// The instant before which a new leader does not work, because it created the Lease (LEASE-3).
    hold_until: Instant,
    /// The number of renewals that needed a read first.
    slow_paths: u64,
    last_error: Option<String>,
}

/// What the owner of a candidate wants at its end.
#[derive(Clone, Copy, Debug)]
struct Policy {
    /// Whether the process is aborted if work outlives its lease.
    aborts: bool,
    releases: bool,
}

/// The progress of an attempt to take or renew the Lease.
#[derive(Clone, Copy, Debug)]
struct LeaseAttempt {
    began: Option<Instant>,
    /// Whether the next request of the attempt is a read, because the observed Lease may be outdated.
    must_read: bool,
    /// Whether a renewal is past its first write.
    is_slow: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum ElectionStage {
    Standby,
    Leading(Term),
    /// The lease was lost, or work was left behind: no renewal is sent, and work may still run.
    Stopping {
        reason: Option<LossReason>,
        abort_at: Option<Instant>,
        /// The end of a release, well before another candidate can take the lease.
        release_until: Instant,
    },
    Releasing {
        until: Instant,
    },
    Ended(Ending),
}

/// The time in which a candidate leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Term {
    /// When the last successful write was sent.
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
    /// Sends a request, and reports its reply, or a failure at the deadline.
    Send(LeaseRequest, Instant),
    /// Waits for the reply to the request in flight, until the deadline.
    AwaitReply,
    /// Aborts the process, because work outlived its lease.
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
    /// A write changed nothing, because the Lease is another one than the candidate knew.
    Outdated(String),
    /// The request failed; a write may have been executed.
    Failed(String),
}

/// What the owner of the elector tells a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// No work runs: releases the Lease and ends.
    Release,
    /// Work may run on: does not renew and does not release.
    LeaveBehind,
    /// The owner is gone: ends without a release.
    Abandon,
}

/// The status of a candidate, for the tasks that wait for it to change.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) enum CandidateStatus {
    #[default]
    Standby,
    /// Leads until the instant, unless a renewal succeeds.
    Leader(Instant),
    /// Leads no more; `None` if it was stopped.
    Lost(Option<LossReason>),
    Ended(Ending),
}

impl ElectionMachine {
    pub(crate) fn new(
        key: ObjectKey,
        identity: String,
        labels: BTreeMap<String, String>,
        timing: Timing,
        seed: u64,
        now: Instant,
    ) -> Self {
        Self {
            key,
            labels,
            timing,
            policy: Policy {
                aborts: true,
                releases: true,
            },
            jitter: Jitter::new(seed),
            began: now,
            candidacy: Candidacy::new(identity, timing.lease_seconds()),
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

    pub(crate) fn aborts(mut self, aborts: bool) -> Self {
        self.policy.aborts = aborts;
        self
    }

    pub(crate) fn releases(mut self, releases: bool) -> Self {
        self.policy.releases = releases;
        self
    }

    /// Returns what the driver does at `now`. `wall` is the time for the Lease.
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

    /// Returns the next instant at which `step` decides anew while no request is in flight.
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
            // LEASE-1, LEASE-6: no request outlives the time in which its reply can still be used.
            ElectionStage::Leading(term) => deadline = deadline.min(self.lost_at(term)),
            ElectionStage::Releasing { until } => deadline = deadline.min(until),
            _ => {}
        }
        ElectionStep::Send(request, deadline)
    }

    /// Returns the request that is due, or the wait for a lease that is held.
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
                // The Lease is absent or another candidate's: nothing is left to release.
                _ => Err(self.end(Ending::NotHeld)),
            },
            ElectionStage::Leading(_) => Ok(self.write(&self.renewal(wall), now)),
            _ => match self.candidacy.next_claim(now) {
                Claim::Free => {
                    self.may_hold = true;
                    let is_create = self.candidacy.observed().is_none();
                    self.has_sent_create |= is_create && !self.candidacy.is_holder_deleted();
                    Ok(self.write(&self.acquisition(wall), now))
                }
                Claim::HeldUntil(until) => {
                    self.pause(now, until);
                    Err(ElectionStep::Wait(Some(self.next)))
                }
            },
        }
    }

    /// Returns the request that writes a record: a create if the Lease is absent.
    fn write(&self, record: &LeaseRecord, now: Instant) -> LeaseRequest {
        let mut lease = self.replacement(record);
        TermClock::new(now.saturating_duration_since(self.began)).write(record, &mut lease);
        match self.candidacy.observed() {
            Some(_) => LeaseRequest::Replace(Box::new(lease)),
            None => LeaseRequest::Create(Box::new(lease)),
        }
    }

    /// Returns the observed Lease with another record; a new one if the Lease is absent.
    fn replacement(&self, record: &LeaseRecord) -> Lease {
        let observed = self.candidacy.observed().map(|o| o.lease.clone());
        let mut lease = observed.unwrap_or_else(|| empty_lease(&self.key));
        add_labels(&mut lease, &self.labels);
        record.write(&mut lease);
        lease
    }

    fn acquisition(&self, wall: Timestamp) -> LeaseRecord {
        let before = self.candidacy.observed().map(|o| &o.record);
        // A write of this candidate that was executed without a reply has counted its transition.
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

    // ----- the state that the driver publishes -----

    pub(crate) fn standing(&self, now: Instant) -> CandidateStatus {
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

    /// Returns the instant at which the process is aborted if work runs, while work may run (LEASE-4).
    pub(crate) fn work_limit(&self, now: Instant) -> Option<Instant> {
        match self.stage {
            ElectionStage::Leading(term) if term.works_from <= now => {
                let limit = self.lost_at(term) + self.timing.stop_limit();
                self.policy.aborts.then_some(limit)
            }
            ElectionStage::Stopping { abort_at, .. } => abort_at,
            _ => None,
        }
    }

    pub(crate) fn record(&self) -> Option<&LeaseRecord> {
        self.candidacy.observed().map(|observed| &observed.record)
    }

    pub(crate) fn uid(&self) -> Option<&str> {
        let observed = self.candidacy.observed();
        observed.and_then(|observed| observed.lease.metadata.uid.as_deref())
    }

    /// Returns the instant at which the leader sent its last renewal, or at which a standby saw the Lease change.
    pub(crate) fn changed(&self) -> Option<Instant> {
        match self.stage {
            ElectionStage::Leading(term) => Some(term.renewed),
            _ => self.candidacy.observed().map(|observed| observed.changed),
        }
    }

    pub(crate) fn slow_paths(&self) -> u64 {
        self.slow_paths
    }

    pub(crate) fn last_error(&self) -> Option<&str> {
        self.last_error.as_deref()
    }
}

#[cfg(test)]
mod tests;
