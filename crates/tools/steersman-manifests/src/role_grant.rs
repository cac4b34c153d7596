//! Machine: the roles that the manifests grant to the operator's service account.

use steersman_object::PolicyRule;

use crate::implied;
use crate::operator::Operator;
use crate::permissions::of_account;
use crate::rule_set::{Permission, RuleSet};

/// A role of the operator's service account, with its rules.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RoleGrant {
    /// The name of the role.
    pub role: String,
    /// The namespace of a `Role`; `None` for a `ClusterRole`.
    pub namespace: Option<String>,
    pub(crate) rules: RuleSet,
}

impl RoleGrant {
    fn new(role: &str, namespace: Option<&str>, rules: RuleSet) -> Self {
        Self {
            role: role.to_owned(),
            namespace: namespace.map(str::to_owned),
            rules,
        }
    }

    /// Returns the rules.
    pub fn rules(&self) -> Vec<PolicyRule> {
        self.rules.merged()
    }

    /// Returns each permission of the role.
    pub fn permissions(&self) -> Vec<Permission> {
        self.rules.permissions()
    }
}

/// Returns the roles for the work of the operator: one for the cluster, and one per namespace.
pub(crate) fn of_work(operator: &Operator, files: &RuleSet) -> Vec<RoleGrant> {
    let name = &operator.name;
    let (everywhere, by_namespace) = of_account(operator, files);
    let mut grants = vec![RoleGrant::new(name, None, everywhere)];
    let by_namespace = by_namespace.into_iter();
    grants.extend(by_namespace.map(|(place, rules)| RoleGrant::new(name, Some(&place), rules)));
    grants
}

pub(crate) fn of_election(operator: &Operator) -> RoleGrant {
    let role = format!("{}-leader-election", operator.name);
    RoleGrant::new(&role, Some(&operator.namespace), implied::leader_election())
}

/// Returns the role for built-in certificates; `None` without webhooks or with another authority.
pub(crate) fn of_certificates(operator: &Operator) -> Option<RoleGrant> {
    let role = format!("{}-certificates", operator.name);
    let rules = implied::certificates(&role);
    let grant = RoleGrant::new(&role, Some(&operator.namespace), rules);
    let has_authority = operator.has_webhook_server() && !operator.uses_cert_manager();
    has_authority.then_some(grant)
}

pub(crate) fn of_metrics(operator: &Operator) -> RoleGrant {
    let role = format!("{}-metrics-auth", operator.name);
    RoleGrant::new(&role, None, implied::metrics_auth())
}

/// Returns the roles that `config/rbac` binds to the operator's service account.
pub(crate) fn grants(operator: &Operator, files: &RuleSet) -> Vec<RoleGrant> {
    let mut grants = of_work(operator, files);
    grants.push(of_election(operator));
    grants.extend(of_certificates(operator));
    grants.push(of_metrics(operator));
    grants.retain(|grant| !grant.rules.is_empty());
    grants
}
