//! The plan of one simulation, derived from its seed.

use steersman_testenv::seeds::{Disruption, SeededRng};

/// What one run does. Times are in milliseconds.
#[derive(Clone, Copy, Debug)]
pub(super) enum Behaviour {
    Done,
    /// Asks for a run after a delay, with a priority.
    After(u64, Option<i32>),
    /// Asks for a run at a time of day, in seconds from now.
    At(u64),
    /// Sleeps for a time, and then fails if the flag is set.
    Sleep(u64, bool),
    /// Writes the reconciled object, and then fails if the flag is set.
    Write(bool),
    Fail,
    Terminal,
    Panic,
    /// Does not return, or, if the flag is set, only when it is cancelled.
    Hang(bool),
}

/// The rate limiter of the controller, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub(super) enum Limiter {
    Exponential(u64, u64),
    FastSlow(u64, u64, u32),
}

#[derive(Clone, Debug)]
pub(super) enum Act {
    /// Creates an object of a resource, or changes it.
    Put(&'static str, String),
    Delete(&'static str, String),
    /// Changes this number of objects in a row.
    Burst(u64),
    Sleep(u64),
    Disrupt(Disruption),
    /// Stops the controller and starts another one.
    Restart,
}

/// The setup of one simulation and its actions. Times are in milliseconds.
#[derive(Debug)]
pub(super) struct Plan {
    seed: u64,
    pub(super) objects: u64,
    pub(super) workers: usize,
    pub(super) initial_priority: i32,
    pub(super) share: u32,
    pub(super) deadline: u64,
    pub(super) deadline_grace: u64,
    pub(super) grace: u64,
    pub(super) max_retries: Option<u32>,
    pub(super) at_most: Option<(u32, u64)>,
    pub(super) limiter: Limiter,
    /// The percentage of runs that fail in some way.
    failures: u64,
    pub(super) acts: Vec<Act>,
}

impl Limiter {
    /// Returns the delay after a failure, in milliseconds.
    pub(super) fn delay(self, earlier_failures: u32) -> u64 {
        match self {
            Self::Exponential(base, cap) => cap.min(base << earlier_failures.min(20)),
            Self::FastSlow(fast, slow, count) => match earlier_failures < count {
                true => fast,
                false => slow,
            },
        }
    }
}

impl Plan {
    pub(super) fn of(seed: u64) -> Self {
        let rng = &mut SeededRng::new(seed ^ 0xc017_011e);
        let objects = 1 + rng.below(8);
        let limiter = match rng.chance(70) {
            true => Limiter::Exponential(rng.pick(&[1, 5, 50]), rng.pick(&[50, 1_000, 20_000])),
            false => Limiter::FastSlow(rng.pick(&[1, 20]), rng.pick(&[500, 10_000]), 3),
        };
        let count = 5 + rng.index(40);
        Self {
            seed,
            objects,
            workers: 1 + rng.index(4),
            initial_priority: rng.pick(&[-100, -100, 0, 50]),
            share: 2 + u32::try_from(rng.below(8)).unwrap(),
            deadline: rng.pick(&[200, 2_000, 8_000]),
            deadline_grace: rng.pick(&[1, 100, 2_000]),
            grace: rng.pick(&[1, 1_000, 60_000]),
            max_retries: rng.maybe(30, |rng| u32::try_from(rng.below(4)).unwrap()),
            at_most: rng.maybe(25, |rng| {
                (rng.pick(&[1, 2, 5]), rng.pick(&[10, 1_000, 5_000]))
            }),
            limiter,
            failures: rng.pick(&[0, 20, 50, 90]),
            acts: (0..count).map(|_| act(rng, objects)).collect(),
        }
    }

    /// Returns what the run of this number does.
    pub(super) fn behaviour(&self, run: u64) -> Behaviour {
        let rng = &mut SeededRng::new(self.seed.rotate_left(32) ^ run);
        if rng.chance(self.failures) {
            return match rng.below(10) {
                0..5 => Behaviour::Fail,
                5 => Behaviour::Terminal,
                6 => Behaviour::Panic,
                7 => Behaviour::Hang(rng.chance(50)),
                8 => Behaviour::Sleep(rng.below(3_000), true),
                _ => Behaviour::Write(true),
            };
        }
        match rng.below(10) {
            0 => {
                let priority = rng.maybe(50, |rng| rng.pick(&[-100, 0, 100]));
                Behaviour::After(rng.pick(&[0, 1, 500, 5_000]), priority)
            }
            1 => Behaviour::At(rng.below(10)),
            2 => Behaviour::Sleep(rng.below(1_000), false),
            3 => Behaviour::Write(false),
            _ => Behaviour::Done,
        }
    }

    /// Returns the names of all objects that may exist.
    pub(super) fn names(&self) -> impl Iterator<Item = String> {
        (0..=self.objects).map(|number| format!("o{number}"))
    }

    /// Returns an upper bound of the time that a ready key waits, in milliseconds: the number of turns of WQ-5 times
    /// the longest run.
    pub(super) fn longest_wait(&self) -> u64 {
        let turns = 2 * u64::from(self.share) * (self.objects + 2);
        let span = self.at_most.map_or(0, |(_, millis)| millis);
        turns * (self.deadline + self.deadline_grace + 5_000) + span
    }
}

fn act(rng: &mut SeededRng, objects: u64) -> Act {
    // The names include one object that does not exist at the start.
    let name = format!("o{}", rng.below(objects + 1));
    let resource = rng.pick(&["configmaps", "configmaps", "secrets"]);
    match rng.below(20) {
        0..8 => Act::Put(resource, name),
        8 | 9 => Act::Delete(resource, name),
        10 => Act::Burst(rng.below(30)),
        11..18 => Act::Sleep(rng.pick(&[0, 1, 10, 300, 4_000])),
        18 => Act::Disrupt(rng.pick(&[
            Disruption::Cut,
            Disruption::Break,
            Disruption::Silence,
            Disruption::Resume,
            Disruption::Compact,
        ])),
        _ => Act::Restart,
    }
}
