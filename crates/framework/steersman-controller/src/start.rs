//! Handle: what a controller is started with: cache, client, cancellation, clock and settings.

use std::time::Duration;

use prometheus::Registry;
use steersman_cache::Cache;
use steersman_client::Client;
use steersman_events::EventPublisher;
use steersman_shards::ShardGate;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::clusters::Clusters;
use crate::options::{Clock, ControllerDefaults};

/// The cache, client, cancellation token, clock and settings that a [`Controller`](crate::Controller) is started with.
#[derive(derive_more::Debug)]
#[debug("StartContext {{ grace: {grace:?}, registry: {}, .. }}", registry.is_some())]
#[must_use = "pass it to `Controller::start`"]
pub struct StartContext {
    pub(crate) cache: Cache,
    pub(crate) client: Client,
    pub(crate) cancel: CancellationToken,
    pub(crate) clock: Clock,
    pub(crate) grace: Duration,
    pub(crate) registry: Option<Registry>,
    pub(crate) workers: TaskTracker,
    pub(crate) defaults: ControllerDefaults,
    pub(crate) clusters: Clusters,
    pub(crate) events: Option<EventPublisher>,
    pub(crate) shards: Option<ShardGate>,
    pub(crate) has_journal: bool,
}

impl StartContext {
    /// Makes the context of a start, with a grace of 30 s for the stop, and without a metrics registry.
    ///
    /// Cancelling `cancel` stops the controller; `clock` is the clock of [`Context::now`](crate::Context::now).
    pub fn new(cache: Cache, client: Client, cancel: CancellationToken, clock: Clock) -> Self {
        Self {
            cache,
            client,
            cancel,
            clock,
            grace: Duration::from_secs(30),
            registry: None,
            workers: TaskTracker::new(),
            defaults: ControllerDefaults::new(),
            clusters: Clusters::new(),
            events: None,
            shards: None,
            has_journal: false,
        }
    }

    /// Sets how long running reconciles may go on after the cancellation; then they are dropped. The default is 30 s.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Sets the clusters that the controller watches besides the cluster of its own cache. The default is an empty set.
    pub fn clusters(mut self, clusters: Clusters) -> Self {
        self.clusters = clusters;
        self
    }

    /// Sets the tracker of the worker tasks, which is empty when no reconcile runs any more. If the future of
    /// [`Controller::start`](crate::Controller::start) is dropped, a reconcile may still run for a moment.
    pub fn workers(mut self, workers: TaskTracker) -> Self {
        self.workers = workers;
        self
    }

    /// Sets the registry of the metrics of the controller and of its queue.
    pub fn registry(mut self, registry: Registry) -> Self {
        self.registry = Some(registry);
        self
    }

    /// Sets the settings that a manager has for its controllers: the settings of every controller, the settings by
    /// name, and the limit of reconciles that controllers share. By default there are no settings and no limit.
    pub fn defaults(mut self, defaults: ControllerDefaults) -> Self {
        self.defaults = defaults;
        self
    }

    /// Sets the publisher of the Kubernetes Events of [`Context::events`](crate::Context::events). By default the
    /// controller has its own publisher for the server of its client. That publisher sends waiting Events even after
    /// the controller has ended.
    pub fn events(mut self, events: EventPublisher) -> Self {
        self.events = Some(events);
        self
    }

    /// Keeps a journal for people: the last events with their requests, the writes and waits of each reconcile, the slowest
    /// reconciles, and the failures by message; see [`ControllerStatus::events`](crate::ControllerStatus::events). It keeps
    /// 1,024 events and reconciles, 4,096 steps of reconciles, and texts of errors of at most 1 KiB. By default there is none.
    pub fn journal(mut self) -> Self {
        self.has_journal = true;
        self
    }

    /// Makes the controller reconcile only the objects of the slots that this replica owns: see [`steersman_shards`].
    /// By default it reconciles all objects.
    pub fn shards(mut self, gate: ShardGate) -> Self {
        self.shards = Some(gate);
        self
    }
}
