//! Words: the command line.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::Parser;

/// A Kubernetes API server for development and tests: no etcd, no cluster, nothing to install.
///
/// It listens on loopback, writes a kubeconfig, and runs until ctrl-c or SIGTERM.
#[derive(Debug, Parser)]
#[command(name = "steersman-apiserver", version)]
pub(crate) struct Flags {
    /// Port to listen on; 0 takes any free one.
    #[arg(long, default_value_t = 6443)]
    pub(crate) port: u16,

    /// Address to listen on. Others than loopback need --insecure-let-others-in.
    #[arg(long, default_value = "127.0.0.1", value_name = "ADDRESS")]
    pub(crate) bind: IpAddr,

    /// Listen where other machines can connect. Whoever does may do everything.
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

    /// Where to write the kubeconfig. Default: into the data directory, or a temporary file.
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,

    /// Print every request on standard error.
    #[arg(long)]
    pub(crate) log: bool,
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
