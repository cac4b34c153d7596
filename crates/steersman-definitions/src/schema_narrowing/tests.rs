//! Each rule with a schema that accepts less, and the same pair the other way round.

use serde_json::json;

use super::*;

fn found(old: &Value, new: &Value) -> Vec<String> {
    let mut found = Vec::new();
    compare(old, new, "v1", &mut found);
    let text = |one: Narrowing| format!("{}: {}", one.path, one.problem);
    found.into_iter().map(text).collect()
}

/// The schema of a field below an object.
fn field(schema: &Value) -> Value {
    json!({"type": "object", "properties": {"a": schema}})
}

/// DEF-1
#[test]
fn each_narrowing_is_found_and_its_reverse_is_none() {
    let string = json!({"type": "string"});
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let list = |kind: &str| {
        json!({"type": "array", "items": {"type": "object", "properties": {"n": {"type": "string"}}},
            "x-kubernetes-list-type": kind, "x-kubernetes-list-map-keys": ["n"]})
    };
    for (wide, narrow, problem) in [
        (
            json!({"type": "number"}),
            json!({"type": "integer"}),
            "from number to integer",
        ),
        (
            json!({"x-kubernetes-int-or-string": true}),
            string.clone(),
            "from integer or string to string",
        ),
        (
            json!({"x-kubernetes-preserve-unknown-fields": true}),
            string.clone(),
            "from any value to string",
        ),
        (
            json!({"type": "string", "nullable": true}),
            string.clone(),
            "null",
        ),
        (
            json!({"type": "integer", "maximum": 100}),
            json!({"type": "integer", "maximum": 50}),
            "maximum changes from 100 to 50",
        ),
        (
            json!({"type": "integer"}),
            json!({"type": "integer", "minimum": 0}),
            "there is a minimum now: 0",
        ),
        (
            json!({"type": "number", "maximum": 1}),
            json!({"type": "number", "maximum": 1, "exclusiveMaximum": true}),
            "maximum 1 itself",
        ),
        (
            json!({"type": "number", "minimum": 1}),
            json!({"type": "number", "minimum": 1, "exclusiveMinimum": true}),
            "minimum 1 itself",
        ),
        (
            string.clone(),
            json!({"type": "string", "maxLength": 9}),
            "greatest length",
        ),
        (
            string.clone(),
            json!({"type": "string", "minLength": 1}),
            "least length",
        ),
        (
            json!({"type": "integer", "multipleOf": 2}),
            json!({"type": "integer", "multipleOf": 4}),
            "multiples of 4",
        ),
        (
            string.clone(),
            json!({"type": "string", "pattern": "^a"}),
            "pattern",
        ),
        (
            string.clone(),
            json!({"type": "string", "format": "date"}),
            "format is date",
        ),
        (
            json!({"type": "integer", "format": "int64"}),
            json!({"type": "integer", "format": "int32"}),
            "format is int32",
        ),
        (
            string.clone(),
            json!({"type": "string", "enum": ["x"]}),
            "only listed values",
        ),
        (
            json!({"type": "string", "enum": ["x", "y"]}),
            json!({"type": "string", "enum": ["x"]}),
            "\"y\" is no longer accepted",
        ),
        (
            field(&string),
            json!({"type": "object"}),
            "the field is removed",
        ),
        (
            field(&string),
            json!({"type": "object", "properties": {"a": string}, "required": ["a"]}),
            "required now",
        ),
        (
            json!({"type": "object", "additionalProperties": {"type": "string"}}),
            field(&string),
            "other fields are no longer accepted",
        ),
        (
            json!({"type": "object", "additionalProperties": {"type": "string"}}),
            json!({"type": "object", "additionalProperties": {"type": "string", "maxLength": 3}}),
            "v1.a.*: there is a greatest length",
        ),
        (open.clone(), json!({"type": "object"}), "unknown fields"),
        (list("atomic"), list("set"), "a set now"),
        (list("atomic"), list("map"), "a map now"),
        (
            string.clone(),
            json!({"type": "string", "x-kubernetes-validations": [{"rule": "self != 'x'"}]}),
            "the rule \"self != 'x'\" is new",
        ),
        (
            json!({"type": "string", "anyOf": [{"minLength": 1}, {"maxLength": 3}]}),
            json!({"type": "string", "anyOf": [{"minLength": 1}]}),
            "anyOf changes",
        ),
        (
            json!({"type": "string", "allOf": [{"minLength": 1}]}),
            json!({"type": "string", "allOf": [{"minLength": 1}, {"maxLength": 3}]}),
            "allOf changes",
        ),
        (
            string.clone(),
            json!({"type": "string", "not": {"minLength": 3}}),
            "not changes",
        ),
    ] {
        let (wide, narrow) = (field(&wide), field(&narrow));
        let problems = found(&wide, &narrow);
        assert_eq!(problems.len(), 1, "{narrow}: {problems:?}");
        assert!(problems[0].contains(problem), "{problems:?}, not {problem}");
        assert!(problems[0].starts_with("v1.a"), "{problems:?}");
        assert_eq!(
            found(&narrow, &wide),
            Vec::<String>::new(),
            "{narrow} to {wide}"
        );
        assert_eq!(found(&wide, &wide), Vec::<String>::new());
    }
}

#[test]
fn a_required_field_with_a_default_is_no_narrowing() {
    let old = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    let new = json!({"type": "object", "required": ["a", "b"], "properties": {
        "a": {"type": "string", "default": "x"}, "b": {"type": "string", "default": "y"},
    }});
    assert_eq!(found(&old, &new), Vec::<String>::new());
    let bare =
        json!({"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}}});
    let problems = found(&new, &bare);
    assert!(
        problems
            .iter()
            .any(|one| one.starts_with("v1.a: the field is required"))
    );
    assert!(
        problems
            .iter()
            .any(|one| one.starts_with("v1.b: the field is removed"))
    );
}

#[test]
fn the_head_of_an_object_is_the_servers() {
    let old = json!({"type": "object", "properties": {
        "apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"},
        "spec": {"type": "object", "properties": {"kind": {"type": "string"}}},
    }});
    let new = json!({"type": "object", "properties": {"spec": {"type": "object"}}});
    assert_eq!(found(&old, &new).len(), 1, "only spec.kind");
    assert!(found(&old, &new)[0].starts_with("v1.spec.kind"));
}

#[test]
fn a_new_field_must_accept_what_was_kept_unchecked() {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let mut named = open.clone();
    named["properties"] = json!({"a": {"type": "string"}});
    assert!(found(&open, &named)[0].contains("from any value to string"));
    let map = json!({"type": "object", "additionalProperties": {"type": "integer"}});
    let record = json!({"type": "object", "properties": {"a": {"type": "string"}},
        "additionalProperties": {"type": "integer"}});
    assert!(found(&map, &record)[0].contains("from integer to string"));
}

#[test]
fn items_of_lists_are_compared() {
    let list = |items: &Value| json!({"type": "array", "items": items});
    let (wide, narrow) = (
        list(&json!({"type": "string"})),
        list(&json!({"type": "string", "maxLength": 1})),
    );
    assert_eq!(
        found(&wide, &narrow),
        ["v1[]: there is a greatest length now: 1"]
    );
    let (string, map) = (json!({"type": "string"}), list(&json!({"type": "string"})));
    assert!(found(&string, &map)[0].contains("from string to array"));
}
