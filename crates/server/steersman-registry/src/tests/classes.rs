//! Tests of the admission plugins for classes, such as PriorityClass, and for LimitRanges.

use serde_json::{Value, json};

use super::Server;
use crate::Subresource;

fn pod(name: &str, spec: Value) -> Value {
    let mut spec = spec;
    let containers = json!([{"name": "c", "image": "i", "resources": spec["resources"].take()}]);
    spec["containers"] = containers;
    spec.as_object_mut().unwrap().remove("resources");
    json!({"metadata": {"name": name}, "spec": spec})
}

fn class(name: &str, value: i64, default: bool) -> Value {
    json!({"metadata": {"name": name}, "value": value, "globalDefault": default})
}

#[test]
fn pods_have_the_priority_of_their_class() {
    let mut server = Server::new();
    let refusal = server
        .create("pods", pod("a", json!({"priorityClassName": "high"})))
        .unwrap_err();
    assert_eq!(refusal.code, 403);
    assert_eq!(
        refusal.message,
        "pods \"a\" is forbidden: no PriorityClass with name high was found"
    );
    server
        .create("priorityclasses", class("high", 7, false))
        .unwrap();
    let mut made = server
        .create("pods", pod("a", json!({"priorityClassName": "high"})))
        .unwrap();
    assert_eq!(made["spec"]["priority"], 7);
    assert_eq!(made["spec"]["preemptionPolicy"], "PreemptLowerPriority");
    made["spec"].as_object_mut().unwrap().remove("priority");
    made["metadata"]["labels"] = json!({"a": "b"});
    let kept = server.put("pods", Subresource::Main, made).unwrap();
    assert_eq!(kept["spec"]["priority"], 7);
    let refusal = server
        .create("pods", pod("b", json!({"priority": 3})))
        .unwrap_err();
    assert_eq!(
        refusal.message,
        "pods \"b\" is forbidden: the integer value of priority (3) must not be provided in pod spec; priority admission controller computed 0 from the given PriorityClass name"
    );
}

#[test]
fn one_priority_class_is_the_default() {
    let mut server = Server::new();
    let mut first = server
        .create("priorityclasses", class("first", 5, true))
        .unwrap();
    let refusal = server
        .create("priorityclasses", class("second", 6, true))
        .unwrap_err();
    assert_eq!(
        refusal.message,
        "priorityclasses.scheduling.k8s.io \"second\" is forbidden: PriorityClass first is already marked as default. Only one default can exist"
    );
    first["description"] = json!("still the one");
    server
        .put("priorityclasses", Subresource::Main, first)
        .unwrap();
    let made = server.create("pods", pod("a", json!({}))).unwrap();
    assert_eq!(made["spec"]["priorityClassName"], "first");
    assert_eq!(made["spec"]["priority"], 5);
}

#[test]
fn claims_and_ingresses_take_the_default_class() {
    let mut server = Server::new();
    let mark = "storageclass.kubernetes.io/is-default-class";
    server
        .create(
            "storageclasses",
            json!({"metadata": {"name": "fast", "annotations": {mark: "true"}},
            "provisioner": "example.com/p"}),
        )
        .unwrap();
    let mark = "ingressclass.kubernetes.io/is-default-class";
    server
        .create(
            "ingressclasses",
            json!({"metadata": {"name": "front", "annotations": {mark: "true"}},
            "spec": {"controller": "example.com/c"}}),
        )
        .unwrap();
    let claim = |name: &str| {
        json!({"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}}}})
    };
    let mut made = server.create("persistentvolumeclaims", claim("a")).unwrap();
    assert_eq!(made["spec"]["storageClassName"], "fast");
    let mut none = claim("b");
    none["spec"]["storageClassName"] = json!("");
    let none = server.create("persistentvolumeclaims", none).unwrap();
    assert_eq!(none["spec"]["storageClassName"], "");
    let backend = json!({"service": {"name": "s", "port": {"number": 80}}});
    let ingress = server
        .create(
            "ingresses",
            json!({"metadata": {"name": "i"}, "spec": {"defaultBackend": backend}}),
        )
        .unwrap();
    assert_eq!(ingress["spec"]["ingressClassName"], "front");
    // A bound claim cannot request more storage, because its StorageClass does not allow expansion.
    made["status"] = json!({"phase": "Bound"});
    let mut bound = server
        .put("persistentvolumeclaims", Subresource::Status, made)
        .unwrap();
    bound["spec"]["resources"]["requests"]["storage"] = json!("2Gi");
    let refusal = server
        .put("persistentvolumeclaims", Subresource::Main, bound)
        .unwrap_err();
    assert_eq!(
        refusal.message,
        "persistentvolumeclaims \"a\" is forbidden: only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize"
    );
}

#[test]
fn a_runtime_class_gives_overhead_and_nodes() {
    let mut server = Server::new();
    let refusal = server
        .create("pods", pod("a", json!({"runtimeClassName": "small"})))
        .unwrap_err();
    assert_eq!(
        refusal.message,
        "pods \"a\" is forbidden: pod rejected: RuntimeClass \"small\" not found"
    );
    server
        .create(
            "runtimeclasses",
            json!({"metadata": {"name": "small"}, "handler": "h",
            "overhead": {"podFixed": {"cpu": "10m"}},
            "scheduling": {"nodeSelector": {"disk": "ssd"}}}),
        )
        .unwrap();
    let made = server
        .create("pods", pod("a", json!({"runtimeClassName": "small"})))
        .unwrap();
    assert_eq!(made["spec"]["overhead"], json!({"cpu": "10m"}));
    assert_eq!(made["spec"]["nodeSelector"], json!({"disk": "ssd"}));
    let refusal = server
        .create("pods", pod("b", json!({"overhead": {"cpu": "1"}})))
        .unwrap_err();
    assert_eq!(
        refusal.message,
        "pods \"b\" is forbidden: pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
    );
}

#[test]
fn limit_ranges_fill_in_and_refuse() {
    let mut server = Server::new();
    server
        .create(
            "limitranges",
            json!({"metadata": {"name": "l"}, "spec": {"limits": [
            {"type": "Container", "default": {"cpu": "500m"}, "defaultRequest": {"cpu": "100m"},
                "max": {"cpu": "1"}, "maxLimitRequestRatio": {"cpu": "5"}},
            {"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}}]}}),
        )
        .unwrap();
    let made = server.create("pods", pod("a", json!({}))).unwrap();
    assert_eq!(
        made["spec"]["containers"][0]["resources"],
        json!({"limits": {"cpu": "500m"}, "requests": {"cpu": "100m"}})
    );
    assert_eq!(
        made["metadata"]["annotations"]["kubernetes.io/limit-ranger"],
        "LimitRanger plugin set: cpu request for container c; cpu limit for container c"
    );
    assert_eq!(made["status"]["qosClass"], "Burstable");
    let big = json!({"resources": {"limits": {"cpu": "2"}, "requests": {"cpu": "250m"}}});
    let refusal = server.create("pods", pod("b", big)).unwrap_err();
    assert_eq!(
        refusal.message,
        "pods \"b\" is forbidden: [maximum cpu usage per Container is 1, but limit is 2, cpu max limit to request ratio per Container is 5, but provided ratio is 8.000000]"
    );
    let claim = json!({"metadata": {"name": "p"}, "spec": {"accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Mi"}}}});
    let refusal = server.create("persistentvolumeclaims", claim).unwrap_err();
    assert_eq!(
        refusal.message,
        "persistentvolumeclaims \"p\" is forbidden: minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 1Mi"
    );
}

#[test]
fn limit_ranges_are_about_pods_and_claims_too() {
    let mut server = Server::new();
    let range = json!({"metadata": {"name": "l"}, "spec": {"limits": [
        {"type": "Pod", "max": {"cpu": "1"}},
        {"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}}]}});
    server.create("limitranges", range).unwrap();
    let two = |amount: &str| {
        let resources = json!({"limits": {"cpu": amount}});
        let container = |name: &str| json!({"name": name, "image": "i", "resources": resources});
        json!({"metadata": {"name": "p"}, "spec": {"containers": [container("a"), container("b")]}})
    };
    let refusal = server.create("pods", two("600m")).unwrap_err();
    assert_eq!(
        refusal.message,
        "pods \"p\" is forbidden: maximum cpu usage per Pod is 1, but limit is 1200m"
    );
    server.create("pods", two("500m")).unwrap();
    let claim = |amount: &str| {
        json!({"metadata": {"name": "c"}, "spec": {"accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": amount}}}})
    };
    let refusal = server.create("persistentvolumeclaims", claim("2Gi"));
    assert_eq!(
        refusal.unwrap_err().message,
        "persistentvolumeclaims \"c\" is forbidden: maximum storage usage per PersistentVolumeClaim is 1Gi, but request is 2Gi"
    );
    server
        .create("persistentvolumeclaims", claim("1Gi"))
        .unwrap();
}

#[test]
fn metadata_errors_of_an_update_come_first() {
    let mut server = Server::new();
    let mut made = server
        .create(
            "configmaps",
            json!({"metadata": {"name": "c"}, "data": {"a": "b"}}),
        )
        .unwrap();
    made["metadata"]["uid"] = json!("");
    made["metadata"]["labels"] = json!({"bad key": "x"});
    made["data"] = json!({"bad key": "x"});
    let refusal = server
        .put("configmaps", Subresource::Main, made)
        .unwrap_err();
    let causes = refusal.details.unwrap().causes;
    let fields: Vec<&str> = causes.iter().map(|cause| cause.field.as_str()).collect();
    assert_eq!(fields.first(), Some(&"metadata.labels"));
    assert_eq!(fields.last(), Some(&"data[bad key]"));
    let beyond = fields
        .iter()
        .filter(|field| !field.starts_with("metadata."));
    assert_eq!(beyond.count(), 1);
}
