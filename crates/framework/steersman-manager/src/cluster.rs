//! Handle: the client configuration, cache and client of one API server.

use std::convert::Infallible;
use std::future::pending;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use prometheus::Registry;
use steersman_api::{ClientConfig, ConnectionMetrics};
use steersman_cache::internal::CacheInternals as _;
use steersman_cache::{Cache, CacheMetrics, CacheOptions, StartedCache};
use steersman_client::{Client, ClientMetrics, ClientOptions};
use steersman_controller::ClusterName;
use steersman_object::{Gvk, report};
use tokio::time::timeout;
use tracing::{info, warn};

use crate::client_certificate_check::{ClientCertificateCheck, ClientCertificateMetrics};
use crate::error::{BoxError, Error};
use crate::monitor::Monitor;
use crate::order::Group;
use crate::runnable::{RunContext, Runnable};

/// The longest time for which later groups of runnables wait for the first syncs of a cluster: shorter than the pause
/// before the log first names runnables that are not ready.
const LONGEST_HOLD: Duration = Duration::from_secs(8);

/// One API server of a manager: a [`ClientConfig`], a cache over it, and a client that reads from the cache. Cheap to
/// clone.
///
/// A manager has one cluster of its own, and adds further clusters with
/// [`Manager::add_cluster`](crate::Manager::add_cluster). [`Manager::add`](crate::Manager::add) runs a cluster that no
/// controller watches.
#[derive(Debug)]
#[must_use]
pub struct Cluster {
    client_config: ClientConfig,
    cache: Cache,
    client: Client,
    pub(crate) preflight: bool,
    /// The kinds with CustomResourceDefinitions that the leader of this operator installs.
    installed: Vec<Gvk>,
    certificate_metrics: Option<ClientCertificateMetrics>,
    /// The name of a cluster that was added to a manager; `None` for the manager's own.
    name: Option<ClusterName>,
    /// The started cache; set only in the clone that a manager runs.
    begun: Option<StartedCache>,
}

impl Clone for Cluster {
    fn clone(&self) -> Self {
        Self {
            client_config: self.client_config.clone(),
            cache: self.cache.clone(),
            client: self.client.clone(),
            preflight: self.preflight,
            installed: self.installed.clone(),
            certificate_metrics: self.certificate_metrics.clone(),
            name: self.name.clone(),
            begun: None,
        }
    }
}

impl Cluster {
    /// Declares a cluster. No I/O is done before it runs.
    ///
    /// # Errors
    ///
    /// [`Error::CacheOptions`] if the options contradict each other.
    pub fn new(client_config: ClientConfig, options: CacheOptions) -> Result<Self, Error> {
        Self::with_client_options(client_config, options, ClientOptions::new())
    }

    /// Declares a cluster with options for its client.
    ///
    /// # Errors
    ///
    /// [`Error::CacheOptions`], like [`new`](Self::new).
    pub fn with_client_options(
        client_config: ClientConfig,
        cache: CacheOptions,
        client: ClientOptions,
    ) -> Result<Self, Error> {
        let cache = Cache::new(cache).map_err(Error::CacheOptions)?;
        let client = Client::with_options(cache.clone(), client_config.clone(), client);
        Ok(Self {
            client_config,
            cache,
            client,
            preflight: false,
            installed: Vec::new(),
            certificate_metrics: None,
            name: None,
            begun: None,
        })
    }

    /// Sets whether the server is asked for the permissions of the cache when the cache starts. Missing rules are
    /// logged as one warning with the rules to apply, and are no error, because a kind recovers when its rule is
    /// granted. Off by default.
    pub fn preflight(mut self, on: bool) -> Self {
        self.preflight = on;
        self
    }

    /// Sets the kinds with definitions that the leader installs: neither the preflight nor an informer reports these
    /// kinds as missing.
    pub(crate) fn installing(mut self, kinds: Vec<Gvk>) -> Self {
        self.cache.note_installed(kinds.clone());
        self.installed = kinds;
        self
    }

    /// Registers a metric with the expiry time of the cluster's client certificate.
    pub(crate) fn measured(mut self, registry: &Registry) -> Result<Self, Error> {
        let metrics = ClientCertificateMetrics::register(registry).map_err(Error::Metrics)?;
        self.certificate_metrics = Some(metrics);
        Ok(self)
    }

    /// Counts the writes to this cluster as writes of `whole`, the client of another cluster. LEASE-8: a stop then also
    /// waits for writes that were in flight when the cluster was removed.
    pub(crate) fn counting_within(mut self, whole: &Client) -> Self {
        self.client = self.client.counting_within(whole);
        self
    }

    pub(crate) fn named(mut self, name: ClusterName) -> Self {
        self.name = Some(name);
        self
    }

    /// Returns the client configuration of the cluster's API server.
    pub fn client_config(&self) -> &ClientConfig {
        &self.client_config
    }

    /// Returns the cache of the cluster's objects, from which the client reads.
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// Returns the client, which reads from the cache and writes to the server.
    pub fn client(&self) -> &Client {
        &self.client
    }
}

/// Logs the kinds without a first sync for which later groups of runnables no longer wait.
fn log_unsettled(cache: &Cache) {
    let mut unsettled = cache.all_unsynced();
    unsettled.retain(|unsynced| unsynced.is_syncing() || unsynced.is_not_started());
    let kinds: Vec<String> = unsettled
        .iter()
        .map(|u| u.kind.qualified_plural())
        .collect();
    info!(
        kinds = kinds.join(", "),
        "the first sync of these kinds has not ended: their readers and controllers wait, all others start"
    );
}

/// Asks the server for the permissions of the cache, and logs the missing rules. A kind in `installed` that is not
/// served yet does not count as missing, because the leader is installing its definition.
async fn preflight(cache: &Cache, client_config: &ClientConfig, installed: &[Gvk]) {
    let mut found = cache.preflight(client_config).await;
    if let Ok(found) = &mut found {
        found
            .not_served
            .retain(|(kind, _)| !installed.contains(kind.gvk()));
    }
    match found {
        Ok(found) if found.is_ready() => info!("{found}"),
        Ok(found) => warn!("the cache may not read every kind that it watches\n{found}"),
        // The informers get the same error, and repeat their requests.
        Err(error) => {
            warn!(error = %report(&error), "the server did not say what the cache may read")
        }
    }
}

impl Runnable for Cluster {
    fn name(&self) -> String {
        format!("cache of {}", self.client_config.endpoint())
    }

    fn group(&self) -> Group {
        Group::Caches
    }

    fn says_when_ready(&self) -> bool {
        true
    }

    /// Makes reads wait for the first sync from now on, even before the group of the caches starts.
    fn begin(&mut self) {
        // If the cache was started before, `begun` stays `None`, and `run` returns the error.
        self.begun = self.cache.begin().ok();
    }

    async fn run(self, context: RunContext) -> Result<(), BoxError> {
        let name = self.name.as_ref().map(ToString::to_string);
        let name = name.unwrap_or_else(|| self.client_config.endpoint());
        let shown = Monitor::show(&context.monitor, &name, &self.cache);
        let begun = self.begun.map_or_else(|| self.cache.begin(), Ok)?;
        let run = begun.run(self.client_config.clone(), context.cancellation());
        let asking = async {
            // The preflight runs in parallel to the start of the cache.
            if self.preflight {
                preflight(&self.cache, &self.client_config, &self.installed).await;
            }
            pending::<Infallible>().await
        };
        let settled = async {
            // MGR-4: a kind that cannot sync does not delay later groups: its informer logs the reason, and its readers
            // get the error. A first list that hangs fails only at the timeout of its request, so the wait has a limit.
            if timeout(LONGEST_HOLD, self.cache.settled()).await.is_err() {
                log_unsettled(&self.cache);
            }
            context.ready();
            pending::<Infallible>().await
        };
        let metrics = self.certificate_metrics.clone();
        let check = ClientCertificateCheck::new(self.client_config.clone(), metrics);
        let checking = check.run(&shown, Timestamp::now);
        tokio::select! {
            biased;
            ended = run => {
                context.note_end(&format!("cache of {}", self.client_config.endpoint()));
                Ok(ended?)
            }
            never = settled => match never {},
            never = asking => match never {},
            never = checking => never,
        }
    }
}

/// Registers the metrics of a cluster. A part that has metrics already keeps them.
pub(crate) fn with_metrics(
    registry: &Registry,
    mut client_config: ClientConfig,
    mut cache: CacheOptions,
    mut client: ClientOptions,
) -> prometheus::Result<(ClientConfig, CacheOptions, ClientOptions)> {
    if !client_config.has_metrics() {
        client_config = client_config.metrics(ConnectionMetrics::register(registry)?);
    }
    if !cache.has_metrics() {
        cache = cache.metrics(CacheMetrics::register(registry)?);
    }
    if !client.has_metrics() {
        client = client.metrics(ClientMetrics::register(registry)?);
    }
    Ok((client_config, cache, client))
}
