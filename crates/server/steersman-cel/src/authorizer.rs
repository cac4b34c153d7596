//! Words: the authorizer that admission expressions can ask, and the authorization checks that expressions build.
//!
//! Kubernetes source: `apiserver/pkg/cel/library/authz.go`.

use std::fmt;

pub(crate) const AUTHORIZER: &str = "kubernetes.authorization.Authorizer";
pub(crate) const PATH_CHECK: &str = "kubernetes.authorization.PathCheck";
pub(crate) const GROUP_CHECK: &str = "kubernetes.authorization.GroupCheck";
pub(crate) const RESOURCE_CHECK: &str = "kubernetes.authorization.ResourceCheck";
pub(crate) const DECISION: &str = "kubernetes.authorization.Decision";

/// An authorizer that expressions can ask what a user may do.
pub trait AccessDecider: fmt::Debug + Send + Sync {
    /// Returns whether the author of the request, or the ServiceAccount in `asked`, may perform `verb`, and why.
    fn decide(&self, verb: &str, asked: &AccessAttributes) -> AccessDecision;
}

/// What an authorization check asks: the attributes that an expression has set, without the verb.
#[derive(Debug, Clone, Default)]
pub struct AccessAttributes {
    /// Namespace and name of the ServiceAccount to check; `None` checks the author of the request.
    pub account: Option<(String, String)>,
    /// The non-resource path, such as `/healthz`; `None` for a check of a resource.
    pub path: Option<String>,
    /// The API group of the resource; empty for the core group.
    pub group: String,
    /// The plural name of the resource.
    pub resource: String,
    /// The subresource; empty for the resource itself.
    pub subresource: String,
    /// The namespace of the object; empty for all namespaces.
    pub namespace: String,
    /// The name of the object; empty for all objects.
    pub name: String,
}

/// An authorization check that an expression builds call by call, such as `authorizer.group('').resource('pods')`.
#[derive(Debug, Clone)]
pub struct Query<'a> {
    /// The authorizer that answers the check.
    pub authority: &'a dyn AccessDecider,
    /// The name of the CEL type of the check. Each call, such as `group(…)`, changes the type.
    pub kind: &'static str,
    /// The attributes that the calls so far have set.
    pub asked: AccessAttributes,
}

/// The answer to an authorization check, such as `authorizer.group('').resource('pods').check('get')`.
#[derive(Debug, Clone, Default)]
pub struct AccessDecision {
    /// Whether the checked operation is allowed.
    pub allowed: bool,
    /// The reason that the authorizer gave for the answer; often empty.
    pub reason: String,
}

impl<'a> Query<'a> {
    /// Returns the value of the variable `authorizer`: a check without attributes.
    pub fn new(authority: &'a dyn AccessDecider) -> Self {
        Self {
            authority,
            kind: AUTHORIZER,
            asked: AccessAttributes::default(),
        }
    }

    /// Returns the value of the variable `authorizer.requestResource`: a check with the attributes of the request.
    pub fn of_resource(authority: &'a dyn AccessDecider, asked: AccessAttributes) -> Self {
        Self {
            authority,
            kind: RESOURCE_CHECK,
            asked,
        }
    }
}
