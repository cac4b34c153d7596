//! Machine: checks that a write of a role or a binding grants no permission that the author of the write lacks.

use serde_json::Value;
use steersman_apimachinery::status::{GroupResource, Status};

use super::attributes::Attributes;
use super::rbac::{Authorizer, GROUP};
use super::rule::{Rule, missing, quoted};
use super::user::{MASTERS, User};

/// A write of a role or a binding, which may grant permissions.
#[derive(Debug, Clone, Copy)]
pub struct Escalation<'a> {
    /// The author of the write.
    pub user: &'a User,
    /// The plural name of the object's kind, for instance `roles`.
    pub plural: &'a str,
    /// The namespace of the object; empty for ClusterRoles and their bindings.
    pub namespace: &'a str,
    /// The name in the path of the request; empty for a create.
    pub path_name: &'a str,
    /// The object after the write.
    pub new: &'a Value,
    /// The object before the write.
    pub old: Option<&'a Value>,
}

impl Escalation<'_> {
    /// Checks a write (AUTH-3), as the `policybased` storages in upstream's `pkg/registry/rbac` do.
    ///
    /// # Errors
    /// 403 with the missing permissions; 404 if a binding names a role that does not exist.
    pub fn check(&self, authorizer: &Authorizer<'_>) -> Result<(), Status> {
        // A write without a user name is a write of the server itself.
        let free = self.user.name.is_empty() || self.user.is_in(MASTERS);
        if free || authorizer.allows_all() {
            return Ok(());
        }
        let binding = self.plural.ends_with("bindings");
        let verb = if binding { "bind" } else { "escalate" };
        if self.is_let(authorizer, verb) {
            return Ok(());
        }
        let is_kept = |old| changes_only_owners(self.new, old);
        if self.old.is_some_and(is_kept) {
            return Ok(());
        }
        if binding {
            let rules = authorizer.rules_of(&self.new["roleRef"], self.namespace)?;
            return self.holds(authorizer, &rules);
        }
        let rules: Vec<Rule<'_>> = Rule::all(self.new).collect();
        self.holds(authorizer, &rules)?;
        let aggregates = |role: &Value| !role["aggregationRule"].is_null();
        // A role with an aggregation rule may get any rule later, so its author needs every permission.
        if aggregates(self.new) || self.old.is_some_and(aggregates) {
            let (held, _) = authorizer.of_storage().rules_for(self.user, self.namespace);
            if !missing(&held, &Rule::everything()).is_empty() {
                let why = "must have cluster-admin privileges to use the aggregationRule";
                return Err(self.forbidden(why));
            }
        }
        Ok(())
    }

    /// Returns whether a special verb, `escalate` or `bind`, allows a write that grants missing permissions.
    fn is_let(&self, authorizer: &Authorizer<'_>, verb: &str) -> bool {
        let asked = if verb == "bind" {
            let reference = &self.new["roleRef"];
            let text = |field: &str| reference[field].as_str().unwrap_or_default();
            let plural = match text("kind") {
                "Role" => "roles",
                "ClusterRole" => "clusterroles",
                _ => return false,
            };
            // An absent API group in a `roleRef` means the group of RBAC.
            let group = match text("apiGroup") {
                "" => GROUP,
                group => group,
            };
            Attributes::of(verb, group, plural, text("name"))
        } else {
            Attributes::of(verb, GROUP, self.plural, self.path_name)
        };
        let asked = asked.within(self.namespace);
        authorizer.authorize(self.user, &asked).allowed
    }

    fn holds(&self, authorizer: &Authorizer<'_>, rules: &[Rule<'_>]) -> Result<(), Status> {
        let (held, problems) = authorizer.of_storage().rules_for(self.user, self.namespace);
        let missing = missing(&held, rules);
        if missing.is_empty() {
            return Ok(());
        }
        let mut why = format!(
            "user {} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
            Value::from(self.user.name.as_str()),
            quoted(&self.user.groups),
            missing.join("\n")
        );
        if let Some(problems) = problems {
            why.push_str(&format!("; resolution errors: [{problems}]"));
        }
        Err(self.forbidden(&why))
    }

    fn forbidden(&self, why: &str) -> Status {
        let name = self.new["metadata"]["name"].as_str().unwrap_or_default();
        Status::forbidden(GroupResource::new(GROUP, self.plural), name, why)
    }
}

/// Returns whether a write changes only the fields that the garbage collector changes.
fn changes_only_owners(new: &Value, old: &Value) -> bool {
    let bare = |object: &Value| {
        let mut object = object.clone();
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            for field in ["ownerReferences", "finalizers", "managedFields"] {
                metadata.remove(field);
            }
        }
        object
    };
    bare(new) == bare(old)
}
