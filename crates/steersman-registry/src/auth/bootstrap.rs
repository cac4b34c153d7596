//! Machine: the default ClusterRoles and bindings of a server with RBAC.

use serde_json::{Map, Value, json};
use steersman_kinds::selects;

use super::rbac::GROUP;

/// One object per line; the head of the file explains the format.
const TABLE: &str = include_str!("bootstrap.txt");

/// Returns the objects and their plural names, without the fields that the server sets on creation.
pub fn objects() -> Vec<(&'static str, Value)> {
    let mut all: Vec<(&'static str, Value)> = Vec::new();
    for line in TABLE.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split_whitespace();
        if line.starts_with(' ') {
            if let Some((_, role)) = all.last_mut()
                && let Some(rules) = role["rules"].as_array_mut()
            {
                rules.push(rule(words));
            }
            continue;
        }
        let (word, name) = (words.next().unwrap_or_default(), words.next());
        let name = name.unwrap_or_default();
        all.push(if word == "bind" {
            ("clusterrolebindings", binding(name, words))
        } else {
            ("clusterroles", role(name, words))
        });
    }
    all
}

fn metadata(name: &str) -> Value {
    json!({
        "name": name,
        "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
        "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
    })
}

fn role<'a>(name: &str, words: impl Iterator<Item = &'a str>) -> Value {
    let mut role = json!({
        "kind": "ClusterRole",
        "apiVersion": format!("{GROUP}/v1"),
        "metadata": metadata(name),
        "rules": [],
    });
    for word in words {
        let (what, which) = word.split_once('=').unwrap_or_default();
        let label = format!("{GROUP}/aggregate-to-{which}");
        if what == "into" {
            role["metadata"]["labels"][label] = json!("true");
        } else {
            let mut labels = Map::new();
            labels.insert(label, json!("true"));
            role["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": labels}]});
            role["rules"] = Value::Null;
        }
    }
    role
}

fn rule<'a>(mut words: impl Iterator<Item = &'a str>) -> Value {
    let mut list = || {
        let word = words.next()?;
        Some(word.split(',').map(str::to_owned).collect::<Vec<_>>())
    };
    let mut verbs = Vec::new();
    for verb in list().unwrap_or_default() {
        match verb.as_str() {
            "r" => verbs.extend(["get", "list", "watch"].map(str::to_owned)),
            "w" => verbs.extend(
                ["create", "delete", "deletecollection", "patch", "update"].map(str::to_owned),
            ),
            _ => verbs.push(verb),
        }
    }
    verbs.sort_unstable();
    let groups = list().unwrap_or_default();
    let resources = list().unwrap_or_default();
    if groups == ["url"] {
        return json!({"verbs": verbs, "nonResourceURLs": resources});
    }
    let groups: Vec<&str> = groups
        .iter()
        .map(|group| if group == "core" { "" } else { group })
        .collect();
    let mut rule = json!({"verbs": verbs, "apiGroups": groups, "resources": resources});
    if let Some(names) = list() {
        rule["resourceNames"] = json!(names);
    }
    rule
}

fn binding<'a>(name: &str, subjects: impl Iterator<Item = &'a str>) -> Value {
    let subjects: Vec<Value> = subjects
        .map(|subject| {
            let (kind, name) = subject.split_once(':').unwrap_or_default();
            match name.split_once(':').filter(|_| kind == "ServiceAccount") {
                Some((namespace, name)) => {
                    json!({"kind": kind, "name": name, "namespace": namespace})
                }
                None => json!({"kind": kind, "apiGroup": GROUP, "name": name}),
            }
        })
        .collect();
    let mut binding = json!({
        "kind": "ClusterRoleBinding",
        "apiVersion": format!("{GROUP}/v1"),
        "metadata": metadata(name),
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": name},
    });
    if !subjects.is_empty() {
        binding["subjects"] = Value::from(subjects);
    }
    binding
}

/// Collects the rules of a ClusterRole with an aggregation rule from all others, without
/// duplicates; `None` for a role without an aggregation rule (`clusterroleaggregation`).
pub fn aggregated(role: &Value, others: &[&Value]) -> Option<Vec<Value>> {
    let selectors = role["aggregationRule"]["clusterRoleSelectors"].as_array()?;
    let mut rules: Vec<Value> = Vec::new();
    for selector in selectors {
        let same = |other: &Value| other["metadata"]["name"] == role["metadata"]["name"];
        for other in others.iter().filter(|other| !same(other)) {
            if !selects(selector, &other["metadata"]["labels"]) {
                continue;
            }
            for rule in other["rules"].as_array().into_iter().flatten() {
                if !rules.contains(rule) {
                    rules.push(rule.clone());
                }
            }
        }
    }
    Some(rules)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_binding_has_its_role_and_every_rule_is_complete() {
        let all = objects();
        let roles: Vec<&Value> = all
            .iter()
            .filter(|(plural, _)| *plural == "clusterroles")
            .map(|(_, role)| role)
            .collect();
        for (plural, object) in &all {
            let name = &object["metadata"]["name"];
            if *plural == "clusterrolebindings" {
                assert!(
                    roles.iter().any(|role| role["metadata"]["name"] == *name),
                    "{name}"
                );
                continue;
            }
            let rules = object["rules"].as_array();
            assert!(
                rules.is_some_and(|rules| !rules.is_empty())
                    != object.get("aggregationRule").is_some(),
                "{name} has either rules or gathers them"
            );
            for rule in rules.into_iter().flatten() {
                let whole = |field: &str| rule[field].as_array().is_some_and(|l| !l.is_empty());
                let paths = whole("nonResourceURLs");
                assert!(whole("verbs") && (paths || whole("apiGroups") && whole("resources")));
            }
        }
    }

    /// The rules that default features of Kubernetes 1.36 added later.
    #[test]
    fn default_roles_allow_the_requests_of_later_features() {
        let all = objects();
        let allows = |name: &str, verb: &str, member: &str, wanted: &str| {
            let roles = all.iter().map(|(_, object)| object);
            let mut rules = roles
                .filter(|role| role["metadata"]["name"] == name)
                .flat_map(|role| role["rules"].as_array().into_iter().flatten());
            let has = |list: &Value, wanted: &str| {
                let list = list.as_array().into_iter().flatten();
                list.into_iter().any(|one| one == wanted)
            };
            rules.any(|rule| has(&rule["verbs"], verb) && has(&rule[member], wanted))
        };
        let scheduler = "system:kube-scheduler";
        for (role, verb, resource) in [
            ("system:aggregate-to-edit", "create", "resourceclaims"),
            ("system:aggregate-to-view", "list", "resourceclaimtemplates"),
            (scheduler, "watch", "deviceclasses"),
            (scheduler, "update", "resourceclaims"),
            (scheduler, "create", "resourceclaims"),
            (scheduler, "patch", "resourceclaims/status"),
            (scheduler, "patch", "resourceclaims/binding"),
            (scheduler, "update", "pods/finalizers"),
            (scheduler, "list", "resourceslices"),
            (scheduler, "list", "volumeattachments"),
            ("system:node", "get", "resourceclaims"),
            ("system:node", "deletecollection", "resourceslices"),
            ("system:node", "get", "serviceaccounts"),
            ("system:kubelet-api-admin", "*", "nodes/healthz"),
        ] {
            assert!(
                allows(role, verb, "resources", resource),
                "{role} {verb} {resource}"
            );
        }
        assert!(!allows(
            "system:node",
            "delete",
            "resources",
            "resourceclaims"
        ));
        for path in ["/statusz", "/flagz"] {
            assert!(allows("system:monitoring", "get", "nonResourceURLs", path));
        }
    }

    #[test]
    fn view_aggregates_the_roles_with_its_label_and_edit_aggregates_view() {
        let all = objects();
        let role = |name: &str| {
            let found = all.iter().find(|(plural, object)| {
                *plural == "clusterroles" && object["metadata"]["name"] == name
            });
            found.unwrap().1.clone()
        };
        let others: Vec<&Value> = all.iter().map(|(_, object)| object).collect();
        let view = aggregated(&role("view"), &others).unwrap();
        assert_eq!(
            Value::from(view.clone()),
            role("system:aggregate-to-view")["rules"]
        );
        let mut gathered = role("view");
        gathered["rules"] = Value::from(view);
        let (more, own) = (role("system:aggregate-to-edit"), role("edit"));
        let others = [&more, &gathered, &own];
        let edit = aggregated(&role("edit"), &others).unwrap();
        assert!(edit.len() > 20);
        assert_eq!(aggregated(&role("cluster-admin"), &others), None);
    }
}
