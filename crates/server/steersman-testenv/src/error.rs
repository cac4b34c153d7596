//! Words: the errors of a test environment.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use kube_client::config::{InferConfigError, KubeconfigError};
use steersman_apiserver::manifests::ManifestError;
use thiserror::Error;

/// An error of a test environment.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The embedded server could not listen.
    #[error("the embedded API server could not be started")]
    Embedded(#[from] steersman_apiserver::Error),
    /// A kubeconfig could not be used.
    #[error("the kubeconfig of the test environment cannot be used")]
    Kubeconfig(#[from] KubeconfigError),
    /// An existing cluster is selected, but none is configured.
    #[error(
        "USE_EXISTING_CLUSTER is set, but no cluster is configured: set KUBECONFIG, or unset it"
    )]
    NoCluster(#[from] InferConfigError),
    /// An environment variable has an invalid value.
    #[error("{name}={value:?} is not {wanted}")]
    Variable {
        /// The name of the variable.
        name: &'static str,
        /// The invalid value of the variable.
        value: String,
        /// The expected form.
        wanted: &'static str,
    },
    /// A binary does not exist.
    #[error(
        "there is no {}: set KUBEBUILDER_ASSETS to a folder with etcd and kube-apiserver, or unset \
         it for the embedded server",
        path.display()
    )]
    NoBinary {
        /// The expected path.
        path: PathBuf,
    },
    /// A binary could not be started.
    #[error("{} could not be started", path.display())]
    Spawn {
        /// The path of the binary.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A binary ended before it was ready.
    #[error("{name} ended before it was ready ({status}); {log}")]
    Exited {
        /// The name of the binary.
        name: String,
        /// The exit status.
        status: String,
        /// The last lines of the log, as the end of the message.
        log: String,
    },
    /// A binary was not ready in time, and was stopped.
    #[error("{name} was not ready after {after:?} (last answer: {seen}); {log}")]
    NotReady {
        /// The name of the binary.
        name: String,
        /// The time limit.
        after: Duration,
        /// The last observed state.
        seen: String,
        /// The last lines of the log, as the end of the message.
        log: String,
    },
    /// Keys or certificates for the binaries could not be generated.
    #[error("the certificates of the test environment could not be generated")]
    Certificates(#[from] rcgen::Error),
    /// A file could not be read or written.
    #[error("{} cannot be used", path.display())]
    File {
        /// The path of the file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A file or folder of manifests could not be read.
    #[error("the manifests cannot be read")]
    Manifests(#[from] ManifestError),
    /// A file or folder contains no CustomResourceDefinition.
    #[error("there is no CustomResourceDefinition (apiextensions.k8s.io/v1) in {}", path.display())]
    NoDefinition {
        /// The file or folder.
        path: PathBuf,
    },
    /// A definition was installed and is not served.
    #[error("the definition {name} is not served after {after:?}: {seen}")]
    NotServed {
        /// The name of the definition.
        name: String,
        /// The time limit.
        after: Duration,
        /// The conditions of the definition.
        seen: String,
    },
    /// The server of the environment has no request log, so the permissions that its clients needed are unknown.
    #[error(
        "the permissions that were needed are unknown: only the embedded server has a log of requests; unset \
         KUBEBUILDER_ASSETS and USE_EXISTING_CLUSTER"
    )]
    NoRequestLog,
    /// The request log of the embedded server no longer holds its oldest requests, so permissions may be missing.
    #[error(
        "the permissions that were needed are incomplete: the log of the server dropped its {forgotten} oldest \
         requests; raise `log_capacity` of the server"
    )]
    RequestsForgotten {
        /// The number of requests.
        forgotten: u64,
    },
    /// The server refused a request of the environment, or is unreachable.
    #[error("{doing} failed")]
    Request {
        /// The operation that failed.
        doing: String,
        /// The error of the client.
        source: Box<kube_client::Error>,
    },
}

impl Error {
    pub(crate) fn request(doing: impl Into<String>, source: kube_client::Error) -> Self {
        Self::Request {
            doing: doing.into(),
            source: Box::new(source),
        }
    }
}
