//! Tests of the stored form of built-in objects: defaults, and fields that Go's encoder writes always or never. The
//! expected values are those of kube-apiserver 1.36.

use super::*;

fn made(plural: &str, body: Value) -> Value {
    Server::alone().create(plural, body).unwrap()
}

fn template() -> Value {
    json!({"metadata": {"labels": {"app": "x"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}})
}

fn members(value: &Value) -> Vec<&str> {
    value
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect()
}

/// SRV-KIND-3: stored objects have those fields that Go's encoder writes even if they are not set.
#[test]
fn members_that_go_always_writes_are_there() {
    let workload = json!({"metadata": {"name": "w"}, "spec": {"selector": {"matchLabels": {"a": "b"}},
        "updateStrategy": {"type": "RollingUpdate"}, "template": {"metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    let set = made("statefulsets", workload);
    assert_eq!(set["spec"]["serviceName"], "");
    // An update strategy with a type and without parameters gets no empty object with parameters.
    assert_eq!(
        set["spec"]["updateStrategy"],
        json!({"type": "RollingUpdate"})
    );
    let device = json!({"name": "a", "exactly": {"deviceClassName": "g"}});
    let claims = made(
        "resourceclaimtemplates",
        json!({"metadata": {"name": "r"}, "spec": {"spec": {"devices": {"requests": [device]}}}}),
    );
    assert_eq!(members(&claims["spec"]), ["metadata", "spec"]);
    let claim = made(
        "persistentvolumeclaims",
        json!({"metadata": {"name": "c"}, "spec": {"accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "dataSource": {"kind": "PersistentVolumeClaim", "name": "other"}}}),
    );
    assert_eq!(
        claim["spec"]["dataSource"],
        json!({"apiGroup": null, "kind": "PersistentVolumeClaim", "name": "other"})
    );
    let ephemeral = json!({"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}}});
    let mut pod = pod("p", None);
    pod["spec"]["volumes"] = json!([ephemeral]);
    let pod = made("pods", pod);
    let claim = &pod["spec"]["volumes"][0]["ephemeral"]["volumeClaimTemplate"];
    assert_eq!(claim["metadata"], json!({}));
}

/// SRV-KIND-3: stored objects do not have fields with an empty value that Go's encoder leaves out.
#[test]
fn members_that_go_never_writes_are_not_there() {
    let secret = made(
        "secrets",
        json!({"metadata": {"name": "s"}, "data": {"a": "YWFh\n\nYWFh\n", "b": "YR=="}}),
    );
    assert_eq!(secret["data"], json!({"a": "YWFhYWFh", "b": "YQ=="}));
    let webhook = json!({"name": "a.b.c", "admissionReviewVersions": ["v1"], "sideEffects": "None",
        "clientConfig": {"url": "https://x/y", "caBundle": ""}});
    let hooks = made(
        "validatingwebhookconfigurations",
        json!({"metadata": {"name": "v"}, "webhooks": [webhook]}),
    );
    assert_eq!(
        hooks["webhooks"][0]["clientConfig"],
        json!({"url": "https://x/y"})
    );
    let scaler = made(
        "horizontalpodautoscalers",
        json!({"metadata": {"name": "h", "annotations": {
                "autoscaling.alpha.kubernetes.io/conditions": "[]", "k": "v"}},
            "spec": {"maxReplicas": 2,
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"}}}),
    );
    assert_eq!(scaler["metadata"]["annotations"], json!({"k": "v"}));
    // A field with raw JSON, such as `data` of a ControllerRevision, stays as the client sent it, with empty values.
    let revision = made(
        "controllerrevisions",
        json!({"metadata": {"name": "r"}, "revision": 1, "data": {"list": [], "none": null}}),
    );
    assert_eq!(revision["data"], json!({"list": [], "none": null}));
}

/// A Job without labels gets the labels of its Pod template (upstream: `SetDefaults_Job` and `generateSelector`).
#[test]
fn a_job_without_labels_has_those_of_its_pods() {
    let job = |labels: Value| {
        let metadata = json!({"name": "j", "labels": labels});
        made(
            "jobs",
            json!({"metadata": metadata, "spec": {"template": template()}}),
        )
    };
    let own = job(Value::Null);
    assert_eq!(
        members(&own["metadata"]["labels"]),
        [
            "app",
            "batch.kubernetes.io/controller-uid",
            "batch.kubernetes.io/job-name",
            "controller-uid",
            "job-name"
        ]
    );
    assert_eq!(
        own["metadata"]["labels"],
        own["spec"]["template"]["metadata"]["labels"]
    );
    let given = job(json!({"app": "x"}));
    assert_eq!(given["metadata"]["labels"], json!({"app": "x"}));
}

/// SRV-REG-3: as upstream, the kind decides whether labels or an empty list in an update raise the generation.
#[test]
fn generations_grow_as_upstream_compares() {
    let mut server = Server::alone();
    let slice =
        json!({"metadata": {"name": "es"}, "addressType": "IPv4", "endpoints": [], "ports": []});
    server.create("endpointslices", slice).unwrap();
    let labels = json!({"metadata": {"labels": {"a": "b"}}});
    let slice = server.merge("endpointslices", "es", labels).unwrap();
    assert_eq!(slice["metadata"]["generation"], 2);
    let annotations = json!({"metadata": {"annotations": {"a": "b"}}});
    let slice = server.merge("endpointslices", "es", annotations).unwrap();
    assert_eq!(slice["metadata"]["generation"], 2);

    // For a NetworkPolicy, the empty list in the request counts as a change: the stored object lacks the list.
    let policy = |has_ingress: bool| {
        let mut spec = json!({"policyTypes": ["Ingress"], "podSelector": {}});
        if has_ingress {
            spec["ingress"] = json!([]);
        }
        json!({"metadata": {"name": "np"}, "spec": spec})
    };
    let name = "networkpolicies";
    server.create(name, policy(true)).unwrap();
    let mut put = |has_ingress| {
        let written = server.put(name, Subresource::Main, policy(has_ingress));
        written.unwrap()["metadata"]["generation"].clone()
    };
    assert_eq!(put(true), 2);
    assert_eq!(put(false), 2);
}

/// A Secret of the type `kubernetes.io/tls` that is no key pair is stored with a warning (upstream:
/// `warningsForSecret`).
#[test]
fn a_tls_secret_that_is_no_key_pair_causes_a_warning() {
    let mut server = Server::alone();
    let secret = json!({"metadata": {"name": "t"}, "type": "kubernetes.io/tls",
        "data": {"tls.crt": "eA==", "tls.key": "eA=="}});
    server.create("secrets", secret).unwrap();
    let said = server.registry.take_warnings();
    assert_eq!(
        said.1,
        ["tls: failed to find any PEM data in certificate input"]
    );
}
