//! The bytes that are removed and added; all other bytes stay.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn pod() -> Gvk {
    Gvk::new("", "v1", "Pod")
}

fn prepared(raw: &str, drop: bool) -> Value {
    let bytes = prepare(raw.as_bytes(), &pod(), drop).json;
    serde_json::from_slice(&bytes).unwrap_or_else(|e| panic!("{e}: {bytes:?}"))
}

fn is_as_it_was(raw: &str, drop: bool) -> bool {
    matches!(prepare(raw.as_bytes(), &pod(), drop).json, Cow::Borrowed(_))
}

#[test]
fn managed_fields_are_removed_at_any_position() {
    for metadata in [
        r#"{"managedFields":[{"a":"]},\"{"}],"name":"a"}"#,
        r#"{"name":"a","managedFields":[]}"#,
        r#"{ "name" : "a" , "managedFields" : [ 1 , 2 ] , "uid" : "u" }"#,
        r#"{"managedFields":null}"#,
        r#"{"name":"a","managed\u0046ields":[1]}"#,
        r#"{"x":"managedFields","managedFields":{"deep":{"metadata":1}},"y":true}"#,
    ] {
        let raw = format!(r#"{{"apiVersion":"v1","kind":"Pod","metadata":{metadata},"spec":1}}"#);
        let mut expected: Value = serde_json::from_str(&raw).unwrap();
        expected["metadata"]
            .as_object_mut()
            .unwrap()
            .remove("managedFields");
        assert_eq!(prepared(&raw, true), expected);
        assert!(is_as_it_was(&raw, false));
    }
}

#[test]
fn only_the_metadata_of_the_object_itself_is_touched() {
    let raw = r#"{"apiVersion":"v1","kind":"Pod","spec":{"metadata":{"managedFields":[1]}},
        "managedFields":[2],"metadata":{"annotations":{"managedFields":"3"}}}"#;
    assert!(is_as_it_was(raw, true));
}

#[test]
fn a_list_item_gets_the_kind_of_the_list() {
    let expected = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}});
    assert_eq!(prepared(r#"{"metadata":{"name":"a"}}"#, true), expected);
    assert_eq!(
        prepared(r#"{"kind":"Pod","metadata":{"name":"a"}}"#, true),
        expected
    );
    assert_eq!(
        prepared(" { } ", true),
        json!({"apiVersion": "v1", "kind": "Pod"})
    );
}

#[test]
fn metadata_is_located_only_where_a_parser_would_find_it() {
    let plain = |raw: &str| prepare(raw.as_bytes(), &pod(), true).metadata.is_some();
    assert!(plain(r#" {"metadata":{"managedFields":[]},"spec":1} "#));
    for raw in [
        r#"{"metadata":{},"metadata":{}}"#,
        r#"{"metadata":{},"m\u0065tadata":{}}"#,
        r#"{"metadata":{}},"x":1"#,
        r#"{"metadata":{}"#,
        r#"{"metadata":null}"#,
        "[]",
    ] {
        assert!(!plain(raw), "{raw}");
    }
}

#[test]
fn the_identity_is_read_from_invalid_json() {
    let deep = format!("{}{}", "[".repeat(500), "]".repeat(500));
    for value in ["1e999", r#""\ud800""#, &deep] {
        let raw = format!(
            r#"{{"spec":{value},"metadata":{{"annotations":{value},"namespace":"a","name":"b\u002d\"c",
            "uid":"u","resourceVersion":"7"}},"status":{{"metadata":{{"name":"another"}}}}}}"#
        );
        assert!(serde_json::from_str::<Value>(&raw).is_err());
        let (key, uid, version) = identity(raw.as_bytes());
        assert_eq!(key, ObjectKey::namespaced("a", "b-\"c"));
        assert_eq!((uid.as_str(), version.as_str()), ("u", "7"));
    }
    let cut = br#"{"metadata":{"namespace":5,"name":"b"},"spec":{"#;
    assert_eq!(identity(cut).0, ObjectKey::cluster_scoped("b"));
}

#[test]
fn the_identity_is_read_from_an_object_that_does_not_decode() {
    let raw = br#"{"metadata":{"namespace":"a","name":"b","uid":"u","resourceVersion":"7",
        "labels":[1]},"spec":"not a spec"}"#;
    let (key, uid, version) = identity(raw);
    assert_eq!(key, ObjectKey::namespaced("a", "b"));
    assert_eq!((uid.as_str(), version.as_str()), ("u", "7"));
    assert_eq!(identity(b"{").0, ObjectKey::cluster_scoped(""));
    assert_eq!(
        identity(br#"{"metadata":{"name":7}}"#).0,
        ObjectKey::cluster_scoped("")
    );
}

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    let name = prop_oneof![
        Just("metadata".to_owned()),
        Just("managedFields".to_owned()),
        Just("kind".to_owned()),
        any::<String>()
    ];
    leaf.prop_recursive(4, 32, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(name.clone(), inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn cutting_bytes_equals_cutting_the_value(value in json(), pretty in any::<bool>()) {
        let text = if pretty {
            serde_json::to_string_pretty(&value).unwrap()
        } else {
            value.to_string()
        };
        let mut expected = value;
        if let Some(object) = expected.as_object_mut() {
            object.entry("apiVersion").or_insert_with(|| "v1".into());
            object.entry("kind").or_insert_with(|| "Pod".into());
            if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
                metadata.remove("managedFields");
            }
        }
        let prepared = prepare(text.as_bytes(), &pod(), true);
        let expected: Value = serde_json::from_str(&expected.to_string()).unwrap();
        let metadata = expected.get("metadata").filter(|metadata| metadata.is_object());
        for prepared in metadata_of(text.as_bytes(), &pod(), true).iter().chain([&prepared]) {
            if let Some(at) = &prepared.metadata {
                let found: Value = serde_json::from_slice(&prepared.json[at.clone()]).unwrap();
                prop_assert_eq!(Some(&found), metadata);
            }
        }
        prop_assert_eq!(serde_json::from_slice::<Value>(&prepared.json).unwrap(), expected);
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let _ = prepare(&bytes, &pod(), true);
        let _ = identity(&bytes);
    }

    #[test]
    fn no_broken_json_makes_it_panic(text in r#"[{}\[\]",:\\ a-z"metadata""managedFields"]{0,40}"#) {
        let _ = prepare(text.as_bytes(), &pod(), true);
    }
}
