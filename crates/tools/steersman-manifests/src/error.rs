//! Words: the errors of manifests. Each error names the place and the remedy.

/// The reason why manifests cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file of rules is not YAML, or not a list of rules.
    #[error("{file}: {problem}; {remedy}")]
    RuleFile {
        /// The name of the file.
        file: String,
        /// The position and the problem.
        problem: String,
        /// What to do about the problem.
        remedy: &'static str,
    },
    /// A rule of a file is incomplete or contradicts itself.
    #[error("{file}, line {line}: rule {number} {problem}")]
    Rule {
        /// The name of the file.
        file: String,
        /// The line of the rule, beginning with 1.
        line: u64,
        /// The position of the rule in the list, beginning with 1.
        number: usize,
        /// The problem and the remedy.
        problem: String,
    },
    /// A name is not allowed in Kubernetes.
    #[error(
        "{place} is {name:?}: use at most {most} lower-case letters, digits and `-`, with a letter or digit at both ends"
    )]
    Name {
        /// The thing that has the name.
        place: &'static str,
        /// The refused name.
        name: String,
        /// The maximal number of characters.
        most: usize,
    },
    /// An option has a value that is not allowed.
    #[error("the option {option} is {value:?}: {problem}")]
    Option {
        /// The name of the option.
        option: &'static str,
        /// The refused value.
        value: String,
        /// The allowed values.
        problem: &'static str,
    },
    /// A definition in the description lacks its group, plural or kind.
    #[error(
        "the definition {name:?} of the program has no {field}: pass a `CustomResourceDefinition` to `Program::crds`"
    )]
    Definition {
        /// The name of the definition.
        name: String,
        /// The path of the missing field.
        field: &'static str,
    },
    /// The versions of a definition differ, and no webhook of the program converts its objects.
    #[error("{0}; the program declares its conversions with `Program::webhooks`")]
    Unconverted(String),
    /// The program converts a kind but does not define it.
    #[error(
        "the program converts {kind}.{group}, but has no definition of it: add it with `Program::crds`"
    )]
    Converted {
        /// The group of the kind.
        group: String,
        /// The kind without a definition.
        kind: String,
    },
}
