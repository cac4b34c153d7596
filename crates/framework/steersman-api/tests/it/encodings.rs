//! The encoding of requests, and the fallback for a server that does not support protobuf.

use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt as _;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod};
use kube_client::client::Body;
use kube_core::{DynamicObject, PartialObjectMeta};
use parking_lot::Mutex;
use serde_json::json;
use steersman_api::wire::Wire;
use steersman_api::{
    Api, ApiListWatch, ClientConfig, Encoding, ListWatch as _, PageRequest, Patch, Projection,
    WatchEvent, WatchOptions, WriteOptions,
};
use steersman_apiserver::ApiServer;
use steersman_object::{Kind, ObjectKey};
use steersman_protobuf::{Envelope, MEDIA_TYPE};
use tower::layer::layer_fn;
use tower::{BoxError, ServiceExt as _};

/// The headers and the body of each request.
type Sent = Arc<Mutex<Vec<(HeaderMap, Bytes)>>>;

/// The answer of a proxy between client and server, instead of the server's answer.
type Instead = Arc<dyn Fn(&HeaderMap) -> Option<Response<Full<Bytes>>> + Send + Sync>;

/// Returns a connection that records its requests, and answers some of them with `instead`.
fn recorded(server: &ApiServer, instead: Option<Instead>) -> (ClientConfig, Sent) {
    let sent = Sent::default();
    let record = Arc::clone(&sent);
    let client_config = ClientConfig::in_process(server.service(), "default")
        .encoding(Encoding::Protobuf)
        .layer(layer_fn(move |wire: Wire| {
            let wire = Arc::new(tokio::sync::Mutex::new(wire));
            let (record, instead) = (Arc::clone(&record), instead.clone());
            tower::service_fn(move |request: Request<Body>| {
                let (wire, record, instead) =
                    (Arc::clone(&wire), Arc::clone(&record), instead.clone());
                async move {
                    let (head, body) = request.into_parts();
                    let body = body.collect().await?.to_bytes();
                    let headers = head.headers.clone();
                    record.lock().push((headers.clone(), body.clone()));
                    if let Some(answer) = instead.as_ref().and_then(|instead| instead(&headers)) {
                        let answer = answer.map(|body| body.map_err(BoxError::from).boxed_unsync());
                        return Ok::<_, BoxError>(answer);
                    }
                    let request = Request::from_parts(head, Body::from(body));
                    let mut wire = wire.lock().await;
                    wire.ready().await?.call_it(request).await
                }
            })
        }));
    (client_config, sent)
}

/// Calls a service that is ready.
trait CallIt {
    async fn call_it(
        &mut self,
        request: Request<Body>,
    ) -> Result<Response<steersman_api::wire::AnswerBody>, BoxError>;
}

impl CallIt for Wire {
    async fn call_it(
        &mut self,
        request: Request<Body>,
    ) -> Result<Response<steersman_api::wire::AnswerBody>, BoxError> {
        tower::Service::call(self, request).await
    }
}

fn accept(sent: &Sent, at: usize) -> String {
    let sent = sent.lock();
    sent[at].0[ACCEPT].to_str().unwrap().to_owned()
}

fn is_protobuf(headers: &HeaderMap) -> bool {
    let asks = |name| {
        headers
            .get(name)
            .is_some_and(|value| value.to_str().unwrap().contains(MEDIA_TYPE))
    };
    asks(ACCEPT)
}

fn map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({
        "metadata": { "name": name, "namespace": "default" }, "data": { "k": "v" },
    }))
    .unwrap()
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::namespaced("default", name)
}

#[tokio::test]
async fn kinds_of_kubernetes_are_sent_and_asked_for_in_protobuf() {
    let server = ApiServer::new();
    let (client_config, sent) = recorded(&server, None);
    let maps = Api::<ConfigMap>::typed(client_config.client().unwrap());
    let made = maps.create(&map("a"), &WriteOptions::new()).await.unwrap();
    assert_eq!(made.data, map("a").data);
    maps.update(&made, &WriteOptions::new()).await.unwrap();
    maps.get(&key("a")).await.unwrap();
    let patch = Patch::Merge(json!({ "data": { "k": "w" } }));
    maps.patch(&key("a"), &patch, &WriteOptions::new())
        .await
        .unwrap();
    for (headers, body) in &sent.lock()[..2] {
        assert_eq!(headers[CONTENT_TYPE], MEDIA_TYPE);
        let envelope = Envelope::open(body).unwrap();
        assert_eq!(
            (&*envelope.api_version, &*envelope.kind),
            ("v1", "ConfigMap")
        );
        assert_eq!(envelope.object().unwrap()["data"], json!({ "k": "v" }));
    }
    for at in 0..4 {
        assert_eq!(
            accept(&sent, at),
            "application/vnd.kubernetes.protobuf,application/json"
        );
    }
    // A patch is sent as JSON in every encoding.
    assert_eq!(
        sent.lock()[3].0[CONTENT_TYPE],
        "application/merge-patch+json"
    );
}

#[tokio::test]
async fn lists_and_watches_say_which_form_they_take() {
    let server = ApiServer::new();
    let (client_config, sent) = recorded(&server, None);
    let client = client_config.client().unwrap();
    let maps = ApiListWatch::new(client.clone(), Kind::of::<ConfigMap>(), None);
    let _list = maps.list(&PageRequest::default()).await.unwrap();
    let _watch = maps.watch(&WatchOptions::default()).await.unwrap();
    let metadata = Api::<PartialObjectMeta<ConfigMap>>::new(client, Kind::of::<ConfigMap>());
    metadata.get_opt(&key("a")).await.unwrap();
    assert_eq!(
        accept(&sent, 0),
        "application/vnd.kubernetes.protobuf,application/json"
    );
    assert_eq!(
        accept(&sent, 1),
        "application/vnd.kubernetes.protobuf;stream=watch,application/json"
    );
    assert!(accept(&sent, 2).starts_with(
        "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json;as="
    ));
}

#[tokio::test]
async fn json_is_asked_for_where_protobuf_does_not_exist_or_is_turned_off() {
    let server = ApiServer::new();
    let (client_config, sent) = recorded(&server, None);
    let gvk = steersman_object::Gvk::new("apps.example.com", "v1", "Deployment");
    let kind = Kind::new(gvk, "deployments", steersman_object::Scope::Namespaced);
    let custom = Api::<DynamicObject>::new(client_config.client().unwrap(), kind);
    let _ = custom.get_opt(&key("a")).await;
    assert_eq!(accept(&sent, 0), "application/json");
    let off = client_config.encoding(Encoding::Json);
    let maps = Api::<ConfigMap>::typed(off.client().unwrap());
    maps.create(&map("a"), &WriteOptions::new()).await.unwrap();
    assert_eq!(accept(&sent, 1), "application/json");
    assert_eq!(sent.lock()[1].0[CONTENT_TYPE], "application/json");
}

#[tokio::test]
async fn a_dynamic_type_uses_json_so_that_it_keeps_every_field() {
    let server = ApiServer::new();
    let (client_config, sent) = recorded(&server, None);
    let maps = Api::<DynamicObject>::new(client_config.client().unwrap(), Kind::of::<ConfigMap>());
    let object: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": "newer", "namespace": "default" }, "fieldOfTomorrow": 7,
    }))
    .unwrap();
    let request = maps.create_request(&object, &WriteOptions::new()).unwrap();
    request.send().await.unwrap();
    maps.get(&key("newer")).await.unwrap();
    let sent = sent.lock();
    assert_eq!(sent[0].0[CONTENT_TYPE], "application/json");
    let body: serde_json::Value = serde_json::from_slice(&sent[0].1).unwrap();
    assert_eq!(body["fieldOfTomorrow"], 7);
    assert!(
        sent.iter()
            .all(|(headers, _)| headers[ACCEPT] == "application/json")
    );
}

fn answer(status: StatusCode, content_type: &str, body: &'static [u8]) -> Response<Full<Bytes>> {
    Response::builder()
        .status(status)
        .header(CONTENT_TYPE, content_type)
        .body(Full::new(Bytes::from_static(body)))
        .unwrap()
}

// CONN-7
#[tokio::test]
async fn conn_7_a_server_that_refuses_protobuf_gets_the_same_request_as_json_once() {
    let server = ApiServer::new();
    for status in [
        StatusCode::NOT_ACCEPTABLE,
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
    ] {
        let refuse = move |headers: &HeaderMap| {
            is_protobuf(headers).then(|| answer(status, "text/plain", b"no"))
        };
        let (client_config, sent) = recorded(&server, Some(Arc::new(refuse)));
        let maps = Api::<ConfigMap>::typed(client_config.client().unwrap());
        let name = format!("m{}", status.as_u16());
        maps.create(&map(&name), &WriteOptions::new())
            .await
            .unwrap();
        // Other clients of the configuration use JSON, too.
        let maps = Api::<ConfigMap>::typed(client_config.client().unwrap());
        maps.get(&key(&name)).await.unwrap();
        let protobuf: Vec<bool> = sent
            .lock()
            .iter()
            .map(|(headers, _)| is_protobuf(headers))
            .collect();
        assert_eq!(protobuf, [true, false, false]);
    }
}

// CONN-7: a refusal of a patch type says nothing about protobuf.
#[tokio::test]
async fn conn_7_a_refused_patch_is_sent_once() {
    let server = ApiServer::new();
    let refuse = |headers: &HeaderMap| {
        let patch = headers
            .get(CONTENT_TYPE)?
            .to_str()
            .unwrap()
            .contains("patch");
        patch.then(|| answer(StatusCode::UNSUPPORTED_MEDIA_TYPE, "text/plain", b"no"))
    };
    let (client_config, sent) = recorded(&server, Some(Arc::new(refuse)));
    let spaces = Api::<Namespace>::typed(client_config.client().unwrap());
    let patch = Patch::Merge(json!({ "metadata": { "labels": { "a": "b" } } }));
    let default = ObjectKey::cluster_scoped("default");
    let error = spaces
        .patch(&default, &patch, &WriteOptions::new())
        .await
        .unwrap_err();
    assert_eq!(error.code(), Some(415));
    spaces.get(&default).await.unwrap();
    assert_eq!(sent.lock().len(), 2);
    assert!(is_protobuf(&sent.lock()[1].0));
}

// CONN-7
#[tokio::test]
async fn conn_7_bytes_that_are_no_protobuf_fail_once() {
    let server = ApiServer::new();
    let damage = |headers: &HeaderMap| {
        is_protobuf(headers).then(|| answer(StatusCode::OK, MEDIA_TYPE, b"k8s\0\x0a\x7fgarbage"))
    };
    let (client_config, sent) = recorded(&server, Some(Arc::new(damage)));
    let spaces = Api::<Namespace>::typed(client_config.client().unwrap());
    let default = ObjectKey::cluster_scoped("default");
    let error = spaces.get(&default).await.unwrap_err();
    assert!(error.is_decode(), "{error}");
    spaces.get(&default).await.unwrap();
    assert_eq!(sent.lock().len(), 2);
}

/// Returns the objects of a list, of a watch and of a get, as JSON.
async fn seen(client_config: ClientConfig) -> Vec<serde_json::Value> {
    let client = client_config.client().unwrap();
    let (kind, mut seen) = (Kind::of::<Pod>(), Vec::new());
    let value = |json: &[u8]| serde_json::from_slice::<serde_json::Value>(json).unwrap();
    for keep in [true, false] {
        let pods = ApiListWatch::new(client.clone(), kind.clone(), None).keep_managed_fields(keep);
        for projection in [
            Projection::Metadata,
            Projection::Whole,
            Projection::EveryField,
        ] {
            let mut request = PageRequest::default();
            request.projection = projection;
            let list = pods.list_all(request).await.unwrap();
            seen.push(json!(list.version.as_str()));
            for pod in list.into_good() {
                seen.extend([value(pod.json()), json!(format!("{:?}", pod.head()))]);
            }
            let mut options = WatchOptions::default();
            (options.projection, options.initial_events) = (projection, true);
            let mut events = pods.watch(&options).await.unwrap();
            loop {
                match events.next().await.unwrap().unwrap() {
                    WatchEvent::Added(pod) => seen.push(value(pod.good().unwrap().json())),
                    other => break seen.push(json!(format!("{other:?}"))),
                }
            }
        }
    }
    let pods = Api::<Pod>::typed(client);
    let pod = pods.get(&key("a")).await.unwrap();
    seen.push(serde_json::to_value(pod).unwrap());
    let missing = pods.get(&key("nope")).await.unwrap_err();
    assert!(missing.is_not_found());
    seen.push(json!(missing.to_string()));
    seen
}

#[tokio::test]
async fn objects_are_the_same_in_both_encodings_in_process_and_over_https() {
    let server = ApiServer::new();
    let pod: Pod = serde_json::from_value(json!({
        "metadata": { "name": "a", "namespace": "default", "annotations": { "a": "\"b\"\n" } },
        "spec": {
            "containers": [{
                "name": "c", "image": "i:1", "args": ["--x", ""],
                "ports": [{ "containerPort": 80 }],
                "resources": { "limits": { "cpu": "100m", "memory": "1Gi" } },
                "livenessProbe": { "httpGet": { "path": "/", "port": "web" } },
                "env": [{ "name": "E", "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } }],
            }],
            "volumes": [{ "name": "v", "emptyDir": {} }],
            "terminationGracePeriodSeconds": 0,
        },
    }))
    .unwrap();
    let in_process = ClientConfig::in_process(server.service(), "default");
    let pods = Api::<Pod>::typed(in_process.client().unwrap());
    pods.create(&pod, &WriteOptions::new()).await.unwrap();
    let serving = server.serve("127.0.0.1:0").await.unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), serving.kubeconfig()).unwrap();
    let over_https = ClientConfig::from_kubeconfig(file.path()).await.unwrap();
    let (protobuf, json) = (Encoding::Protobuf, Encoding::Json);
    let wanted = seen(in_process.clone().encoding(json)).await;
    assert!(wanted.len() > 20);
    for client_config in [
        in_process.encoding(protobuf),
        over_https.clone().encoding(protobuf),
        over_https.encoding(json),
    ] {
        let found = seen(client_config).await;
        for (found, wanted) in found.iter().zip(&wanted) {
            assert_eq!(found, wanted);
        }
        assert_eq!(found.len(), wanted.len());
    }
}
