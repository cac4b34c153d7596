//! Words: what a user decides about the manifests of an operator.

use serde::{Deserialize, Serialize};

/// What a user decides about the manifests of an operator.
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
    /// The namespace of the operator. Default: `<name>-system`, which the manifests declare. A namespace of another
    /// name must exist, and stays as it is.
    pub namespace: Option<String>,
    /// The image of the operator. Default: `<name>:<version>`.
    pub image: Option<String>,
    /// The namespaces that the operator watches. Default: none, which means all.
    ///
    /// With namespaces, the rules for namespaced kinds are a Role in each of them, and the `ClusterRole` has only the
    /// rules for kinds without a namespace, for the definitions, and for the migration of stored objects of kinds with
    /// several versions.
    pub namespaces: Vec<String>,
    /// The number of replicas. Default: 2, of which one leads. One replica has no `PodDisruptionBudget`, because the
    /// budget would block the drain of a node.
    pub replicas: u32,
    /// Whether `config/default` includes `config/prometheus`. Default: no, because the cluster needs the kinds of the
    /// Prometheus operator.
    pub prometheus: bool,
    /// Whether `config/default` and the installer include `config/network-policy`. Default: no.
    pub network_policy: bool,
    /// Whether cert-manager keeps the certificate of the webhooks, and injects its authority. Default: no, the program
    /// has an authority of its own. The cluster needs cert-manager.
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
            network_policy: false,
            cert_manager: false,
        }
    }
}
