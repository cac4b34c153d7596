//! Words: why the program ends with an error.

use std::io;
use std::path::PathBuf;

use steersman_apiserver::manifests::ManifestError;
use steersman_apiserver::registry::SnapshotError;
use steersman_apiserver::status::Status;

/// Why the program ends with an error.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Problem {
    #[error("cannot use {}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("{} is in use by another steersman-apiserver", path.display())]
    InUse { path: PathBuf },
    #[error(
        "cannot begin from {}; it stays as it is: repair it, begin from the save before it by \
         moving {} in its place, or choose another --data-dir",
        path.display(),
        before.display()
    )]
    Corrupt {
        path: PathBuf,
        before: PathBuf,
        source: SnapshotError,
    },
    #[error("cannot read the manifests")]
    Manifests(#[from] ManifestError),
    #[error("{} holds no faults", path.display())]
    Faults {
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
    #[error("cannot wait for signals")]
    Signals { source: io::Error },
}

/// An error with what caused it.
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
