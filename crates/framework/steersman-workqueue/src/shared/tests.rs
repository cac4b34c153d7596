//! The number of times that a queue reads the clock.

use std::time::Duration;

use super::*;

/// Adds, takes and releases ten keys. Returns the number of times that the queue read the clock.
fn clock_reads(options: QueueOptions<u32>) -> usize {
    let shared = SharedQueue::new(options);
    let before = CLOCK_READS.get();
    for key in 0..10 {
        shared.add(key, AddOptions::new());
        let taken = shared.try_next().unwrap().unwrap();
        shared.release(taken.slot, Verdict::Forget, None);
    }
    CLOCK_READS.get() - before
}

#[test]
fn the_clock_is_read_only_for_steps_that_use_the_time() {
    let options = || QueueOptions::new("q");
    assert_eq!(clock_reads(options()), 0);
    assert_eq!(
        clock_reads(options().record_times()),
        10,
        "one time per hold"
    );
    let at_most = options().at_most(2, Duration::from_secs(3));
    assert_eq!(clock_reads(at_most), 30);
}

#[test]
fn a_queue_that_records_times_knows_since_when_keys_are_held() {
    let shared = SharedQueue::new(QueueOptions::new("q").record_times());
    let start = clock();
    shared.add(1, AddOptions::new());
    let taken = shared.try_next().unwrap().unwrap();
    let held = shared.read(Machine::held_since);
    assert_eq!(held.len(), 1);
    assert!(held[0].1 >= start, "the instant of the take");
    shared.release(taken.slot, Verdict::Forget, None);
    assert!(shared.read(Machine::held_since).is_empty());
}
