//! Handle: the fixtures of the micro benchmarks: Pods, and a cache of Pods with its client.

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};
use steersman_api::{ClientConfig, Patch};
use steersman_apiserver::ApiServer;
use steersman_cache::{Cache, CacheOptions};
use steersman_client::{Client, RequestId};
use steersman_informer::Informer;
use steersman_object::{Kind, ObjectKey};
use tokio::runtime::Runtime;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::samples::Sample;
use crate::server::fill::{NAMESPACE, fill};

pub use crate::process::BenchResult;
pub use crate::samples::{SHARED, TOGETHER};

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

/// Returns the label that [`TOGETHER`] Pods share, as the values of a field index.
#[must_use]
pub fn batch(pod: &Pod) -> Vec<String> {
    let labels = pod.metadata.labels.iter().flatten();
    let shared = labels.filter(|(name, _)| *name == SHARED);
    shared.map(|(_, value)| value.clone()).collect()
}

/// Returns the Pod of a number, with its status.
#[must_use]
pub fn pod(number: u64) -> Value {
    let (mut object, status) = Sample::Pod.make(number, NAMESPACE);
    object["status"] = status.unwrap_or_default();
    object
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
