//! Words: why a command failed, and what to do about it.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;

use steersman_object::report;
use steersman_testenv::apiserver::manifests::ManifestError;

use crate::plural::plural;

/// Why a command failed.
///
/// `Display` prints one level; `source` has the causes.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// A debug page cannot be read.
    #[error("the debug page {page} cannot be read: {problem}")]
    DebugPage { page: String, problem: String },
    /// A name is not allowed; `rule` says which names are.
    #[error("{what} {text:?} cannot be used: {rule}")]
    Name {
        what: &'static str,
        text: String,
        rule: String,
    },
    #[error("{} exists: choose another name, or remove it", .0.display())]
    Exists(PathBuf),
    #[error("{} cannot be {done}", path.display())]
    File {
        path: PathBuf,
        /// The failed operation, such as `read`.
        done: &'static str,
        source: io::Error,
    },
    #[error("{} cannot be changed: {problem}; change it by hand, or bring it into the form of a new operator", path.display())]
    Source { path: PathBuf, problem: String },
    #[error(
        "{} has no crates/framework/steersman: --steersman-path takes the folder of Steersman's sources",
        .0.display()
    )]
    NoSources(PathBuf),
    #[error(
        "{0}: run the command in the folder of an operator, or make one with `cargo steersman new NAME`"
    )]
    NoProject(String),
    #[error("{program} cannot be started")]
    Start { program: String, source: io::Error },
    /// A program failed. The message ends with a colon and the advice, which may be empty.
    #[error("{program} failed ({status}){advice}")]
    Failed {
        program: String,
        status: String,
        advice: String,
    },
    #[error(transparent)]
    DefinitionKept(#[from] steersman_crds::Error),
    #[error(
        "{program} describe printed no description that this release reads ({problem}): its main must run \
         `steersman::cli::Program`, of the same release: see `cargo steersman upgrade`"
    )]
    Description { program: String, problem: String },
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// The API server refused an object; `object` names it with its file.
    #[error("the API server refused {object}: {problem}")]
    Refused { object: String, problem: String },
    #[error("the API server cannot start")]
    Server(#[source] steersman_testenv::apiserver::Error),
    #[error("{program} ended ({status}): its log says why")]
    Ended { program: String, status: String },
    #[error("after {seconds} s {problem}")]
    NotReady { seconds: u64, problem: String },
    #[error(
        "the manifests are out of date; run `cargo steersman generate` and commit the result:\n  {}",
        .0.join("\n  ")
    )]
    OutOfDate(Vec<String>),
    #[error(
        "{} {} not begin with the line of a generated file: nothing was written; move what is yours, or remove it",
        .0.join(", "),
        if .0.len() == 1 { "does" } else { "do" }
    )]
    NotGenerated(Vec<String>),
    /// Some samples were refused; the other samples were applied.
    #[error("{}", .0.iter().map(|one| report(one).to_string()).collect::<Vec<_>>().join("\n"))]
    Samples(Vec<Self>),
    /// The options in `Cargo.toml` are invalid. `key` is the key of the invalid option, and may be empty.
    #[error("[package.metadata.steersman] of Cargo.toml: {key}{problem}")]
    Metadata { key: String, problem: String },
    #[error(transparent)]
    Manifests(#[from] steersman_manifests::Error),
    #[error("neither {0} is on the PATH: build the image with another tool from the Dockerfile")]
    NoBuilder(String),
    #[error(
        "docker has no plugin buildx, which passes the sources that Cargo.toml names by path to the build: install \
         docker-buildx or podman, or let Cargo.toml name a released version of Steersman"
    )]
    NoBuildx,
    #[error(
        "the cluster has no namespace {namespace}: create it with `kubectl create namespace {namespace}`; \
         deploy declares only {own}, because a namespace of another name may hold other things"
    )]
    NoNamespace { namespace: String, own: String },
    #[error(
        "{} has changes that are not committed: commit them, so that those of the upgrade can be told apart, or use \
         --force; --dry-run only shows the upgrade",
        .0.display()
    )]
    NotCommitted(PathBuf),
    #[error(
        ".steersman.toml: {0}; take the file from an earlier commit, or remove it, so that every file counts as \
         changed by you"
    )]
    Record(String),
    #[error(
        "the operator is of version {} of the command, which is later than {}: install that version",
        .0,
        env!("CARGO_PKG_VERSION")
    )]
    LaterVersion(String),
    #[error("changes of {} cannot be seen", path.display())]
    Watch {
        path: PathBuf,
        source: notify::Error,
    },
    #[error("there is no cluster to examine: name one with KUBECONFIG and --context")]
    Connect(#[source] steersman_api::Error),
    #[error("{program} has {problems} problem{}: what to do about each is above", plural(*problems))]
    Unhealthy { program: String, problems: usize },
    #[error("{} does not exist: --samples takes the file or folder of the objects to apply", .0.display())]
    NoSamples(PathBuf),
    /// The samples are a file that only kustomize reads.
    #[error(
        "{} is no object: apply what it makes with `kubectl apply --kustomize`, or name a folder", .0.display()
    )]
    Kustomization(PathBuf),
    /// A document of generated YAML is invalid. Documents and lines count from 1.
    #[error("document {document} of {path} cannot be read, line {line} of the file: {problem}")]
    Document {
        path: String,
        document: usize,
        line: usize,
        problem: String,
    },
    #[error("{doing} failed")]
    Cluster {
        doing: &'static str,
        source: Box<steersman_api::Error>,
    },
    /// The cluster does not serve the kind of a sample; `object` names the sample with its file.
    #[error(
        "the cluster does not serve {kind}, the kind of {object}: install its definition first"
    )]
    NotServed { kind: String, object: String },
    #[error("{0} would be changed, and there is no terminal to confirm it on: add --yes")]
    NeedsYes(String),
    #[error("{0} is not confirmed, so nothing was changed: choose another one with --context")]
    NotConfirmed(String),
    #[error(
        "{} does not exist: `cargo steersman add kind` adds the exploration of a kind, also of one that is there already", .0.display()
    )]
    NoExploration(PathBuf),
    /// `cargo test` failed with this exit code.
    #[error("the exploration failed with exit code {0}: its output is above")]
    Explored(i32),
    #[error("interrupted before {0}")]
    Interrupted(&'static str),
    /// The operator does not declare the kind. `known` lists the kinds that it declares.
    #[error(
        "src/api declares no kind {kind}: {}, or add it with `cargo steersman add kind {kind}`",
        match known.is_empty() {
            true => "there is none".to_owned(),
            false => format!("name one of {}", known.join(", ")),
        }
    )]
    UnknownKind { kind: String, known: Vec<String> },
    #[error("{} is another controller: choose another name with --name", .0.display())]
    OtherController(PathBuf),
    #[error(
        "no kind is named: name one of this operator, or one of Kubernetes with --for, such as --for apps/v1 Deployment, or \
         the file of another program's CustomResourceDefinition with --definition"
    )]
    NoKind,
    #[error(
        "neither this operator nor Kubernetes has a kind {kind} that a controller can watch: {}",
        match known.is_empty() {
            true => "--definition takes the file of its CustomResourceDefinition".to_owned(),
            false => format!("one of a similar name is {}", known.join(", or ")),
        }
    )]
    NoWatchedKind {
        /// The kind with its group and version, as the user wrote it.
        kind: String,
        /// Arguments for kinds with the same or a similar name.
        known: Vec<String>,
    },
    /// A file or folder has no usable definition of the kind.
    #[error("{}: {problem}", path.display())]
    Definition { path: PathBuf, problem: String },
}

impl Error {
    pub(crate) fn file(
        path: impl Into<PathBuf>,
        done: &'static str,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { path, done, source }
    }

    pub(crate) fn start(program: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let program = program.into();
        move |source| Self::Start { program, source }
    }

    pub(crate) fn cluster(doing: &'static str) -> impl FnOnce(steersman_api::Error) -> Self {
        move |source| Self::Cluster {
            doing,
            source: Box::new(source),
        }
    }

    /// Returns an error if a program ended without success.
    pub(crate) fn check(program: impl Into<String>, status: ExitStatus) -> Result<(), Self> {
        match status.success() {
            true => Ok(()),
            false => Err(Self::Failed {
                program: program.into(),
                status: status.to_string(),
                advice: String::new(),
            }),
        }
    }
}
