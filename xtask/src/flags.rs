//! The command line of `cargo xtask`.

use std::path::PathBuf;

use clap::{Args, Parser, ValueEnum};

/// Chores of the repository.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
pub(crate) enum Chore {
    /// Checks the repository's own rules, as `cargo test -p xtask` does.
    Tidy {
        /// Names of the rules to check [default: all].
        rules: Vec<String>,
    },
    /// Runs the steps of continuous integration, which `.ci/run` lists.
    Ci {
        /// Names of the steps to run [default: all].
        steps: Vec<String>,
    },
    /// Replays the recorded conversations against the embedded API server, and against a real server
    /// if one is given, and prints the differences.
    Conformance(Conformance),
    /// Sends the manifests of a folder to embedded API servers, one for each folder below it, and compares
    /// the answers with the recording `answers.json` of the folder or with a second server. Definitions are
    /// sent first, then the other files by name: as an apply if the name begins with `apply`, as a dry run if
    /// it begins with `dry`. Prints the differences, and their number by class.
    Corpus(Corpus),
    /// Writes the tables of Kubernetes' own types.
    Schemas {
        /// Fails if a table is out of date, and writes nothing.
        #[arg(long)]
        check: bool,
        /// Writes or checks the table of protobuf messages instead. DIR holds `k8s.io/api`, `k8s.io/apimachinery` and
        /// `k8s.io/apiextensions-apiserver` as Go's modules of these names, for example
        /// `/usr/share/gocode/src` with Debian's packages `golang-k8s-*-dev`.
        #[arg(long, value_name = "DIR")]
        go: Option<PathBuf>,
    },
    /// Runs the benchmarks, each in a process of its own, and prints tables.
    Bench(Bench),
    /// Makes the packages of `steersman-apiserver` (a static program, an archive and an index for `setup-envtest`, a
    /// Python wheel, and a folder from which an image is built) and an archive of `cargo steersman`. The same sources
    /// make the same bytes.
    Dist(Dist),
    /// Takes the pictures of the debug page in the book, from the stories of its tests, with Chromium.
    Pictures,
    /// Runs seeded simulations of writes, faults and subscribers, and compares informers and caches with the server.
    Seeds(Seeds),
    /// Searches for input that makes the API server, the protobuf encoding or a webhook panic or misbehave, with
    /// libFuzzer.
    Fuzz(Fuzz),
}

#[derive(Debug, Args)]
pub(crate) struct Conformance {
    /// The kubeconfig of a real server to compare, too. Without it, the binaries in
    /// KUBEBUILDER_ASSETS are compared if that variable is set.
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Replays only cases with a path that starts with this prefix, for example `apply/`.
    #[arg(long, value_name = "PREFIX")]
    pub(crate) filter: Option<String>,
    /// A folder with other cases: all `.json` files in it and below it.
    #[arg(long, value_name = "DIR")]
    pub(crate) cases: Option<PathBuf>,
    /// Compares recorded objects in protobuf with their JSON instead, and prints where one differs. Each `.json`
    /// file in DIR is a list of `{"path", "json", "protobuf"}`; the last is base64 of the whole body.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["kubeconfig", "filter", "cases"])]
    pub(crate) protobuf: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Corpus {
    /// The folder of the manifests (`*.yaml`, `*.yml`, `*.json`).
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
    /// The kubeconfig of the second server, for which nothing may stop the manifests: its objects of these
    /// manifests are removed afterwards.
    #[arg(long, value_name = "KUBECONFIG")]
    pub(crate) against: Option<PathBuf>,
    /// Writes the answers of the second server, or of the embedded one, as the recording.
    #[arg(long)]
    pub(crate) record: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Seeds {
    /// The sort of simulation [default: all except crowds, which are large].
    #[arg(long)]
    pub(crate) of: Option<Worlds>,
    /// The number of seeds.
    #[arg(long, default_value_t = 10_000)]
    pub(crate) count: u64,
    /// The first seed. CI runs the seeds 0 to 499, and a dozen of crowds.
    #[arg(long, default_value_t = 0)]
    pub(crate) from: u64,
    /// Runs one seed, for example one that failed.
    #[arg(long, value_name = "SEED", conflicts_with_all = ["count", "from"])]
    pub(crate) only: Option<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct Fuzz {
    /// Names of the targets [default: all].
    pub(crate) targets: Vec<String>,
    /// The time per target, in seconds.
    #[arg(long, default_value_t = 60)]
    pub(crate) seconds: u64,
    /// The seed of the search: two searches from one corpus try the same inputs [default: a random one].
    #[arg(long)]
    pub(crate) seed: Option<u32>,
    /// Runs one input instead of a search, for example an input that failed.
    #[arg(long, value_name = "FILE")]
    pub(crate) input: Option<PathBuf>,
    /// Adds inputs that reached new code to the corpus.
    #[arg(long)]
    pub(crate) keep: bool,
}

/// A sort of seeded simulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Worlds {
    /// Single informers.
    Informers,
    /// Single informers with a thousand objects each, enough to train dictionaries.
    Crowds,
    /// A cache of several kinds.
    Caches,
    /// Request keys that read their own writes.
    Writes,
    /// Replicas of one operator with leader election.
    Leaders,
    /// Replicas of one operator that share the work.
    Shards,
    /// The membership of such replicas alone.
    Members,
    /// Controllers with failing reconciles.
    Controllers,
}

#[derive(Debug, Default, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each field is a flag")]
pub(crate) struct Bench {
    /// The tables to measure [default: all but build].
    #[arg(long, value_delimiter = ',')]
    pub(crate) only: Vec<Part>,
    /// Measures fewer objects in shorter runs, to check that the benchmarks work.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Measures ten minutes of churn instead of one, as --write and --check do.
    #[arg(long, conflicts_with = "quick")]
    pub(crate) long: bool,
    /// Saves the figures for later runs, and writes tables and plots into the book.
    #[arg(long, conflicts_with_all = ["quick", "against"])]
    pub(crate) write: bool,
    /// Fails if a figure is worse than its saved bound or limit, or was not measured.
    #[arg(long, conflicts_with_all = ["quick", "against", "write"])]
    pub(crate) check: bool,
    /// Measures the cache against this server, in namespaces that are created for the benchmark and removed afterwards.
    #[arg(long, value_name = "KUBECONFIG")]
    pub(crate) against: Option<PathBuf>,
    /// Runs the micro benchmarks instead: single operations, in one process.
    #[arg(long, conflicts_with_all = ["only", "quick", "long", "write", "check", "against"])]
    pub(crate) micro: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Dist {
    /// The version of Kubernetes that the program plays, in the name of the archive.
    #[arg(long, default_value = "v1.36.0", value_name = "vX.Y.Z")]
    pub(crate) version: String,
    /// The folder to write the packages to.
    #[arg(long, default_value = "target/dist", value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// The targets to build, as rustc names them.
    #[arg(
        long = "target",
        default_value = "x86_64-unknown-linux-gnu",
        value_name = "TRIPLE"
    )]
    pub(crate) targets: Vec<String>,
    /// Packs this program instead of building one.
    #[arg(long, value_name = "FILE")]
    pub(crate) program: Option<PathBuf>,
    /// Packs this `cargo-steersman` instead of building one.
    #[arg(long, value_name = "FILE")]
    pub(crate) command: Option<PathBuf>,
    /// The address below which the archives will be found, for the index. `setup-envtest` reads HTTP and HTTPS only.
    #[arg(long, default_value = "http://127.0.0.1:8000", value_name = "URL")]
    pub(crate) base_url: String,
    /// Compresses less, to check that the packages work.
    #[arg(long)]
    pub(crate) quick: bool,
}

/// A table of the benchmarks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// The embedded API server.
    Server,
    /// The cache beside kube-runtime: sync, memory, reads.
    Cache,
    /// The work queue, and controllers from event to reconcile.
    Controller,
    /// Requests that caches and controllers send.
    Load,
    /// An operator before and after its port from kube-runtime.
    Port,
    /// Webhooks: what they add to a write.
    Webhooks,
    /// Kinds other than Pods.
    Kinds,
    /// Memory by options of the cache.
    Options,
    /// Sync and memory from 1,000 to 200,000 objects.
    Scaling,
    /// Memory while objects change all the time.
    Steady,
    /// Replicas that share the work: the part of each, and the time of a hand-over.
    Shards,
    /// What it costs to look at an operator: the log, the debug page, traces.
    Inside,
    /// Explorations: worlds per second, and what a world of the program costs.
    Explore,
    /// What the compiler takes: the command, an example, a new operator beside one on kube-runtime.
    Build,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::Chore;

    #[test]
    fn the_definition_of_the_command_line_is_valid() {
        Chore::command().debug_assert();
    }
}
