//! Pages and events from bytes.

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube_core::DynamicObject;
use serde_json::json;
use steersman_object::ObjectKey;

use super::*;

fn decoder<K: steersman_object::TypedObject>() -> Decoder {
    Decoder::new(Kind::of::<K>(), true)
}

fn asked() -> Asked {
    Asked::of_collection("watch", &Kind::of::<ConfigMap>(), None)
}

fn page<K: Object>(decoder: &Decoder, body: &serde_json::Value) -> ListPage<K> {
    decoder.page(&asked(), body.to_string().as_bytes()).unwrap()
}

fn events(chunks: &[&str]) -> Vec<String> {
    let mut events = Events::new(decoder::<ConfigMap>(), asked());
    let mut words = Vec::new();
    for chunk in chunks {
        events.push(&Bytes::copy_from_slice(chunk.as_bytes()));
        while let Some(event) = events.next_event::<ConfigMap>() {
            words.push(word(event));
        }
    }
    words.extend(events.finish::<ConfigMap>().map(word));
    words
}

fn word(event: Result<WatchEvent<ConfigMap>, Error>) -> String {
    let named = |what: &str, object: Decoded<ConfigMap>| match object {
        Decoded::Good(map) => format!("{what} {}", map.metadata.name.unwrap_or_default()),
        Decoded::Malformed(malformed) => format!("{what} bad {}", malformed.key),
    };
    match event {
        Ok(WatchEvent::Added(object)) => named("added", object),
        Ok(WatchEvent::Modified(object)) => named("modified", object),
        Ok(WatchEvent::Deleted(object)) => named("deleted", object),
        Ok(WatchEvent::Bookmark {
            version,
            initial_events_end,
        }) => format!("bookmark {version} {initial_events_end}"),
        Ok(WatchEvent::Error(error)) => format!("error {:?}", error.code()),
        Err(error) if error.is_decode() => "undecodable".into(),
        Err(_) => "cut".into(),
    }
}

#[test]
fn one_malformed_item_leaves_the_others_alone() {
    let body = json!({
        "kind": "ConfigMapList", "apiVersion": "v1",
        "metadata": {"resourceVersion": "12", "continue": "t", "remainingItemCount": 3},
        "items": [
            {"metadata": {"name": "a", "namespace": "n", "managedFields": [{"manager": "x"}]}},
            {"metadata": {"name": "b", "namespace": "n", "uid": "u", "resourceVersion": "7"},
             "data": "not a map"},
            {"metadata": {"namespace": "n"}},
            {"metadata": {"name": "c", "namespace": "n"}},
        ],
    });
    let page: ListPage<ConfigMap> = page(&decoder::<ConfigMap>(), &body);
    assert_eq!(page.version.as_str(), "12");
    assert_eq!(page.continue_token.as_deref(), Some("t"));
    assert_eq!(page.remaining, Some(3));
    let Decoded::Malformed(malformed) = &page.items[1] else {
        panic!("{:?}", page.items[1]);
    };
    assert_eq!(malformed.key, ObjectKey::namespaced("n", "b"));
    assert_eq!(
        (malformed.uid.as_str(), malformed.version.as_str()),
        ("u", "7")
    );
    assert!(
        malformed.error.contains("expected a map"),
        "{}",
        malformed.error
    );
    assert!(matches!(&page.items[2], Decoded::Malformed(m) if m.error.contains("name")));
    let good = page.into_good();
    assert_eq!(good.len(), 2);
    assert_eq!(good[0].metadata.managed_fields, None);
}

#[test]
fn what_does_not_decode_is_named_by_its_field() {
    use k8s_openapi::api::apps::v1::Deployment;
    let said = |object: serde_json::Value| {
        let raw = object.to_string();
        match decoder::<Deployment>().object::<Deployment>(raw.as_bytes()) {
            Decoded::Malformed(malformed) => malformed.error,
            Decoded::Good(_) => panic!("{raw}"),
        }
    };
    let text = said(json!({"metadata": {"name": "a"}, "spec": {"replicas": "two"}}));
    assert!(
        text.starts_with("spec.replicas: invalid type: string \"two\", expected i32 at line 1"),
        "{text}"
    );
    let container = json!({"name": "c", "ports": [{"containerPort": true}]});
    let text = said(json!({
        "metadata": {"name": "a"},
        "spec": {"template": {"spec": {"containers": [container]}}},
    }));
    assert!(
        text.starts_with("spec.template.spec.containers[0].ports[0].containerPort: invalid type"),
        "{text}"
    );
    // The object itself has no path, and a Secret's values are quoted by nobody.
    assert!(said(json!([])).starts_with("invalid type"));
    let secret = json!({"metadata": {"name": "s"}, "data": {"k": {"hunter": 2}}}).to_string();
    match decoder::<Secret>().object::<Secret>(secret.as_bytes()) {
        Decoded::Malformed(malformed) => assert!(!malformed.error.contains("hunter")),
        Decoded::Good(_) => panic!("{secret}"),
    }
}

#[test]
fn an_empty_list_may_have_no_items_at_all() {
    for items in [json!(null), json!([])] {
        let body = json!({"metadata": {"resourceVersion": "1"}, "items": items});
        let page: ListPage<ConfigMap> = page(&decoder::<ConfigMap>(), &body);
        assert!(page.items.is_empty() && page.continue_token.is_none());
    }
    for body in [&b"<html>"[..], b"[]", b"", b"{\"items\":7}"] {
        let page = decoder::<ConfigMap>().page::<ConfigMap>(&asked(), body);
        assert!(page.unwrap_err().is_decode());
    }
}

#[test]
fn dynamic_items_get_the_kind_that_lists_leave_out() {
    let body = json!({"metadata": {}, "items": [{"metadata": {"name": "a"}, "spec": {"x": 1}}]});
    let page: ListPage<DynamicObject> = page(&decoder::<ConfigMap>(), &body);
    let object = page.into_good().remove(0);
    let types = object.types.unwrap();
    assert_eq!(
        (types.api_version.as_str(), types.kind.as_str()),
        ("v1", "ConfigMap")
    );
    assert_eq!(object.data["spec"]["x"], 1);
}

#[test]
fn managed_fields_stay_where_they_are_asked_for() {
    let decoder = Decoder::new(Kind::of::<ConfigMap>(), false);
    let body = json!({"items": [{"metadata": {"name": "a", "managedFields": [{"manager": "x"}]}}]});
    let page: ListPage<ConfigMap> = page(&decoder, &body);
    let map = page.into_good().remove(0);
    assert_eq!(map.metadata.managed_fields.map(|m| m.len()), Some(1));
}

#[test]
fn what_is_wrong_with_a_secret_does_not_quote_it() {
    let body = json!({"items": [{"metadata": {"name": "a"}, "data": "hunter2"}]});
    let page: ListPage<Secret> = page(&decoder::<Secret>(), &body);
    let Decoded::Malformed(malformed) = &page.items[0] else {
        panic!("decoded");
    };
    assert!(!malformed.error.contains("hunter2"), "{}", malformed.error);
    assert!(malformed.error.contains("column"), "{}", malformed.error);
}

#[test]
fn events_come_however_the_body_is_cut() {
    let body = concat!(
        r#"{"type":"ADDED","object":{"metadata":{"name":"a"}}}"#,
        "\n\n",
        r#"{"type":"MODIFIED","object":{"metadata":{"name":"b"},"data":7}}"#,
        "\r\n",
        r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9","annotations":{"k8s.io/initial-events-end":"true"}}}}"#,
        "\n",
        r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"10","annotations":{"k8s.io/initial-events-end":"no"}}}}"#,
        "\n",
        r#"{"object":{"metadata":{"name":"c"}},"type":"DELETED"}"#,
    );
    let expected = [
        "added a",
        "modified bad b",
        "bookmark 9 true",
        "bookmark 10 false",
        "deleted c",
    ];
    assert_eq!(events(&[body]), expected);
    for at in 0..body.len() {
        if let Some((head, tail)) = body.split_at_checked(at) {
            assert_eq!(events(&[head, tail]), expected);
        }
    }
}

#[test]
fn an_error_event_and_a_bare_status_are_errors_of_the_server() {
    let status = json!({"kind": "Status", "code": 410, "reason": "Expired"});
    let event = json!({"type": "ERROR", "object": status}).to_string();
    assert_eq!(events(&[&event]), ["error Some(410)"]);
    let bare = serde_json::to_string_pretty(&status).unwrap();
    assert_eq!(events(&[&bare, "\n"]), ["error Some(410)"]);
}

#[test]
fn what_is_no_event_is_an_error_and_a_cut_one_is_told_apart() {
    assert_eq!(events(&["<html>\n"]), ["undecodable"]);
    assert_eq!(
        events(&["{\"type\":\"PARTY\",\"object\":{}}\n"]),
        ["undecodable"]
    );
    assert_eq!(
        events(&["{\"type\":\"BOOKMARK\",\"object\":{}}\n"]),
        ["undecodable"]
    );
    assert_eq!(events(&["{\"type\":\"ADDED\",\"obj"]), ["cut"]);
    assert_eq!(events(&[""]), [""; 0]);
}

#[test]
fn a_line_past_every_bound_is_one_error() {
    let mut events = Events::new(decoder::<ConfigMap>(), asked());
    let chunk = Bytes::from(vec![b'x'; 1 << 20]);
    for _ in 0..=32 {
        events.push(&chunk);
    }
    let error = events.next_event::<ConfigMap>().unwrap().unwrap_err();
    assert!(error.to_string().contains("32 MiB"), "{error}");
}
