//! Words: the authorizer of admission expressions, and the checks that expressions build for it.
//!
//! Kubernetes source: `apiserver/pkg/cel/library/authz.go`.

use std::fmt;

pub(crate) const AUTHORIZER: &str = "kubernetes.authorization.Authorizer";
pub(crate) const PATH_CHECK: &str = "kubernetes.authorization.PathCheck";
pub(crate) const GROUP_CHECK: &str = "kubernetes.authorization.GroupCheck";
pub(crate) const RESOURCE_CHECK: &str = "kubernetes.authorization.ResourceCheck";
pub(crate) const DECISION: &str = "kubernetes.authorization.Decision";

/// Decides which operations a user may perform.
pub trait AccessDecider: fmt::Debug + Send + Sync {
    /// Returns the decision about the author of the request, or about the ServiceAccount that the
    /// check names.
    fn decide(&self, verb: &str, asked: &AccessAttributes) -> AccessDecision;
}

/// The attributes of a check, as far as the expression has set them.
#[derive(Debug, Clone, Default)]
pub struct AccessAttributes {
    /// Namespace and name of a ServiceAccount; absent for the author of the request.
    pub account: Option<(String, String)>,
    /// The non-resource path, such as `/healthz`; `None` for a check of a resource.
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

/// An authorization check that an expression builds step by step.
#[derive(Debug, Clone)]
pub struct Query<'a> {
    /// The authorizer to ask.
    pub authority: &'a dyn AccessDecider,
    /// The name of the type of the check so far.
    pub kind: &'static str,
    /// The attributes so far.
    pub asked: AccessAttributes,
}

/// The authorizer's decision.
#[derive(Debug, Clone, Default)]
pub struct AccessDecision {
    /// Whether the request is allowed.
    pub allowed: bool,
    /// The reason for the decision. Often empty.
    pub reason: String,
}

impl<'a> Query<'a> {
    /// Returns the value of the variable `authorizer`.
    pub fn new(authority: &'a dyn AccessDecider) -> Self {
        Self {
            authority,
            kind: AUTHORIZER,
            asked: AccessAttributes::default(),
        }
    }

    /// Returns the value of the variable `authorizer.requestResource`.
    pub fn of_resource(authority: &'a dyn AccessDecider, asked: AccessAttributes) -> Self {
        Self {
            authority,
            kind: RESOURCE_CHECK,
            asked,
        }
    }
}
