//! Machine: authorizes requests by the roles and bindings in the store.

use serde_json::Value;
use steersman_apimachinery::status::{GroupResource, Status};
use steersman_schema::resource::StorageKey;
use steersman_store::{Store, Stored};

use super::attributes::{Attributes, Authorization};
use super::rule::Rule;
use super::user::{MASTERS, SERVICE_ACCOUNT_PREFIX, User};

pub(super) const GROUP: &str = "rbac.authorization.k8s.io";

/// The decision of an authorizer about a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Decision {
    /// Whether the user may carry out the request.
    pub allowed: bool,
    /// The binding that allows the request, or the problems of bindings that might allow the request; often empty.
    pub reason: String,
}

/// Decides whether users may carry out requests.
#[derive(Debug, Clone, Copy)]
pub struct Authorizer<'a> {
    mode: Authorization,
    store: &'a Store,
    /// Whether the message about a missing role has the plural of its kind. The cache of upstream's authorizer uses the
    /// singular, and the storage of roles the plural.
    plural: bool,
}

/// A binding of a user, with the subject in it that names the user.
struct Grant<'a> {
    binding: &'a Stored,
    subject: &'a Value,
}

impl<'a> Authorizer<'a> {
    /// Returns an authorizer that reads roles and bindings from a store.
    pub fn new(mode: Authorization, store: &'a Store) -> Self {
        Self {
            mode,
            store,
            plural: false,
        }
    }

    /// Returns this authorizer with the messages of upstream's storages of roles and bindings.
    #[must_use]
    pub fn of_storage(self) -> Self {
        Self {
            plural: true,
            ..self
        }
    }

    /// Decides whether a user may carry out a request.
    pub fn authorize(&self, user: &User, asked: &Attributes) -> Decision {
        if self.mode == Authorization::AlwaysAllow || user.is_in(MASTERS) {
            let (allowed, reason) = (true, String::new());
            return Decision { allowed, reason };
        }
        let mut problems: Vec<String> = Vec::new();
        for grant in self.grants(user, &asked.namespace) {
            match self.role_of(&grant) {
                Err(problem) => problems.push(problem),
                Ok(role) if Rule::all(role.lean()).any(|rule| rule.allows(asked)) => {
                    let (allowed, reason) = (true, grant.describe());
                    return Decision { allowed, reason };
                }
                Ok(_) => {}
            }
        }
        let reason = aggregate(problems).map(|all| format!("RBAC: {all}"));
        let (allowed, reason) = (false, reason.unwrap_or_default());
        Decision { allowed, reason }
    }

    /// Returns every rule for a user in a namespace, or with an empty namespace in the whole cluster, and the problems
    /// of bindings with missing roles.
    pub fn rules_for(&self, user: &User, namespace: &str) -> (Vec<Rule<'a>>, Option<String>) {
        if self.mode == Authorization::AlwaysAllow {
            return (Rule::everything().to_vec(), None);
        }
        let (mut rules, mut problems) = (Vec::new(), Vec::new());
        for grant in self.grants(user, namespace) {
            match self.role_of(&grant) {
                Ok(role) => rules.extend(Rule::all(role.lean())),
                Err(problem) => problems.push(problem),
            }
        }
        (rules, aggregate(problems))
    }

    /// Returns the rules of the role that a `roleRef` names.
    ///
    /// # Errors
    /// 404 for a role that does not exist, 500 for an unknown kind.
    pub fn rules_of(&self, reference: &Value, namespace: &str) -> Result<Vec<Rule<'a>>, Status> {
        let role = self.of_storage().role(reference, namespace)?;
        Ok(Rule::all(role.lean()).collect())
    }

    /// Returns whether the mode allows everything to every user.
    pub fn allows_all(&self) -> bool {
        self.mode == Authorization::AlwaysAllow
    }

    /// Returns the bindings that name a user: those of the cluster, then those in the namespace.
    fn grants<'b>(&'b self, user: &User, namespace: &'b str) -> Vec<Grant<'b>> {
        let mut found = Vec::new();
        let mut look = |plural: &str, namespace: Option<&'b str>| {
            let storage = StorageKey::new(GROUP, plural);
            let within = namespace.unwrap_or_default();
            for binding in self.store.list(&storage, namespace) {
                let subjects = binding.lean()["subjects"].as_array();
                let mut subjects = subjects.into_iter().flatten();
                let subject = subjects.find(|subject| applies(subject, user, within));
                found.extend(subject.map(|subject| Grant { binding, subject }));
            }
        };
        look("clusterrolebindings", None);
        if !namespace.is_empty() {
            look("rolebindings", Some(namespace));
        }
        found
    }

    fn role_of(&self, grant: &Grant<'_>) -> Result<&'a Stored, String> {
        let role = self.role(&grant.binding.lean()["roleRef"], &grant.binding.namespace);
        role.map_err(|status| status.message)
    }

    /// Returns the role that the `roleRef` of a binding in a namespace names.
    fn role(&self, reference: &Value, namespace: &str) -> Result<&'a Stored, Status> {
        let (kind, name) = (text(reference, "kind"), text(reference, "name"));
        let (plural, namespace) = match kind {
            "Role" => ("roles", namespace),
            "ClusterRole" => ("clusterroles", ""),
            _ => {
                let why = format!("unsupported role reference kind: \"{kind}\"");
                return Err(Status::internal_plain(why));
            }
        };
        let storage = StorageKey::new(GROUP, plural);
        let singular = plural.trim_end_matches('s');
        let resource = if self.plural { plural } else { singular };
        let found = self.store.get(&storage, namespace, name).map(AsRef::as_ref);
        found.ok_or_else(|| Status::not_found(GroupResource::new(GROUP, resource), name))
    }
}

impl Grant<'_> {
    fn describe(&self) -> String {
        let binding = self.binding;
        let (kind, name) = if binding.namespace.is_empty() {
            ("ClusterRoleBinding", binding.name.to_string())
        } else {
            let name = format!("{}/{}", binding.name, binding.namespace);
            ("RoleBinding", name)
        };
        let reference = &binding.lean()["roleRef"];
        let mut subject = text(self.subject, "name").to_owned();
        let whom = text(self.subject, "kind");
        if whom == "ServiceAccount" {
            let own = Some(text(self.subject, "namespace")).filter(|own| !own.is_empty());
            subject = format!("{subject}/{}", own.unwrap_or(&binding.namespace));
        }
        format!(
            "RBAC: allowed by {kind} \"{name}\" of {} \"{}\" to {whom} \"{subject}\"",
            text(reference, "kind"),
            text(reference, "name"),
        )
    }
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

fn applies(subject: &Value, user: &User, namespace: &str) -> bool {
    let name = text(subject, "name");
    match text(subject, "kind") {
        "User" => user.name == name,
        "Group" => user.is_in(name),
        "ServiceAccount" => {
            let own = text(subject, "namespace");
            let namespace = if own.is_empty() { namespace } else { own };
            let rest = user.name.strip_prefix(SERVICE_ACCOUNT_PREFIX);
            !namespace.is_empty()
                && rest.and_then(|rest| rest.split_once(':')) == Some((namespace, name))
        }
        _ => false,
    }
}

fn aggregate(problems: Vec<String>) -> Option<String> {
    let mut all: Vec<String> = Vec::new();
    for problem in problems {
        if !all.contains(&problem) {
            all.push(problem);
        }
    }
    match all.as_slice() {
        [] => None,
        [one] => Some(one.clone()),
        several => Some(format!("[{}]", several.join(", "))),
    }
}

#[cfg(test)]
mod tests;
