//! Words: the command line of the operator.

use std::path::PathBuf;

use clap::Parser;
use steersman::cli::OperatorArgs;

use crate::Settings;

/// Serves websites from ConfigMaps.
///
/// Uses the cluster that --kubeconfig, KUBECONFIG, the Pod's service account or ~/.kube/config names. If none is
/// configured, or with --embedded, it starts an API server in this process, with a sample website, for use with
/// kubectl.
#[derive(Debug, Parser)]
#[command(version)]
pub struct Args {
    /// Exit once every website is ready, or print what is missing
    #[arg(long)]
    pub once: bool,
    /// Start an API server in this process, even if a cluster is configured
    #[arg(long, conflicts_with_all = ["kubeconfig", "context"])]
    pub embedded: bool,
    /// The flags for the definition and the sample.
    #[command(flatten)]
    pub setup: SetupArgs,
    /// The address of the webhooks, such as :9443; "0" for none. The Service website-operator in the namespace of
    /// this Pod has to lead to it; manifests/webhooks.yaml has that Service. The embedded API server uses a free port
    #[arg(long, default_value = "0")]
    pub webhook_bind_address: String,
    /// The file for the kubeconfig of the embedded API server
    #[arg(long, default_value = "website-operator.kubeconfig")]
    pub write_kubeconfig: PathBuf,
    /// The flags of every operator.
    #[command(flatten)]
    pub operator: OperatorArgs<Settings>,
}

/// The flags for the definition and the sample.
#[derive(Debug, Clone, Copy, clap::Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line"
)]
pub struct SetupArgs {
    /// Install the definition of the Website kind first, with both versions, which needs the webhooks
    #[arg(long)]
    pub install: bool,
    /// Install the definition with its newest version alone, which needs no webhooks
    #[arg(long, conflicts_with_all = ["embedded", "webhook_bind_address"])]
    pub install_newest_version_only: bool,
    /// Create the sample website first
    #[arg(long)]
    pub sample: bool,
    /// Print the definition of the Website kind as YAML, and exit
    #[arg(long)]
    pub print_crd: bool,
}
