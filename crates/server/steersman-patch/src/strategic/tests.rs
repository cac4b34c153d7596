//! Rules of strategic merge patches that the recordings of a real server do not cover.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn pod() -> TypeRef<'static> {
    TypeRef::built_in("v1", "Pod").unwrap()
}

fn patched(object: &Value, patch: Value) -> Result<Value, (u16, String)> {
    apply(object, Ok(patch), pod()).map_err(|refused| (refused.code, refused.message))
}

fn containers(names: &[&str]) -> Value {
    let all: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
    json!({"spec": {"containers": all}})
}

#[test]
fn elements_that_the_patch_does_not_order_keep_their_positions() {
    let old = containers(&["a", "b", "c", "d"]);
    let new = patched(
        &old,
        json!({"spec": {
            "$setElementOrder/containers": [{"name": "d"}, {"name": "x"}, {"name": "b"}],
            "containers": [{"name": "x"}, {"name": "a", "$patch": "delete"}],
        }}),
    );
    assert_eq!(new.unwrap(), containers(&["c", "d", "x", "b"]));
}

#[test]
fn a_set_element_order_alone_reorders() {
    let old = containers(&["a", "b"]);
    let order = json!({"spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}});
    assert_eq!(patched(&old, order).unwrap(), containers(&["b", "a"]));
    let absent = json!({"spec": {"$setElementOrder/volumes": [{"name": "v"}]}});
    assert_eq!(patched(&old, absent).unwrap(), old);
}

#[test]
fn directives_do_not_reach_a_new_field() {
    let old = json!({"spec": {}});
    let patch = json!({"spec": {
        "securityContext": {"$retainKeys": ["runAsUser"], "runAsUser": 1, "fsGroup": null},
        "volumes": [{"name": "v", "$retainKeys": ["name"]}, {"name": "w", "$patch": "delete"}],
        "$deleteFromPrimitiveList/none": ["x"],
    }});
    let new = json!({"spec": {"securityContext": {"runAsUser": 1}, "volumes": [{"name": "v"}]}});
    assert_eq!(patched(&old, patch).unwrap(), new);
}

#[test]
fn malformed_directives_are_refused() {
    let old = containers(&["a"]);
    for (patch, code, message) in [
        (
            json!({"spec": {"$setElementOrder": [1]}}),
            400,
            "invalid patch format of setElementOrder list",
        ),
        (
            json!({"metadata": {"$deleteFromPrimitiveList": ["x"]}}),
            400,
            "invalid patch format of primitive list",
        ),
        (
            json!({"spec": {"$retainKeys": "x"}}),
            400,
            "invalid patch format of retainKeys",
        ),
        (
            json!({"spec": {"containers": [{"name": "a", "$patch": "merge"}]}}),
            500,
            "merging lists cannot yet be specified in the patch",
        ),
        (
            json!({"spec": {"containers": [{"$patch": "delete"}]}}),
            500,
            "map: map[$patch:delete] does not contain declared merge key: name",
        ),
        (
            json!({"spec": {"containers": [[]]}}),
            422,
            "lists of lists are not supported",
        ),
    ] {
        let old = if code == 400 && message.contains("primitive") {
            json!({"metadata": {"finalizers": ["x"]}})
        } else {
            old.clone()
        };
        assert_eq!(patched(&old, patch), Err((code, message.to_owned())));
    }
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        Just(json!("delete")),
        Just(json!("replace")),
        Just(json!("name")),
        any::<bool>().prop_map(Value::from),
        (0..3).prop_map(Value::from),
    ];
    let name = prop_oneof![
        Just("spec"),
        Just("containers"),
        Just("metadata"),
        Just("finalizers"),
        Just("name"),
        Just("ports"),
        Just("$patch"),
        Just("$retainKeys"),
        Just("$setElementOrder/containers"),
        Just("$setElementOrder/finalizers"),
        Just("$deleteFromPrimitiveList/finalizers"),
        Just("$deleteFromPrimitiveList"),
    ];
    leaf.prop_recursive(5, 40, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::hash_map(name.clone(), inner, 0..5).prop_map(|members| {
                let members = members
                    .into_iter()
                    .map(|(name, one)| (name.to_owned(), one));
                Value::Object(members.collect())
            }),
        ]
    })
}

proptest! {
    /// SRV-3: every patch of every value ends in a result or a refusal.
    #[test]
    fn srv_3_any_patch_has_an_answer(old in value(), patch in value()) {
        let _ = patched(&old, patch);
    }

    /// A patch without directives has the same result when it is applied a second time.
    #[test]
    fn a_plain_patch_is_idempotent(
        names in prop::collection::hash_set("[a-d]", 0..4),
        patch in prop::collection::hash_set("[a-f]", 0..4),
    ) {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let patch: Vec<&str> = patch.iter().map(String::as_str).collect();
        let once = patched(&containers(&names), containers(&patch)).unwrap();
        prop_assert_eq!(patched(&once, containers(&patch)).unwrap(), once);
    }
}
