//! Tables of the machine, with a clock that the tests move.

use super::*;
use crate::exchange::Verdict;
use crate::index::Hashes;
use crate::options::AddOptions;

mod early_runs;
mod reports;

struct World {
    machine: Machine<&'static str>,
    hashes: Hashes,
    now: Instant,
}

impl World {
    fn new() -> Self {
        Self {
            machine: Machine::new(QueueOptions::new("test")),
            hashes: Hashes::default(),
            now: tokio::time::Instant::now().into_std(),
        }
    }

    fn add(&mut self, key: &'static str, options: AddOptions) -> bool {
        self.machine.handle_add(Arrival {
            key,
            hash: self.hashes.of(&key),
            options,
            now: self.now,
        })
    }

    fn take(&mut self) -> Option<Taken<&'static str>> {
        self.machine.next_key(self.now)
    }

    fn take_key(&mut self) -> Option<&'static str> {
        let taken = self.take()?;
        let key = *taken.key;
        self.machine
            .handle_end(taken.slot, Verdict::Forget, None, self.now);
        Some(key)
    }

    fn end(&mut self, taken: &Taken<&'static str>, verdict: Verdict) -> bool {
        self.machine
            .handle_end(taken.slot, verdict, None, self.now)
            .wake
    }

    /// Fails the key `failures` times, and takes the retry that follows.
    fn retry(&mut self, key: &'static str, failures: usize) -> Taken<&'static str> {
        self.add(key, now());
        let mut taken = self.take().unwrap();
        for _ in 0..failures {
            self.end(&taken, Verdict::Backoff);
            self.now = self.machine.deadline().unwrap();
            taken = self.take().unwrap();
        }
        taken
    }

    fn pass(&mut self, millis: u64) {
        self.now += Duration::from_millis(millis);
    }
}

fn now() -> AddOptions {
    AddOptions::new()
}

fn after(millis: u64) -> AddOptions {
    AddOptions::new().after(Duration::from_millis(millis))
}

// WQ-1, WQ-2
#[test]
fn adds_while_held_cause_exactly_one_later_run() {
    let mut world = World::new();
    assert!(world.add("a", now()));
    assert!(!world.add("a", now()));
    assert!(world.machine.held().is_empty());
    let held = world.take().unwrap();
    assert_eq!(world.machine.held(), ["a"]);
    for _ in 0..5 {
        assert!(!world.add("a", now()), "a held key notifies no worker");
    }
    assert!(world.take().is_none(), "never held twice");
    assert!(world.end(&held, Verdict::Forget));
    assert_eq!(world.take_key(), Some("a"));
    assert_eq!(world.take_key(), None);
    assert!(world.machine.idle());
    assert!(world.machine.table.len() == 0);
}

// WQ-4
#[test]
fn an_immediate_add_absorbs_a_delay_and_a_later_delay_never_postpones() {
    let mut world = World::new();
    world.add("a", after(600_000));
    world.add("a", now());
    assert_eq!(world.take_key(), Some("a"));
    world.pass(700_000);
    assert_eq!(world.take_key(), None, "absorbed: one run, not two");

    world.add("b", after(100));
    assert!(!world.add("b", after(500)));
    assert!(
        world.add("b", after(50)),
        "an earlier deadline wakes a worker"
    );
    world.pass(49);
    assert_eq!(world.take_key(), None);
    world.pass(1);
    assert_eq!(world.take_key(), Some("b"));
    world.pass(1000);
    assert_eq!(world.take_key(), None);
}

#[test]
fn only_the_latest_result_sets_the_next_run() {
    let mut world = World::new();
    world.add("a", now());
    let first = world.take().unwrap();
    world.end(&first, Verdict::After(Duration::from_secs(600)));
    world.pass(1000);
    world.add("a", now());
    let second = world.take().unwrap();
    world.end(&second, Verdict::Forget);
    assert!(
        world.machine.idle(),
        "done means none, also where an earlier run asked for one"
    );
}

#[test]
fn backoff_doubles_resets_on_forget_and_stays_on_settle() {
    let mut world = World::new();
    world.add("a", now());
    for (round, delay) in [5, 10, 20].into_iter().enumerate() {
        let taken = world.take().unwrap();
        assert_eq!(taken.attempts as usize, round);
        world.end(&taken, Verdict::Backoff);
        world.pass(delay - 1);
        assert!(world.take().is_none());
        world.pass(1);
    }
    let taken = world.take().unwrap();
    world.end(&taken, Verdict::Settle);
    world.add("a", now());
    let taken = world.take().unwrap();
    assert_eq!(taken.attempts, 3);
    world.end(&taken, Verdict::After(Duration::ZERO));
    let taken = world.take().unwrap();
    assert_eq!(taken.attempts, 0, "an appointment forgets first");
    world.end(&taken, Verdict::Forget);
    assert!(world.machine.idle());
}

#[test]
fn rate_limited_adds_count_even_if_the_key_is_ready() {
    let mut world = World::new();
    world.add("a", now());
    world.add("a", now().rate_limited());
    world.add("a", now().rate_limited());
    let taken = world.take().unwrap();
    assert_eq!(taken.attempts, 2);
    world.end(&taken, Verdict::Forget);
    world.add("b", after(3).rate_limited());
    world.pass(3);
    assert_eq!(world.take_key(), Some("b"), "the shorter of the two delays");
}

#[test]
fn an_add_that_keeps_the_backoff_causes_one_run_after_it() {
    let mut world = World::new();
    world.add("a", now());
    let taken = world.take().unwrap();
    world.add("a", now().keep_backoff());
    world.end(&taken, Verdict::Backoff);
    assert!(
        world.take().is_none(),
        "marked softly during the failing run"
    );
    world.add("a", now().keep_backoff());
    assert!(world.take().is_none(), "added softly while it waits");
    world.pass(5);
    let taken = world.take().unwrap();
    world.add("a", now().keep_backoff());
    world.end(&taken, Verdict::After(Duration::from_secs(60)));
    let taken = world.take().unwrap();
    world.end(&taken, Verdict::Backoff);
    world.add("a", now().keep_backoff());
    world.add("a", now());
    assert_eq!(
        world.take_key(),
        Some("a"),
        "an ordinary add absorbs the backoff"
    );

    world.add("b", now());
    let taken = world.take().unwrap();
    world.add("b", now());
    world.add("b", now().keep_backoff());
    world.end(&taken, Verdict::Backoff);
    let taken = world.take().unwrap();
    world.add("b", now().keep_backoff());
    world.add("b", now());
    world.end(&taken, Verdict::Backoff);
    assert_eq!(
        world.take_key(),
        Some("b"),
        "one ordinary add among soft ones is enough"
    );
}

// WQ-4
#[test]
fn a_delay_is_not_lost_to_an_add_that_keeps_the_backoff() {
    let orders = [
        [after(10), now().keep_backoff()],
        [now().keep_backoff(), after(10)],
    ];
    for adds in orders {
        for (verdict, run_at) in [(Verdict::Backoff, 10), (Verdict::Forget, 0)] {
            let mut world = World::new();
            // The next failure waits 20 ms, so its deadline is later than the delay.
            let held = world.retry("a", 2);
            for add in adds {
                world.add("a", add);
            }
            world.end(&held, verdict);
            if run_at > 0 {
                world.pass(run_at - 1);
                assert!(world.take().is_none(), "{adds:?}");
                world.add("a", now().keep_backoff());
                assert!(world.take().is_none(), "the key serves a backoff: {adds:?}");
                world.pass(1);
            }
            assert_eq!(world.take_key(), Some("a"), "{adds:?}");
            assert!(world.machine.idle(), "one run, not two: {adds:?}");
        }
    }
}

#[test]
fn priorities_rise_and_survive_delays() {
    let mut world = World::new();
    world.add("low", now().priority(Priority::LOW));
    world.add("raised", now().priority(Priority::LOW));
    world.add("normal", now());
    world.add("raised", now());
    assert_eq!(world.machine.len(), 3);
    assert_eq!(world.take_key(), Some("normal"));
    assert_eq!(
        world.take_key(),
        Some("raised"),
        "to the end of its new line"
    );
    let low = world.take().unwrap();
    assert_eq!(low.priority, Priority::LOW);
    world.end(&low, Verdict::Backoff);
    world.pass(5);
    let low = world.take().unwrap();
    assert_eq!(low.priority, Priority::LOW, "retries keep the priority");
    world.end(&low, Verdict::Forget);

    world.add("x", after(50).priority(Priority::HIGH));
    world.add("x", now().priority(Priority::LOW));
    let taken = world.take().unwrap();
    assert_eq!(
        taken.priority,
        Priority::HIGH,
        "what is absorbed hands its priority on"
    );
    world.end(&taken, Verdict::Forget);
}

#[test]
fn a_deadline_that_passes_while_held_causes_one_later_run() {
    let mut world = World::new();
    world.add("a", now());
    let held = world.take().unwrap();
    world.add("a", after(10));
    world.pass(20);
    assert!(world.take().is_none());
    world.end(&held, Verdict::Forget);
    assert_eq!(world.take_key(), Some("a"));
    assert!(world.machine.idle());
}

#[test]
fn the_longest_delays_do_not_panic() {
    let mut world = World::new();
    world.add("a", now().after(Duration::MAX));
    world.add("b", now());
    let taken = world.take().unwrap();
    world.end(&taken, Verdict::After(Duration::MAX));
    assert!(world.machine.deadline().is_some());
    world.machine.handle_drain(world.now);
    assert_eq!(world.machine.dropped(), 2);
}

// WQ-6
#[test]
fn a_shut_down_drops_waiting_keys_and_lets_held_ones_finish() {
    let mut world = World::new();
    for key in ["ready", "held", "failing"] {
        world.add(key, now());
    }
    let ready = world.take().unwrap();
    let held = world.take().unwrap();
    let failing = world.take().unwrap();
    world.end(&ready, Verdict::Forget);
    world.add("ready", now());
    world.add("delayed", after(5));
    world.add("held", now());
    assert_eq!(world.machine.handle_shut_down(), 3);
    assert_eq!(world.machine.handle_shut_down(), 0);
    assert!(!world.add("late", now()));
    world.pass(10);
    assert!(world.take().is_none());
    world.end(&held, Verdict::Forget);
    world.end(&failing, Verdict::Backoff);
    assert_eq!(world.machine.dropped(), 4);
    assert!(world.machine.idle());
    assert!(world.machine.table.len() == 0);
}

// WQ-13
#[test]
fn wq_13_no_span_holds_more_runs_of_a_key_than_the_limit() {
    let mut world = World::new();
    let options = QueueOptions::new("test").at_most(2, Duration::from_millis(3000));
    world.machine = Machine::new(options);
    let (began, mut runs) = (world.now, Vec::new());
    let mut round = 0;
    while runs.len() < 12 {
        round += 1;
        world.add("a", now());
        if let Some(taken) = world.take() {
            runs.push(u64::try_from((world.now - began).as_millis()).unwrap());
            world.add("a", now());
            let verdicts = [
                Verdict::Forget,
                Verdict::Backoff,
                Verdict::After(Duration::ZERO),
            ];
            world.end(&taken, verdicts[round % 3]);
        }
        world.pass(7);
    }
    assert!(
        runs.windows(3).all(|three| three[2] - three[0] >= 3000),
        "{runs:?}"
    );
    assert!(runs[11] < 15_100, "as early as the limit allows: {runs:?}");
    // Neither other keys nor a drain wait.
    world.add("b", now());
    assert_eq!(world.take_key(), Some("b"));
    let mut world = World::new();
    world.machine = Machine::new(QueueOptions::new("test").at_most(1, Duration::MAX));
    world.add("a", now());
    let held = world.take().unwrap();
    world.add("a", now());
    world.machine.handle_drain(world.now);
    world.end(&held, Verdict::Forget);
    assert_eq!(world.take_key(), Some("a"));
    assert!(world.machine.is_closed());
}

#[test]
fn causes_are_collected_and_the_next_priority_is_that_of_the_ticket() {
    let mut world = World::new();
    world.add("a", now());
    world.add("a", now().cause(Causes::custom(2)));
    let taken = world.take().unwrap();
    assert_eq!(taken.causes, Causes::ADD | Causes::custom(2));
    let verdict = Verdict::After(Duration::from_millis(5));
    let low = Some(Priority::LOW);
    world
        .machine
        .handle_end(taken.slot, verdict, low, world.now);
    world.pass(5);
    let taken = world.take().unwrap();
    assert_eq!(
        (taken.causes, taken.priority),
        (Causes::DELAY, Priority::LOW)
    );
    world.add("a", now().cause(Causes::custom(0)));
    world.end(&taken, Verdict::Backoff);
    assert_eq!(
        world.take().map(|taken| taken.causes),
        Some(Causes::custom(0))
    );

    world.add("b", after(5));
    world.add("b", now().cause(Causes::custom(1)));
    let taken = world.take().unwrap();
    assert_eq!(
        taken.causes,
        Causes::ADD | Causes::custom(1),
        "the delay has not passed"
    );
    world.end(&taken, Verdict::SettleAfter(Duration::from_millis(9)));
    world.pass(9);
    assert_eq!(world.take().map(|taken| taken.causes), Some(Causes::DELAY));
}
