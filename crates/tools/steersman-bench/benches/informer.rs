//! Steps of an informer: changes from the watch to the store and to subscribers, and reads.

use std::hint::black_box;
use std::ops::Range;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use futures::channel::mpsc;
use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use parking_lot::Mutex;
use steersman_api::{
    Decoded, Error, ListPage, ListStream, ListWatch, PageRequest, RawObject, WatchEvent,
    WatchOptions, WatchStream,
};
use steersman_bench::micro::{BenchResult, SHARED, TOGETHER, batch, pod};
use steersman_informer::{Budget, Delivery, Informer, InformerOptions, Subscription};
use steersman_object::{Kind, LabelSelector, ListOptions, ObjectKey, ResourceVersion};
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

const OBJECTS: u64 = 10_000;
const CHANGES: u64 = 1_000;

type BenchItem = Result<WatchEvent, Error>;

/// An informer of Pods, and the server's end of its watch.
struct FedInformer {
    /// The runtime of its tasks.
    runtime: Runtime,
    /// The synced informer.
    informer: Informer<Pod>,
    objects: u64,
    version: u64,
    wire: mpsc::UnboundedSender<BenchItem>,
}

/// A list followed by a watch.
struct Script {
    page: Mutex<Vec<Decoded<RawObject>>>,
    watch: Mutex<Option<mpsc::UnboundedReceiver<BenchItem>>>,
}

/// Returns the Pod of a number as a server sends it at a version.
fn raw(number: u64, version: u64) -> BenchResult<Decoded<RawObject>> {
    let mut object = pod(number);
    object["metadata"]["uid"] = format!("00000000-0000-4000-8000-{number:012x}").into();
    object["metadata"]["resourceVersion"] = version.to_string().into();
    let json = serde_json::to_vec(&object)?;
    Ok(Decoded::Good(RawObject::from_json(json)?))
}

impl ListWatch for Script {
    async fn list(&self, _: &PageRequest) -> Result<ListStream, Error> {
        let items = std::mem::take(&mut *self.page.lock());
        let page = ListPage::new(items, ResourceVersion::new("1"));
        Ok(stream::iter(page.into_parts().map(Ok)).boxed())
    }

    async fn watch(&self, _: &WatchOptions) -> Result<WatchStream, Error> {
        let watch = self.watch.lock().take();
        match watch {
            Some(watch) => Ok(watch.boxed()),
            None => std::future::pending().await,
        }
    }
}

impl FedInformer {
    /// Creates an informer of this number of Pods.
    fn with(objects: u64) -> BenchResult<Self> {
        let page: BenchResult<Vec<_>> = (0..objects).map(|number| raw(number, 1)).collect();
        let (wire, watch) = mpsc::unbounded();
        let script = Script {
            page: Mutex::new(page?),
            watch: Mutex::new(Some(watch)),
        };
        let options = InformerOptions::new()
            .watch_list(false)
            .budget(Budget::unlimited());
        let informer = Informer::new(Kind::of::<Pod>(), options);
        let runtime = Runtime::new()?;
        runtime.spawn(informer.run(script, CancellationToken::new()));
        runtime.block_on(informer.wait_for_sync())?;
        Ok(Self {
            runtime,
            informer,
            objects,
            version: 1,
            wire,
        })
    }

    /// Creates changes of the Pods of these numbers, each at its own version, ahead of the timed part.
    fn changes(&mut self, numbers: Range<u64>) -> BenchResult<Vec<WatchEvent>> {
        let mut changes = Vec::new();
        for number in numbers {
            self.version += 1;
            let object = raw(number % self.objects, self.version)?;
            changes.push(WatchEvent::Modified(object));
        }
        Ok(changes)
    }

    /// Sends the changes.
    fn send(&self, changes: Vec<WatchEvent>) {
        for change in changes {
            // The informer holds the receiver as long as it runs.
            let _gone = self.wire.unbounded_send(Ok(change));
        }
    }

    /// Creates subscribers that have received the initial objects.
    fn subscribers(&self, many: usize) -> Vec<Subscription<Pod>> {
        (0..many)
            .map(|_| {
                let mut subscription = self.informer.subscribe();
                self.runtime.block_on(take(&mut subscription, self.objects));
                subscription
            })
            .collect()
    }

    /// Waits until each subscriber has received this number of events.
    fn deliver(&self, subscribers: &mut [Subscription<Pod>], events: u64) {
        self.runtime.block_on(async {
            for subscriber in subscribers {
                take(subscriber, events).await;
            }
        });
    }
}

/// Takes this number of events, or fewer if the subscription ends.
async fn take(subscription: &mut Subscription<Pod>, mut events: u64) {
    while events > 0
        && let Some(delivery) = subscription.next().await
    {
        events -= u64::from(matches!(delivery, Delivery::Event(_)));
    }
}

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
