//! QUEUE-2: the deltas that wait for the store are bounded in number and in bytes, and none is lost. Also durations at
//! their bounds: zero disables, the maximum never fires.

use std::time::Duration;

use steersman_informer::InformerOptions;

use super::fake::*;

const EVENTS: u64 = 20;

/// Returns the number of batches in which events that wait together are stored.
async fn batches(options: InformerOptions) -> u64 {
    let fake = Fake::new();
    fake.page("10", []);
    let wire = fake.watch();
    let running = run(&fake, options);
    let mut seen = running.informer.subscribe();
    assert_eq!(next(&mut seen).await, "synced");
    fake.request(2).await;
    let applied = running.informer.untyped().applied();
    let before = *applied.borrow();
    for n in 0..EVENTS {
        let name = format!("m{n}");
        wire.unbounded_send(added(&name, 11 + n)).unwrap();
    }
    let expected: Vec<String> = (0..EVENTS).map(|n| format!("+m{n}@{}", 11 + n)).collect();
    assert_eq!(take(&mut seen, expected.len()).await, expected);
    let after = *applied.borrow();
    after - before
}

/// QUEUE-2
#[tokio::test(start_paused = true)]
async fn a_full_queue_blocks_the_reflector_and_loses_no_event() {
    assert_eq!(batches(listing()).await, 1, "there is room for all");
    assert_eq!(batches(listing().queue_bound(5)).await, EVENTS / 5);
    assert_eq!(batches(listing().queue_bound(0)).await, EVENTS);
    // A delta larger than the bound waits alone.
    assert_eq!(batches(listing().queue_bytes(1)).await, EVENTS);
    let some = batches(listing().queue_bytes(1000)).await;
    assert!(1 < some && some < EVENTS, "{some}");
}

/// For every duration option of an informer, zero disables and the maximum never fires, whatever
/// the seed.
#[tokio::test(start_paused = true)]
async fn durations_of_zero_disable_and_of_the_maximum_never_fire() {
    for seed in 0..64 {
        for every in [Duration::ZERO, Duration::MAX, Duration::MAX / 2] {
            let fake = Fake::new();
            fake.page("10", [good("a", 1)]);
            let _wire = fake.watch();
            let running = run(&fake, listing().seed(seed).resync(every));
            let mut seen = running.informer.subscribe();
            assert_eq!(take(&mut seen, 2).await, ["*a@1", "synced"]);
            tokio::time::sleep(Duration::from_secs(200)).await;
            assert_eq!(seen.waiting(), 0, "{seed}: {every:?}");
            assert!(!running.task.is_finished());
        }
    }
}
