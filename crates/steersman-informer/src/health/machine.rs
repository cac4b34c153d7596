//! Machine: whether the server of a connection is away, which informer asks for it, and when the others go on.

use std::time::{Duration, Instant};

/// The time between two requests for a server that is away.
pub(crate) const EVERY: Duration = Duration::from_secs(1);
/// How long one such request may take.
pub(crate) const WITHIN: Duration = Duration::from_secs(2);

/// The standing of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Up,
    /// A request failed as requests do while a server is away; the server has not been asked since.
    Doubted,
    /// The server does not answer, or says that it is not ready.
    Away,
}

/// How the server answered the request for its readiness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// There is no such request.
    Unknown,
    /// The server serves requests.
    Ready,
    /// The server answers, and says that it does not serve requests yet.
    NotReady,
    /// No answer.
    Nothing,
}

/// The next step of an informer whose request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Repeat its own request.
    Go,
    /// The server has returned: repeat the request soon, and not all informers at once.
    Returned,
    /// Ask the server whether it is ready; the answer goes to [`HealthMachine::handle_ready`].
    Ask,
    /// Look again at this time, or when the health changes.
    Wait(Instant),
}

/// The pause of one informer after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pause {
    /// The number of returns of the server when the request failed.
    pub(crate) returns: u64,
    /// When the informer's own backoff ends.
    pub(crate) until: Instant,
    /// When the informer repeats its request although the server seems to be away.
    pub(crate) at_last: Instant,
}

/// The health of one server, as its informers see it together (REFL-9).
///
/// One failure alone proves nothing: it may be the informer's own. It makes the machine doubt, and the server is
/// asked. Only where the server does not answer, or says that it is not ready, the informers wait for its return.
#[derive(Debug)]
pub(crate) struct HealthMachine {
    standing: Standing,
    /// How often the server has returned.
    returns: u64,
    /// When the server may be asked again.
    next: Option<Instant>,
    /// The next request for the server is an informer's own: a server that says that it is not ready may serve all the
    /// same.
    own: bool,
}

impl HealthMachine {
    pub(crate) fn new() -> Self {
        Self {
            standing: Standing::Up,
            returns: 0,
            next: None,
            own: false,
        }
    }

    /// The number of times the server has returned.
    pub(crate) fn returns(&self) -> u64 {
        self.returns
    }

    /// A request failed in a way in which all requests fail while a server is away.
    pub(crate) fn handle_failure(&mut self, now: Instant) {
        if self.standing == Standing::Up {
            self.standing = Standing::Doubted;
            self.next = Some(now);
        } else {
            let soon = now + EVERY;
            self.next = Some(self.next.map_or(soon, |next| next.min(soon)));
        }
    }

    /// The server answered a request, whatever the answer: it is up. Returns whether it was not before.
    pub(crate) fn handle_answer(&mut self) -> bool {
        let was = std::mem::replace(&mut self.standing, Standing::Up);
        self.next = None;
        self.own = false;
        if was == Standing::Away {
            self.returns += 1;
        }
        was != Standing::Up
    }

    /// The server was asked whether it is ready.
    pub(crate) fn handle_ready(&mut self, answer: Answer, now: Instant) {
        match answer {
            Answer::Ready => {
                self.handle_answer();
            }
            // Readiness cannot be asked for: each informer goes by its own backoff.
            Answer::Unknown => {
                self.standing = Standing::Up;
                self.next = None;
            }
            // A request of an informer was answered meanwhile: newer than this answer.
            Answer::NotReady | Answer::Nothing if self.standing == Standing::Up => {}
            Answer::NotReady | Answer::Nothing => {
                self.standing = Standing::Away;
                self.own = answer == Answer::NotReady;
                self.next = Some(now + EVERY);
            }
        }
    }

    /// What an informer in this pause does now. `Ask`, and a `Go` ahead of the pause's end, are given to one informer
    /// at a time.
    pub(crate) fn turn(&mut self, pause: &Pause, now: Instant) -> Turn {
        if self.returns > pause.returns {
            return Turn::Returned;
        }
        let Some(next) = self.next.filter(|_| self.standing != Standing::Up) else {
            return match now >= pause.until {
                true => Turn::Go,
                false => Turn::Wait(pause.until),
            };
        };
        if now >= pause.at_last {
            return Turn::Go;
        }
        if now < next {
            return Turn::Wait(next.min(pause.at_last));
        }
        self.next = Some(now + WITHIN);
        match std::mem::take(&mut self.own) {
            true => Turn::Go,
            false => Turn::Ask,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An origin of time for tables.
    #[expect(clippy::disallowed_methods, reason = "an origin, not a clock")]
    fn origin() -> Instant {
        Instant::now()
    }

    const OWN: Duration = Duration::from_millis(700);
    const LONG: Duration = Duration::from_secs(30);

    fn pause(machine: &mut HealthMachine, now: Instant) -> Pause {
        machine.handle_failure(now);
        Pause {
            returns: machine.returns(),
            until: now + OWN,
            at_last: now + LONG,
        }
    }

    // REFL-9
    #[test]
    fn one_informer_asks_and_a_ready_server_leaves_each_to_its_own_backoff() {
        let now = origin();
        let mut machine = HealthMachine::new();
        let (first, second) = (pause(&mut machine, now), pause(&mut machine, now));
        assert_eq!(machine.turn(&first, now), Turn::Ask);
        assert_eq!(
            machine.turn(&second, now),
            Turn::Wait(now + EVERY.max(WITHIN))
        );
        machine.handle_ready(Answer::Ready, now);
        // Nothing was away, so no informer is hurried.
        for pause in [first, second] {
            assert_eq!(machine.turn(&pause, now), Turn::Wait(now + OWN));
            assert_eq!(machine.turn(&pause, now + OWN), Turn::Go);
        }
        assert_eq!(machine.returns(), 0);
    }

    // REFL-9
    #[test]
    fn while_a_server_is_away_it_is_asked_each_second_by_one_and_all_go_on_at_its_return() {
        let start = origin();
        let mut machine = HealthMachine::new();
        let pauses: Vec<Pause> = (0..20).map(|_| pause(&mut machine, start)).collect();
        let (mut asked, mut now) = (0, start);
        while now < start + Duration::from_secs(16) {
            for pause in &pauses {
                match machine.turn(pause, now) {
                    Turn::Ask => {
                        asked += 1;
                        machine.handle_ready(Answer::Nothing, now);
                    }
                    Turn::Wait(until) => assert!(until > now),
                    other => panic!("{other:?}"),
                }
            }
            now += Duration::from_millis(100);
        }
        assert_eq!(asked, 16);
        assert!(machine.handle_answer());
        for pause in &pauses {
            assert_eq!(machine.turn(pause, now), Turn::Returned);
        }
        // The next failure is judged anew.
        let next = pause(&mut machine, now);
        assert_eq!(machine.turn(&next, now), Turn::Ask);
    }

    #[test]
    fn a_server_that_is_not_ready_is_tried_by_one_informer_every_other_time() {
        let mut now = origin();
        let mut machine = HealthMachine::new();
        let pause = pause(&mut machine, now);
        for _ in 0..3 {
            assert_eq!(machine.turn(&pause, now), Turn::Ask);
            machine.handle_ready(Answer::NotReady, now);
            now += EVERY;
            assert_eq!(machine.turn(&pause, now), Turn::Go);
            machine.handle_failure(now);
            assert_eq!(machine.turn(&pause, now), Turn::Wait(now + EVERY));
            now += EVERY;
        }
        assert_eq!(machine.turn(&pause, now + LONG), Turn::Go, "at last");
    }

    #[test]
    fn a_request_for_the_server_that_is_dropped_is_followed_by_the_next() {
        let now = origin();
        let mut machine = HealthMachine::new();
        let pause = pause(&mut machine, now);
        assert_eq!(machine.turn(&pause, now), Turn::Ask);
        assert_eq!(machine.turn(&pause, now), Turn::Wait(now + WITHIN));
        assert_eq!(machine.turn(&pause, now + WITHIN), Turn::Ask);
    }

    #[test]
    fn a_late_no_does_not_undo_an_answer() {
        let now = origin();
        let mut machine = HealthMachine::new();
        let pause = pause(&mut machine, now);
        assert_eq!(machine.turn(&pause, now), Turn::Ask);
        machine.handle_answer();
        machine.handle_ready(Answer::Nothing, now);
        assert_eq!(machine.turn(&pause, now + OWN), Turn::Go);
        assert_eq!(machine.returns(), 0);
    }

    #[test]
    fn where_readiness_cannot_be_asked_for_each_goes_by_its_own_backoff() {
        let now = origin();
        let mut machine = HealthMachine::new();
        let pause = pause(&mut machine, now);
        assert_eq!(machine.turn(&pause, now), Turn::Ask);
        machine.handle_ready(Answer::Unknown, now);
        assert_eq!(machine.turn(&pause, now), Turn::Wait(now + OWN));
    }
}
