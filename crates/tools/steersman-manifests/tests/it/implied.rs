//! Tests the rules that the declarations of an operator imply, and their comments.

use serde_json::{Value, json};
use steersman_description::Description;
use steersman_manifests::{Manifests, Options, RuleList, RuleOrigin, RuleTarget};

use crate::examples::everything;

fn manifests(description: &Description, rules: &RuleList, options: &Options) -> Manifests {
    Manifests::new(description, rules, options).unwrap()
}

/// Returns the verbs of the operator's ClusterRole on a resource, each with its origin.
fn verbs(manifests: &Manifests, wanted: &str) -> Vec<(String, RuleOrigin)> {
    let grants = manifests.grants();
    let of_work = grants.iter().find(|grant| grant.namespace.is_none());
    let permissions = of_work.unwrap().permissions().into_iter();
    let on_it = permissions.filter(|permission| {
        matches!(&permission.target, RuleTarget::Resource { resource, .. } if resource == wanted)
    });
    on_it
        .map(|permission| (permission.verb.clone(), permission.reasons[0].origin))
        .collect()
}

fn described(controller: &Value) -> Description {
    let mut description = everything();
    description.controllers = vec![serde_json::from_value(controller.clone()).unwrap()];
    description
}

fn kind(group: &str, kind: &str, plural: &str, namespaced: bool) -> Value {
    json!({"group": group, "version": "v1", "kind": kind, "plural": plural, "namespaced": namespaced})
}

#[test]
fn a_declaration_implies_its_rules_without_a_test() {
    let manifests = manifests(&everything(), &RuleList::default(), &Options::default());
    let implied = |verbs: &[&str]| -> Vec<(String, RuleOrigin)> {
        let verbs = verbs.iter();
        verbs
            .map(|&verb| (verb.to_owned(), RuleOrigin::Implied))
            .collect()
    };
    for (resource, expected) in [
        (
            "deployments",
            &["get", "list", "watch", "create", "patch", "delete"][..],
        ),
        ("websites", &["get", "list", "watch", "patch"]),
        ("websites/status", &["update", "patch"]),
        ("websites/finalizers", &["update"]),
        ("nodes", &["get", "list", "watch"]),
        ("events", &["create", "patch"]),
    ] {
        assert_eq!(verbs(&manifests, resource), implied(expected), "{resource}");
    }
    let declared = [("create".to_owned(), RuleOrigin::Declared)];
    assert_eq!(verbs(&manifests, "pods/eviction"), declared);
}

#[test]
fn a_verb_counts_as_observed_only_if_nothing_else_grants_it() {
    let text =
        "rules:\n- apiGroups: [apps]\n  resources: [deployments]\n  verbs: [patch, update]\n";
    let mut rules = RuleList::parse("rbac.observed.yaml", text).unwrap();
    let text = "rules:\n- apiGroups: [\"\"]\n  resources: [users]\n  verbs: [impersonate]\n";
    rules.merge(&RuleList::parse("rbac.extra.yaml", text).unwrap());
    let manifests = manifests(&everything(), &rules, &Options::default());
    let verbs_of = |resource| verbs(&manifests, resource);
    let observed = verbs_of("deployments").into_iter();
    let observed: Vec<_> = observed
        .filter(|(_, origin)| *origin == RuleOrigin::Observed)
        .collect();
    assert_eq!(observed, [("update".to_owned(), RuleOrigin::Observed)]);
    assert_eq!(
        verbs_of("users"),
        [("impersonate".to_owned(), RuleOrigin::ByHand)]
    );
    let role = &manifests.rbac()["config/rbac/role.yaml"];
    for text in [
        "# implied: the controller website owns them (get, list, watch, create, patch, delete)\n\
         # observed: the tests saw the requests (update)\n- apiGroups: [apps]\n",
        "# by hand: rbac.extra.yaml\n- apiGroups: [\"\"]\n  resources: [users]\n",
        // A reason with line breaks becomes a single comment line.
        "# declared: the controller website evicts Pods of websites that move\n- apiGroups: [\"\"]\n",
    ] {
        assert!(role.contains(text), "{text}\n{role}");
    }
}

#[test]
fn owner_references_to_a_kind_of_another_program_need_its_finalizers() {
    let deployment = kind("apps", "Deployment", "deployments", true);
    let config_map = kind("", "ConfigMap", "configmaps", true);
    let mut controller =
        json!({"name": "deployment", "primary": deployment, "watched": [deployment]});
    let without = described(&controller);
    let rules = RuleList::default();
    let of = |description: &Description| {
        let manifests = manifests(description, &rules, &Options::default());
        verbs(&manifests, "deployments/finalizers")
    };
    assert_eq!(of(&without), []);
    controller["owned"] = json!([config_map]);
    assert_eq!(
        of(&described(&controller)),
        [("update".to_owned(), RuleOrigin::Implied)]
    );
}

#[test]
fn events_about_objects_without_a_namespace_have_a_role_in_the_default_namespace() {
    let grants_in = |is_namespaced: bool, namespaces: &[&str]| {
        let node = kind("", "Node", "nodes", is_namespaced);
        let description = described(&json!({"name": "node", "primary": node, "watched": [node]}));
        let options = Options {
            namespaces: namespaces.iter().map(|&name| name.to_owned()).collect(),
            ..Options::default()
        };
        let manifests = manifests(&description, &RuleList::default(), &options);
        let grants = manifests.grants().into_iter();
        let mut grants = grants.filter(|grant| grant.namespace.as_deref() == Some("default"));
        grants.next().map(|grant| grant.rules())
    };
    let rules = grants_in(false, &["web"]).unwrap();
    assert_eq!(rules.len(), 1, "{rules:?}");
    assert_eq!(rules[0].resources, ["events"]);
    assert_eq!(rules[0].verbs, ["create", "patch"]);
    // The role in a watched namespace includes the rule for Events there.
    assert!(grants_in(false, &["default"]).unwrap().len() > 1);
    assert_eq!(grants_in(true, &["web"]), None);
    assert_eq!(grants_in(false, &[]), None);
}

#[test]
fn the_roles_for_users_have_the_scale_of_kinds_that_have_it() {
    let role = |description: &Description, user: &str| {
        let manifests = manifests(description, &RuleList::default(), &Options::default());
        let text = manifests.rbac()[&format!("config/rbac/website_{user}_role.yaml")].clone();
        serde_saphyr::from_str::<Value>(&text).unwrap()["rules"].clone()
    };
    let verbs_on = |rules: &Value, resource: &str| {
        let rules = rules.as_array().unwrap().iter();
        let mut rules = rules.filter(|rule| {
            let resources = rule["resources"].as_array().unwrap();
            resources.iter().any(|one| one == resource)
        });
        rules.next().map(|rule| rule["verbs"].clone())
    };
    let mut description = everything();
    for (user, verbs) in [
        ("admin", json!(["*"])),
        ("editor", json!(["get", "update", "patch"])),
        ("viewer", json!(["get"])),
    ] {
        let rules = role(&description, user);
        assert_eq!(verbs_on(&rules, "websites/scale"), Some(verbs), "{user}");
        assert_eq!(
            verbs_on(&rules, "websites/status"),
            Some(json!(["get"])),
            "{user}"
        );
    }
    for version in description.definitions[0]["spec"]["versions"]
        .as_array_mut()
        .unwrap()
    {
        version["subresources"] = json!({});
    }
    let rules = role(&description, "editor");
    assert_eq!(verbs_on(&rules, "websites/scale"), None);
    assert_eq!(verbs_on(&rules, "websites/status"), None);
}

// MANIFEST-4: an implied rule is limited to the namespaces of the cache.
#[test]
fn rules_that_name_no_namespace_stay_in_the_cluster_role() {
    let mut description = everything();
    description.limited_kinds = serde_json::from_value(json!([
        {"group": "apps", "plural": "deployments", "namespaces": ["shop", "web"]},
    ]))
    .unwrap();
    let text = "rules:\n- apiGroups: [apps]\n  resources: [deployments]\n  verbs: [list, update]\n";
    let mut rules = RuleList::parse("rbac.observed.yaml", text).unwrap();
    let text = "rules:\n- apiGroups: [apps]\n  resources: [deployments]\n  verbs: [get]\n";
    rules.merge(&RuleList::parse("rbac.extra.yaml", text).unwrap());
    let manifests = manifests(&description, &rules, &Options::default());
    // The cache needs two namespaces only, but the code may update and read the objects elsewhere.
    let expected = [
        ("get".to_owned(), RuleOrigin::ByHand),
        ("update".to_owned(), RuleOrigin::Observed),
    ];
    assert_eq!(verbs(&manifests, "deployments"), expected);
    let grants = manifests.grants();
    let places = grants
        .iter()
        .filter(|grant| grant.role == "website-operator");
    let places: Vec<_> = places.map(|grant| grant.namespace.as_deref()).collect();
    assert_eq!(places, [None, Some("shop"), Some("web")]);
}
