//! Machine: rules about roles and bindings: refuses privilege escalation, and aggregates the rules of ClusterRoles.

use std::sync::Arc;

use serde_json::Value;
use steersman_apimachinery::status::Status;
use steersman_auth::{Escalation, User};
use steersman_builtins::selects;
use steersman_store::Stored;

use crate::requests::options::ObjectTarget;
use crate::state::registry::{Registry, cluster_roles};
use crate::values::items;

/// Maximum number of passes over all ClusterRoles. If aggregated roles aggregate others, each pass copies rules one
/// step further along this chain; the limit ends the passes for roles that aggregate each other.
const ROUNDS: usize = 16;

const GROUP: &str = "rbac.authorization.k8s.io";

impl Registry {
    /// Refuses with 403 a role or binding that would grant permissions which the user that writes it lacks (AUTH-3).
    pub(crate) fn refuse_escalation(
        &self,
        target: ObjectTarget<'_>,
        user: &User,
        new: &Value,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        if !target.resource.built_in || target.resource.group != GROUP {
            return Ok(());
        }
        Escalation {
            user,
            plural: &target.resource.plural,
            namespace: target.scope(),
            path_name: target.name,
            new,
            old,
        }
        .check(&self.authorizer())
    }

    /// Sets the rules of every ClusterRole with an `aggregationRule` to those of the ClusterRoles that it selects. Does
    /// nothing if the option `gather_roles` is off.
    pub(crate) fn aggregate_roles(&mut self) {
        if !self.options.gather_roles {
            return;
        }
        let storage = cluster_roles();
        for _ in 0..ROUNDS {
            let all: Vec<Arc<Stored>> = self.store.list(&storage, None).cloned().collect();
            let labels: Vec<Value> = all.iter().map(|role| labels_of(role)).collect();
            let mut changed = false;
            for role in all.iter().filter(|role| may_aggregate(role)) {
                let stored = role.look();
                let Some(rules) = aggregated((role, &stored), &all, &labels) else {
                    continue;
                };
                if items(&stored["rules"]) == rules {
                    continue;
                }
                let mut draft = role.draft();
                draft.value["rules"] = Value::from(rules);
                self.put(&storage, "", &role.name, draft);
                changed = true;
            }
            if !changed {
                return;
            }
        }
    }
}

/// Returns false only if a ClusterRole has no `aggregationRule`. Searches the bytes of the role and does not decode it,
/// because nearly all roles lack this field.
fn may_aggregate(role: &Stored) -> bool {
    if !role.is_serialised() {
        return role.lean().get("aggregationRule").is_some();
    }
    let text = std::str::from_utf8(role.bytes());
    text.is_ok_and(|text| text.contains("\"aggregationRule\":"))
}

/// Returns the rules of all ClusterRoles that the `aggregationRule` of `role` selects, without duplicates; `None` if
/// `role` has no `aggregationRule` (upstream: `clusterroleaggregation`).
fn aggregated(
    (role, value): (&Stored, &Value),
    all: &[Arc<Stored>],
    labels: &[Value],
) -> Option<Vec<Value>> {
    let selectors = value["aggregationRule"]["clusterRoleSelectors"].as_array()?;
    let mut rules: Vec<Value> = Vec::new();
    for selector in selectors {
        let others = all.iter().zip(labels);
        for (other, labels) in others.filter(|(other, _)| other.name != role.name) {
            if !selects(selector, labels) {
                continue;
            }
            for rule in items(&other.look()["rules"]) {
                if !rules.contains(rule) {
                    rules.push(rule.clone());
                }
            }
        }
    }
    Some(rules)
}

fn labels_of(role: &Stored) -> Value {
    let labels = role.labels();
    labels
        .map(|(key, value)| (key.to_owned(), Value::from(value)))
        .collect()
}
