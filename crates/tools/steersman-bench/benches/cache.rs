//! Reads through a cache and through a client, in comparison with reads of a store.

use std::hint::black_box;

use criterion::{Bencher, Criterion, criterion_group, criterion_main};
use k8s_openapi::api::core::v1::Pod;
use steersman_bench::micro::{ServedPods, TOGETHER, batch};
use steersman_client::RequestId;
use steersman_object::{ListOptions, ObjectKey};
use tokio::time::Instant;

const OBJECTS: u64 = 10_000;

fn served() -> ServedPods {
    ServedPods::with(OBJECTS).unwrap_or_else(|problem| panic!("no cache: {problem}"))
}

/// Times asynchronous reads in one task.
fn awaited<R>(bencher: &mut Bencher<'_>, served: &ServedPods, mut read: impl AsyncFnMut() -> R) {
    bencher.iter_custom(|rounds| {
        served.runtime.block_on(async {
            let began = Instant::now();
            for _ in 0..rounds {
                black_box(read().await);
            }
            began.elapsed()
        })
    });
}

/// The reads by name that caches and clients share.
macro_rules! reads_of {
    ($name:literal, $reader:ident, $criterion:ident, $served:ident, $keys:ident, $batches:ident) => {
        let mut group = $criterion.benchmark_group($name);
        group.bench_function("get, one key", |bencher| {
            awaited(bencher, &$served, async || {
                $reader.get::<Pod>(&$keys[0]).await
            });
        });
        group.bench_function("get, a thousand keys in turn", |bencher| {
            let mut at = (0..$keys.len()).step_by(10).cycle();
            let mut next = || &$keys[at.next().unwrap_or_default()];
            awaited(bencher, &$served, async || $reader.get::<Pod>(next()).await);
        });
        group.bench_function("list by index, ten", |bencher| {
            let mut at = (0..$batches.len()).cycle();
            let mut next = || &$batches[at.next().unwrap_or_default()];
            awaited(bencher, &$served, async || {
                $reader.list::<Pod>(next()).await
            });
        });
        group.finish();
    };
}

fn reads(criterion: &mut Criterion) {
    let served = served();
    let (cache, client) = (&served.cache, &served.client);
    let keys = served.informer.store().keys(&ListOptions::new());
    let keys: Vec<ObjectKey> = keys.unwrap_or_default();
    served
        .informer
        .add_index("batch", batch)
        .unwrap_or_else(|problem| panic!("no index: {problem}"));
    let batches: Vec<ListOptions> = (0..OBJECTS / TOGETHER)
        .map(|batch| ListOptions::new().index("batch", batch.to_string()))
        .collect();

    reads_of!("cache", cache, criterion, served, keys, batches);
    reads_of!("client", client, criterion, served, keys, batches);
    // RYOW-11: the second takes at most 1.2 times as long as the first.
    let reader = &client.for_request(RequestId::new("readers", 0));
    reads_of!("client of a key", reader, criterion, served, keys, batches);
    served
        .write_unseen(&keys[..1000])
        .unwrap_or_else(|problem| panic!("no notes: {problem}"));
    reads_of!(
        "client of a key, 1000 notes of other keys",
        reader,
        criterion,
        served,
        keys,
        batches
    );
}

criterion_group!(benches, reads);
criterion_main!(benches);
