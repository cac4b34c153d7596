//! Pages and events from bytes.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube_core::DynamicObject;
use proptest::prelude::*;
use serde_json::json;
use steersman_object::{Kind, Object, ObjectKey};

use super::*;
use crate::event::ListPage;
use crate::head::RawObject;

fn decoder<K: steersman_object::TypedObject>() -> AnswerDecoder {
    AnswerDecoder::new(Kind::of::<K>(), true)
}

fn info() -> RequestInfo {
    RequestInfo::of_collection("watch", &Kind::of::<ConfigMap>(), None)
}

fn page<K: Object>(decoder: &AnswerDecoder, body: &serde_json::Value) -> ListPage<K> {
    page_of(decoder, body.to_string().as_bytes(), PageBody::next_object).unwrap()
}

fn page_of<K>(
    decoder: &AnswerDecoder,
    body: &[u8],
    next: impl Fn(&mut PageBody) -> Result<Option<Decoded<K>>, Error>,
) -> Result<ListPage<K>, Error> {
    let mut page = PageBody::new(decoder.clone(), info(), Negotiated::default());
    let mut items = Vec::new();
    for chunk in body.chunks(7) {
        page.push(Bytes::copy_from_slice(chunk));
        while let Some(item) = next(&mut page)? {
            items.push(item);
        }
    }
    Ok(ListPage::of(items, page.finish()?))
}

fn events(chunks: &[&str]) -> Vec<String> {
    let mut events = LineEvents::new(decoder::<ConfigMap>(), info());
    let mut words = Vec::new();
    for chunk in chunks {
        events.push(Bytes::copy_from_slice(chunk.as_bytes()));
        while let Some(event) = events.next_event() {
            words.push(word(event));
        }
    }
    words.extend(events.finish().map(word));
    words
}

fn word(event: Result<WatchEvent, Error>) -> String {
    let named = |what: &str, object: Decoded<RawObject>| match object {
        Decoded::Good(map) => format!("{what} {}", map.head().key),
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
fn a_decode_error_names_the_field() {
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
    // An error about the object itself has no path, and no error quotes values of a Secret.
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
}

#[test]
fn a_body_that_is_no_list_differs_from_a_truncated_list() {
    let error = |body: &str| {
        let decoder = decoder::<ConfigMap>();
        page_of(
            &decoder,
            body.as_bytes(),
            PageBody::next_object::<ConfigMap>,
        )
        .unwrap_err()
    };
    for (body, problem) in [
        ("<html>", "at byte 0, an object was expected"),
        ("[]", "at byte 0, an object was expected"),
        ("", "it is empty"),
        ("{}", "it has no items"),
        (r#"{"kind":"Status","code":500}"#, "it has no items"),
        (r#"{"items":7}"#, "its items are no array"),
        (r#"{"items":[]}]"#, "at byte 12, the end was expected"),
        (
            r#"{"metadata":{"resourceVersion":7},"items":[]}"#,
            "its metadata: it has another shape",
        ),
        (
            r#"{"metadata":{],"items":[]}"#,
            "its metadata: it is not JSON",
        ),
    ] {
        let error = error(body);
        assert!(error.is_decode(), "{body}: {error}");
        let text = error.to_string();
        assert!(
            text.contains("it is not a list: ") && text.contains(problem),
            "{body}: {text}"
        );
    }
    assert!(error(r#"{"metadata":{},"items":[{"metadata":{"#).is_transport());
}

#[test]
fn dynamic_items_get_the_kind_of_their_list() {
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
fn managed_fields_are_kept_on_request() {
    let decoder = AnswerDecoder::new(Kind::of::<ConfigMap>(), false);
    let body = json!({"items": [{"metadata": {"name": "a", "managedFields": [{"manager": "x"}]}}]});
    let page: ListPage<ConfigMap> = page(&decoder, &body);
    let map = page.into_good().remove(0);
    assert_eq!(map.metadata.managed_fields.map(|m| m.len()), Some(1));
}

#[test]
fn errors_of_secrets_quote_no_value() {
    let body = json!({"items": [{"metadata": {"name": "a"}, "data": "hunter2"}]});
    let page: ListPage<Secret> = page(&decoder::<Secret>(), &body);
    let Decoded::Malformed(malformed) = &page.items[0] else {
        panic!("decoded");
    };
    assert!(!malformed.error.contains("hunter2"), "{}", malformed.error);
    assert!(malformed.error.contains("column"), "{}", malformed.error);
}

#[test]
fn events_do_not_depend_on_the_chunks() {
    let body = concat!(
        r#"{"type":"ADDED","object":{"metadata":{"name":"a"}}}"#,
        "\n\n",
        r#"{"type":"MODIFIED","object":{"metadata":{"name":"b","labels":7}}}"#,
        "\r\n",
        r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9","annotations":{"k8s.io/initial-events-end":"true"}}}}"#,
        "\n",
        r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"10","annotations":{"k8s.io/initial-events-end":"no"}}}}"#,
        "\n",
        r#"{"object":{"metadata":{"name":"c"}},"type":"DELETED"}"#,
    );
    let expected = [
        "added a", "modified bad b", "bookmark 9 true", "bookmark 10 false", "deleted c",
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
fn a_line_that_is_no_event_differs_from_a_truncated_event() {
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
    let mut events = LineEvents::new(decoder::<ConfigMap>(), info());
    let chunk = Bytes::from(vec![b'x'; 1 << 20]);
    for _ in 0..32 {
        events.push(chunk.clone());
        assert!(events.next_event().is_none());
    }
    events.push(chunk);
    let error = events.next_event().unwrap().unwrap_err();
    assert!(error.to_string().contains("32 MiB"), "{error}");
}

#[test]
fn a_raw_object_has_its_head_and_its_undecoded_bytes() {
    let body = json!({"items": [
        {"metadata": {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "7",
            "generation": 3, "deletionTimestamp": "2026-01-01T00:00:00Z", "labels": {"l": "v"},
            "finalizers": ["f"], "managedFields": [{"manager": "x"}],
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "pu"}]},
            "data": "no map"},
        {"metadata": {"name": "b", "labels": [1]}},
        {"metadata": {"namespace": "n"}},
        [{"name": "c"}],
    ]});
    let maps = decoder::<ConfigMap>();
    let page = page_of(&maps, body.to_string().as_bytes(), PageBody::next_raw);
    let mut items = page.unwrap().items.into_iter();
    let raw = items.next().unwrap().good().unwrap();
    let head = raw.head();
    assert_eq!(head.key, ObjectKey::namespaced("n", "a"));
    assert_eq!((head.uid.as_str(), head.version.as_str()), ("u", "7"));
    assert_eq!((head.generation, head.deleting), (Some(3), true));
    assert_eq!(head.labels.get("l").map(String::as_str), Some("v"));
    assert_eq!(
        (head.finalizers.len(), head.owners[0].uid.as_str()),
        (1, "pu")
    );
    let json: serde_json::Value = serde_json::from_slice(raw.json()).unwrap();
    assert_eq!(
        (json["kind"].as_str(), json["data"].as_str()),
        (Some("ConfigMap"), Some("no map"))
    );
    assert!(json["metadata"].get("managedFields").is_none());
    let wrong: Vec<String> = items
        .map(|item| match item {
            Decoded::Malformed(malformed) => format!("{} {}", malformed.key, malformed.error),
            Decoded::Good(object) => format!("{object:?}"),
        })
        .collect();
    assert!(
        wrong[0].starts_with("b metadata.labels: invalid type"),
        "{wrong:?}"
    );
    assert!(wrong[1].ends_with("metadata.name is missing"), "{wrong:?}");
    assert!(wrong[2].ends_with("it is not a JSON object"), "{wrong:?}");
    let secret = json!({"metadata": {"name": "s", "labels": {"k": ["hunter"]}}}).to_string();
    match decoder::<Secret>().raw_object(secret.as_bytes()) {
        Decoded::Malformed(malformed) => assert!(!malformed.error.contains("hunter")),
        Decoded::Good(_) => panic!("{secret}"),
    }
}

#[test]
fn metadata_only_keeps_nothing_else_of_a_whole_object() {
    let decoder = decoder::<ConfigMap>().metadata_only(true);
    for object in [
        json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
            "metadata": {"managedFields": [1], "name": "a", "labels": {"l": "v"}}}),
        json!({"data": {"k": "v"}, "metadata": {"name": "a", "labels": {"l": "v"}}, "x": 1}),
    ] {
        let raw = decoder
            .raw_object(object.to_string().as_bytes())
            .good()
            .unwrap();
        let json: serde_json::Value = serde_json::from_slice(raw.json()).unwrap();
        let expected = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "a", "labels": {"l": "v"}}});
        assert_eq!(json, expected);
    }
}

/// Another kind arrives while a conversion is under way, or if the server misread the request. A read of the object's
/// name must not find the name free.
#[test]
fn an_object_of_another_kind_is_malformed_under_its_own_key() {
    let deployments = || decoder::<Deployment>();
    let taken = |metadata_only, api_version: &str, kind: &str| {
        let object = json!({
            "apiVersion": api_version, "kind": kind, "metadata": {"name": "a", "uid": "u"},
        });
        let decoder = deployments().metadata_only(metadata_only);
        match decoder.raw_object(object.to_string().as_bytes()) {
            Decoded::Good(_) => None,
            Decoded::Malformed(malformed) => {
                assert_eq!((malformed.key.name(), &*malformed.uid), ("a", "u"));
                Some(malformed.error)
            }
        }
    };
    for (api_version, kind, whole, metadata) in [
        ("apps/v1", "Deployment", true, true),
        ("", "", true, true),
        ("apps/v1beta1", "Deployment", false, false),
        ("v1", "Deployment", false, false),
        ("apps/v1", "ReplicaSet", false, false),
        ("meta.k8s.io/v1", "Table", false, false),
        ("meta.k8s.io/v1", "PartialObjectMetadata", false, true),
    ] {
        for (metadata_only, good) in [(false, whole), (true, metadata)] {
            let problem = format!(
                "it says that it is {kind} of {api_version}, and Deployment of apps/v1 was asked for"
            );
            let expected = (!good).then_some(problem);
            assert_eq!(taken(metadata_only, api_version, kind), expected);
        }
    }
    // An event with such an object needs the parser.
    let pod = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"}}"#;
    let event = format!(r#"{{"type":"ADDED","object":{pod}}}"#);
    let events = LineEvents::new(deployments(), info());
    let Ok(Some(WatchEvent::Added(Decoded::Malformed(kept)))) = events.decode(event.as_bytes())
    else {
        panic!("{event}");
    };
    assert_eq!(kept.key, ObjectKey::cluster_scoped("p"));
    // The kind may be spelled with escapes.
    let escaped = br#"{"kind":"Deploy\u006dent","apiVersion":"apps\/v1","metadata":{"name":"a"}}"#;
    assert!(matches!(
        deployments().raw_object(escaped),
        Decoded::Good(_)
    ));
}

#[test]
fn unusual_members_around_the_object_go_to_the_parser() {
    let plain = |text: &str| {
        let events = LineEvents::new(decoder::<ConfigMap>(), info());
        events.plain_event(text.as_bytes()).is_some()
    };
    let object = r#"{"metadata":{"name":"a"},"data":{"k":"}"}}"#;
    assert!(plain(&format!(r#"{{"type":"ADDED","object":{object}}}"#)));
    assert!(plain(&format!(
        r#"{{"type":"DELETED","object": {object} }} "#
    )));
    for text in [
        format!(r#"{{"type":"ADDED","object":{object},"more":1}}"#),
        format!(r#"{{"type":"ADDED","object":{object}"#),
        format!(r#"{{"type":"ADDED","object":{object}}}}}"#),
        format!(r#"{{"object":{object},"type":"ADDED"}}"#),
        format!(r#"{{"type":"BOOKMARK","object":{object}}}"#),
        r#"{"type":"ADDED","object":{"metadata":{"name":"a"}"#.to_owned(),
        r#"{"type":"ADDED","object":{"metadata":{"labels":{}}}}"#.to_owned(),
        r#"{"type":"ADDED","object":{"metadata":{"name":"a","labels":7}}}"#.to_owned(),
        r#"{"type":"ADDED","object":{"metadata":{"name":"a"},"metadata":{}}}"#.to_owned(),
    ] {
        assert!(!plain(&text), "{text}");
    }
    // Problems inside of the object show when it is decoded.
    let broken = r#"{"type":"ADDED","object":{"metadata":{"name":"a"},"data":tru}}"#;
    assert_eq!(events(&[broken, "\n"]), ["added a"]);
}

proptest! {
    #[test]
    fn an_event_is_the_same_without_a_parser_as_with_one(
        kind in prop::sample::select(vec!["ADDED", "MODIFIED", "DELETED"]),
        name in "[a-z]{0,3}",
        label in any::<String>(),
        data in any::<String>(),
        shape in 0..4_usize,
        edits in prop::collection::vec((0..200_usize, prop::sample::select(&b"{}[]\",:\\ 1n"[..])), 0..2),
    ) {
        let metadata = json!({"name": name, "labels": {"l": label}, "managedFields": [{"a": label}]});
        let object = match shape {
            0 => json!({"metadata": metadata, "data": {"k": data}}),
            1 => json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}),
            2 => json!({"data": data, "spec": {"metadata": metadata}, "metadata": metadata}),
            _ => json!({"metadata": metadata, "nested": [[data, {"metadata": {}}]]}),
        };
        let mut text = format!(r#"{{"type":"{kind}","object":{object}}}"#).into_bytes();
        for (place, byte) in edits {
            let place = place.min(text.len());
            text.insert(place, byte);
        }
        let events = LineEvents::new(decoder::<ConfigMap>(), info());
        let shown = |event: &WatchEvent| match event {
            WatchEvent::Added(Decoded::Good(object)) => format!("+{:?} {:?}", object.head(), value(object)),
            WatchEvent::Modified(Decoded::Good(object)) => format!("~{:?} {:?}", object.head(), value(object)),
            WatchEvent::Deleted(Decoded::Good(object)) => format!("-{:?} {:?}", object.head(), value(object)),
            other => format!("{other:?}"),
        };
        // If the parser accepts the event, too, the results are equal.
        if let (Some(plain), Ok(Some(parsed))) = (events.plain_event(&text), events.parsed_event(&text)) {
            prop_assert_eq!(shown(&plain), shown(&parsed));
        }
    }
}

fn value(object: &RawObject) -> Option<serde_json::Value> {
    serde_json::from_slice(object.json()).ok()
}
