//! Builds `config/default` with kubectl, with the optional parts and without them.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::process::Command;

use serde_json::Value;
use steersman_apimachinery::yaml;
use steersman_manifests::{Manifests, Options};

use crate::examples::{manifests, options};

/// Returns the objects of `config/default`; `None` without kubectl.
fn built(manifests: &Manifests) -> Option<Vec<Value>> {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in manifests.kustomize() {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let mut kubectl = Command::new("kubectl");
    let kubectl = kubectl.args(["kustomize", "config/default"]);
    let Ok(output) = kubectl.current_dir(folder.path()).output() else {
        let line = "skipped: kubectl cannot be run\n";
        // Unlike a macro for printing, this reaches the terminal although the test passes.
        std::io::stderr().write_all(line.as_bytes()).unwrap();
        return None;
    };
    assert!(output.status.success(), "{output:?}");
    let documents = yaml::documents(&String::from_utf8(output.stdout).unwrap()).unwrap();
    let values = documents.into_iter().map(|document| document.value);
    Some(values.collect())
}

fn is_monitoring(object: &Value) -> bool {
    let name = object["metadata"]["name"].as_str().unwrap();
    let kind = object["kind"].as_str().unwrap();
    ["ServiceMonitor", "PrometheusRule", "ConfigMap"].contains(&kind)
        || (kind == "ClusterRoleBinding" && name.ends_with("-metrics-reader"))
}

#[test]
fn the_objects_for_monitoring_are_built_only_if_the_options_say_so() {
    let Some(objects) = built(&manifests(&options())) else {
        return;
    };
    let found: Vec<&Value> = objects.iter().filter(|one| is_monitoring(one)).collect();
    assert_eq!(found, Vec::<&Value>::new());

    let chosen = manifests(&Options {
        prometheus: true,
        prometheus_account: Some("monitoring/prometheus-k8s".to_owned()),
        grafana_namespace: Some("grafana".to_owned()),
        ..options()
    });
    let objects = built(&chosen).unwrap();
    let found: Vec<&Value> = objects.iter().filter(|one| is_monitoring(one)).collect();
    let kinds: BTreeSet<&str> = found
        .iter()
        .map(|one| one["kind"].as_str().unwrap())
        .collect();
    assert_eq!(kinds.len(), 4, "{kinds:?}");
    let map = found.iter().find(|one| one["kind"] == "ConfigMap").unwrap();
    assert_eq!(map["metadata"]["namespace"], "grafana");
    assert_eq!(map["metadata"]["labels"]["grafana_dashboard"], "1");
    let files = chosen.kustomize();
    let dashboard: Value = serde_json::from_str(&files["config/grafana/dashboard.json"]).unwrap();
    let text = map["data"]["website-operator.json"].as_str().unwrap();
    assert_eq!(serde_json::from_str::<Value>(text).unwrap(), dashboard);
    // The installer, which `deploy` applies, has none of them.
    let installer = &chosen.install()["dist/install.yaml"];
    let mut installed = yaml::documents(installer).unwrap().into_iter();
    assert!(!installed.any(|document| is_monitoring(&document.value)));
}
