//! Machine: fills in the defaults of Pods and of all templates of Pods.

use serde_json::{Value, json};

use super::image;
use crate::fields::fill::{complete, complete_given, elements, list, part, set};
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
        // A Pod's missing requests equal its limits. A template keeps them open.
        for name in ["initContainers", "containers"] {
            list(pod, name).for_each(request_limits);
        }
        // A Pod without limits as a whole gets no requests as a whole.
        if pod["resources"]["limits"].is_object() {
            request_limits(pod);
        }
    }
    complete(object, json!({"status": {"phase": "Pending"}}));
}

/// Adds the priority, the tolerations that all Pods have, and the quality-of-service class.
pub(super) fn admit(object: &mut Value) {
    let Some(pod) = object.get_mut("spec") else {
        return;
    };
    let priority = match pod["priorityClassName"].as_str() {
        Some("system-node-critical") => 2_000_001_000,
        Some("system-cluster-critical") => 2_000_000_000,
        _ => 0,
    };
    let defaults = json!({"priority": priority, "preemptionPolicy": "PreemptLowerPriority"});
    complete(pod, defaults);
    tolerate(pod);
    let class = super::resources::quality(pod);
    complete(object, json!({"status": {"qosClass": class}}));
}

/// Adds tolerations of 300 seconds for nodes that are not ready or unreachable.
fn tolerate(pod: &mut Value) {
    let keys = [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ];
    let missing: Vec<&str> = {
        let tolerates = |key: &str| {
            elements(&pod["tolerations"]).iter().any(|one| {
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
    let defaults = json!({
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "securityContext": {},
        "schedulerName": "default-scheduler",
    });
    complete(spec, defaults);
    same_account(spec);
    for name in ["initContainers", "containers", "ephemeralContainers"] {
        list(spec, name).for_each(container);
    }
    list(spec, "volumes").for_each(volume);
    for constraint in list(spec, "topologySpreadConstraints") {
        set(constraint, "whenUnsatisfiable", json!("DoNotSchedule"));
    }
}

/// Copies the name of the service account between its field and the deprecated field.
fn same_account(spec: &mut Value) {
    if spec["serviceAccountName"].is_string() {
        spec["serviceAccount"] = spec["serviceAccountName"].clone();
    } else if spec["serviceAccount"].is_string() {
        spec["serviceAccountName"] = spec["serviceAccount"].clone();
    }
}

fn volume(volume: &mut Value) {
    let none = volume
        .as_object()
        .is_some_and(|members| members.keys().all(|name| name == "name"));
    if none {
        set(volume, "emptyDir", json!({}));
    }
    let mode = json!({"defaultMode": 420});
    for (source, defaults) in [
        ("configMap", mode.clone()),
        ("secret", mode.clone()),
        ("projected", mode.clone()),
        ("downwardAPI", mode),
        ("hostPath", json!({"type": ""})),
        ("iscsi", json!({"iscsiInterface": "default"})),
        (
            "rbd",
            json!({"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"}),
        ),
        (
            "azureDisk",
            json!({"cachingMode": "ReadWrite", "kind": "Shared", "fsType": "ext4", "readOnly": false}),
        ),
        (
            "scaleIO",
            json!({"storageMode": "ThinProvisioned", "fsType": "xfs"}),
        ),
    ] {
        complete_given(volume, source, defaults);
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
        let lifetime = json!({"expirationSeconds": 3600});
        complete_given(source, "serviceAccountToken", lifetime);
        if let Some(files) = source.get_mut("downwardAPI") {
            list(files, "items").for_each(file);
        }
    }
}

/// Fills in the defaults of a reference to a Pod field or a container resource.
fn file(holder: &mut Value) {
    complete_given(holder, "fieldRef", json!({"apiVersion": "v1"}));
    complete_given(holder, "resourceFieldRef", json!({"divisor": "0"}));
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

/// Returns the default pull policy of an image (upstream: `SetDefaults_Container`).
fn pull_policy(name: &str) -> &'static str {
    if image::tag(name) == "latest" {
        "Always"
    } else {
        "IfNotPresent"
    }
}

fn container(container: &mut Value) {
    let policy = pull_policy(container["image"].as_str().unwrap_or_default());
    let defaults = json!({
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": policy,
        "resources": {},
    });
    complete(container, defaults);
    for port in list(container, "ports") {
        set(port, "protocol", json!("TCP"));
    }
    for variable in list(container, "env") {
        if let Some(source) = variable.get_mut("valueFrom") {
            file(source);
            complete_given(source, "fileKeyRef", json!({"optional": false}));
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
        complete_given(probe, "grpc", json!({"service": ""}));
    }
    for hook in ["postStart", "preStop"] {
        if let Some(hook) = container.pointer_mut(&format!("/lifecycle/{hook}")) {
            http_get(hook);
        }
    }
}

fn http_get(handler: &mut Value) {
    complete_given(handler, "httpGet", json!({"path": "/", "scheme": "HTTP"}));
}
