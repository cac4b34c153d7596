//! Tests how a definition is prepared for a manifest.

use serde_json::{Value, json};

use super::OwnKind;

fn definition(schema: &Value) -> Value {
    json!({
        "metadata": {"name": "websites.web.example.com"},
        "spec": {
            "group": "web.example.com", "scope": "Namespaced",
            "names": {"kind": "Website", "plural": "websites"},
            "versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}}],
        },
        "status": {"conditions": []},
    })
}

#[test]
fn a_definition_has_its_type_and_no_status() {
    let kind = OwnKind::of(&definition(&json!({}))).unwrap();
    assert_eq!(kind.definition["apiVersion"], "apiextensions.k8s.io/v1");
    assert_eq!(kind.definition["kind"], "CustomResourceDefinition");
    assert_eq!(kind.definition.get("status"), None);
    assert_eq!(kind.name(), "websites.web.example.com");
}

#[test]
fn a_definition_without_a_group_is_refused_with_its_name() {
    let mut incomplete = definition(&json!({}));
    incomplete["spec"]["group"] = Value::Null;
    let refused = OwnKind::of(&incomplete).unwrap_err().to_string();
    let start = "the definition \"websites.web.example.com\" of the program has no spec/group:";
    assert!(refused.starts_with(start), "{refused}");
}
