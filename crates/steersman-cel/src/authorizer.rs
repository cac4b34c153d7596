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
pub trait Authority: fmt::Debug + Send + Sync {
    /// Whether the author of the request, or the account that is asked about, may do it.
    fn decide(&self, verb: &str, asked: &Asked) -> Ruling;
}

/// What is asked about, as far as it is said.
#[derive(Debug, Clone, Default)]
pub struct Asked {
    /// Namespace and name of a ServiceAccount; absent where it is about the author of the request.
    pub account: Option<(String, String)>,
    /// A path that is no resource.
    pub path: Option<String>,
    /// The API group.
    pub group: String,
    /// The resource, in plural.
    pub resource: String,
    /// The subresource; empty for the resource itself.
    pub subresource: String,
    /// The namespace; empty for all.
    pub namespace: String,
    /// The object's name; empty for all.
    pub name: String,
}

/// How far a question has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The variable `authorizer` itself.
    Authorizer,
    /// A path was given.
    Path,
    /// A group was given.
    Group,
    /// A resource was given.
    Resource,
}

/// A question that is being put together.
#[derive(Debug, Clone)]
pub struct Query<'a> {
    /// The authorizer to ask.
    pub authority: &'a dyn Authority,
    /// The kind of check so far.
    pub step: Step,
    /// The attributes so far.
    pub asked: Asked,
}

/// What the authorizer says.
#[derive(Debug, Clone, Default)]
pub struct Ruling {
    /// Whether the request is allowed.
    pub allowed: bool,
    /// Often empty.
    pub reason: String,
}

impl<'a> Query<'a> {
    /// What the variable `authorizer` is.
    pub fn new(authority: &'a dyn Authority) -> Self {
        Self {
            authority,
            step: Step::Authorizer,
            asked: Asked::default(),
        }
    }

    /// What the variable `authorizer.requestResource` is.
    pub fn of_resource(authority: &'a dyn Authority, asked: Asked) -> Self {
        Self {
            authority,
            step: Step::Resource,
            asked,
        }
    }

    /// The name of its type.
    pub fn type_name(&self) -> &'static str {
        match self.step {
            Step::Authorizer => AUTHORIZER,
            Step::Path => PATH_CHECK,
            Step::Group => GROUP_CHECK,
            Step::Resource => RESOURCE_CHECK,
        }
    }
}
