//! Words: the errors with which a test of an operator fails.

use std::io;
use std::path::PathBuf;

use steersman_testenv::RbacSyntaxError;
use steersman_testenv::assert::ConditionError;
use thiserror::Error;

use crate::explore_failure::ExploreFailure;

/// The error that a closure of a test returns.
pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The reason why a test of an operator failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum HarnessError {
    /// The environment of the test failed: its server or its definitions.
    #[error("the environment of the test cannot be started or stopped")]
    Env(#[from] steersman_testenv::Error),
    /// The server refused a request that the harness sent.
    #[error("the harness cannot {doing}")]
    Request {
        /// The request as a verb phrase, which follows "cannot".
        doing: String,
        /// The error of the server.
        source: Box<steersman_client::Error>,
    },
    /// A closure of [`before_start`](crate::OperatorTest::before_start) failed.
    #[error("the preparation of the test failed")]
    BeforeStart(#[source] BoxError),
    /// The closure that declares the operator returned an error.
    #[error("the operator cannot be declared")]
    Declare(#[source] BoxError),
    /// The manager of the operator ended before the test stopped it.
    #[error("the manager of the operator ended{}", if .0.is_some() { "" } else { " without being told to" })]
    Ended(#[source] Option<Box<steersman_manager::Error>>),
    /// The file of [`observe_rbac`](crate::OperatorTest::observe_rbac) cannot be read or written.
    #[error("{}: the permissions of the operator cannot be added", path.display())]
    RbacFile {
        /// The path of the file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The file of [`observe_rbac`](crate::OperatorTest::observe_rbac) is not a list of rules.
    #[error("{}: {problem}; correct the file, or delete it and run all tests", path.display())]
    RbacSyntax {
        /// The path of the file.
        path: PathBuf,
        /// The problem with its line number.
        problem: RbacSyntaxError,
    },
    /// The API server cannot call the [`webhooks`](crate::OperatorTest::webhooks) of the test.
    #[error("the API server of the test cannot call the webhooks")]
    Webhooks(#[source] BoxError),
    /// A file has no [`sample`](crate::sample()) of the wanted kind.
    #[error("{}: the sample cannot be read", path.display())]
    Sample {
        /// The path of the file.
        path: PathBuf,
        /// Why the file has no sample.
        source: BoxError,
    },
    /// The operator cannot be explored: a mistake in the scenario, or an object that the server refuses.
    #[error("the operator cannot be explored")]
    Explore(#[source] BoxError),
    /// An exploration found something. The text tells the stories.
    #[error(transparent)]
    Explored(#[from] ExploreFailure),
    /// The operator did not do what the test expects. The text includes a report.
    #[error(transparent)]
    Unmet(#[from] ConditionError),
}

impl HarnessError {
    pub(crate) fn request(
        doing: impl Into<String>,
    ) -> impl FnOnce(steersman_client::Error) -> Self {
        let doing = doing.into();
        |error| Self::Request {
            doing,
            source: Box::new(error),
        }
    }

    /// Returns whether the operator ran, but did not do what the test expects.
    pub fn is_unmet(&self) -> bool {
        matches!(self, Self::Unmet(_))
    }
}
