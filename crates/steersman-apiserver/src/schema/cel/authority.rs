//! Words: what expressions of admission ask the authorizer, and whom they ask.
//!
//! Kubernetes source: `apiserver/pkg/cel/library/authz.go`.

use std::fmt;

pub(crate) const AUTHORIZER: &str = "kubernetes.authorization.Authorizer";
pub(crate) const PATH_CHECK: &str = "kubernetes.authorization.PathCheck";
pub(crate) const GROUP_CHECK: &str = "kubernetes.authorization.GroupCheck";
pub(crate) const RESOURCE_CHECK: &str = "kubernetes.authorization.ResourceCheck";
pub(crate) const DECISION: &str = "kubernetes.authorization.Decision";

/// Whoever decides what a user may do.
pub(crate) trait Authority: fmt::Debug + Send + Sync {
    /// Whether the author of the request, or the account that is asked about, may do it.
    fn decide(&self, verb: &str, asked: &Asked) -> Ruling;
}

/// What is asked about, as far as it is said.
#[derive(Debug, Clone, Default)]
pub(crate) struct Asked {
    /// Namespace and name of a ServiceAccount; absent where it is about the author of the request.
    pub(crate) account: Option<(String, String)>,
    /// A path that is no resource.
    pub(crate) path: Option<String>,
    pub(crate) group: String,
    pub(crate) resource: String,
    pub(crate) subresource: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// How far a question has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Authorizer,
    Path,
    Group,
    Resource,
}

/// A question that is being put together.
#[derive(Debug, Clone)]
pub(crate) struct Query<'a> {
    pub(crate) authority: &'a dyn Authority,
    pub(crate) step: Step,
    pub(crate) asked: Asked,
}

/// What the authorizer says.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ruling {
    pub(crate) allowed: bool,
    /// Often empty.
    pub(crate) reason: String,
}

impl<'a> Query<'a> {
    /// What the variable `authorizer` is.
    pub(crate) fn new(authority: &'a dyn Authority) -> Self {
        Self {
            authority,
            step: Step::Authorizer,
            asked: Asked::default(),
        }
    }

    /// What the variable `authorizer.requestResource` is.
    pub(crate) fn of_resource(authority: &'a dyn Authority, asked: Asked) -> Self {
        Self {
            authority,
            step: Step::Resource,
            asked,
        }
    }

    /// The name of its type.
    pub(crate) fn type_name(&self) -> &'static str {
        match self.step {
            Step::Authorizer => AUTHORIZER,
            Step::Path => PATH_CHECK,
            Step::Group => GROUP_CHECK,
            Step::Resource => RESOURCE_CHECK,
        }
    }
}
