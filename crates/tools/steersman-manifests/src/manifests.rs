//! Handle: the manifests of one operator.

use serde_json::Value;
use steersman_cli::Description;

use crate::error::Error;
use crate::files::Files;
use crate::operator::Operator;
use crate::options::Options;
use crate::role_grant::{RoleGrant, grants};
use crate::rule_list::RuleList;
use crate::{crds, helm, install, rbac, role_grant, webhooks, workload};

/// The manifests of one operator, as files.
///
/// All names begin with the name of the program. The name of its Service and of its webhook configurations is the name
/// of the program itself, because the program looks for them by this name.
#[derive(Clone, Debug)]
pub struct Manifests {
    operator: Operator,
    rules: RuleList,
}

impl Manifests {
    /// Prepares the manifests of the program with this description. The rules are those that the declarations of the
    /// program do not imply, from `rbac.observed.yaml` and `rbac.extra.yaml`.
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
    /// manifests declare. A namespace of another name is not declared, because it may hold other things, which the
    /// label of the declared namespace (`pod-security.kubernetes.io/enforce`) would stop.
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

    /// Returns the name of the role of the leader election. Its rules are needed in the namespace of the Lease.
    pub fn election_role(&self) -> String {
        role_grant::of_election(&self.operator).role
    }

    /// Returns the namespace of the operator.
    pub fn namespace(&self) -> &str {
        &self.operator.namespace
    }

    /// Returns the definitions, as the leader of the operator installs them, without the authority of a conversion
    /// webhook.
    pub fn definitions(&self) -> Vec<Value> {
        let own = self.operator.own.iter();
        own.map(|own| own.definition.clone()).collect()
    }

    /// Returns the roles that [`rbac`](Self::rbac) binds to the operator's own account. A role without a rule is left
    /// out.
    pub fn grants(&self) -> Vec<RoleGrant> {
        grants(&self.operator, self.rules.set())
    }

    /// Returns the configurations of the webhooks, without the authority that the leader injects. There is none if the
    /// program has no defaulter and no validator.
    pub fn webhook_configurations(&self) -> Vec<Value> {
        webhooks::configurations(&self.operator)
    }

    /// Returns whether the API server calls the program: a defaulter, a validator, or a conversion.
    pub fn has_webhook_server(&self) -> bool {
        self.operator.has_webhook_server()
    }

    /// Returns the definitions of the program's kinds, in `config/crd`. There is no file if the program has none.
    pub fn crds(&self) -> Files {
        crds::files(&self.operator)
    }

    /// Returns the service account, its roles and their bindings, and roles for users, in `config/rbac`.
    ///
    /// The operator's own role grants what the declarations of the program imply, the rules that its controllers
    /// declare with `needs_rule`, and the rules of the files. Comments state the reasons of each rule.
    pub fn rbac(&self) -> Files {
        rbac::files(&self.operator, self.rules.set())
    }

    /// Returns the folder `config`, for `kubectl apply -k config/default`: the files of [`crds`](Self::crds) and
    /// [`rbac`](Self::rbac), the Deployment, the webhooks, and the optional parts `network-policy` and `prometheus`.
    pub fn kustomize(&self) -> Files {
        let mut files = self.crds();
        files.extend(self.rbac());
        files.extend(workload::files(&self.operator));
        files.extend(webhooks::files(&self.operator));
        files.extend(install::default_kustomization(&self.operator, &files));
        files
    }

    /// Returns `dist/install.yaml`: everything that `kubectl apply -f` needs in one file. The kinds of the Prometheus
    /// operator are not in it.
    pub fn install(&self) -> Files {
        install::files(&self.operator, &self.kustomize())
    }

    /// Returns a Helm chart in `dist/chart`. Its objects are those of [`install`](Self::install) without the namespace,
    /// with values for what users change. Names do not depend on the release, because the program looks for its Service
    /// by its own name: a cluster has one release.
    pub fn helm(&self) -> Files {
        helm::files(&self.operator, self.rules.set())
    }
}
