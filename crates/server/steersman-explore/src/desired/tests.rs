//! Tests of desired states.

use std::sync::Arc;

use serde_json::{Value, json};
use steersman_cel::structural::Structural;

use super::schema_walk::changes;
use super::*;
use crate::field_pattern::FieldPattern;
use crate::scenario::{KindField, Scenario, ScenarioRules, Step};

/// Returns the changes of `spec` by the schema of its properties, as paths with their written values.
#[expect(clippy::needless_pass_by_value, reason = "callers pass new values")]
fn changed(schema: Value, spec: Value) -> Vec<String> {
    let schema = Structural::compile(&json!({"properties": {"spec": schema}}));
    let object = json!({"kind": "Site", "metadata": {"name": "a"}, "spec": spec});
    let all = changes(&schema, &object).into_iter();
    let texts = all.map(|one| match one.value {
        Some(value) => format!("{}={value}", one.path),
        None => format!("-{}", one.path),
    });
    texts.filter(|text| text != "-spec").collect()
}

#[expect(clippy::needless_pass_by_value, reason = "callers pass new values")]
fn of_field(schema: Value, value: Value) -> Vec<String> {
    let schema = json!({"type": "object", "required": ["a"], "properties": {"a": schema}});
    changed(schema, json!({"a": value}))
}

#[test]
fn a_number_goes_up_and_down_and_to_near_bounds() {
    let plain = of_field(json!({"type": "integer"}), json!(3));
    assert_eq!(plain, ["spec.a=4", "spec.a=2", "spec.a=0"]);
    let bounds = json!({"type": "integer", "minimum": 1, "maximum": 7});
    assert_eq!(
        of_field(bounds, json!(3)),
        ["spec.a=4", "spec.a=2", "spec.a=1", "spec.a=7"]
    );
    let far = json!({"type": "integer", "minimum": 3, "maximum": 1_000_000});
    assert_eq!(of_field(far, json!(3)), ["spec.a=4"]);
    let excluded = json!({"type": "integer", "minimum": 1, "exclusiveMinimum": true, "maximum": 4,
        "exclusiveMaximum": true});
    assert_eq!(of_field(excluded, json!(2)), ["spec.a=3"]);
    let multiple = json!({"type": "integer", "multipleOf": 5});
    assert_eq!(
        of_field(multiple, json!(10)),
        ["spec.a=15", "spec.a=5", "spec.a=0"]
    );
}

#[test]
fn a_text_changes_to_one_like_it_and_to_its_bounds() {
    let plain = json!({"type": "string"});
    assert_eq!(
        of_field(plain.clone(), json!("web")),
        ["spec.a=\"web-2\"", "spec.a=\"\""]
    );
    assert_eq!(
        of_field(plain.clone(), json!("nginx:1.27"))[0],
        "spec.a=\"nginx:1.28\""
    );
    assert_eq!(of_field(plain.clone(), json!("10Gi"))[0], "spec.a=\"11Gi\"");
    assert_eq!(of_field(plain, json!("v09"))[0], "spec.a=\"v10\"");
    let lengths = json!({"type": "string", "minLength": 2, "maxLength": 5});
    assert_eq!(
        of_field(lengths, json!("web")),
        ["spec.a=\"web-2\"", "spec.a=\"we\"", "spec.a=\"webaa\""]
    );
    let pattern = json!({"type": "string", "pattern": "^[a-z]+$"});
    assert_eq!(of_field(pattern, json!("web")), ["spec.a=\"a\""]);
    let time = json!({"type": "string", "format": "date-time"});
    assert_eq!(
        of_field(time, json!("2026-01-01T00:00:00Z")),
        ["spec.a=\"2026-01-01T00:00:01Z\""]
    );
}

#[test]
fn enumerations_and_booleans_take_each_value() {
    let values = json!({"type": "string", "enum": ["a", "b", "c"]});
    assert_eq!(
        of_field(values.clone(), json!("b")),
        ["spec.a=\"a\"", "spec.a=\"c\""]
    );
    assert_eq!(
        of_field(json!({"type": "boolean"}), json!(true)),
        ["spec.a=false"]
    );
    let absent = changed(json!({"properties": {"a": values}}), json!({}));
    assert_eq!(absent, ["spec.a=\"a\"", "spec.a=\"b\"", "spec.a=\"c\""]);
}

#[test]
fn an_optional_field_is_added_and_removed_and_a_required_one_stays() {
    let schema = json!({"required": ["a"], "properties": {
        "a": {"type": "boolean"}, "b": {"type": "boolean"}, "c": {"type": "integer", "minimum": 2},
    }});
    let all = changed(schema, json!({"a": true, "b": false}));
    assert_eq!(all, ["spec.a=false", "spec.b=true", "-spec.b", "spec.c=2"]);
}

#[test]
fn lists_grow_and_shrink_and_change_their_order() {
    let names = json!({"type": "array", "items": {"type": "string"}});
    let all = of_field(names, json!(["x1", "y1"]));
    let lists = [
        "spec.a=[\"x1\",\"y1\",\"y2\"]",
        "spec.a=[\"x1\"]",
        "spec.a=[\"y1\"]",
        "spec.a=[]",
        "spec.a=[\"y1\",\"x1\"]",
    ];
    assert_eq!(all[..5], lists);
    assert!(all.contains(&"spec.a[0]=\"x2\"".to_owned()), "{all:?}");
    let ports = json!({
        "type": "array", "minItems": 1, "maxItems": 2, "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["port"],
        "items": {"required": ["port"], "properties": {"port": {"type": "integer"}, "tls": {"type": "boolean"}}},
    });
    let all = of_field(ports, json!([{"port": 80}]));
    assert_eq!(all[0], "spec.a=[{\"port\":80},{\"port\":81}]");
    assert!(!all.contains(&"spec.a=[]".to_owned()), "{all:?}");
    assert!(all.contains(&"spec.a[0].tls=true".to_owned()), "{all:?}");
}

#[test]
fn maps_gain_and_lose_entries() {
    let labels = json!({"type": "object", "additionalProperties": {"type": "string"}});
    let all = of_field(labels.clone(), json!({"x": "1"}));
    assert_eq!(
        all,
        [
            "spec.a.x=\"2\"", "spec.a.x=\"\"", "-spec.a.x", "spec.a.x-2=\"1\""
        ]
    );
    let absent = changed(json!({"properties": {"a": labels}}), json!({}));
    assert_eq!(absent[0], "spec.a={\"example\":\"a\"}");
}

#[test]
fn an_absent_object_is_added_with_what_it_requires_and_then_each_other_field() {
    let schema = json!({"properties": {"a": {
        "type": "object", "required": ["size"],
        "properties": {"size": {"type": "integer", "minimum": 1}, "fast": {"type": "boolean"}},
    }}});
    let all = changed(schema, json!({}));
    assert_eq!(all[0], "spec.a={\"size\":1}");
    assert!(
        all.contains(&"spec.a.fast={\"fast\":true,\"size\":1}".to_owned()),
        "{all:?}"
    );
}

/// A definition with the schema of `spec`.
#[expect(clippy::needless_pass_by_value, reason = "callers pass new values")]
fn definition(spec: Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "spec": {
            "group": "example.com", "names": {"kind": "Site"},
            "versions": [{"name": "v1", "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"spec": spec, "status": {"type": "object",
                    "properties": {"ready": {"type": "boolean"}}}},
            }}}],
        },
    })
}

#[expect(clippy::needless_pass_by_value, reason = "callers pass new values")]
fn site(spec: Value) -> Value {
    json!({
        "apiVersion": "example.com/v1", "kind": "Site", "spec": spec,
        "metadata": {"namespace": "shop", "name": "a"},
    })
}

fn scenario(rules: ScenarioRules) -> Scenario {
    let schema = json!({"type": "object", "properties": {
        "size": {"type": "integer", "default": 1}, "color": {"type": "string"},
    }});
    let apply = |object: Value| Step::Apply {
        source: "a.yaml".to_owned(),
        objects: vec![object],
    };
    let id = crate::object_id::ObjectId::of(&site(json!({})));
    let merge = Step::Merge {
        api_version: "example.com/v1".to_owned(),
        object: id.clone(),
        patch: json!({"spec": {"size": 9}}),
    };
    let delete = Step::Delete {
        api_version: "example.com/v1".to_owned(),
        object: id,
    };
    let pages = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "pages"}});
    let steps = vec![
        apply(pages),
        Step::Quiet,
        apply(site(json!({"color": "red"}))),
        merge,
        Step::Quiet,
        delete,
    ];
    Scenario {
        initial: vec![definition(schema)].into(),
        steps: steps.into(),
        rules: Arc::new(rules),
    }
}

#[test]
fn a_change_begins_at_the_first_quiet_step_with_the_object() {
    let all = targets(&scenario(ScenarioRules::default()), &mut Vec::new());
    let [target] = all.as_slice() else {
        panic!("{all:?}");
    };
    // The patch and the deletion would leave another object.
    assert_eq!((target.scenario.steps.len(), target.quiet_step), (4, 1));
    let texts: Vec<&str> = target.changes.iter().map(|one| one.text.as_str()).collect();
    assert_eq!(
        texts,
        [
            "Site without spec",
            "spec.color: \"red-2\" instead of \"red\"",
            "spec.color: \"\" instead of \"red\"",
            "Site without spec.color",
            "spec.size: 2 instead of 1",
            "spec.size: 0 instead of 1",
        ]
    );
    let change = &target.changes[4];
    let alone = target.alone(change);
    let Step::Apply { objects, source } = &alone.steps[2] else {
        panic!("{:?}", alone.steps);
    };
    assert_eq!(source, "a.yaml with spec.size: 2 instead of 1");
    assert_eq!(objects[0]["spec"], json!({"color": "red", "size": 2}));
    let back = target.there_and_back(change, true);
    let Step::Apply { objects, .. } = &back.steps[6] else {
        panic!("{:?}", back.steps);
    };
    assert_eq!(objects[0], site(json!({"color": "red"})));
}

#[test]
fn fields_are_chosen_by_path() {
    let field = |path: &str| KindField {
        kind: "Site".to_owned(),
        field: FieldPattern::parse(path).unwrap(),
    };
    let paths = |only: &[&str], skip: &[&str]| {
        let mut rules = ScenarioRules::default();
        rules.desired_states.only = only.iter().map(|path| field(path)).collect();
        rules.desired_states.skip = skip.iter().map(|path| field(path)).collect();
        let all = targets(&scenario(rules), &mut Vec::new())
            .into_iter()
            .flat_map(|target| target.changes);
        let mut paths: Vec<String> = all.map(|change| change.path.to_string()).collect();
        paths.dedup();
        paths
    };
    assert_eq!(paths(&["spec.size"], &[]), ["spec.size"]);
    assert_eq!(paths(&["spec.*"], &["spec.color"]), ["spec.size"]);
    // To remove `spec` would change both.
    assert!(paths(&[], &["spec.color", "spec.size"]).is_empty());
    assert!(paths(&[], &["spec"]).is_empty());
}

#[test]
fn only_the_desired_state_of_an_object_is_restored() {
    let mut object = site(json!({"size": 2}));
    object["status"] = json!({"ready": true});
    let earlier = site(json!({"size": 1}));
    assert!(restore(&mut object, &earlier));
    assert_eq!(
        (&object["spec"], &object["status"]["ready"]),
        (&earlier["spec"], &json!(true))
    );
    assert!(!restore(&mut object, &earlier));
}

#[test]
fn a_chosen_field_that_no_kind_has_is_named() {
    let mut rules = ScenarioRules::default();
    let field = |kind: &str, path: &str| KindField {
        kind: kind.to_owned(),
        field: FieldPattern::parse(path).unwrap(),
    };
    rules.desired_states.only = vec![field("Site", "spec.size"), field("Site", "spec.sise")];
    rules.desired_states.skip = vec![field("Sites", "spec"), field("Site", "spec.*")];
    let mut unmatched = Vec::new();
    targets(&scenario(rules), &mut unmatched);
    assert_eq!(unmatched, ["Site spec.sise", "Sites spec"]);
}
