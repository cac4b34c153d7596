//! Machine: ends the term of a leader, after a loss or a command, with or without a release.

use std::time::Instant;

use super::{Command, ElectionMachine, ElectionStage, ElectionStep, Term};
use crate::status::{Ending, LossReason};

impl ElectionMachine {
    pub(super) fn lost_at(&self, term: Term) -> Instant {
        term.renewed + self.timing.renew_deadline
    }

    /// LEASE-1: ends the leadership if the last renewal is older than the renew deadline.
    pub(super) fn check_deadline(&mut self, now: Instant) {
        if let ElectionStage::Leading(term) = self.stage
            && self.lost_at(term) <= now
        {
            let reason = LossReason::RenewDeadline {
                deadline: self.timing.renew_deadline,
                last_error: self.last_error.clone(),
            };
            self.lose(reason, now);
        }
    }

    pub(super) fn lose(&mut self, reason: LossReason, now: Instant) {
        let ElectionStage::Leading(term) = self.stage else {
            return;
        };
        self.sent = None;
        if now < term.works_from {
            // The leader has not begun to work.
            self.stage = ElectionStage::Standby;
            self.pause(now, None);
            return;
        }
        let is_taken = matches!(reason, LossReason::Taken { .. });
        self.may_hold = !is_taken;
        self.stop(Some(reason), term, now);
    }

    pub(super) fn stop(&mut self, reason: Option<LossReason>, term: Term, now: Instant) {
        // LEASE-4: counted from the renew deadline if the loss is noticed late, for example after a suspension.
        let limit = now.min(self.lost_at(term)) + self.timing.stop_limit();
        self.stage = ElectionStage::Stopping {
            reason,
            abort_at: self.policy.aborts.then_some(limit),
            release_until: limit,
        };
    }

    pub(crate) fn on_command(&mut self, command: Command, now: Instant) {
        match (command, &self.stage) {
            (_, ElectionStage::Ended(_)) => {}
            (Command::Abandon, _) => {
                let held = !matches!(self.stage, ElectionStage::Standby) && self.may_hold;
                let ending = if held { Ending::Kept } else { Ending::NotHeld };
                self.end(ending);
            }
            (Command::LeaveBehind, ElectionStage::Leading(term)) => {
                let term = *term;
                self.sent = None;
                self.stop(None, term, now);
            }
            (Command::LeaveBehind | Command::Release, ElectionStage::Standby) => {
                if self.may_hold {
                    // LEASE-7: a write that takes the Lease is in flight: its reply is awaited, and the Lease released.
                    self.release(now, now + self.timing.renew_deadline);
                } else {
                    self.end(Ending::NotHeld);
                }
            }
            (Command::Release, ElectionStage::Leading(term)) => {
                let expires = term.renewed + self.timing.lease_duration;
                if self.policy.releases {
                    self.release(now, expires);
                } else {
                    self.end(Ending::Kept);
                }
            }
            (Command::Release, ElectionStage::Stopping { release_until, .. }) => {
                let until = *release_until;
                if self.policy.releases && self.may_hold && until > now {
                    self.release(now, until);
                } else if self.may_hold {
                    self.end(Ending::Kept);
                } else {
                    self.end(Ending::NotHeld);
                }
            }
            (
                Command::LeaveBehind,
                ElectionStage::Stopping { .. } | ElectionStage::Releasing { .. },
            )
            | (Command::Release, ElectionStage::Releasing { .. }) => {}
        }
    }

    /// LEASE-5: repeats the release until it succeeds or the lease has expired.
    pub(super) fn release(&mut self, now: Instant, expires: Instant) {
        let until = expires.min(now + self.timing.renew_deadline);
        self.stage = ElectionStage::Releasing { until };
        // The reply to a read is not needed. The reply to a write is, because it has the version for the release.
        self.sent = self.sent.filter(|sent| sent.is_write);
        self.attempt.must_read = self.sent.is_none() && !self.candidacy.is_holder();
        self.next = now;
    }

    pub(super) fn end(&mut self, ending: Ending) -> ElectionStep {
        self.sent = None;
        self.stage = ElectionStage::Ended(ending);
        ElectionStep::End(ending)
    }
}
