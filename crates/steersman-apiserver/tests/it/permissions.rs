//! Who asks, what he may do, and what reviews say about it.

use serde_json::{Value, json};
use steersman_apiserver::{ApiServer, Authorization, User};

use crate::support::{Answer, ask};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const PODS: &str = "/api/v1/namespaces/default/pods";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

pub(crate) fn server() -> ApiServer {
    ApiServer::builder()
        .authorization(Authorization::Rbac)
        .starts_at("2026-01-01T00:00:00Z".parse().unwrap())
        .build()
}

/// Asks with a token, or as somebody by a word like `as ann`.
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

fn create(server: &ApiServer, kind: &str, name: &str, rest: Value) {
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

/// Lets `ann` do something in the whole cluster.
pub(crate) fn let_ann(server: &ApiServer, name: &str, rules: Value) {
    create(server, "ClusterRole", name, json!({ "rules": rules }));
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
        binding,
    );
}

fn role(name: &str, rules: Value) -> Value {
    json!({ "metadata": { "name": name }, "rules": rules })
}

/// AUTH-1: neither the body nor what is there makes a difference to who may not ask.
#[tokio::test(start_paused = true)]
async fn who_may_not_learns_nothing() {
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
    // The log says who asked.
    let asked = server.requests().all();
    assert!(asked.iter().all(|request| request.user == "ann"));
    assert!(
        asked
            .iter()
            .all(|request| request.groups == ["system:authenticated"])
    );
}

#[tokio::test(start_paused = true)]
async fn a_token_is_of_its_user_and_an_unknown_one_of_nobody() {
    let server = server();
    let_ann(
        &server,
        "reader",
        json!([rule(&["get", "list"], "", &["pods"])]),
    );
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

/// AUTH-2: a token of a ServiceAccount ends with its time, its Pod and its account.
#[tokio::test(start_paused = true)]
async fn a_service_accounts_token_dies_with_what_it_was_made_for() {
    let server = server();
    server
        .create(
            json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "bot" } }),
        )
        .unwrap();
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "p" },
        "spec": { "containers": [{ "name": "c", "image": "i" }] },
    });
    server.create(pod.clone()).unwrap();
    let path = "/api/v1/namespaces/default/serviceaccounts/bot/token";
    let token = async |spec: Value| {
        let made = ask(
            &server,
            "POST",
            path,
            &[],
            json!({ "spec": spec }).to_string(),
        )
        .await;
        made.expect(201)["status"]["token"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let bound = json!({ "kind": "Pod", "apiVersion": "v1", "name": "p" });
    let free = token(json!({})).await;
    let of_pod = token(json!({ "boundObjectRef": bound })).await;
    let elsewhere = token(json!({ "audiences": ["vault"] })).await;

    let review = async |token: &str, audiences: Value| {
        let spec = json!({ "spec": { "token": token, "audiences": audiences } });
        let path = "/apis/authentication.k8s.io/v1/tokenreviews";
        ask(&server, "POST", path, &[], spec.to_string())
            .await
            .expect(201)["status"]
            .clone()
    };
    let told = review(&of_pod, json!([])).await;
    assert_eq!(told["authenticated"], true);
    assert_eq!(
        told["user"]["username"],
        "system:serviceaccount:default:bot"
    );
    assert_eq!(
        told["user"]["groups"],
        json!([
            "system:serviceaccounts",
            "system:serviceaccounts:default",
            "system:authenticated"
        ])
    );
    assert_eq!(
        told["user"]["extra"]["authentication.kubernetes.io/pod-name"],
        json!(["p"])
    );
    assert_eq!(told["audiences"], json!(["https://kubernetes.default.svc"]));
    assert_eq!(
        review(&elsewhere, json!(["vault", "x"])).await["audiences"],
        json!(["vault"])
    );
    assert_eq!(
        review(&elsewhere, json!([])).await["error"],
        "[invalid bearer token, token audiences [\"vault\"] is invalid for the target audiences [\"https://kubernetes.default.svc\"]]"
    );

    server.delete("pods", "default", "p").unwrap();
    server.create(pod).ok();
    let gone = review(&of_pod, json!([])).await;
    assert_eq!(
        gone["error"],
        "[invalid bearer token, service account token has been invalidated]"
    );
    assert_eq!(
        by(&server, &of_pod, "GET", PODS, &json!(null)).await.status,
        401
    );
    assert_eq!(
        by(&server, &free, "GET", PODS, &json!(null)).await.status,
        403
    );

    tokio::time::advance(std::time::Duration::from_secs(3_700)).await;
    assert_eq!(
        review(&free, json!([])).await["error"],
        "[invalid bearer token, service account token has expired]"
    );
    let fresh = token(json!({})).await;
    assert_eq!(
        by(&server, &fresh, "GET", PODS, &json!(null)).await.status,
        403
    );
    server.delete("serviceaccounts", "default", "bot").unwrap();
    assert_eq!(
        by(&server, &fresh, "GET", PODS, &json!(null)).await.status,
        401
    );
}

/// AUTH-3: nobody grants more than he has, by any way of writing, unless a verb lets him.
#[tokio::test(start_paused = true)]
async fn nobody_grants_what_he_has_not() {
    let server = server();
    let group = "rbac.authorization.k8s.io";
    let all = [
        "roles",
        "clusterroles",
        "rolebindings",
        "clusterrolebindings",
    ];
    let_ann(
        &server,
        "writer",
        json!([rule(&["create", "update", "patch", "get"], group, &all)]),
    );
    let_ann(&server, "reader", json!([rule(&["get"], "", &["pods"])]));
    let ann = server.add_user(User::new("ann"));
    let roles = format!("{RBAC}/namespaces/default/roles");
    let own = role("own", json!([rule(&["get"], "", &["pods"])]));
    assert_eq!(post(&server, &ann, &roles, own).await.status, 201);
    let more = json!([rule(&["get", "list"], "", &["pods"])]);
    let told = post(&server, &ann, &roles, role("more", more.clone()))
        .await
        .expect(403);
    assert_eq!(
        told["message"],
        "roles.rbac.authorization.k8s.io \"more\" is forbidden: user \"ann\" (groups=[\"system:authenticated\"]) is attempting to grant RBAC permissions not currently held:\n{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"list\"]}"
    );
    let lost = json!({
        "metadata": { "namespace": "default" },
        "roleRef": { "apiGroup": group, "kind": "Role", "name": "lost" },
        "subjects": [{ "apiGroup": group, "kind": "User", "name": "ann" }],
    });
    create(&server, "RoleBinding", "lost", lost);
    let told = post(&server, &ann, &roles, role("more", more.clone()))
        .await
        .expect(403);
    assert!(told["message"].as_str().unwrap().ends_with(
        "Verbs:[\"list\"]}; resolution errors: [roles.rbac.authorization.k8s.io \"lost\" not found]"
    ), "{told}");
    let bindings = format!("rolebindings.{group}");
    server.delete(&bindings, "default", "lost").unwrap();
    // By an update, a patch and a PUT that creates it is no other.
    let own = format!("{roles}/own");
    let bearer = format!("Bearer {ann}");
    for kind in [
        "application/merge-patch+json",
        "application/strategic-merge-patch+json",
    ] {
        let headers = [("authorization", bearer.as_str()), ("content-type", kind)];
        let patch = json!({ "rules": more }).to_string();
        assert_eq!(
            ask(&server, "PATCH", &own, &headers, patch).await.status,
            403,
            "{kind}"
        );
    }
    for name in ["own", "absent"] {
        let path = format!("{roles}/{name}");
        let put = by(&server, &ann, "PUT", &path, &role(name, more.clone())).await;
        assert_eq!(put.status, 403, "{name}");
    }
    for name in ["own", "absent"] {
        let kind = "application/apply-patch+yaml";
        let headers = [("authorization", bearer.as_str()), ("content-type", kind)];
        let path = format!("{roles}/{name}?fieldManager=ann&force=true");
        let mut applied = role(name, more.clone());
        applied["apiVersion"] = json!(format!("{group}/v1"));
        applied["kind"] = json!("Role");
        let answer = ask(&server, "PATCH", &path, &headers, applied.to_string()).await;
        assert_eq!(answer.status, 403, "{name}: {}", answer.text);
    }
    // What leaves the rules alone, and what only frees the object, is his own affair.
    let headers = [
        ("authorization", bearer.as_str()),
        ("content-type", "application/merge-patch+json"),
    ];
    let label = json!({ "metadata": { "labels": { "a": "b" } } }).to_string();
    assert_eq!(
        ask(&server, "PATCH", &own, &headers, label).await.status,
        200
    );
    let strong = json!({ "finalizers": ["a/b"] });
    let strong = json!({ "metadata": strong }).to_string();
    let path = format!("{RBAC}/clusterroles/writer");
    assert_eq!(
        ask(&server, "PATCH", &path, &headers, strong).await.status,
        200
    );

    let binding = |role: &str| {
        json!({
            "metadata": { "name": "b" },
            "roleRef": { "apiGroup": group, "kind": "ClusterRole", "name": role },
            "subjects": [{ "kind": "User", "name": "bob", "apiGroup": group }],
        })
    };
    let bindings = format!("{RBAC}/namespaces/default/rolebindings");
    let told = post(&server, &ann, &bindings, binding("cluster-admin"))
        .await
        .expect(403);
    let message = told["message"].as_str().unwrap();
    assert!(message.ends_with(
        "not currently held:\n{APIGroups:[\"*\"], Resources:[\"*\"], Verbs:[\"*\"]}\n{NonResourceURLs:[\"*\"], Verbs:[\"*\"]}"
    ), "{message}");
    let told = post(&server, &ann, &bindings, binding("none"))
        .await
        .expect(404);
    assert_eq!(
        told["message"],
        "clusterroles.rbac.authorization.k8s.io \"none\" not found"
    );
    let gather = json!({
        "metadata": { "name": "g" },
        "aggregationRule": { "clusterRoleSelectors": [{ "matchLabels": { "a": "b" } }] },
    });
    let told = post(&server, &ann, &format!("{RBAC}/clusterroles"), gather)
        .await
        .expect(403);
    assert!(
        told["message"]
            .as_str()
            .unwrap()
            .ends_with("must have cluster-admin privileges to use the aggregationRule")
    );

    let_ann(
        &server,
        "binder",
        json!([rule(&["bind"], group, &["clusterroles"])]),
    );
    assert_eq!(
        post(&server, &ann, &bindings, binding("cluster-admin"))
            .await
            .status,
        201
    );
    let_ann(
        &server,
        "escalator",
        json!([rule(&["escalate"], group, &["roles"])]),
    );
    assert_eq!(
        post(&server, &ann, &roles, role("more", more)).await.status,
        201
    );
}

#[tokio::test(start_paused = true)]
async fn who_acts_as_another_is_in_the_log() {
    let server = server();
    let denied = by(&server, "as bob", "GET", PODS, &json!(null)).await;
    assert_eq!(denied.status, 403);
    let request = server.requests().all().pop().unwrap();
    assert_eq!(request.user, "bob");
    assert_eq!(request.impersonated_by.as_deref(), Some("system:admin"));
    // Without permissions in force too.
    let open = ApiServer::new();
    assert_eq!(
        by(&open, "as bob", "GET", PODS, &json!(null)).await.status,
        200
    );
    assert_eq!(open.requests().all()[0].user, "bob");
    assert_eq!(
        by(&open, "anything", "GET", PODS, &json!(null))
            .await
            .status,
        200
    );
    assert_eq!(open.requests().all()[1].user, "system:admin");
}

#[tokio::test(start_paused = true)]
async fn a_server_without_permissions_can_go_on_as_one_with_them() {
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
async fn roles_gather_their_rules_while_controllers_are_played() {
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
