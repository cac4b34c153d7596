//! Words: why the program ends with an error.

use std::io;
use std::path::{Path, PathBuf};

use steersman_apiserver::manifests::ManifestError;
use steersman_registry::SnapshotError;
use steersman_text::status::Status;

/// Why the program ends with an error.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Problem {
    #[error("cannot use {}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("{} is in use by another steersman-apiserver", path.display())]
    InUse { path: PathBuf },
    #[error(
        "cannot begin from {}; it stays as it is: repair it,{} or choose another --data-dir",
        path.display(),
        way_back(before.as_deref())
    )]
    Corrupt {
        path: PathBuf,
        /// The save before it, where there is one.
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
        format!(" begin from the save before it by moving {before} in its place,")
    };
    before.map(way).unwrap_or_default()
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
