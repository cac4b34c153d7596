//! Handle: the configuration of an operator, made from all sources.

use std::any::Any;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use steersman_api::{ClientConfig, ConfigChoice};
use steersman_cache::CacheOptions;
use steersman_controller::{ControllerDefaults, ControllerSettings, ReconcileLimit};
use steersman_lease::LeaderElection;
use steersman_manager::{Manager, ManagerBuilder, MetricsServer};
use steersman_serve::{ListenAddress, TlsOptions, TokenFile};
use steersman_shards::Shards;
use steersman_webhook::WebhookServer;

use crate::console::Console;
use crate::controller_setting::{BackoffSetting, by_controller};
use crate::error::Error;
use crate::file::{read_log_format, read_operator, read_settings};
use crate::flags::{LogFormat, SettingFlags};
use crate::layer::{Given, defaults, layer, of_environment, of_program};
use crate::level_route::level_route;
use crate::log::LogLevel;
use crate::process_log::ProcessLog;
use crate::settings::OperatorSettings;
use crate::trace_export::OtlpFlags;

/// The configuration of an operator. The value of each setting is from the first source that has one: flag, environment
/// variable, file, default. `T` is the type of the program's own settings in the file.
///
/// Made by [`OperatorArgs::config`](crate::OperatorArgs::config).
#[derive(Debug, Clone)]
pub struct Config<T> {
    flags: SettingFlags,
    log: Option<ProcessLog>,
    version: Option<String>,
    args: Option<OwnValues>,
    /// The program's own settings, from the key `operator` of the file.
    pub operator: T,
}

/// The values of the program's own flags, with their type erased.
pub(crate) type OwnValues = Arc<dyn Any + Send + Sync>;

impl<T: OperatorSettings> Config<T> {
    pub(crate) fn read(
        flags: &SettingFlags,
        log: Option<ProcessLog>,
        variable: impl Fn(&str) -> Option<std::ffi::OsString>,
    ) -> Result<Self, Error> {
        let environment = layer(&of_environment(&variable)?)?;
        let path = flags.config.as_ref().or(environment.config.as_ref());
        // Without a file, the settings are those of an empty file.
        let text = path.map_or_else(|| Ok(String::new()), |path| read_file(path))?;
        let path = path.map_or(Path::new("the configuration file"), PathBuf::as_path);
        let content = read_settings(path, &text)?;
        let operator = read_operator(path, &text)?;
        let defaults = layer(&of_program(T::DEFAULTS)?)?.or(defaults()?);
        let mut lower = layer(&content.given)?.or(defaults);
        // `ClientConfig` reads KUBECONFIG itself, because the variable may name several files. It has priority over the
        // file and the program's default.
        let has_variable = variable("KUBECONFIG").is_some_and(|value| !value.is_empty());
        lower.kubeconfig.take_if(|_| has_variable);
        // Settings of controllers from all sources are kept: `by_controller` lets the last value of a setting count.
        let mut controllers = content.controllers;
        controllers.extend(environment.controller.clone().unwrap_or_default());
        controllers.extend(flags.controller.clone().unwrap_or_default());
        // CONF-1: a flag goes before the variable, the file and the default.
        let mut all = flags.clone().or(environment).or(lower);
        all.controller = Some(controllers);
        let flags = without_empty_values(all);
        let metrics = flags.metrics_bind_address.as_deref().unwrap_or_default();
        if flags.debug_page == Some(true) && ListenAddress::from(metrics).is_off() {
            return Err(Error::Lacks {
                key: "debug-page",
                lacking: "metrics-bind-address",
                reason: "the metrics server serves the page, for instance on 127.0.0.1:8080",
            });
        }
        if flags.webhook_inject_ca_from.is_some() && flags.webhook_cert_path.is_none() {
            return Err(Error::Lacks {
                key: "webhook-inject-ca-from",
                lacking: "webhook-cert-path",
                reason: "cert-manager keeps the certificate in a Secret, which a volume mounts as a folder",
            });
        }
        Ok(Self {
            flags,
            log,
            version: None,
            args: None,
            operator,
        })
    }

    /// Returns the format of log lines, even if other settings are wrong: the error about these has this format.
    pub(crate) fn log_format_despite_errors(
        flags: &SettingFlags,
        variable: impl Fn(&str) -> Option<std::ffi::OsString>,
    ) -> LogFormat {
        let environment = valid_part(&of_environment(&variable).unwrap_or_default());
        let path = flags.config.as_ref().or(environment.config.as_ref());
        let in_file = path.and_then(|path| read_log_format(path, &read_file(path).ok()?));
        let defaults = of_program(T::DEFAULTS).unwrap_or_default();
        let sources = [
            environment.log_format,
            valid_part(&Vec::from_iter(in_file)).log_format,
            valid_part(&defaults).log_format,
        ];
        let found = sources.into_iter().flatten().next();
        flags.log_format.or(found).unwrap_or_default()
    }
}

/// Returns the settings with valid values, and drops the others.
fn valid_part(given: &[Given]) -> SettingFlags {
    let parsed = given.iter().map(|one| layer(std::slice::from_ref(one)));
    let valid = parsed.flatten();
    valid.fold(SettingFlags::default(), SettingFlags::or)
}

/// Replaces empty values after all sources were read: an empty namespace means all namespaces, and an empty name or
/// path means none.
fn without_empty_values(mut flags: SettingFlags) -> SettingFlags {
    if let Some(namespaces) = &mut flags.namespace {
        namespaces.retain(|namespace| !namespace.is_empty());
    }
    for name in [
        &mut flags.context,
        &mut flags.leader_election_id,
        &mut flags.leader_election_namespace,
        &mut flags.metrics_cert_name,
        &mut flags.metrics_cert_key,
        &mut flags.webhook_cert_name,
        &mut flags.webhook_cert_key,
        &mut flags.otlp_endpoint,
    ] {
        name.take_if(|name| name.is_empty());
    }
    for path in [
        &mut flags.kubeconfig, &mut flags.metrics_cert_path, &mut flags.metrics_token_path,
        &mut flags.webhook_cert_path,
    ] {
        path.take_if(|path| path.as_os_str().is_empty());
    }
    flags
}

impl<T> Config<T> {
    /// Returns the namespaces to watch; an empty slice means all namespaces.
    pub fn namespaces(&self) -> &[String] {
        self.flags.namespace.as_deref().unwrap_or_default()
    }

    /// Returns the level of the log, or its directives.
    pub fn log_level(&self) -> &str {
        self.flags.log_level.as_deref().unwrap_or("info")
    }

    /// Returns the handle of the log level, if [`OperatorArgs::init_logging`](crate::OperatorArgs::init_logging) was
    /// called before the configuration was read.
    pub fn log(&self) -> Option<&LogLevel> {
        self.log.as_ref().map(|log| &log.level)
    }

    /// Returns the settings of the export of traces.
    pub(crate) fn otlp(&self) -> OtlpFlags<'_> {
        OtlpFlags {
            endpoint: self.flags.otlp_endpoint.as_deref(),
            sample_ratio: self.flags.otlp_sample_ratio,
        }
    }

    /// Returns the format of log lines.
    pub fn log_format(&self) -> LogFormat {
        self.flags.log_format.unwrap_or_default()
    }

    /// Returns a console that prints texts in the format of the log.
    pub fn console(&self) -> Console {
        Console::new(self.log_format())
    }

    /// Returns cache options with the namespaces to watch. A program extends them and passes them to
    /// [`ManagerBuilder::cache`].
    pub fn cache_options(&self) -> CacheOptions {
        match self.namespaces() {
            [] => CacheOptions::new(),
            some => CacheOptions::new().default_namespaces(some),
        }
    }

    /// Returns the settings of controllers, and the limit on concurrent reconciles that all controllers share.
    pub fn controllers(&self) -> ControllerDefaults {
        let flags = &self.flags;
        let mut every = ControllerSettings::new();
        if let Some(workers) = flags.max_concurrent_reconciles {
            every = every.max_concurrent_reconciles(workers);
        }
        if let Some(timeout) = flags.reconcile_timeout {
            every = every.deadline(timeout);
        }
        if let Some(timeout) = flags.cache_sync_timeout {
            every = every.require_sync(timeout);
        }
        let backoff = BackoffSetting {
            base: flags.backoff_base.unwrap_or(Duration::from_millis(5)),
            max: flags.backoff_max.unwrap_or(Duration::from_secs(1000)),
        };
        let mut found = ControllerDefaults::new().every(every.backoff(backoff.base, backoff.max));
        let own = flags.controller.as_deref().unwrap_or_default();
        for (name, settings) in by_controller(own, backoff) {
            found = found.named(name, settings);
        }
        match flags.max_total_reconciles.and_then(NonZeroUsize::new) {
            Some(permits) => found.reconcile_limit(ReconcileLimit::new(permits)),
            None => found,
        }
    }

    /// Sets the version of the program in the `User-Agent` of the manager, for example to `env!("CARGO_PKG_VERSION")`.
    /// The default is `steersman-` and the version of this framework.
    #[must_use]
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.version = Some(version.into());
        self
    }

    /// Returns the values of the flags that [`Program::args`](crate::Program::args) added; `None` for another type.
    pub fn args<A: 'static>(&self) -> Option<&A> {
        self.args.as_deref()?.downcast_ref()
    }

    pub(crate) fn with_args(mut self, args: Option<OwnValues>) -> Self {
        self.args = args;
        self
    }

    /// Connects to the API server of `--kubeconfig` and `--context`; without these flags, as [`ClientConfig::infer`]
    /// does.
    ///
    /// # Errors
    ///
    /// [`Error::Connect`]; [`is_no_config`](Error::is_no_config) is true if no cluster is configured. No request is
    /// sent.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn connect(&self) -> Result<ClientConfig, Error> {
        let mut choice = ConfigChoice::new();
        if let Some(path) = &self.flags.kubeconfig {
            choice = choice.kubeconfig(path);
        }
        if let Some(context) = &self.flags.context {
            choice = choice.context(context);
        }
        let found = ClientConfig::infer_with(&choice).await;
        found.map_err(Error::Connect)
    }

    /// Makes the builder of a manager with all settings of the configuration. `name` is the program in the
    /// `User-Agent`, and in the field manager of its writes.
    ///
    /// Later calls on the builder replace single settings. Options of the cache should extend
    /// [`cache_options`](Self::cache_options).
    ///
    /// # Errors
    ///
    /// The errors of [`connect`](Self::connect).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn manager(&self, name: &str) -> Result<ManagerBuilder, Error> {
        Ok(self.manager_over(self.connect().await?, name))
    }

    /// Makes the builder of a manager like [`manager`](Self::manager), for an existing [`ClientConfig`]. A
    /// `ClientConfig` that [names its program](ClientConfig::names_program) keeps its `User-Agent`.
    pub fn manager_over(&self, client_config: ClientConfig, name: &str) -> ManagerBuilder {
        let flags = &self.flags;
        let client_config = match client_config.names_program() {
            true => client_config,
            false => client_config.user_agent(name, self.version.as_deref().unwrap_or(FRAMEWORK)),
        };
        let traces = self.log.as_ref().and_then(|log| log.traces.as_ref());
        let client_config = match traces {
            Some(traces) => traces.traced(client_config),
            None => client_config,
        };
        let mut builder = Manager::builder(client_config)
            .cache(self.cache_options())
            .controllers(self.controllers())
            .preflight(flags.preflight.unwrap_or_default());
        if let Some(grace) = flags.graceful_shutdown_timeout {
            builder = match grace {
                Duration::MAX => builder.graceful_shutdown_without_timeout(),
                grace => builder.graceful_shutdown_timeout(grace),
            };
        }
        if let Some(address) = &flags.health_probe_bind_address {
            builder = builder.health(address.as_str());
        }
        if flags.leader_elect == Some(true) {
            builder = builder.leader_election(self.leader_election(name));
        }
        if flags.shards == Some(true) {
            builder = builder.shards(self.shards(name));
        }
        match self.metrics_server() {
            Some(server) => builder.metrics(server),
            None => builder,
        }
    }

    /// Makes a server of webhooks on this address, such as `"[::]:9443"`, with the certificate of
    /// `--webhook-cert-path`, or else with the default of [`WebhookServer::new`]. With `--webhook-inject-ca-from`,
    /// cert-manager injects its authority into the definitions that name the Service of the server. `--enable-http2`
    /// also enables HTTP/2.
    pub fn webhook_server(&self, address: impl Into<ListenAddress>) -> WebhookServer {
        let flags = &self.flags;
        let (chain, key) = (&flags.webhook_cert_name, &flags.webhook_cert_key);
        let server = WebhookServer::new(address);
        let tls = match &flags.webhook_cert_path {
            Some(folder) => files(folder, chain.as_deref(), key.as_deref()),
            None => server.tls_options().clone(),
        };
        let server = server.tls(tls.http2(flags.enable_http2.unwrap_or_default()));
        match &flags.webhook_inject_ca_from {
            Some(certificate) => server.inject_ca_from(certificate.clone()),
            None => server,
        }
    }

    /// Returns whether the configuration has certificate files for the webhooks.
    pub fn has_webhook_certificate(&self) -> bool {
        self.flags.webhook_cert_path.is_some()
    }

    /// Returns the options of an election with the configured Lease, or else with a Lease named as the program.
    fn leader_election(&self, name: &str) -> LeaderElection {
        let flags = &self.flags;
        let lease = flags.leader_election_id.as_deref().unwrap_or(name);
        let mut election = LeaderElection::new(lease);
        if let Some(namespace) = &flags.leader_election_namespace {
            election = election.namespace(namespace);
        }
        // Each duration has a default, so all three are set.
        if let Some(lease) = flags.leader_election_lease_duration
            && let Some(renew) = flags.leader_election_renew_deadline
            && let Some(retry) = flags.leader_election_retry_period
        {
            election = election.timing(lease, renew, retry);
        }
        election
    }

    /// Returns the options of a group that shares the work. It is named as the Lease of the election, followed by
    /// `-shards`, and has the namespace and the durations of the election.
    fn shards(&self, name: &str) -> Shards {
        let flags = &self.flags;
        let lease = flags.leader_election_id.as_deref().unwrap_or(name);
        let by = flags.shard_by.unwrap_or_default();
        let mut shards = Shards::new(format!("{lease}-shards"), by);
        if let Some(namespace) = &flags.leader_election_namespace {
            shards = shards.in_namespace(namespace);
        }
        // Each duration has a default, so all three are set.
        if let Some(lease) = flags.leader_election_lease_duration
            && let Some(renew) = flags.leader_election_renew_deadline
            && let Some(retry) = flags.leader_election_retry_period
        {
            shards = shards.timing(lease, renew, retry);
        }
        shards
    }

    /// Returns the server of `/metrics` with its certificate and access control; `None` without an address. With access
    /// control it also has `/debug/log-level`, which shows and changes the log level.
    fn metrics_server(&self) -> Option<MetricsServer> {
        let flags = &self.flags;
        let address =
            ListenAddress::from(flags.metrics_bind_address.as_deref().unwrap_or_default());
        if address.is_off() {
            return None;
        }
        let token = flags.metrics_token_path.as_ref();
        let server = match (flags.metrics_secure, token) {
            // Without access control, the log level has no route: any client could change it.
            (Some(false), None) => {
                let has_page = flags.debug_page.unwrap_or_default();
                return Some(MetricsServer::new(address).debug_page(has_page));
            }
            (Some(false), Some(_)) => MetricsServer::new(address),
            _ => MetricsServer::secure(address).tls(self.metrics_tls()),
        };
        let server = match token {
            Some(path) => server.access(TokenFile::new(path)),
            None => server,
        };
        let server = server.debug_page(flags.debug_page.unwrap_or_default());
        Some(match self.log() {
            Some(level) => server.route(level_route(level.clone())),
            None => server,
        })
    }

    fn metrics_tls(&self) -> TlsOptions {
        let flags = &self.flags;
        let (chain, key) = (&flags.metrics_cert_name, &flags.metrics_cert_key);
        let tls = match &flags.metrics_cert_path {
            Some(folder) => files(folder, chain.as_deref(), key.as_deref()),
            None => TlsOptions::self_signed(),
        };
        tls.http2(flags.enable_http2.unwrap_or_default())
    }
}

fn files(folder: &Path, chain: Option<&str>, key: Option<&str>) -> TlsOptions {
    let (chain, key) = (chain.unwrap_or("tls.crt"), key.unwrap_or("tls.key"));
    TlsOptions::files(folder.join(chain), folder.join(key))
}

/// The version in the `User-Agent` of a program that sets none.
const FRAMEWORK: &str = concat!("steersman-", env!("CARGO_PKG_VERSION"));

fn read_file(path: &Path) -> Result<String, Error> {
    let failed = |source| Error::Read {
        path: path.to_owned(),
        source,
    };
    std::fs::read_to_string(path).map_err(failed)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    /// Returns the options of the metrics server on port 8443 with these flags, as text.
    fn metrics_server(flags: &[&str]) -> String {
        let words = ["program", "--metrics-bind-address=:8443"];
        let words = words.iter().chain(flags);
        let args = crate::Args::try_parse_from(words).unwrap();
        let config = args.config_with(|_| None).unwrap();
        format!("{:?}", config.metrics_server().unwrap())
    }

    #[test]
    fn http2_is_off_unless_the_flag_enables_it_with_either_certificate() {
        for (flags, expected) in [
            (&[][..], "http2: false"),
            (&["--enable-http2"], "http2: true"),
            (&["--enable-http2=f"], "http2: false"),
            (
                &["--enable-http2", "--metrics-cert-path=/certs"],
                "http2: true",
            ),
        ] {
            let server = metrics_server(flags);
            assert!(server.contains(expected), "{flags:?}: {server}");
        }
    }

    #[test]
    fn the_debug_page_is_served_if_it_is_asked_for() {
        let alone = crate::Args::try_parse_from(["program", "--debug-page"]).unwrap();
        let refused = alone.config_with(|_| None).unwrap_err().to_string();
        assert!(
            refused.starts_with("debug-page needs metrics-bind-address"),
            "{refused}"
        );
        for (flags, expected) in [
            (&[][..], "has_debug_page: false"),
            (&["--debug-page"], "has_debug_page: true"),
            (
                &["--debug-page", "--metrics-secure=f"],
                "has_debug_page: true",
            ),
            (&["--debug-page=f"], "has_debug_page: false"),
        ] {
            let server = metrics_server(flags);
            assert!(server.contains(expected), "{flags:?}: {server}");
        }
    }

    #[test]
    fn a_token_controls_the_access_with_and_without_https() {
        for (flags, expected) in [
            (&[][..], "tls: Some, access: Reviewed"),
            (&["--metrics-secure=f"], "tls: None, access: Open"),
            (&["--metrics-token-path=t"], "tls: Some, access: Given"),
            (
                &["--metrics-secure=f", "--metrics-token-path=t"],
                "tls: None, access: Given",
            ),
        ] {
            let server = metrics_server(flags);
            let found = format!(
                "tls: {}, access: {}",
                if server.contains("tls: None") {
                    "None"
                } else {
                    "Some"
                },
                ["Reviewed", "Open", "Given"]
                    .iter()
                    .find(|access| server.contains(&format!("access: {access}")))
                    .unwrap()
            );
            assert_eq!(found, expected, "{flags:?}: {server}");
        }
    }
}
