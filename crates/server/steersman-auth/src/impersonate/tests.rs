//! Machine: tests of impersonation.

use http::HeaderName;
use serde_json::{Value, json};
use steersman_schema::resource::StorageKey;
use steersman_store::Store;

use crate::Authorization;

use super::*;

fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        let name: HeaderName = name.parse().unwrap();
        headers.append(name, value.parse().unwrap());
    }
    headers
}

/// Creates a store with these rules for the user `ann` in the whole cluster.
fn store(rules: &Value) -> Store {
    let mut store = Store::new(100, 1 << 20);
    let group = "rbac.authorization.k8s.io";
    let role = json!({ "rules": rules });
    store.put(&StorageKey::new(group, "clusterroles"), "", "r", role);
    let binding = json!({
        "roleRef": {"kind": "ClusterRole", "name": "r"},
        "subjects": [{"kind": "User", "name": "ann"}],
    });
    let bindings = StorageKey::new(group, "clusterrolebindings");
    store.put(&bindings, "", "b", binding);
    store
}

fn rule(verbs: &[&str], group: &str, resources: &[&str]) -> Value {
    json!({"verbs": verbs, "apiGroups": [group], "resources": resources})
}

fn check(store: &Store, wanted: &User) -> Result<User, String> {
    let authorizer = Authorizer::new(Authorization::Rbac, store);
    let asked = Attributes::of("list", "", "pods", "").within("a");
    let requestor = User::new("ann").authenticated();
    Impersonations::default()
        .check(&authorizer, &requestor, wanted, &asked)
        .map_err(|status| status.message)
}

#[test]
fn impersonation_headers_need_a_user_name() {
    assert_eq!(wanted(&headers(&[("accept", "x")])).unwrap(), None);
    let user = wanted(&headers(&[
        ("Impersonate-User", "bob"),
        ("Impersonate-Group", "a"),
        ("Impersonate-Group", "b"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Extra-Acme.io%2Fteam", "blue"),
        ("Impersonate-Extra-Acme.io%2Fteam", "red"),
        ("Impersonate-Extra-odd%zz", "x"),
    ]));
    let expected = User::new("bob").group("a").group("b").uid("7");
    let expected = expected.extra("acme.io/team", "blue");
    let expected = expected.extra("acme.io/team", "red").extra("odd%zz", "x");
    assert_eq!(user.unwrap(), Some(expected));
    let refused = wanted(&headers(&[
        ("Impersonate-Group", "a"),
        ("Impersonate-Group", "b"),
        ("Impersonate-Extra-Team", "blue"),
    ]));
    assert_eq!(
        refused.unwrap_err().message,
        "requested &user.DefaultInfo{Name:\"\", UID:\"\", Groups:[]string{\"a\", \"b\"}, Extra:map[string][]string{\"team\":[]string{\"blue\"}}} without impersonating a user name"
    );
}

/// AUTH-4: the legacy mode checks the verb `impersonate` for each property.
#[test]
fn the_legacy_mode_checks_user_groups_uid_and_extra_values() {
    let store = store(&json!([
        rule(&["impersonate"], "", &["users", "groups"]),
        rule(&["impersonate"], GROUP, &["userextras/team"]),
    ]));
    let bob = User::new("bob").group("x");
    assert_eq!(check(&store, &bob).unwrap().groups, ["x", AUTHENTICATED]);
    assert!(check(&store, &bob.clone().extra("team", "blue")).is_ok());
    let denial = check(&store, &bob.uid("7")).unwrap_err();
    assert_eq!(
        denial,
        "pods is forbidden: User \"ann\" cannot impersonate-on:user-info:list resource \"pods\" in API group \"\" in the namespace \"a\""
    );
    let bot = User::new("system:serviceaccount:a:bot");
    assert!(
        check(&store, &bot)
            .unwrap_err()
            .contains("impersonate-on:serviceaccount:list")
    );
}

#[test]
fn the_narrow_modes_check_the_request_and_the_user() {
    let on = rule(&["impersonate-on:user-info:list"], "", &["pods"]);
    let store_on = store(&json!([on]));
    let bob = User::new("bob");
    assert_eq!(
        check(&store_on, &bob).unwrap_err(),
        "users.authentication.k8s.io \"bob\" is forbidden: User \"ann\" cannot impersonate:user-info resource \"users\" in API group \"authentication.k8s.io\" at the cluster scope"
    );
    let users = rule(
        &["impersonate:user-info"],
        GROUP,
        &["users", "groups", "userextras/*"],
    );
    let both = store(&json!([on, users]));
    assert_eq!(check(&both, &bob).unwrap().groups, [AUTHENTICATED]);
    assert_eq!(
        check(&both, &bob.clone().group(MASTERS)).unwrap_err(),
        "groups.authentication.k8s.io \"system:masters\" is forbidden: User \"ann\" cannot impersonate:user-info resource \"groups\" in API group \"authentication.k8s.io\" at the cluster scope: impersonating the system:masters group is not allowed"
    );
    assert!(
        check(&both, &bob.extra("team", "blue"))
            .unwrap_err()
            .ends_with("extra.key: Invalid value: \"team\": must be a domain-prefixed path (such as \"acme.io/foo\")")
    );
    // The mode for plain users does not apply to a ServiceAccount.
    assert!(check(&both, &User::new("system:serviceaccount:a:bot")).is_err());
}

#[test]
fn impersonated_nodes_and_service_accounts_get_their_groups() {
    let all = store(&json!([rule(&["*"], "*", &["*"])]));
    let groups = |name: &str| check(&all, &User::new(name)).unwrap().groups;
    assert_eq!(groups("system:node:n1"), ["system:nodes", AUTHENTICATED]);
    assert_eq!(
        groups("system:serviceaccount:a:bot"),
        [SERVICE_ACCOUNTS, "system:serviceaccounts:a", AUTHENTICATED]
    );
    assert_eq!(groups(ANONYMOUS), [UNAUTHENTICATED]);
    // A user name that is no valid name of a ServiceAccount is the name of a plain user.
    assert_eq!(groups("system:serviceaccount:A:bot"), [AUTHENTICATED]);
}

#[test]
fn the_mode_that_succeeded_last_words_the_next_refusal() {
    let store = store(&json!([
        {"verbs": ["impersonate"], "apiGroups": [""], "resources": ["users"],
            "resourceNames": ["bob"]},
    ]));
    let authorizer = Authorizer::new(Authorization::Rbac, &store);
    let asked = Attributes::of("list", "", "pods", "");
    let (ann, mut known) = (User::new("ann"), Impersonations::default());
    assert!(
        known
            .check(&authorizer, &ann, &User::new("bob"), &asked)
            .is_ok()
    );
    let denial = known.check(&authorizer, &ann, &User::new("eve"), &asked);
    assert_eq!(
        denial.unwrap_err().message,
        "users \"eve\" is forbidden: User \"ann\" cannot impersonate resource \"users\" in API group \"\" at the cluster scope"
    );
}
