//! Tests of serialised and decoded objects.

use serde_json::json;

use super::*;

fn made(value: Value) -> Stored {
    Stored::made(
        ("ns".into(), "a".into()),
        value.into(),
        7,
        Some(ChangeType::Added),
    )
}

fn entries() -> Value {
    json!([{"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
        "fieldsV1": {"f:data": {"f:\"q\"": {}}}}])
}

// SRV-STORE-8: responses include the managedFields.
#[test]
fn managed_fields_are_kept_apart_and_shown_in_the_whole_object() {
    // The managedFields stand before, between and after other members of metadata, and alone.
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
            let sent: Value = serde_json::from_slice(stored.bytes()).unwrap();
            assert_eq!(sent, object);
            let metadata: Value = serde_json::from_str(stored.metadata()).unwrap();
            assert_eq!(metadata, object["metadata"]);
            assert_eq!(stored.draft().value, lean);
            assert!(stored.holds(&stored.draft()));
        }
        // The whole object is complete, whether the lean or the whole form was decoded first.
        assert_eq!(*stored.folded().value, object);
        let again = stored.restamped(8);
        assert_eq!(again.managed(), stored.managed());
        assert_eq!(again.value["metadata"]["managedFields"], entries());
    }
}

// SRV-STORE-8: the lean form is the whole object.
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

// SRV-STORE-9: the object is encoded once.
#[test]
fn all_copies_of_a_revision_share_one_protobuf_form() {
    let object = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}});
    let stored = made(object.clone());
    let form = stored.folded().protobuf().unwrap() as *const ProtobufForm;
    assert!(std::ptr::eq(form, stored.protobuf().unwrap()));
    let form = stored.protobuf().unwrap();
    let opened = steersman_protobuf::Envelope::open(&form.object).unwrap();
    assert_eq!((&*opened.kind, opened.raw), ("Pod", &form.message[..]));
    let frame = form.event(ChangeType::Added).unwrap();
    let event = steersman_protobuf::WatchFrame::read(&frame[4..]).unwrap();
    assert_eq!(
        (event.kind, event.object),
        (&b"ADDED"[..], &form.object[..])
    );
    assert!(std::ptr::eq(event.object, &*form.object));
    assert_eq!(form.event(ChangeType::Deleted), None);
    let answer = Stored::new("ns".into(), "a".into(), object, 7);
    let answer = answer.protobuf().unwrap();
    assert_eq!(answer.message, form.message);
    assert_eq!(answer.event(ChangeType::Added), None);
}

#[test]
fn an_object_that_has_no_protobuf_form_names_the_member() {
    let problem = |object: Value| made(object).protobuf().unwrap_err().to_string();
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": 1}});
    assert!(problem(pod).starts_with(".metadata.name: "));
    let other = json!({"apiVersion": "v1", "kind": "T", "metadata": {"name": "a"}});
    assert_eq!(problem(other), ": T in v1 has no message");
}
