//! The command line of `cargo xtask`.

use clap::{Parser, Subcommand};

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
    /// Writes the API server's table of Kubernetes' own types.
    Schemas {
        /// Only say whether the table is up to date.
        #[arg(long)]
        check: bool,
    },
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
