//! The command line of `cargo xtask`.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// The repository's chores.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
pub(crate) struct Flags {
    /// What to do.
    #[command(subcommand)]
    pub(crate) chore: Chore,
}

/// One chore.
#[derive(Debug, Subcommand)]
pub(crate) enum Chore {
    /// Checks the repository's own rules; `cargo test -p xtask` checks the same.
    Tidy {
        /// Only these rules; all when none is named.
        rules: Vec<String>,
    },
    /// Runs what CI runs: the steps of `.ci/run`.
    Ci {
        /// Only these steps; all when none is named.
        steps: Vec<String>,
    },
    /// Replays the recorded conversations against the embedded API server, and a real one where there
    /// is one, and prints where they differ.
    Conformance {
        /// A real server to try, too. Without it the binaries in KUBEBUILDER_ASSETS are, where set.
        #[arg(long, value_name = "FILE")]
        kubeconfig: Option<PathBuf>,
        /// Only cases whose path begins so, for instance `apply/`.
        #[arg(long, value_name = "PREFIX")]
        filter: Option<String>,
        /// Other cases: a folder with `.json` files in it and below it.
        #[arg(long, value_name = "DIR")]
        cases: Option<PathBuf>,
    },
    /// Writes the API server's table of Kubernetes' own types.
    Schemas {
        /// Only say whether the table is up to date.
        #[arg(long)]
        check: bool,
        /// Work on the table of their protobuf messages instead, from the folder `src` of the
        /// crate `k8s-pb`, wherever it was unpacked.
        #[arg(long, value_name = "DIR")]
        proto: Option<PathBuf>,
    },
    /// Measures, each figure in a process of its own, and prints tables.
    Bench(Bench),
    /// Lives seeded worlds of writes, faults and subscribers, and compares what informers and caches
    /// say with the server.
    Seeds {
        /// Only worlds of this sort; all but crowds, which are large, where none is named.
        #[arg(long)]
        of: Option<Worlds>,
        /// How many worlds.
        #[arg(long, default_value_t = 10_000)]
        count: u64,
        /// The seed of the first one; others follow it. CI tries the first thousand from 0, and a dozen crowds.
        #[arg(long, default_value_t = 0)]
        from: u64,
        /// Lives one world again, for instance one that failed.
        #[arg(long, value_name = "SEED", conflicts_with_all = ["count", "from"])]
        only: Option<u64>,
    },
    /// Looks for bytes that break the API server, with libFuzzer.
    Fuzz {
        /// Only these targets; all when none is named.
        targets: Vec<String>,
        /// How long each target is tried.
        #[arg(long, default_value_t = 60)]
        seconds: u64,
        /// Tries this one input instead, for instance one that was a finding.
        #[arg(long, value_name = "FILE")]
        input: Option<PathBuf>,
        /// Adds the inputs that reached new code to the corpus.
        #[arg(long)]
        keep: bool,
    },
}

/// What a seeded world is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Worlds {
    /// Single informers.
    Informers,
    /// Single informers of so many objects that they are packed by dictionaries.
    Crowds,
    /// A cache of several kinds.
    Caches,
    /// Writers that read their own writes.
    Writes,
}

/// What is measured, how, and what becomes of it.
#[derive(Debug, Default, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line"
)]
pub(crate) struct Bench {
    /// Nothing but these; all when none is named.
    #[arg(long, value_delimiter = ',')]
    pub(crate) only: Vec<Part>,
    /// Fewer objects and shorter runs: to see whether it works, not how fast it is.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Ten minutes of churn instead of one, as with --write and --check.
    #[arg(long, conflicts_with = "quick")]
    pub(crate) long: bool,
    /// Notes the figures for later runs, and writes tables and plots into the book.
    #[arg(long, conflicts_with_all = ["quick", "against"])]
    pub(crate) write: bool,
    /// Fails where a figure is worse than its noted bound or limit, or is gone.
    #[arg(long, conflicts_with_all = ["quick", "against", "write"])]
    pub(crate) check: bool,
    /// Measures the cache against this server, in namespaces that are made for it and removed after.
    #[arg(long, value_name = "KUBECONFIG")]
    pub(crate) against: Option<PathBuf>,
    /// The micro benchmarks instead: single steps, in one process.
    #[arg(long, conflicts_with_all = ["only", "quick", "long", "write", "check", "against"])]
    pub(crate) micro: bool,
}

/// What is measured; each has a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// The embedded API server.
    Server,
    /// The cache beside its peers: sync, memory, reads.
    Cache,
    /// The work queue, and controllers from an event to a reconcile.
    Controller,
    /// What a server is asked by caches and controllers.
    Load,
    /// Other kinds than Pods.
    Kinds,
    /// Memory by option of the cache.
    Options,
    /// Sync and memory from 1,000 to 200,000 objects.
    Scaling,
    /// Memory while objects change all the time.
    Steady,
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
