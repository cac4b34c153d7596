//! Words: `OptionError`, an option of a server that cannot be used.

/// An option of a server that cannot be used, for instance a key that is no PEM.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the option {option} cannot be used: {problem}")]
#[non_exhaustive]
pub struct OptionError {
    /// The name of the option, as the builder of the server spells it.
    pub option: &'static str,
    /// A description of the problem.
    pub problem: String,
}

impl OptionError {
    /// Creates the error of an option.
    #[must_use]
    pub fn new(option: &'static str, problem: impl Into<String>) -> Self {
        let problem = problem.into();
        Self { option, problem }
    }
}
