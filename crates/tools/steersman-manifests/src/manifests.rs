//! Handle: the manifests of one operator.

use serde_json::Value;
use steersman_description::Description;

use crate::error::Error;
use crate::files::Files;
use crate::operator::Operator;
use crate::options::Options;
use crate::role_grant::{RoleGrant, grants};
use crate::rule_list::RuleList;
use crate::{crds, dashboard, helm, install, rbac, role_grant, webhooks, workload};

/// The manifests of one operator, as files.
///
/// All names start with the name of the program. The Service and the webhook configurations have exactly this name,
/// because the program looks for them by name.
#[derive(Clone, Debug)]
pub struct Manifests {
    operator: Operator,
    rules: RuleList,
}

impl Manifests {
    /// Prepares the manifests for a program. `rules` are the rules of `rbac.observed.yaml` and `rbac.extra.yaml`, which
    /// the declarations of the program do not imply.
    ///
    /// # Errors
    ///
    /// [`Error`] if a name or an option is not allowed, or a definition is incomplete.
    pub fn new(
        description: &Description,
        rules: &RuleList,
        options: &Options,
    ) -> Result<Self, Error> {
        Ok(Self {
            operator: Operator::new(description, options)?,
            rules: rules.clone(),
        })
    }

    /// Returns the namespace that must exist before the manifests are applied; `None` for `<name>-system`, which the
    /// manifests create. They create no other namespace: its label `pod-security.kubernetes.io/enforce` would affect
    /// whatever else it contains.
    pub fn required_namespace(&self) -> Option<&str> {
        let operator = &self.operator;
        (!operator.owns_namespace()).then_some(&operator.namespace)
    }

    /// Returns the manifests of the same operator in another namespace.
    #[must_use]
    pub fn in_namespace(&self, namespace: &str) -> Self {
        Self {
            operator: self.operator.in_namespace(namespace),
            rules: self.rules.clone(),
        }
    }

    /// Returns the name of the role for leader election, which is in the namespace of the Lease.
    pub fn election_role(&self) -> String {
        role_grant::of_election(&self.operator).role
    }

    /// Returns the namespace of the operator.
    pub fn namespace(&self) -> &str {
        &self.operator.namespace
    }

    /// Returns the definitions as the leader installs them, without the authority of a conversion webhook.
    pub fn definitions(&self) -> Vec<Value> {
        let own = self.operator.own.iter();
        own.map(|own| own.definition.clone()).collect()
    }

    /// Returns the roles that [`rbac`](Self::rbac) binds to the operator's service account, without empty ones.
    pub fn grants(&self) -> Vec<RoleGrant> {
        grants(&self.operator, self.rules.set())
    }

    /// Returns the webhook configurations, without the authority that the leader injects; empty if the program has
    /// neither a defaulter nor a validator.
    pub fn webhook_configurations(&self) -> Vec<Value> {
        webhooks::configurations(&self.operator)
    }

    /// Returns whether the program has webhooks: a defaulter, a validator, or a conversion.
    pub fn has_webhook_server(&self) -> bool {
        self.operator.has_webhook_server()
    }

    /// Returns the definitions of the program's kinds, as files in `config/crd`; no file if it defines no kind.
    pub fn crds(&self) -> Files {
        crds::files(&self.operator)
    }

    /// Returns the files in `config/rbac`: the service account, its roles and bindings, and roles for users.
    ///
    /// The operator's role grants the rules that its declarations imply, the rules that its controllers declare with
    /// `needs_rule`, and the rules of the files. Comments state the reasons of each rule.
    pub fn rbac(&self) -> Files {
        rbac::files(&self.operator, self.rules.set())
    }

    /// Returns the files in `config`, for `kubectl apply -k config/default`: those of [`crds`](Self::crds) and
    /// [`rbac`](Self::rbac), the Deployment, the webhooks, and the optional parts `network-policy`, `prometheus` and
    /// `grafana`.
    pub fn kustomize(&self) -> Files {
        let mut files = self.crds();
        files.extend(self.rbac());
        files.extend(workload::files(&self.operator));
        files.extend(webhooks::files(&self.operator));
        files.extend(dashboard::files(&self.operator));
        files.extend(install::default_kustomization(&self.operator, &files));
        files
    }

    /// Returns `dist/install.yaml`: all objects for `kubectl apply -f` in one file, except for the kinds of the
    /// Prometheus operator and for the dashboard.
    pub fn install(&self) -> Files {
        install::files(&self.operator, &self.kustomize())
    }

    /// Returns a Helm chart in `dist/chart`, with the objects of [`install`](Self::install) except for the namespace,
    /// and with values for what users change. Names do not depend on the release, because the program looks for its
    /// Service by name: a cluster can have one release.
    pub fn helm(&self) -> Files {
        helm::files(&self.operator, self.rules.set())
    }
}
