//! Machine: the pause before the next request, by what made it necessary.

use std::time::{Duration, Instant};

use crate::reflector::backoff::Backoff;
use crate::reflector::failure::{Class, Failure};

/// The pause that a reflector makes, and the backoffs that say how long it is.
#[derive(Debug)]
pub(crate) struct Pauses {
    /// Failures that are the kind's own.
    own: Backoff,
    /// Failures as all requests have them while a server is away; any answer of the server ends them.
    outage: Backoff,
    /// Versions that expired.
    expiry: Backoff,
    until: Option<Instant>,
    /// The pause is one of the outage.
    away: bool,
}

impl Pauses {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            own: Backoff::new(seed),
            outage: Backoff::new(seed.rotate_left(17)),
            expiry: Backoff::new(seed.rotate_left(34)),
            until: None,
            away: false,
        }
    }

    /// Until when the pause lasts, and whether the return of the server ends it.
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

    /// A failure of the kind's own.
    pub(crate) fn fail(&mut self, now: Instant, asked: Option<Duration>) {
        let until = self.own.fail(now, asked);
        self.until(until);
    }

    /// A version expired.
    pub(crate) fn expire(&mut self, now: Instant, asked: Option<Duration>) {
        let until = self.expiry.fail(now, asked);
        self.until(until);
    }

    /// A request failed, in whatever way.
    pub(crate) fn fail_by(&mut self, failure: &Failure, now: Instant) {
        if !failure.is_outage() {
            return self.fail(now, failure.after);
        }
        self.away = true;
        self.until = Some(match failure.class {
            Class::Server => self.outage.fail(now, failure.after),
            _ => self.outage.fail_briefly(now, failure.after),
        });
    }

    /// The server answered.
    pub(crate) fn handle_answer(&mut self) {
        self.outage.end();
    }

    /// A pause of an outage is over before its time.
    pub(crate) fn handle_turn(&mut self) {
        self.until.take_if(|_| self.away);
    }

    /// A number of `[0, 1)` that differs between reflectors.
    pub(crate) fn share(&mut self) -> f64 {
        self.own.jitter().fraction()
    }
}
