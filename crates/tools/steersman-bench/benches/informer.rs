//! Steps of an informer: changes from the watch to the store and to subscribers, and reads.

use std::hint::black_box;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use steersman_bench::micro::{FedInformer, SHARED, TOGETHER, batch};
use steersman_object::{LabelSelector, ListOptions, ObjectKey};

const OBJECTS: u64 = 10_000;
const CHANGES: u64 = 1_000;

fn fed() -> FedInformer {
    FedInformer::with(OBJECTS).unwrap_or_else(|problem| panic!("no informer: {problem}"))
}

/// The time from the arrival of changes until the store shows them, with one and with several
/// subscribers.
fn changes(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("informer");
    group.throughput(Throughput::Elements(CHANGES));
    for many in [1, 10] {
        let mut fed = fed();
        let mut subscribers = fed.subscribers(many);
        let mut next = 0;
        group.bench_function(format!("1,000 changes to {many} subscribers"), |bencher| {
            bencher.iter_custom(|rounds| {
                let mut took = std::time::Duration::ZERO;
                for _ in 0..rounds {
                    let changes = fed
                        .changes(next..next + CHANGES)
                        .unwrap_or_else(|problem| panic!("no changes: {problem}"));
                    next += CHANGES;
                    let began = tokio::time::Instant::now();
                    fed.send(changes);
                    fed.deliver(&mut subscribers, CHANGES);
                    took += began.elapsed();
                }
                took
            });
        });
    }
    group.finish();
}

fn reads(criterion: &mut Criterion) {
    let fed = fed();
    let store = fed.informer.store();
    let keys: Vec<ObjectKey> = store.keys(&ListOptions::new()).unwrap_or_default();
    fed.informer
        .add_index("batch", batch)
        .unwrap_or_else(|problem| panic!("no index: {problem}"));
    fed.informer.index_labels();
    let ten = store.by_index("batch", "7").unwrap_or_default();
    assert_eq!(ten.len() as u64, TOGETHER);
    let labelled = ListOptions::new().labels(LabelSelector::label(SHARED, "7"));
    let labelled = store.list_matching(&labelled);
    assert!(labelled.is_ok_and(|found| found.objects == ten));
    let mut group = criterion.benchmark_group("store");
    group.bench_function("get, one key", |bencher| {
        bencher.iter(|| store.get(black_box(&keys[0])));
    });
    let mut thousand = keys.iter().step_by(10).cycle();
    group.bench_function("get, a thousand keys in turn", |bencher| {
        bencher.iter(|| thousand.next().and_then(|key| store.get(key)));
    });
    let mut batches = (0..OBJECTS / TOGETHER)
        .map(|batch| batch.to_string())
        .cycle();
    group.bench_function("by index, ten", |bencher| {
        bencher.iter_batched(
            || batches.next().unwrap_or_default(),
            |batch| store.by_index("batch", &batch),
            BatchSize::SmallInput,
        );
    });
    group.bench_function("by indexed label, ten", |bencher| {
        bencher.iter_batched(
            || {
                let batch = batches.next().unwrap_or_default();
                ListOptions::new().labels(LabelSelector::label(SHARED, batch))
            },
            |query| store.list_matching(&query),
            BatchSize::SmallInput,
        );
    });
    group.finish();
}

criterion_group!(benches, changes, reads);
criterion_main!(benches);
