//! Handle: the checks, diagnostics and addresses of a manager's servers.

use std::future::Future;
use std::net::SocketAddr;

use k8s_openapi::jiff::Timestamp;
use steersman_api::ClientConfig;
use steersman_cache::internal::CacheInternals as _;
use steersman_webhook::{AuthorityMetrics, BuiltInCertificates};
use tokio_util::sync::CancellationToken;

use super::Manager;
use crate::diagnostics::Diagnostics;
use crate::error::{BoxError, Error};
use crate::http_server::ServerDeclarations;
use crate::order::Group;
use crate::probes::BuiltIn;
use crate::runnable::from_fn;

impl Manager {
    /// Adds a named check to `/livez` and `/healthz`. The kubelet restarts a Pod with a failing liveness probe, so the
    /// check should fail only if a restart helps.
    ///
    /// The check runs for each request, concurrently with other checks, and must not block its thread. A panic, or
    /// exceeding [`HealthServer::check_timeout`](crate::HealthServer::check_timeout), is a failure.
    ///
    /// ```
    /// # fn f(manager: &steersman_manager::Manager) -> Result<(), steersman_manager::Error> {
    /// manager.add_health_check("disk", || async {
    ///     std::fs::metadata("/var/lib/shop").map(drop)
    /// })
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::DuplicateCheck`], [`Error::CheckName`].
    pub fn add_health_check<F, Fut, E>(
        &self,
        name: impl Into<String>,
        check: F,
    ) -> Result<(), Error>
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<BoxError>,
    {
        self.shared.http.live.add(BuiltIn::Live, name.into(), check)
    }

    /// Adds a named check to `/readyz`, with the rules of [`add_health_check`](Self::add_health_check). A Pod that is
    /// not ready gets no requests through its Services, such as requests to webhooks.
    ///
    /// # Errors
    ///
    /// [`Error::DuplicateCheck`], [`Error::CheckName`].
    pub fn add_ready_check<F, Fut, E>(&self, name: impl Into<String>, check: F) -> Result<(), Error>
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<BoxError>,
    {
        self.shared
            .http
            .ready
            .add(BuiltIn::Ready, name.into(), check)
    }

    /// Returns the diagnostics, to which the program can add sections.
    pub fn diagnostics(&self) -> &Diagnostics {
        &self.shared.http.diagnostics
    }

    /// Returns the address of the server of health probes; `None` if there is none, or it does not listen yet. For port
    /// 0 the address has the port that the system chose.
    pub fn health_address(&self) -> Option<SocketAddr> {
        self.shared.http.health_bound.get()
    }

    /// Returns the address of the metrics server; see [`health_address`](Self::health_address).
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.shared.http.metrics_bound.get()
    }

    /// Returns the address of the server of webhooks; see [`health_address`](Self::health_address).
    pub fn webhook_address(&self) -> Option<SocketAddr> {
        self.shared.http.webhooks_bound.get()
    }

    /// Adds the servers of health probes, metrics and webhooks.
    pub(crate) fn add_servers(&self, servers: &ServerDeclarations) -> Result<(), Error> {
        let shared = &self.shared;
        let (client_config, registry) = (self.client_config(), self.metrics_registry());
        for server in shared.http.declared(
            servers,
            &shared.monitor,
            self.client(),
            client_config,
            registry,
        )? {
            self.add(server)?;
        }
        if let Some(webhooks) = servers.webhooks() {
            self.cache().note_converted(webhooks.converted_kinds());
            if let Some(certificates) = webhooks.built_in_certificates() {
                self.add_certificates(certificates.clone())?;
            }
            // ADMIT-5: readiness needs a TLS handshake with the server of the webhooks.
            let bound = shared.http.webhooks_bound.clone();
            self.add_ready_check("webhook", move || bound.clone().dial(Timestamp::now()))?;
        }
        Ok(())
    }

    /// Adds the tasks of the built-in certificates: one in every replica, and one in the leader.
    fn add_certificates(&self, mut certificates: BuiltInCertificates) -> Result<(), Error> {
        if !certificates.has_metrics() {
            let metrics = AuthorityMetrics::register(self.metrics_registry());
            certificates = certificates.metrics(metrics.map_err(Error::Metrics)?);
        }
        let followed = certificates.clone();
        self.add_loop(
            "webhook certificate",
            Group::Webhooks,
            |client_config, stop| async move {
                followed.follow(&client_config, stop).await;
            },
        )?;
        self.add_loop(
            "webhook authority",
            Group::LeaderElected,
            |client_config, stop| async move {
                certificates.lead(&client_config, stop).await;
            },
        )
    }

    /// Adds a runnable that gets the `ClientConfig` of the manager, and runs until it is asked to stop.
    pub(super) fn add_loop<F, Fut>(&self, name: &str, group: Group, run: F) -> Result<(), Error>
    where
        F: FnOnce(ClientConfig, CancellationToken) -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send,
    {
        let client_config = self.client_config().clone();
        self.add(from_fn(name, group, |context| async move {
            run(client_config, context.cancellation()).await;
            Ok(())
        }))
    }
}
