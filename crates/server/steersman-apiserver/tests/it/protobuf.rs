//! Answers in protobuf: equal to those in JSON, and decodable by the clients' code.

mod https;
mod metadata;
mod recorded;
mod transport;
mod verbs;
mod watches;

use bytes::Bytes;
use http::HeaderMap;
use http_body::Body as _;
use http_body_util::BodyExt as _;
use serde_json::{Map, Value, json};
use steersman_apiserver::ApiServer;
use steersman_protobuf::{Envelope, Frames, Keep, ListItems, Message, WatchFrame, append_message};

use crate::support::send;

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const STREAM: &str = "application/vnd.kubernetes.protobuf;stream=watch";
const PODS: &str = "/api/v1/namespaces/default/pods";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

/// An answer that was read completely.
struct BinaryAnswer {
    status: u16,
    headers: HeaderMap,
    body: Bytes,
}

impl BinaryAnswer {
    fn content_type(&self) -> &str {
        self.headers["content-type"].to_str().unwrap()
    }

    /// Returns the decoded body, according to its content type.
    fn value(&self) -> Value {
        match self.content_type() {
            "application/json" => serde_json::from_slice(&self.body).unwrap(),
            PROTOBUF => decoded(&self.body),
            other => panic!("{other}"),
        }
    }
}

async fn fetch(
    server: &ApiServer,
    (method, path): (&str, &str),
    headers: &[(&str, &str)],
    body: impl Into<Bytes>,
) -> BinaryAnswer {
    let (status, headers, body) = send(server, method, path, headers, body).await;
    let announced = body.size_hint().exact();
    let body = body.collect().await.unwrap().to_bytes();
    assert_eq!(announced.unwrap_or(body.len() as u64), body.len() as u64);
    BinaryAnswer {
        status,
        headers,
        body,
    }
}

async fn get_as(server: &ApiServer, path: &str, accept: &str) -> BinaryAnswer {
    fetch(server, ("GET", path), &[("accept", accept)], "").await
}

/// Decodes an object or a list.
fn decoded(body: &Bytes) -> Value {
    let envelope = Envelope::open(body).unwrap();
    if envelope.message().is_some() {
        return decoded_object(&envelope);
    }
    let kind = envelope.kind.strip_suffix("List").unwrap();
    let message = Message::of_kind(&envelope.api_version, kind).unwrap();
    let (mut items, mut found, mut chunk) = (ListItems::new(), Vec::new(), body.clone());
    while let Some(item) = items.next_item(&mut chunk).unwrap() {
        found.push(decoded_message(message, &item));
    }
    let metadata = items.finish().unwrap().unwrap();
    json!({
        "kind": envelope.kind,
        "apiVersion": envelope.api_version,
        "metadata": decoded_message(Message::named("meta.v1.ListMeta").unwrap(), &metadata),
        "items": found,
    })
}

fn decoded_message(message: &'static Message, bytes: &[u8]) -> Value {
    let mut text = Vec::new();
    append_message(message, bytes, &mut text).unwrap();
    serde_json::from_slice(&text).unwrap()
}

fn decoded_object(envelope: &Envelope<'_>) -> Value {
    let mut text = Vec::new();
    envelope.append_json(Keep::WHOLE, &mut text).unwrap();
    serde_json::from_slice(&text).unwrap()
}

/// Decodes the event in a frame.
fn decoded_event(frame: &[u8]) -> Value {
    let event = WatchFrame::read(frame).unwrap();
    let object = decoded_object(&Envelope::open(event.object).unwrap());
    json!({ "type": std::str::from_utf8(event.kind).unwrap(), "object": object })
}

/// Decodes the frames of a whole watch.
fn decoded_events(body: &Bytes) -> Vec<Value> {
    let (mut frames, mut events) = (Frames::default(), Vec::new());
    frames.push(body.clone());
    while let Some(frame) = frames.next_frame().unwrap() {
        events.push(decoded_event(&frame));
    }
    frames.finish().unwrap();
    events
}

fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": name, "labels": { "app": name } },
        "spec": { "containers": [{
            "name": "main",
            "image": "registry.example.com/tool:1",
            "ports": [{ "containerPort": 80 }],
            "resources": { "limits": { "memory": "1Gi" } },
        }] },
    })
}

/// Returns an object without its kind, as an item of a built-in list.
fn without_type(object: &Value) -> Value {
    let members = object.as_object().unwrap().iter();
    let kept = members.filter(|(name, _)| !matches!(name.as_str(), "kind" | "apiVersion"));
    let kept = kept.map(|(name, value)| (name.clone(), value.clone()));
    Value::Object(kept.collect::<Map<_, _>>())
}
