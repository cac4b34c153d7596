//! Informers that are ended for good.

use super::*;

// FAN-4
#[test]
fn fan_4_an_ended_informer_delivers_nothing_more_and_keeps_its_store() {
    for (is_ended, deliveries) in [(true, 0), (false, 3)] {
        let (core, handle) = core(1 << 20);
        core.apply(vec![replaced(1, 0..2)]);
        let store = core.store::<Map>(&handle);
        let mut before = core.subscribe::<Map>(&handle);
        assert_eq!(before.waiting(), 3, "two objects and the marker");
        match is_ended {
            true => core.end(),
            false => core.stop(),
        }
        let mut after = core.subscribe::<Map>(&handle);
        if is_ended {
            core.apply(vec![put(2, 2), replaced(3, 0..KEYS)]);
            // Stops the run, which goes on until its task is cancelled.
            core.stop();
        }
        for subscription in [&mut before, &mut after] {
            for _ in 0..deliveries {
                assert!(subscription.next().now_or_never().unwrap().is_some());
            }
            assert!(subscription.next().now_or_never().unwrap().is_none());
        }
        assert_eq!(store.list().len(), 2);
        assert_eq!(core.subscribers(), 0);
    }
}

// FAN-4: a thread that ends the informer waits for the batch that is being applied.
#[test]
fn fan_4_nothing_is_delivered_after_the_return_of_an_end_during_writes() {
    for _ in 0..20 {
        let (core, handle) = core(1 << 20);
        core.apply(vec![replaced(1, 0..KEYS)]);
        let mut subscription = core.subscribe::<Map>(&handle);
        let write = |version: u64| core.apply(vec![put(version % KEYS, version + 1)]);
        let mut is_ended = false;
        while_writing(200, write, || {
            if !is_ended {
                core.end();
                is_ended = true;
            }
            assert_eq!(subscription.waiting(), 0);
            assert!(subscription.next().now_or_never().unwrap().is_none());
        });
    }
}
