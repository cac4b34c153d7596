//! Words: the errors of definitions.

use std::time::Duration;

use thiserror::Error as ThisError;

/// The reason why a definition is not installed, or why its objects are not migrated.
#[derive(Clone, Debug, ThisError)]
#[non_exhaustive]
pub enum Error {
    /// The definition cannot be installed on any server.
    #[error("the definition {definition} cannot be installed: {problem}")]
    Unusable {
        /// The name of the definition.
        definition: String,
        /// Why the definition cannot be installed.
        problem: String,
    },
    /// The versions differ, and no webhook converts the objects: an API server would drop the fields that the version
    /// of a request lacks.
    #[error(
        "the definition {definition} is not installed, because its versions {} differ in {} and no webhook converts its \
         objects, so that these fields would be lost; let a webhook convert them (`Crd::converted_by`), or install \
         the newest version alone (`Crd::newest_version_only`)",
        .versions.join(" and "),
        .fields.join(", ")
    )]
    Unconverted {
        /// The name of the definition.
        definition: String,
        /// The versions that differ from the stored one, followed by the stored version.
        versions: Vec<String>,
        /// The fields that differ between the versions, such as `spec.replicas`.
        fields: Vec<String>,
    },
    /// The definition accepts less than the definition on the server: objects could become invalid or lose fields.
    #[error(
        "the definition {definition} is not installed, because it accepts less than the one on the server: {}; \
         widen it, or accept the difference with `Crd::accept_narrowing`",
        .problems.join("; ")
    )]
    Narrowed {
        /// The name of the definition.
        definition: String,
        /// The fields that accept less, each with the reason.
        problems: Vec<String>,
    },
    /// The server does not serve the definition.
    #[error("the definition {definition} is not served after {} s: {problem}", .after.as_secs())]
    NotServed {
        /// The name of the definition.
        definition: String,
        /// The time since the definition was written.
        after: Duration,
        /// The unmet condition of the definition.
        problem: String,
    },
    /// Some objects could not be stored in the definition's stored version.
    #[error(
        "{} of {definition} cannot be stored in {version}: {}; correct or delete {}, the migration then goes on",
        if *count == 1 { "1 object".to_owned() } else { format!("{count} objects") },
        examples.join("; "),
        if *count == 1 { "it" } else { "them" }
    )]
    NotMigrated {
        /// The name of the definition.
        definition: String,
        /// The version in which objects are to be stored.
        version: String,
        /// The number of objects that could not be stored.
        count: u64,
        /// The first objects that could not be stored, each with the server's message.
        examples: Vec<String>,
    },
    /// A request failed.
    #[error(transparent)]
    Request(#[from] steersman_api::Error),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_object_that_cannot_be_stored_is_one_object() {
        let text = |count| {
            let error = Error::NotMigrated {
                definition: "sites.example.com".to_owned(),
                version: "v1".to_owned(),
                count,
                examples: vec!["shop/a: 422".to_owned()],
            };
            error.to_string()
        };
        let one = "1 object of sites.example.com cannot be stored in v1: shop/a: 422; correct or delete it, the \
                   migration then goes on";
        assert_eq!(text(1), one);
        assert!(
            text(2).starts_with("2 objects of sites.example.com cannot"),
            "{}",
            text(2)
        );
    }
}
