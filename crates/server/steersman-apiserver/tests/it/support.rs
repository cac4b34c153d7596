//! Helpers of the tests: requests to the in-process service, watches, sample objects.

use std::pin::Pin;

use bytes::{Buf, Bytes};
use http::{HeaderMap, Request};
use http_body::Body;
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use steersman_apiserver::{ApiServer, ResponseBody};
use tower::ServiceExt;

/// An answer that was read completely.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    /// Returns the body as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    /// Returns the body as JSON of an answer that must have this status.
    pub(crate) fn expect(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text);
        self.json()
    }

    /// Returns a header; empty if absent.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .map(|value| value.to_str().unwrap())
            .unwrap_or_default()
    }
}

/// Sends a request and returns status, headers and the unread body.
pub(crate) async fn send(
    server: &ApiServer,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: impl Into<Bytes>,
) -> (u16, HeaderMap, ResponseBody) {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Full::new(body.into())).unwrap();
    let response = server.service().oneshot(request).await.unwrap();
    let (parts, body) = response.into_parts();
    (parts.status.as_u16(), parts.headers, body)
}

/// Sends a request and reads the answer.
pub(crate) async fn ask(
    server: &ApiServer,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: impl Into<Bytes>,
) -> Answer {
    let (status, headers, body) = send(server, method, path, headers, body).await;
    let announced = body.size_hint().exact();
    let bytes = body.collect().await.unwrap().to_bytes();
    if let Some(length) = announced {
        assert_eq!(
            length,
            bytes.len() as u64,
            "the announced length is the length"
        );
    }
    Answer {
        status,
        headers,
        text: String::from_utf8(bytes.to_vec()).unwrap(),
    }
}

pub(crate) async fn get(server: &ApiServer, path: &str) -> Answer {
    ask(server, "GET", path, &[], "").await
}

pub(crate) async fn post(server: &ApiServer, path: &str, body: &Value) -> Answer {
    ask(server, "POST", path, &[], body.to_string()).await
}

pub(crate) async fn put(server: &ApiServer, path: &str, body: &Value) -> Answer {
    ask(server, "PUT", path, &[], body.to_string()).await
}

pub(crate) async fn delete(server: &ApiServer, path: &str) -> Answer {
    ask(server, "DELETE", path, &[], "").await
}

pub(crate) async fn merge(server: &ApiServer, path: &str, patch: &Value) -> Answer {
    let headers = [("content-type", "application/merge-patch+json")];
    ask(server, "PATCH", path, &headers, patch.to_string()).await
}

/// An open watch, read line by line.
pub(crate) struct Watch {
    body: Pin<Box<ResponseBody>>,
    buffer: Vec<u8>,
}

impl Watch {
    /// Opens a watch, which must be answered 200.
    pub(crate) async fn open(server: &ApiServer, path: &str) -> Self {
        Self::open_as(server, path, "application/json").await
    }

    /// Opens a watch with this Accept header.
    pub(crate) async fn open_as(server: &ApiServer, path: &str, accept: &str) -> Self {
        let (status, _, body) = send(server, "GET", path, &[("accept", accept)], "").await;
        assert_eq!(status, 200, "{path}");
        Self::of(body)
    }

    /// Reads the body of an opened watch.
    pub(crate) fn of(body: ResponseBody) -> Self {
        Self {
            body: Box::pin(body),
            buffer: Vec::new(),
        }
    }

    /// Returns the next event; `None` at the end of the stream.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        self.try_next().await.unwrap()
    }

    /// Returns the next event; an error if the stream breaks.
    pub(crate) async fn try_next(
        &mut self,
    ) -> Result<Option<Value>, steersman_apiserver::BodyError> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                return Ok(Some(serde_json::from_slice(&line).unwrap()));
            }
            match self.body.as_mut().frame().await {
                None => {
                    assert!(self.buffer.is_empty(), "a watch ends between lines");
                    return Ok(None);
                }
                Some(frame) => {
                    let mut data = frame?.into_data().unwrap();
                    let length = data.remaining();
                    self.buffer.extend_from_slice(&data.copy_to_bytes(length));
                }
            }
        }
    }

    /// Returns the type and the object's name of the next event.
    pub(crate) async fn next_short(&mut self) -> Option<String> {
        let event = self.next().await?;
        let name = event["object"]["metadata"]["name"]
            .as_str()
            .unwrap_or_default();
        Some(format!("{} {name}", event["type"].as_str().unwrap()))
    }

    /// Returns whether no event arrives within ten virtual minutes.
    pub(crate) async fn is_quiet(&mut self) -> bool {
        let wait = std::time::Duration::from_secs(600);
        tokio::time::timeout(wait, self.next()).await.is_err()
    }
}

/// Creates a server with a fixed start time.
pub(crate) fn server() -> ApiServer {
    ApiServer::builder()
        .starts_at("2026-01-01T00:00:00Z".parse().unwrap())
        .build()
}

pub(crate) const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
pub(crate) const WEBSITES: &str = "/apis/example.com/v1/namespaces/default/websites";

pub(crate) fn config_map(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": { "k": "v" } })
}

/// Creates ConfigMaps in `default`.
pub(crate) async fn create_config_maps(server: &ApiServer, names: &[&str]) {
    for name in names {
        post(server, CONFIG_MAPS, &config_map(name))
            .await
            .expect(201);
    }
}

/// Returns a CustomResourceDefinition with all features that clients use.
pub(crate) fn website_crd() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": "websites.example.com" },
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {
                "plural": "websites",
                "singular": "website",
                "kind": "Website",
                "listKind": "WebsiteList",
                "shortNames": ["web"],
                "categories": ["all"],
            },
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "schema": { "openAPIV3Schema": {
                    "type": "object",
                    "properties": {
                        "spec": {
                            "type": "object",
                            "required": ["image"],
                            "properties": {
                                "image": { "type": "string" },
                                "replicas": { "type": "integer", "minimum": 0, "default": 1 },
                            },
                        },
                        "status": {
                            "type": "object",
                            "properties": {
                                "replicas": { "type": "integer" },
                                "conditions": { "type": "array", "items": {
                                    "type": "object",
                                    "properties": {
                                        "type": { "type": "string" },
                                        "status": { "type": "string" },
                                    },
                                } },
                            },
                        },
                    },
                } },
                "subresources": {
                    "status": {},
                    "scale": {
                        "specReplicasPath": ".spec.replicas",
                        "statusReplicasPath": ".status.replicas",
                    },
                },
                "additionalPrinterColumns": [
                    { "name": "Image", "type": "string", "jsonPath": ".spec.image" },
                    {
                        "name": "Ready",
                        "type": "string",
                        "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status",
                    },
                    { "name": "Wanted", "type": "integer", "priority": 1, "jsonPath": ".spec.replicas" },
                    { "name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp" },
                ],
            }],
        },
    })
}

pub(crate) fn website(name: &str) -> Value {
    json!({
        "apiVersion": "example.com/v1",
        "kind": "Website",
        "metadata": { "name": name },
        "spec": { "image": "registry.example.com/site:1" },
    })
}

pub(crate) fn deployment(name: &str) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": { "name": name },
        "spec": {
            "replicas": 2,
            "selector": { "matchLabels": { "app": name } },
            "template": {
                "metadata": { "labels": { "app": name } },
                "spec": { "containers": [{ "name": "main", "image": "registry.example.com/tool:1" }] },
            },
        },
    })
}
