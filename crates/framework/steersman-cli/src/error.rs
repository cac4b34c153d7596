//! Words: the errors of a configuration and of a program. Each names the source, the key and the allowed values.

use std::error::Error as StdError;
use std::path::PathBuf;

/// The reason why an operator cannot be configured, or why a program has ended.
///
/// `Display` prints one level; [`source`](StdError::source) has the causes.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be read.
    #[error("the configuration file {} cannot be read", path.display())]
    Read {
        /// The path of the file.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The file is not YAML, or not a mapping of settings.
    #[error("{}: {problem}", path.display())]
    File {
        /// The path of the file.
        path: PathBuf,
        /// The position and the problem.
        problem: String,
    },
    /// The file has an unknown key.
    #[error(
        "{place}: there is no setting {key:?}{}; the settings are {}",
        similar.as_ref().map(|key| format!(" (did you mean {key:?}?)")).unwrap_or_default(),
        known.join(", ")
    )]
    UnknownKey {
        /// The position of the key in the file.
        place: SettingSource,
        /// The unknown key.
        key: String,
        /// The known key that is most similar to the unknown key, if any.
        similar: Option<String>,
        /// The known keys.
        known: Vec<String>,
    },
    /// A setting has a value that is not allowed.
    #[error("{place}: {key} is {value:?}: {problem}")]
    Value {
        /// The source of the value.
        place: SettingSource,
        /// The key of the setting.
        key: String,
        /// The refused value.
        value: String,
        /// The text that states the allowed values.
        problem: String,
    },
    /// A setting requires another setting, which is missing.
    #[error("{key} needs {lacking}: {reason}")]
    Lacks {
        /// The setting that requires the other one.
        key: &'static str,
        /// The missing setting.
        lacking: &'static str,
        /// The reason why the other setting is required.
        reason: &'static str,
    },
    /// An environment variable is not valid UTF-8.
    #[error("the environment variable {variable} is not UTF-8: set it again")]
    NotUtf8 {
        /// The name of the variable.
        variable: String,
    },
    /// A setting has an effect only in programs with a feature of this crate, and the program was built without it.
    #[error("{key} needs the feature {feature:?}: {remedy}")]
    NoFeature {
        /// The key of the setting.
        key: &'static str,
        /// The missing feature.
        feature: &'static str,
        /// The change that builds the program with the feature.
        remedy: &'static str,
    },
    /// The export of traces cannot start.
    #[error("traces cannot be exported")]
    Traces(#[source] Box<dyn StdError + Send + Sync>),
    /// The process has a logger already, so that the log cannot be set up.
    #[error(
        "logging cannot be set up, because the process has a tracing subscriber already: set up one"
    )]
    Logging(#[source] Box<dyn StdError + Send + Sync>),
    /// No API server is configured, or its configuration is invalid.
    #[error("there is no connection to an API server")]
    Connect(#[source] steersman_api::Error),
    /// The command line is invalid, or asks for help or the version.
    #[error(transparent)]
    Usage(clap::Error),
    /// Neither a kubeconfig nor a service account was found.
    #[error(
        "no cluster is configured: set KUBECONFIG or --kubeconfig, or run `cargo steersman dev`, which starts an API server"
    )]
    NoCluster(#[source] Box<Self>),
    /// The versions of a definition differ, and the program was started without the webhook that converts its objects.
    #[error(
        "the program cannot start without its conversion webhook: serve the webhook with --webhook-bind-address=:9443, or \
         install the newest version alone with --install-newest-version-only"
    )]
    Unconverted(#[source] steersman_crds::Error),
    /// The program's own setup failed.
    #[error("the controllers cannot be set up")]
    Setup(#[source] Box<dyn StdError + Send + Sync>),
    /// The manager cannot be built, or has ended with an error.
    #[error(transparent)]
    Manager(Box<steersman_manager::Error>),
}

/// The source of a setting's value.
#[derive(Debug, Clone, PartialEq, Eq, derive_more::Display)]
#[non_exhaustive]
pub enum SettingSource {
    /// An environment variable.
    #[display("the environment variable {_0}")]
    Variable(String),
    /// A line of the configuration file.
    #[display("{}:{line}", path.display())]
    Line {
        /// The path of the file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
    },
    /// The default of this crate or of the program.
    #[display("the default")]
    Default,
}

impl Error {
    /// Returns whether no cluster is configured, so that a program may start a server of its own.
    pub fn is_no_config(&self) -> bool {
        matches!(self, Self::Connect(error) if error.is_no_config())
    }
}
