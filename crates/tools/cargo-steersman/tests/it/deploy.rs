//! Tests `deploy` and `generate`: rules in rbac.extra.yaml, namespaces, and a missing kubectl.

use std::path::Path;
use std::process::Command;

use serde_json::json;
use steersman_testenv::apiserver::ApiServer;

use crate::cargo::{example_program, fails, steersman, succeeds, workspace};
use crate::scaffold::NEW;

/// Creates a new operator in a folder, and returns a function that makes commands in its folder.
fn operator(here: &Path) -> impl Fn(&[&str]) -> Command {
    succeeds(steersman(here).args(NEW));
    let folder = here.join("greeter");
    move |words: &[&str]| {
        let mut command = steersman(&folder);
        command.args(words);
        command
    }
}

/// Makes a command use a built program and the cluster of a kubeconfig.
pub(crate) fn in_cluster(mut command: Command, program: &Path, kubeconfig: &Path) -> Command {
    command.arg("--program").arg(program);
    command.env("KUBECONFIG", kubeconfig);
    command.env("HOME", kubeconfig.parent().unwrap());
    command
}

pub(crate) fn has_kubectl() -> bool {
    let mut kubectl = Command::new("kubectl");
    kubectl.args(["version", "--client"]).output().is_ok()
}

#[test]
fn rules_by_hand_are_in_the_role_and_an_error_names_their_file() {
    let here = tempfile::tempdir().unwrap();
    let run = operator(here.path());
    let program = example_program();
    let generate = ["generate", "rbac", "--program", program.to_str().unwrap()];
    let file = |name: &str| here.path().join("greeter").join(name);
    let rule = "rules:\n- apiGroups: [\"\"]\n  resources: [users]\n  verbs: [impersonate]\n";
    std::fs::write(file("rbac.extra.yaml"), rule).unwrap();
    succeeds(&mut run(&generate));
    let role = std::fs::read_to_string(file("config/rbac/role.yaml")).unwrap();
    assert!(role.contains("verbs: [impersonate]"), "{role}");
    // Without its file, the extra rule is gone.
    std::fs::remove_file(file("rbac.extra.yaml")).unwrap();
    succeeds(&mut run(&generate));
    let role = std::fs::read_to_string(file("config/rbac/role.yaml")).unwrap();
    assert!(!role.contains("impersonate"), "{role}");
    for (name, remedy) in [
        ("rbac.extra.yaml", "; correct the line"),
        (
            "rbac.observed.yaml",
            "; correct the line, or delete the file and run all tests",
        ),
    ] {
        std::fs::write(file(name), "rules:\n<<<<<<< HEAD\n").unwrap();
        let error = fails(&mut run(&generate));
        assert!(error.starts_with(&format!("error: {name}: ")), "{error}");
        assert!(error.trim_end().ends_with(remedy), "{error}");
    }
}

#[test]
fn a_missing_kubectl_is_noticed_before_the_build() {
    let here = tempfile::tempdir().unwrap();
    let run = operator(here.path());
    let mut deploy = run(&["deploy", "--program", "nothing"]);
    // Cargo is found by the variable CARGO, not on the PATH.
    let cargo = deploy.env("PATH", "").env("CARGO", env!("CARGO"));
    let error = fails(cargo);
    assert!(
        error.contains("kubectl, which must be on the PATH,"),
        "{error}"
    );
}

/// Writes a fake docker or podman, which fails for the first argument `fails_for` and prints other arguments.
#[cfg(unix)]
fn builder(folder: &Path, name: &str, fails_for: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    let program = folder.join(name);
    let text =
        format!("#!/bin/sh\nif [ \"$1\" = {fails_for} ]; then exit 1; fi\necho {name} \"$@\"\n");
    std::fs::write(&program, text).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[cfg(unix)]
#[test]
fn docker_without_buildx_does_not_build_from_sources_by_path() {
    let here = tempfile::tempdir().unwrap();
    let (sources, path) = (workspace(), here.path().join("path"));
    std::fs::create_dir(&path).unwrap();
    let words = ["--steersman-path", sources.to_str().unwrap()];
    succeeds(steersman(here.path()).args(NEW).args(words));
    let folder = here.path().join("greeter");
    let image = |folder: &Path| {
        let mut command = steersman(folder);
        command.args(["image", "--image", "greeter:1"]);
        command.env("PATH", &path).env("CARGO", env!("CARGO"));
        command
    };
    builder(&path, "docker", "buildx");
    let error = fails(&mut image(&folder));
    assert!(error.contains("install docker-buildx or podman"), "{error}");
    // The fake podman never fails, as podman needs no plugin.
    builder(&path, "podman", "nothing");
    let built = succeeds(&mut image(&folder));
    assert!(
        built.starts_with("podman build --tag greeter:1 --build-context steersman="),
        "{built}"
    );
    builder(&path, "docker", "nothing");
    assert!(succeeds(&mut image(&folder)).starts_with("docker build"));
}

#[tokio::test]
async fn a_namespace_of_another_name_must_exist_and_is_not_changed() {
    if !has_kubectl() {
        return;
    }
    let here = tempfile::tempdir().unwrap();
    let run = operator(here.path());
    let server = ApiServer::new();
    let serving = server.serve("127.0.0.1:0").await.unwrap();
    let kubeconfig = here.path().join("kubeconfig");
    serving.write_kubeconfig(&kubeconfig).unwrap();
    let program = example_program();
    let run = |words: &[&str]| in_cluster(run(words), &program, &kubeconfig);
    let mut deploy = run(&["deploy", "--namespace", "shop"]);
    let error = tokio::task::spawn_blocking(move || fails(&mut deploy));
    let error = error.await.unwrap();
    assert!(error.contains("`kubectl create namespace shop`"), "{error}");
    assert!(server.get("namespaces", "", "shop").is_none());

    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
    let before = server.create(namespace).unwrap();
    for mut command in [
        run(&["deploy", "--namespace", "shop"]),
        run(&["undeploy", "--namespace", "shop"]),
    ] {
        let ended = tokio::task::spawn_blocking(move || succeeds(&mut command));
        ended.await.unwrap();
        assert_eq!(server.get("namespaces", "", "shop"), Some(before.clone()));
    }
    // `deploy` creates the operator's own namespace.
    let mut deploy = run(&["deploy"]);
    let deployed = tokio::task::spawn_blocking(move || succeeds(&mut deploy));
    deployed.await.unwrap();
    let own = server.get("namespaces", "", "greeter-system").unwrap();
    let level = "pod-security.kubernetes.io/enforce";
    assert_eq!(own["metadata"]["labels"][level], "restricted");
    serving.stop().await;
}

/// The properties of a schema.
type Fields = serde_json::Map<String, serde_json::Value>;

/// DEF-1, DEF-2: `deploy` writes no definition by which objects would lose fields.
#[tokio::test]
async fn definitions_by_which_objects_would_lose_fields_are_not_written() {
    if !has_kubectl() {
        return;
    }
    let definitions = "customresourcedefinitions.apiextensions.k8s.io";
    let name = "greetings.example.com";
    let here = tempfile::tempdir().unwrap();
    let run = operator(here.path());
    let server = ApiServer::new();
    let serving = server.serve("127.0.0.1:0").await.unwrap();
    let kubeconfig = here.path().join("kubeconfig");
    serving.write_kubeconfig(&kubeconfig).unwrap();
    let program = example_program();
    let run = |words: &[&str]| in_cluster(run(words), &program, &kubeconfig);
    let wait = |mut command: Command, passes: bool| async move {
        let run = move || match passes {
            true => succeeds(&mut command),
            false => fails(&mut command),
        };
        tokio::task::spawn_blocking(run).await.unwrap()
    };
    wait(run(&["install"]), true).await;
    let spec = "/spec/versions/0/schema/openAPIV3Schema/properties/spec";
    let change = |change: fn(&mut Fields)| {
        let mut present = server.get(definitions, "", name).unwrap();
        let properties = present.pointer_mut(&format!("{spec}/properties"));
        change(properties.unwrap().as_object_mut().unwrap());
        server.install_crd(present).unwrap();
    };
    // A later release has added a field to the definition on the server.
    change(|fields| {
        fields.insert("added".to_owned(), json!({"type": "string"}));
    });
    let later = server.get(definitions, "", name).unwrap();
    for command in [run(&["install"]), run(&["deploy"])] {
        wait(command, true).await;
        assert_eq!(server.get(definitions, "", name).unwrap(), later);
    }
    // The definition on the server has the added field and lacks one of the program's fields.
    change(|fields| fields.retain(|name, _| name == "added"));
    let other = server.get(definitions, "", name).unwrap();
    let error = wait(run(&["install"]), false).await;
    assert!(
        error.contains("spec.added: the field is removed"),
        "{error}"
    );
    wait(run(&["deploy"]), true).await;
    assert_eq!(server.get(definitions, "", name).unwrap(), other);
    serving.stop().await;
}
