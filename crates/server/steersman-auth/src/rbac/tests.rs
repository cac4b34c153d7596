//! Machine: tests of authorization by roles and bindings.

use serde_json::json;

use super::*;

fn store(objects: &[(&str, &str, &str, Value)]) -> Store {
    let mut store = Store::new(100, 1 << 20);
    for (plural, namespace, name, value) in objects {
        let storage = StorageKey::new(GROUP, plural);
        store.put(&storage, namespace, name, value.clone());
    }
    store
}

fn rules(verb: &str, resource: &str) -> Value {
    json!({"rules": [{"verbs": [verb], "apiGroups": [""], "resources": [resource]}]})
}

fn binding(kind: &str, role: &str, subject: &Value) -> Value {
    json!({"roleRef": {"kind": kind, "name": role}, "subjects": [subject]})
}

fn decide(store: &Store, user: &User, verb: &str, resource: &str, namespace: &str) -> Decision {
    let asked = Attributes::of(verb, "", resource, "").within(namespace);
    Authorizer::new(Authorization::Rbac, store).authorize(user, &asked)
}

#[test]
fn a_role_applies_in_its_namespace_and_a_cluster_role_where_it_is_bound() {
    let ann = json!({"kind": "User", "name": "ann"});
    let store = store(&[
        ("roles", "a", "r", rules("get", "pods")),
        ("clusterroles", "", "c", rules("get", "nodes")),
        ("rolebindings", "a", "b", binding("Role", "r", &ann)),
        ("rolebindings", "a", "b2", binding("ClusterRole", "c", &ann)),
    ]);
    let ann = User::new("ann");
    assert_eq!(
        decide(&store, &ann, "get", "pods", "a").reason,
        "RBAC: allowed by RoleBinding \"b/a\" of Role \"r\" to User \"ann\""
    );
    assert!(decide(&store, &ann, "get", "nodes", "a").allowed);
    for (resource, namespace) in [("pods", "b"), ("pods", ""), ("nodes", "")] {
        let decision = decide(&store, &ann, "get", resource, namespace);
        assert_eq!(decision, Decision::default(), "{resource} {namespace}");
    }
}

#[test]
fn a_service_account_without_a_namespace_is_one_of_the_bindings_namespace() {
    let bot = json!({"kind": "ServiceAccount", "name": "bot"});
    let store = store(&[
        ("clusterroles", "", "c", rules("get", "pods")),
        (
            "clusterrolebindings",
            "",
            "all",
            binding("ClusterRole", "c", &bot),
        ),
        ("rolebindings", "a", "b", binding("ClusterRole", "c", &bot)),
    ]);
    let own = User::service_account("a", "bot");
    assert_eq!(
        decide(&store, &own, "get", "pods", "a").reason,
        "RBAC: allowed by RoleBinding \"b/a\" of ClusterRole \"c\" to ServiceAccount \"bot/a\""
    );
    // The subject has no namespace, and a ClusterRoleBinding has none to complete it with.
    assert!(!decide(&store, &own, "get", "pods", "").allowed);
    let other = User::service_account("b", "bot");
    assert!(!decide(&store, &other, "get", "pods", "a").allowed);
}

#[test]
fn a_missing_role_is_reported_and_does_not_affect_other_roles() {
    let team = json!({"kind": "Group", "name": "team"});
    let mut objects = vec![
        ("rolebindings", "a", "b1", binding("Role", "gone", &team)),
        ("rolebindings", "a", "b2", binding("Role", "gone", &team)),
        ("rolebindings", "a", "b3", binding("Odd", "x", &team)),
    ];
    let ann = User::new("ann").group("team");
    let refused = decide(&store(&objects), &ann, "get", "pods", "a");
    assert!(!refused.allowed);
    assert_eq!(
        refused.reason,
        "RBAC: [role.rbac.authorization.k8s.io \"gone\" not found, unsupported role reference kind: \"Odd\"]"
    );
    objects.push(("roles", "a", "r", rules("*", "pods")));
    objects.push(("rolebindings", "a", "b4", binding("Role", "r", &team)));
    assert!(decide(&store(&objects), &ann, "get", "pods", "a").allowed);
}

#[test]
fn masters_and_always_allow_pass_without_a_reason() {
    let nothing = store(&[]);
    let admin = User::admin();
    let allowed = decide(&nothing, &admin, "escape", "*", "");
    assert!(allowed.allowed && allowed.reason.is_empty());
    let open = Authorizer::new(Authorization::AlwaysAllow, &nothing);
    let asked = Attributes::of("get", "", "pods", "");
    assert!(open.authorize(&User::anonymous(), &asked).allowed);
    assert_eq!(open.rules_for(&User::anonymous(), "a").0.len(), 2);
}
