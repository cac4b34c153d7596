//! An operator that serves websites from ConfigMaps.
//!
//! A [`Website`](website::Website) names an image, a number of replicas, and a ConfigMap with its
//! pages. For each Website the operator keeps a copy of the pages, a Deployment of web servers and a
//! Service, and enters the site in the directory of its namespace once it is served.
//!
//! If no cluster is configured, the binary starts an API server in its own process, which stands in for
//! a cluster's controllers and kubelets, so that Deployments get Pods.
//!
//! The modules in reading order:
//!
//! - [`website`] is the kind, as its users write it.
//! - [`children`] makes the children, and computes the site's status from them.
//! - [`controller`] is the reconciler with its watches, and the file to read if you read only one.
//! - [`webhooks`] fills in and checks websites, and converts them between the versions.

use steersman::cli::OperatorSettings;

pub mod website;
pub mod children;
pub mod controller;
pub mod webhooks;

/// The settings of this operator below the key `operator` of its configuration file.
#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Settings {
    /// How long the former and the next authority of the webhooks overlap, in seconds: 300 by default.
    #[serde(default)]
    pub certificate_overlap_seconds: Option<u32>,
}

impl OperatorSettings for Settings {
    // A first run on a laptop prints what happens to websites, and needs no free port. The flags of a Deployment
    // set up the probes.
    const DEFAULTS: &'static [(&'static str, &'static str)] =
        &[("log-level", "warn"), ("health-probe-bind-address", "0")];
}
