//! Rows of the verbs, of paths, and of impersonation.

use serde_json::json;

use super::{DEPLOYMENT, LEASES, MAPS, PODS, Row, check, map, refusal};
use crate::permissions::rule;

const IN: (&str, &str) = ("default", "c");
const ALL: (&str, &str) = ("default", "");

#[tokio::test(start_paused = true)]
async fn each_verb_needs_its_own_right() {
    let source = "request_info.go";
    let one = format!("{MAPS}/c");
    let json_patch = json!([{ "op": "add", "path": "/data", "value": { "a": "b" } }]);
    let data = json!({ "data": { "a": "b" } });
    let patch = |kind: &'static str| {
        Row::new(source, "PATCH", one.clone())
            .header("content-type", kind)
            .gate("patch", "", "configmaps", IN)
    };
    check(vec![
        Row::new(source, "GET", one.clone()).gate("get", "", "configmaps", IN),
        // A request with a name is a get, whatever the query.
        Row::new(source, "GET", format!("{one}?watch=1")).gate("get", "", "configmaps", IN),
        Row::new(source, "GET", MAPS).gate("list", "", "configmaps", ALL),
        Row::new(source, "GET", format!("{MAPS}?watch=1&timeoutSeconds=1"))
            .gate("watch", "", "configmaps", ALL),
        Row::new(source, "GET", "/api/v1/configmaps").gate("list", "", "configmaps", ("", "")),
        Row::new(
            source,
            "GET",
            "/api/v1/watch/namespaces/default/configmaps?timeoutSeconds=1",
        )
        .gate("watch", "", "configmaps", ALL),
        Row::new(
            source,
            "GET",
            "/api/v1/watch/namespaces/default/configmaps/c?timeoutSeconds=1",
        )
        .gate("watch", "", "configmaps", IN),
        Row::new(source, "POST", MAPS)
            .body(map("new"))
            .code(201)
            .gate("create", "", "configmaps", ALL),
        Row::new(source, "PUT", one.clone())
            .body(map("c"))
            .gate("update", "", "configmaps", IN),
        patch("application/merge-patch+json").body(data.clone()),
        patch("application/strategic-merge-patch+json").body(data),
        patch("application/json-patch+json").body(json_patch),
        Row::new(source, "DELETE", one).gate("delete", "", "configmaps", IN),
        // The permission to delete single objects does not allow deleting a collection, nor the
        // other way round.
        Row::new(source, "DELETE", MAPS).gate("deletecollection", "", "configmaps", ALL),
        Row::new(
            source,
            "DELETE",
            format!("{MAPS}?fieldSelector=metadata.name%3Dc"),
        )
        .gate("deletecollection", "", "configmaps", ALL),
        Row::new(source, "GET", "/api/v1/namespaces/other").gate(
            "get",
            "",
            "namespaces",
            ("other", "other"),
        ),
    ])
    .await;
}

/// A rule with names covers a list or a watch with a selector for such a name, but no
/// deletecollection and no create.
#[tokio::test(start_paused = true)]
async fn rules_with_names_cover_requests_that_select_one_name() {
    let source = "request_info.go, rbac.RuleAllows";
    let named = |verb: &str| {
        json!({ "verbs": [verb], "apiGroups": [""], "resources": ["configmaps"],
            "resourceNames": ["c"] })
    };
    let denied = |verb: &str, place| refusal("ann", verb, ("", "configmaps"), place);
    let only = "fieldSelector=metadata.name%3Dc";
    check(vec![
        Row::new(source, "GET", format!("{MAPS}?{only}")).also(
            named("list"),
            403,
            denied("list", IN),
        ),
        Row::new(
            source,
            "GET",
            format!("{MAPS}?{only}&watch=1&timeoutSeconds=1"),
        )
        .also(named("watch"), 403, denied("watch", IN)),
        Row::new(source, "DELETE", format!("{MAPS}/c")).also(
            named("delete"),
            403,
            denied("delete", IN),
        ),
    ])
    .await;
    for (method, path, verb) in [
        ("GET", MAPS.to_owned(), "list"),
        ("DELETE", format!("{MAPS}?{only}"), "deletecollection"),
        ("POST", MAPS.to_owned(), "create"),
    ] {
        let row = Row::new(source, method, path).body(map("c"));
        let row = row.also(named(verb), 403, "");
        let (_, _, answer) = row.send(None).await;
        assert_eq!(answer.expect(403)["message"], denied(verb, ALL), "{verb}");
    }
}

/// Each subresource has permissions of its own: those for the object do not cover it, nor the
/// reverse.
#[tokio::test(start_paused = true)]
async fn each_subresource_needs_its_own_right() {
    let source = "request_info.go";
    let (d, pod) = (("default", "d"), ("default", "p"));
    let labels = json!({ "metadata": { "labels": { "a": "b" } } });
    let apps = |verb: &str, part: &str, row: Row| row.gate(verb, "apps", part, d);
    let part = |part: &str| format!("{DEPLOYMENT}/{part}");
    let scale = json!({ "spec": { "replicas": 0 } });
    let resize = json!({ "spec": { "containers": [{ "name": "c" }] } });
    let debug = json!({ "spec": { "ephemeralContainers": [
        { "name": "e", "image": "i", "terminationMessagePolicy": "File" }] } });
    let strategic = ("content-type", "application/strategic-merge-patch+json");
    let finalize = json!({ "apiVersion": "v1", "kind": "Namespace",
        "metadata": { "name": "other" }, "spec": { "finalizers": ["kubernetes"] } });
    check(vec![
        apps(
            "get",
            "deployments/status",
            Row::new(source, "GET", part("status")),
        ),
        apps(
            "patch",
            "deployments/status",
            Row::new(source, "PATCH", part("status")).merge(labels),
        ),
        apps(
            "get",
            "deployments/scale",
            Row::new(source, "GET", part("scale")),
        ),
        apps(
            "patch",
            "deployments/scale",
            Row::new(source, "PATCH", part("scale")).merge(scale),
        ),
        Row::new(source, "PATCH", format!("{PODS}/p/ephemeralcontainers"))
            .header(strategic.0, strategic.1)
            .body(debug)
            .gate("patch", "", "pods/ephemeralcontainers", pod),
        Row::new(source, "PATCH", format!("{PODS}/p/resize"))
            .header(strategic.0, strategic.1)
            .body(resize)
            .gate("patch", "", "pods/resize", pod),
        Row::new(source, "PUT", "/api/v1/namespaces/other/finalize")
            .body(finalize)
            .gate("update", "", "namespaces/finalize", ("other", "other")),
    ])
    .await;
}

/// Paths that are no resource are authorized by their method; some are open to every user.
#[tokio::test(start_paused = true)]
async fn paths_need_rights_to_urls() {
    let source = "request_info.go, bootstrappolicy/policy.go: system:discovery";
    let url = |verb: &str, path: &str| json!({ "verbs": [verb], "nonResourceURLs": [path] });
    let denied = "forbidden: User \"ann\" cannot get path \"/metrics\"";
    check(vec![
        Row::new(source, "GET", "/metrics").also(url("get", "/metrics"), 403, denied),
        Row::new(source, "GET", "/metrics").also(url("*", "/met*"), 403, denied),
        Row::new(source, "POST", "/no/such").code(404).also(
            url("post", "/no/*"),
            403,
            "forbidden: User \"ann\" cannot post path \"/no/such\"",
        ),
        Row::new(source, "GET", "/healthz"),
        Row::new(source, "GET", "/apis"),
        Row::new(source, "GET", "/openapi/v3"),
    ])
    .await;
}

/// AUTH-4: each impersonated property needs a permission of its own, and the request needs the
/// permissions of the impersonated user. Without the verb `impersonate` the message names the first
/// of the narrower verbs.
#[tokio::test(start_paused = true)]
async fn impersonation_needs_a_right_for_each_property() {
    let source = "apiserver/pkg/endpoints/filters/impersonation";
    let (users, core) = ("authentication.k8s.io", "");
    let may = |group: &str, resource: &str| rule(&["impersonate"], group, &[resource]);
    let reads = || rule(&["get"], "", &["configmaps"]);
    let first = |mode: &str| {
        refusal(
            "ann",
            &format!("impersonate-on:{mode}:get"),
            ("", "configmaps"),
            IN,
        )
    };
    let as_bob = || {
        Row::new(source, "GET", format!("{MAPS}/c"))
            .header("impersonate-user", "bob")
            .also(may(core, "users"), 403, first("user-info"))
    };
    let by_bob = |row: Row| {
        row.held_by(
            "bob",
            reads(),
            403,
            refusal("bob", "get", ("", "configmaps"), IN),
        )
    };
    let bot = "system:serviceaccount:default:bot";
    check(vec![
        by_bob(as_bob()),
        by_bob(as_bob().header("impersonate-group", "team")).also(
            may(core, "groups"),
            403,
            first("user-info"),
        ),
        by_bob(as_bob().header("impersonate-uid", "7")).also(
            may(users, "uids"),
            403,
            first("user-info"),
        ),
        by_bob(as_bob().header("impersonate-extra-team", "blue")).also(
            may(users, "userextras/team"),
            403,
            first("user-info"),
        ),
        Row::new(source, "GET", format!("{MAPS}/c"))
            .header("impersonate-user", bot)
            .also(may(core, "serviceaccounts"), 403, first("serviceaccount"))
            .held_by(
                bot,
                reads(),
                403,
                refusal(bot, "get", ("", "configmaps"), IN),
            ),
        // The narrower mode: a permission for the user, and one for each request made as that user.
        by_bob(
            Row::new(source, "GET", format!("{MAPS}/c"))
                .header("impersonate-user", "bob")
                .also(
                    rule(&["impersonate-on:user-info:get"], core, &["configmaps"]),
                    403,
                    first("user-info"),
                )
                .also(
                    rule(&["impersonate:user-info"], users, &["users"]),
                    403,
                    refusal(
                        "ann",
                        "impersonate:user-info",
                        (users, "users"),
                        ("", "bob"),
                    ),
                ),
        ),
    ])
    .await;
}

/// Reviews about other users need permissions; reviews about oneself do not.
#[tokio::test(start_paused = true)]
async fn reviews_need_the_right_to_ask() {
    let source = "request_info.go, bootstrappolicy/policy.go: system:basic-user";
    let group = "authorization.k8s.io";
    let about = json!({ "verb": "get", "resource": "pods", "namespace": "default" });
    let of = |user: &str| json!({ "spec": { "user": user, "resourceAttributes": about } });
    let mine = json!({ "spec": { "resourceAttributes": about } });
    let token = json!({ "spec": { "token": "x" } });
    check(vec![
        Row::new(
            source,
            "POST",
            "/apis/authorization.k8s.io/v1/subjectaccessreviews",
        )
        .body(of("bob"))
        .code(201)
        .gate("create", group, "subjectaccessreviews", ("", "")),
        Row::new(
            source,
            "POST",
            "/apis/authorization.k8s.io/v1/namespaces/default/localsubjectaccessreviews",
        )
        .body(of("bob"))
        .code(201)
        .gate("create", group, "localsubjectaccessreviews", ALL),
        Row::new(
            source,
            "POST",
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        )
        .body(mine)
        .code(201),
        Row::new(
            source,
            "POST",
            "/apis/authentication.k8s.io/v1/tokenreviews",
        )
        .body(token)
        .code(201)
        .gate("create", "authentication.k8s.io", "tokenreviews", ("", "")),
        Row::new(source, "GET", LEASES).gate("list", "coordination.k8s.io", "leases", ALL),
    ])
    .await;
}
