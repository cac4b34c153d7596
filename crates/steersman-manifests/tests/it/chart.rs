//! The templates of the chart: their actions are closed, and without them they are the objects of `config`.

use serde_json::Value;
use steersman_manifests::Files;

use crate::examples::{manifests, options};

fn templates() -> Files {
    let files = manifests(&options()).helm();
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

/// Returns a template with the namespace of a release, as if all its conditions held.
fn rendered(text: &str) -> String {
    let lines = text.lines().filter(|line| {
        let line = line.trim_start();
        !line.starts_with("{{-")
    });
    let text: String = lines.flat_map(|line| [line, "\n"]).collect();
    let text = text.replace("{{ .Release.Namespace | quote }}", "websites-system");
    let text = text.replace("{{ .Release.Namespace }}", "websites-system");
    text.replace(r#"{{ "{{" }}"#, "{{")
}

#[test]
fn a_release_has_the_objects_of_the_installer() {
    let config = manifests(&options()).kustomize();
    let mut compared = 0;
    for (path, text) in templates() {
        let source = path.replace("dist/chart/templates/", "config/");
        let is_of_chart = ["manager.yaml", "service_account.yaml"].iter();
        let is_of_chart = is_of_chart.clone().any(|name| source.ends_with(name));
        if is_of_chart || !source.ends_with(".yaml") {
            continue;
        }
        let read = |text: &str| -> Vec<Value> {
            let documents = text.split("---\n");
            documents
                .map(|document| serde_saphyr::from_str(document).unwrap())
                .collect()
        };
        let mut objects = read(&rendered(&text));
        if let Some(metadata) = objects[0]["metadata"].as_object_mut() {
            metadata.remove("annotations");
        }
        assert_eq!(objects, read(&config[&source]), "{path}");
        compared += 1;
    }
    assert!(compared > 15, "{compared}");
}
