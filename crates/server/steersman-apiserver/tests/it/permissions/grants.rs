//! Tests of the permissions that roles and bindings may grant.

use serde_json::{Value, json};
use steersman_apiserver::{ApiServer, User};

use crate::permissions::{RBAC, by, create, let_ann, post, rule, server};
use crate::support::{Answer, ask};

const GROUP: &str = "rbac.authorization.k8s.io";

/// A server where `ann` writes roles and bindings of every kind, and reads Pods.
struct Written {
    server: ApiServer,
    ann: String,
    roles: String,
    bindings: String,
}

impl Written {
    fn new() -> Self {
        let server = server();
        let all = [
            "roles", "clusterroles", "rolebindings", "clusterrolebindings",
        ];
        let verbs = ["create", "update", "patch", "get"];
        let_ann(&server, "writer", &[rule(&verbs, GROUP, &all)]);
        let_ann(&server, "reader", &[rule(&["get"], "", &["pods"])]);
        Self {
            ann: server.add_user(User::new("ann")),
            server,
            roles: format!("{RBAC}/namespaces/default/roles"),
            bindings: format!("{RBAC}/namespaces/default/rolebindings"),
        }
    }

    async fn post(&self, path: &str, body: Value) -> Answer {
        post(&self.server, &self.ann, path, body).await
    }

    async fn patch(&self, path: &str, kind: &str, body: &Value) -> Answer {
        let bearer = format!("Bearer {}", self.ann);
        let kind = format!("application/{kind}");
        let headers = [("authorization", &*bearer), ("content-type", &*kind)];
        ask(&self.server, "PATCH", path, &headers, body.to_string()).await
    }
}

fn role(name: &str, verbs: &[&str]) -> Value {
    json!({ "metadata": { "name": name }, "rules": [rule(verbs, "", &["pods"])] })
}

/// The verbs that `ann` has, and more than these.
const OWN: &[&str] = &["get"];
const MORE: &[&str] = &["get", "list"];

/// AUTH-3: no user grants more than its own permissions, by any verb, except with `escalate`.
#[tokio::test(start_paused = true)]
async fn no_user_grants_permissions_it_lacks() {
    let world = Written::new();
    let (roles, own) = (&world.roles, format!("{}/own", world.roles));
    assert_eq!(world.post(roles, role("own", OWN)).await.status, 201);
    let denial = world.post(roles, role("more", MORE)).await.expect(403);
    assert_eq!(
        denial["message"],
        "roles.rbac.authorization.k8s.io \"more\" is forbidden: user \"ann\" (groups=[\"system:authenticated\"]) is attempting to grant RBAC permissions not currently held:\n{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"list\"]}"
    );
    // An update, a patch and a PUT that creates are treated alike.
    let patch = json!({ "rules": role("", MORE)["rules"] });
    for kind in ["merge-patch+json", "strategic-merge-patch+json"] {
        let refused = world.patch(&own, kind, &patch).await;
        assert_eq!(refused.status, 403, "{kind}");
    }
    for name in ["own", "absent"] {
        let path = format!("{roles}/{name}");
        let put = by(&world.server, &world.ann, "PUT", &path, &role(name, MORE)).await;
        assert_eq!(put.status, 403, "{name}");
        let path = format!("{path}?fieldManager=ann&force=true");
        let mut applied = role(name, MORE);
        applied["apiVersion"] = json!(format!("{GROUP}/v1"));
        applied["kind"] = json!("Role");
        let answer = world.patch(&path, "apply-patch+yaml", &applied).await;
        assert_eq!(answer.status, 403, "{name}: {}", answer.text);
    }
    let escalate = rule(&["escalate"], GROUP, &["roles"]);
    let_ann(&world.server, "escalator", &[escalate]);
    assert_eq!(world.post(roles, role("more", MORE)).await.status, 201);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_names_the_roles_that_are_missing() {
    let world = Written::new();
    let lost = json!({
        "metadata": { "namespace": "default" },
        "roleRef": { "apiGroup": GROUP, "kind": "Role", "name": "lost" },
        "subjects": [{ "apiGroup": GROUP, "kind": "User", "name": "ann" }],
    });
    create(&world.server, "RoleBinding", "lost", &lost);
    let refused = world.post(&world.roles, role("more", MORE)).await;
    let denial = refused.expect(403);
    assert!(denial["message"].as_str().unwrap().ends_with(
        "Verbs:[\"list\"]}; resolution errors: [roles.rbac.authorization.k8s.io \"lost\" not found]"
    ), "{denial}");
}

#[tokio::test(start_paused = true)]
async fn a_write_without_a_change_of_rules_is_no_grant() {
    let world = Written::new();
    let own = format!("{}/own", world.roles);
    world.post(&world.roles, role("own", OWN)).await.expect(201);
    let label = json!({ "metadata": { "labels": { "a": "b" } } });
    let labelled = world.patch(&own, "merge-patch+json", &label).await;
    assert_eq!(labelled.status, 200);
    // Neither is a write that only holds or releases an object with rules beyond the user's.
    let kept = json!({ "metadata": { "finalizers": ["a/b"] } });
    let path = format!("{RBAC}/clusterroles/writer");
    let kept = world.patch(&path, "merge-patch+json", &kept).await;
    assert_eq!(kept.status, 200);
}

/// AUTH-3: a binding grants what its role has; `bind` allows it all the same.
#[tokio::test(start_paused = true)]
async fn no_user_binds_a_role_with_permissions_it_lacks() {
    let world = Written::new();
    let binding = |role: &str| {
        json!({
            "metadata": { "name": "b" },
            "roleRef": { "apiGroup": GROUP, "kind": "ClusterRole", "name": role },
            "subjects": [{ "kind": "User", "name": "bob", "apiGroup": GROUP }],
        })
    };
    let refused = world.post(&world.bindings, binding("cluster-admin")).await;
    let denial = refused.expect(403);
    assert!(denial["message"].as_str().unwrap().ends_with(
        "not currently held:\n{APIGroups:[\"*\"], Resources:[\"*\"], Verbs:[\"*\"]}\n{NonResourceURLs:[\"*\"], Verbs:[\"*\"]}"
    ), "{denial}");
    let missing = world.post(&world.bindings, binding("none")).await;
    assert_eq!(
        missing.expect(404)["message"],
        "clusterroles.rbac.authorization.k8s.io \"none\" not found"
    );
    let gather = json!({
        "metadata": { "name": "g" },
        "aggregationRule": { "clusterRoleSelectors": [{ "matchLabels": { "a": "b" } }] },
    });
    let refused = world.post(&format!("{RBAC}/clusterroles"), gather).await;
    let denial = refused.expect(403);
    assert!(
        denial["message"]
            .as_str()
            .unwrap()
            .ends_with("must have cluster-admin privileges to use the aggregationRule")
    );
    let bind = rule(&["bind"], GROUP, &["clusterroles"]);
    let_ann(&world.server, "binder", &[bind]);
    let bound = world.post(&world.bindings, binding("cluster-admin")).await;
    assert_eq!(bound.status, 201);
}
