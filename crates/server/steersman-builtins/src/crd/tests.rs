//! Tests of CustomResourceDefinitions.

use steersman_apimachinery::status::FieldError;

use super::*;

fn websites() -> Value {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object",
        "properties": {"image": {"type": "string"}}}}});
    json!({"metadata": {"name": "websites.example.com"}, "spec": {
    "group": "example.com", "scope": "Namespaced",
    "names": {"plural": "websites", "kind": "Website", "shortNames": ["web"]},
    "versions": [
        {"name": "v1beta1", "served": true, "storage": false, "deprecated": true,
            "schema": {"openAPIV3Schema": {"type": "object"}}},
        {"name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": schema},
            "subresources": {"status": {}, "scale": {
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas"}},
            "additionalPrinterColumns": [
                {"name": "Ready", "type": "string", "jsonPath": ".status.ready"}],
            "selectableFields": [{"jsonPath": ".spec.image"}]},
        {"name": "v2", "served": false, "storage": false,
            "schema": {"openAPIV3Schema": {"type": "object"}}},
    ]}})
}

#[test]
fn a_definition_serves_its_versions() {
    let mut crd = websites();
    apply_defaults(&mut crd);
    assert!(validate(&crd, None).is_empty());
    assert_eq!(crd["spec"]["names"]["singular"], "website");
    assert_eq!(crd["status"]["storedVersions"], json!(["v1"]));
    let resources = resources(&crd, &crd.to_string().into(), 7);
    let served: Vec<_> = resources.iter().map(|r| r.version.as_str()).collect();
    assert_eq!(served, ["v1", "v1beta1"]);
    assert_eq!(resources[0].storage, resources[1].storage);
    assert_eq!(resources[1].storage_version, "v1");
    assert_eq!(resources[0].fields[0].label, "spec.image");
    assert_eq!(resources[0].columns[0].json_path, ".status.ready");
    assert_eq!(
        resources[0].scale.as_ref().unwrap().spec_replicas,
        ["spec", "replicas"]
    );
    assert_eq!(
        resources[1].deprecation_warning.as_deref(),
        Some("example.com/v1beta1 Website is deprecated; use example.com/v1 Website")
    );
}

#[test]
fn an_invalid_definition_gets_all_errors() {
    let mut crd = websites();
    crd["metadata"]["name"] = json!("other");
    crd["spec"]["versions"][0]["storage"] = json!(true);
    crd["spec"]["versions"][1]["schema"] = json!({});
    crd["spec"]["versions"][1]["selectableFields"] = json!([]);
    crd["spec"]["scope"] = json!("");
    apply_defaults(&mut crd);
    let fields: Vec<_> = validate(&crd, None).into_iter().map(|e| e.field).collect();
    assert_eq!(
        fields,
        [
            "metadata.name",
            "spec.scope",
            "spec.versions[1].schema.openAPIV3Schema",
            "spec.versions",
            "status.storedVersions",
        ]
    );
}

#[test]
fn an_established_definition_keeps_its_identity() {
    let mut old = websites();
    apply_defaults(&mut old);
    let names = old["spec"]["names"].clone();
    accept(&mut old, names, "2026-01-01T00:00:00Z");
    assert!(is_established(&old));
    let mut new = old.clone();
    new["spec"]["scope"] = json!("Cluster");
    new["spec"]["versions"][1]["name"] = json!("v9");
    let fields: Vec<_> = validate(&new, Some(&old))
        .into_iter()
        .map(|e| e.field)
        .collect();
    assert_eq!(
        fields,
        [
            "status.storedVersions[0]", "status.storedVersions", "spec.scope"
        ]
    );
}

/// Returns the errors of a definition with this schema and these other parts: fields and messages.
fn refused(schema: &Value, parts: &Value) -> Vec<String> {
    let mut version = json!({"name": "v1", "served": true, "storage": true,
        "schema": {"openAPIV3Schema": schema}});
    for (name, part) in parts.as_object().unwrap() {
        version[name] = part.clone();
    }
    let mut crd = json!({"metadata": {"name": "ks.e.com"}, "spec": {"group": "e.com",
        "scope": "Cluster", "names": {"plural": "ks", "kind": "K"}, "versions": [version]}});
    apply_defaults(&mut crd);
    let errors = validate(&crd, None);
    errors
        .iter()
        .map(|error| {
            let field = error.field.replace("spec.validation.openAPIV3Schema", "S");
            format!("{field}: {}", error.message)
        })
        .collect()
}

fn spec(property: &Value) -> Value {
    json!({"type": "object", "properties": {"p": property}})
}

#[test]
fn a_schema_has_only_supported_keywords_and_is_structural() {
    let errors_of = |property: Value| refused(&spec(&property), &json!({}));
    let none: Vec<String> = Vec::new();
    for good in [
        json!({"type": "string", "default": "aa", "pattern": "^a*$"}),
        json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]}),
        json!({"type": "array", "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["k"], "items": {"type": "object", "required": ["k"],
            "properties": {"k": {"type": "string"}}}}),
        json!({"type": "object", "default": {}, "properties": {"a": {"type": "integer"}}}),
        json!({"type": "string", "pattern": "\\Qonly Go knows\\E"}),
    ] {
        assert_eq!(errors_of(good.clone()), none, "{good}");
    }
    for (bad, message) in [
        (
            json!({}),
            "S.properties[p].type: Required value: must not be empty for specified object fields",
        ),
        (
            json!({"type": "string", "uniqueItems": true}),
            "S.properties[p].uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
        ),
        (
            json!({"type": "object", "patternProperties": {"a": {}}}),
            "S.properties[p].patternProperties: Forbidden: patternProperties is not supported",
        ),
        (
            json!({"type": "array"}),
            "S.properties[p].items: Required value: must be specified",
        ),
        (
            json!({"type": "string", "pattern": "a(b"}),
            "S.properties[p].pattern: Invalid value: \"a(b\": must be a valid regular expression, but isn't: error parsing regexp: missing closing ): `a(b`",
        ),
        (
            json!({"type": "string", "not": {"type": "string"}}),
            "S.properties[p].not.type: Forbidden: must be empty to be structural",
        ),
        (
            json!({"type": "integer", "default": "x"}),
            "S.properties[p].default: Invalid value: \"string\":  in body must be of type integer: \"string\"",
        ),
        (
            json!({"type": "object", "default": {"b": 1}, "properties": {"a": {"type": "string"}}}),
            "S.properties[p].default: Invalid value: {\"b\":1}: must not have unknown fields",
        ),
        (
            json!({"type": "array", "x-kubernetes-list-type": "bag", "items": {"type": "string"}}),
            "S.properties[p].x-kubernetes-list-type: Unsupported value: \"bag\": supported values: \"atomic\", \"set\", \"map\"",
        ),
        (
            json!({"type": "array", "x-kubernetes-list-type": "map", "items": {"type": "object"}}),
            "S.properties[p].x-kubernetes-list-map-keys: Required value: must not be empty if x-kubernetes-list-type is map",
        ),
        (
            json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "object"}}),
            "S.properties[p].items.x-kubernetes-map-type: Invalid value: null: must be atomic as item of a list with x-kubernetes-list-type=set",
        ),
        (
            json!({"type": "object", "x-kubernetes-embedded-resource": true}),
            "S.properties[p].properties: Required value: must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields",
        ),
    ] {
        assert_eq!(errors_of(bad.clone()), [message], "{bad}");
    }
    let metadata = json!({"type": "object", "properties": {"metadata": {"type": "object",
        "properties": {"labels": {"type": "object"}}}}});
    assert_eq!(
        refused(&metadata, &json!({})),
        [
            "S.properties[metadata]: Forbidden: must not specify anything other than name and generateName, but metadata is implicitly specified"
        ]
    );
}

#[test]
fn paths_of_scale_columns_and_selectable_fields_are_validated() {
    let schema = spec(&json!({"type": "object", "properties": {"s": {"type": "string"}}}));
    assert_eq!(
        refused(
            &schema,
            &json!({"subresources": {"scale": {"specReplicasPath": ".status.n"}},
                "additionalPrinterColumns": [{"name": "", "type": "int", "jsonPath": "x"}],
                "selectableFields": [{"jsonPath": ".p.s"}, {"jsonPath": ".p"}, {"jsonPath": ".q"},
                    {"jsonPath": ".p.s"}]})
        ),
        [
            "spec.subresources.scale.specReplicasPath: Invalid value: \".status.n\": should be a json path under .spec",
            "spec.subresources.scale.statusReplicasPath: Required value",
            "spec.additionalPrinterColumns[0].name: Required value",
            "spec.additionalPrinterColumns[0].type: Invalid value: \"int\": must be one of boolean,date,integer,number,string",
            "spec.additionalPrinterColumns[0].JSONPath: Invalid value: \"x\": must be a simple json path starting with .",
            "spec.selectableFields[1].jsonPath: Invalid value: \".p\": must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.",
            "spec.selectableFields[2].jsonPath: Invalid value: \".q\": is an invalid path: does not refer to a valid field",
            "spec.selectableFields[3].jsonPath: Duplicate value: \".p.s\"",
        ]
    );
}

#[test]
fn errors_of_unshared_parts_name_the_version() {
    let mut crd = websites();
    crd["spec"]["versions"][1]["schema"]["openAPIV3Schema"]["type"] = json!("array");
    crd["spec"]["conversion"] = json!({"strategy": "Webhook"});
    crd["spec"]["names"]["kind"] = json!("Web_site");
    crd["spec"]["names"]["shortNames"] = json!(["W!"]);
    apply_defaults(&mut crd);
    let fields: Vec<_> = validate(&crd, None).into_iter().map(|e| e.field).collect();
    assert_eq!(
        fields,
        [
            "spec.versions[1].schema.openAPIV3Schema.type",
            "spec.versions[1].schema.openAPIV3Schema.items",
            "spec.versions[1].schema.openAPIV3Schema.type",
            "spec.names.singular",
            "spec.names.kind",
            "spec.names.listKind",
            "spec.names.shortNames[0]",
            "spec.conversion.webhookClientConfig",
            "spec.conversion.conversionReviewVersions",
        ]
    );
}

#[test]
fn a_protected_group_needs_an_approval() {
    let mut crd = websites();
    crd["spec"]["group"] = json!("x.k8s.io");
    crd["metadata"]["name"] = json!("websites.x.k8s.io");
    crd["spec"]["versions"][1]["selectableFields"] = Value::Null;
    apply_defaults(&mut crd);
    let errors_of =
        |crd: &Value| -> Vec<String> { validate(crd, None).into_iter().map(|e| e.field).collect() };
    let field = "metadata.annotations[api-approved.kubernetes.io]";
    assert_eq!(errors_of(&crd), [field]);
    crd["metadata"]["annotations"] = json!({"api-approved.kubernetes.io": "maybe"});
    assert_eq!(errors_of(&crd), [field]);
    crd["metadata"]["annotations"] = json!({"api-approved.kubernetes.io": "unapproved, a trial"});
    assert!(errors_of(&crd).is_empty());
}

#[test]
fn unknown_formats_are_listed() {
    let schema = spec(&json!({"type": "object", "properties": {
        "a": {"type": "string", "format": "date-time"}, "b": {"type": "string", "format": "own"},
        "c": {"type": "integer", "format": "int32"}, "d": {"type": "integer", "format": "uint32"},
        "e": {"type": "number", "format": "double"}, "f": {"type": "number", "format": "decimal"},
        "g": {"x-kubernetes-int-or-string": true, "format": "uri"},
        "h": {"type": "boolean", "format": "uri"}}}));
    assert_eq!(
        unknown_formats(&schema),
        ["decimal", "own", "uint32", "uri"]
    );
}

#[test]
fn types_defaults_and_rules_of_a_schema_are_validated() {
    let at = "S.properties";
    let tagged = json!({"type": "object", "properties": {"a": {"type": "text"}}});
    let errors = refused(&spec(&tagged), &json!({}));
    let types = "\"array\", \"boolean\", \"integer\", \"number\", \"object\", \"string\"";
    assert_eq!(
        errors,
        [format!(
            "{at}[p].properties[a].type: Unsupported value: \"text\": supported values: {types}"
        )]
    );
    let named =
        json!({"type": "object", "properties": {"kind": {"type": "string", "default": "K"}}});
    assert_eq!(
        refused(&named, &json!({})),
        [format!(
            "{at}[kind].default: Forbidden: must not be set in top-level kind"
        )]
    );
    let list = json!({"type": "array", "items": {"type": "string",
        "x-kubernetes-validations": [{"rule": "self == oldSelf"}]}, "maxItems": 5});
    assert_eq!(
        refused(&spec(&list), &json!({})),
        [format!(
            "{at}[p].items.x-kubernetes-validations[0].rule: Invalid value: \"self == oldSelf\": oldSelf cannot be used on the uncorrelatable portion of the schema within spec.validation.openAPIV3Schema.properties[p]"
        )]
    );
    let costly = json!({"type": "array", "maxItems": 100_000, "items": {"type": "string",
        "x-kubernetes-validations": [{"rule": "self.contains('x')", "maxLength": 300}]}});
    let errors = refused(&spec(&costly), &json!({}));
    assert!(errors[0].contains("estimated rule cost exceeds budget by factor of more than 100x"));
    let empty = json!({"type": "string", "x-kubernetes-validations": [
        {"rule": "true", "message": " ", "messageExpression": " ", "fieldPath": " "},
        {"rule": "true\n|| false"}]});
    let errors = refused(&spec(&empty), &json!({}));
    let rules = format!("{at}[p].x-kubernetes-validations");
    assert_eq!(
        errors,
        [
            format!("{rules}[0].message: Invalid value: \" \": must be non-empty if specified"),
            format!("{rules}[0].messageExpression: Required value: must be non-empty if specified"),
            format!("{rules}[0].fieldPath: Invalid value: \" \": must be non-empty if specified"),
            format!("{rules}[0].fieldPath: Invalid value: \" \": must be a valid path"),
            format!(
                "{rules}[1].message: Required value: must be specified if rule contains line breaks"
            ),
        ]
    );
}

/// The errors are those of the validation of Kubernetes 1.36.2 for the same definitions. The first ones
/// are of forms that projects ship, and have no error.
#[test]
fn rules_of_a_schema_have_the_errors_and_limits_of_upstream() {
    let lines: Vec<&str> = include_str!("tests/rules.jsonl").lines().collect();
    assert!(lines.len() > 20);
    for line in lines {
        let case: Value = serde_json::from_str(line).unwrap();
        let mut crd = websites();
        crd["spec"]["versions"] = json!([{"name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": case["spec"]}}}}]);
        apply_defaults(&mut crd);
        let errors = validate(&crd, None);
        let mut found: Vec<String> = errors
            .iter()
            .map(|error| format!("{}: {}", error.field, error.message))
            .collect();
        found.sort();
        assert_eq!(json!(found), case["errors"], "{}", case["spec"]);
    }
}

/// The texts are those of Go's `url.Parse` and of upstream's `ValidateWebhookURL`.
#[test]
fn the_url_of_a_webhook_is_parsed_as_go_does() {
    const FORM: &str = "; desired format: https://host[/path]";
    let errors_of = |url: &str| -> Vec<String> {
        let mut crd = websites();
        crd["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": {
            "clientConfig": {"url": url}, "conversionReviewVersions": ["v1"]}});
        apply_defaults(&mut crd);
        let errors = validate(&crd, None);
        errors.into_iter().map(|error| error.message).collect()
    };
    for good in [
        "https://h", "HTTPS://h/x", "https://[::1]:9443/x", "https://h:/x",
    ] {
        assert_eq!(errors_of(good), [""; 0], "{good}");
    }
    for (url, why) in [
        ("https://[::1/", "missing ']' in host"),
        ("https://a b/", "invalid character \" \" in host name"),
        ("https://h:abc/", "invalid port \":abc\" after host"),
        (
            "https://h/\u{1}",
            "net/url: invalid control character in URL",
        ),
        ("https://h/%zz", "invalid URL escape \"%zz\""),
        ("https://h/x%2", "invalid URL escape \"%2\""),
        (":", "missing protocol scheme"),
        ("a b:c", "first path segment in URL cannot contain colon"),
    ] {
        let expected =
            format!("Required value: url must be a valid URL: parse {url:?}: {why}{FORM}");
        let expected = expected.replace("\\u{1}", "\\x01");
        assert_eq!(errors_of(url), [expected], "{url}");
    }
    let scheme = |text: &str| {
        format!("Invalid value: {text:?}: 'https' is the only allowed URL scheme{FORM}")
    };
    let host = format!("Invalid value: \"\": host must be specified{FORM}");
    assert_eq!(errors_of("//h/x"), [scheme("")]);
    assert_eq!(errors_of("https:h/x"), std::slice::from_ref(&host));
    assert_eq!(errors_of("h/x"), [scheme(""), host]);
    let user = "Invalid value: \"u\": user information is not permitted in the URL";
    assert_eq!(errors_of("https://u@h/x"), [user]);
}

#[test]
fn the_address_of_a_conversion_webhook_is_validated() {
    let errors_of = |webhook: Value| -> Vec<String> {
        let mut crd = websites();
        crd["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": webhook});
        apply_defaults(&mut crd);
        let errors = validate(&crd, None);
        let field = |error: FieldError| format!("{}: {}", error.field, error.message);
        errors.into_iter().map(field).collect()
    };
    let service = json!({"namespace": "n", "name": "s"});
    let reviews = json!(["v1"]);
    let good = json!({"clientConfig": {"service": service}, "conversionReviewVersions": reviews});
    assert!(errors_of(good).is_empty());
    let at = "spec.conversion.webhookClientConfig";
    assert_eq!(
        errors_of(json!({"clientConfig": {"url": "http://e.com/?x=1"},
            "conversionReviewVersions": ["v2", "v2"]})),
        [
            format!("{at}.url: Invalid value: \"http\": 'https' is the only allowed URL scheme; desired format: https://host[/path]"),
            format!("{at}.url: Invalid value: \"x=1\": query parameters are not permitted in the URL"),
            "spec.conversion.conversionReviewVersions[1]: Invalid value: \"v2\": duplicate version".to_owned(),
            "spec.conversion.conversionReviewVersions: Invalid value: [\"v2\",\"v2\"]: must include at least one of v1, v1beta1".to_owned(),
        ]
    );
    let errors = errors_of(
        json!({"clientConfig": {"service": {"namespace": "n", "name": "",
        "port": 0, "path": "x"}}, "conversionReviewVersions": reviews}),
    );
    let fields: Vec<_> = errors
        .iter()
        .filter_map(|one| one.split(": ").next())
        .collect();
    let service = format!("{at}.service");
    assert_eq!(
        fields,
        [
            format!("{service}.namespace"),
            format!("{service}.port"),
            format!("{service}.path"),
            format!("{service}.path"),
        ]
    );
}

#[test]
fn a_status_subresource_restricts_the_keywords_of_the_root() {
    let status = json!({"subresources": {"status": {}}});
    let schema = json!({"type": "object", "maxProperties": 3, "properties": {
        "a": {"type": "array", "items": {"type": "string"}}}});
    let errors = refused(&schema, &status);
    assert_eq!(errors.len(), 1);
    let errors = &errors[0];
    assert!(errors.starts_with("S: Invalid value: {\"ID\":\"\",\"Schema\":\"\",\"Ref\":null,"));
    assert!(
        errors.contains("\"Properties\":{\"a\":{\"ID\":\"\""),
        "{errors}"
    );
    assert!(
        errors.contains("\"Items\":{\"Schema\":{\"ID\":\"\""),
        "{errors}"
    );
    assert!(errors.ends_with(
        "XPreserveUnknownFields XValidations] fields are allowed at the root of the schema if the status subresource is enabled"
    ));
    assert!(refused(&schema, &json!({})).is_empty());
}
