//! Shutting down, draining, and notifying waiting workers.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use steersman_workqueue::limiter::MaxOf;
use steersman_workqueue::{AddOptions, Queue, QueueOptions, ShutDown, Ticket};

fn queue() -> Queue<u32> {
    Queue::new(QueueOptions::new("shutdown"))
}

// WQ-6
#[tokio::test(start_paused = true)]
async fn shut_down_wakes_every_worker_and_counts_the_dropped_keys() {
    let queue = queue();
    let workers: Vec<_> = (0..4)
        .map(|_| {
            let queue = queue.clone();
            tokio::spawn(async move { queue.next().await.map(drop) })
        })
        .collect();
    tokio::task::yield_now().await;
    queue.add_with(1, AddOptions::new().after(Duration::from_secs(60)));
    queue.add_with(2, AddOptions::new().after(Duration::from_secs(60)));
    assert_eq!(queue.shut_down(), 2);
    for worker in workers {
        assert!(worker.await.unwrap().is_err());
    }
    queue.add(3);
    assert!(queue.idle());
    assert!(matches!(
        queue.next().now_or_never(),
        Some(Err(ShutDown { .. }))
    ));
}

#[tokio::test(start_paused = true)]
async fn a_drain_runs_ready_keys_and_drops_delayed_ones() {
    let queue = queue();
    for key in 0..10 {
        queue.add(key);
    }
    queue.add_with(99, AddOptions::new().after(Duration::from_secs(60)));
    let first = queue.next().await.unwrap();
    queue.add(*first.key());
    let draining = tokio::spawn({
        let queue = queue.clone();
        async move { queue.drain().await }
    });
    tokio::task::yield_now().await;
    queue.add(50);
    first.forget();
    let mut seen = Vec::new();
    while let Ok(ticket) = queue.next().await {
        seen.push(*ticket.key());
        if *ticket.key() == 5 {
            let _delay = ticket.backoff();
        } else {
            ticket.forget();
        }
    }
    draining.await.unwrap();
    seen.sort_unstable();
    assert_eq!(
        seen,
        (0..10).collect::<Vec<_>>(),
        "the key marked while held runs once more"
    );
    assert_eq!(queue.dropped(), 2, "the delayed key, and the retry");
    queue.drain().await;
}

// A drain ends whatever the tickets request: each ready key has one more run.
// WQ-8
#[tokio::test(start_paused = true)]
async fn wq_8_a_drain_ends_though_every_ticket_asks_for_another_run_at_once() {
    let at_once = || MaxOf::new();
    let ends: [fn(Ticket<u32>); 4] = [
        |ticket| ticket.after(Duration::ZERO),
        |ticket| {
            assert_eq!(ticket.backoff(), Duration::ZERO);
        },
        drop,
        |ticket| ticket.after(Duration::from_millis(1)),
    ];
    for (number, end) in ends.into_iter().enumerate() {
        let queue = Queue::new(QueueOptions::new("drain").rate_limiter(at_once()));
        for key in 0..10 {
            queue.add(key);
        }
        let draining = tokio::spawn({
            let queue = queue.clone();
            async move { queue.drain().await }
        });
        tokio::task::yield_now().await;
        let mut runs = 0;
        while let Ok(ticket) = queue.next().await {
            runs += 1;
            assert!(runs <= 10, "end {number}: {} runs again", ticket.key());
            end(ticket);
        }
        draining.await.unwrap();
        assert_eq!((runs, queue.dropped()), (10, 10), "end {number}");
    }
}

// Many workers wait, several keys are added or become due together, and each key reaches a worker, although every
// worker keeps its key.
#[tokio::test(start_paused = true)]
async fn every_parked_worker_is_notified_of_its_key() {
    let queue = queue();
    let (taken, mut seen) = tokio::sync::mpsc::unbounded_channel();
    for _ in 0..6 {
        let (queue, taken) = (queue.clone(), taken.clone());
        tokio::spawn(async move {
            while let Ok(ticket) = queue.next().await {
                taken.send(*ticket.key()).unwrap();
                // The worker keeps its key for longer than the test runs.
                tokio::time::sleep(Duration::from_secs(10_000)).await;
                ticket.forget();
            }
        });
    }
    tokio::task::yield_now().await;
    queue.add_with(1, AddOptions::new().after(Duration::from_secs(5)));
    queue.add_with(2, AddOptions::new().after(Duration::from_secs(7)));
    queue.add_with(3, AddOptions::new().after(Duration::from_secs(7)));
    queue.add_with(4, AddOptions::new().after(Duration::from_secs(1)));
    queue.add(5);
    queue.add(6);
    let start = tokio::time::Instant::now();
    let mut arrivals = Vec::new();
    for _ in 0..6 {
        let key = seen.recv().await.unwrap();
        arrivals.push((key, start.elapsed().as_secs()));
    }
    arrivals.sort_unstable();
    assert_eq!(arrivals, [(1, 5), (2, 7), (3, 7), (4, 1), (5, 0), (6, 0)]);
}

// `next` is cancel safe.
#[tokio::test(start_paused = true)]
async fn a_worker_that_stops_waiting_takes_no_key() {
    let queue = queue();
    let impatient = queue.clone();
    let gave_up = tokio::time::timeout(Duration::from_secs(1), impatient.next()).await;
    assert!(gave_up.is_err());
    let patient = tokio::spawn({
        let queue = queue.clone();
        async move { queue.next().await.map(|ticket| *ticket.key()) }
    });
    let mut waiting = Box::pin(queue.next());
    assert!(waiting.as_mut().now_or_never().is_none());
    tokio::task::yield_now().await;
    queue.add(7);
    drop(waiting);
    assert_eq!(patient.await.unwrap(), Ok(7));
}

// WQ-6
#[test]
fn adds_after_a_shut_down_are_not_kept() {
    let queue = Queue::<Arc<u32>>::new(QueueOptions::new("crowd"));
    for key in 0..1_000 {
        queue.add(Arc::new(key));
    }
    assert_eq!(queue.shut_down(), 1_000);
    let late = Arc::new(1_000);
    queue.add(Arc::clone(&late));
    assert_eq!(Arc::strong_count(&late), 1);
}
