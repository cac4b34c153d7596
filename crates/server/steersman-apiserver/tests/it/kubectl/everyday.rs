//! Tests of everyday kubectl commands, by their effects on the server.

use serde_json::{Value, json};

use super::world::{TOO_LONG, World, write_file};
use crate::support::{config_map, deployment, website};

/// Runs kubectl, which must fail, and returns its exit code and output.
async fn fails(world: &World, arguments: &[&str]) -> (Option<i32>, String) {
    let running = world.command(arguments).output();
    let output = tokio::time::timeout(TOO_LONG, running)
        .await
        .unwrap()
        .unwrap();
    assert!(!output.status.success(), "kubectl {arguments:?}");
    let printed = [output.stdout, output.stderr].concat();
    let printed = String::from_utf8_lossy(&printed).into_owned();
    (output.status.code(), printed)
}

fn found(world: &World, resource: &str, name: &str) -> Value {
    let found = world.server.get(resource, "default", name);
    found.unwrap_or_else(|| panic!("there is no {resource} {name}"))
}

#[tokio::test]
async fn diff_shows_what_an_apply_would_change() {
    let Some(world) = World::new().await else {
        return;
    };
    let path = write_file(&world, "d.json", &deployment("d"));
    let path = path.to_str().unwrap();
    world.run(&["apply", "-f", path]).await;
    assert_eq!(world.run(&["diff", "-f", path]).await, "");
    let mut changed = deployment("d");
    changed["spec"]["replicas"] = json!(9);
    write_file(&world, "d.json", &changed);
    for mode in [&[][..], &["--server-side", "--force-conflicts"]] {
        let arguments = [&["diff", "-f", path], mode].concat();
        let (code, printed) = fails(&world, &arguments).await;
        assert_eq!(code, Some(1), "{printed}");
        assert!(printed.contains("-  replicas: 2\n"), "{printed}");
        assert!(printed.contains("+  replicas: 9\n"), "{printed}");
    }
    let stored = found(&world, "deployments.apps", "d");
    assert_eq!(stored["spec"]["replicas"], 2);
}

#[tokio::test]
async fn patches_in_all_types() {
    let Some(world) = World::new().await else {
        return;
    };
    world.server.create(deployment("d")).unwrap();
    let stored = || found(&world, "deployments.apps", "d");
    let image =
        |stored: &Value| stored["spec"]["template"]["spec"]["containers"][0]["image"].clone();
    let name = stored()["spec"]["template"]["spec"]["containers"][0]["name"].clone();
    let strategic = json!({ "spec": { "template": { "spec": {
        "containers": [{ "name": name, "image": "strategic" }, { "name": "side", "image": "side" }],
    } } } });
    world
        .run(&["patch", "deployment", "d", "-p", &strategic.to_string()])
        .await;
    let now = stored();
    let containers = &now["spec"]["template"]["spec"]["containers"];
    assert_eq!(containers.as_array().map(Vec::len), Some(2));
    let names: Vec<_> = containers.as_array().into_iter().flatten().collect();
    assert!(names.iter().any(|one| one["image"] == "strategic"));
    let json_patch = json!([
        { "op": "test", "path": "/spec/replicas", "value": 2 },
        { "op": "replace", "path": "/spec/replicas", "value": 4 },
    ]);
    let patch = ["patch", "deployment", "d", "--type=json", "-p"];
    let text = json_patch.to_string();
    world.run(&[&patch[..], &[&text]].concat()).await;
    assert_eq!(stored()["spec"]["replicas"], 4);
    let (_, printed) = fails(&world, &[&patch[..], &[&text]].concat()).await;
    assert!(
        printed.contains("the server rejected our request"),
        "{printed}"
    );
    let merge = json!({ "spec": { "template": { "spec": {
        "containers": [{ "name": "only", "image": "merge" }],
    } } } });
    let merge = merge.to_string();
    world
        .run(&["patch", "deployment", "d", "--type=merge", "-p", &merge])
        .await;
    assert_eq!(image(&stored()), "merge");
    // Custom resources do not support strategic merge patch.
    world.server.create(website("one")).unwrap();
    let (_, printed) = fails(&world, &["patch", "website", "one", "-p", "{}"]).await;
    assert!(
        printed.contains("UnsupportedMediaType") || printed.contains("not supported"),
        "{printed}"
    );
    world
        .run(&[
            "patch",
            "deployment",
            "d",
            "--subresource=status",
            "--type=merge",
            "-p",
            r#"{"status":{"replicas":1,"readyReplicas":1},"spec":{"replicas":0}}"#,
        ])
        .await;
    assert_eq!(stored()["status"]["readyReplicas"], 1);
    assert_eq!(stored()["spec"]["replicas"], 4);
}

#[tokio::test]
async fn replace_needs_the_version_it_was_made_from() {
    let Some(world) = World::new().await else {
        return;
    };
    world.server.create(config_map("a")).unwrap();
    let mut read = found(&world, "configmaps", "a");
    read["data"] = json!({ "new": "value" });
    let path = write_file(&world, "a.json", &read);
    let replace = ["replace", "-f", path.to_str().unwrap()];
    assert_eq!(world.run(&replace).await, "configmap/a replaced\n");
    assert_eq!(found(&world, "configmaps", "a")["data"], read["data"]);
    let (_, printed) = fails(&world, &replace).await;
    assert!(
        printed.contains("the object has been modified"),
        "{printed}"
    );
    let uid = found(&world, "configmaps", "a")["metadata"]["uid"].clone();
    let path = write_file(&world, "a.json", &config_map("a"));
    world
        .run(&["replace", "--force", "-f", path.to_str().unwrap()])
        .await;
    assert_ne!(found(&world, "configmaps", "a")["metadata"]["uid"], uid);
}

#[tokio::test]
async fn custom_columns_and_sorting() {
    let Some(world) = World::new().await else {
        return;
    };
    for (name, value) in [("a", "3"), ("b", "1"), ("c", "2")] {
        let mut object = config_map(name);
        object["data"] = json!({ "k": value });
        world.server.create(object).unwrap();
    }
    let columns = "-o=custom-columns=NAME:.metadata.name,K:.data.k";
    let table = world
        .run(&["get", "configmaps", columns, "--sort-by=.data.k"])
        .await;
    let words: Vec<&str> = table.split_whitespace().collect();
    assert_eq!(words, ["NAME", "K", "b", "1", "c", "2", "a", "3"]);
    let sorted = world
        .run(&["get", "configmaps", "--sort-by={.data.k}", "--no-headers"])
        .await;
    let names = sorted.lines().filter_map(|line| line.split(' ').next());
    assert_eq!(names.collect::<Vec<_>>(), ["b", "c", "a"]);
    let path = "-o=jsonpath={.items[?(@.data.k==\"2\")].metadata.name}";
    assert_eq!(world.run(&["get", "configmaps", path]).await, "c");
    // More than one page.
    let paged = world
        .run(&["get", "configmaps", "--chunk-size=1", "-o", "name"])
        .await;
    assert_eq!(paged, "configmap/a\nconfigmap/b\nconfigmap/c\n");
    let picked = world
        .run(&[
            "get",
            "configmaps",
            "--field-selector=metadata.name!=b",
            "-o",
            "name",
        ])
        .await;
    assert_eq!(picked, "configmap/a\nconfigmap/c\n");
}

/// Creates an owner and a dependent.
fn family(world: &World) {
    let owner = world.server.create(config_map("owner")).unwrap();
    let mut owned = config_map("owned");
    owned["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"],
        "blockOwnerDeletion": true,
    }]);
    world.server.create(owned).unwrap();
}

#[tokio::test]
async fn delete_with_each_cascade() {
    let Some(world) = World::new().await else {
        return;
    };
    let delete = async |cascade: &str| {
        family(&world);
        let cascade = format!("--cascade={cascade}");
        world.run(&["delete", "configmap", "owner", &cascade]).await;
        assert!(world.server.get("configmaps", "default", "owner").is_none());
        world.server.get("configmaps", "default", "owned")
    };
    assert!(delete("background").await.is_none());
    assert!(delete("foreground").await.is_none());
    let orphan = delete("orphan").await.unwrap();
    assert!(
        orphan["metadata"].get("ownerReferences").is_none(),
        "{orphan}"
    );
    world.run(&["delete", "configmap", "owned", "--now"]).await;
    assert!(world.server.list("configmaps", "default").is_empty());
}

#[tokio::test]
async fn a_kustomization_is_applied_and_deleted() {
    let Some(world) = World::new().await else {
        return;
    };
    write_file(&world, "deployment.json", &deployment("web"));
    let kustomization = json!({
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "namePrefix": "test-",
        "resources": ["deployment.json"],
        "labels": [{ "pairs": { "team": "red" } }],
        "images": [],
        "configMapGenerator": [{
            "name": "settings",
            "literals": ["k=v"],
            "options": { "disableNameSuffixHash": true },
        }],
    });
    write_file(&world, "kustomization.yaml", &kustomization);
    let folder = world.folder.path().to_str().unwrap().to_owned();
    world.run(&["apply", "-k", &folder]).await;
    let stored = found(&world, "deployments.apps", "test-web");
    assert_eq!(stored["metadata"]["labels"]["team"], "red");
    let settings = found(&world, "configmaps", "test-settings");
    assert_eq!(settings["data"], json!({ "k": "v" }));
    world.run(&["delete", "-k", &folder]).await;
    assert!(world.server.list("deployments.apps", "default").is_empty());
    assert!(world.server.list("configmaps", "default").is_empty());
}

#[tokio::test]
async fn apply_prunes_objects_that_the_manifest_no_longer_has() {
    let Some(world) = World::new().await else {
        return;
    };
    for name in ["a", "b"] {
        let mut object = config_map(name);
        object["metadata"]["labels"] = json!({ "set": "one" });
        let path = write_file(&world, &format!("{name}.json"), &object);
        world.run(&["apply", "-f", path.to_str().unwrap()]).await;
    }
    let path = world.folder.path().join("a.json");
    let prune = [
        "apply",
        "--prune",
        "-l",
        "set=one",
        "--prune-allowlist=core/v1/ConfigMap",
        "-f",
        path.to_str().unwrap(),
    ];
    world.run(&prune).await;
    assert!(world.server.get("configmaps", "default", "a").is_some());
    assert!(world.server.get("configmaps", "default", "b").is_none());
}

#[tokio::test]
async fn explain_and_describe_of_built_in_kinds() {
    let Some(world) = World::new().await else {
        return;
    };
    let explained = world
        .run(&["explain", "deployment.spec.template.spec.containers.ports"])
        .await;
    assert!(
        explained.contains("containerPort\t<integer> -required-"),
        "{explained}"
    );
    let whole = world.run(&["explain", "service.spec", "--recursive"]).await;
    assert!(whole.contains("clusterIP\t<string>"), "{whole}");
    world.server.create(deployment("d")).unwrap();
    let described = world.run(&["describe", "deployment", "d"]).await;
    assert!(
        described.contains("Replicas:               2 desired"),
        "{described}"
    );
    let event = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": { "name": "e", "namespace": "default" },
        "involvedObject": {
            "kind": "Deployment", "namespace": "default", "name": "d", "apiVersion": "apps/v1",
            "uid": found(&world, "deployments.apps", "d")["metadata"]["uid"],
        },
        "reason": "Seen", "message": "it was seen", "type": "Normal", "count": 1,
    });
    world.server.create(event).unwrap();
    let described = world.run(&["describe", "deployment", "d"]).await;
    assert!(described.contains("it was seen"), "{described}");
    let events = world.run(&["get", "events"]).await;
    assert!(events.contains("deployment/d"), "{events}");
}

#[tokio::test]
async fn rollouts_restart_pause_and_environments_are_set() {
    let Some(world) = World::new().await else {
        return;
    };
    world.server.create(deployment("d")).unwrap();
    world.run(&["rollout", "restart", "deployment/d"]).await;
    let stored = found(&world, "deployments.apps", "d");
    let annotations = &stored["spec"]["template"]["metadata"]["annotations"];
    assert!(
        annotations["kubectl.kubernetes.io/restartedAt"].is_string(),
        "{stored}"
    );
    assert_eq!(stored["metadata"]["generation"], 2);
    world.run(&["rollout", "pause", "deployment/d"]).await;
    assert_eq!(
        found(&world, "deployments.apps", "d")["spec"]["paused"],
        true
    );
    world.run(&["set", "env", "deployment/d", "A=b"]).await;
    let stored = found(&world, "deployments.apps", "d");
    let container = &stored["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["env"], json!([{ "name": "A", "value": "b" }]));
    world
        .run(&[
            "autoscale", "deployment", "d", "--min=2", "--max=5", "--cpu-percent=50",
        ])
        .await;
    let scaler = found(&world, "horizontalpodautoscalers.autoscaling", "d");
    assert_eq!(
        (
            &scaler["spec"]["minReplicas"], &scaler["spec"]["maxReplicas"]
        ),
        (&json!(2), &json!(5))
    );
    let refused = fails(
        &world,
        &[
            "scale", "deployment", "d", "--current-replicas=7", "--replicas=1",
        ],
    );
    assert!(refused.await.1.contains("7"));
    let edited = json!({ "metadata": { "labels": { "x": "y" } } }).to_string();
    world
        .run(&[
            "patch", "deployment", "d", "--dry-run=server", "-p", &edited,
        ])
        .await;
    assert!(
        found(&world, "deployments.apps", "d")["metadata"]["labels"]
            .get("x")
            .is_none()
    );
}

#[tokio::test]
async fn nodes_are_cordoned_tainted_and_drained() {
    let Some(world) = World::new().await else {
        return;
    };
    let node = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "n" } });
    world.server.create(node).unwrap();
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "p" },
        "spec": { "nodeName": "n", "containers": [{ "name": "c", "image": "i" }] },
    });
    world.server.create(pod).unwrap();
    world
        .run(&["taint", "node", "n", "key=value:NoSchedule"])
        .await;
    world
        .run(&["drain", "n", "--force", "--grace-period=0"])
        .await;
    let node = world.server.get("nodes", "", "n").unwrap();
    assert_eq!(node["spec"]["unschedulable"], true);
    assert_eq!(node["spec"]["taints"][0]["key"], "key");
    assert!(world.server.list("pods", "default").is_empty());
    world.run(&["uncordon", "n"]).await;
    let node = world.server.get("nodes", "", "n").unwrap();
    assert!(node["spec"].get("unschedulable").is_none(), "{node}");
}

#[tokio::test]
async fn auth_can_i_and_whoami() {
    let Some(world) = World::new().await else {
        return;
    };
    let allowed = world
        .run(&["auth", "can-i", "create", "deployments.apps"])
        .await;
    assert_eq!(allowed, "yes\n");
    let whoami = world.run(&["auth", "whoami", "-o", "json"]).await;
    let whoami: Value = serde_json::from_str(&whoami).unwrap();
    assert!(
        whoami["status"]["userInfo"]["username"].is_string(),
        "{whoami}"
    );
}
