//! Handle: what a manager is made of, and its defaults.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use steersman_api::Connection;
use steersman_cache::{Cache, CacheMetrics, CacheOptions};
use steersman_client::{ClientMetrics, ClientOptions, check_field_manager};

use crate::cluster::Cluster;
use crate::error::Error;
use crate::manager::Manager;
use crate::options::{DEFAULT_GRACE, ManagerOptions};

/// Describes a [`Manager`]. Made by [`Manager::builder`].
#[derive(Debug)]
#[must_use = "nothing is made before `build`"]
pub struct ManagerBuilder {
    connection: Connection,
    cache: CacheOptions,
    client: ClientOptions,
    preflight: bool,
    options: ManagerOptions,
}

impl Manager {
    /// Begins to describe a manager of the api-server that `connection` leads to.
    pub fn builder(connection: Connection) -> ManagerBuilder {
        let options = ManagerOptions {
            grace: Some(DEFAULT_GRACE),
            registry: prometheus::Registry::new(),
            field_manager: None,
            clock: Arc::new(Timestamp::now),
        };
        ManagerBuilder {
            connection,
            cache: CacheOptions::new(),
            client: ClientOptions::new(),
            preflight: false,
            options,
        }
    }
}

impl ManagerBuilder {
    /// What the cache looks at. Everything that is asked for, by default.
    pub fn cache(mut self, options: CacheOptions) -> Self {
        self.cache = options;
        self
    }

    /// How the client writes. Each controller's client signs with the field manager that the controller was
    /// declared with, else with that of these options, else with `program/controller`.
    pub fn client(mut self, options: ClientOptions) -> Self {
        self.client = options;
        self
    }

    /// How long everything together may take to stop; 30 seconds by default. Zero waits for nobody.
    ///
    /// Reconciles have four fifths of it, or all but five seconds where that is more, so that a hung one
    /// leaves time for what stops after it. Where others took all of it, those who were not yet asked to stop
    /// are asked then, and have two more seconds.
    pub fn graceful_shutdown_timeout(mut self, grace: Duration) -> Self {
        self.options.grace = Some(grace);
        self
    }

    /// Stops only when everything has stopped by itself, or on a second signal.
    pub fn graceful_shutdown_without_timeout(mut self) -> Self {
        self.options.grace = None;
        self
    }

    /// The registry in which everything counts what it does; a new one by default.
    pub fn metrics_registry(mut self, registry: prometheus::Registry) -> Self {
        self.options.registry = registry;
        self
    }

    /// Whether the manager asks the server, as its cache starts, what the cache may read: see
    /// [`Cluster::preflight`]. Off by default.
    pub fn preflight(mut self, on: bool) -> Self {
        self.preflight = on;
        self
    }

    /// The wall clock that reconcilers see; the system's by default.
    pub fn clock(mut self, clock: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        self.options.clock = Arc::new(clock);
        self
    }

    /// Makes the manager. No I/O, no cluster needed.
    ///
    /// # Errors
    ///
    /// [`Error::CacheOptions`]; [`Error::FieldManager`]; [`Error::Metrics`] where the registry is that of another manager.
    pub fn build(mut self) -> Result<Manager, Error> {
        // CACHE-13: before anything is registered, so that the registry serves the corrected options.
        let _checked = Cache::new(self.cache.clone()).map_err(Error::CacheOptions)?;
        if let Some(name) = self.client.given_field_manager() {
            check_field_manager(name).map_err(Error::FieldManager)?;
            self.options.field_manager = Some(name.to_owned());
        }
        let cache = if self.cache.has_metrics() {
            self.cache
        } else {
            let metrics = CacheMetrics::register(&self.options.registry);
            self.cache.metrics(metrics.map_err(Error::Metrics)?)
        };
        let client = if self.client.has_metrics() {
            self.client
        } else {
            let metrics = ClientMetrics::register(&self.options.registry);
            self.client.metrics(metrics.map_err(Error::Metrics)?)
        };
        let cluster = Cluster::with_client_options(self.connection, cache, client)?;
        Ok(Manager::new(
            cluster.preflight(self.preflight),
            self.options,
        ))
    }
}
