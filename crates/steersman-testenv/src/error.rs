//! Words: why an environment could not be had, or not be used.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use kube_client::config::{InferConfigError, KubeconfigError};
use steersman_apiserver::manifests::ManifestError;
use thiserror::Error;

/// Why there is no environment, or why it did not do what it was asked for.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The embedded server could not listen.
    #[error("the embedded API server could not be started")]
    Embedded(#[from] steersman_apiserver::Error),
    /// A kubeconfig could not be used.
    #[error("the kubeconfig of the test environment cannot be used")]
    Kubeconfig(#[from] KubeconfigError),
    /// An existing cluster was asked for, and none is configured.
    #[error(
        "USE_EXISTING_CLUSTER is set, but no cluster is configured: set KUBECONFIG, or unset it"
    )]
    NoCluster(#[from] InferConfigError),
    /// An environment variable says what cannot be read.
    #[error("{name}={value:?} is not {wanted}")]
    Variable {
        /// Its name.
        name: &'static str,
        /// What it says.
        value: String,
        /// What it should be.
        wanted: &'static str,
    },
    /// A binary is not where it should be.
    #[error(
        "there is no {}: set KUBEBUILDER_ASSETS to a folder with etcd and kube-apiserver, or unset \
         it for the embedded server",
        path.display()
    )]
    NoBinary {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// A binary could not be started.
    #[error("{} could not be started", path.display())]
    Spawn {
        /// The binary.
        path: PathBuf,
        /// What the operating system says.
        source: io::Error,
    },
    /// A binary ended before it was ready.
    #[error("{name} ended before it was ready ({status}); {log}")]
    Exited {
        /// Its name.
        name: String,
        /// Its exit status.
        status: String,
        /// The end of its log.
        log: Tail,
    },
    /// A binary was not ready in time, and was stopped.
    #[error("{name} was not ready after {after:?} (last answer: {seen}); {log}")]
    NotReady {
        /// Its name.
        name: String,
        /// How long it was waited for.
        after: Duration,
        /// What it answered last.
        seen: String,
        /// The end of its log.
        log: Tail,
    },
    /// Keys or certificates for the binaries could not be made.
    #[error("the certificates of the test environment could not be made")]
    Certificates(#[from] rcgen::Error),
    /// A file could not be read or written.
    #[error("{} cannot be used", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the operating system says.
        source: io::Error,
    },
    /// A file or folder of manifests could not be read.
    #[error("the manifests cannot be read")]
    Manifests(#[from] ManifestError),
    /// No CustomResourceDefinition where some were expected.
    #[error("there is no CustomResourceDefinition (apiextensions.k8s.io/v1) in {}", path.display())]
    NoDefinition {
        /// The file or folder.
        path: PathBuf,
    },
    /// A definition was taken and is not served.
    #[error("the definition {name} is not served after {after:?}: {seen}")]
    NotServed {
        /// Its name.
        name: String,
        /// How long it was waited for.
        after: Duration,
        /// Its conditions.
        seen: String,
    },
    /// The server refused what the environment asked of it, or could not be reached.
    #[error("{doing} failed")]
    Request {
        /// What was to be done.
        doing: String,
        /// Why it was not.
        source: Box<kube_client::Error>,
    },
}

/// The last lines of a program's log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tail(pub(crate) String);

impl fmt::Display for Tail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("it logged nothing");
        }
        f.write_str("its log ends with:")?;
        for line in self.0.lines() {
            write!(f, "\n    {line}")?;
        }
        Ok(())
    }
}
