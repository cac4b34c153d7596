//! Tests the chart: its templates, and releases with several values.

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::{Value, json};
use steersman_apimachinery::yaml;
use steersman_manifests::{Files, Options};

use crate::examples::{manifests, options};
use crate::render::Renderer;

fn templates() -> Files {
    templates_with(&options())
}

fn templates_with(options: &Options) -> Files {
    let files = manifests(options).helm();
    let templates = files
        .into_iter()
        .filter(|(path, _)| path.contains("/templates/"));
    templates.collect()
}

/// Returns the actions of a template, without braces, trim markers and comments.
fn actions(text: &str) -> Vec<String> {
    let actions = text.split("{{").skip(1);
    let actions = actions.map(|action| action.split("}}").next().unwrap());
    let actions = actions.map(|action| action.trim_matches('-').trim().to_owned());
    actions.filter(|action| !action.starts_with("/*")).collect()
}

#[test]
fn every_block_of_a_template_ends() {
    for (path, text) in templates() {
        let mut open = 0_i32;
        for action in actions(&text) {
            match action.split(' ').next().unwrap() {
                "if" | "with" | "define" | "range" => open += 1,
                "else" => assert!(open > 0, "{path}: {action}"),
                "end" => open -= 1,
                _ => {}
            }
            assert!(open >= 0, "{path}: {action}");
        }
        assert_eq!(open, 0, "{path}");
    }
}

#[test]
fn every_value_of_a_template_is_among_the_values() {
    let files = manifests(&options()).helm();
    let values: Value = serde_saphyr::from_str(&files["dist/chart/values.yaml"]).unwrap();
    let mut used = 0;
    for (path, text) in templates() {
        for action in actions(&text) {
            for value in action.split(".Values.").skip(1) {
                let end = |char: char| !char.is_ascii_alphanumeric() && char != '.';
                let pointer = format!("/{}", value.split(end).next().unwrap().replace('.', "/"));
                assert!(values.pointer(&pointer).is_some(), "{path}: {pointer}");
                used += 1;
            }
        }
    }
    assert!(used > 20, "{used}");
}

#[test]
fn every_named_template_is_defined() {
    let files = templates();
    let helpers = &files["dist/chart/templates/_helpers.tpl"];
    let included: Vec<String> = files.values().flat_map(|text| actions(text)).collect();
    let included = included
        .iter()
        .filter(|action| action.starts_with("include "));
    let names: Vec<&str> = included
        .map(|action| action.split('"').nth(1).unwrap())
        .collect();
    assert!(!names.is_empty());
    for name in names {
        let definition = format!("define \"{name}\"");
        assert!(helpers.contains(&definition), "{name}");
    }
}

/// Returns the data that Helm passes to templates with these values.
fn data(values: &Value) -> Value {
    let chart = manifests(&options()).helm();
    let dashboard = &chart["dist/chart/dashboard.json"];
    let files = json!({"dashboard.json": dashboard});
    let chart: Value = yaml::parse(chart["dist/chart/Chart.yaml"].as_bytes()).unwrap();
    json!({
        "Release": {"Name": "true", "Namespace": "websites-system", "Service": "Helm"},
        "Chart": {"Name": chart["name"], "Version": chart["version"], "AppVersion": "1.4.2+build"},
        "Values": values,
        "Files": files,
    })
}

fn default_values() -> Value {
    let files = manifests(&options()).helm();
    yaml::parse(files["dist/chart/values.yaml"].as_bytes()).unwrap()
}

/// Sets every flag.
fn set_flags(values: &mut Value, flag: bool) {
    match values {
        Value::Bool(value) => *value = flag,
        Value::Object(map) => map.values_mut().for_each(|value| set_flags(value, flag)),
        _ => {}
    }
}

/// Returns the options for comparing charts with the installer: with the built-in authority, and with cert-manager.
fn compared_options() -> [Options; 2] {
    let cert_manager = Options {
        cert_manager: true,
        ..options()
    };
    [options(), cert_manager]
}

/// Returns the texts of a release by template, each with its parsed objects.
fn release(data: &Value) -> BTreeMap<String, (String, Vec<Value>)> {
    release_of(&templates(), data)
}

fn release_of(templates: &Files, data: &Value) -> BTreeMap<String, (String, Vec<Value>)> {
    let helpers = &templates["dist/chart/templates/_helpers.tpl"];
    let renderer = Renderer::new(helpers, data.clone());
    let rendered = templates.iter().filter(|(path, _)| path.ends_with(".yaml"));
    let rendered = rendered.map(|(path, text)| {
        let text = renderer.render(text);
        let documents =
            yaml::documents(&text).unwrap_or_else(|problem| panic!("{path}: {problem}\n{text}"));
        let objects = documents.into_iter().map(|document| document.value);
        (path.clone(), (text, objects.collect()))
    });
    rendered.collect()
}

#[test]
fn the_deployment_of_a_release_is_that_of_the_installer() {
    let mut data = data(&default_values());
    data["Chart"]["AppVersion"] = json!("1.4.2");
    for options in compared_options() {
        is_deployment_of_installer(&options, &data);
    }
}

fn is_deployment_of_installer(options: &Options, data: &Value) {
    let release = release_of(&templates_with(options), data);
    let mut ours = release["dist/chart/templates/manager/manager.yaml"].1[0].clone();
    let files = manifests(options).kustomize();
    let mut theirs = yaml::documents(&files["config/manager/manager.yaml"]).unwrap();
    let theirs = &mut theirs[0].value;
    // These parts may differ: another test checks Helm's labels, and the pull policy is that of kubelets by default.
    for labels in ["/metadata", "/spec/template/metadata"] {
        for object in [&mut ours, &mut *theirs] {
            let metadata = object.pointer_mut(labels).unwrap().as_object_mut().unwrap();
            metadata.remove("labels");
        }
    }
    let container = &mut ours["spec"]["template"]["spec"]["containers"][0];
    container.as_object_mut().unwrap().remove("imagePullPolicy");
    assert_eq!(ours, *theirs);
}

#[test]
fn the_deployment_of_a_release_has_its_values() {
    let mut values = default_values();
    set_flags(&mut values, true);
    let labels = json!({"team": "web", "number": "123"});
    for (key, value) in [
        ("args", json!(["--max-total-reconciles=16"])),
        ("env", json!([{"name": "A", "value": "yes"}])),
        ("podLabels", labels),
        ("podAnnotations", json!({"a": "true"})),
        ("imagePullSecrets", json!([{"name": "secret"}])),
        ("nodeSelector", json!({"disk": "1"})),
        ("tolerations", json!([{"key": "a", "operator": "Exists"}])),
        ("affinity", json!({"podAntiAffinity": {}})),
        ("priorityClassName", json!("123")),
    ] {
        values[key] = value;
    }
    let manager = "dist/chart/templates/manager/manager.yaml";
    let deployment = release(&data(&values))[manager].1[0].clone();
    let pod = &deployment["spec"]["template"];
    let container = &pod["spec"]["containers"][0];
    for (found, expected) in [
        (
            &deployment["metadata"]["labels"]["app.kubernetes.io/instance"],
            json!("true"),
        ),
        (
            &deployment["metadata"]["labels"]["app.kubernetes.io/version"],
            json!("1.4.2_build"),
        ),
        (&deployment["spec"]["replicas"], json!(2)),
        (&pod["metadata"]["labels"]["number"], json!("123")),
        (&pod["metadata"]["annotations"]["a"], json!("true")),
        (
            &pod["spec"]["imagePullSecrets"],
            values["imagePullSecrets"].clone(),
        ),
        (&pod["spec"]["nodeSelector"], values["nodeSelector"].clone()),
        (&pod["spec"]["tolerations"], values["tolerations"].clone()),
        (&pod["spec"]["affinity"], values["affinity"].clone()),
        (&pod["spec"]["priorityClassName"], json!("123")),
        (
            &container["image"],
            json!("registry.example.com/website-operator:1.4.2_build"),
        ),
        (&container["resources"], values["resources"].clone()),
        (&container["env"], values["env"].clone()),
    ] {
        assert_eq!(found, &expected, "{deployment}");
    }
    let args = container["args"].as_array().unwrap();
    assert!(
        args.contains(&json!("--max-total-reconciles=16")),
        "{args:?}"
    );
    values["image"]["tag"] = json!("sha256:00");
    let image = |values: &Value| {
        release(&data(values))[manager].1[0]["spec"]["template"]["spec"]["containers"][0]["image"]
            .clone()
    };
    assert_eq!(
        image(&values),
        "registry.example.com/website-operator@sha256:00"
    );
}

#[test]
fn without_its_flags_a_release_has_only_what_the_operator_needs() {
    let mut values = default_values();
    set_flags(&mut values, false);
    let mut kinds = Vec::new();
    for (path, (text, objects)) in release(&data(&values)) {
        // A template with a false condition has no object.
        for object in objects {
            assert!(object["kind"].is_string(), "{path}: {text}");
            kinds.push(object["kind"].as_str().unwrap().to_owned());
        }
    }
    kinds.sort();
    kinds.dedup();
    let expected = [
        "ClusterRole",
        "ClusterRoleBinding",
        "Deployment",
        "MutatingWebhookConfiguration",
        "Role",
        "RoleBinding",
        "Service",
        "ServiceAccount",
        "ValidatingWebhookConfiguration",
    ];
    assert_eq!(kinds, expected);
}

#[test]
fn every_value_is_used_by_a_template() {
    let texts: String = templates().into_values().collect();
    for (key, value) in default_values().as_object().unwrap() {
        let used = |path: &str| {
            let path = format!(".Values.{path}");
            let mut places = texts.match_indices(&path);
            places.any(|(at, _)| !texts[at + path.len()..].starts_with(char::is_alphanumeric))
        };
        let fields = value
            .as_object()
            .filter(|fields| !fields.is_empty() && key != "resources");
        match fields {
            Some(fields) => fields
                .keys()
                .for_each(|field| assert!(used(&format!("{key}.{field}")), "{key}.{field}")),
            None => assert!(used(key), "{key}"),
        }
    }
}

#[test]
fn a_release_has_the_dashboard_and_permits_prometheus_if_its_values_say_so() {
    let chosen = Options {
        prometheus: true,
        prometheus_account: Some("monitoring/prometheus-k8s".to_owned()),
        grafana_namespace: Some("grafana".to_owned()),
        ..options()
    };
    let files = manifests(&chosen).helm();
    let mut values: Value = yaml::parse(files["dist/chart/values.yaml"].as_bytes()).unwrap();
    let labels = json!({"release": "kube-prometheus-stack"});
    values["prometheus"]["labels"] = labels;
    let release = release(&data(&values));
    let object = |path: &str| release[&format!("dist/chart/templates/{path}")].1[0].clone();

    let binding = object("prometheus/metrics_reader_binding.yaml");
    let config = manifests(&chosen).kustomize();
    let expected = &config["config/prometheus/metrics_reader_binding.yaml"];
    assert_eq!(binding, yaml::parse(expected.as_bytes()).unwrap());

    let dashboard = object("grafana/dashboard.yaml");
    assert_eq!(dashboard["metadata"]["namespace"], "grafana");
    assert_eq!(dashboard["metadata"]["labels"]["grafana_dashboard"], "1");
    let text = dashboard["data"]["website-operator.json"].as_str().unwrap();
    assert_eq!(text.trim(), config["config/grafana/dashboard.json"].trim());

    for file in ["monitor.yaml", "alerts.yaml"] {
        let labels = &object(&format!("prometheus/{file}"))["metadata"]["labels"];
        assert_eq!(labels["release"], "kube-prometheus-stack", "{file}");
        assert_eq!(
            labels["app.kubernetes.io/name"], "website-operator",
            "{file}"
        );
    }
}

/// If Helm is installed, it renders the same objects as this test's renderer.
#[test]
fn helm_renders_the_objects_of_this_test() {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in manifests(&options()).helm() {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let mut helm = Command::new("helm");
    let words = [
        "template", "true", "dist/chart", "--namespace", "websites-system",
    ];
    let Ok(output) = helm.args(words).current_dir(folder.path()).output() else {
        return;
    };
    assert!(output.status.success(), "{output:?}");
    let mut data = data(&default_values());
    data["Chart"]["AppVersion"] = json!("1.4.2");
    let sorted = |objects: Vec<Value>| {
        let mut texts: Vec<String> = objects.iter().map(ToString::to_string).collect();
        texts.sort();
        texts
    };
    let text = String::from_utf8(output.stdout).unwrap();
    let theirs = yaml::documents(&text).unwrap().into_iter();
    let ours = release(&data)
        .into_values()
        .flat_map(|(_, objects)| objects);
    assert_eq!(
        sorted(theirs.map(|document| document.value).collect()),
        sorted(ours.collect())
    );
}

#[test]
fn a_release_has_the_objects_of_the_installer() {
    for options in compared_options() {
        has_objects_of_installer(&options);
    }
}

fn has_objects_of_installer(options: &Options) {
    let config = manifests(options).kustomize();
    let mut values = default_values();
    set_flags(&mut values, true);
    let templates = templates_with(options);
    let release = release_of(&templates, &data(&values));
    let mut compared = 0;
    for (path, _) in templates {
        let source = path.replace("dist/chart/templates/", "config/");
        let of_chart = [
            "manager.yaml", "service_account.yaml", "dashboard.yaml", "metrics_reader_binding.yaml",
        ];
        let is_of_chart = of_chart.iter().any(|name| source.ends_with(name));
        if is_of_chart || !source.ends_with(".yaml") {
            continue;
        }
        let read = |text: &str| -> Vec<Value> {
            let documents = text.split("---\n");
            documents
                .map(|document| serde_saphyr::from_str(document).unwrap())
                .collect()
        };
        let mut objects = read(&release[&path].0);
        let metadata = &mut objects[0]["metadata"];
        if let Some(annotations) = metadata["annotations"].as_object_mut() {
            annotations.remove("helm.sh/resource-policy");
        }
        if metadata["annotations"] == json!({}) || metadata["annotations"].is_null() {
            metadata.as_object_mut().unwrap().remove("annotations");
        }
        assert_eq!(objects, read(&config[&source]), "{path}");
        compared += 1;
    }
    assert!(compared > 15, "{compared}");
}
