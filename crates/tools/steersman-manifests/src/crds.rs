//! Machine: the definitions as files.

use serde_json::json;

use crate::files::{FROM_PROGRAM, Files, header};
use crate::operator::Operator;
use crate::yaml;

/// Returns a file per definition, and the kustomization of their folder.
pub(crate) fn files(operator: &Operator) -> Files {
    let mut files = Files::new();
    let mut names = Vec::new();
    for own in &operator.own {
        let name = format!("{}_{}.yaml", own.group, own.plural);
        let text = header(FROM_PROGRAM) + &yaml::document(&own.definition);
        files.insert(format!("config/crd/{name}"), text);
        names.push(name);
    }
    if !names.is_empty() {
        let kustomization = kustomization(&names);
        files.insert("config/crd/kustomization.yaml".to_owned(), kustomization);
    }
    files
}

/// Returns a kustomization of these files.
pub(crate) fn kustomization(resources: &[String]) -> String {
    let value = json!({
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
    });
    let mut text = header(FROM_PROGRAM) + &yaml::document(&value) + "resources:\n";
    for resource in resources {
        text.push_str("- ");
        text.push_str(resource);
        text.push('\n');
    }
    text
}
