//! Lists and watches in protobuf, compared with the same objects in JSON.

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use serde_json::{Value, json};
use steersman_object::Kind;
use steersman_protobuf::{encode_object, encode_text, frame, seal_list};

use super::*;
use crate::decode::bodies::{PageBody, watch_body};
use crate::encoding::{Encoding, SharedEncoding};

mod typed;

fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": "a", "uid": "u", "resourceVersion": "7", "generation": 1,
            "labels": { "app": "b" }, "annotations": { "k": "v" }, "finalizers": ["f/x"],
            "managedFields": [{ "manager": "m", "operation": "Update", "apiVersion": "v1",
                "time": "2026-11-23T09:28:44Z", "fieldsType": "FieldsV1", "fieldsV1": { "f:spec": {} } }],
        },
        "spec": { "containers": [{ "name": "c", "image": "i", "resources": {} }], "priority": 0 },
        "status": { "phase": "Running" },
    })
}

fn message(value: &Value) -> Vec<u8> {
    let message = Message::of_kind("v1", value["kind"].as_str().unwrap()).unwrap();
    encode_text(message, value.to_string().as_bytes())
        .unwrap()
        .raw
}

fn list(kind: &str, items: &[Vec<u8>]) -> Vec<u8> {
    let meta = json!({ "resourceVersion": "9", "continue": "more", "remainingItemCount": 3 });
    let message = Message::named("meta.v1.ListMeta").unwrap();
    let meta = encode_text(message, meta.to_string().as_bytes())
        .unwrap()
        .raw;
    seal_list("v1", kind, &meta, items.iter().map(Vec::as_slice))
}

fn info() -> RequestInfo {
    RequestInfo::of_collection("list", &Kind::of::<Pod>(), None)
}

fn negotiated() -> Negotiated {
    Negotiated {
        by: Some(SharedEncoding::new(Encoding::Protobuf)),
        is_protobuf: true,
        ..Negotiated::default()
    }
}

/// Reads a list in chunks of this size.
fn read(
    decoder: &AnswerDecoder,
    negotiated: &Negotiated,
    body: &[u8],
    size: usize,
) -> Result<(Vec<RawObject>, crate::event::PageEnd), Error> {
    let mut page = PageBody::new(decoder.clone(), info(), negotiated.clone());
    let mut items = Vec::new();
    for chunk in body.chunks(size) {
        page.push(Bytes::copy_from_slice(chunk));
        while let Some(item) = page.next_raw()? {
            items.push(item.good().unwrap());
        }
    }
    Ok((items, page.finish()?))
}

#[test]
fn objects_are_those_of_json() {
    let pods = [pod("x"), pod("y")];
    let body = list("PodList", &[message(&pods[0]), message(&pods[1])]);
    for drop_managed_fields in [true, false] {
        let decoder = AnswerDecoder::new(Kind::of::<Pod>(), drop_managed_fields);
        for size in [1, 7, 100, body.len()] {
            let (items, end) = read(&decoder, &negotiated(), &body, size).unwrap();
            assert_eq!(items.len(), 2);
            for (item, pod) in items.iter().zip(&pods) {
                let from_json = decoder
                    .raw_object(pod.to_string().as_bytes())
                    .good()
                    .unwrap();
                assert_eq!(item.head(), from_json.head());
                let value = |object: &RawObject| -> Value {
                    serde_json::from_slice(object.json()).unwrap()
                };
                assert_eq!(value(item), value(&from_json));
            }
            assert_eq!(end.version.as_str(), "9");
            assert_eq!(end.continue_token.as_deref(), Some("more"));
            assert_eq!(end.remaining, Some(3));
        }
    }
}

// CONN-7
#[test]
fn broken_bytes_are_an_error_and_the_next_request_is_json() {
    let decoder = AnswerDecoder::new(Kind::of::<Pod>(), true);
    let good = list("PodList", &[message(&pod("x"))]);
    for (body, problem) in [
        (
            b"{\"items\":[]}".to_vec(),
            "it does not begin as an object in protobuf",
        ),
        (
            list("ConfigMapList", &[vec![]]),
            "it says that it is ConfigMapList of v1",
        ),
        ([&good[..], b"\x07"].concat(), "ends"),
    ] {
        let negotiated = negotiated();
        let encoding = negotiated.by.clone().unwrap();
        assert!(encoding.is_protobuf());
        let error = read(&decoder, &negotiated, &body, 16).unwrap_err();
        assert!(error.to_string().contains(problem), "{error}");
        assert_eq!(encoding.is_protobuf(), error.is_transport(), "{error}");
    }
    // A body that ends too early comes from the network, so protobuf stays on.
    let (negotiated, cut) = (negotiated(), &good[..good.len() - 9]);
    assert!(
        read(&decoder, &negotiated, cut, 16)
            .unwrap_err()
            .is_transport()
    );
    assert!(negotiated.by.unwrap().is_protobuf());
}

#[test]
fn an_object_that_does_not_decode_affects_no_other() {
    let metadata = json!({ "kind": "ConfigMap", "metadata": {
        "name": "x", "namespace": "a", "uid": "u", "resourceVersion": "7" } });
    // The spec ends too early.
    let broken = [&message(&metadata)[..], b"\x12\x05a"].concat();
    let decoder = AnswerDecoder::new(Kind::of::<Pod>(), true);
    let negotiated = negotiated();
    let body = list("PodList", &[broken, message(&pod("y"))]);
    let mut page = PageBody::new(decoder, info(), negotiated.clone());
    page.push(body.into());
    let Some(Decoded::Malformed(malformed)) = page.next_raw().unwrap() else {
        panic!("it decoded");
    };
    assert_eq!(malformed.key.to_string(), "a/x");
    assert_eq!(
        (malformed.uid.as_str(), malformed.version.as_str()),
        ("u", "7")
    );
    assert_eq!(malformed.error, "unexpected EOF");
    assert!(page.next_raw().unwrap().unwrap().good().is_some());
    assert!(negotiated.by.unwrap().is_protobuf());
}

fn event(kind: &str, object: &Value) -> Vec<u8> {
    frame(
        kind,
        &encode_object(object.as_object().unwrap()).unwrap().unwrap(),
    )
}

#[test]
fn events_are_those_of_json() {
    let bookmark = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": {
        "resourceVersion": "12", "annotations": { "k8s.io/initial-events-end": "true" } } });
    let expired = json!({ "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
        "message": "too old", "reason": "Expired", "code": 410 });
    let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "m" } });
    let all = [
        ("ADDED", pod("x")),
        ("MODIFIED", pod("y")),
        ("DELETED", pod("x")),
        ("ADDED", map),
        ("BOOKMARK", bookmark),
        ("ERROR", expired),
    ];
    let decoder = AnswerDecoder::new(Kind::of::<Pod>(), true);
    let read = |negotiated: Negotiated, body: &[u8], size: usize| {
        let mut events = watch_body(decoder.clone(), info(), negotiated);
        let mut found = Vec::new();
        for chunk in body.chunks(size) {
            events.push(Bytes::copy_from_slice(chunk));
            while let Some(event) = events.next_event() {
                found.push(format!("{:?}", event.unwrap()));
            }
        }
        assert!(events.finish().is_none());
        found
    };
    let lines: String = all
        .iter()
        .map(|(kind, object)| json!({ "type": kind, "object": object }).to_string() + "\n")
        .collect();
    let wanted = read(Negotiated::default(), lines.as_bytes(), 1000);
    let frames: Vec<u8> = all
        .iter()
        .flat_map(|(kind, object)| event(kind, object))
        .collect();
    for size in [1, 5, 333, frames.len()] {
        assert_eq!(read(negotiated(), &frames, size), wanted);
    }
}

#[test]
fn a_broken_event_ends_the_watch() {
    let decoder = AnswerDecoder::new(Kind::of::<Pod>(), true);
    for (body, problem) in [
        (
            event("RENAMED", &pod("x")),
            "it has the unknown type \"RENAMED\"",
        ),
        (
            frame("ADDED", b"no envelope"),
            "does not appear to be a protobuf message",
        ),
        (vec![0xff; 8], "longer than 32 MiB"),
    ] {
        let negotiated = negotiated();
        let mut events = watch_body(decoder.clone(), info(), negotiated.clone());
        events.push(body.into());
        let error = events.next_event().unwrap().unwrap_err();
        assert!(error.to_string().contains(problem), "{error}");
        assert!(!negotiated.by.unwrap().is_protobuf());
    }
    let mut events = watch_body(decoder, info(), negotiated());
    events.push(event("ADDED", &pod("x"))[..30].to_vec().into());
    assert!(events.next_event().is_none());
    assert!(events.finish().unwrap().unwrap_err().is_transport());
}

#[test]
fn metadata_alone_is_read_of_whole_objects_too() {
    let decoder = AnswerDecoder::new(Kind::of::<Pod>(), true).metadata_only(true);
    let whole = message(&pod("x"));
    let (items, _) = read(&decoder, &negotiated(), &list("PodList", &[whole]), 50).unwrap();
    let value: Value = serde_json::from_slice(items[0].json()).unwrap();
    let mut wanted = pod("x");
    wanted["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("managedFields");
    wanted
        .as_object_mut()
        .unwrap()
        .retain(|name, _| name != "spec" && name != "status");
    assert_eq!(value, wanted);
}

#[test]
fn fields_of_a_newer_server_are_dropped_and_counted() {
    let registry = prometheus::Registry::new();
    let metrics = crate::ConnectionMetrics::register(&registry).unwrap();
    let negotiated = Negotiated {
        metrics: Some(std::sync::Arc::new(metrics.of_host("h"))),
        ..negotiated()
    };
    let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "m" } });
    // An unknown field with number 1000, a varint.
    let newer = [message(&map), vec![0xc0, 0x3e, 0x01]].concat();
    let decoder = AnswerDecoder::new(Kind::of::<ConfigMap>(), true);
    let body = list("ConfigMapList", &[newer.clone(), newer]);
    let (items, _) = read(&decoder, &negotiated, &body, 50).unwrap();
    assert_eq!(items.len(), 2);
    assert_eq!(
        serde_json::from_slice::<Value>(items[0].json()).unwrap(),
        map
    );
    let counted = registry.gather();
    let dropped = counted
        .iter()
        .find(|family| family.name() == "steersman_connection_dropped_fields_total")
        .unwrap();
    assert!((dropped.get_metric()[0].get_counter().get_value() - 2.0).abs() < 0.5);
    assert_eq!(dropped.get_metric()[0].get_label()[1].value(), "configmaps");
}
