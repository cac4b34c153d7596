//! Steps of the work queue.

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use futures::FutureExt as _;
use steersman_controller::Request;
use steersman_controller::handler::Requests;
use steersman_object::ObjectKey;
use steersman_workqueue::{Queue, QueueOptions};

const KEYS: u64 = 10_000;

type Key = (String, String);

fn keys() -> Vec<Key> {
    (0..KEYS)
        .map(|number| (format!("ns-{number}"), format!("name-{number}")))
        .collect()
}

/// Takes the next key, which is available, and finishes it.
fn work(queue: &Queue<Key>) {
    if let Some(Ok(ticket)) = queue.next().now_or_never() {
        ticket.forget();
    }
}

fn queue(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("queue");
    group.throughput(Throughput::Elements(KEYS));
    let each_taken = |keys: Vec<Key>| {
        let queue = Queue::new(QueueOptions::new("each-taken"));
        for key in keys {
            queue.add(key);
            work(&queue);
        }
        queue
    };
    group.bench_function("each taken as it is added", |bencher| {
        bencher.iter_batched(keys, each_taken, BatchSize::LargeInput);
    });
    let all_added = |keys: Vec<Key>| {
        let queue = Queue::new(QueueOptions::new("all-added"));
        for key in keys {
            queue.add(key);
        }
        for _ in 0..KEYS {
            work(&queue);
        }
        queue
    };
    group.bench_function("all added first", |bencher| {
        bencher.iter_batched(keys, all_added, BatchSize::LargeInput);
    });
    let added_twice = |keys: Vec<Key>| {
        let queue = Queue::new(QueueOptions::new("added-twice"));
        for key in keys {
            queue.add(key.clone());
            queue.add(key);
        }
        queue
    };
    group.bench_function("added twice", |bencher| {
        bencher.iter_batched(keys, added_twice, BatchSize::LargeInput);
    });
    group.finish();
}

/// The requests that one event causes, each twice, as for an update with the same references in
/// both states.
fn requests(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("requests of one event");
    for count in [10, 10_000, 100_000] {
        let named: Vec<Request> = (0..count)
            .map(|number| ObjectKey::namespaced("shop", format!("name-{number}")).into())
            .collect();
        group.throughput(Throughput::Elements(count));
        let id = BenchmarkId::from_parameter(count);
        group.bench_with_input(id, &named, |bencher, named| {
            bencher.iter(|| {
                let mut requests = Requests::new();
                for request in named.iter().chain(named) {
                    requests.add(request.clone());
                }
                requests
            });
        });
    }
    group.finish();
}

criterion_group!(benches, queue, requests);
criterion_main!(benches);
