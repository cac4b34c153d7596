//! Words: the command line of `steersman-apiserver`. The comments below are its help text.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use steersman_simulator::{Played, Speed};

use super::durability::Durability;

/// A Kubernetes API server for development and tests: no etcd, no cluster, nothing to install.
///
/// It listens on loopback, writes a kubeconfig, and runs until ctrl-c or SIGTERM. Objects are stored as in a cluster,
/// but nothing acts on them: with --play workloads Deployments get Pods that become ready.
///
/// Called kube-apiserver, etcd or kubectl, or with one of these words as the first argument, it takes the place of that
/// program in a test environment: KUBEBUILDER_ASSETS names the folder with the three.
///
/// With the word explore as the first argument it looks for crashes and old states that an operator does not survive:
/// see steersman-apiserver explore --help.
#[derive(Debug, Parser)]
#[command(name = "steersman-apiserver", version)]
pub(crate) struct ServerFlags {
    /// Port to listen on; 0 takes any free one.
    #[arg(long, default_value_t = 6443)]
    pub(crate) port: u16,

    /// Address to listen on. Others than loopback need --insecure-let-others-in.
    #[arg(long, default_value = "127.0.0.1", value_name = "ADDRESS")]
    pub(crate) bind: IpAddr,

    /// Listen where other machines can connect. Without --rbac every client may then do everything.
    #[arg(long)]
    pub(crate) insecure_let_others_in: bool,

    /// Folder to load the state from and to save it to; created if it does not exist.
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,

    /// What an answered write survives.
    #[arg(
        long,
        value_enum,
        default_value_t = Durability::Kernel,
        value_name = "WHAT",
        requires = "data_dir"
    )]
    pub(crate) durability: Durability,

    /// Seconds between two saves into the data directory. With a write-ahead log the state is saved when
    /// the log has become longer than the last save, otherwise if there were changes.
    #[arg(
        long,
        default_value_t = 10,
        value_name = "SECONDS",
        requires = "data_dir"
    )]
    pub(crate) save_every: u64,

    /// CustomResourceDefinitions to install at the start: a file, or a folder and its subfolders.
    #[arg(long, value_name = "FILE|DIR")]
    pub(crate) crds: Vec<PathBuf>,

    /// Objects to apply at the start: a file, or a folder and its subfolders.
    /// CustomResourceDefinitions are applied first, then namespaces.
    #[arg(long, alias = "seed-dir", value_name = "FILE|DIR")]
    pub(crate) manifests: Vec<PathBuf>,

    /// Authorize requests by Roles and bindings, and require credentials. The kubeconfig's user may do everything.
    #[arg(long)]
    pub(crate) rbac: bool,

    /// Parts of a cluster to play. By default no Pods are created or run; `workloads` plays the
    /// controllers of Deployments, StatefulSets, DaemonSets, Jobs and CronJobs and runs their Pods,
    /// and `nothing` leaves out even the garbage collector.
    #[arg(long, value_enum, value_name = "PART")]
    pub(crate) play: Option<PlayedPart>,

    /// A built-in API that is off by default, as VERSION=true; VERSION=false leaves it off. The only
    /// one is `storagemigration.k8s.io/v1beta1`; the server carries out its migrations.
    #[arg(
        long,
        value_name = "VERSION=BOOL",
        value_delimiter = ',',
        value_parser = runtime_config
    )]
    pub(crate) runtime_config: Vec<bool>,

    /// Faults to plan at the start: a JSON list of bodies of `POST /steersman/faults`, or a single one.
    #[arg(long, value_name = "FILE")]
    pub(crate) faults: Option<PathBuf>,

    /// The server's certificate in PEM, followed by its authority's. Default: a generated one.
    #[arg(long, value_name = "FILE", requires = "tls_private_key_file")]
    pub(crate) tls_cert_file: Option<PathBuf>,

    /// The key of the certificate in --tls-cert-file, in PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    pub(crate) tls_private_key_file: Option<PathBuf>,

    /// Authorities of client certificates in PEM. A certificate's common name is the user, its
    /// organizations are the groups.
    #[arg(long, value_name = "FILE")]
    pub(crate) client_ca_file: Option<PathBuf>,

    /// Path of the kubeconfig to write. Default: in the data directory, or a temporary file.
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,

    /// Serve a page for browsers: objects with their history, the log of requests, and faults. It is on loopback, by
    /// default on a free port.
    #[arg(
        long,
        value_name = "ADDRESS",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "127.0.0.1:0"
    )]
    pub(crate) ui: Option<SocketAddr>,

    /// Print every request on standard error.
    #[arg(long)]
    pub(crate) log: bool,
}

/// Parses an entry of `--runtime-config`. As upstream, a version without a value is enabled.
fn runtime_config(entry: &str) -> Result<bool, String> {
    let (version, value) = entry.split_once('=').unwrap_or((entry, "true"));
    let on = value.parse::<bool>();
    let on = on.map_err(|_| format!("{value:?} is neither true nor false"))?;
    if version == "storagemigration.k8s.io/v1beta1" {
        Ok(on)
    } else {
        Err(format!(
            "{version} cannot be enabled or disabled; use storagemigration.k8s.io/v1beta1"
        ))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PlayedPart {
    /// The garbage collector and the namespace controller, which are also the default.
    Controllers,
    /// The controllers, and in addition workloads, Pods, volumes, Events and the endpoints of Services.
    Workloads,
    /// Nothing, as behind a kube-apiserver that runs alone.
    Nothing,
}

impl PlayedPart {
    pub(crate) fn played(self) -> Played {
        match self {
            Self::Controllers => Played::default(),
            Self::Workloads => Played::everything().speed(Speed::brisk()),
            Self::Nothing => Played::nothing(),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::{ServerFlags, runtime_config};

    #[test]
    fn the_command_line_is_sound() {
        ServerFlags::command().debug_assert();
    }

    #[test]
    fn only_one_api_can_be_enabled() {
        let version = "storagemigration.k8s.io/v1beta1";
        for (value, on) in [("", true), ("=true", true), ("=false", false)] {
            let parsed = runtime_config(&format!("{version}{value}"));
            assert_eq!(parsed, Ok(on));
        }
        assert!(runtime_config("storagemigration.k8s.io/v1beta1=1").is_err());
        assert!(runtime_config("api/all=true").is_err());
    }
}
