//! Handle: the builder of a manager, with all defaults.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use prometheus::{Opts, Registry, register_int_gauge_with_registry};
use steersman_api::ClientConfig;
use steersman_cache::{Cache, CacheOptions};
use steersman_client::{ClientOptions, check_field_manager};
use steersman_controller::ControllerDefaults;
use steersman_crds::Crds;
use steersman_events::{EventLimits, EventMetrics, EventPublisher};
use steersman_lease::{ElectionMetrics, Elector, LeaderElection};
use steersman_shards::{ShardMember, ShardMetrics, Shards};
use steersman_webhook::WebhookServer;

use crate::cluster::{Cluster, with_metrics};
use crate::clusters::AddedClusters;
use crate::error::Error;
use crate::http_options::{HealthServer, MetricsServer};
use crate::http_server::ServerDeclarations;
use crate::manager::{LeaderConditions, Manager, connect_webhooks, with_definition_metrics};
use crate::options::{DEFAULT_GRACE, ManagerOptions};

/// The declaration of a [`Manager`], made by [`Manager::builder`].
#[derive(Debug)]
#[must_use = "nothing is made before `build`"]
pub struct ManagerBuilder {
    client_config: ClientConfig,
    cache: CacheOptions,
    preflight: bool,
    options: ManagerOptions,
    servers: ServerDeclarations,
    definitions: Crds,
    leader_election: Option<LeaderElection>,
    shards: Option<Shards>,
    event_limits: EventLimits,
}

impl Manager {
    /// Starts to declare a manager for the API server of `client_config`.
    pub fn builder(client_config: ClientConfig) -> ManagerBuilder {
        let options = ManagerOptions {
            grace: Some(DEFAULT_GRACE),
            registry: Registry::new(),
            client: ClientOptions::new(),
            field_manager: None,
            clock: Arc::new(Timestamp::now),
            controllers: ControllerDefaults::new(),
            shards: None,
            has_journal: false,
        };
        ManagerBuilder {
            client_config,
            cache: CacheOptions::new(),
            preflight: false,
            options,
            servers: ServerDeclarations::default(),
            definitions: Crds::new(),
            leader_election: None,
            shards: None,
            event_limits: EventLimits::new(),
        }
    }
}

impl ManagerBuilder {
    /// Sets the options of the cache. By default it watches all namespaces, and all objects of a kind.
    pub fn cache(mut self, options: CacheOptions) -> Self {
        self.cache = options;
        self
    }

    /// Sets the options of the client for writes. A controller writes under the field manager of
    /// its own declaration; without one, under the field manager of these options; without either,
    /// under `program/controller`.
    pub fn client(mut self, options: ClientOptions) -> Self {
        self.options.client = options;
        self
    }

    /// Sets the time limit for the whole stop. The default is 30 s; with zero the manager waits for
    /// no runnable.
    ///
    /// Reconciles get four fifths of the time, or all but 5 s if that is more, so that a reconcile that hangs leaves
    /// time for the groups that stop after it. Groups that were not asked to stop within the time limit are asked at
    /// its end, and get 2 s.
    pub fn graceful_shutdown_timeout(mut self, grace: Duration) -> Self {
        self.options.grace = Some(grace);
        self
    }

    /// Waits without a time limit until every runnable has stopped, or until a second signal arrives.
    pub fn graceful_shutdown_without_timeout(mut self) -> Self {
        self.options.grace = None;
        self
    }

    /// Sets the registry of all metrics of the manager: of its requests, its cache, its client and its controllers. The
    /// default is a new registry.
    ///
    /// A `ClientConfig`, cache or client that has metrics keeps them. To count two clusters of one manager together,
    /// give both clones of one [`ConnectionMetrics`](steersman_api::ConnectionMetrics),
    /// [`CacheMetrics`](steersman_cache::CacheMetrics) and [`ClientMetrics`](steersman_client::ClientMetrics).
    pub fn metrics_registry(mut self, registry: Registry) -> Self {
        self.options.registry = registry;
        self
    }

    /// Sets whether the manager asks the server for the permissions of the cache when the cache starts: see
    /// [`Cluster::preflight`]. Off by default.
    pub fn preflight(mut self, on: bool) -> Self {
        self.preflight = on;
        self
    }

    /// Sets the settings of every controller, and of single controllers by name: workers, backoff, deadlines,
    /// priorities, and the limit of reconciles that run at once over all controllers. By default the code of each
    /// controller decides, and there is no such limit.
    ///
    /// Settings by name win over the code of the controller, and the code over the settings of every
    /// controller; see [`ControllerDefaults`].
    pub fn controllers(mut self, defaults: ControllerDefaults) -> Self {
        self.options.controllers = defaults;
        self
    }

    /// Makes only one replica at a time, the holder of the Lease, run the controllers and the other runnables of
    /// [`Group::LeaderElected`](crate::Group::LeaderElected). Without leader election every replica runs them.
    ///
    /// A standby starts all other groups: its cache is warm, and it serves health and metrics. A leader that loses its
    /// lease drops every runnable at once, and [`Manager::start`] returns [`Error::LeadershipLost`]: the process should
    /// exit.
    pub fn leader_election(mut self, options: LeaderElection) -> Self {
        self.leader_election = Some(options);
        self
    }

    /// Makes the replicas share the work: each replica caches and reconciles the objects of its shards, which follow the
    /// replicas that live (SHARD-1 to SHARD-3). Without shards each replica that leads works on all objects.
    ///
    /// - The controllers run on every replica. With [`leader_election`](Self::leader_election), the leader alone runs the
    ///   controllers that watch other clusters or have requests of their own type, the other runnables of
    ///   [`Group::LeaderElected`](crate::Group::LeaderElected), and the installation of definitions.
    /// - The cache of each kind holds the objects of the shards, unless the kind is declared
    ///   [`everywhere`](steersman_cache::ByObject::everywhere). A cached read of another object fails with an error.
    /// - A controller's own source of requests delivers to its own replica only, so a request for an object of another
    ///   replica is dropped.
    pub fn shards(mut self, shards: Shards) -> Self {
        self.shards = Some(shards);
        self
    }

    /// Sets how many Kubernetes Events the events of one object become, and when repetitions are sent to the server,
    /// for all recorders of the manager. The defaults are those of client-go: see [`EventLimits`].
    pub fn event_limits(mut self, limits: EventLimits) -> Self {
        self.event_limits = limits;
        self
    }

    /// Sets the wall clock of reconcilers and of events. The default is the clock of the system.
    pub fn clock(mut self, clock: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        self.options.clock = Arc::new(clock);
        self
    }

    /// Serves `/healthz`, `/livez` and `/readyz`: see [`HealthServer`]. Off by default, and with an empty address or
    /// `"0"`; `"[::]:8081"` is the usual address.
    ///
    /// `/readyz` passes when the manager has started and each declared kind has synced once (HEALTH-2). `/livez` and
    /// `/healthz` pass while the process makes progress (HEALTH-3): an unreachable api-server, a standby and a long
    /// reconcile are live. [`Manager::add_ready_check`] and [`Manager::add_health_check`] add checks.
    pub fn health(mut self, server: impl Into<HealthServer>) -> Self {
        self.servers.health = Some(server.into());
        self
    }

    /// Serves `/metrics`: see [`MetricsServer`]. Off by default, and with an empty address or `"0"`;
    /// `MetricsServer::secure("[::]:8443")` is the usual server.
    pub fn metrics(mut self, server: impl Into<MetricsServer>) -> Self {
        self.servers.metrics = Some(server.into());
        self
    }

    /// Serves the webhooks of the operator: see [`WebhookServer`]. The server starts before the caches, because listing
    /// a kind may need its conversion webhook, and stops after them. Each replica serves the webhooks, also a standby.
    /// The check `webhook` of `/readyz` passes once the server answers a TLS handshake (ADMIT-5); then the Service of
    /// the webhooks sends requests to this replica.
    pub fn webhooks(mut self, server: WebhookServer) -> Self {
        self.servers.webhooks = Some(server);
        self
    }

    /// Installs CustomResourceDefinitions, once this replica leads: see [`Crds`]. None by default.
    ///
    /// The controllers of the leader start when the server serves each definition (DEF-6). A kind with objects that the
    /// webhooks of this manager convert gets the webhook, with the certificates of the built-in authority, as its
    /// conversion. The check `definitions` of `/readyz` fails on each replica with a definition that would be refused.
    pub fn crds(mut self, definitions: Crds) -> Self {
        self.definitions = definitions;
        self
    }

    /// Keeps journals without a server that shows them.
    #[cfg(test)]
    pub(crate) fn with_journal(mut self) -> Self {
        self.options.has_journal = true;
        self
    }

    /// Makes the manager. It does no I/O and needs no cluster.
    ///
    /// # Errors
    ///
    /// [`Error::CacheOptions`]; [`Error::Controller`] if the settings of controllers cannot work;
    /// [`Error::Definition`]; [`Error::FieldManager`]; [`Error::LeaderElection`] if its options cannot work;
    /// [`Error::Metrics`] if the registry belongs to another manager; [`Error::Shards`] if their options cannot work;
    /// [`Error::Server`] if an address or a limit of a server cannot work.
    pub fn build(mut self) -> Result<Manager, Error> {
        // CACHE-13: checked before metrics are registered, so that the registry can be used again after a refusal.
        self.options.controllers.check()?;
        self.servers.check()?;
        self.options.has_journal |= self.servers.has_debug_page();
        let webhooks = self.servers.webhooks.take();
        let (definitions, webhooks) = connect_webhooks(self.definitions, webhooks)?;
        definitions.check()?;
        self.servers.webhooks = webhooks;
        let _checked = Cache::new(self.cache.clone()).map_err(Error::CacheOptions)?;
        if let Some(name) = self.options.client.given_field_manager() {
            check_field_manager(name).map_err(Error::FieldManager)?;
            self.options.field_manager = Some(name.to_owned());
        }
        if let Some(options) = self.leader_election.clone() {
            let checked = Elector::new(options, &self.client_config);
            drop(checked.map_err(Error::LeaderElection)?);
        }
        let mut member = None;
        if let Some(shards) = self.shards.take() {
            let (made, cache) =
                member_of(shards, &self.client_config, self.cache, &mut self.options)?;
            (member, self.cache) = (Some(made), cache);
        }
        let (registry, client) = (&self.options.registry, self.options.client.clone());
        let measured = with_metrics(registry, self.client_config, self.cache, client);
        let (client_config, cache, client) = measured.map_err(Error::Metrics)?;
        // CONN-6: the elector gets the `ClientConfig` with metrics, so that its requests are counted.
        let elector = match self.leader_election.take() {
            Some(options) => {
                let candidate = Elector::new(options, &client_config);
                let candidate = candidate.map_err(Error::LeaderElection)?;
                let metrics = ElectionMetrics::register(&self.options.registry);
                Some(candidate.metrics(metrics.map_err(Error::Metrics)?))
            }
            None => None,
        };
        register_build_info(&self.options.registry).map_err(Error::Metrics)?;
        let clusters = AddedClusters::new().map_err(Error::Metrics)?;
        let metrics = Box::new(clusters.metrics.clone());
        let registered = self.options.registry.register(metrics);
        registered.map_err(Error::Metrics)?;
        let metrics = EventMetrics::register(&self.options.registry).map_err(Error::Metrics)?;
        let clock = Arc::clone(&self.options.clock);
        let (clock, limits) = (move || clock(), self.event_limits);
        let events =
            EventPublisher::with_limits(client_config.clone(), clock, Some(metrics), limits);
        let cluster = Cluster::with_client_options(client_config, cache, client)?;
        let cluster = cluster.measured(&self.options.registry)?;
        let cluster = cluster.preflight(self.preflight);
        let cluster = cluster.installing(definitions.kinds());
        let definitions = with_definition_metrics(definitions, &self.options.registry)?;
        let cache = cluster.cache().clone();
        let conditions = LeaderConditions::new(definitions, self.servers.webhooks(), cache);
        let manager = Manager::new(cluster, clusters, self.options, events, elector, conditions);
        if let Some(member) = member {
            manager.add_member(member)?;
        }
        manager.describe_election();
        manager.add_servers(&self.servers)?;
        manager.add_crds()?;
        Ok(manager)
    }
}

/// Makes the membership in the group that shares the work, and limits the cache to the shards of this replica.
fn member_of(
    shards: Shards,
    client_config: &ClientConfig,
    cache: CacheOptions,
    options: &mut ManagerOptions,
) -> Result<(ShardMember, CacheOptions), Error> {
    let member = ShardMember::new(shards, client_config).map_err(Error::Shards)?;
    let metrics = ShardMetrics::register(&options.registry).map_err(Error::Metrics)?;
    let gate = member.gate();
    let cache = cache.shards(gate.by(), gate.cached());
    options.shards = Some(gate);
    Ok((member.metrics(metrics), cache))
}

/// Registers `steersman_build_info`, a gauge that is always 1, with labels that describe the build.
fn register_build_info(registry: &Registry) -> prometheus::Result<()> {
    let platform = format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH);
    let opts = Opts::new(
        "steersman_build_info",
        "The version of Steersman and the platform that it was built for; the value is always 1",
    )
    .const_label("version", env!("CARGO_PKG_VERSION"))
    .const_label("platform", platform);
    register_int_gauge_with_registry!(opts, registry)?.set(1);
    Ok(())
}
