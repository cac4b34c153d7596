//! Driver: measures the cost of a key in a work queue.

use steersman_workqueue::{Queue, QueueOptions};
use tokio::time::Instant;

use super::words::Queued;
use crate::process::BenchResult;

type BenchKey = (String, String);

fn key(number: u64) -> BenchKey {
    (format!("ns-{number}"), format!("name-{number}"))
}

/// Measures the cost of a key in the three usual patterns of use.
pub(super) async fn work_off(keys: u64) -> BenchResult<Queued> {
    let made: Vec<BenchKey> = (0..keys).map(key).collect();
    let each = |began: Instant| began.elapsed().as_nanos() as f64 / keys as f64;

    let queue = Queue::new(QueueOptions::new("batch"));
    let again = made.clone();
    let began = Instant::now();
    for key in again {
        queue.add(key);
    }
    for _ in 0..keys {
        queue.next().await?.forget();
    }
    let batch_ns = each(began);

    let queue = Queue::new(QueueOptions::new("single"));
    let again = made.clone();
    let began = Instant::now();
    for key in again {
        queue.add(key);
        queue.next().await?.forget();
    }
    let single_ns = each(began);

    let queue = Queue::new(QueueOptions::new("concurrent"));
    let adder = queue.clone();
    let began = Instant::now();
    let adding = tokio::spawn(async move {
        for (number, key) in made.into_iter().enumerate() {
            adder.add(key);
            // Yields now and then, so that other tasks run as in any program.
            if number % 64 == 63 {
                tokio::task::yield_now().await;
            }
        }
    });
    for _ in 0..keys {
        queue.next().await?.forget();
    }
    let concurrent_ns = each(began);
    adding.await?;
    Ok(Queued {
        batch_ns,
        single_ns,
        concurrent_ns,
    })
}
