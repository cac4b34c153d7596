//! Words: the command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

/// The command line as cargo passes it on: `cargo-steersman steersman new greeter`.
#[derive(Debug, Parser)]
#[command(name = "cargo", bin_name = "cargo", disable_help_subcommand = true)]
pub(crate) enum CargoArgs {
    /// Make, run and deploy operators
    Steersman(SteersmanArgs),
}

/// Make, run and deploy operators for Kubernetes.
#[derive(Debug, Args)]
#[command(version, after_help = EXAMPLES)]
pub(crate) struct SteersmanArgs {
    #[command(subcommand)]
    pub(crate) command: SteersmanCommand,
}

const EXAMPLES: &str = "\
Examples:
  cargo steersman new greeter --kind Greeting
  cd greeter
  cargo steersman dev";

#[derive(Debug, Subcommand)]
pub(crate) enum SteersmanCommand {
    New(NewArgs),
    Dev(DevArgs),
}

/// Make a new operator in a folder of its name
///
/// The operator has one kind with its controller, a test, a sample, and what an image and continuous integration need. It
/// runs at once: `cargo steersman dev`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cargo steersman new greeter
  cargo steersman new greeter --group example.com --version v1alpha1 --kind Greeting
  cargo steersman new zones --kind Zone --cluster-scoped")]
pub(crate) struct NewArgs {
    /// The name of the operator: of the folder, the crate, the program, and its objects in a cluster
    pub(crate) name: String,
    /// The group of its first kind: a DNS name that is yours
    #[arg(long, default_value = "example.com")]
    pub(crate) group: String,
    /// The version of its first kind
    #[arg(long, default_value = "v1alpha1")]
    pub(crate) version: String,
    /// Its first kind, such as Greeting [default: the name without -operator, capitalized]
    #[arg(long)]
    pub(crate) kind: Option<String>,
    /// The plural name of the kind [default: as in English]
    #[arg(long)]
    pub(crate) plural: Option<String>,
    /// The objects of the kind are in namespaces; this is the default
    #[arg(long, conflicts_with = "cluster_scoped")]
    pub(crate) namespaced: bool,
    /// The objects of the kind are in no namespace
    #[arg(long)]
    pub(crate) cluster_scoped: bool,
    /// Depend on the sources of Steersman in this folder [default: those that this command was installed from, if they
    /// are still there; otherwise the released version]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) steersman_path: Option<PathBuf>,
    /// Make the folder in this one
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    pub(crate) into: PathBuf,
}

/// Run the operator with an API server on this machine
///
/// Builds the operator, starts an API server with a kubeconfig for kubectl, installs the definitions, applies the objects
/// of config/samples, and shows what the operator does. A change of the sources builds and restarts the operator. The
/// objects are lost at the end.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cargo steersman dev
  cargo steersman dev --once                    ends when the samples are ready
  cargo steersman dev -- --log-level debug      with flags of the operator")]
pub(crate) struct DevArgs {
    /// End with success once the samples are ready and the operator has nothing to do
    #[arg(long)]
    pub(crate) once: bool,
    /// How long --once waits after the build
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    pub(crate) timeout: Duration,
    /// The port of the API server; 0 is a free one
    #[arg(long, default_value_t = 0)]
    pub(crate) port: u16,
    /// The folder or file of the objects to apply; it may be missing
    #[arg(long, value_name = "PATH", default_value = "config/samples")]
    pub(crate) samples: PathBuf,
    /// Where the kubeconfig is written
    #[arg(
        long,
        value_name = "FILE",
        default_value = "target/steersman/kubeconfig"
    )]
    pub(crate) kubeconfig: PathBuf,
    /// Build without the network
    #[arg(long)]
    pub(crate) offline: bool,
    /// Build for speed
    #[arg(long)]
    pub(crate) release: bool,
    /// Flags of the operator
    #[arg(last = true)]
    pub(crate) operator_args: Vec<String>,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let number: u64 = text
        .parse()
        .map_err(|_| "must be a whole number of seconds")?;
    Ok(Duration::from_secs(number))
}
