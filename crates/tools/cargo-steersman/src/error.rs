//! Words: why a command failed, and what to do about it.

use std::path::PathBuf;

use steersman_object::report;
use steersman_testenv::apiserver::manifests::ManifestError;

/// Why a command failed.
///
/// `Display` prints one level; `source` has the causes.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// A name cannot be used.
    #[error("{what} {text:?} cannot be used: {rule}")]
    Name {
        /// What the name is for, such as `kind`.
        what: &'static str,
        /// The name as it was given.
        text: String,
        /// What is allowed.
        rule: String,
    },
    /// A file is in the way.
    #[error("{} exists: choose another name, or remove it", path.display())]
    Exists {
        /// The file or folder.
        path: PathBuf,
    },
    /// A file or folder cannot be read, written or watched.
    #[error("{} cannot be {done}", path.display())]
    File {
        /// The file or folder.
        path: PathBuf,
        /// What was tried, as in `read`.
        done: &'static str,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// A source of the operator cannot be changed.
    #[error("{} cannot be changed: {problem}; change it by hand, or bring it into the form of a new operator", path.display())]
    Source {
        /// The path of the file.
        path: PathBuf,
        /// Why the source cannot be changed.
        problem: String,
    },
    /// A folder does not hold the sources of this framework.
    #[error(
        "{} has no crates/framework/steersman: --steersman-path takes the folder of Steersman's sources",
        path.display()
    )]
    NoSources {
        /// The path of the folder.
        path: PathBuf,
    },
    /// The present folder is no crate of an operator.
    #[error(
        "{problem}: run the command in the folder of an operator, or make one with `cargo steersman new NAME`"
    )]
    NoProject {
        /// What is missing.
        problem: String,
    },
    /// A program cannot be started.
    #[error("{program} cannot be started")]
    Start {
        /// The name of the program.
        program: String,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// A program failed.
    #[error("{program} failed ({status}){advice}")]
    Failed {
        /// The program with its arguments.
        program: String,
        /// The exit status of the program.
        status: String,
        /// What to do, after a colon; may be empty.
        advice: String,
    },
    /// A definition is not written over the one on the server.
    #[error(transparent)]
    DefinitionKept(#[from] steersman_crds::Error),
    /// The operator does not describe itself.
    #[error(
        "{program} describe printed no description that this release reads ({problem}): its main must run \
         `steersman::cli::Program`, of the same release: see `cargo steersman upgrade`"
    )]
    Description {
        /// The name of the program.
        program: String,
        /// Why the description cannot be read.
        problem: String,
    },
    /// A manifest cannot be read.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// The API server refused an object.
    #[error("the API server refused {object}: {problem}")]
    Refused {
        /// The object, with its file.
        object: String,
        /// The message of the server.
        problem: String,
    },
    /// The API server cannot start.
    #[error("the API server cannot start")]
    Server(#[source] steersman_testenv::apiserver::Error),
    /// The operator ended while it should run.
    #[error("{program} ended ({status}): its log says why")]
    Ended {
        /// The name of the program.
        program: String,
        /// The exit status of the program.
        status: String,
    },
    /// The operator did not become ready.
    #[error("after {seconds} s {problem}")]
    NotReady {
        /// The time that the operator had, in seconds.
        seconds: u64,
        /// What is missing.
        problem: String,
    },
    /// Generated files are not those that would be generated.
    #[error(
        "the manifests are out of date; run `cargo steersman generate` and commit the result:\n  {}",
        differences.join("\n  ")
    )]
    OutOfDate {
        /// The differences.
        differences: Vec<String>,
    },
    /// Files are where generated ones go.
    #[error(
        "{} {} not begin with the line of a generated file: nothing was written; move what is yours, or remove it",
        paths.join(", "),
        if paths.len() == 1 { "does" } else { "do" }
    )]
    NotGenerated {
        /// The paths of the files.
        paths: Vec<String>,
    },
    /// Objects were refused; the others were applied.
    #[error("{}", problems.iter().map(|one| report(one).to_string()).collect::<Vec<_>>().join("\n"))]
    Samples {
        /// The error of each object.
        problems: Vec<Self>,
    },
    /// The options in `Cargo.toml` cannot be read.
    #[error("[package.metadata.steersman] of Cargo.toml: {key}{problem}")]
    Metadata {
        /// The key with a colon; may be empty.
        key: String,
        /// Why the options cannot be read.
        problem: String,
    },
    /// The manifests cannot be made.
    #[error(transparent)]
    Manifests(#[from] steersman_manifests::Error),
    /// There is no program that builds images.
    #[error(
        "neither {builders} is on the PATH: build the image with another tool from the Dockerfile"
    )]
    NoBuilder {
        /// The known programs.
        builders: String,
    },
    /// Docker cannot pass the sources of this framework to a build.
    #[error(
        "docker has no plugin buildx, which passes the sources that Cargo.toml names by path to the build: install \
         docker-buildx or podman, or let Cargo.toml name a released version of Steersman"
    )]
    NoBuildx,
    /// A cluster has no such namespace.
    #[error(
        "the cluster has no namespace {namespace}: create it with `kubectl create namespace {namespace}`; \
         deploy declares only {own}, because a namespace of another name may hold other things"
    )]
    NoNamespace {
        /// The missing namespace.
        namespace: String,
        /// The namespace that is declared.
        own: String,
    },
    /// The work tree of git has changes.
    #[error(
        "{} has changes that are not committed: commit them, so that those of the upgrade can be told apart, or use \
         --force; --dry-run only shows the upgrade",
        folder.display()
    )]
    NotCommitted {
        /// The path of the folder.
        folder: PathBuf,
    },
    /// The record of what was made cannot be read.
    #[error(
        ".steersman.toml: {problem}; take the file from an earlier commit, or remove it, so that every file counts as \
         changed by you"
    )]
    Record {
        /// Why the record cannot be read.
        problem: String,
    },
    /// The operator was made by a later version of the command.
    #[error(
        "the operator is of version {version} of the command, which is later than {}: install that version",
        env!("CARGO_PKG_VERSION")
    )]
    LaterVersion {
        /// The version of the command that made the operator.
        version: String,
    },
    /// Sources cannot be watched.
    #[error("changes of {} cannot be seen", path.display())]
    Watch {
        /// The path of the folder.
        path: PathBuf,
        /// Why the folder cannot be watched.
        source: notify::Error,
    },
    /// There is no cluster to connect to.
    #[error("there is no cluster to examine: name one with KUBECONFIG and --context")]
    Connect(#[source] steersman_api::Error),
    /// The operator lacks something in the cluster.
    #[error("{program} has {problems} problem{}: what to do about each is above", if *problems == 1 { "" } else { "s" })]
    Unhealthy {
        /// The name of the program.
        program: String,
        /// The number of problems.
        problems: usize,
    },
    /// The samples that the command line names do not exist.
    #[error(
        "{} does not exist: --samples takes the file or folder of the objects to apply", path.display()
    )]
    NoSamples {
        /// The file or folder.
        path: PathBuf,
    },
    /// The file of the samples is one that only kustomize reads.
    #[error(
        "{} is no object: apply what it makes with `kubectl apply --kustomize`, or name a folder", path.display()
    )]
    Kustomization {
        /// The path of the file.
        path: PathBuf,
    },
    /// Generated YAML cannot be read.
    #[error("document {document} of {path} cannot be read, line {line} of the file: {problem}")]
    Document {
        /// The path of the file.
        path: String,
        /// The number of the document in the file, from 1.
        document: usize,
        /// The line of the problem in the file, from 1.
        line: usize,
        /// Why the document cannot be read.
        problem: String,
    },
    /// A request to the cluster of the kubeconfig failed.
    #[error("{doing} failed")]
    Cluster {
        /// What was tried.
        doing: String,
        /// The error of the request.
        source: Box<steersman_api::Error>,
    },
    /// A cluster does not serve the kind of a sample.
    #[error(
        "the cluster does not serve {kind}, the kind of {object}: install its definition first"
    )]
    NotServed {
        /// The kind that is not served.
        kind: String,
        /// The object, with its file.
        object: String,
    },
    /// A cluster would be changed without a confirmation.
    #[error("{cluster} would be changed, and there is no terminal to confirm it on: add --yes")]
    NeedsYes {
        /// The cluster.
        cluster: String,
    },
    /// The change of a cluster was not confirmed.
    #[error(
        "{cluster} is not confirmed, so nothing was changed: choose another one with --context"
    )]
    NotConfirmed {
        /// The cluster.
        cluster: String,
    },
    /// The command was interrupted before its end.
    #[error("interrupted before {end}")]
    Interrupted {
        /// What had not happened yet.
        end: &'static str,
    },
    /// The operator does not declare a kind.
    #[error(
        "src/api declares no kind {kind}: {}, or add it with `cargo steersman add kind {kind}`",
        match known.is_empty() {
            true => "there is none".to_owned(),
            false => format!("name one of {}", known.join(", ")),
        }
    )]
    UnknownKind {
        /// The kind as it was given.
        kind: String,
        /// The kinds of the operator.
        known: Vec<String>,
    },
    /// Another controller has the name.
    #[error(
        "{} is another controller: choose another name with --name", path.display()
    )]
    OtherController {
        /// The path of the file.
        path: PathBuf,
    },
    /// No kind is named.
    #[error(
        "no kind is named: name one of this operator, or one of Kubernetes with --for, such as --for apps/v1 Deployment, or \
         the file of another program's CustomResourceDefinition with --definition"
    )]
    NoKind,
    /// There is no such kind that can be watched.
    #[error(
        "neither this operator nor Kubernetes has a kind {kind} that a controller can watch: {}",
        match known.is_empty() {
            true => "--definition takes the file of its CustomResourceDefinition".to_owned(),
            false => format!("one of a similar name is {}", known.join(", or ")),
        }
    )]
    NoWatchedKind {
        /// The kind with its group and version.
        kind: String,
        /// Arguments for kinds of the same name.
        known: Vec<String>,
    },
    /// The definition of a kind cannot be used.
    #[error("{}: {problem}", path.display())]
    Definition {
        /// The file or folder.
        path: PathBuf,
        /// Why the definition cannot be used.
        problem: String,
    },
}

impl Error {
    /// Makes the error of a file.
    pub(crate) fn file(
        path: impl Into<PathBuf>,
        done: &'static str,
    ) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { path, done, source }
    }
}
