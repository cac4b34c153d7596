//! Tests `cargo steersman doctor` with an API server that enforces RBAC.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use steersman_testenv::apiserver::manifests;

use crate::cargo::{example_program, steersman, succeeds};
use crate::examined::{Examined, ROLES, assert_has, examine};
use crate::scaffold::NEW;

const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";
const LEASES: &str = "leases.coordination.k8s.io";

/// Damages a deployed operator: a definition lacks a field, an object is invalid, a role lacks a rule, the Lease is
/// expired.
fn damage(cluster: &Examined) {
    let server = &cluster.server;
    let mut definition = server
        .get(DEFINITIONS, "", "greetings.example.com")
        .unwrap();
    let schema = "/spec/versions/0/schema/openAPIV3Schema/properties";
    let strict = definition.clone();
    let spec = definition.pointer_mut(&format!("{schema}/spec")).unwrap();
    spec.as_object_mut().unwrap().remove("required");
    server.install_crd(definition).unwrap();
    let object = json!({
        "apiVersion": "example.com/v1alpha1", "kind": "Greeting", "metadata": {"name": "mute"}, "spec": {},
    });
    server.create(object).unwrap();
    let mut older = strict;
    let status = older
        .pointer_mut(&format!("{schema}/status/properties"))
        .unwrap();
    status
        .as_object_mut()
        .unwrap()
        .remove("observedGeneration")
        .unwrap();
    server.install_crd(older).unwrap();
    let mut role = server.get(ROLES, "", "greeter").unwrap();
    let rules = role["rules"].as_array_mut().unwrap();
    rules.retain(|rule| !rule["resources"].to_string().contains("configmaps"));
    server.update(ROLES, role).unwrap();
    cluster.renew(3600);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_healthy_operator_has_no_problem_and_each_defect_is_found() {
    let cluster = Examined::deployed(|_| example_program()).await;
    for sample in manifests::read(cluster.folder.join("config/samples")).unwrap() {
        cluster.server.apply(&sample.object, "test").unwrap();
    }
    let (report, is_healthy) = cluster.doctor(None);
    assert!(is_healthy, "{report}");
    assert_has(
        &report,
        &[
            "greetings.example.com is served in v1alpha1",
            "greetings.example.com is that of the program",
            "has all ",
            "is held by greeter-a",
            "has 2 of 2 replicas available, with the image greeter:",
            "the object of greetings.example.com fits the schema of v1alpha1",
            "\n0 problems, 0 unknown, ",
        ],
    );

    damage(&cluster);
    let (report, is_healthy) = cluster.doctor(None);
    assert!(!is_healthy, "{report}");
    assert_has(
        &report,
        &[
            "greetings.example.com differs from that of the program",
            "- v1alpha1.status.observedGeneration: the server lacks the field",
            "greeter-system/greeter lacks rules of the ClusterRole greeter\n",
            "           - get, list, watch, create, patch, delete configmaps; implied: the controller greeting owns them\n",
            "             - apiGroups: [\"\"]\n               resources: [configmaps]\n               \
             verbs: [get, list, watch, create, patch, delete]\n",
            "renewed 60 min ago, and expired after 15 s",
            "1 of 2 greetings.example.com does not fit the schema of v1alpha1",
            "- default/mute: spec.message: Required value",
            "\n4 problems, 0 unknown, ",
            "error: greeter has 4 problems",
        ],
    );

    // The definition is deleted, and the user has no permissions.
    let server = &cluster.server;
    server
        .delete(DEFINITIONS, "", "greetings.example.com")
        .unwrap();
    server.delete(LEASES, "greeter-system", "greeter").unwrap();
    let (report, _) = cluster.doctor(None);
    assert_has(
        &report,
        &[
            "greetings.example.com is missing",
            "Lease greeter-system/greeter does not exist",
        ],
    );
    let (report, is_healthy) = cluster.doctor(Some("guest"));
    assert!(!is_healthy, "{report}");
    assert_has(
        &report,
        &[
            "the credentials are those of guest",
            "configmaps is served in v1",
            "the permissions of the account greeter-system/greeter cannot be checked",
            "may create subjectaccessreviews.authorization.k8s.io",
            "Deployment greeter-system/greeter cannot be checked: deployments.apps \"greeter\" is forbidden",
        ],
    );
    let Examined {
        serving,
        folder,
        program,
        here: _here,
        ..
    } = cluster;
    serving.stop().await;
    let (report, _) = examine(&folder, &program);
    assert_has(
        &report,
        &["does not answer: ", "\n1 problem, 0 unknown, 0 ok"],
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_is_examined_where_its_deployment_and_its_lease_are() {
    let here = tempfile::tempdir().unwrap();
    succeeds(steersman(here.path()).args(NEW));
    let folder = here.path().join("greeter");
    let program = example_program();
    let mut generate = steersman(&folder);
    generate.args(["generate", "--namespace", "shop", "--program"]);
    succeeds(generate.arg(&program));
    let cluster = Examined::starting(&folder, &program).await;
    let server = &cluster.server;
    for name in ["shop", "leases"] {
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        server.create(namespace).unwrap();
    }
    let elsewhere = "--leader-election-namespace=leases";
    for manifest in manifests::read(folder.join("dist/install.yaml")).unwrap() {
        let mut object = manifest.object;
        if object["kind"] == "Deployment" {
            let args = &mut object["spec"]["template"]["spec"]["containers"][0]["args"];
            args.as_array_mut().unwrap().push(json!(elsewhere));
        }
        server.apply(&object, "test").unwrap();
    }
    let (report, _) = cluster.doctor(None);
    assert_has(
        &report,
        &[
            "Deployment shop/greeter has ",
            "Lease leases/greeter does not exist",
            "the account shop/greeter lacks rules of the Role greeter-leader-election in leases\n",
        ],
    );
    // The other rules are in the ClusterRole.
    assert!(
        !report.contains("lacks rules of the ClusterRole"),
        "{report}"
    );
    cluster.serving.stop().await;
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn webhooks_are_called_after_the_leader_has_injected_its_authority() {
    let cluster = Examined::deployed(with_webhooks).await;
    let server = &cluster.server;
    // The definition is that of the former release, and the Service has no endpoints.
    let mut definition = server
        .get(DEFINITIONS, "", "greetings.example.com")
        .unwrap();
    definition["status"]["storedVersions"] = json!(["v1alpha1", "v1"]);
    server
        .update(&format!("{DEFINITIONS}/status"), definition)
        .unwrap();
    let mut service = server.get("services", "greeter-system", "greeter").unwrap();
    let selector = service["spec"]["selector"].clone();
    service["spec"]["selector"] = json!({"app": "another"});
    server.update("services", service.clone()).unwrap();
    let (report, is_healthy) = cluster.doctor(None);
    assert!(!is_healthy, "{report}");
    assert_has(
        &report,
        &[
            "the conversion webhook of greetings.example.com has no caBundle",
            "the webhook mutate.greetings.example.com has no caBundle",
            "the webhook validate.greetings.example.com has no caBundle",
            "Service greeter-system/greeter has no ready endpoint",
            "Secret greeter-system/greeter-certificates is missing",
            "greetings.example.com may have objects that are stored in v1alpha1",
            "the leader stores them anew by itself",
        ],
    );

    let mut definition = server
        .get(DEFINITIONS, "", "greetings.example.com")
        .unwrap();
    definition["status"]["storedVersions"] = json!(["v1"]);
    server
        .update(&format!("{DEFINITIONS}/status"), definition)
        .unwrap();
    let mut service = server.get("services", "greeter-system", "greeter").unwrap();
    service["spec"]["selector"] = selector;
    server.update("services", service).unwrap();
    cluster.inject_authority().await;

    // The CA bundle is another, the role lacks a rule, and the definition has no conversion.
    let configurations = "validatingwebhookconfigurations.admissionregistration.k8s.io";
    let mut validating = server.get(configurations, "", "greeter").unwrap();
    validating["webhooks"][0]["clientConfig"]["caBundle"] = json!("b3RoZXI=");
    validating["webhooks"][0]["rules"][0]["operations"] = json!(["CREATE"]);
    server.update(configurations, validating).unwrap();
    let mut definition = server
        .get(DEFINITIONS, "", "greetings.example.com")
        .unwrap();
    definition["spec"]["conversion"] = json!({"strategy": "None"});
    server.update(DEFINITIONS, definition).unwrap();
    let (report, _) = cluster.doctor(None);
    assert_has(
        &report,
        &[
            "the webhook validate.greetings.example.com differs from the program's in its rules",
            "the webhook validate.greetings.example.com has another caBundle than the operator's Secret",
            "greetings.example.com has several versions and no conversion webhook",
            "\n3 problems, 0 unknown, ",
        ],
    );
    cluster.serving.stop().await;
}

// MANIFEST-3: the implied rules suffice, and `doctor` names each rule that is missing.
#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn each_rule_that_a_role_lacks_is_named_with_its_reason() {
    let cluster = Examined::deployed(with_webhooks).await;
    cluster.inject_authority().await;
    assert_eq!(cluster.names_each_lacking_rule(), 17);
    cluster.serving.stop().await;
}

/// Makes a program that describes greeter with a second version, webhooks, and a rule of its controller.
#[cfg(unix)]
fn with_webhooks(folder: &Path) -> PathBuf {
    use std::os::unix::fs::PermissionsExt as _;
    let described = succeeds(Command::new(example_program()).arg("describe"));
    let mut description: Value = serde_json::from_str(&described).unwrap();
    let versions = &mut description["definitions"][0]["spec"]["versions"];
    let mut stored = versions[0].clone();
    stored["name"] = json!("v1");
    versions[0]["storage"] = json!(false);
    versions.as_array_mut().unwrap().push(stored);
    let object = description["kinds"]
        .as_array()
        .unwrap()
        .iter()
        .find(|kind| kind["kind"] == "Greeting");
    let object = object.unwrap().clone();
    description["controllers"][0]["neededRules"] = json!([{
        "rule": {"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]},
        "reason": "evicts Pods",
    }]);
    description["webhooks"] = json!([
        {"path": "/mutate", "mutates": true, "object": object},
        {"path": "/validate", "mutates": false, "object": object},
    ]);
    description["converted"] =
        json!([{"group": "example.com", "version": "v1", "kind": "Greeting"}]);
    let (text, program) = (folder.join("description.json"), folder.join("program"));
    std::fs::write(&text, description.to_string()).unwrap();
    std::fs::write(&program, format!("#!/bin/sh\ncat '{}'\n", text.display())).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    program
}
