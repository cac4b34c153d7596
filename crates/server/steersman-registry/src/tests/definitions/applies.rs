//! Tests of server-side apply to custom resources: objects without declared fields in the schema, and nulls.

use super::*;

/// Returns the CRD of the kind Shape, in which `spec` has this schema.
fn definition(spec: &Value) -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "shapes.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"plural": "shapes", "kind": "Shape"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema":
                {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}}]}})
}

/// Returns a server with the CRD of the kind Shape, in which `spec` has this schema.
fn serving(spec: &Value) -> Server {
    let mut server = Server::new();
    let crd = definition(spec);
    server.registry.install_crd(crd, server.now).unwrap();
    server
}

fn apply(server: &mut Server, spec: &Value) -> Done<Value> {
    let resource = server.resource("shapes");
    let body = json!({"apiVersion": "example.com/v1", "kind": "Shape",
        "metadata": {"name": "one"}, "spec": spec});
    let options = WriteOptions {
        field_manager: Some("m".to_owned()),
        ..WriteOptions::default()
    };
    let target = ObjectTarget::object(&resource, Some("default"), "one");
    let (body, now) = (body.to_string(), server.now);
    let written =
        server
            .registry
            .patch(target, PatchKind::Apply, body.as_bytes(), &options, now)?;
    Ok(written.object.value().clone())
}

fn owned(object: &Value) -> &Value {
    &object["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]
}

/// An apply accepts any fields in an object for which the schema declares no fields, and below a node that preserves
/// unknown fields. Fields that pruning removes are absent from the response.
#[test]
fn an_apply_may_set_fields_where_a_schema_stops() {
    let text = json!({"type": "string"});
    let open = "x-kubernetes-preserve-unknown-fields";
    let object = json!({"type": "object"});
    let list = |items: &Value| json!({"type": "array", "items": items});
    for (schema, spec, answer) in [
        // An object for which the schema declares no fields: alone and as a list item, without and with preserved
        // unknown fields.
        (
            json!({"o": object}),
            json!({"o": {"a": {"b": 1}}}),
            json!({"o": {}}),
        ),
        (
            json!({"l": list(&object)}),
            json!({"l": [{"a": 1}]}),
            json!({"l": [{}]}),
        ),
        (
            json!({"l": {"type": "array", "items": object, open: true}}),
            json!({"l": [{"a": 1}]}),
            json!({"l": [{"a": 1}]}),
        ),
        (
            json!({"x": {open: true}}),
            json!({"x": [1, {"a": null}]}),
            json!({"x": [1, {"a": null}]}),
        ),
        (
            json!({"x": {open: true}}),
            json!({"x": "text"}),
            json!({"x": "text"}),
        ),
        // A map (`additionalProperties`) of objects without declared fields.
        (
            json!({"m": {"type": "object", "additionalProperties": object}}),
            json!({"m": {"k": {"a": 1}}}),
            json!({"m": {"k": {}}}),
        ),
        // Declared fields below a node that preserves unknown fields: below them, unknown fields are pruned again.
        (
            json!({"p": {"type": "object", open: true, "properties": {
                "o": {"type": "object", "properties": {"n": text}}}}}),
            json!({"p": {"o": {"n": "x", "z": 1}, "y": 2}}),
            json!({"p": {"o": {"n": "x"}, "y": 2}}),
        ),
        // An embedded object (`x-kubernetes-embedded-resource`), with preserved unknown fields.
        (
            json!({"e": {"type": "object", "x-kubernetes-embedded-resource": true, open: true}}),
            json!({"e": {"apiVersion": "v1", "kind": "K", "data": {"a": "b"}}}),
            json!({"e": {"apiVersion": "v1", "kind": "K", "data": {"a": "b"}}}),
        ),
    ] {
        let mut server = serving(&json!({"type": "object", "properties": schema}));
        let made = apply(&mut server, &spec).unwrap();
        assert_eq!(made["spec"], answer, "{schema}");
        let read = server.get("shapes", "one").unwrap();
        assert_eq!(read["spec"], answer, "{schema}");
        assert_eq!(owned(&read), owned(&made));
    }
    let mut server = serving(
        &json!({"type": "object", "properties": {"o": {"type": "object",
        "properties": {"n": text}}}}),
    );
    assert_eq!(
        refused(apply(&mut server, &json!({"o": {"z": 1}}))),
        (
            500,
            "failed to create typed patch object (/one; example.com/v1, Kind=Shape): .spec.o.z: field not declared in schema"
                .to_owned()
        )
    );
}

/// An apply merges a scalar of a wrong type without an error; then the validation by the schema refuses the value.
#[test]
fn a_scalar_of_another_type_is_refused_by_the_schema() {
    let mut server = serving(&json!({"type": "object", "properties": {
        "t": {"type": "string", "format": "date-time"},
        "p": {"x-kubernetes-int-or-string": true}}}));
    for (spec, code, why) in [
        (
            json!({"t": 1}),
            422,
            "spec.t: Invalid value: \"int64\": spec.t in body must be of type date-time: \"int64\"",
        ),
        (
            json!({"p": {"a": 1}}),
            422,
            "spec.p: Invalid value: \"object\": spec.p in body must be of type integer,string: \"object\"",
        ),
        (
            json!({"t": {"a": 1}}),
            500,
            ".spec.t: expected any scalar, got &{map[a:1]}",
        ),
    ] {
        let (found, message) = refused(apply(&mut server, &spec));
        assert_eq!(found, code, "{message}");
        assert!(message.ends_with(why), "{message}");
    }
}

#[test]
fn an_apply_of_a_null_that_the_schema_does_not_allow_is_refused() {
    let text = json!({"type": "string"});
    let object = json!({"type": "object", "properties": {"x": text}});
    let mut filled = text.clone();
    filled["default"] = json!("d");
    let mut nullable = object.clone();
    nullable["nullable"] = json!(true);
    let spec = json!({"type": "object", "properties": {"a": text, "o": object, "n": nullable,
        "d": filled, "m": {"type": "object", "additionalProperties": text}}});
    let mut server = serving(&spec);
    for (field, kind) in [("o", "object"), ("a", "string")] {
        let (code, message) = refused(apply(&mut server, &json!({field: null})));
        assert_eq!(code, 422);
        assert_eq!(
            message,
            format!(
                "Shape.example.com \"one\" is invalid: spec.{field}: Invalid value: \"null\": spec.{field} in body must be of type {kind}: \"null\""
            )
        );
    }
    assert_eq!(
        refused(apply(&mut server, &json!({"m": {"k": null}}))).0,
        422
    );
    // An apply replaces a null by the default of the field.
    let made = apply(&mut server, &json!({"d": null, "n": {"x": "1"}})).unwrap();
    assert_eq!(made["spec"], json!({"d": "d", "n": {"x": "1"}}));
    // As in Kubernetes 1.36.2, a null in place of an object becomes an empty object; later releases keep the null.
    let made = apply(&mut server, &json!({"n": null})).unwrap();
    assert_eq!(made["spec"], json!({"d": "d", "n": {}}));
    let body = json!({"spec": {"o": null, "n": null}});
    let put = server.merge("shapes", "one", body).unwrap();
    assert_eq!(put["spec"], json!({"d": "d"}));
    let mut body = put;
    body["spec"] = json!({"o": null, "n": null});
    let put = server.put("shapes", Subresource::Main, body).unwrap();
    assert_eq!(put["spec"], json!({"d": "d", "n": null}));
    let again = apply(&mut server, &json!({"n": {"x": "2"}})).unwrap();
    assert_eq!(again["spec"], json!({"d": "d", "n": {"x": "2"}}));
}

/// A number without a fraction, such as `3.0`, is the same as the integer `3`, in an applied object and in a CRD.
#[test]
fn whole_floats_equal_integers() {
    let number = json!({"type": "number"});
    let mut server = serving(&json!({"type": "object", "properties": {
        "i": {"type": "integer", "default": 3.0, "enum": [1.0, 3.0], "maximum": 4.0},
        "n": {"type": "number", "default": 1.5, "example": {"a": 1.0}},
        "s": {"type": "array", "x-kubernetes-list-type": "set", "items": number}}}));
    let name = "shapes.example.com";
    let crd = server.get("customresourcedefinitions", name).unwrap();
    let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let fields = &schema["properties"]["spec"]["properties"];
    assert_eq!(
        fields["i"].to_string(),
        r#"{"default":3,"enum":[1,3],"maximum":4,"type":"integer"}"#
    );
    assert_eq!(
        fields["n"].to_string(),
        r#"{"default":1.5,"example":{"a":1},"type":"number"}"#
    );
    let made = apply(&mut server, &json!({"i": 1.0, "s": [2.0]})).unwrap();
    assert_eq!(made["spec"].to_string(), r#"{"i":1,"n":1.5,"s":[2]}"#);
    assert_eq!(owned(&made)["f:s"], json!({"v:2": {}}));
    let again = apply(&mut server, &json!({"i": 1, "s": [2]})).unwrap();
    assert_eq!(again, made);
}
