//! Words: the flags of an operator. Environment variables and files have the same values.

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use clap::builder::{OsStringValueParser, TypedValueParser as _};
use steersman_object::{ObjectKey, ShardBy, parse_duration};
use steersman_serve::ListenAddress;

use crate::controller_setting::{NamedSetting, parse_named};
use crate::log_filter::{ALLOWED, log_filter};
use crate::named_value::{
    parse_bool, parse_delay, parse_key, parse_namespace, parse_share, parse_workers,
};

/// The format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
#[non_exhaustive]
pub enum LogFormat {
    /// Text lines for people.
    #[default]
    #[value(alias = "console")]
    Human,
    /// One JSON object per line.
    Json,
}

/// The settings of one source: the command line, the environment, the file, or the defaults.
#[derive(Debug, Clone, Default, PartialEq, clap::Args)]
pub(crate) struct SettingFlags {
    /// The YAML file with settings; its keys are the names of these flags
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The kubeconfig file. Without it, the service account of the Pod if one is mounted, or else ~/.kube/config. HTTPS_PROXY and NO_PROXY choose a proxy
    #[arg(long, value_name = "FILE", value_parser = OsStringValueParser::new().map(PathBuf::from))]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig, instead of its current one
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// The namespaces to watch, separated by commas; an empty value is all of them
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = parse_namespace)]
    pub(crate) namespace: Option<Vec<String>>,
    /// Ask the server at the start what the cache may read, and log missing RBAC rules
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = parse_bool)]
    pub(crate) preflight: Option<bool>,
    /// How long a stop may take; 0s does not wait, and unlimited or a negative duration has no limit
    #[arg(long, value_name = "DURATION", value_parser = parse_grace, allow_hyphen_values = true)]
    pub(crate) graceful_shutdown_timeout: Option<Duration>,
    /// The address of /healthz, /livez and /readyz; 0 is no server
    #[arg(long, value_name = "ADDRESS", value_parser = parse_address)]
    pub(crate) health_probe_bind_address: Option<String>,
    /// The address of /metrics, such as :8443; 0 is no server
    #[arg(long, value_name = "ADDRESS", value_parser = parse_address)]
    pub(crate) metrics_bind_address: Option<String>,
    /// Serve metrics with HTTPS, to clients that the API server knows and permits, with diagnostics and the log level
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = parse_bool)]
    pub(crate) metrics_secure: Option<bool>,
    /// The folder of the certificate of the metrics server; without it, the server signs one itself
    #[arg(long, value_name = "FOLDER", value_parser = OsStringValueParser::new().map(PathBuf::from))]
    pub(crate) metrics_cert_path: Option<PathBuf>,
    /// The file of the certificate in the folder
    #[arg(long, value_name = "NAME")]
    pub(crate) metrics_cert_name: Option<String>,
    /// The file of the private key in the folder
    #[arg(long, value_name = "NAME")]
    pub(crate) metrics_cert_key: Option<String>,
    /// The file of a token: clients that send it read metrics, diagnostics and the log level, and the API server is not asked. It counts without HTTPS, too
    #[arg(long, value_name = "FILE", value_parser = OsStringValueParser::new().map(PathBuf::from))]
    pub(crate) metrics_token_path: Option<PathBuf>,
    /// Serve the debug page below /debug/ of the metrics server, for people with a browser; without access control only on a loopback address
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = parse_bool)]
    pub(crate) debug_page: Option<bool>,
    /// The folder of the certificate of the webhook server
    #[arg(long, value_name = "FOLDER", value_parser = OsStringValueParser::new().map(PathBuf::from))]
    pub(crate) webhook_cert_path: Option<PathBuf>,
    /// The file of the certificate in the folder
    #[arg(long, value_name = "NAME")]
    pub(crate) webhook_cert_name: Option<String>,
    /// The file of the private key in the folder
    #[arg(long, value_name = "NAME")]
    pub(crate) webhook_cert_key: Option<String>,
    /// The cert-manager Certificate of the webhook server: cert-manager injects its authority into the definitions
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = parse_key)]
    pub(crate) webhook_inject_ca_from: Option<ObjectKey>,
    /// Serve metrics and webhooks over HTTP/2, too, where they are served with HTTPS
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = parse_bool)]
    pub(crate) enable_http2: Option<bool>,
    /// Elect a leader on a Lease; other replicas stand by
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = parse_bool)]
    pub(crate) leader_elect: Option<bool>,
    /// The name of the Lease; without it, the name of the program
    #[arg(long, value_name = "NAME")]
    pub(crate) leader_election_id: Option<String>,
    /// The namespace of the Lease; without it, that of the Pod or of the context
    #[arg(long, value_name = "NAME")]
    pub(crate) leader_election_namespace: Option<String>,
    /// How long a standby waits after the last renewal that it saw; a number of whole seconds
    #[arg(long, value_name = "DURATION", value_parser = parse_delay)]
    pub(crate) leader_election_lease_duration: Option<Duration>,
    /// How long a leader works after its last renewal
    #[arg(long, value_name = "DURATION", value_parser = parse_delay)]
    pub(crate) leader_election_renew_deadline: Option<Duration>,
    /// The pause between two renewals, or two attempts
    #[arg(long, value_name = "DURATION", value_parser = parse_delay)]
    pub(crate) leader_election_retry_period: Option<Duration>,
    /// Share the work: each replica caches and reconciles a part of all objects
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = parse_bool)]
    pub(crate) shards: Option<bool>,
    /// What decides the replica of an object: namespace, name (with the namespace), or namespace-on-server for a server that filters lists and watches by shard
    #[arg(long, value_name = "WHAT", value_parser = parse_shard_by)]
    pub(crate) shard_by: Option<ShardBy>,
    /// How many requests each controller reconciles at the same time, unless its code says otherwise
    #[arg(long, value_name = "NUMBER", value_parser = parse_workers)]
    pub(crate) max_concurrent_reconciles: Option<usize>,
    /// How many reconciles run at the same time over all controllers; 0 is no limit
    #[arg(long, value_name = "NUMBER")]
    pub(crate) max_total_reconciles: Option<usize>,
    /// How long a reconcile may take, unless the code of its controller says otherwise; 0 is no limit
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) reconcile_timeout: Option<Duration>,
    /// How long a kind may take to sync before the operator ends, unless the code of its controller says otherwise; 0 is no limit
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) cache_sync_timeout: Option<Duration>,
    /// The delay after the first failure of a request; it doubles with each further failure
    #[arg(long, value_name = "DURATION", value_parser = parse_delay)]
    pub(crate) backoff_base: Option<Duration>,
    /// The longest delay after a failure
    #[arg(long, value_name = "DURATION", value_parser = parse_delay)]
    pub(crate) backoff_max: Option<Duration>,
    /// A setting of one controller, which wins over its code; may be repeated, or separated by commas
    #[arg(long, value_name = "NAME.KEY=VALUE", value_delimiter = ',', value_parser = parse_named)]
    pub(crate) controller: Option<Vec<NamedSetting>>,
    /// The least level of log lines: error, warn, info, debug or trace, or directives such as info,steersman=debug
    #[arg(long, value_name = "LEVEL", value_parser = parse_level)]
    pub(crate) log_level: Option<String>,
    /// The form of log lines
    #[arg(long, value_name = "FORMAT", alias = "zap-encoder")]
    pub(crate) log_format: Option<LogFormat>,
    /// The collector of traces, such as http://collector:4318: OTLP over HTTP, for programs with the feature otlp. Without it, the variables of OpenTelemetry name the collector
    #[arg(long, value_name = "URL")]
    pub(crate) otlp_endpoint: Option<String>,
    /// The share of the traces that are exported, from 0 to 1. Without it, OTEL_TRACES_SAMPLER decides, and all traces are exported by default
    #[arg(long, value_name = "SHARE", value_parser = parse_share)]
    pub(crate) otlp_sample_ratio: Option<f64>,
}

impl SettingFlags {
    /// Returns these settings; those that are missing are taken from `lower`.
    pub(crate) fn or(self, lower: Self) -> Self {
        macro_rules! first_of_each {
            ($($field:ident),* $(,)?) => {
                Self { $($field: self.$field.or(lower.$field)),* }
            };
        }
        first_of_each![
            config, kubeconfig, context, namespace, preflight, graceful_shutdown_timeout,
            health_probe_bind_address, metrics_bind_address, metrics_secure, metrics_cert_path,
            metrics_cert_name, metrics_cert_key, metrics_token_path, debug_page, webhook_cert_path,
            webhook_cert_name, webhook_cert_key, webhook_inject_ca_from, enable_http2,
            leader_elect, leader_election_id, leader_election_namespace,
            leader_election_lease_duration, leader_election_renew_deadline,
            leader_election_retry_period, shards, shard_by, max_concurrent_reconciles,
            max_total_reconciles, reconcile_timeout, cache_sync_timeout, backoff_base, backoff_max,
            controller, log_level, log_format, otlp_endpoint, otlp_sample_ratio,
        ]
    }
}

/// Checks the notation of a server's address.
fn parse_address(text: &str) -> Result<String, String> {
    match ListenAddress::from(text).check() {
        Ok(()) => Ok(text.to_owned()),
        Err(_) => Err(
            "an address is host:port, such as :8081, 127.0.0.1:8081 or [::1]:8081; 0 is no server"
                .to_owned(),
        ),
    }
}

fn parse_shard_by(text: &str) -> Result<ShardBy, String> {
    match text.trim() {
        "namespace" => Ok(ShardBy::Namespace),
        "namespace-on-server" => Ok(ShardBy::NamespaceOnServer),
        "name" => Ok(ShardBy::Name),
        _ => Err("it is namespace, name or namespace-on-server".to_owned()),
    }
}

/// Checks a log level or a list of log directives.
pub(crate) fn parse_level(text: &str) -> Result<String, String> {
    match log_filter(text) {
        Some(_) => Ok(text.trim().to_owned()),
        None => Err(ALLOWED.to_owned()),
    }
}

/// Parses the time limit of a stop. A negative duration means no limit, as in Go.
fn parse_grace(text: &str) -> Result<Duration, String> {
    match text.trim() {
        "unlimited" | "-1" => Ok(Duration::MAX),
        text => match text.strip_prefix('-') {
            Some(duration) => Ok(match parse_duration(duration)? {
                Duration::ZERO => Duration::ZERO,
                _ => Duration::MAX,
            }),
            None => parse_duration(text).map_err(|problem| format!("{problem}; or unlimited")),
        },
    }
}
