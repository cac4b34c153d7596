//! Machine: updates a candidate with the reply to its request.

use std::time::Instant;

use super::{ElectionMachine, ElectionStage, Reply, Sent, Term};
use crate::status::{Ending, LossReason};

impl ElectionMachine {
    pub(crate) fn on_reply(&mut self, reply: Reply, now: Instant) {
        let Some(sent) = self.sent.take() else {
            return;
        };
        self.last_error = match &reply {
            Reply::Outdated(error) | Reply::Failed(error) => Some(error.clone()),
            Reply::Lease(_) | Reply::Absent => None,
        };
        // A leader past its renew deadline has lost, whatever the reply is.
        self.check_deadline(now);
        match self.stage {
            ElectionStage::Standby => self.on_standby_reply(reply, sent, now),
            ElectionStage::Leading(term) => self.on_leader_reply(reply, sent, term, now),
            ElectionStage::Releasing { .. } => self.on_release_reply(reply, sent, now),
            ElectionStage::Stopping { .. } | ElectionStage::Ended(_) => {}
        }
    }

    pub(super) fn on_standby_reply(&mut self, reply: Reply, sent: Sent, now: Instant) {
        match reply {
            Reply::Lease(lease) => {
                self.candidacy.handle_lease(*lease, now);
                // LEASE-3: the Lease may have been deleted under a leader that this candidate does not know, and that
                // notices only at its next renewal. The response to the create may have been lost.
                if std::mem::take(&mut self.has_sent_create) && self.candidacy.is_holder() {
                    self.hold_until = now + self.timing.creation_hold();
                }
                if sent.is_write {
                    self.begin_term(sent.at);
                } else {
                    // `request` decides the next request at once.
                    self.attempt.must_read = false;
                    self.next = now;
                }
            }
            Reply::Absent => {
                self.candidacy.handle_absence(now);
                self.attempt.must_read = false;
                self.next = now;
            }
            Reply::Outdated(_) => {
                // Another candidate has taken the Lease first.
                self.may_hold = self.has_lost_write;
                self.pause(now, None);
            }
            Reply::Failed(_) => {
                self.has_lost_write |= sent.is_write;
                self.attempt.must_read = true;
                self.attempt.began = None;
                // LEASE-9: a standby tries again soon after a failure.
                self.next = now + self.timing.failure_pause(self.jitter.fraction());
            }
        }
    }

    pub(super) fn begin_term(&mut self, sent: Instant) {
        self.stage = ElectionStage::Leading(Term {
            renewed: sent,
            works_from: sent.max(self.hold_until),
        });
        self.may_hold = true;
        self.renew_later(sent);
    }

    /// Ends the successful renewal of a leader.
    pub(super) fn renew_later(&mut self, sent: Instant) {
        self.attempt.must_read = false;
        self.attempt.is_slow = false;
        self.attempt.began = None;
        self.next = sent + self.timing.retry_period;
    }

    pub(super) fn on_leader_reply(&mut self, reply: Reply, sent: Sent, term: Term, now: Instant) {
        match reply {
            Reply::Lease(lease) if sent.is_write => {
                self.candidacy.handle_lease(*lease, now);
                // LEASE-1: the term counts from the sending of the renewal, which other candidates see later.
                self.stage = ElectionStage::Leading(Term {
                    renewed: sent.at,
                    ..term
                });
                self.renew_later(sent.at);
            }
            Reply::Lease(lease) => {
                let before = self.candidacy.observed().map(|o| o.record.transitions);
                let found = self.candidacy.read(&lease);
                self.candidacy.handle_lease(*lease, now);
                let is_cleared = found.holder.is_empty() && before == Some(found.transitions);
                if self.candidacy.is_holder() || is_cleared {
                    self.renew_slowly(now);
                } else {
                    self.lose(
                        LossReason::Taken {
                            holder: found.holder,
                        },
                        now,
                    );
                }
            }
            Reply::Absent => {
                self.candidacy.handle_absence(now);
                self.renew_slowly(now);
            }
            // LEASE-5: after a failed fast write, the leader reads the Lease at once.
            Reply::Outdated(_) | Reply::Failed(_) if sent.is_write && !self.attempt.is_slow => {
                self.attempt.must_read = true;
                self.attempt.is_slow = true;
                self.next = now;
            }
            Reply::Outdated(_) | Reply::Failed(_) => {
                self.attempt.must_read = true;
                let began = self.attempt.began.take().unwrap_or(sent.at);
                self.next = now.max(began + self.timing.retry_period);
            }
        }
    }

    pub(super) fn renew_slowly(&mut self, now: Instant) {
        self.slow_paths += 1;
        self.attempt.is_slow = true;
        self.attempt.must_read = false;
        self.next = now;
    }

    pub(super) fn on_release_reply(&mut self, reply: Reply, sent: Sent, now: Instant) {
        match reply {
            Reply::Lease(lease) => {
                self.candidacy.handle_lease(*lease, now);
                if sent.is_write && !self.candidacy.is_holder() {
                    self.stage = ElectionStage::Ended(Ending::Released);
                }
                // Otherwise this replies to a read, or late to a write that has made this candidate the holder.
                self.attempt.must_read = false;
                self.next = now;
            }
            Reply::Absent => self.stage = ElectionStage::Ended(Ending::NotHeld),
            Reply::Outdated(_) => {
                self.attempt.must_read = true;
                self.next = now;
            }
            Reply::Failed(_) => {
                self.attempt.must_read = true;
                self.next = now + self.timing.retry_period / 4;
            }
        }
    }

    /// Sets the next read of a standby: after a random pause, or when the lease expires if that is sooner.
    pub(super) fn pause(&mut self, now: Instant, expiry: Option<Instant>) {
        self.attempt.must_read = true;
        self.attempt.began = None;
        let pause = now + self.timing.standby_pause(self.jitter.fraction());
        self.next = expiry.map_or(pause, |expiry| pause.min(expiry));
    }
}
