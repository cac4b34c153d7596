//! Words: the errors with which the program ends.

use std::io;
use std::path::{Path, PathBuf};

use steersman_apiserver::manifests::ManifestError;
use steersman_registry::SnapshotError;
use steersman_text::status::Status;

/// An error with which the program ends.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Problem {
    #[error("cannot use {}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("{} is in use by another steersman-apiserver", path.display())]
    InUse { path: PathBuf },
    #[error(
        "cannot load {}; the file is left unchanged: repair it,{} or choose another --data-dir",
        path.display(),
        way_back(before.as_deref())
    )]
    Corrupt {
        path: PathBuf,
        /// The previous save, if there is one.
        before: Option<PathBuf>,
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

fn way_back(before: Option<&Path>) -> String {
    let way = |before: &Path| {
        let before = before.display();
        format!(" restore the previous save by moving {before} to that path,")
    };
    before.map(way).unwrap_or_default()
}

/// Formats an error and its causes.
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
