//! Words: the errors of setting up the export of traces.

/// The reason why the export of traces cannot start. `Display` names the setting, its value and the allowed values.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A setting has a value that is not allowed.
    #[error("{setting} is {value:?}: {problem}")]
    Value {
        /// The option or the environment variable.
        setting: String,
        /// The refused value.
        value: String,
        /// The text that states the allowed values.
        problem: String,
    },
    /// An environment variable is not valid UTF-8.
    #[error("the environment variable {variable} is not UTF-8: set it again")]
    NotUtf8 {
        /// The name of the variable.
        variable: String,
    },
    /// The certificates for a collector with HTTPS cannot be used.
    #[error("the certificates for the collector of traces cannot be used: {problem}")]
    Certificates {
        /// The problem, with the path of the file if there is one.
        problem: String,
    },
    /// The client for the collector cannot be made.
    #[error("the export of traces cannot start: {problem}")]
    Setup {
        /// The problem.
        problem: String,
    },
}

impl Error {
    pub(crate) fn value(setting: &str, value: &str, problem: impl Into<String>) -> Self {
        Self::Value {
            setting: setting.to_owned(),
            value: value.to_owned(),
            problem: problem.into(),
        }
    }
}
