//! Handle: the fixtures of the micro benchmarks: an informer with a scripted watch, and a cache with its client.

use std::ops::Range;

use futures::channel::mpsc;
use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use parking_lot::Mutex;
use serde_json::json;
use steersman_api::{
    ClientConfig, Decoded, Error, ListPage, ListStream, ListWatch, PageRequest, Patch, RawObject,
    WatchEvent, WatchOptions, WatchStream,
};
use steersman_apiserver::ApiServer;
use steersman_cache::{Cache, CacheOptions};
use steersman_client::{Client, RequestId};
use steersman_informer::{Budget, Delivery, Informer, InformerOptions, Subscription};
use steersman_object::{Kind, ObjectKey, ResourceVersion};
use tokio::runtime::Runtime;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::samples::Sample;
use crate::server::fill::{NAMESPACE, fill};

pub use crate::process::BenchResult;
pub use crate::samples::{SHARED, TOGETHER};

type BenchItem = Result<WatchEvent, Error>;

/// An informer of Pods, and the server's end of its watch.
#[derive(Debug)]
pub struct FedInformer {
    /// The runtime of its tasks.
    pub runtime: Runtime,
    /// The synced informer.
    pub informer: Informer<Pod>,
    objects: u64,
    version: u64,
    wire: mpsc::UnboundedSender<BenchItem>,
}

/// A cache of Pods of a server in the same process, all decoded, and a client over it.
#[derive(Debug)]
pub struct ServedPods {
    /// The runtime of its tasks.
    pub runtime: Runtime,
    /// The synced cache.
    pub cache: Cache,
    /// The client that reads from it.
    pub client: Client,
    /// The cache's informer of Pods.
    pub informer: Informer<Pod>,
    server: ApiServer,
    _running: DropGuard,
}

/// A list followed by a watch.
struct Script {
    page: Mutex<Vec<Decoded<RawObject>>>,
    watch: Mutex<Option<mpsc::UnboundedReceiver<BenchItem>>>,
}

/// Returns the label that [`TOGETHER`] Pods share, as the values of a field index.
#[must_use]
pub fn batch(pod: &Pod) -> Vec<String> {
    let labels = pod.metadata.labels.iter().flatten();
    let shared = labels.filter(|(name, _)| *name == SHARED);
    shared.map(|(_, value)| value.clone()).collect()
}

/// Returns the Pod of a number as a server sends it at a version.
fn raw(number: u64, version: u64) -> BenchResult<Decoded<RawObject>> {
    let (mut object, status) = Sample::Pod.make(number, NAMESPACE);
    object["metadata"]["uid"] = format!("00000000-0000-4000-8000-{number:012x}").into();
    object["metadata"]["resourceVersion"] = version.to_string().into();
    object["status"] = status.unwrap_or_default();
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
    ///
    /// # Errors
    ///
    /// If the fixture cannot be created.
    pub fn with(objects: u64) -> BenchResult<Self> {
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
    ///
    /// # Errors
    ///
    /// If an object does not decode.
    pub fn changes(&mut self, numbers: Range<u64>) -> BenchResult<Vec<WatchEvent>> {
        let mut changes = Vec::new();
        for number in numbers {
            self.version += 1;
            let object = raw(number % self.objects, self.version)?;
            changes.push(WatchEvent::Modified(object));
        }
        Ok(changes)
    }

    /// Sends the changes.
    pub fn send(&self, changes: Vec<WatchEvent>) {
        for change in changes {
            // The informer holds the receiver as long as it runs.
            let _gone = self.wire.unbounded_send(Ok(change));
        }
    }

    /// Creates subscribers that have received the initial objects.
    pub fn subscribers(&self, many: usize) -> Vec<Subscription<Pod>> {
        (0..many)
            .map(|_| {
                let mut subscription = self.informer.subscribe();
                self.runtime.block_on(take(&mut subscription, self.objects));
                subscription
            })
            .collect()
    }

    /// Waits until each subscriber has received this number of events.
    pub fn deliver(&self, subscribers: &mut [Subscription<Pod>], events: u64) {
        self.runtime.block_on(async {
            for subscriber in subscribers {
                take(subscriber, events).await;
            }
        });
    }
}

impl ServedPods {
    /// Creates a cache of this number of Pods.
    ///
    /// # Errors
    ///
    /// If the fixture cannot be created.
    pub fn with(objects: u64) -> BenchResult<Self> {
        let server = ApiServer::new();
        fill(&server, Sample::Pod, 0..objects)?;
        let client_config = ClientConfig::in_process(server.service(), NAMESPACE);
        let cache = Cache::new(CacheOptions::new().decoded_budget(None))?;
        let informers = cache.informers_of::<Pod>(&Kind::of::<Pod>())?;
        let informer = informers.into_iter().next().ok_or("no informer")?;
        let runtime = Runtime::new()?;
        let cancel = CancellationToken::new();
        runtime.spawn(cache.run(client_config.clone(), cancel.clone()));
        runtime.block_on(cache.wait_for_sync())?;
        // All objects are decoded from now on.
        for pod in informer.store().entries(None) {
            drop(pod.object());
        }
        Ok(Self {
            client: Client::new(cache.clone(), client_config),
            runtime,
            cache,
            informer,
            server,
            _running: cancel.drop_guard(),
        })
    }

    /// Writes each of these objects on behalf of its own request key and hides the write from the
    /// cache, so that one note per object is outstanding.
    ///
    /// # Errors
    ///
    /// The errors of the server.
    pub fn write_unseen(&self, keys: &[ObjectKey]) -> BenchResult<()> {
        self.runtime.block_on(async {
            // The watch opens shortly after the sync.
            while self.server.faults().silence_watches_of("pods") == 0 {
                tokio::task::yield_now().await;
            }
            let touch = Patch::Merge(json!({"metadata": {"annotations": {"touched": "yes"}}}));
            for (number, key) in keys.iter().enumerate() {
                let writer = RequestId::new("writers", number);
                let client = self.client.for_request(writer);
                client.patch::<Pod>(key, &touch).await?;
            }
            Ok(())
        })
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
