//! Digests of documents, and of the objects that a server makes of these documents.

use serde_json::json;

use super::*;

fn gvk() -> Gvk {
    Gvk::new("apps", "v1", "Deployment")
}

/// The document of an apply, with its members in the order in which a person writes them.
fn document() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"namespace": "a", "name": "d", "labels": {"app": "d"}},
        "spec": {
            "replicas": 2,
            "template": {"spec": {"containers": [
                {"name": "web", "image": "w:1", "ports": [{"containerPort": 80}]},
            ]}},
        },
    })
}

/// The object that the server makes of the document, with a default for each field that the document lacks.
fn object() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {
            "name": "d", "namespace": "a", "uid": "u", "resourceVersion": "7", "labels": {"app": "d", "other": "x"},
            "managedFields": [
                {"manager": "shop/cart", "operation": "Apply", "apiVersion": "apps/v1", "fieldsType": "FieldsV1", "fieldsV1": {
                    "f:metadata": {"f:labels": {"f:app": {}}},
                    "f:spec": {"f:replicas": {}, "f:template": {"f:spec": {"f:containers": {
                        "k:{\"name\":\"web\"}": {".": {}, "f:name": {}, "f:image": {}, "f:ports": {
                            "k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}},
                        }},
                    }}}},
                }},
                {"manager": "shop/cart", "operation": "Update", "subresource": "status", "apiVersion": "apps/v1", "fieldsV1": {
                    "f:status": {"f:replicas": {}},
                }},
                {"manager": "shopping", "operation": "Apply", "apiVersion": "apps/v1", "fieldsV1": {
                    "f:metadata": {"f:labels": {"f:other": {}}},
                }},
            ],
        },
        "spec": {
            "replicas": 2, "revisionHistoryLimit": 10,
            "template": {"spec": {"restartPolicy": "Always", "containers": [
                {"name": "side", "image": "s"},
                {"name": "web", "image": "w:1", "imagePullPolicy": "Always", "ports": [
                    {"containerPort": 80, "protocol": "TCP"},
                ]},
            ]}},
        },
        "status": {"replicas": 2},
    })
}

fn found(object: &Value) -> Box<[ApplyDigest]> {
    let managers = FieldManagers::default();
    managers.note("shop");
    let json = object.to_string();
    assert!(managers.may_own_fields_of(json.as_bytes()));
    ApplyDigest::found_in(json.as_bytes(), &gvk(), &managers)
}

/// CLIENT-12
#[test]
fn an_object_as_an_apply_left_it_has_the_digest_of_the_apply() {
    let expected = ApplyDigest::of("shop/cart", &gvk(), &document());
    assert_eq!(*found(&object()), [expected]);
    // Fields of other managers do not change the digest.
    let mut scaled = object();
    scaled["status"]["replicas"] = json!(0);
    scaled["metadata"]["resourceVersion"] = json!("8");
    scaled["metadata"]["labels"]["other"] = json!("y");
    assert_eq!(*found(&scaled), [expected]);
}

/// CLIENT-12
#[test]
fn each_difference_of_a_field_or_its_owner_changes_the_digest() {
    let applied = *found(&object()).first().unwrap();
    let mut documents = vec![document(); 4];
    documents[0]["spec"]["replicas"] = json!(3);
    documents[1]["spec"]["paused"] = json!(true);
    documents[2]["metadata"]["labels"] = json!({});
    documents[3]["spec"]["template"]["spec"]["containers"][0]["image"] = json!("w:2");
    for document in documents {
        assert_ne!(ApplyDigest::of("shop/cart", &gvk(), &document), applied);
    }
    assert_ne!(ApplyDigest::of("shop/other", &gvk(), &document()), applied);
    let drifts: [fn(&mut Value); 4] = [
        |object| object["spec"]["replicas"] = json!(5),
        // Another manager owns the field now, with the same value.
        |object| {
            drop(
                object["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]
                    .as_object_mut()
                    .map(|fields| fields.remove("f:replicas")),
            )
        },
        |object| object["spec"]["template"]["spec"]["containers"][1]["image"] = json!("x"),
        |object| {
            drop(
                object["metadata"]["labels"]
                    .as_object_mut()
                    .map(|labels| labels.remove("app")),
            )
        },
    ];
    for drift in drifts {
        let mut object = object();
        drift(&mut object);
        assert_ne!(*found(&object).first().unwrap(), applied);
    }
}

#[test]
fn only_applies_of_known_managers_in_this_version_are_found() {
    let mut other = object();
    other["metadata"]["managedFields"][0]["apiVersion"] = json!("apps/v1beta1");
    assert_eq!(found(&other).len(), 0);
    let managers = FieldManagers::default();
    let json = object().to_string();
    assert!(!managers.may_own_fields_of(json.as_bytes()));
    managers.note("shopping");
    managers.note("");
    assert_eq!(
        ApplyDigest::found_in(json.as_bytes(), &gvk(), &managers).len(),
        1
    );
    for broken in ["", "[]", "{\"metadata\":{\"managedFields\":[7]}}"] {
        let found = ApplyDigest::found_in(broken.as_bytes(), &gvk(), &managers);
        assert_eq!(found.len(), 0);
    }
}

#[test]
fn documents_are_told_apart_and_the_order_of_members_does_not_matter() {
    let digest = |spec: Value| ApplyDigest::of("m", &gvk(), &json!({"spec": spec}));
    let distinct = [
        json!({}),
        json!([]),
        json!(null),
        json!(""),
        json!("null"),
        json!(1),
        json!("1"),
        json!([1, 2]),
        json!([12]),
        json!(["a", "b"]),
        json!(["ab"]),
        json!({"a": "b"}),
        json!({"a": {"b": 1}}),
        json!([{"a": 1}, {"b": 1}]),
        json!([{"a": 1, "b": 1}]),
    ];
    let digests: std::collections::HashSet<_> = distinct.iter().cloned().map(digest).collect();
    assert_eq!(digests.len(), distinct.len());
    let [one, other] = ["{\"a\":1,\"b\":2}", "{\"b\":2,\"a\":1}"]
        .map(|text| serde_json::from_str::<Value>(text).unwrap());
    assert_eq!(digest(one), digest(other));
}

/// CLIENT-12
#[test]
fn quantities_are_compared_by_their_amount_where_the_server_rewrites_them() {
    let digest = |spec: Value| ApplyDigest::of("m", &gvk(), &json!({"spec": spec}));
    let limits = |cpu: &str| json!({"resources": {"limits": {"cpu": cpu}}});
    assert_eq!(digest(limits("1000m")), digest(limits("1")));
    assert_ne!(digest(limits("1000m")), digest(limits("2")));
    assert_ne!(
        digest(json!({"data": {"a": "1000m"}})),
        digest(json!({"data": {"a": "1"}}))
    );
}
