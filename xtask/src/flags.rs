//! The command line of `cargo xtask`.

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};

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
    Bench {
        /// Nothing but this.
        #[arg(long)]
        only: Option<Part>,
        /// Fewer objects and shorter runs: to see whether it works, not how fast it is.
        #[arg(long)]
        quick: bool,
        /// Writes the tables into the page of the book as well.
        #[arg(long, conflicts_with = "quick")]
        write: bool,
    },
    /// Lives seeded worlds of writes, faults and subscribers, and compares what informers and caches
    /// say with the server.
    Seeds {
        /// Only worlds of this sort.
        #[arg(long)]
        of: Option<Worlds>,
        /// How many worlds.
        #[arg(long, default_value_t = 10_000)]
        count: u64,
        /// The seed of the first one; others follow it. CI tries the first thousand from 0.
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
    /// A cache of several kinds.
    Caches,
}

/// What is measured; each has a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// The embedded API server.
    Server,
    /// The cache beside its peers.
    Cache,
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
