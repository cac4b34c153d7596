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
    none("config", CLUSTER),
    none("kubeconfig", CLUSTER),
    none("context", CLUSTER),
    none("namespace", CLUSTER),
    with("preflight", "false", CLUSTER),
    with("graceful-shutdown-timeout", "30s", CLUSTER),
    with("health-probe-bind-address", ":8081", SERVERS),
    with("metrics-bind-address", "0", SERVERS),
    with("metrics-secure", "true", SERVERS),
    none("metrics-cert-path", SERVERS),
    with("metrics-cert-name", "tls.crt", SERVERS),
    with("metrics-cert-key", "tls.key", SERVERS),
    none("metrics-token-path", SERVERS),
    none("webhook-cert-path", SERVERS),
    with("webhook-cert-name", "tls.crt", SERVERS),
    with("webhook-cert-key", "tls.key", SERVERS),
    none("webhook-inject-ca-from", SERVERS),
    with("enable-http2", "false", SERVERS),
    with("leader-elect", "false", ELECTION),
    none("leader-election-id", ELECTION),
    none("leader-election-namespace", ELECTION),
    with("leader-election-lease-duration", "15s", ELECTION),
    with("leader-election-renew-deadline", "10s", ELECTION),
    with("leader-election-retry-period", "2s", ELECTION),
    with("max-concurrent-reconciles", "1", CONTROLLERS),
    with("max-total-reconciles", "0", CONTROLLERS),
    with("reconcile-timeout", "0", CONTROLLERS),
    with("cache-sync-timeout", "0", CONTROLLERS),
    with("backoff-base", "5ms", CONTROLLERS),
    with("backoff-max", "1000s", CONTROLLERS),
    none("controller", CONTROLLERS),
    with("log-level", "info", LOGGING),
    with("log-format", "human", LOGGING),
];

const CLUSTER: &str = "Cluster";
const SERVERS: &str = "Probes and metrics";
const ELECTION: &str = "Leader election";
const CONTROLLERS: &str = "Controllers";
const LOGGING: &str = "Logging";

/// The prefix of all environment variables.
const PREFIX: &str = "STEERSMAN_";

/// The key in the file of the program's own settings.
pub(crate) const OPERATOR: &str = "operator";

/// The key in the file of the settings of single controllers.
pub(crate) const CONTROLLERS_KEY: &str = "controllers";

const fn none(key: &'static str, group: &'static str) -> Setting {
    Setting {
        key,
        default: None,
        group,
    }
}

const fn with(key: &'static str, default: &'static str, group: &'static str) -> Setting {
    Setting {
        key,
        default: Some(default),
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
