//! Words: the settings of an operator: their keys, defaults and groups.

use serde::de::DeserializeOwned;

/// A setting. Its key is the name of the flag, and the key in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Setting {
    /// The name of the flag, without its dashes.
    pub key: &'static str,
    /// The value if neither a flag, a variable nor the file sets one.
    pub default: Option<&'static str>,
    /// The heading under which `--help` lists the flag.
    pub group: &'static str,
}

/// The type of a program's own settings, which its configuration file has under the key `operator`.
///
/// ```
/// use serde::Deserialize;
/// use steersman_cli::OperatorSettings;
///
/// #[derive(Deserialize)]
/// #[serde(deny_unknown_fields)]
/// struct WebsiteSettings {
///     #[serde(default)]
///     image: Option<String>,
/// }
///
/// impl OperatorSettings for WebsiteSettings {
///     const DEFAULTS: &'static [(&'static str, &'static str)] = &[("log-level", "warn")];
/// }
/// ```
pub trait OperatorSettings: DeserializeOwned {
    /// Keys of [`SETTINGS`] with other defaults for this program, which `--help` shows. An unknown key or an invalid
    /// value is an error when the configuration is read.
    const DEFAULTS: &'static [(&'static str, &'static str)] = &[];
}

/// Every setting, in the order of `--help`.
pub const SETTINGS: &[Setting] = &[
    setting("config", None, CLUSTER),
    setting("kubeconfig", None, CLUSTER),
    setting("context", None, CLUSTER),
    setting("namespace", None, CLUSTER),
    setting("preflight", Some("false"), CLUSTER),
    setting("graceful-shutdown-timeout", Some("30s"), CLUSTER),
    setting("health-probe-bind-address", Some(":8081"), SERVERS),
    setting("metrics-bind-address", Some("0"), SERVERS),
    setting("metrics-secure", Some("true"), SERVERS),
    setting("metrics-cert-path", None, SERVERS),
    setting("metrics-cert-name", Some("tls.crt"), SERVERS),
    setting("metrics-cert-key", Some("tls.key"), SERVERS),
    setting("metrics-token-path", None, SERVERS),
    setting("debug-page", Some("false"), SERVERS),
    setting("webhook-cert-path", None, SERVERS),
    setting("webhook-cert-name", Some("tls.crt"), SERVERS),
    setting("webhook-cert-key", Some("tls.key"), SERVERS),
    setting("webhook-inject-ca-from", None, SERVERS),
    setting("enable-http2", Some("false"), SERVERS),
    setting("leader-elect", Some("false"), ELECTION),
    setting("leader-election-id", None, ELECTION),
    setting("leader-election-namespace", None, ELECTION),
    setting("leader-election-lease-duration", Some("15s"), ELECTION),
    setting("leader-election-renew-deadline", Some("10s"), ELECTION),
    setting("leader-election-retry-period", Some("2s"), ELECTION),
    setting("shards", Some("false"), SHARDS),
    setting("shard-by", Some("namespace"), SHARDS),
    setting("max-concurrent-reconciles", Some("1"), CONTROLLERS),
    setting("max-total-reconciles", Some("0"), CONTROLLERS),
    setting("reconcile-timeout", Some("0"), CONTROLLERS),
    setting("cache-sync-timeout", Some("0"), CONTROLLERS),
    setting("backoff-base", Some("5ms"), CONTROLLERS),
    setting("backoff-max", Some("1000s"), CONTROLLERS),
    setting("controller", None, CONTROLLERS),
    setting("log-level", Some("info"), LOGGING),
    setting("log-format", Some("human"), LOGGING),
    setting("otlp-endpoint", None, TRACES),
    setting("otlp-sample-ratio", None, TRACES),
];

const CLUSTER: &str = "Cluster";
const SERVERS: &str = "Probes and metrics";
const ELECTION: &str = "Leader election";
const SHARDS: &str = "Shards";
const CONTROLLERS: &str = "Controllers";
const LOGGING: &str = "Logging";
const TRACES: &str = "Traces";

/// The prefix of all environment variables.
const PREFIX: &str = "STEERSMAN_";

/// The key in the file of the program's own settings.
pub(crate) const OPERATOR: &str = "operator";

/// The key in the file of the settings of single controllers.
pub(crate) const CONTROLLERS_KEY: &str = "controllers";

const fn setting(key: &'static str, default: Option<&'static str>, group: &'static str) -> Setting {
    Setting {
        key,
        default,
        group,
    }
}

impl Setting {
    /// Returns the environment variables of the setting. The first one that is set and not empty counts.
    pub fn variables(&self) -> Vec<String> {
        let own = format!("{PREFIX}{}", self.key.to_uppercase().replace('-', "_"));
        match self.key {
            // kubectl reads this variable, too, which may name several files.
            "kubeconfig" => vec!["KUBECONFIG".to_owned()],
            "log-level" => vec![own, "RUST_LOG".to_owned()],
            _ => vec![own],
        }
    }
}
