//! Machine: the pause before the next request, with one backoff per class of failures.

use std::time::{Duration, Instant};

use crate::reflector::backoff::ReflectorBackoff;
use crate::reflector::failure::{FailureClass, RequestFailure};

/// The present pause, and the backoffs from which its length comes.
#[derive(Debug)]
pub(crate) struct Pauses {
    own: ReflectorBackoff,
    /// The backoff of outages; any response of the server resets it.
    outage: ReflectorBackoff,
    /// The backoff of expired resource versions.
    expiry: ReflectorBackoff,
    until: Option<Instant>,
    away: bool,
}

impl Pauses {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            own: ReflectorBackoff::new(seed),
            outage: ReflectorBackoff::new(seed.rotate_left(17)),
            expiry: ReflectorBackoff::new(seed.rotate_left(34)),
            until: None,
            away: false,
        }
    }

    /// Returns the end of the present pause, and whether the server's return ends the pause earlier.
    pub(crate) fn current(&mut self, now: Instant) -> Option<(Instant, bool)> {
        self.until.take_if(|until| *until <= now);
        self.until.map(|until| (until, self.away))
    }

    pub(crate) fn none(&mut self) {
        self.until = None;
    }

    pub(crate) fn until(&mut self, until: Instant) {
        (self.until, self.away) = (Some(until), false);
    }

    pub(crate) fn fail(&mut self, now: Instant, asked: Option<Duration>) {
        let until = self.own.fail(now, asked);
        self.until(until);
    }

    pub(crate) fn expire(&mut self, now: Instant, asked: Option<Duration>) {
        let until = self.expiry.fail(now, asked);
        self.until(until);
    }

    pub(crate) fn fail_by(&mut self, failure: &RequestFailure, now: Instant) {
        if !failure.is_outage() {
            return self.fail(now, failure.after);
        }
        self.away = true;
        self.until = Some(match failure.class {
            FailureClass::Server => self.outage.fail(now, failure.after),
            _ => self.outage.fail_briefly(now, failure.after),
        });
    }

    pub(crate) fn handle_answer(&mut self) {
        self.outage.end();
    }

    /// Ends a pause that is due to an outage.
    pub(crate) fn handle_turn(&mut self) {
        self.until.take_if(|_| self.away);
    }

    /// Returns a number in `[0, 1)` that differs between reflectors, to spread their requests.
    pub(crate) fn share(&mut self) -> f64 {
        self.own.jitter().fraction()
    }
}
