//! Machine: compares a stored role or binding with that of the bootstrap policy, and adds what the stored one lacks.
//!
//! Permissions and subjects that a user added stay. Kubernetes source: `component-helpers/auth/rbac/reconciliation`, as
//! `pkg/registry/rbac/rest` calls it.

use serde_json::Value;
use steersman_apimachinery::json::members;

use super::rule::{Rule, uncovered};

/// The annotation that, with the value `false`, protects a role or a binding from changes at a start.
const AUTO_UPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";

/// The change of a stored role or binding that a start makes.
#[derive(Debug, PartialEq, Eq)]
pub enum Reconciliation {
    /// No change: the object has everything that the policy demands, or its annotation protects it.
    Keep,
    /// The stored object is replaced by this object.
    Update(Value),
    /// The binding is deleted and created anew, because the role of a binding cannot change.
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

/// Adds the members of a map of texts that `holder` lacks.
fn add_members(holder: &mut Value, field: &str, wanted: &Value) {
    let wanted = wanted.as_object().into_iter().flatten();
    for (name, value) in wanted {
        let map = members(holder).entry(field).or_insert(Value::Null);
        let member = members(map).entry(name.clone());
        member.or_insert_with(|| value.clone());
    }
}

/// Adds the items of a list that `holder` lacks.
fn add_items(holder: &mut Value, field: &str, wanted: &Value) {
    let stored = holder[field].as_array();
    let wanted = wanted.as_array().into_iter().flatten();
    let absent = wanted.filter(|item| !stored.is_some_and(|stored| stored.contains(item)));
    let absent: Vec<Value> = absent.cloned().collect();
    extend(holder, field, absent);
}

/// Adds the permissions of the policy that no rule of the role covers, each as a rule.
fn add_rules(role: &mut Value, policy: &Value) {
    if role["rules"] == policy["rules"] {
        return;
    }
    let held: Vec<Rule<'_>> = Rule::all(role).collect();
    let wanted: Vec<Rule<'_>> = Rule::all(policy).collect();
    let absent = uncovered(&held, &wanted);
    let absent = absent.iter().map(Rule::to_value).collect();
    extend(role, "rules", absent);
}

/// Adds the selectors of aggregated roles that a role lacks; removes all if the policy's role has no aggregation rule.
fn add_selectors(role: &mut Value, policy: &Value) {
    let Some(rule) = policy.get("aggregationRule") else {
        members(role).remove("aggregationRule");
        return;
    };
    let mut own = role["aggregationRule"].take();
    members(&mut own);
    let field = "clusterRoleSelectors";
    add_items(&mut own, field, &rule[field]);
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

    /// AUTH-11: the annotation protects a role.
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
        // The role of the policy has no aggregation rule, so the stored role loses its selectors.
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
