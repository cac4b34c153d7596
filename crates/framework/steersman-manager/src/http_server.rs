//! Driver: the runnables of the servers of health probes, metrics and webhooks, and the routes of the metrics server.

#[cfg(target_os = "linux")]
mod process_metrics;

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use k8s_openapi::jiff::Timestamp;
use parking_lot::Mutex;
use prometheus::Registry;
use steersman_api::ClientConfig;
use steersman_client::Client;
use steersman_serve::{
    CertificateMetrics, Error as ServeError, ListenAddress, MetricsPage, Route, Routes, Server,
    ServerOptions, TlsOptions, dial_tls, json_response, text_response,
};
use steersman_webhook::{WebhookMetrics, WebhookServer};

use crate::debug_page::DebugPage;
use crate::diagnostics::Diagnostics;
use crate::error::{BoxError, Error};
use crate::http_options::{DIAGNOSTICS, HealthServer, METRICS, MetricsServer};
use crate::monitor::Monitor;
use crate::order::Group;
use crate::probes::{AddedChecks, probe_routes};
use crate::runnable::{RunContext, Runnable};

pub(crate) struct HttpServer {
    pub(crate) name: &'static str,
    /// The group of the server: [`Group::HttpServers`], which starts first and stops last, or [`Group::Webhooks`].
    pub(crate) group: Group,
    pub(crate) address: ListenAddress,
    pub(crate) options: ServerOptions,
    pub(crate) routes: Routes,
    pub(crate) bound: BoundAddress,
}

/// The address on which a server listens; `None` before it listens. Clones share the address.
#[derive(Clone, Debug, Default)]
pub(crate) struct BoundAddress {
    address: Arc<Mutex<Option<SocketAddr>>>,
}

#[derive(Debug, Default)]
pub(crate) struct ServerDeclarations {
    pub(crate) health: Option<HealthServer>,
    pub(crate) metrics: Option<MetricsServer>,
    pub(crate) webhooks: Option<WebhookServer>,
}

#[derive(Default)]
pub(crate) struct HttpServers {
    pub(crate) live: AddedChecks,
    pub(crate) ready: AddedChecks,
    pub(crate) diagnostics: Diagnostics,
    pub(crate) health_bound: BoundAddress,
    pub(crate) metrics_bound: BoundAddress,
    pub(crate) webhooks_bound: BoundAddress,
}

impl BoundAddress {
    pub(crate) fn get(&self) -> Option<SocketAddr> {
        *self.address.lock()
    }

    /// Checks that the server listens and answers a TLS handshake with a certificate that is valid at the time `wall`.
    pub(crate) async fn dial(self, wall: Timestamp) -> Result<(), String> {
        match self.get() {
            Some(address) => dial_tls(address, wall).await,
            None => Err("the server does not listen yet".to_owned()),
        }
    }
}

impl ServerDeclarations {
    pub(crate) fn check(&self) -> Result<(), Error> {
        if let Some(health) = &self.health {
            health.check()?;
        }
        if let Some(metrics) = &self.metrics {
            metrics.check()?;
            metrics.check_routes()?;
            if metrics.exposes_page() {
                let address = metrics.address.to_string();
                return Err(Error::DebugPage { address });
            }
        }
        if let Some(webhooks) = &self.webhooks {
            webhooks.check()?;
        }
        Ok(())
    }

    pub(crate) fn has_debug_page(&self) -> bool {
        let metrics = self.metrics.as_ref();
        metrics.is_some_and(|metrics| metrics.has_debug_page && !metrics.address.is_off())
    }

    /// Returns the webhooks; `None` if their server is off.
    pub(crate) fn webhooks(&self) -> Option<&WebhookServer> {
        let webhooks = self.webhooks.as_ref();
        webhooks.filter(|webhooks| !webhooks.address().is_off())
    }
}

impl HttpServers {
    pub(crate) fn new(monitor: &Arc<Monitor>) -> Self {
        let diagnostics = Diagnostics::default();
        monitor.describe_in(&diagnostics);
        Self {
            diagnostics,
            ..Self::default()
        }
    }

    /// Returns the runnables of the declared servers. Registers the metrics that a metrics server alone shows.
    pub(crate) fn declared(
        &self,
        servers: &ServerDeclarations,
        monitor: &Arc<Monitor>,
        client: &Client,
        client_config: &ClientConfig,
        registry: &Registry,
    ) -> Result<Vec<HttpServer>, Error> {
        let mut declared = Vec::new();
        // The servers share the metrics of certificate files. The first server with such files registers them.
        let mut registered: Option<CertificateMetrics> = None;
        let mut measured = |tls: &TlsOptions| -> Result<TlsOptions, ServeError> {
            if tls.has_metrics() {
                return Ok(tls.clone());
            }
            let metrics = match registered.take() {
                Some(metrics) => metrics,
                None => CertificateMetrics::register(registry)?,
            };
            registered = Some(metrics.clone());
            Ok(tls.clone().metrics(metrics))
        };
        let health = servers.health.as_ref();
        if let Some(health) = health.filter(|health| !health.address.is_off()) {
            declared.push(HttpServer {
                name: "health",
                group: Group::HttpServers,
                address: health.address.clone(),
                options: health.options.clone(),
                routes: probe_routes(health, monitor, &self.live, &self.ready)?,
                bound: self.health_bound.clone(),
            });
        }
        let metrics = servers.metrics.as_ref();
        if let Some(metrics) = metrics.filter(|metrics| !metrics.address.is_off()) {
            #[cfg(target_os = "linux")]
            process_metrics::register(registry).map_err(Error::Metrics)?;
            let mut options = ServerOptions::new().limits(metrics.limits);
            if let Some(tls) = &metrics.tls {
                options = options.tls(measured(tls)?);
            }
            let mut routes = metrics_routes(metrics, client_config, registry, &self.diagnostics)?;
            if metrics.has_debug_page {
                let server = client_config.host().to_owned();
                let page = DebugPage::new(monitor, &self.diagnostics, registry, client, server)
                    .reached_by(metrics.address.is_loopback(), metrics.is_open());
                let reviewed = metrics.reviewed(client_config);
                let protect = |route| metrics.protect(route, reviewed.as_ref());
                for route in page.routes(metrics.tls.is_some(), protect) {
                    routes.add(route)?;
                }
            }
            declared.push(HttpServer {
                name: "metrics",
                group: Group::HttpServers,
                address: metrics.address.clone(),
                options,
                routes,
                bound: self.metrics_bound.clone(),
            });
        }
        if let Some(webhooks) = servers.webhooks() {
            let tls = measured(webhooks.tls_options())?;
            let metrics = WebhookMetrics::register(registry).map_err(Error::Metrics)?;
            declared.push(HttpServer {
                name: "webhook",
                group: Group::Webhooks,
                address: webhooks.address().clone(),
                options: webhooks.server_options(tls),
                routes: webhooks.routes_with(&metrics)?,
                bound: self.webhooks_bound.clone(),
            });
        }
        Ok(declared)
    }
}

impl Runnable for HttpServer {
    fn name(&self) -> String {
        format!("{} server", self.name)
    }

    fn group(&self) -> Group {
        self.group
    }

    fn says_when_ready(&self) -> bool {
        true
    }

    async fn run(self, context: RunContext) -> Result<(), BoxError> {
        let server = Server::bind(self.name, &self.address, self.options).await?;
        *self.bound.address.lock() = Some(server.local_address());
        context.ready();
        server.run(self.routes, context.cancellation()).await;
        context.note_end(&format!("{} server", self.name));
        Ok(())
    }
}

pub(crate) fn metrics_routes(
    options: &MetricsServer,
    client_config: &ClientConfig,
    registry: &Registry,
    diagnostics: &Diagnostics,
) -> Result<Routes, ServeError> {
    let reviewed = options.reviewed(client_config);
    let mut routes = Routes::new();
    let mut add = |route: Route| routes.add(options.protect(route, reviewed.as_ref()));
    add(Route::get(METRICS, MetricsPage::new(registry.clone())))?;
    if !options.is_open() {
        let diagnostics = diagnostics.clone();
        let show = move |request: Request<Bytes>| {
            let response = describe(&diagnostics, &request);
            async move { response }
        };
        add(Route::get(DIAGNOSTICS, show.clone()))?;
        add(Route::get(format!("{DIAGNOSTICS}/"), show).prefix())?;
    }
    for route in &options.routes {
        add(route.clone())?;
    }
    Ok(routes)
}

/// Returns all diagnostics, or only the section that the path of the request names.
fn describe(diagnostics: &Diagnostics, request: &Request<Bytes>) -> Response<Bytes> {
    let path = request.uri().path();
    let name = path.strip_prefix(DIAGNOSTICS).unwrap_or_default();
    let name = name.trim_matches('/');
    let content = match name {
        "" => Some(diagnostics.all()),
        _ => diagnostics.section(name),
    };
    let Some(content) = content else {
        let known = diagnostics.sections().join(", ");
        let text = format!("there is no section {name:?}; the sections are {known}");
        return text_response(StatusCode::NOT_FOUND, text);
    };
    json_response(StatusCode::OK, format!("{content:#}\n"))
}
