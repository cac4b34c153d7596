//! Machine: defaults of a Pod and of every template of one.

use serde_json::{Map, Value, json};

use super::{list, part, set};

/// A Pod: its spec, what admission adds, and the phase it starts in.
pub(super) fn pod(object: &mut Value) {
    let Some(pod_spec) = part(object, "spec") else {
        return;
    };
    spec(pod_spec);
    set(pod_spec, "enableServiceLinks", json!(true));
    set(pod_spec, "priority", json!(0));
    set(pod_spec, "preemptionPolicy", json!("PreemptLowerPriority"));
    let toleration = |key: &str| json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300});
    let tolerations = [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ]
    .map(toleration);
    set(pod_spec, "tolerations", json!(tolerations));
    for name in ["initContainers", "containers"] {
        list(pod_spec, name).for_each(request_limits);
    }
    let class = quality(pod_spec);
    if let Some(status) = part(object, "status") {
        set(status, "phase", json!("Pending"));
        set(status, "qosClass", json!(class));
    }
}

/// A Pod's spec, alone or in a template.
pub(super) fn spec(spec: &mut Value) {
    set(spec, "restartPolicy", json!("Always"));
    set(spec, "terminationGracePeriodSeconds", json!(30));
    set(spec, "dnsPolicy", json!("ClusterFirst"));
    set(spec, "securityContext", json!({}));
    set(spec, "schedulerName", json!("default-scheduler"));
    if let Some(account) = spec["serviceAccountName"].as_str().map(str::to_owned) {
        set(spec, "serviceAccount", json!(account));
    }
    for name in ["initContainers", "containers", "ephemeralContainers"] {
        for one in list(spec, name) {
            container(one);
        }
    }
    for volume in list(spec, "volumes") {
        for source in ["configMap", "secret", "projected", "downwardAPI"] {
            if let Some(source) = volume.get_mut(source) {
                set(source, "defaultMode", json!(420));
            }
        }
    }
}

/// A Pod asks for what it is limited to. A template is left as it is until it makes Pods.
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

fn container(container: &mut Value) {
    set(
        container,
        "terminationMessagePath",
        json!("/dev/termination-log"),
    );
    set(container, "terminationMessagePolicy", json!("File"));
    let image = container["image"].as_str().unwrap_or_default();
    let name = image.rsplit('/').next().unwrap_or_default();
    let moving = !image.contains('@') && (!name.contains(':') || name.ends_with(":latest"));
    let policy = if moving { "Always" } else { "IfNotPresent" };
    set(container, "imagePullPolicy", json!(policy));
    part(container, "resources");
    for port in list(container, "ports") {
        set(port, "protocol", json!("TCP"));
    }
    for variable in list(container, "env") {
        if let Some(field) = variable.pointer_mut("/valueFrom/fieldRef") {
            set(field, "apiVersion", json!("v1"));
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
            set(probe, name, json!(number));
        }
        if let Some(get) = probe.get_mut("httpGet") {
            set(get, "path", json!("/"));
            set(get, "scheme", json!("HTTP"));
        }
    }
}

/// Guaranteed, Burstable or BestEffort, from what the containers ask for.
fn quality(spec: &Value) -> &'static str {
    let containers = ["initContainers", "containers"]
        .into_iter()
        .flat_map(|list| spec[list].as_array().into_iter().flatten());
    let asked = |container: &Value, part: &str| -> Map<String, Value> {
        let all = container["resources"][part]
            .as_object()
            .cloned()
            .unwrap_or_default();
        all.into_iter()
            .filter(|(name, _)| name == "cpu" || name == "memory")
            .collect()
    };
    let (mut any, mut guaranteed) = (false, true);
    for container in containers {
        let (limits, requests) = (asked(container, "limits"), asked(container, "requests"));
        any |= !limits.is_empty() || !requests.is_empty();
        guaranteed &= limits.len() == 2 && limits == requests;
    }
    match (any, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}
