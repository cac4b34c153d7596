//! Tests of objects as they are serialised and decoded.

use serde_json::json;

use super::*;

fn made(value: Value) -> Stored {
    Stored::made(
        ("ns".into(), "a".into()),
        value.into(),
        7,
        ChangeType::Added,
    )
}

fn entries() -> Value {
    json!([{"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
        "fieldsV1": {"f:data": {"f:\"q\"": {}}}}])
}

// SRV-STORE-8
#[test]
fn managed_fields_are_kept_apart_and_shown_in_the_whole_object() {
    // managedFields before, between and after the other members of metadata, and alone.
    for mut metadata in [
        json!({"name": "a", "uid": "u"}),
        json!({"labels": {"l": "v"}, "name": "a"}),
        json!({"labels": {"l": "v"}}),
        json!({}),
    ] {
        let mut object = json!({"apiVersion": "v1", "kind": "T", "metadata": metadata, "n": 1});
        object["metadata"]["managedFields"] = entries();
        let stored = made(object.clone());
        metadata["resourceVersion"] = json!("7");
        object["metadata"]["resourceVersion"] = json!("7");
        let lean = json!({"apiVersion": "v1", "kind": "T", "metadata": metadata, "n": 1});
        for stored in [&stored, &stored.folded()] {
            assert_eq!(stored.lean(), &lean);
            assert_eq!(*stored.look(), lean);
            assert_eq!(*stored.value, object);
            assert_eq!(stored.managed(), Some(entries().to_string().as_str()));
            let sent: Value = serde_json::from_slice(&stored.bytes).unwrap();
            assert_eq!(sent, object);
            let metadata: Value = serde_json::from_str(stored.metadata()).unwrap();
            assert_eq!(metadata, object["metadata"]);
            assert_eq!(stored.draft().value, lean);
            assert!(stored.holds(&stored.draft()));
        }
        // The whole object is complete, whichever form was decoded first.
        assert_eq!(*stored.folded().value, object);
        let again = stored.restamped(8);
        assert_eq!(again.managed(), stored.managed());
        assert_eq!(again.value["metadata"]["managedFields"], entries());
    }
}

// SRV-STORE-8
#[test]
fn an_object_without_managed_fields_has_one_form() {
    let stored = made(json!({"apiVersion": "v1", "kind": "T", "metadata": {"name": "a"}}));
    assert_eq!(stored.managed(), None);
    assert!(std::ptr::eq(stored.lean(), &raw const *stored.value));
    for odd in [json!(null), json!({}), json!({"metadata": 1}), json!([])] {
        let stored = made(odd.clone());
        assert_eq!(stored.managed(), None);
        assert_eq!(stored.folded().lean(), stored.folded().lean());
        let metadata: Value = serde_json::from_str(stored.metadata()).unwrap();
        let known = odd.get("metadata").cloned().unwrap_or_default();
        assert_eq!(metadata, known, "{odd}");
    }
}
