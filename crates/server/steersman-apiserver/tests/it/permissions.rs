//! Tests of authentication, authorization and reviews.

mod grants;
mod issuer;
mod matrix;
mod tokens;

use serde_json::{Value, json};
use steersman_apiserver::{ApiServer, Authorization, User};

use crate::support::{Answer, Watch, ask, config_map, send};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const PODS: &str = "/api/v1/namespaces/default/pods";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

pub(crate) fn server() -> ApiServer {
    ApiServer::builder()
        .authorization(Authorization::Rbac)
        .starts_at("2026-01-01T00:00:00Z".parse().unwrap())
        .build()
}

/// Sends a request with a token, or as a user named in the form `as ann`.
pub(crate) async fn by(
    server: &ApiServer,
    who: &str,
    method: &str,
    path: &str,
    body: &Value,
) -> Answer {
    let body = if body.is_null() {
        String::new()
    } else {
        body.to_string()
    };
    match who.strip_prefix("as ") {
        Some(user) => ask(server, method, path, &[("impersonate-user", user)], body).await,
        None => {
            let bearer = format!("Bearer {who}");
            ask(server, method, path, &[("authorization", &bearer)], body).await
        }
    }
}

pub(crate) async fn post(server: &ApiServer, who: &str, path: &str, body: Value) -> Answer {
    by(server, who, "POST", path, &body).await
}

fn create(server: &ApiServer, kind: &str, name: &str, rest: &Value) {
    let mut object = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": kind,
        "metadata": { "name": name },
    });
    for (member, value) in rest.as_object().unwrap() {
        match object[member].as_object_mut() {
            Some(known) => known.extend(value.as_object().unwrap().clone()),
            None => object[member] = value.clone(),
        }
    }
    server.create(object).unwrap();
}

pub(crate) fn rule(verbs: &[&str], group: &str, resources: &[&str]) -> Value {
    json!({ "verbs": verbs, "apiGroups": [group], "resources": resources })
}

/// Gives `ann` these permissions in the whole cluster.
pub(crate) fn let_ann(server: &ApiServer, name: &str, rules: &[Value]) {
    create(server, "ClusterRole", name, &json!({ "rules": rules }));
    bind(server, name, "ann");
}

fn bind(server: &ApiServer, role: &str, user: &str) {
    let binding = json!({
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user }],
    });
    create(
        server,
        "ClusterRoleBinding",
        &format!("{role}-{user}"),
        &binding,
    );
}

/// AUTH-1: without permission the answer depends neither on the body nor on existing objects.
#[tokio::test(start_paused = true)]
async fn a_refused_user_learns_nothing_about_objects() {
    let server = server();
    let token = server.add_user(User::new("ann"));
    let revision = server.revision();
    let absent = by(
        &server,
        &token,
        "GET",
        &format!("{CONFIG_MAPS}/x"),
        &json!(null),
    )
    .await;
    server
        .create(json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "x" } }))
        .unwrap();
    let present = by(
        &server,
        &token,
        "GET",
        &format!("{CONFIG_MAPS}/x"),
        &json!(null),
    )
    .await;
    assert_eq!((absent.status, absent.text), (403, present.text));
    for body in [json!("no object"), json!({ "metadata": { "name": "y" } })] {
        let refused = post(&server, &token, CONFIG_MAPS, body).await;
        assert_eq!(refused.status, 403, "{}", refused.text);
    }
    assert_eq!(server.revision(), revision + 1);
    // The log records the user.
    let asked = server.requests().all();
    assert!(asked.iter().all(|request| request.user == "ann"));
    assert!(
        asked
            .iter()
            .all(|request| request.groups == ["system:authenticated"])
    );
}

#[tokio::test(start_paused = true)]
async fn a_token_authenticates_its_user_and_an_unknown_one_is_refused() {
    let server = server();
    let_ann(&server, "reader", &[rule(&["get", "list"], "", &["pods"])]);
    let ann = server.add_user(User::new("ann"));
    assert_eq!(
        by(&server, &ann, "GET", PODS, &json!(null)).await.status,
        200
    );
    assert_eq!(
        by(&server, &ann, "DELETE", PODS, &json!(null)).await.status,
        403
    );
    let wrong = by(&server, "wrong", "GET", PODS, &json!(null)).await;
    assert_eq!(wrong.expect(401)["reason"], "Unauthorized");
    let service = server.service_as(User::new("ann"));
    let request = http::Request::get(PODS).body(String::new()).unwrap();
    let answer = tower::ServiceExt::oneshot(service, request).await.unwrap();
    assert_eq!(answer.status(), 200);
}

#[tokio::test(start_paused = true)]
async fn the_log_names_the_impersonating_user() {
    let server = server();
    let denied = by(&server, "as bob", "GET", PODS, &json!(null)).await;
    assert_eq!(denied.status, 403);
    let request = server.requests().all().pop().unwrap();
    assert_eq!(request.user, "bob");
    assert_eq!(request.impersonated_by.as_deref(), Some("system:admin"));
    // The same without RBAC.
    let open = ApiServer::new();
    assert_eq!(
        by(&open, "as bob", "GET", PODS, &json!(null)).await.status,
        200
    );
    assert_eq!(open.requests().all()[0].user, "bob");
    // AUTH-10: a wrong token is refused also where everything is allowed.
    let wrong = by(&open, "anything", "GET", PODS, &json!(null)).await;
    assert_eq!(wrong.status, 401);
}

/// A real server checks the permissions of a watch when it opens, too.
#[tokio::test(start_paused = true)]
async fn a_watch_outlives_the_permission_that_it_was_opened_with() {
    let server = server();
    let_ann(&server, "watcher", &[rule(&["watch"], "", &["configmaps"])]);
    let path = format!("{CONFIG_MAPS}?watch=true");
    let ann = [("impersonate-user", "ann")];
    let (status, _, body) = send(&server, "GET", &path, &ann, "").await;
    assert_eq!(status, 200);
    let roles = "clusterroles.rbac.authorization.k8s.io";
    server.delete(roles, "", "watcher").unwrap();
    assert_eq!(
        by(&server, "as ann", "GET", &path, &json!(null))
            .await
            .status,
        403
    );
    server.create(config_map("a")).unwrap();
    let mut watch = Watch::of(body);
    assert_eq!(watch.next_short().await.unwrap(), "ADDED a");
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_without_rbac_restores_on_a_server_with_rbac() {
    let before = ApiServer::new();
    let account =
        json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "bot" } });
    before.create(account).unwrap();
    let path = "/api/v1/namespaces/default/serviceaccounts/bot/token";
    let made = ask(&before, "POST", path, &[], "{}").await.expect(201);
    let token = made["status"]["token"].as_str().unwrap();
    let after = ApiServer::builder()
        .authorization(Authorization::Rbac)
        .restore(before.snapshot())
        .build();
    let apis = by(&after, token, "GET", "/apis", &json!(null)).await;
    assert_eq!(apis.status, 200, "{}", apis.text);
    assert_eq!(
        by(&after, token, "GET", PODS, &json!(null)).await.status,
        403
    );
    let again = ApiServer::builder()
        .authorization(Authorization::Rbac)
        .restore(after.snapshot())
        .build();
    assert_eq!(again.revision(), after.revision());
}

#[tokio::test(start_paused = true)]
async fn roles_are_aggregated_while_controllers_are_played() {
    let server = server();
    let view = || {
        server
            .get("clusterroles.rbac.authorization.k8s.io", "", "view")
            .unwrap()
    };
    let before = view()["rules"].as_array().unwrap().len();
    assert!(before > 5);
    let websites = rule(&["get"], "example.com", &["websites"]);
    let label = json!({ "rbac.authorization.k8s.io/aggregate-to-view": "true" });
    server
        .create(json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": { "name": "more", "labels": label }, "rules": [websites],
        }))
        .unwrap();
    assert!(view()["rules"].as_array().unwrap().contains(&websites));
    for role in ["edit", "admin"] {
        let role = server
            .get("clusterroles.rbac.authorization.k8s.io", "", role)
            .unwrap();
        assert!(role["rules"].as_array().unwrap().contains(&websites));
    }
    server
        .delete("clusterroles.rbac.authorization.k8s.io", "", "more")
        .unwrap();
    assert_eq!(view()["rules"].as_array().unwrap().len(), before);
    let alone = ApiServer::builder()
        .authorization(Authorization::Rbac)
        .play_controllers(false)
        .build();
    let view = alone
        .get("clusterroles.rbac.authorization.k8s.io", "", "view")
        .unwrap();
    assert_eq!(view["rules"], json!(null));
}
