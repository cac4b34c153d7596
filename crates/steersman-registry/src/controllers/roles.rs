//! Machine: roles and bindings: the check against privilege escalation, and the aggregation of
//! ClusterRoles.

use std::sync::Arc;

use serde_json::Value;
use steersman_text::status::Status;

use crate::auth::{Escalation, User, aggregated};
use crate::requests::options::Target;
use crate::state::registry::{Registry, cluster_roles};
use crate::store::Stored;

/// Maximum number of rounds of aggregation: more than any sensible chain of aggregating roles
/// needs.
const ROUNDS: usize = 16;

/// The API group of roles and bindings.
const GROUP: &str = "rbac.authorization.k8s.io";

impl Registry {
    /// Refuses a role or a binding by which its author would grant permissions it lacks (AUTH-3).
    pub(crate) fn refuse_escalation(
        &self,
        target: Target<'_>,
        user: &User,
        new: &Value,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        if !target.resource.built_in || target.resource.group != GROUP {
            return Ok(());
        }
        let write = Escalation {
            user,
            plural: &target.resource.plural,
            namespace: target.scope(),
            path_name: target.name,
            new,
            old,
        };
        write.check(&self.authorizer())
    }

    /// Updates the rules of every ClusterRole with an aggregation rule. Does nothing if this
    /// controller is not played.
    pub(crate) fn aggregate_roles(&mut self) {
        if !self.options.gather_roles {
            return;
        }
        let storage = cluster_roles();
        for _ in 0..ROUNDS {
            let all: Vec<Arc<Stored>> = self.store.list(&storage, None).cloned().collect();
            let others: Vec<&Value> = all.iter().map(|other| &*other.value).collect();
            let mut changed = false;
            for role in &all {
                let Some(rules) = aggregated(&role.value, &others) else {
                    continue;
                };
                let kept = role.value["rules"].as_array();
                if *kept.unwrap_or(&Vec::new()) == rules {
                    continue;
                }
                let mut value = (*role.value).clone();
                value["rules"] = Value::from(rules);
                self.put(&storage, "", &role.name, value);
                changed = true;
            }
            if !changed {
                return;
            }
        }
    }
}
