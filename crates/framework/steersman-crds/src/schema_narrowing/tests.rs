//! Tests each rule with a pair of schemas, in both directions.

use serde_json::json;

use super::*;

fn found(old: &Value, new: &Value) -> Vec<String> {
    let mut found = Vec::new();
    compare(old, new, "v1", &mut found);
    let text = |one: Narrowing| format!("{}: {}", one.path, one.problem);
    found.into_iter().map(text).collect()
}

/// Returns the schema of an object with one field.
fn field(schema: &Value) -> Value {
    json!({"type": "object", "properties": {"a": schema}})
}

/// Checks that `narrow` instead of `wide` is one narrowing, and that the reverse is none.
fn narrows(wide: &Value, narrow: &Value, problem: &str) {
    let (wide, narrow) = (field(wide), field(narrow));
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

/// DEF-1: no write of a definition may lose a field or a stored version.
#[test]
fn a_type_that_accepts_fewer_kinds_of_values_is_narrower() {
    let string = json!({"type": "string"});
    let (number, integer) = (json!({"type": "number"}), json!({"type": "integer"}));
    narrows(&number, &integer, "from number to integer");
    let either = json!({"x-kubernetes-int-or-string": true});
    narrows(&either, &string, "from integer or string to string");
    let any = json!({"x-kubernetes-preserve-unknown-fields": true});
    narrows(&any, &string, "from any value to string");
    narrows(
        &json!({"type": "string", "nullable": true}),
        &string,
        "null",
    );
}

/// DEF-1: no write of a definition may lose a field or a stored version.
#[test]
fn a_tighter_bound_is_narrower() {
    let integer = |rest: Value| {
        let mut schema = json!({"type": "integer"});
        schema
            .as_object_mut()
            .unwrap()
            .extend(rest.as_object().unwrap().clone());
        schema
    };
    let (wide, narrow) = (
        integer(json!({"maximum": 100})),
        integer(json!({"maximum": 50})),
    );
    narrows(&wide, &narrow, "maximum changes from 100 to 50");
    narrows(
        &integer(json!({})),
        &integer(json!({"minimum": 0})),
        "minimum is 0 now",
    );
    for (bound, exclusive) in [
        ("maximum", "exclusiveMaximum"),
        ("minimum", "exclusiveMinimum"),
    ] {
        let (wide, narrow) = (json!({bound: 1}), json!({bound: 1, exclusive: true}));
        narrows(
            &integer(wide),
            &integer(narrow),
            &format!("{bound} 1 itself"),
        );
    }
    let (two, four) = (
        integer(json!({"multipleOf": 2})),
        integer(json!({"multipleOf": 4})),
    );
    narrows(&two, &four, "multiples of 4");
    let (wide, narrow) = (json!({"format": "int64"}), json!({"format": "int32"}));
    narrows(&integer(wide), &integer(narrow), "format is int32");
}

/// DEF-1: no write of a definition may lose a field or a stored version.
#[test]
fn a_rule_for_texts_is_narrower() {
    let string = json!({"type": "string"});
    for (narrow, problem) in [
        (
            json!({"type": "string", "maxLength": 9}),
            "maxLength is 9 now",
        ),
        (
            json!({"type": "string", "minLength": 1}),
            "minLength is 1 now",
        ),
        (json!({"type": "string", "pattern": "^a"}), "pattern"),
        (
            json!({"type": "string", "format": "date"}),
            "format is date",
        ),
        (
            json!({"type": "string", "enum": ["x"]}),
            "only listed values",
        ),
        (
            json!({"type": "string", "not": {"minLength": 3}}),
            "not changes",
        ),
        (
            json!({"type": "string", "x-kubernetes-validations": [{"rule": "self != 'x'"}]}),
            "the rule \"self != 'x'\" is new",
        ),
    ] {
        narrows(&string, &narrow, problem);
    }
    let (wide, narrow) = (json!(["x", "y"]), json!(["x"]));
    let of = |values: Value| json!({"type": "string", "enum": values});
    narrows(&of(wide), &of(narrow), "\"y\" is no longer accepted");
    let (short, long) = (json!({"maxLength": 3}), json!({"minLength": 1}));
    let any = |choices: &[&Value]| json!({"type": "string", "anyOf": choices});
    narrows(&any(&[&long, &short]), &any(&[&long]), "anyOf changes");
    let all = |parts: &[&Value]| json!({"type": "string", "allOf": parts});
    narrows(&all(&[&long]), &all(&[&long, &short]), "allOf changes");
}

/// DEF-1: no write of a definition may lose a field or a stored version.
#[test]
fn a_record_with_fewer_fields_is_narrower() {
    let string = json!({"type": "string"});
    let object = json!({"type": "object"});
    narrows(&field(&string), &object, "the field is removed");
    let mut required = field(&string);
    required["required"] = json!(["a"]);
    narrows(&field(&string), &required, "required now");
    let map = |values: &Value| json!({"type": "object", "additionalProperties": values});
    narrows(
        &map(&string),
        &field(&string),
        "other fields are no longer accepted",
    );
    let short = json!({"type": "string", "maxLength": 3});
    narrows(&map(&string), &map(&short), "v1.a.*: maxLength is 3");
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    narrows(&open, &object, "unknown fields");
}

/// DEF-1: no write of a definition may lose a field or a stored version.
#[test]
fn a_list_in_which_each_key_stands_once_is_narrower() {
    let list = |kind: &str| {
        json!({"type": "array", "items": {"type": "object", "properties": {"n": {"type": "string"}}},
            "x-kubernetes-list-type": kind, "x-kubernetes-list-map-keys": ["n"]})
    };
    narrows(&list("atomic"), &list("set"), "a set now");
    narrows(&list("atomic"), &list("map"), "a map now");
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
    assert_eq!(found(&wide, &narrow), ["v1[]: maxLength is 1 now"]);
    let (string, map) = (json!({"type": "string"}), list(&json!({"type": "string"})));
    assert!(found(&string, &map)[0].contains("from string to array"));
}

#[test]
fn a_new_variant_of_a_rust_enum_is_wider() {
    let variants = |names: &[&str]| {
        let fields = names
            .iter()
            .map(|name| ((*name).to_owned(), json!({"type": "object"})));
        let fields: serde_json::Map<String, Value> = fields.collect();
        let branches: Vec<Value> = names
            .iter()
            .map(|name| json!({"required": [name]}))
            .collect();
        json!({"type": "object", "properties": fields, "oneOf": branches})
    };
    let (two, three) = (variants(&["git", "oci"]), variants(&["git", "oci", "http"]));
    assert_eq!(found(&two, &three), Vec::<String>::new());
    assert!(!found(&three, &two).is_empty());
    // An old object that matches the new branch would match two branches, which `oneOf` refuses.
    let mut other = two.clone();
    other["oneOf"] =
        json!([{"required": ["git"]}, {"required": ["oci"]}, {"required": ["git", "oci"]}]);
    assert!(found(&two, &other)[0].contains("oneOf changes"));
}

#[test]
fn the_two_types_of_int_or_string_may_be_written_out() {
    let short = json!({"x-kubernetes-int-or-string": true});
    let long = json!({"x-kubernetes-int-or-string": true,
        "anyOf": [{"type": "integer"}, {"type": "string"}]});
    assert_eq!(found(&short, &long), Vec::<String>::new());
    assert_eq!(found(&long, &short), Vec::<String>::new());
}
