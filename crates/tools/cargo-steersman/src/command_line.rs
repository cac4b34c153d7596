//! Words: the command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

/// Make, run and deploy operators for Kubernetes.
// The command line as cargo passes it on: `cargo-steersman steersman new greeter`.
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
    /// Add to the operator in this folder
    #[command(subcommand)]
    Add(AddCommand),
    Dev(DevArgs),
    Explore(ExploreArgs),
    Generate(GenerateArgs),
    Upgrade(UpgradeArgs),
    /// Install the definitions in the cluster of kubectl
    Install(DeployArgs),
    /// Delete the definitions, and with them all objects of these kinds
    Uninstall(DeployArgs),
    /// Deploy the operator with all it needs to the cluster of kubectl
    Deploy(DeployArgs),
    /// Delete the operator and its definitions, and with them all objects of these kinds
    Undeploy(DeployArgs),
    /// Build the image with docker or podman
    Image {
        /// The name of the image with its tag
        #[arg(long)]
        image: String,
    },
    Doctor(DoctorArgs),
    Top(TopArgs),
    /// Print the completions of a shell
    Completions {
        /// The shell
        #[arg(value_enum)]
        shell: Shell,
    },
}

/// Try the operator with crashes, lost answers and old states
///
/// Runs the tests in tests/it/explore with `cargo test`. Each runs the operator in many worlds, with an API server in the same
/// process, and disturbs it at another of its requests in each of them. A finding is told as a story, with the name of the
/// disturbance. The exit code is that of `cargo test`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cargo steersman explore
  cargo steersman explore Greeting
  cargo steersman explore --release     for long scenarios")]
pub(crate) struct ExploreArgs {
    /// The kind of the operator, such as Greeting [default: all]
    pub(crate) kind: Option<String>,
    /// Build without the network
    #[arg(long)]
    pub(crate) offline: bool,
    /// Build for speed
    #[arg(long)]
    pub(crate) release: bool,
}

/// Write the manifests of the operator into config and dist
///
/// Builds the operator and asks it for its kinds, controllers and webhooks. The role has the rules that the declarations imply,
/// those that controllers declare, those in rbac.observed.yaml, which the tests write, and those in rbac.extra.yaml, which are
/// written by hand; a comment states the source of each rule. Options are in [package.metadata.steersman] of Cargo.toml:
/// namespace, image, namespaces, replicas, prometheus, prometheus-account, grafana-namespace, network-policy and
/// cert-manager.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cargo steersman generate             definitions, roles and manifests; the chart if dist/chart exists
  cargo steersman generate rbac        only config/rbac
  cargo steersman generate helm        the Helm chart in dist/chart
  cargo steersman generate --check     for continuous integration: fails if a file would change")]
pub(crate) struct GenerateArgs {
    /// What to write [default: crds rbac manifests, and helm if dist/chart exists]
    #[arg(value_enum)]
    pub(crate) outputs: Vec<Output>,
    /// Write nothing, and fail if a file would change
    #[arg(long)]
    pub(crate) check: bool,
    #[command(flatten)]
    pub(crate) manifests: ManifestArgs,
}

/// Files to generate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Output {
    /// The definitions, in config/crd
    Crds,
    /// The service account and its roles, in config/rbac
    Rbac,
    /// The folder config for kustomize, and dist/install.yaml
    Manifests,
    /// The Helm chart, in dist/chart
    Helm,
}

/// What manifests are made of.
#[derive(Debug, Args)]
pub(crate) struct ManifestArgs {
    /// The image of the operator [default: NAME:VERSION]
    #[arg(long)]
    pub(crate) image: Option<String>,
    /// The namespace of the operator [default: NAME-system]
    #[arg(long)]
    pub(crate) namespace: Option<String>,
    #[command(flatten)]
    pub(crate) operator: ProgramArgs,
}

/// The program of the operator.
#[derive(Clone, Debug, Args)]
pub(crate) struct ProgramArgs {
    /// Build without the network
    #[arg(long)]
    pub(crate) offline: bool,
    /// Use this program, which is built already
    #[arg(long, value_name = "FILE", conflicts_with = "offline")]
    pub(crate) program: Option<PathBuf>,
}

/// Which cluster, and which manifests.
#[derive(Debug, Args)]
pub(crate) struct DeployArgs {
    /// The context of the kubeconfig
    #[arg(long)]
    pub(crate) context: Option<String>,
    #[command(flatten)]
    pub(crate) manifests: ManifestArgs,
}

/// Say what the operator lacks in the cluster of the kubeconfig
///
/// Builds the operator and asks it for its kinds, controllers and webhooks. Compares them with the cluster: the kinds and
/// definitions, the permissions of the service account, the webhooks with their certificates, the Lease, the Deployment, and
/// the objects of its kinds. Says for each problem what to do about it. Changes nothing. Fails if there is a problem.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cargo steersman doctor
  cargo steersman doctor --context staging          another cluster
  cargo steersman doctor --namespace operators      the operator runs in this namespace")]
pub(crate) struct DoctorArgs {
    /// The context of the kubeconfig
    #[arg(long)]
    pub(crate) context: Option<String>,
    /// The namespace of the operator [default: that of Cargo.toml, or NAME-system]
    #[arg(long)]
    pub(crate) namespace: Option<String>,
    #[command(flatten)]
    pub(crate) operator: ProgramArgs,
}

/// Show what a running operator works on and waits for
///
/// Reads the debug page of the operator, which it serves with --debug-page: at an address, or through the API server of
/// the kubeconfig. On a terminal it shows the view of dev without the log, until q or ctrl-c.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cargo steersman top
  cargo steersman top --address http://127.0.0.1:8080
  cargo steersman top --context prod --namespace shops --name shop-operator --once")]
pub(crate) struct TopArgs {
    /// The address of the metrics server, such as http://127.0.0.1:8080 [default: through the API server]
    #[arg(long, value_name = "URL")]
    pub(crate) address: Option<String>,
    /// The file of the token for the address
    #[arg(long, value_name = "FILE", requires = "address")]
    pub(crate) token_path: Option<PathBuf>,
    /// The context of the kubeconfig
    #[arg(long, conflicts_with = "address")]
    pub(crate) context: Option<String>,
    /// The name of the operator [default: that of the package in this folder]
    #[arg(long, conflicts_with = "address")]
    pub(crate) name: Option<String>,
    /// The namespace of the operator [default: NAME-system]
    #[arg(long, conflicts_with = "address")]
    pub(crate) namespace: Option<String>,
    /// The Pod [default: the first one that is ready]
    #[arg(long, conflicts_with = "address")]
    pub(crate) pod: Option<String>,
    /// The port of the metrics server in the Pod
    #[arg(long, conflicts_with = "address", default_value_t = 8443)]
    pub(crate) port: u16,
    /// A ServiceAccount of the namespace with the permission to read the page [default: that of the operator]
    #[arg(long, conflicts_with = "address")]
    pub(crate) account: Option<String>,
    /// Print the lines once, and end
    #[arg(long)]
    pub(crate) once: bool,
}

/// Make a new operator in a folder of its name
///
/// The operator has one kind with its controller, tests, a sample, and what an image and continuous integration need. It
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
    /// Depend on the released version, also if the sources are there
    #[arg(long, conflicts_with = "steersman_path")]
    pub(crate) released: bool,
    /// Make the folder in this one
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    pub(crate) into: PathBuf,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AddCommand {
    Kind(AddKindArgs),
    Webhook(AddWebhookArgs),
    Version(AddVersionArgs),
    Controller(AddControllerArgs),
}

/// Add a kind with its controller, a test and a sample
///
/// Adds the modules to src/api.rs, src/controllers.rs, tests/it/main.rs and tests/it/explore.rs, the definition and the
/// controller; everything else in these files stays. Nothing is written if a file is in the way.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cargo steersman add kind Farewell
  cargo steersman add kind Farewell --dry-run       shows the files alone")]
pub(crate) struct AddKindArgs {
    /// The kind, such as Farewell
    pub(crate) name: String,
    /// Its group [default: that of another kind]
    #[arg(long)]
    pub(crate) group: Option<String>,
    /// Its version [default: that of another kind]
    #[arg(long)]
    pub(crate) version: Option<String>,
    /// The plural name of the kind [default: as in English]
    #[arg(long)]
    pub(crate) plural: Option<String>,
    /// The objects of the kind are in no namespace
    #[arg(long)]
    pub(crate) cluster_scoped: bool,
    /// Write nothing, and show the differences
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Add a defaulter and a validator to a kind, with a test
///
/// Adds src/webhooks with an example rule to edit, and registers the webhooks with the program in src/main.rs. The manifests
/// of `generate` then have their configurations.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cargo steersman add webhook Greeting
  cargo steersman add webhook Greeting --validating    only a validator")]
pub(crate) struct AddWebhookArgs {
    /// The kind, such as Greeting
    pub(crate) kind: String,
    /// Add a defaulter [default: both]
    #[arg(long)]
    pub(crate) defaulting: bool,
    /// Add a validator [default: both]
    #[arg(long)]
    pub(crate) validating: bool,
    /// Write nothing, and show the differences
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Add a version to a kind, with its conversion
///
/// Turns the kind into the form of the attribute `steersman::versioned`, in which each field states its history, or adds the version to
/// it. Everything that you wrote stays. Objects stay stored in the former version until you change `stored`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cargo steersman add version Greeting v1")]
pub(crate) struct AddVersionArgs {
    /// The kind, such as Greeting
    pub(crate) kind: String,
    /// The version, which is newer than the others
    pub(crate) version: String,
    /// Write nothing, and show the differences
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Add a controller of a kind that exists already, with a test
///
/// The kind is one of Kubernetes, one of this operator, or one that another program defines. For the latter --definition
/// takes the file of its CustomResourceDefinition, of which the types in Rust are made; the file is copied into
/// config/external, which `dev` and the tests install. The example of the controller marks the objects that have its label.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cargo steersman add controller --for apps/v1 Deployment
  cargo steersman add controller --for v1 Pod --name pod-cleaner
  cargo steersman add controller --definition certificates.yaml
  cargo steersman add controller Greeting --name greeting-report")]
pub(crate) struct AddControllerArgs {
    /// The kind of this operator that it reconciles, too
    pub(crate) kind: Option<String>,
    /// The kind that it reconciles, with its group and version; those of the core group are v1
    #[arg(long = "for", num_args = 2, value_names = ["GROUP/VERSION", "KIND"], conflicts_with = "kind")]
    pub(crate) for_kind: Vec<String>,
    /// The file or folder with the CustomResourceDefinition of the kind, which another program installs; with several kinds
    /// in it, add --for
    #[arg(long, value_name = "PATH", conflicts_with = "kind")]
    pub(crate) definition: Option<PathBuf>,
    /// The name of the controller [default: that of the kind, such as image-policy for ImagePolicy]
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Write nothing, and show the differences
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Bring an operator to what this version of the command makes
///
/// Compares Dockerfile, .dockerignore, .gitignore, .github/workflows/ci.yml, README.md and AGENTS.md with what `new` makes
/// now, and shows the differences. A file that is as it was made is written; one that you changed is merged with git.
/// Where both sides changed the same lines, your file stays, and the new text is written beside it with the ending
/// .proposed. In Cargo.toml the dependencies on Steersman get the version of the command.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cargo steersman upgrade --dry-run     shows the differences
  cargo steersman upgrade               writes, if git has no changes that are not committed
  git diff                              shows what was written")]
pub(crate) struct UpgradeArgs {
    /// Show the differences, and write nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Write also if git has changes that are not committed
    #[arg(long)]
    pub(crate) force: bool,
}

/// Run the operator with an API server on this machine
///
/// Builds the operator, starts an API server with a kubeconfig for kubectl, installs the definitions, applies the objects
/// of config/samples, and shows what the operator does: on a terminal in a view with keys that inject faults, otherwise in
/// lines. A change of the sources builds and restarts the operator. The objects are lost at the end.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cargo steersman dev
  cargo steersman dev --once                    ends when the samples are ready
  cargo steersman dev --real --context kind-dev with a cluster instead of the API server on this machine
  cargo steersman dev -- --log-level debug      with flags of the operator")]
pub(crate) struct DevArgs {
    /// End with success once the samples are ready and the operator has nothing to do
    #[arg(long, conflicts_with = "real")]
    pub(crate) once: bool,
    /// How long --once waits after the build
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    pub(crate) timeout: Duration,
    /// Print lines instead of the view, also on a terminal
    #[arg(long)]
    pub(crate) plain: bool,
    #[command(flatten)]
    pub(crate) real: RealArgs,
    /// The port of the API server; 0 is a free one
    #[arg(long, default_value_t = 0, conflicts_with = "real")]
    pub(crate) port: u16,
    /// The folder or file of the objects to apply [default: config/samples, if it exists; with --real none]
    #[arg(long, value_name = "PATH")]
    pub(crate) samples: Option<PathBuf>,
    /// Where the kubeconfig is written
    #[arg(
        long,
        value_name = "FILE",
        default_value = "target/steersman/kubeconfig",
        conflicts_with = "real"
    )]
    pub(crate) kubeconfig: PathBuf,
    #[command(flatten)]
    pub(crate) operator: ProgramArgs,
    /// Build for speed
    #[arg(long)]
    pub(crate) release: bool,
    /// Flags of the operator
    #[arg(last = true)]
    pub(crate) operator_args: Vec<String>,
}

/// The cluster of `dev`.
#[derive(Debug, Args)]
pub(crate) struct RealArgs {
    /// Use the cluster of the kubeconfig instead of an API server on this machine; objects and definitions stay there
    #[arg(long)]
    pub(crate) real: bool,
    /// The context of the kubeconfig [default: the current one]
    #[arg(long, requires = "real")]
    pub(crate) context: Option<String>,
    /// Do not ask before the cluster is changed
    #[arg(long, requires = "real")]
    pub(crate) yes: bool,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let number: u64 = text
        .parse()
        .map_err(|_| "must be a whole number of seconds")?;
    Ok(Duration::from_secs(number))
}
