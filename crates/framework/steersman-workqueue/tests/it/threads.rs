//! Several threads at once, with tasks that truly race.

use std::sync::mpsc;
use std::time::Duration;

use steersman_workqueue::{Queue, QueueOptions, Ticket};

/// The longest wait, so that a lost key fails the test instead of hanging it.
const AGES: Duration = Duration::from_secs(60);

/// Runs a worker until the queue is shut down.
fn work(queue: &Queue<u32>, mut done: impl FnMut(Ticket<u32>)) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    runtime.block_on(async {
        while let Ok(ticket) = queue.next().await {
            done(ticket);
        }
    });
    Ok(())
}

// WQ-7: an add races with the only worker, which is about to park. In each round the producer adds when it gets the
// last key, while the worker looks for the next one. A worker that did not check once more before it parks would
// sleep although a key is ready.
#[test]
fn an_add_that_races_with_a_worker_about_to_wait_is_taken() {
    let queue = Queue::<u32>::new(QueueOptions::new("race"));
    let (taken, seen) = mpsc::channel();
    let worker = std::thread::spawn({
        let queue = queue.clone();
        move || {
            work(&queue, |ticket| {
                let key = *ticket.key();
                ticket.forget();
                let _ = taken.send(key);
            })
        }
    });
    for round in 0..50_000_u32 {
        // A little later in each round, so that the race runs at every distance.
        for _ in 0..round % 512 {
            std::hint::spin_loop();
        }
        queue.add(round);
        assert_eq!(seen.recv_timeout(AGES), Ok(round));
    }
    queue.shut_down();
    worker.join().unwrap().unwrap();
}

// WQ-1, WQ-3
#[test]
fn every_key_that_several_threads_add_is_taken_by_one_worker_at_a_time() {
    const PRODUCERS: u32 = 3;
    const KEYS: u32 = 2_000;
    let queue = Queue::<u32>::new(QueueOptions::new("crowd"));
    let (taken, seen) = mpsc::channel();
    let workers: Vec<_> = (0..3)
        .map(|_| {
            let (queue, taken) = (queue.clone(), taken.clone());
            std::thread::spawn(move || {
                work(&queue, |ticket| {
                    let _ = taken.send(*ticket.key());
                    ticket.forget();
                })
            })
        })
        .collect();
    let producers: Vec<_> = (0..PRODUCERS)
        .map(|producer| {
            let queue = queue.clone();
            std::thread::spawn(move || {
                for key in 0..KEYS {
                    queue.add(producer * KEYS + key);
                }
            })
        })
        .collect();
    let mut missing = vec![true; (PRODUCERS * KEYS) as usize];
    for _ in 0..PRODUCERS * KEYS {
        let key = seen.recv_timeout(AGES).unwrap();
        assert!(
            std::mem::take(&mut missing[key as usize]),
            "{key} was added once and taken twice"
        );
    }
    for producer in producers {
        producer.join().unwrap();
    }
    assert_eq!(queue.shut_down(), 0);
    for worker in workers {
        worker.join().unwrap().unwrap();
    }
}
