//! Words: different Pods in the form that a Deployment, a scheduler and a kubelet produce.

use fastrand::Rng;
use serde_json::{Value, json};

use super::random_text::hex;
use super::{NUMBER, SHARED, TOGETHER};

const TIME: &str = "2026-11-01T10:20:30Z";

/// Returns the Pod of a number without status, and the status that a kubelet would report.
pub(super) fn pod(number: u64) -> (Value, Option<Value>) {
    let mut rng = Rng::with_seed(number);
    let app = format!("svc-{:03}", rng.u64(..400));
    let team = format!("team-{:02}", rng.u64(..50));
    let set = format!("{app}-{}", hex(&mut rng, 10));
    let (minor, patch) = (rng.u64(..40), rng.u64(..9));
    let image = format!("registry.example.com/platform/{app}:v1.{minor}.{patch}");
    let proxy = "registry.example.com/mesh/proxy:1.22.3".to_owned();
    let mut env: Vec<Value> = (0..8)
        .map(|index| {
            let value = format!("value-{}", rng.u64(..1_000_000));
            json!({"name": format!("APP_SETTING_{index}"), "value": value})
        })
        .collect();
    let field = json!({"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}});
    env.push(json!({"name": "POD_NAME", "valueFrom": field}));
    let key = json!({"secretKeyRef": {"name": format!("{app}-db"), "key": "password"}});
    env.push(json!({"name": "DB_PASSWORD", "valueFrom": key}));
    let name = format!("{set}-{number:06}");
    let tier = match rng.u64(..3) {
        0 => "frontend",
        1 => "backend",
        _ => "data",
    };
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "generateName": format!("{set}-"),
            "labels": {
                "app.kubernetes.io/name": app,
                "app.kubernetes.io/instance": app,
                "pod-template-hash": hex(&mut rng, 10),
                "team": team,
                "tier": tier,
                SHARED: format!("{}", number / TOGETHER),
            },
            "annotations": {
                "prometheus.io/scrape": "true",
                "prometheus.io/port": "9090",
                "checksum/config": hex(&mut rng, 64),
                NUMBER: number.to_string(),
            },
        },
        "spec": {
            "containers": [container("app", &image, &env), container("proxy", &proxy, &env)],
            "volumes": [
                {"name": "config", "configMap": {"name": format!("{app}-config")}},
                {"name": "kube-api-access-x", "projected": {"sources": [
                    {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                    {"configMap": {
                        "name": "kube-root-ca.crt",
                        "items": [{"key": "ca.crt", "path": "ca.crt"}],
                    }},
                ]}},
            ],
            "serviceAccountName": app,
            "nodeName": format!("node-{:04}", rng.u64(..1000)),
            "securityContext": {"fsGroup": 2000, "runAsUser": 1000},
            "tolerations": [toleration("not-ready"), toleration("unreachable")],
        },
    });
    let status = status(&mut rng, &[("app", &image), ("proxy", &proxy)]);
    (pod, Some(status))
}

fn toleration(taint: &str) -> Value {
    json!({
        "key": format!("node.kubernetes.io/{taint}"),
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 300,
    })
}

fn container(name: &str, image: &str, env: &[Value]) -> Value {
    let probe =
        |path: &str| json!({"httpGet": {"path": path, "port": "http"}, "periodSeconds": 10});
    json!({
        "name": name,
        "image": image,
        "env": env,
        "ports": [
            {"name": format!("{name}-http"), "containerPort": 8080, "protocol": "TCP"},
            {"name": format!("{name}-metrics"), "containerPort": 9090, "protocol": "TCP"},
        ],
        "resources": {
            "limits": {"cpu": "500m", "memory": "512Mi"},
            "requests": {"cpu": "100m", "memory": "256Mi"},
        },
        "livenessProbe": probe("/healthz"),
        "readinessProbe": probe("/readyz"),
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "capabilities": {"drop": ["ALL"]},
            "runAsNonRoot": true,
        },
        "volumeMounts": [
            {"name": "config", "mountPath": "/etc/app"},
            {
                "name": "kube-api-access-x",
                "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
                "readOnly": true,
            },
        ],
    })
}

fn status(rng: &mut Rng, containers: &[(&str, &str)]) -> Value {
    let address = format!(
        "10.{}.{}.{}",
        rng.u64(..255),
        rng.u64(..255),
        rng.u64(..255)
    );
    let kinds = [
        "PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled",
    ];
    let conditions =
        kinds.map(|kind| json!({"type": kind, "status": "True", "lastTransitionTime": TIME}));
    let containers: Vec<Value> = containers
        .iter()
        .map(|(name, image)| {
            json!({
                "name": name,
                "image": image,
                "imageID": format!("{image}@sha256:{}", hex(rng, 64)),
                "containerID": format!("containerd://{}", hex(rng, 64)),
                "ready": true,
                "started": true,
                "restartCount": 0,
                "state": {"running": {"startedAt": TIME}},
            })
        })
        .collect();
    json!({
        "phase": "Running",
        "podIP": address,
        "podIPs": [{"ip": address}],
        "hostIP": "192.168.0.1",
        "hostIPs": [{"ip": "192.168.0.1"}],
        "startTime": TIME,
        "qosClass": "Burstable",
        "conditions": conditions,
        "containerStatuses": containers,
    })
}
