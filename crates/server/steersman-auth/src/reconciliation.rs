//! Machine: compares a stored role or binding with the one of the bootstrap policy, and adds what is missing.
//!
//! Kubernetes source: `component-helpers/auth/rbac/reconciliation`, as `pkg/registry/rbac/rest` calls
//! it: permissions and subjects that a user added stay.

use serde_json::{Map, Value};
use steersman_apimachinery::json::members;

use super::rule::{Rule, uncovered};

/// The annotation with which a user keeps a role or a binding as it is.
const AUTO_UPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";

/// What to do about a stored role or binding.
#[derive(Debug, PartialEq, Eq)]
pub enum Reconciliation {
    /// Leave the object: it has everything that the policy demands, or its annotation protects it.
    Keep,
    /// Store this object instead.
    Update(Value),
    /// Delete the binding and create the one of the policy, because a binding cannot change its role.
    Replace,
}

/// Compares a stored role or binding with the one of the bootstrap policy (AUTH-11).
pub fn reconcile(stored: &Value, policy: &Value) -> Reconciliation {
    if stored["metadata"]["annotations"][AUTO_UPDATE] == "false" {
        return Reconciliation::Keep;
    }
    if stored["roleRef"] != policy["roleRef"] {
        return Reconciliation::Replace;
    }
    let mut new = stored.clone();
    for field in ["labels", "annotations"] {
        add_members(&mut new["metadata"], field, &policy["metadata"][field]);
    }
    if policy.get("roleRef").is_some() {
        add_items(&mut new, "subjects", &policy["subjects"]);
    } else {
        add_rules(&mut new, policy);
        add_selectors(&mut new, policy);
    }
    if new == *stored {
        Reconciliation::Keep
    } else {
        Reconciliation::Update(new)
    }
}

/// Adds the absent members of a map of texts.
fn add_members(holder: &mut Value, field: &str, wanted: &Value) {
    let wanted = wanted.as_object().into_iter().flatten();
    for (name, value) in wanted {
        let map = members(holder)
            .entry(field)
            .or_insert_with(|| Value::Object(Map::new()));
        members(map)
            .entry(name.clone())
            .or_insert_with(|| value.clone());
    }
}

/// Adds the absent items of a list.
fn add_items(holder: &mut Value, field: &str, wanted: &Value) {
    let stored = holder[field].as_array();
    let wanted = wanted.as_array().into_iter().flatten();
    let absent: Vec<Value> = wanted
        .filter(|item| !stored.is_some_and(|stored| stored.contains(item)))
        .cloned()
        .collect();
    extend(holder, field, absent);
}

/// Adds the permissions that no rule of the role covers, each as a rule of its own.
fn add_rules(role: &mut Value, policy: &Value) {
    if role["rules"] == policy["rules"] {
        return;
    }
    let held: Vec<Rule<'_>> = Rule::all(role).collect();
    let wanted: Vec<Rule<'_>> = Rule::all(policy).collect();
    let absent = uncovered(&held, &wanted)
        .iter()
        .map(Rule::to_value)
        .collect();
    extend(role, "rules", absent);
}

/// Adds the absent selectors of the roles to aggregate, and removes those of a role that aggregates
/// none.
fn add_selectors(role: &mut Value, policy: &Value) {
    let Some(rule) = policy.get("aggregationRule") else {
        members(role).remove("aggregationRule");
        return;
    };
    let mut own = role["aggregationRule"].take();
    members(&mut own);
    add_items(
        &mut own,
        "clusterRoleSelectors",
        &rule["clusterRoleSelectors"],
    );
    role["aggregationRule"] = own;
}

fn extend(holder: &mut Value, field: &str, absent: Vec<Value>) {
    if absent.is_empty() {
        return;
    }
    let list = members(holder).entry(field).or_insert(Value::Null);
    match list {
        Value::Array(list) => list.extend(absent),
        _ => *list = Value::Array(absent),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn role(rules: &Value) -> Value {
        json!({"metadata": {"name": "a", "annotations": {AUTO_UPDATE: "true"}}, "rules": rules})
    }

    fn update(stored: &Value, policy: &Value) -> Value {
        match reconcile(stored, policy) {
            Reconciliation::Update(new) => new,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn absent_permissions_are_added_one_by_one_and_others_stay() {
        let policy = role(&json!([
            {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]},
            {"verbs": ["get"], "nonResourceURLs": ["/metrics"]},
        ]));
        let own = json!({"verbs": ["get", "delete"], "apiGroups": ["*"], "resources": ["pods"]});
        let new = update(&role(&json!([own])), &policy);
        assert_eq!(
            new["rules"],
            json!([
                own,
                {"verbs": ["list"], "apiGroups": [""], "resources": ["pods"]},
                {"verbs": ["get"], "nonResourceURLs": ["/metrics"]},
            ])
        );
        assert_eq!(reconcile(&new, &policy), Reconciliation::Keep);
        let none = update(&role(&Value::Null), &policy);
        assert_eq!(none["rules"].as_array().unwrap().len(), 3);
    }

    /// AUTH-11
    #[test]
    fn a_role_with_the_annotation_false_stays_as_it_is() {
        let policy = role(&json!([{"verbs": ["*"], "nonResourceURLs": ["*"]}]));
        let mut stored = role(&json!([]));
        stored["metadata"]["annotations"][AUTO_UPDATE] = json!("false");
        assert_eq!(reconcile(&stored, &policy), Reconciliation::Keep);
        stored["metadata"]["annotations"][AUTO_UPDATE] = json!("maybe");
        let new = update(&stored, &policy);
        assert_eq!(new["metadata"], stored["metadata"], "values of a user stay");
        stored["metadata"] = json!({"name": "a", "labels": {"own": "x"}});
        let new = update(&stored, &policy);
        assert_eq!(new["metadata"]["annotations"][AUTO_UPDATE], "true");
        assert_eq!(new["metadata"]["labels"], json!({"own": "x"}));
    }

    #[test]
    fn selectors_of_aggregated_roles_are_kept_and_completed() {
        let selects = |label: &str| json!({"matchLabels": {label: "true"}});
        let mut policy = role(&Value::Null);
        policy["aggregationRule"] = json!({"clusterRoleSelectors": [selects("default")]});
        let mut stored = role(&json!([{"verbs": ["get"], "nonResourceURLs": ["/gathered"]}]));
        stored["aggregationRule"] = json!({"clusterRoleSelectors": [selects("own")]});
        let new = update(&stored, &policy);
        assert_eq!(
            new["aggregationRule"]["clusterRoleSelectors"],
            json!([selects("own"), selects("default")])
        );
        assert_eq!(new["rules"], stored["rules"]);
        assert_eq!(reconcile(&new, &policy), Reconciliation::Keep);
        // A role of the policy that aggregates none loses the selectors.
        let plain = role(&json!([{"verbs": ["get"], "nonResourceURLs": ["/gathered"]}]));
        assert!(update(&stored, &plain).get("aggregationRule").is_none());
    }

    #[test]
    fn absent_subjects_are_added_and_another_role_replaces_the_binding() {
        let subject = |name: &str| json!({"kind": "User", "name": name});
        let policy = json!({"metadata": {"name": "a"}, "roleRef": {"name": "a"},
            "subjects": [subject("default")]});
        let mut stored = policy.clone();
        stored["subjects"] = json!([subject("own")]);
        let new = update(&stored, &policy);
        assert_eq!(new["subjects"], json!([subject("own"), subject("default")]));
        stored["roleRef"]["name"] = json!("b");
        assert_eq!(reconcile(&stored, &policy), Reconciliation::Replace);
    }
}
