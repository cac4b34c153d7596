//! Words: `OptionError`, the error of an invalid option of a server.

/// An invalid option of a server, for instance a key that is no PEM.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the option {option} cannot be used: {problem}")]
#[non_exhaustive]
pub struct OptionError {
    /// The name of the option in the builder of the server.
    pub option: &'static str,
    /// A description of the problem.
    pub problem: String,
}

impl OptionError {
    /// Creates the error of an invalid option.
    #[must_use]
    pub fn new(option: &'static str, problem: impl Into<String>) -> Self {
        let problem = problem.into();
        Self { option, problem }
    }
}
