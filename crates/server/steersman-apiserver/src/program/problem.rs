//! Words: the errors with which the program ends.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use steersman_apimachinery::status::Status;
use steersman_apiserver::explore::engine::ScenarioFileError;
use steersman_apiserver::manifests::ManifestError;
use steersman_registry::{SnapshotError, TransactionError};

use super::command_line::FlagProblem;

pub(crate) type Outcome<T = ()> = Result<T, ProgramProblem>;

#[derive(Debug, thiserror::Error)]
pub(crate) enum ProgramProblem {
    #[error("{} is in use by another steersman-apiserver", path.display())]
    InUse { path: PathBuf },
    #[error(
        "cannot load {}; the file is left unchanged: repair it,{} or choose another --data-dir",
        path.display(),
        way_back(before.as_deref())
    )]
    Corrupt {
        path: PathBuf,
        /// The path of the previous save, if there is one, which the message offers in place of the damaged file.
        before: Option<PathBuf>,
        source: SnapshotError,
    },
    #[error(
        "the write-ahead log {} is damaged at offset {offset}: {why}; nothing is changed: {}",
        path.display(),
        way_past(path, *offset)
    )]
    Damaged {
        path: PathBuf,
        offset: usize,
        why: &'static str,
    },
    #[error(
        "the write-ahead log {} does not continue the state before offset {offset}; nothing is changed: {}",
        path.display(),
        way_past(path, *offset)
    )]
    Discontinued {
        path: PathBuf,
        offset: usize,
        source: TransactionError,
    },
    #[error(
        "{} has a write-ahead log but no state.json; restore that file, or remove the files wal.* to start \
         without objects",
        path.display()
    )]
    NoSnapshot { path: PathBuf },
    #[error("cannot read the manifests")]
    Manifests(#[from] ManifestError),
    #[error("{} of {named_by} holds no faults", path.display())]
    Faults {
        /// The flag, with its dashes, or the environment variable that names the file.
        named_by: &'static str,
        path: PathBuf,
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error("there is no {what} in {}", path.display())]
    Nothing { what: &'static str, path: PathBuf },
    #[error("the server refused {what} of {place}")]
    Refused {
        what: String,
        place: String,
        source: Box<Status>,
    },
    #[error("cannot serve")]
    Serve(#[from] steersman_apiserver::Error),
    #[error(transparent)]
    Flags(#[from] FlagProblem),
    #[error("--{flag} is refused: {why}")]
    Option { flag: String, why: String },
    #[error("cannot listen on {url} of --{flag}; choose another {}", cause(source))]
    Listen {
        flag: &'static str,
        url: String,
        source: io::Error,
    },
    #[error(
        "{} holds the data of a real etcd, which this program cannot read; choose another --data-dir",
        path.display()
    )]
    RealEtcd { path: PathBuf },
    #[error(
        "the etcd at {url} keeps the objects of another kube-apiserver ({holder}); stop that one, or start \
         an etcd with other --listen-client-urls"
    )]
    Held { url: String, holder: String },
    #[error(
        "no etcd answers at {url} of --etcd-servers; start `etcd` with these --listen-client-urls first"
    )]
    NoEtcd { url: String, source: io::Error },
    #[error(
        "the etcd at {url} has a state that cannot be read; start an etcd with another --data-dir"
    )]
    CorruptEtcd {
        url: String,
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error("cannot save the objects to the etcd at {url}; start it again if it has ended")]
    NotSaved {
        url: String,
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error("the last changes, which were not answered, are lost: {why}")]
    Unwritten { why: Arc<str> },
    #[error("the changes since the last save are lost")]
    Lost { source: Box<Self> },
    #[error("line {line} of {} of --token-auth-file: {why}", path.display())]
    Tokens {
        path: PathBuf,
        line: usize,
        why: &'static str,
    },
    #[error("cannot use {} of {named_by}", path.display())]
    FlagFile {
        /// The flag, with its dashes, or the environment variable that names the file.
        named_by: &'static str,
        path: PathBuf,
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error(
        "cannot serve with the certificate {} and the key {}; name a pair in --tls-cert-file and \
         --tls-private-key-file",
        certificate.display(),
        key.display()
    )]
    Pair {
        certificate: PathBuf,
        key: PathBuf,
        source: steersman_apiserver::Error,
    },
    #[error(
        "{} exists without {}; restore the other file, or remove this one so that both are generated",
        existing.display(),
        missing.display()
    )]
    HalfPair { existing: PathBuf, missing: PathBuf },
    #[error("cannot generate a certificate; name one in --tls-cert-file")]
    Certificate { source: rcgen::Error },
    #[error(
        "no kubectl was found on the PATH except this program itself; install kubectl, or put its folder on \
         the PATH"
    )]
    NoKubectl,
    #[error("cannot run {}", path.display())]
    Kubectl { path: PathBuf, source: io::Error },
    #[error("cannot read the scenario {}", path.display())]
    ScenarioRead { path: PathBuf, source: io::Error },
    #[error("the scenario {}", path.display())]
    Scenario {
        path: PathBuf,
        source: ScenarioFileError,
    },
    #[error("{place}: the document is no object: it needs apiVersion, kind and metadata.name")]
    NoObject { place: String },
    #[error("cannot use the folder {}", path.display())]
    Folder { path: PathBuf, source: io::Error },
    #[error("stopped by a signal; nothing was found until then, but not all was tried")]
    Stopped,
    #[error(
        "{only} was not reached; undisturbed, the operator writes {writes} times: name another point in --only, or leave \
         it out to see all"
    )]
    NotReached { only: String, writes: usize },
    #[error(
        "{only} was not tried: there is no change with this number, or the scenario goes wrong without it, as the summary \
         says; leave --only out to see all"
    )]
    NoChange { only: String },
    #[error(
        "`desiredStates` of the scenario names fields that no schema has: {}; write the kind and path of a field of a \
         definition among `initial`", fields.join(", ")
    )]
    NoSuchField { fields: Vec<String> },
    #[error("a world cannot run")]
    World {
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    #[cfg(not(unix))]
    #[error("`explore` kills groups of processes, which needs a Unix system")]
    NotHere,
    #[error("cannot start the runtime")]
    Runtime { source: io::Error },
    #[error("cannot wait for signals")]
    Signals { source: io::Error },
}

fn cause(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse | io::ErrorKind::PermissionDenied => "port",
        _ => "address",
    }
}

fn way_back(before: Option<&Path>) -> String {
    let way = |before: &Path| {
        let before = before.display();
        format!(" restore the previous save by moving {before} to that path,")
    };
    before.map(way).unwrap_or_default()
}

/// Returns advice for a log that cannot be read from an offset on.
fn way_past(path: &Path, offset: usize) -> String {
    format!(
        "restore the data directory from a copy, or give up all later writes: run `truncate -s {offset} '{}'` \
         and remove the files wal.* that follow it; or choose another --data-dir",
        path.display()
    )
}

pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
