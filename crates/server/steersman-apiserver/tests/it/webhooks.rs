//! Tests of admission webhooks: in process on a paused clock, and over HTTPS.

mod calls;
mod conversion;
mod resumed;
mod rules;
pub(crate) mod tls;

use std::convert::Infallible;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use parking_lot::Mutex;
use serde_json::{Value, json};
use steersman_apiserver::ApiServer;

use crate::support::{
    Answer, CONFIG_MAPS, ask, config_map, create_config_maps, delete, deployment, get, merge, post,
    put, server, website, website_crd,
};

/// The requests that a webhook got.
pub(crate) type Seen = Arc<Mutex<Vec<Value>>>;

/// Lets a closure answer for a Service: it gets a review's request and returns the response, to
/// which the uid is added.
pub(crate) fn answer_for(
    server: &ApiServer,
    service: &str,
    decide: impl Fn(&Value) -> Value + Clone + Send + Sync + 'static,
) -> Seen {
    let seen = Seen::default();
    let record = Arc::clone(&seen);
    let service_fn = tower::service_fn(move |request: Request<Full<Bytes>>| {
        let (decide, record) = (decide.clone(), Arc::clone(&record));
        async move {
            let body = request.into_body().collect().await?.to_bytes();
            Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(reviewed(
                &body, &decide, &record,
            )))))
        }
    });
    server.route_service_to("hooks", service, service_fn);
    seen
}

pub(crate) fn reviewed(body: &[u8], decide: &dyn Fn(&Value) -> Value, record: &Seen) -> String {
    let mut review: Value = serde_json::from_slice(body).unwrap();
    let mut response = decide(&review["request"]);
    response["uid"] = review["request"]["uid"].clone();
    record.lock().push(review["request"].take());
    json!({"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response})
        .to_string()
}

pub(crate) fn allowed() -> Value {
    json!({"allowed": true})
}

pub(crate) fn patched(operations: &Value) -> Value {
    let patch = STANDARD.encode(operations.to_string());
    json!({"allowed": true, "patchType": "JSONPatch", "patch": patch})
}

/// Returns a configuration with one webhook of this name at this Service, for ConfigMaps.
pub(crate) fn configuration(kind: &str, service: &str, with: &Value) -> Value {
    let mut hook = json!({
        "name": format!("{service}.example.com"),
        "clientConfig": {"service": {"namespace": "hooks", "name": service, "path": "/ask"}},
        "rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"],
            "resources": ["configmaps"]}],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    });
    for (field, value) in with.as_object().unwrap() {
        hook[field] = value.clone();
    }
    json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
        "metadata": {"name": service}, "webhooks": [hook]})
}

pub(crate) fn mutating(server: &ApiServer, service: &str, with: &Value) {
    let configuration = configuration("MutatingWebhookConfiguration", service, with);
    server.create(configuration).unwrap();
}

pub(crate) fn validating(server: &ApiServer, service: &str, with: &Value) {
    let configuration = configuration("ValidatingWebhookConfiguration", service, with);
    server.create(configuration).unwrap();
}

pub(crate) fn rules(rules: &Value) -> Value {
    json!({"rules": [rules]})
}

pub(crate) fn refusal(answer: &Answer) -> (u16, String) {
    (
        answer.status,
        answer.json()["message"].as_str().unwrap().to_owned(),
    )
}

pub(crate) fn at(name: &str) -> String {
    format!("{CONFIG_MAPS}/{name}")
}
