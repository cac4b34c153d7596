//! Machine: decides whether a server is away, which informer checks it, and when other informers repeat their requests.

use std::time::{Duration, Instant};

/// The time between two readiness checks of a server that is away.
pub(crate) const EVERY: Duration = Duration::from_secs(1);
/// The timeout of a readiness check.
pub(crate) const WITHIN: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
enum Availability {
    #[default]
    Up,
    /// A request failed as in an outage, and the server was not checked since.
    Doubted,
    /// The server does not answer, or answers that it is not ready.
    Away,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServerReadiness {
    /// The `ListWatch` has no readiness check.
    Unsupported,
    Ready,
    /// The server answers that it does not serve requests yet.
    NotReady,
    NoResponse,
}

/// The next step of an informer after a failed request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NextStep {
    /// Repeat the request.
    Go,
    /// The server has returned: repeat the request soon, spread over time.
    Returned,
    /// Check the server's readiness, and pass the answer to [`HealthMachine::handle_ready`].
    Ask,
    /// Wait until this time, or until the health changes, and ask for the next step again.
    Wait(Instant),
}

/// The pause of one informer after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pause {
    /// The number of outages that had ended when the request failed. A larger number now shows the server's return.
    pub(crate) returns: u64,
    /// The end of the informer's own backoff.
    pub(crate) until: Instant,
    /// The time at which the informer repeats its request even if the server seems to be away.
    pub(crate) at_last: Instant,
}

/// The health of one server, shared by its informers (REFL-9).
///
/// A single failure may be due to the kind alone. So one informer checks the server after a failure, and the informers
/// wait for the server's return only if the check fails.
#[derive(Debug, Default)]
pub(crate) struct HealthMachine {
    availability: Availability,
    pub(crate) returns: u64,
    /// The earliest time of the next check.
    next: Option<Instant>,
    /// Whether the next check is an informer's own request, because a server may serve requests before it is ready.
    own: bool,
}

impl HealthMachine {
    /// Records a failure that may be due to an outage of the server.
    pub(crate) fn handle_failure(&mut self, now: Instant) {
        if self.availability == Availability::Up {
            self.availability = Availability::Doubted;
            self.next = Some(now);
        } else {
            let soon = now + EVERY;
            self.next = Some(self.next.map_or(soon, |next| next.min(soon)));
        }
    }

    /// Records that the server answered a request. Returns whether the server was doubted or away before.
    pub(crate) fn handle_answer(&mut self) -> bool {
        let was = std::mem::replace(&mut self.availability, Availability::Up);
        self.next = None;
        self.own = false;
        if was == Availability::Away {
            self.returns += 1;
        }
        was != Availability::Up
    }

    pub(crate) fn handle_ready(&mut self, answer: ServerReadiness, now: Instant) {
        match answer {
            ServerReadiness::Ready => {
                self.handle_answer();
            }
            // If the server's readiness cannot be checked, the server counts as up, so that each informer waits for its
            // own backoff.
            ServerReadiness::Unsupported => {
                self.availability = Availability::Up;
                self.next = None;
            }
            // A request was answered after the check began, so the server is up.
            ServerReadiness::NotReady | ServerReadiness::NoResponse
                if self.availability == Availability::Up => {}
            ServerReadiness::NotReady | ServerReadiness::NoResponse => {
                self.availability = Availability::Away;
                self.own = answer == ServerReadiness::NotReady;
                self.next = Some(now + EVERY);
            }
        }
    }

    /// Returns what an informer in this pause does next. While the server is away, one informer at a time checks it.
    pub(crate) fn next_step(&mut self, pause: &Pause, now: Instant) -> NextStep {
        if self.returns > pause.returns {
            return NextStep::Returned;
        }
        let Some(next) = self.next.filter(|_| self.availability != Availability::Up) else {
            return match now >= pause.until {
                true => NextStep::Go,
                false => NextStep::Wait(pause.until),
            };
        };
        if now >= pause.at_last {
            return NextStep::Go;
        }
        if now < next {
            return NextStep::Wait(next.min(pause.at_last));
        }
        self.next = Some(now + WITHIN);
        match std::mem::take(&mut self.own) {
            true => NextStep::Go,
            false => NextStep::Ask,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the origin of the test's instants.
    #[expect(clippy::disallowed_methods, reason = "an origin, not a clock")]
    fn origin() -> Instant {
        Instant::now()
    }

    const OWN: Duration = Duration::from_millis(700);
    const LONG: Duration = Duration::from_secs(30);

    fn pause(machine: &mut HealthMachine, now: Instant) -> Pause {
        machine.handle_failure(now);
        Pause {
            returns: machine.returns,
            until: now + OWN,
            at_last: now + LONG,
        }
    }

    // REFL-9
    #[test]
    fn one_informer_checks_and_a_ready_server_leaves_each_informer_its_backoff() {
        let now = origin();
        let mut machine = HealthMachine::default();
        let (first, second) = (pause(&mut machine, now), pause(&mut machine, now));
        assert_eq!(machine.next_step(&first, now), NextStep::Ask);
        assert_eq!(
            machine.next_step(&second, now),
            NextStep::Wait(now + EVERY.max(WITHIN))
        );
        machine.handle_ready(ServerReadiness::Ready, now);
        // The server was not away, so each pause lasts to its end.
        for pause in [first, second] {
            assert_eq!(machine.next_step(&pause, now), NextStep::Wait(now + OWN));
            assert_eq!(machine.next_step(&pause, now + OWN), NextStep::Go);
        }
        assert_eq!(machine.returns, 0);
    }

    // REFL-9
    #[test]
    fn one_informer_checks_an_absent_server_each_second_and_all_go_on_at_its_return() {
        let start = origin();
        let mut machine = HealthMachine::default();
        let pauses: Vec<Pause> = (0..20).map(|_| pause(&mut machine, start)).collect();
        let (mut asked, mut now) = (0, start);
        while now < start + Duration::from_secs(16) {
            for pause in &pauses {
                match machine.next_step(pause, now) {
                    NextStep::Ask => {
                        asked += 1;
                        machine.handle_ready(ServerReadiness::NoResponse, now);
                    }
                    NextStep::Wait(until) => assert!(until > now),
                    other => panic!("{other:?}"),
                }
            }
            now += Duration::from_millis(100);
        }
        assert_eq!(asked, 16);
        assert!(machine.handle_answer());
        for pause in &pauses {
            assert_eq!(machine.next_step(pause, now), NextStep::Returned);
        }
        let next = pause(&mut machine, now);
        assert_eq!(machine.next_step(&next, now), NextStep::Ask);
    }

    #[test]
    fn an_unready_server_gets_a_real_request_every_other_second() {
        let mut now = origin();
        let mut machine = HealthMachine::default();
        let pause = pause(&mut machine, now);
        for _ in 0..3 {
            assert_eq!(machine.next_step(&pause, now), NextStep::Ask);
            machine.handle_ready(ServerReadiness::NotReady, now);
            now += EVERY;
            assert_eq!(machine.next_step(&pause, now), NextStep::Go);
            machine.handle_failure(now);
            assert_eq!(machine.next_step(&pause, now), NextStep::Wait(now + EVERY));
            now += EVERY;
        }
        assert_eq!(
            machine.next_step(&pause, now + LONG),
            NextStep::Go,
            "at last"
        );
    }

    #[test]
    fn a_dropped_check_is_repeated_after_its_timeout() {
        let now = origin();
        let mut machine = HealthMachine::default();
        let pause = pause(&mut machine, now);
        assert_eq!(machine.next_step(&pause, now), NextStep::Ask);
        assert_eq!(machine.next_step(&pause, now), NextStep::Wait(now + WITHIN));
        assert_eq!(machine.next_step(&pause, now + WITHIN), NextStep::Ask);
    }

    #[test]
    fn a_late_failed_check_does_not_undo_an_answer() {
        let now = origin();
        let mut machine = HealthMachine::default();
        let pause = pause(&mut machine, now);
        assert_eq!(machine.next_step(&pause, now), NextStep::Ask);
        machine.handle_answer();
        machine.handle_ready(ServerReadiness::NoResponse, now);
        assert_eq!(machine.next_step(&pause, now + OWN), NextStep::Go);
        assert_eq!(machine.returns, 0);
    }

    #[test]
    fn without_a_readiness_check_each_informer_follows_its_backoff() {
        let now = origin();
        let mut machine = HealthMachine::default();
        let pause = pause(&mut machine, now);
        assert_eq!(machine.next_step(&pause, now), NextStep::Ask);
        machine.handle_ready(ServerReadiness::Unsupported, now);
        assert_eq!(machine.next_step(&pause, now), NextStep::Wait(now + OWN));
    }
}
