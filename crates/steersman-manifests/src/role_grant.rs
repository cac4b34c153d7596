//! Machine: what the generated roles grant to the operator's own account.

use serde_json::json;

use crate::operator::Operator;
use crate::permissions::{self, Permissions};
use crate::rule::PolicyRule;
use crate::rule_set::RuleSet;
use crate::yaml;

/// The rules of one role of the operator's own account.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RoleGrant {
    /// The name of the role.
    pub role: String,
    /// The namespace of a `Role`; `None` for a `ClusterRole`.
    pub namespace: Option<String>,
    /// The rules.
    pub rules: Vec<PolicyRule>,
}

impl RoleGrant {
    fn new(role: &str, namespace: Option<&str>, rules: &RuleSet) -> Self {
        Self {
            role: role.to_owned(),
            namespace: namespace.map(str::to_owned),
            rules: rules.merged(),
        }
    }

    /// Returns the role with other rules.
    #[must_use]
    pub fn with_rules(&self, rules: &[PolicyRule]) -> Self {
        let (role, namespace) = (&self.role, self.namespace.as_deref());
        Self::new(role, namespace, &RuleSet::default().with(rules))
    }

    /// Returns the rules as the YAML of a role's `rules`.
    #[must_use]
    pub fn yaml(&self) -> String {
        yaml::document(&json!({"rules": self.rules}))
    }
}

/// Returns the roles that `config/rbac` binds to the operator's account.
pub(crate) fn grants(operator: &Operator, observed: &[PolicyRule]) -> Vec<RoleGrant> {
    let Operator {
        name, namespace, ..
    } = operator;
    let own = Permissions::of(operator, observed);
    let mut grants = vec![RoleGrant::new(name, None, &own.everywhere)];
    let watched = operator.options.namespaces.iter();
    grants.extend(watched.map(|watched| RoleGrant::new(name, Some(watched), &own.watched)));
    let role = format!("{name}-leader-election");
    let rules = permissions::leader_election();
    grants.push(RoleGrant::new(&role, Some(namespace), &rules));
    if operator.has_webhook_server() {
        let role = format!("{name}-certificates");
        let rules = permissions::certificates(&role);
        grants.push(RoleGrant::new(&role, Some(namespace), &rules));
    }
    let role = format!("{name}-metrics-auth");
    grants.push(RoleGrant::new(&role, None, &permissions::metrics_auth()));
    grants.retain(|grant| !grant.rules.is_empty());
    grants
}
