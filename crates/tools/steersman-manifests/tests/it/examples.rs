//! Example descriptions of operators.

use serde_json::{Value, json};
use steersman_description::Description;
use steersman_manifests::{Manifests, Options, RuleList};

/// The observed rules of the operator of [`everything`].
pub(crate) const OBSERVED: &str = "\
rules:
- apiGroups: [web.example.com]
  resources: [websites/status]
  verbs: [get, patch]
- apiGroups: [\"\"]
  resources: [configmaps, services]
  verbs: [create, patch, delete]
- apiGroups: [apps]
  resources: [deployments]
  verbs: [create, patch, delete]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
";

fn kind(group: &str, version: &str, kind: &str, plural: &str, namespaced: bool) -> Value {
    json!({"group": group, "version": version, "kind": kind, "plural": plural, "namespaced": namespaced})
}

fn version(name: &str, is_stored: bool, field: &str) -> Value {
    json!({
        "name": name, "served": true, "storage": is_stored, "subresources": {
            "status": {},
            "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.ready"},
        },
        "additionalPrinterColumns": [{"name": "Ready", "type": "integer", "jsonPath": ".status.ready"}],
        "schema": {"openAPIV3Schema": {
            "type": "object", "required": ["spec"],
            "description": "A website: {{ its }} pages, served by Pods.\n\nSee the documentation for what happens to a \
                            website without pages, and for everything else that takes more than a line.",
            "properties": {
                "spec": {"type": "object", "required": [field], "properties": {
                    field: {"type": "integer", "format": "int64", "minimum": 0},
                    "pages": {"type": "string", "description": "The name of the ConfigMap: its data are the pages"},
                }},
                "status": {"type": "object", "properties": {"ready": {"type": "integer", "format": "int64"}}},
            },
        }},
    })
}

/// Describes an operator that has definitions, webhooks and conversions.
pub(crate) fn everything() -> Description {
    let website = kind("web.example.com", "v1", "Website", "websites", true);
    let config_maps = kind("", "v1", "ConfigMap", "configmaps", true);
    let deployments = kind("apps", "v1", "Deployment", "deployments", true);
    let nodes = kind("", "v1", "Node", "nodes", false);
    let webhook =
        |path: &str, mutates: bool| json!({"path": path, "mutates": mutates, "object": website});
    let definition = json!({
        "metadata": {"name": "websites.web.example.com"},
        "spec": {
            "group": "web.example.com", "scope": "Namespaced",
            "names": {"kind": "Website", "plural": "websites", "singular": "website", "listKind": "WebsiteList"},
            "versions": [version("v1alpha1", false, "count"), version("v1", true, "replicas")],
        },
    });
    let description = json!({
        "name": "website-operator", "version": "1.4.2", "framework": "0.1.0",
        "definitions": [definition],
        "kinds": [config_maps, nodes, kind("", "v1", "Pod", "pods", true), deployments, website],
        "controllers": [{
            "name": "website",
            "primary": website,
            "owned": [config_maps, deployments],
            "watched": [website, config_maps, deployments, nodes],
            "neededRules": [{
                "rule": {"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]},
                "reason": "evicts Pods of\nwebsites that move",
            }],
        }],
        "webhooks": [
            webhook("/validate-web-example-com-v1-website", false),
            webhook("/mutate-web-example-com-v1-website", true),
        ],
        "converted": [{"group": "web.example.com", "version": "v1", "kind": "Website"}],
    });
    serde_json::from_value(description).unwrap()
}

/// Describes an operator that only watches built-in kinds, without definitions and webhooks.
pub(crate) fn simple() -> Description {
    let config_maps = kind("", "v1", "ConfigMap", "configmaps", true);
    let description = json!({
        "name": "counter", "version": "0.1.0", "framework": "0.1.0", "definitions": [],
        "kinds": [config_maps],
        "controllers": [{"name": "counter", "primary": config_maps, "watched": [config_maps]}],
        "webhooks": [], "converted": [],
    });
    serde_json::from_value(description).unwrap()
}

/// Returns the manifests of the operator of [`everything`].
pub(crate) fn manifests(options: &Options) -> Manifests {
    let observed = RuleList::parse("rbac.observed.yaml", OBSERVED).unwrap();
    Manifests::new(&everything(), &observed, options).unwrap()
}

/// Returns the options that the guide's page about production shows.
pub(crate) fn options() -> Options {
    Options {
        namespace: Some("websites-system".to_owned()),
        image: Some("registry.example.com/website-operator:1.4.2".to_owned()),
        ..Options::default()
    }
}
