//! Words: objects other than Pods, from similar ones to random ones.

use fastrand::Rng;
use kube_client::core::CustomResourceExt as _;
use kube_derive::CustomResource;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::NUMBER;
use super::random_text::{hex, noise, pick};

/// The prefix of the names of ConfigMaps.
pub(super) const SETTINGS: &str = "settings";

#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, schemars::JsonSchema)]
#[kube(group = "bench.example.com", version = "v1", kind = "Widget")]
#[kube(namespaced, status = "WidgetStatus")]
#[kube(crates(kube_core = "::kube_client::core"))]
#[serde(rename_all = "camelCase")]
pub(crate) struct WidgetSpec {
    colour: String,
    replicas: i32,
    description: String,
    parts: Vec<WidgetPart>,
}

#[derive(Clone, Debug, Deserialize, Serialize, schemars::JsonSchema)]
pub(crate) struct WidgetPart {
    name: String,
    image: String,
    weight: i64,
}

#[derive(Clone, Debug, Deserialize, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WidgetStatus {
    ready: bool,
    observed_generation: i64,
    message: String,
}

pub(crate) fn widgets() -> serde_json::Result<Value> {
    serde_json::to_value(Widget::crd())
}

fn metadata(kind: &str, number: u64, app: &str) -> Value {
    json!({
        "name": format!("{kind}-{number:06}"),
        "labels": {"app.kubernetes.io/name": app, "app.kubernetes.io/managed-by": "bench"},
        "annotations": {NUMBER: number.to_string()},
    })
}

/// Returns the settings of a program, with different values per line, and a certificate.
pub(super) fn config_map(number: u64) -> Value {
    let mut rng = Rng::with_seed(number);
    let app = format!("svc-{:03}", rng.u64(..400));
    let keys = ["timeout", "endpoint", "token", "pool", "region", "limit"];
    let mut settings = String::new();
    for line in 0..40 {
        let key = pick(&mut rng, &keys);
        settings.push_str(&format!("{app}.{key}.{line} = {}\n", hex(&mut rng, 32)));
    }
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(SETTINGS, number, &app),
        "data": {"application.properties": settings, "ca.pem": noise(&mut rng, 1600)},
    })
}

/// Returns a key and a certificate.
pub(super) fn secret(number: u64) -> Value {
    let mut rng = Rng::with_seed(number);
    let app = format!("svc-{:03}", rng.u64(..400));
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata("tls", number, &app),
        "type": "Opaque",
        "data": {"key": noise(&mut rng, 1700), "certificate": noise(&mut rng, 1500), "password": noise(&mut rng, 32)},
    })
}

/// Returns an event of a scheduler or a kubelet about a Pod.
pub(super) fn event(number: u64, namespace: &str) -> Value {
    let mut rng = Rng::with_seed(number);
    let (app, set, own) = (rng.u64(..400), hex(&mut rng, 10), hex(&mut rng, 5));
    let pod = format!("svc-{app:03}-{set}-{own}");
    let node = format!("node-{:04}", rng.u64(..1000));
    let (reason, message) = match rng.u64(..3) {
        0 => (
            "Scheduled",
            format!("Successfully assigned {namespace}/{pod} to {node}"),
        ),
        1 => (
            "Pulled",
            "Container image is already present on machine".to_owned(),
        ),
        _ => (
            "Unhealthy",
            format!(
                "Readiness probe failed: HTTP probe failed with statuscode: {}",
                500 + rng.u64(..4)
            ),
        ),
    };
    let time = "2026-11-01T10:20:30Z";
    json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": format!("{pod}.{number:016x}"),
            "annotations": {NUMBER: number.to_string()},
        },
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": namespace,
            "name": pod,
            "uid": format!("{}-{}-{}", hex(&mut rng, 8), hex(&mut rng, 4), hex(&mut rng, 12)),
            "resourceVersion": rng.u64(..1_000_000).to_string(),
        },
        "reason": reason,
        "message": message,
        "type": if reason == "Unhealthy" { "Warning" } else { "Normal" },
        "source": {"component": "kubelet", "host": node},
        "firstTimestamp": time,
        "lastTimestamp": time,
        "count": 1 + rng.u64(..50),
    })
}

/// Returns a custom resource with the fields of its author and its operator.
pub(super) fn widget(number: u64) -> (Value, Option<Value>) {
    let mut rng = Rng::with_seed(number);
    let app = format!("svc-{:03}", rng.u64(..400));
    let parts: Vec<Value> = (0..6)
        .map(|part| {
            json!({
                "name": format!("part-{part}"),
                "image": format!("registry.example.com/parts/{}:v{}", hex(&mut rng, 6), rng.u64(..40)),
                "weight": rng.u64(..100_000),
            })
        })
        .collect();
    let colour = pick(&mut rng, &["red", "green", "blue", "white"]).to_owned();
    let object = json!({
        "apiVersion": "bench.example.com/v1",
        "kind": "Widget",
        "metadata": metadata("widget", number, &app),
        "spec": {
            "colour": colour,
            "replicas": rng.u64(..9),
            "description": format!("A {colour} widget of {app}, made to the order {}.", hex(&mut rng, 16)),
            "parts": parts,
        },
    });
    let status = json!({"ready": true, "observedGeneration": 1, "message": format!("{} parts are there", 6)});
    (object, Some(status))
}
