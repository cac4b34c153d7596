//! Machine: roles and bindings: the check against privilege escalation, and the aggregation of ClusterRoles.

use std::sync::Arc;

use serde_json::Value;
use steersman_apimachinery::status::Status;
use steersman_auth::{Escalation, User};
use steersman_builtins::selects;
use steersman_store::Stored;

use crate::requests::options::ObjectTarget;
use crate::state::registry::{Registry, cluster_roles};
use crate::values::items;

/// Maximum number of rounds of aggregation, more than the length of any sensible chain of aggregating ClusterRoles.
const ROUNDS: usize = 16;

const GROUP: &str = "rbac.authorization.k8s.io";

impl Registry {
    /// Refuses a role or a binding by which its author would grant permissions that the author lacks (AUTH-3).
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

    /// Updates the rules of every ClusterRole with an aggregation rule, unless the aggregation controller is off.
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

/// Returns whether a ClusterRole may have an aggregation rule, without decoding the role: nearly all roles have none.
fn may_aggregate(role: &Stored) -> bool {
    if !role.is_serialised() {
        return role.lean().get("aggregationRule").is_some();
    }
    let text = std::str::from_utf8(role.bytes());
    text.is_ok_and(|text| text.contains("\"aggregationRule\":"))
}

/// Collects the rules of the ClusterRoles that an aggregation rule selects, without duplicates; `None` for a role
/// without an aggregation rule (upstream: `clusterroleaggregation`).
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
    let own = |(key, value): (&str, &str)| (key.to_owned(), Value::from(value));
    role.labels().map(own).collect()
}
