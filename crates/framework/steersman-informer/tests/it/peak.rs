//! Peak memory of a first sync and of a later list, in allocated bytes.
//!
//! The server makes its responses while they are read and keeps nothing, so that the bytes allocated on the test's
//! thread are the informer's.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use allocation_counter::AllocationInfo;
use bytes::{Bytes, BytesMut};
use futures::stream::{self, StreamExt as _};
use http::{Request, Response};
use http_body_util::StreamBody;
use http_body_util::combinators::UnsyncBoxBody;
use k8s_openapi::api::core::v1::Pod;
use kube_core::object::{NotUsed, Object};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use steersman_api::{ApiListWatch, ClientConfig, kube_client};
use steersman_informer::{Informer, InformerOptions};
use steersman_object::{Kind, ObjectKey, ResourceVersion};
use tokio::runtime::Runtime;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

const PODS: usize = 2_000;
/// The bytes that a sync may hold besides 1.3 times the bytes that it leaves: 32 MiB for 10,000 Pods.
const MORE: u64 = (32 << 20) / 5;
/// The size of the chunks that the transport delivers.
const CHUNK: usize = 16 << 10;
/// The bytes of a second store's tables and of one page of the response: a tenth of the bodies.
const PLACES: u64 = MORE / 8;
/// A placeholder for the number of a Pod and its version.
const NUMBER: &str = "@number";
const VERSION: &str = "@version";
/// The version of the first list; the second list has the next version.
const FIRST: u64 = 900_000;

/// A user's type with few fields: a small result shows any additional allocation.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Placed {
    node_name: Option<String>,
}
type PlacedPod = Object<Placed, NotUsed>;

/// Returns a Pod as its Deployment, the scheduler and the kubelet leave it. Half of its JSON is managed fields.
fn template() -> String {
    let env =
        |number: usize| json!({"name": format!("APP_SETTING_{number}"), "value": "value-@number"});
    let env: Vec<Value> = (0..10).map(env).collect();
    let probe = |path| {
        json!({
            "httpGet": {"path": path, "port": "http", "scheme": "HTTP"},
            "timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3,
        })
    };
    let container = |name, image| {
        json!({
            "name": name, "image": image, "env": env, "imagePullPolicy": "IfNotPresent",
            "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
            "resources": {"limits": {"memory": "512Mi"}, "requests": {"cpu": "100m"}},
            "livenessProbe": probe("/healthz"), "readinessProbe": probe("/readyz"),
            "terminationMessagePath": "/dev/termination-log",
            "volumeMounts": [{"name": "config", "mountPath": "/etc/app"}],
        })
    };
    let owned = |number: usize| {
        let name = format!("k:{{\"name\":\"APP_SETTING_{number}\"}}");
        (name, json!({".": {}, "f:name": {}, "f:value": {}}))
    };
    let owned: serde_json::Map<String, Value> = (0..60).map(owned).collect();
    let managed = json!([
        {"manager": "kube-controller-manager", "operation": "Update", "apiVersion": "v1",
            "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:containers": owned}}},
        {"manager": "kubelet", "operation": "Update", "apiVersion": "v1", "subresource": "status",
            "fieldsType": "FieldsV1", "fieldsV1": {"f:status": owned}},
    ]);
    let pod = json!({
        "metadata": {
            "name": "svc-@number", "generateName": "svc-", "namespace": "default",
            "uid": "6f2c9d54-0000-4000-a000-@number", "resourceVersion": VERSION,
            "creationTimestamp": "2026-11-01T10:20:30Z",
            "labels": {"app.kubernetes.io/name": "svc", "pod-template-hash": "h-@number"},
            "annotations": {"prometheus.io/scrape": "true", "checksum/config": "c-@number"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "svc",
                "uid": "5e1b8c43-0000-4000-a000-000000000000", "controller": true}],
            "managedFields": managed,
        },
        "spec": {
            "containers": [
                container("app", "registry.example.com/platform/svc:v1.@number"),
                container("proxy", "registry.example.com/mesh/proxy:1.22.3"),
            ],
            "volumes": [{"name": "config", "configMap": {"name": "svc", "defaultMode": 420}}],
            "restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "nodeName": "node-@number",
            "serviceAccountName": "svc", "schedulerName": "default-scheduler",
        },
        "status": {"phase": "Running", "podIP": "10.0.0.1", "qosClass": "Burstable"},
    });
    pod.to_string()
}

/// How the server answers a list.
#[derive(Clone, Copy, Debug)]
enum Answers {
    /// In pages of the requested size.
    Pages,
    /// In one page, as a server answers from its cache.
    One,
    /// As a streaming list.
    Stream,
}

/// A server with many Pods, some of which change when a watch has expired.
struct Server {
    answers: Answers,
    changed: usize,
    /// Ends one watch.
    expire: Notify,
    version: AtomicU64,
}

/// Returns the text of a response in chunks.
fn texts(server: &Server, query: &str) -> Box<dyn Iterator<Item = String> + Send> {
    if query.contains("watch=") && !query.contains("sendInitialEvents=") {
        return Box::new(std::iter::empty());
    }
    let (answers, version) = (server.answers, server.version.load(Ordering::Relaxed));
    let changed = if version > FIRST { server.changed } else { 0 };
    let pod = template();
    let named = |name: &str| {
        let value = query.split('&').find_map(|pair| pair.strip_prefix(name));
        value.and_then(|value| value.parse().ok())
    };
    let spelled = move |number: usize| {
        let of = if number < changed { 500_000 } else { 100_000 };
        let pod = pod.replace(NUMBER, &format!("{:06}", number + 1));
        pod.replace(VERSION, &(of + number).to_string())
    };
    if query.contains("watch=") {
        let event =
            move |number| format!("{{\"type\":\"ADDED\",\"object\":{}}}\n", spelled(number));
        let end = json!({"type": "BOOKMARK", "object": {"metadata": {
            "resourceVersion": version.to_string(), "annotations": {"k8s.io/initial-events-end": "true"}}}});
        return Box::new((0..PODS).map(event).chain([format!("{end}\n")]));
    }
    let (first, size) = match answers {
        Answers::Pages => (named("continue=").unwrap_or(0), named("limit=")),
        Answers::One | Answers::Stream => (0, None),
    };
    let end = size.map_or(PODS, |size| PODS.min(first + size));
    let token = (end < PODS).then(|| end.to_string());
    let metadata =
        json!({"resourceVersion": version.to_string(), "continue": token.unwrap_or_default()});
    let start = format!("{{\"kind\":\"PodList\",\"metadata\":{metadata},\"items\":[");
    let item = move |number| {
        let comma = if number == first { "" } else { "," };
        format!("{comma}{}", spelled(number))
    };
    let items = (first..end).map(item);
    Box::new([start].into_iter().chain(items).chain(["]}".to_owned()]))
}

fn chunks(mut chunks: Box<dyn Iterator<Item = String> + Send>) -> impl Iterator<Item = Bytes> {
    let mut open = BytesMut::new();
    std::iter::from_fn(move || {
        while open.len() < CHUNK {
            let Some(piece) = chunks.next() else {
                break;
            };
            open.extend_from_slice(piece.as_bytes());
        }
        let chunk = open.split_to(open.len().min(CHUNK)).freeze();
        (!chunk.is_empty()).then_some(chunk)
    })
}

type Body = UnsyncBoxBody<Bytes, Infallible>;

fn answer(server: &Arc<Server>, query: &str) -> Response<Body> {
    let frames = chunks(texts(server, query)).map(|chunk| Ok(http_body::Frame::data(chunk)));
    let frames = stream::iter(frames);
    if query.contains("watch=") {
        // The watch stays open until it is told to expire.
        let server = Arc::clone(server);
        let end = stream::once(async move {
            server.expire.notified().await;
            server.version.fetch_add(1, Ordering::Relaxed);
            let status = json!({"kind": "Status", "code": 410, "reason": "Expired"});
            let event = format!("{}\n", json!({"type": "ERROR", "object": status}));
            Ok(http_body::Frame::data(event.into()))
        });
        let open = frames.chain(end);
        return Response::new(UnsyncBoxBody::new(StreamBody::new(open)));
    }
    Response::new(UnsyncBoxBody::new(StreamBody::new(frames)))
}

/// Returns an informer that has synced, and the allocations of the sync.
fn sync(runtime: &Runtime, server: &Arc<Server>) -> (Informer<PlacedPod>, AllocationInfo) {
    let mut kept = None;
    let counted = allocation_counter::measure(|| {
        let _inside = runtime.enter();
        let (server, answers) = (Arc::clone(server), server.answers);
        let service = tower::service_fn(move |request: Request<kube_client::client::Body>| {
            let answer = answer(&server, request.uri().query().unwrap_or_default());
            async move { Ok::<_, Infallible>(answer) }
        });
        let client_config = ClientConfig::in_process(service, "default");
        let kind = Kind::of::<Pod>();
        let list_watch = ApiListWatch::new(client_config.client().unwrap(), kind.clone(), None);
        let streams = matches!(answers, Answers::Stream);
        let options = InformerOptions::new().watch_list(streams);
        let informer = Informer::<PlacedPod>::new(kind, options);
        runtime.spawn(informer.run(list_watch, CancellationToken::new()));
        runtime.block_on(informer.wait_for_sync()).unwrap();
        kept = Some(informer);
    });
    let informer = kept.unwrap();
    let store = informer.store();
    assert_eq!(store.len(), PODS);
    let last = store.get(&ObjectKey::namespaced("default", format!("svc-{PODS:06}")));
    let placed = last.unwrap().spec.node_name.clone();
    assert_eq!(placed.unwrap(), format!("node-{PODS:06}"));
    (informer, counted)
}

/// Returns a server on which this number of objects changes before the second list, and a runtime.
fn world(answers: Answers, changed: usize) -> (Runtime, Arc<Server>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let server = Server {
        answers,
        changed,
        expire: Notify::new(),
        version: AtomicU64::new(FIRST),
    };
    (runtime, Arc::new(server))
}

// STORE-5
#[test]
fn store_5_a_first_sync_holds_little_more_than_it_leaves() {
    for answers in [Answers::Pages, Answers::One, Answers::Stream] {
        let (runtime, server) = world(answers, 0);
        let (_informer, counted) = sync(&runtime, &server);
        let end = u64::try_from(counted.bytes_current).unwrap();
        let (peak, bound) = (counted.bytes_max, end + end * 3 / 10 + MORE);
        assert!(
            peak <= bound,
            "{answers:?}: {peak} bytes of {bound}, and {end} in the end"
        );
    }
}

// STORE-6
#[test]
fn store_6_a_relist_holds_only_changed_objects_twice() {
    let changed = PODS / 10;
    for answers in [Answers::Pages, Answers::One, Answers::Stream] {
        let (runtime, server) = world(answers, changed);
        let (informer, first) = sync(&runtime, &server);
        // The training after the first list ends before this sleep, because virtual time stands still meanwhile.
        runtime.block_on(async { tokio::time::sleep(Duration::from_secs(1)).await });
        let store = informer.store();
        let at = |number| {
            let key = ObjectKey::namespaced("default", format!("svc-{number:06}"));
            store.get(&key).unwrap()
        };
        let (some, last) = (at(1), at(PODS));
        let counted = allocation_counter::measure(|| {
            server.expire.notify_one();
            let mut applied = informer.untyped().applied();
            let second = ResourceVersion::new((FIRST + 1).to_string());
            let listed = async {
                while store.version() != second {
                    applied.changed().await.unwrap();
                }
            };
            runtime.block_on(listed);
        });
        assert!(!Arc::ptr_eq(&some, &at(1)) && Arc::ptr_eq(&last, &at(PODS)));
        let number = |count: usize| u64::try_from(count).unwrap();
        let each = u64::try_from(first.bytes_current).unwrap() / number(PODS);
        let (peak, bound) = (counted.bytes_max, number(changed) * each * 13 / 10 + PLACES);
        assert!(peak <= bound, "{answers:?}: {peak} bytes of {bound}");
    }
}
