//! Words: the options of an operator's manifests.

use serde::{Deserialize, Serialize};

/// The options of an operator's manifests, which a user sets.
///
/// ```
/// use steersman_manifests::Options;
///
/// let options = Options {
///     image: Some("registry.example.com/website-operator:1.4.2".to_owned()),
///     ..Options::default()
/// };
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Options {
    /// The namespace of the operator. The default is `<name>-system`, which the manifests create; another namespace
    /// must exist.
    pub namespace: Option<String>,
    /// The image of the operator. Default: `<name>:<version>`.
    pub image: Option<String>,
    /// The namespaces that the operator watches; by default an empty list, which means all.
    ///
    /// With namespaces, rules for namespaced kinds are in a Role in each namespace. The `ClusterRole` has the rules for
    /// cluster-scoped kinds, for definitions, and for migrating stored objects of kinds with several versions.
    pub namespaces: Vec<String>,
    /// The number of replicas; by default 2, of which one leads. A single replica has no `PodDisruptionBudget`, which
    /// would block the drain of its node.
    pub replicas: u32,
    /// Whether `config/default` includes `config/prometheus`; off by default, because the cluster needs the kinds of
    /// the Prometheus operator.
    pub prometheus: bool,
    /// The service account of Prometheus as `namespace/name`, which `config/prometheus` permits to read the metrics. By
    /// default none: the account differs from cluster to cluster.
    pub prometheus_account: Option<String>,
    /// The namespace in which Grafana looks for dashboards. If it is set, `config/default` includes `config/grafana`,
    /// and the dashboard is in this namespace; by default it is in that of the operator.
    pub grafana_namespace: Option<String>,
    /// Whether `config/default` and the installer include `config/network-policy`; off by default.
    pub network_policy: bool,
    /// Whether cert-manager makes the certificate of the webhooks and injects its authority. Off by default: the
    /// program has its own authority. If on, the cluster needs cert-manager.
    pub cert_manager: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            namespace: None,
            image: None,
            namespaces: Vec::new(),
            replicas: 2,
            prometheus: false,
            prometheus_account: None,
            grafana_namespace: None,
            network_policy: false,
            cert_manager: false,
        }
    }
}
