//! Runs that adds cause before the retry of a key is due.

use super::*;

// WQ-11
#[test]
fn wq_11_an_early_run_that_fails_keeps_the_deadline_and_costs_no_attempt() {
    let mut world = World::new();
    // The fourth failure waits 40 ms.
    let held = world.retry("a", 3);
    world.end(&held, Verdict::Backoff);
    for (pause, passed) in [(10, 10), (10, 20), (15, 35)] {
        world.pass(pause);
        assert!(world.add("a", now()), "an add before the retry runs now");
        let early = world.take().unwrap();
        assert_eq!((early.attempts, early.causes), (4, Causes::ADD));
        let released = world
            .machine
            .handle_end(early.slot, Verdict::Backoff, None, world.now);
        assert_eq!(released.delay, Some(Duration::from_millis(40 - passed)));
        assert!(world.take().is_none());
    }
    world.pass(5);
    let retry = world.take().unwrap();
    assert_eq!((retry.attempts, retry.causes), (4, Causes::BACKOFF));
    world.end(&retry, Verdict::Backoff);
    world.pass(79);
    assert!(world.take().is_none(), "the fifth failure waits 80 ms");
    world.add("a", now());
    let early = world.take().unwrap();
    world.end(&early, Verdict::Forget);
    assert!(world.machine.idle(), "a success needs no retry");
    assert_eq!(world.machine.table.len(), 0);
}

// WQ-11
#[test]
fn an_early_run_that_fails_after_the_deadline_counts() {
    for (verdict, idle) in [(Verdict::Backoff, false), (Verdict::Settle, true)] {
        let mut world = World::new();
        let held = world.retry("a", 0);
        world.end(&held, Verdict::Backoff);
        world.add("a", now());
        let early = world.take().unwrap();
        world.pass(5);
        assert!(
            world.take().is_none(),
            "the retry does not run beside the early run"
        );
        world.end(&early, verdict);
        assert_eq!(world.machine.idle(), idle);
        if !idle {
            world.pass(10);
            assert_eq!(world.take().map(|taken| taken.attempts), Some(2));
        }
    }
}

// WQ-11, WQ-2
#[test]
fn an_add_during_a_failing_run_is_an_add_before_the_retry() {
    let mut world = World::new();
    let held = world.retry("a", 3);
    world.add("a", now());
    world.end(&held, Verdict::Backoff);
    let early = world.take().unwrap();
    assert_eq!((early.attempts, early.causes), (4, Causes::ADD));
    world.end(&early, Verdict::Backoff);
    world.pass(39);
    assert!(world.take().is_none());
    world.pass(1);
    assert_eq!(
        world.take().map(|taken| taken.causes),
        Some(Causes::BACKOFF)
    );
}

// WQ-12
#[test]
fn wq_12_adds_that_the_failing_run_causes_itself_run_a_few_times_before_the_retry() {
    let mut world = World::new();
    let mut taken = world.retry("a", 10);
    let (began, mut runs) = (world.now, Vec::new());
    // Each run writes the status of its object, which adds the key, and fails.
    while taken.attempts < 12 {
        runs.push((world.now - began).as_millis());
        world.add("a", now().space_in_backoff());
        world.end(&taken, Verdict::Backoff);
        world.add("a", now().space_in_backoff());
        taken = world.take().unwrap_or_else(|| {
            world.now = world.machine.deadline().unwrap();
            world.take().unwrap()
        });
    }
    let early = [0, 0, 5, 15, 35, 75, 155, 315, 635, 1275, 2555];
    assert_eq!(runs[..11], early);
    assert_eq!(
        runs[11..],
        [5115, 5120],
        "the last early run, and the retry"
    );
}

// WQ-12
#[test]
fn an_ordinary_add_overtakes_a_spaced_one() {
    let mut world = World::new();
    let held = world.retry("a", 10);
    world.end(&held, Verdict::Backoff);
    for pause in [0, 5, 10] {
        world.add("a", now().space_in_backoff().cause(Causes::custom(1)));
        assert_eq!(world.machine.has_ready(world.now), pause == 0);
        world.pass(pause);
        let early = world.take().unwrap();
        assert_eq!(early.causes, Causes::custom(1));
        world.end(&early, Verdict::Backoff);
    }
    world.add("a", now().space_in_backoff().cause(Causes::custom(1)));
    assert!(world.take().is_none());
    assert!(world.add("a", now()));
    let early = world.take().unwrap();
    assert_eq!(early.causes, Causes::ADD | Causes::custom(1));
    world.add("a", now().space_in_backoff());
    world.end(&early, Verdict::Forget);
    assert_eq!(world.take_key(), Some("a"), "success ends the pauses");
}

// WQ-6, WQ-8
#[test]
fn a_retry_that_is_only_kept_is_no_run_of_its_own() {
    let mut world = World::new();
    for key in ["ready", "held"] {
        let failed = world.retry(key, 0);
        world.end(&failed, Verdict::Backoff);
    }
    world.add("held", now());
    let held = world.take().unwrap();
    world.add("ready", now());
    assert_eq!(world.machine.handle_shut_down(), 1);
    world.end(&held, Verdict::Backoff);
    assert_eq!(world.machine.dropped(), 2);

    let mut world = World::new();
    let failed = world.retry("a", 0);
    world.end(&failed, Verdict::Backoff);
    world.add("a", now());
    let held = world.take().unwrap();
    world.machine.handle_drain(world.now);
    world.end(&held, Verdict::Backoff);
    assert!(world.machine.is_closed() && world.machine.table.len() == 0);
    assert_eq!(world.machine.dropped(), 1);
}
