//! Words: the command line.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::{Parser, ValueEnum};

/// A Kubernetes API server for development and tests: no etcd, no cluster, nothing to install.
///
/// It listens on loopback, writes a kubeconfig, and runs until ctrl-c or SIGTERM. Objects are stored as
/// in a cluster, but nothing acts on them: with --play workloads Deployments get Pods that become ready.
#[derive(Debug, Parser)]
#[command(name = "steersman-apiserver", version)]
pub(crate) struct Flags {
    /// Port to listen on; 0 takes any free one.
    #[arg(long, default_value_t = 6443)]
    pub(crate) port: u16,

    /// Address to listen on. Others than loopback need --insecure-let-others-in.
    #[arg(long, default_value = "127.0.0.1", value_name = "ADDRESS")]
    pub(crate) bind: IpAddr,

    /// Listen where other machines can connect. Whoever does may do everything, without --rbac.
    #[arg(long)]
    pub(crate) insecure_let_others_in: bool,

    /// Folder to begin from and to save to; it is made where there is none.
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,

    /// Seconds between two saves into the data directory, where something changed.
    #[arg(
        long,
        default_value_t = 10,
        value_name = "SECONDS",
        requires = "data_dir"
    )]
    pub(crate) save_every: u64,

    /// CustomResourceDefinitions to install at the start: a file, or a folder with those below it.
    #[arg(long, value_name = "FILE|DIR")]
    pub(crate) crds: Vec<PathBuf>,

    /// Objects to apply at the start: a file, or a folder with those below it. Definitions among
    /// them come first, then namespaces.
    #[arg(long, alias = "seed-dir", value_name = "FILE|DIR")]
    pub(crate) manifests: Vec<PathBuf>,

    /// Let Roles and bindings decide who may do what, and ask for credentials. The kubeconfig's user
    /// may do everything.
    #[arg(long)]
    pub(crate) rbac: bool,

    /// What of a cluster to play. Without it no Pods are made and none runs; `workloads` runs
    /// Deployments, StatefulSets, DaemonSets, Jobs and CronJobs to Pods that get ready, and `nothing`
    /// leaves even the garbage collector out.
    #[arg(long, value_enum, value_name = "PART")]
    pub(crate) play: Option<Part>,

    /// Faults to begin with: a JSON list of what `POST /steersman/faults` takes, or one of them.
    #[arg(long, value_name = "FILE")]
    pub(crate) faults: Option<PathBuf>,

    /// The server's certificate in PEM, with its authority's behind it; one is made otherwise.
    #[arg(long, value_name = "FILE", requires = "tls_private_key_file")]
    pub(crate) tls_cert_file: Option<PathBuf>,

    /// The key of that certificate.
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    pub(crate) tls_private_key_file: Option<PathBuf>,

    /// Authorities whose client certificates say who somebody is: common name and organizations are
    /// user and groups.
    #[arg(long, value_name = "FILE")]
    pub(crate) client_ca_file: Option<PathBuf>,

    /// Where to write the kubeconfig. Default: into the data directory, or a temporary file.
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,

    /// Print every request on standard error.
    #[arg(long)]
    pub(crate) log: bool,
}

/// What of a cluster is played.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// The garbage collector and the namespace controller, which are played in any case.
    Controllers,
    /// Workloads, Pods, volumes, Events and the endpoints of Services, beside those.
    Workloads,
    /// Nothing, as behind a kube-apiserver that runs alone.
    Nothing,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::Flags;

    #[test]
    fn the_command_line_is_sound() {
        Flags::command().debug_assert();
    }
}
