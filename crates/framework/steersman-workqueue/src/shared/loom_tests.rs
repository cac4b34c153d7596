//! WQ-7 in every interleaving of a few threads, up to a bound of preemptions. Loom reports a lost wake-up as a
//! deadlock. `.ci/run loom` runs these tests.

use loom::future::block_on;
use loom::thread;

use super::*;

fn queue() -> Arc<SharedQueue<u32>> {
    SharedQueue::new(QueueOptions::new("loom"))
}

/// Takes the next key, ends its hold, and returns it; `None` if the queue is shut down.
fn take(queue: &SharedQueue<u32>) -> Option<u32> {
    let taken = block_on(queue.next()).ok()?;
    queue.release(taken.slot, Verdict::Forget, None);
    Some(*taken.key)
}

fn spawn<T: 'static>(
    queue: &Arc<SharedQueue<u32>>,
    run: impl FnOnce(&SharedQueue<u32>) -> T + 'static,
) -> thread::JoinHandle<T> {
    let queue = Arc::clone(queue);
    thread::spawn(move || run(&queue))
}

fn add(queue: &SharedQueue<u32>, key: u32) {
    queue.add(key, AddOptions::new());
}

/// WQ-7
#[test]
fn loom_an_add_wakes_a_worker_that_is_about_to_park() {
    loom::model(|| {
        let queue = queue();
        let worker = spawn(&queue, take);
        add(&queue, 1);
        assert_eq!(worker.join().unwrap(), Some(1));
        assert!(queue.read(Machine::idle));
    });
}

/// WQ-7, WQ-10
#[test]
fn loom_a_worker_that_needs_a_permit_misses_no_add() {
    loom::model(|| {
        let queue = queue();
        let worker = spawn(&queue, |queue| {
            let taken = block_on(queue.next_with(|| std::future::ready(7)));
            let (taken, permit) = taken.ok()?;
            queue.release(taken.slot, Verdict::Forget, None);
            Some((*taken.key, permit))
        });
        add(&queue, 1);
        assert_eq!(worker.join().unwrap(), Some((1, 7)));
        assert!(queue.read(Machine::idle));
    });
}

/// WQ-7
#[test]
fn loom_adds_of_two_threads_reach_one_worker() {
    loom::model(|| {
        let queue = queue();
        let adder = spawn(&queue, |queue| add(queue, 1));
        add(&queue, 2);
        let mut keys = [take(&queue), take(&queue)];
        keys.sort_unstable();
        assert_eq!(keys, [Some(1), Some(2)]);
        adder.join().unwrap();
    });
}

/// WQ-1, WQ-7
#[test]
fn loom_two_workers_take_one_key_each() {
    loom::model(|| {
        let queue = queue();
        let worker = spawn(&queue, take);
        add(&queue, 1);
        add(&queue, 2);
        let mut keys = [take(&queue), worker.join().unwrap()];
        keys.sort_unstable();
        assert_eq!(keys, [Some(1), Some(2)]);
    });
}

/// WQ-7: with a backlog, which in these tests is one key, adds go into the buffer.
#[test]
fn loom_buffered_adds_reach_a_worker() {
    loom::model(|| {
        let queue = queue();
        add(&queue, 1);
        let adder = spawn(&queue, |queue| {
            add(queue, 2);
            add(queue, 3);
        });
        let mut keys = [take(&queue), take(&queue), take(&queue)];
        keys.sort_unstable();
        assert_eq!(keys, [Some(1), Some(2), Some(3)]);
        adder.join().unwrap();
    });
}

/// WQ-7
#[test]
fn loom_a_look_sees_every_earlier_add() {
    loom::model(|| {
        let queue = queue();
        add(&queue, 1);
        let adder = spawn(&queue, |queue| {
            add(queue, 2);
            assert!(queue.read(Machine::len) >= 2);
        });
        add(&queue, 3);
        assert!(queue.read(Machine::len) >= 2);
        adder.join().unwrap();
        assert_eq!(queue.read(Machine::len), 3);
    });
}

/// WQ-6
#[test]
fn loom_a_shut_down_wakes_every_parked_worker() {
    loom::model(|| {
        let queue = queue();
        let workers = [spawn(&queue, take), spawn(&queue, take)];
        queue.shut_down();
        for worker in workers {
            assert_eq!(worker.join().unwrap(), None);
        }
    });
}

/// WQ-8
#[test]
fn loom_a_drain_ends_when_the_last_ticket_ends() {
    loom::model(|| {
        let queue = queue();
        add(&queue, 1);
        let worker = spawn(&queue, take);
        block_on(queue.drain());
        // The drain waits for the run of the ready key.
        assert_eq!(worker.join().unwrap(), Some(1));
        assert!(queue.read(Machine::is_closed));
    });
}
