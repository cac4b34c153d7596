//! Machine: fills in the defaults of Pods and of all templates of Pods.

use serde_json::{Value, json};

use super::image;
use crate::fields::fill::{list, part, set};
use crate::storage::claim;

/// Fills in the defaults of a Pod: its spec, and the first phase of its status.
pub(super) fn pod(object: &mut Value) {
    if let Some(pod) = part(object, "spec") {
        set(pod, "enableServiceLinks", json!(true));
        if pod["hostNetwork"] == true {
            for name in ["containers", "initContainers"] {
                list(pod, name).for_each(host_ports);
            }
        }
        spec(pod);
        // A Pod's missing requests equal its limits. A template keeps them open until Pods are
        // created from it.
        for name in ["initContainers", "containers"] {
            list(pod, name).for_each(request_limits);
        }
        request_limits_of_pod(pod);
    }
    if let Some(status) = part(object, "status") {
        set(status, "phase", json!("Pending"));
    }
}

/// Adds the fields that admission plugins and the strategy set: the priority, the tolerations that
/// all Pods have, and the quality-of-service class.
pub(super) fn admit(object: &mut Value) {
    let Some(pod) = object.get_mut("spec") else {
        return;
    };
    let (priority, preemption) = match pod["priorityClassName"].as_str() {
        Some("system-node-critical") => (2_000_001_000, "PreemptLowerPriority"),
        Some("system-cluster-critical") => (2_000_000_000, "PreemptLowerPriority"),
        _ => (0, "PreemptLowerPriority"),
    };
    set(pod, "priority", json!(priority));
    set(pod, "preemptionPolicy", json!(preemption));
    tolerate(pod);
    let class = super::resources::quality(pod);
    if let Some(status) = part(object, "status") {
        set(status, "qosClass", json!(class));
    }
}

/// Adds tolerations of 300 seconds for nodes that are not ready or unreachable, unless the Pod
/// tolerates these taints already.
fn tolerate(pod: &mut Value) {
    let keys = [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ];
    let missing: Vec<&str> = {
        let tolerated = pod["tolerations"].as_array();
        let tolerates = |key: &str| {
            tolerated.into_iter().flatten().any(|one| {
                let own = one["key"].as_str().unwrap_or_default();
                let effect = one["effect"].as_str().unwrap_or_default();
                (own == key || own.is_empty()) && matches!(effect, "NoExecute" | "")
            })
        };
        keys.into_iter().filter(|key| !tolerates(key)).collect()
    };
    if missing.is_empty() {
        return;
    }
    set(pod, "tolerations", json!([]));
    if let Some(tolerations) = pod.get_mut("tolerations").and_then(Value::as_array_mut) {
        tolerations.extend(missing.into_iter().map(|key| {
            json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300})
        }));
    }
}

/// Fills in the defaults of a template, which lies in the object's spec or in the object itself.
pub(crate) fn template(holder: &mut Value) {
    if let Some(template) = part(holder, "template") {
        part(template, "metadata");
        if let Some(pod) = part(template, "spec") {
            spec(pod);
        }
    }
}

/// Fills in the defaults of a Pod's spec, alone or in a template.
pub(crate) fn spec(spec: &mut Value) {
    set(spec, "restartPolicy", json!("Always"));
    set(spec, "terminationGracePeriodSeconds", json!(30));
    set(spec, "dnsPolicy", json!("ClusterFirst"));
    set(spec, "securityContext", json!({}));
    set(spec, "schedulerName", json!("default-scheduler"));
    same_account(spec);
    for name in ["initContainers", "containers", "ephemeralContainers"] {
        for one in list(spec, name) {
            container(one);
        }
    }
    list(spec, "volumes").for_each(volume);
    for constraint in list(spec, "topologySpreadConstraints") {
        if constraint["whenUnsatisfiable"].is_null() {
            set(constraint, "whenUnsatisfiable", json!("DoNotSchedule"));
        }
    }
}

/// Copies the name of the service account between its field and the deprecated field.
fn same_account(spec: &mut Value) {
    for (from, to) in [
        ("serviceAccountName", "serviceAccount"),
        ("serviceAccount", "serviceAccountName"),
    ] {
        if let Some(account) = spec[from].as_str().map(str::to_owned) {
            if to == "serviceAccount" {
                set(spec, to, json!(account));
                spec[to] = json!(account);
            } else {
                set(spec, to, json!(account));
            }
        }
    }
}

fn volume(volume: &mut Value) {
    let none = volume
        .as_object()
        .is_some_and(|members| members.keys().all(|name| name == "name"));
    if none {
        set(volume, "emptyDir", json!({}));
    }
    for source in ["configMap", "secret", "projected", "downwardAPI"] {
        if let Some(source) = volume.get_mut(source) {
            set(source, "defaultMode", json!(420));
        }
    }
    if let Some(path) = volume.get_mut("hostPath") {
        set(path, "type", json!(""));
    }
    if let Some(disk) = volume.get_mut("iscsi") {
        set(disk, "iscsiInterface", json!("default"));
    }
    if let Some(disk) = volume.get_mut("rbd") {
        set(disk, "pool", json!("rbd"));
        set(disk, "user", json!("admin"));
        set(disk, "keyring", json!("/etc/ceph/keyring"));
    }
    if let Some(disk) = volume.get_mut("azureDisk") {
        set(disk, "cachingMode", json!("ReadWrite"));
        set(disk, "kind", json!("Shared"));
        set(disk, "fsType", json!("ext4"));
        set(disk, "readOnly", json!(false));
    }
    if let Some(disk) = volume.get_mut("scaleIO") {
        set(disk, "storageMode", json!("ThinProvisioned"));
        set(disk, "fsType", json!("xfs"));
    }
    if let Some(image) = volume.get_mut("image") {
        let policy = pull_policy(image["reference"].as_str().unwrap_or_default());
        set(image, "pullPolicy", json!(policy));
    }
    if let Some(spec) = volume.pointer_mut("/ephemeral/volumeClaimTemplate/spec") {
        claim::spec_defaults(spec);
    }
    if let Some(files) = volume.get_mut("downwardAPI") {
        list(files, "items").for_each(file);
    }
    let Some(projected) = volume.get_mut("projected") else {
        return;
    };
    for source in list(projected, "sources") {
        if let Some(token) = source.get_mut("serviceAccountToken") {
            set(token, "expirationSeconds", json!(3600));
        }
        if let Some(files) = source.get_mut("downwardAPI") {
            list(files, "items").for_each(file);
        }
    }
}

/// Fills in the defaults of a reference to a Pod field or a container resource.
fn file(holder: &mut Value) {
    if let Some(field) = holder.get_mut("fieldRef") {
        set(field, "apiVersion", json!("v1"));
    }
    if let Some(resource) = holder.get_mut("resourceFieldRef") {
        set(resource, "divisor", json!("0"));
    }
}

/// Sets missing host ports to the container ports on the host's network.
fn host_ports(container: &mut Value) {
    for port in list(container, "ports") {
        let own = port["containerPort"].clone();
        if port["hostPort"].as_i64().unwrap_or_default() == 0 && own.is_i64() {
            port["hostPort"] = own;
        }
    }
}

fn request_limits(container: &mut Value) {
    if let Some(resources) = part(container, "resources")
        && let Some(limits) = resources["limits"].as_object().cloned()
        && let Some(requests) = part(resources, "requests")
    {
        for (name, quantity) in limits {
            set(requests, &name, quantity);
        }
    }
}

/// Sets the missing requests of a Pod as a whole to its limits, if the Pod has limits as a whole.
fn request_limits_of_pod(pod: &mut Value) {
    if pod["resources"]["limits"].is_object() {
        request_limits(pod);
    }
}

/// Returns the default pull policy of an image: `Always` with the tag `latest`, which is also the
/// default tag. Upstream: `SetDefaults_Container`.
fn pull_policy(name: &str) -> &'static str {
    if image::tag(name) == "latest" {
        "Always"
    } else {
        "IfNotPresent"
    }
}

fn container(container: &mut Value) {
    set(
        container,
        "terminationMessagePath",
        json!("/dev/termination-log"),
    );
    set(container, "terminationMessagePolicy", json!("File"));
    let policy = pull_policy(container["image"].as_str().unwrap_or_default());
    set(container, "imagePullPolicy", json!(policy));
    part(container, "resources");
    for port in list(container, "ports") {
        set(port, "protocol", json!("TCP"));
    }
    for variable in list(container, "env") {
        if let Some(source) = variable.get_mut("valueFrom") {
            file(source);
            if let Some(key) = source.get_mut("fileKeyRef") {
                set(key, "optional", json!(false));
            }
        }
    }
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let Some(probe) = container.get_mut(probe) else {
            continue;
        };
        for (name, number) in [
            ("timeoutSeconds", 1),
            ("periodSeconds", 10),
            ("successThreshold", 1),
            ("failureThreshold", 3),
        ] {
            if probe[name].as_i64().unwrap_or_default() == 0 && probe.is_object() {
                probe[name] = json!(number);
            }
        }
        http_get(probe);
        if let Some(grpc) = probe.get_mut("grpc") {
            set(grpc, "service", json!(""));
        }
    }
    for hook in ["postStart", "preStop"] {
        if let Some(hook) = container.pointer_mut(&format!("/lifecycle/{hook}")) {
            http_get(hook);
        }
    }
}

fn http_get(handler: &mut Value) {
    if let Some(get) = handler.get_mut("httpGet") {
        set(get, "path", json!("/"));
        set(get, "scheme", json!("HTTP"));
    }
}
