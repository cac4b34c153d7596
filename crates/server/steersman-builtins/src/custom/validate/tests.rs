//! Validation against structural schemas.

use serde_json::json;

use super::*;

fn texts(schema: &Value, value: &Value) -> Vec<String> {
    let errors = validate_at(&Structural::compile(schema), value, None, "");
    errors
        .into_iter()
        .map(|e| format!("{}: {}", e.field, e.message))
        .collect()
}

fn spec(properties: &Value) -> Value {
    json!({"type": "object", "required": ["spec"], "properties": {
        "spec": {"type": "object", "required": ["a"], "properties": properties}}})
}

#[test]
fn violations_have_the_messages_of_kube_apiserver() {
    let schema = spec(&json!({
        "a": {"type": "string", "minLength": 2, "maxLength": 4, "pattern": "[0-9]+"},
        "n": {"type": "integer", "minimum": 1, "maximum": 5, "multipleOf": 3},
        "e": {"type": "string", "enum": ["red", "green"]},
        "l": {"type": "array", "minItems": 1, "maxItems": 2, "items": {"type": "string"}},
        "p": {"x-kubernetes-int-or-string": true},
        "f": {"type": "integer", "format": "int32"},
    }));
    for (value, wanted) in [
        (json!({}), "spec: Required value"),
        (json!({"spec": {}}), "spec.a: Required value"),
        (
            json!({"spec": "s"}),
            "spec: Invalid value: \"string\": spec in body must be of type object: \"string\"",
        ),
        (
            json!({"spec": {"a": 1}}),
            "spec.a: Invalid value: \"integer\": spec.a in body must be of type string: \"integer\"",
        ),
        (
            json!({"spec": {"a": "1"}}),
            "spec.a: Invalid value: \"1\": spec.a in body should be at least 2 chars long",
        ),
        (
            json!({"spec": {"a": "12345"}}),
            "spec.a: Too long: may not be more than 4 bytes",
        ),
        (
            json!({"spec": {"a": "abc"}}),
            "spec.a: Invalid value: \"abc\": spec.a in body should match '[0-9]+'",
        ),
        (
            json!({"spec": {"a": "12", "n": 0}}),
            "spec.n: Invalid value: 0: spec.n in body should be greater than or equal to 1",
        ),
        (
            json!({"spec": {"a": "12", "n": 6}}),
            "spec.n: Invalid value: 6: spec.n in body should be less than or equal to 5",
        ),
        (
            json!({"spec": {"a": "12", "n": 4}}),
            "spec.n: Invalid value: 4: spec.n in body should be a multiple of 3",
        ),
        (
            json!({"spec": {"a": "12", "e": "blue"}}),
            "spec.e: Unsupported value: \"blue\": supported values: \"red\", \"green\"",
        ),
        (
            json!({"spec": {"a": "12", "l": []}}),
            "spec.l: Invalid value: 0: spec.l in body should have at least 1 items",
        ),
        (
            json!({"spec": {"a": "12", "l": ["a", "b", "c"]}}),
            "spec.l: Too many: 3: must have at most 2 items",
        ),
        (
            json!({"spec": {"a": "12", "p": true}}),
            "spec.p: Invalid value: \"boolean\": spec.p in body must be of type integer,string: \"boolean\"",
        ),
        (
            json!({"spec": {"a": "12", "f": 3_000_000_000_u64}}),
            "<nil>: Invalid value: \"\": Checked value must be of type integer with format int32 in spec.f",
        ),
    ] {
        assert_eq!(texts(&schema, &value)[0], wanted);
    }
    assert!(texts(&schema, &json!({"spec": {"a": "12", "n": 3, "p": "x"}})).is_empty());
}

#[test]
fn a_status_write_names_fields_from_the_status() {
    let schema = Structural::compile(&json!({"properties": {"status": {"type": "object",
        "properties": {"n": {"type": "integer", "minimum": 0}}}}}));
    let errors = validate_status(&schema, &json!({"n": -1}), None);
    assert_eq!(errors[0].field, "status.n");
    assert_eq!(
        errors[0].message,
        "Invalid value: -1: n in body should be greater than or equal to 0"
    );
}

#[test]
fn combinators_are_checked() {
    let schema = spec(&json!({"a": {}, "o": {"type": "object", "oneOf": [
        {"required": ["a"]}, {"required": ["b"]}], "properties": {"a": {}, "b": {}}}}));
    assert_eq!(
        texts(&schema, &json!({"spec": {"a": 1, "o": {}}})),
        [
            "<nil>: Invalid value: \"\": \"spec.o\" must validate one and only one schema (oneOf). Found none valid",
            "spec.o.a: Required value"
        ]
    );
    assert!(texts(&schema, &json!({"spec": {"a": 1, "o": {"b": 1}}})).is_empty());
}

#[test]
fn the_alternative_with_the_most_checked_rules_is_reported() {
    let schema = spec(&json!({"a": {}, "o": {"type": "object",
        "anyOf": [
            {"required": ["a"]},
            {"properties": {"b": {"minimum": 5}, "c": {}}},
        ],
        "allOf": [{"required": ["d"]}, {"required": ["e"]}],
        "properties": {"a": {}, "b": {"type": "integer"}, "c": {}, "d": {}, "e": {}}}}));
    let of = |object: Value| texts(&schema, &json!({"spec": {"a": 1, "o": object}}));
    let any = "<nil>: Invalid value: \"\": \"spec.o\" must validate at least one schema (anyOf)";
    let all = "<nil>: Invalid value: \"\": \"spec.o\" must validate all the schemas (allOf)";
    assert_eq!(
        of(json!({"b": 1, "c": 2, "d": 3})),
        [
            any,
            "spec.o.b: Invalid value: 1: spec.o.b in body should be greater than or equal to 5",
            "spec.o.e: Required value",
            all,
        ]
    );
    assert_eq!(
        of(json!({"a": 1})),
        [
            "spec.o.d: Required value",
            "spec.o.e: Required value",
            &format!("{all}. None validated"),
        ]
    );
}

#[test]
fn other_rules_are_checked_beside_a_wrong_type() {
    let schema = spec(&json!({"a": {}, "e": {"type": "string", "enum": ["x"]},
        "i": {"type": "integer", "multipleOf": 2, "maximum": 4},
        "s": {"type": "string", "minLength": 3, "pattern": "^a"}}));
    assert_eq!(
        texts(
            &schema,
            &json!({"spec": {"a": 1, "e": 5, "i": 5, "s": "b"}})
        ),
        [
            "spec.e: Invalid value: \"integer\": spec.e in body must be of type string: \"integer\"",
            "spec.e: Unsupported value: 5: supported values: \"x\"",
            "spec.i: Invalid value: 5: spec.i in body should be a multiple of 2",
            "spec.i: Invalid value: 5: spec.i in body should be less than or equal to 4",
            "spec.s: Invalid value: \"b\": spec.s in body should be at least 3 chars long",
        ]
    );
}

#[test]
fn bounds_lose_their_fraction_beside_whole_numbers() {
    let schema = spec(&json!({"a": {},
        "n": {"type": "number", "minimum": 0.5, "maximum": 2.5},
        "i": {"type": "integer", "maximum": 2.5}}));
    let of = |value: Value| texts(&schema, &json!({"spec": value}));
    assert!(of(json!({"a": 1, "n": 0})).is_empty());
    assert_eq!(
        of(json!({"a": 1, "n": 0.25})),
        ["spec.n: Invalid value: 0.25: spec.n in body should be greater than or equal to 0.5"]
    );
    assert_eq!(
        of(json!({"a": 1, "n": 3})),
        ["spec.n: Invalid value: 3: spec.n in body should be less than or equal to 2"]
    );
    // A bound that the type does not have is complained of with every value.
    assert_eq!(
        of(json!({"a": 1, "i": 1})),
        [
            "<nil>: Invalid value: \"\": Maximum boundary value must be of type integer (default format) in spec.i"
        ]
    );
}

#[test]
fn numbers_are_converted_before_they_are_looked_up() {
    let schema = spec(&json!({"a": {}, "n": {"type": "number", "enum": [1, 2.5]}}));
    let of = |value: Value| texts(&schema, &json!({"spec": {"a": 1, "n": value}}));
    assert!(of(json!(1.0)).is_empty());
    assert!(of(json!(1.5)).is_empty());
    assert!(of(json!(2.5)).is_empty());
    assert_eq!(
        of(json!(3.0)),
        ["spec.n: Unsupported value: 3: supported values: \"1\", \"2.5\""]
    );
}

/// Upstream quotes texts as Go does, which differs from JSON for control characters.
#[test]
fn texts_of_an_enumeration_are_quoted_as_go_quotes_them() {
    let schema = spec(&json!({"a": {}, "e": {"type": "string", "enum": ["x\u{1}"]}}));
    assert_eq!(
        texts(&schema, &json!({"spec": {"a": 1, "e": "y\u{7}"}})),
        ["spec.e: Unsupported value: \"y\\a\": supported values: \"x\\x01\""]
    );
}

#[test]
fn an_object_with_too_few_properties_is_checked_to_the_end() {
    let schema = spec(
        &json!({"a": {"type": "object", "minProperties": 2, "maxProperties": 3,
        "required": ["i"], "properties": {"i": {"type": "string"}, "n": {"type": "integer"}}}}),
    );
    assert_eq!(
        texts(&schema, &json!({"spec": {"a": {"n": "x"}}})),
        [
            "spec.a: Invalid value: 1: spec.a in body should have at least 2 properties",
            "spec.a.n: Invalid value: \"string\": spec.a.n in body must be of type integer: \"string\"",
            "spec.a.i: Required value",
        ]
    );
}

/// A format that belongs to the type is named in its place; any other format is ignored.
#[test]
fn a_value_of_another_type_than_its_format_is_refused_by_the_format() {
    for (schema, value, wanted) in [
        (
            json!({"type": "string", "format": "date-time"}),
            json!(1),
            "date-time: \"int64\"",
        ),
        (
            json!({"type": "string", "format": "uri"}),
            json!(1.5),
            "uri: \"float64\"",
        ),
        (
            json!({"type": "string", "format": "uri"}),
            json!({}),
            "uri: \"\"",
        ),
        (
            json!({"type": "string", "format": "own"}),
            json!(1),
            "string: \"integer\"",
        ),
        (
            json!({"type": "integer", "format": "int32"}),
            json!("1"),
            "integer: \"string\"",
        ),
        (
            json!({"type": "integer", "format": "int32"}),
            json!(1.5),
            "int32: \"float64\"",
        ),
        (
            json!({"type": "integer", "format": "int64"}),
            json!(true),
            "int64: \"\"",
        ),
        (
            json!({"type": "integer", "format": "int64"}),
            json!([]),
            "integer: \"array\"",
        ),
        (
            json!({"type": "integer", "format": "uint32"}),
            json!(true),
            "integer: \"boolean\"",
        ),
        (
            json!({"type": "number", "format": "double"}),
            json!({}),
            "double: \"\"",
        ),
        (
            json!({"type": "number", "format": "int32"}),
            json!({}),
            "number: \"object\"",
        ),
    ] {
        let found = texts(&spec(&json!({"a": schema})), &json!({"spec": {"a": value}}));
        let value = wanted.rsplit_once(": ").unwrap().1;
        let message =
            format!("spec.a: Invalid value: {value}: spec.a in body must be of type {wanted}");
        assert_eq!(found.first(), Some(&message), "{schema}");
    }
    // A list passes for a string of a checked format, and a number of an unchecked one is not limited.
    for (schema, value) in [
        (json!({"type": "string", "format": "date-time"}), json!([1])),
        (json!({"type": "integer", "format": "uint32"}), json!(-1)),
        (
            json!({"type": "integer", "format": "int16"}),
            json!(100_000),
        ),
        (json!({"type": "number", "format": "float32"}), json!(1e300)),
    ] {
        let found = texts(&spec(&json!({"a": schema})), &json!({"spec": {"a": value}}));
        assert!(found.is_empty(), "{schema}: {found:?}");
    }
}

/// Go prints a large float with an exponent, and compares an integer with integers.
#[test]
fn numbers_are_printed_as_go_prints_them() {
    for (schema, value, wanted) in [
        (
            json!({"type": "number", "maximum": 2_000_000.5}),
            json!(3_000_000.5),
            "Invalid value: 3.0000005e+06: spec.a in body should be less than or equal to 2.0000005e+06",
        ),
        (
            json!({"type": "integer", "maximum": 2_000_000}),
            json!(3_000_000),
            "Invalid value: 3000000: spec.a in body should be less than or equal to 2000000",
        ),
        (
            json!({"type": "number", "minimum": 0.000_01}),
            json!(0.000_001),
            "Invalid value: 1e-06: spec.a in body should be greater than or equal to 1e-05",
        ),
        (
            json!({"type": "number", "enum": [1]}),
            json!(1_500_000.5),
            "Unsupported value: 1.5000005e+06: supported values: \"1\"",
        ),
        (
            json!({"type": "number", "multipleOf": 0.5}),
            json!(3),
            "Invalid value: 0: factor MultipleOf declared for spec.a must be positive: 0",
        ),
        (
            json!({"type": "number", "multipleOf": 0.5}),
            json!(3.25),
            "Invalid value: 3.25: spec.a in body should be a multiple of 0.5",
        ),
    ] {
        let found = texts(&spec(&json!({"a": schema})), &json!({"spec": {"a": value}}));
        assert_eq!(found, [format!("spec.a: {wanted}")], "{schema}");
    }
}
