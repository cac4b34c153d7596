//! Tests of kubectl against the server; skipped without kubectl 1.27 or later.

mod world;
mod everyday;
mod generators;
mod users;

use serde_json::{Value, json};

use self::world::{TOO_LONG, World, finish, write_file};
use crate::support::{config_map, deployment, website};

#[tokio::test]
async fn api_resources_and_api_versions() {
    let Some(world) = World::new().await else {
        return;
    };
    let resources = world.run(&["api-resources"]).await;
    let website = resources
        .lines()
        .find(|line| line.starts_with("websites "))
        .unwrap();
    let words: Vec<&str> = website.split_whitespace().collect();
    assert_eq!(
        words,
        ["websites", "web", "example.com/v1", "true", "Website"]
    );
    assert!(
        resources
            .lines()
            .any(|line| line.starts_with("deployments ") && line.contains("apps/v1"))
    );
    let versions = world.run(&["api-versions"]).await;
    assert!(
        versions.lines().any(|line| line == "example.com/v1"),
        "{versions}"
    );
    let version = world.run(&["version", "-o", "json"]).await;
    let version: Value = serde_json::from_str(&version).unwrap();
    assert_eq!(version["serverVersion"]["minor"], "36");
}

/// Runs a test of this binary without kubectl in the default way: with captured output.
#[test]
fn a_skipped_test_reports_that_in_every_run() {
    let nothing = tempfile::tempdir().unwrap();
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kubectl::api_resources_and_api_versions"])
        .env("PATH", nothing.path())
        .output()
        .unwrap();
    let (printed, complained) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(printed.contains("1 passed"), "{printed}{complained}");
    assert!(
        complained.contains("skipped: kubectl cannot be run"),
        "{printed}{complained}"
    );
}

#[tokio::test]
async fn create_from_files_and_get() {
    let Some(world) = World::new().await else {
        return;
    };
    for object in [website("one"), deployment("d"), config_map("a")] {
        let path = write_file(&world, "object.json", &object);
        let created = world.run(&["create", "-f", path.to_str().unwrap()]).await;
        assert!(created.ends_with(" created\n"), "{created}");
    }
    let yaml =
        "apiVersion: example.com/v1\nkind: Website\nmetadata:\n  name: two\nspec:\n  image: i\n";
    world.feed(&["create", "-f", "-"], yaml).await;
    assert_eq!(world.site("two").unwrap()["spec"]["image"], "i");

    let shown = world.run(&["get", "website", "one", "-o", "yaml"]).await;
    assert!(
        shown.contains("kind: Website\n") && shown.contains("  replicas: 1\n"),
        "{shown}"
    );

    let table = world.run(&["get", "web"]).await;
    let lines: Vec<Vec<&str>> = table
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(lines[0], ["NAME", "IMAGE", "READY", "AGE"]);
    assert_eq!(lines[1][..2], ["one", "registry.example.com/site:1"]);
    let table = world.run(&["get", "websites", "-o", "wide"]).await;
    let headings: Vec<&str> = table.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(headings, ["NAME", "IMAGE", "READY", "WANTED", "AGE"]);
    let table = world.run(&["get", "deployments", "-o", "wide"]).await;
    let lines: Vec<Vec<&str>> = table
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    let headings = [
        "NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE", "CONTAINERS", "IMAGES", "SELECTOR",
    ];
    assert_eq!(lines[0], headings);
    assert_eq!(lines[1][..4], ["d", "0/2", "0", "0"]);
    assert!(
        world
            .run(&["get", "all"])
            .await
            .contains("deployment.apps/d")
    );
    let described = world.run(&["describe", "configmap", "a"]).await;
    assert!(described.contains("Name:         a"), "{described}");
    let explained = world.run(&["explain", "website.spec.image"]).await;
    assert!(explained.contains("image <string>"), "{explained}");
}

#[tokio::test]
async fn a_field_that_does_not_exist_is_refused_by_create() {
    let Some(world) = World::new().await else {
        return;
    };
    let mut wrong = website("one");
    wrong["spec"]["imagee"] = json!("typo");
    let path = write_file(&world, "wrong.json", &wrong);
    let arguments = ["create", "-f", path.to_str().unwrap()];
    let output = world.command(&arguments).output().await.unwrap();
    assert!(!output.status.success());
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(complained.contains("imagee"), "{complained}");
    assert!(world.site("one").is_none());
}

#[tokio::test]
async fn patch_label_annotate_scale_and_delete() {
    let Some(world) = World::new().await else {
        return;
    };
    world.server.create(website("one")).unwrap();
    world.server.create(deployment("d")).unwrap();
    world
        .run(&[
            "patch", "website", "one", "--type=merge", "-p", r#"{"spec":{"image":"new"}}"#,
        ])
        .await;
    world.run(&["label", "website", "one", "team=web"]).await;
    world
        .run(&["annotate", "website", "one", "note=hello"])
        .await;
    world
        .run(&["scale", "website", "one", "--replicas=3"])
        .await;
    let site = world.site("one").unwrap();
    assert_eq!(site["spec"], json!({ "image": "new", "replicas": 3 }));
    assert_eq!(site["metadata"]["labels"]["team"], "web");
    assert_eq!(site["metadata"]["annotations"]["note"], "hello");
    world
        .run(&[
            "patch", "deployment", "d", "--type=merge", "-p", r#"{"spec":{"paused":true}}"#,
        ])
        .await;
    world
        .run(&["scale", "deployment", "d", "--replicas=7"])
        .await;
    let found = world
        .server
        .get("deployments.apps", "default", "d")
        .unwrap();
    assert_eq!(
        (&found["spec"]["replicas"], &found["spec"]["paused"]),
        (&json!(7), &json!(true))
    );
    // Waits until the objects are gone, by a list and a watch.
    world.run(&["delete", "website", "one"]).await;
    world.run(&["delete", "deployment", "d"]).await;
    assert!(world.site("one").is_none());
    world
        .run(&[
            "create",
            "-f",
            write_file(&world, "m.json", &config_map("a"))
                .to_str()
                .unwrap(),
        ])
        .await;
    world
        .run(&["delete", "configmap", "-l", "nothing=here"])
        .await;
    world.run(&["delete", "configmap", "--all"]).await;
    assert!(world.server.list("configmaps", "default").is_empty());
}

#[tokio::test]
async fn delete_waits_for_finalizers() {
    let Some(world) = World::new().await else {
        return;
    };
    let mut held = website("one");
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    world.server.create(held).unwrap();
    let (mut child, _lines) = world.follow(&["delete", "website", "one"]);
    world.watched("websites").await;
    assert!(child.try_wait().unwrap().is_none());
    let free = json!({ "metadata": { "finalizers": null } });
    world
        .server
        .merge_patch("websites.example.com", "default", "one", &free)
        .unwrap();
    let status = tokio::time::timeout(TOO_LONG, child.wait())
        .await
        .unwrap()
        .unwrap();
    assert!(status.success());
}

#[tokio::test]
async fn get_watch_prints_changes_as_they_happen() {
    let Some(world) = World::new().await else {
        return;
    };
    world.server.create(website("one")).unwrap();
    let (_child, mut lines) = world.follow(&["get", "websites", "-w"]);
    let mut line = async || {
        let line = tokio::time::timeout(TOO_LONG, lines.next_line())
            .await
            .unwrap()
            .unwrap()
            .unwrap();
        line.split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<String>>()
    };
    assert_eq!(line().await, ["NAME", "IMAGE", "READY", "AGE"]);
    assert_eq!(line().await[0], "one");
    world.watched("websites").await;
    let ready = json!({ "status": { "conditions": [{ "type": "Ready", "status": "True" }] } });
    world
        .server
        .merge_patch("websites.example.com/status", "default", "one", &ready)
        .unwrap();
    assert_eq!(
        line().await[..3],
        ["one", "registry.example.com/site:1", "True"]
    );
    world.server.create(website("two")).unwrap();
    assert_eq!(line().await[0], "two");
}

#[tokio::test]
async fn wait_returns_when_the_condition_holds() {
    let Some(world) = World::new().await else {
        return;
    };
    world.server.create(website("one")).unwrap();
    let wait = [
        "wait", "--for=condition=Ready", "website/one", "--timeout=100s",
    ];
    let (mut child, mut lines) = world.follow(&wait);
    world.watched("websites").await;
    assert!(child.try_wait().unwrap().is_none());
    let ready = json!({ "status": { "conditions": [{ "type": "Ready", "status": "True" }] } });
    world
        .server
        .merge_patch("websites.example.com/status", "default", "one", &ready)
        .unwrap();
    let printed = tokio::time::timeout(TOO_LONG, lines.next_line())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        printed.as_deref(),
        Some("website.example.com/one condition met")
    );
    let status = tokio::time::timeout(TOO_LONG, child.wait())
        .await
        .unwrap()
        .unwrap();
    assert!(status.success());
}

#[tokio::test]
async fn apply_of_a_custom_resource() {
    let Some(world) = World::new().await else {
        return;
    };
    let path = write_file(&world, "one.json", &website("one"));
    world.run(&["apply", "-f", path.to_str().unwrap()]).await;
    let mut changed = website("one");
    changed["spec"]["image"] = json!("next");
    let path = write_file(&world, "one.json", &changed);
    let applied = world.run(&["apply", "-f", path.to_str().unwrap()]).await;
    assert_eq!(applied, "website.example.com/one configured\n");
    assert_eq!(world.site("one").unwrap()["spec"]["image"], "next");
}

/// kubectl sends strategic merge patches for built-in kinds.
#[tokio::test]
async fn apply_and_set_image_of_a_deployment() {
    let Some(world) = World::new().await else {
        return;
    };
    let path = write_file(&world, "d.json", &deployment("d"));
    let apply = ["apply", "-f", path.to_str().unwrap()];
    assert_eq!(world.run(&apply).await, "deployment.apps/d created\n");
    assert_eq!(world.run(&apply).await, "deployment.apps/d unchanged\n");
    let mut changed = deployment("d");
    changed["spec"]["replicas"] = json!(5);
    write_file(&world, "d.json", &changed);
    assert_eq!(world.run(&apply).await, "deployment.apps/d configured\n");
    world.run(&["set", "image", "deployment/d", "*=next"]).await;
    let found = world
        .server
        .get("deployments.apps", "default", "d")
        .unwrap();
    assert_eq!(found["spec"]["replicas"], 5);
    assert_eq!(
        found["spec"]["template"]["spec"]["containers"][0]["image"],
        "next"
    );
}

#[tokio::test]
async fn server_side_apply_meets_a_conflict_and_takes_the_field() {
    let Some(world) = World::new().await else {
        return;
    };
    let mut wanted = config_map("c");
    let path = write_file(&world, "c.json", &wanted);
    let path = path.to_str().unwrap();
    let one = ["apply", "--server-side", "--field-manager=one", "-f", path];
    let applied = "configmap/c serverside-applied\n";
    assert_eq!(world.run(&one).await, applied);
    wanted["data"]["k"] = json!("other");
    write_file(&world, "c.json", &wanted);
    let two = ["apply", "--server-side", "--field-manager=two", "-f", path];
    let refused = world.command(&two).output().await.unwrap();
    let complained = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(complained.contains("conflict with \"one\""), "{complained}");
    let forced = [&two[..], &["--force-conflicts"]].concat();
    assert_eq!(world.run(&forced).await, applied);
    let found = world.server.get("configmaps", "default", "c").unwrap();
    let owners = found["metadata"]["managedFields"].as_array().unwrap();
    assert_eq!((owners.len(), &owners[0]["manager"]), (1, &json!("two")));
}

#[tokio::test]
async fn edit_of_a_custom_resource() {
    let Some(world) = World::new().await else {
        return;
    };
    world.server.create(website("one")).unwrap();
    let mut command = world.command(&["edit", "website", "one"]);
    command.env("KUBE_EDITOR", "sed -i s/site:1/site:2/");
    let edited = finish(&["edit"], command.output()).await;
    assert_eq!(edited, "website.example.com/one edited\n");
    let image = &world.site("one").unwrap()["spec"]["image"];
    assert_eq!(image, "registry.example.com/site:2");
}

#[tokio::test]
async fn rollout_status_follows_a_deployment() {
    let Some(world) = World::new().await else {
        return;
    };
    world.server.create(deployment("d")).unwrap();
    let (mut child, mut lines) = world.follow(&["rollout", "status", "deployment/d"]);
    world.watched("deployments").await;
    let status = json!({ "status": {
        "observedGeneration": 1,
        "replicas": 2,
        "updatedReplicas": 2,
        "readyReplicas": 2,
        "availableReplicas": 2,
    } });
    world
        .server
        .merge_patch("deployments.apps/status", "default", "d", &status)
        .unwrap();
    let mut last = String::new();
    while let Some(line) = tokio::time::timeout(TOO_LONG, lines.next_line())
        .await
        .unwrap()
        .unwrap()
    {
        last = line;
    }
    assert_eq!(last, "deployment \"d\" successfully rolled out");
    assert!(
        tokio::time::timeout(TOO_LONG, child.wait())
            .await
            .unwrap()
            .unwrap()
            .success()
    );
}

#[tokio::test]
async fn a_namespace_is_created_and_deleted() {
    let Some(world) = World::new().await else {
        return;
    };
    let namespace =
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "team" } });
    let path = write_file(&world, "namespace.json", &namespace);
    world.run(&["create", "-f", path.to_str().unwrap()]).await;
    let path = write_file(&world, "map.json", &config_map("a"));
    world
        .run(&["create", "-n", "team", "-f", path.to_str().unwrap()])
        .await;
    let shown = world.run(&["get", "namespace", "team"]).await;
    assert!(shown.contains("Active"), "{shown}");
    world.run(&["delete", "namespace", "team"]).await;
    assert!(world.server.get("namespaces", "", "team").is_none());
    assert!(world.server.list("configmaps", "team").is_empty());
}
