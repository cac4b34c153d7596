//! Tests of kubectl with users and their permissions.

use serde_json::{Value, json};
use steersman_apiserver::{ApiServer, Authorization, User};

use super::world::World;

async fn world() -> Option<World> {
    let server = ApiServer::builder().authorization(Authorization::Rbac);
    let world = World::of(server.build()).await?;
    for (name, role) in [("ann-views", "view"), ("ann-edits", "edit")] {
        let kind = if role == "view" {
            "ClusterRoleBinding"
        } else {
            "RoleBinding"
        };
        let group = "rbac.authorization.k8s.io";
        let binding = json!({
            "apiVersion": format!("{group}/v1"),
            "kind": kind,
            "metadata": { "name": name },
            "roleRef": { "apiGroup": group, "kind": "ClusterRole", "name": role },
            "subjects": [{ "apiGroup": group, "kind": "User", "name": "ann" }],
        });
        world.server.create(binding).unwrap();
    }
    Some(world)
}

/// Runs kubectl, and returns whether it succeeded and all its output.
async fn tried(world: &World, arguments: &[&str]) -> (bool, String) {
    let output = world.command(arguments).output().await.unwrap();
    let printed = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(printed).unwrap())
}

#[tokio::test]
async fn auth_can_i_answers_for_the_impersonated_user() {
    let Some(world) = world().await else {
        return;
    };
    assert_eq!(
        world.run(&["auth", "can-i", "delete", "nodes"]).await,
        "yes\n"
    );
    for (expected, words) in [
        ("yes", &["list", "pods"][..]),
        ("no", &["list", "nodes"]),
        ("no", &["get", "secrets", "-n", "kube-system"]),
        ("yes", &["create", "deployments.apps"]),
        ("no", &["create", "deployments.apps", "-n", "kube-system"]),
        ("yes", &["get", "pods", "--subresource=log"]),
        ("yes", &["get", "/apis"]),
        ("no", &["get", "/metrics"]),
    ] {
        let arguments = [&["auth", "can-i", "--as", "ann"], words].concat();
        let (allowed, output) = tried(&world, &arguments).await;
        // A warning about the scope of a resource may follow.
        assert_eq!(output.lines().next(), Some(expected), "{words:?}: {output}");
        assert_eq!(allowed, expected == "yes", "{words:?}");
    }
    let list = world.run(&["auth", "can-i", "--list", "--as", "ann"]).await;
    assert!(
        list.lines()
            .any(|line| line.starts_with("deployments.apps ")),
        "{list}"
    );
}

#[tokio::test]
async fn whoami_knows_users_groups_and_tokens() {
    let Some(world) = world().await else {
        return;
    };
    let whoami = async |more: &[&str]| {
        let arguments = [&["auth", "whoami", "-o", "json"], more].concat();
        let output: Value = serde_json::from_str(&world.run(&arguments).await).unwrap();
        output["status"]["userInfo"].clone()
    };
    assert_eq!(whoami(&[]).await["username"], "system:admin");
    let bob = whoami(&["--as", "bob", "--as-group", "team", "--as-uid", "7"]).await;
    assert_eq!(
        bob,
        json!({ "username": "bob", "uid": "7", "groups": ["team", "system:authenticated"] })
    );
    world.run(&["create", "serviceaccount", "bot"]).await;
    let token = world.run(&["create", "token", "bot"]).await;
    let bot = whoami(&["--token", token.trim()]).await;
    assert_eq!(bot["username"], "system:serviceaccount:default:bot");
    assert_eq!(bot["groups"][1], "system:serviceaccounts:default");
}

#[tokio::test]
async fn a_user_may_do_what_roles_allow_and_is_refused_otherwise() {
    let Some(world) = world().await else {
        return;
    };
    let config = world.folder.path().join("ann");
    let text = world.serving.kubeconfig_for(User::new("ann"));
    std::fs::write(&config, text).unwrap();
    let config = config.to_str().unwrap();
    let as_ann = async |arguments: &[&str]| {
        let arguments = [&["--kubeconfig", config], arguments].concat();
        tried(&world, &arguments).await
    };
    let created = as_ann(&["create", "deployment", "web", "--image=nginx"]).await;
    assert!(created.0, "{}", created.1);
    let (done, output) = as_ann(&["get", "nodes"]).await;
    assert!(!done);
    assert_eq!(
        output.trim(),
        "Error from server (Forbidden): nodes is forbidden: User \"ann\" cannot list resource \"nodes\" in API group \"\" at the cluster scope"
    );
    let role = ["create", "role", "r", "--verb=get", "--resource=secrets"];
    let (done, output) = as_ann(&role).await;
    assert!(
        !done && output.contains("cannot create resource \"roles\""),
        "{output}"
    );
    let secrets = as_ann(&["get", "secrets", "--as", "bob"]).await;
    assert!(
        secrets.1.contains("cannot impersonate-on:user-info:list"),
        "{}",
        secrets.1
    );
    let asked = world
        .server
        .requests()
        .matching(|request| request.is_for("deployments.apps"));
    assert!(asked.iter().all(|request| request.user == "ann") && !asked.is_empty());
}
