//! Warnings of each kind (upstream: the `GetWarningsFor…` functions).

use serde_json::{Value, json};

use super::{NETWORK, STORAGE, completed, of, resource};

fn warnings_of(version: &str, kind: &str, object: &Value) -> Vec<String> {
    let object = completed(version, kind, object.clone());
    let rules = of(&resource(version, kind)).unwrap();
    crate::warnings(rules, &object, None)
}

fn check(cases: Vec<(&str, &str, Value, Vec<&str>)>) {
    for (version, kind, object, expected) in cases {
        assert_eq!(
            warnings_of(version, kind, &object),
            expected,
            "{kind} {object}"
        );
    }
}

#[test]
fn ignored_fields_of_services_cause_warnings() {
    check(vec![
        (
            "v1",
            "Service",
            json!({"spec": {"clusterIP": "None", "externalIPs": ["192.0.2.1"],
            "sessionAffinity": "ClientIP", "loadBalancerIP": "::ffff:192.0.2.1"}}),
            vec![
                "spec.loadBalancerIP is ignored for headless services",
                "spec.externalIPs is ignored for headless services",
                "spec.SessionAffinity is ignored for headless services",
                "spec.loadBalancerIP: non-standard IP address \"::ffff:192.0.2.1\" will be considered invalid in a future Kubernetes release: use \"192.0.2.1\"",
            ],
        ),
        (
            "v1",
            "Service",
            json!({"spec": {"externalIPs": ["192.0.2.01"], "externalName": "a.b",
            "loadBalancerSourceRanges": ["192.0.2.1/24"], "trafficDistribution": "PreferClose"}}),
            vec![
                "spec.externalIPs is deprecated and may no longer be implemented in some clusters",
                "spec.externalIPs[0]: non-standard IP address \"192.0.2.01\" will be considered invalid in a future Kubernetes release: use \"192.0.2.1\"",
                "spec.loadBalancerSourceRanges[0]: CIDR value \"192.0.2.1/24\" is ambiguous in this context (should be \"192.0.2.0/24\" or \"192.0.2.1/32\"?)",
                "spec.externalName is ignored when spec.type is not \"ExternalName\"",
                "spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"",
            ],
        ),
        (
            "v1",
            "Service",
            json!({"spec": {"type": "ExternalName", "externalName": "a.b", "externalIPs": ["192.0.2.1"]}}),
            vec!["spec.externalIPs is ignored when spec.type is \"ExternalName\""],
        ),
    ]);
}

#[test]
fn deprecated_fields_cause_warnings_in_each_kind() {
    check(vec![
        (
            "v1",
            "PersistentVolumeClaim",
            json!({"metadata": {"annotations": {"volume.beta.kubernetes.io/storage-class": "a"}},
            "spec": {"resources": {"requests": {"storage": "1500m"}}}}),
            vec![
                "metadata.annotations[volume.beta.kubernetes.io/storage-class]: deprecated since v1.8; use \"storageClassName\" attribute instead",
                "spec.resources.requests[storage]: fractional byte value \"1500m\" is invalid, must be an integer",
            ],
        ),
        (
            "v1",
            "PersistentVolume",
            json!({"spec": {"persistentVolumeReclaimPolicy": "Recycle", "rbd": {},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "beta.kubernetes.io/os"}]}]}}}}),
            vec![
                "spec.nodeAffinity.required.nodeSelectorTerms[0].matchExpressions[0].key: beta.kubernetes.io/os is deprecated since v1.14; use \"kubernetes.io/os\" instead",
                "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.",
                "spec.rbd: deprecated in v1.28, non-functional in v1.31+",
            ],
        ),
        (
            "v1",
            "ServiceAccount",
            json!({"metadata": {"annotations": {"kubernetes.io/enforce-mountable-secrets": "true"}}}),
            vec![
                "metadata.annotations[kubernetes.io/enforce-mountable-secrets]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets",
            ],
        ),
        (
            NETWORK,
            "Ingress",
            json!({"metadata": {"annotations": {"kubernetes.io/ingress.class": "a"}}}),
            vec![
                "annotation \"kubernetes.io/ingress.class\" is deprecated, please use 'spec.ingressClassName' instead",
            ],
        ),
        (
            STORAGE,
            "CSIStorageCapacity",
            json!({"nodeTopology": {"matchLabels": {"beta.kubernetes.io/os": "x"}}}),
            vec![
                "nodeTopology.matchLabels.beta.kubernetes.io/os: beta.kubernetes.io/os is deprecated since v1.14; use \"kubernetes.io/os\" instead",
            ],
        ),
        (
            "node.k8s.io/v1",
            "RuntimeClass",
            json!({"scheduling": {"nodeSelector": {"beta.kubernetes.io/os": "x"}}}),
            vec![
                "scheduling.nodeSelector: deprecated since v1.14; use \"kubernetes.io/os\" instead",
            ],
        ),
    ]);
}

#[test]
fn noncanonical_addresses_cause_warnings_in_each_kind() {
    let odd = "subsets[0].addresses[0].ip: non-standard IP address \"010.0.0.1\" will be considered invalid in a future Kubernetes release: use \"10.0.0.1\"";
    let network = "spec.egress[0].to[0].ipBlock.cidr: CIDR value \"10.0.0.1/8\" is ambiguous in this context (should be \"10.0.0.0/8\" or \"10.0.0.1/32\"?)";
    let subsets = json!([{"addresses": [{"ip": "010.0.0.1"}]}]);
    let managed = json!({"labels": {"endpoints.kubernetes.io/managed-by": "endpoint-controller"}});
    check(vec![
        ("v1", "Endpoints", json!({ "subsets": subsets }), vec![odd]),
        (
            "v1",
            "Endpoints",
            json!({"metadata": managed, "subsets": subsets}),
            Vec::new(),
        ),
        (
            "discovery.k8s.io/v1",
            "EndpointSlice",
            json!({"addressType": "IPv6", "endpoints": [{"addresses": ["0:0::1"]}]}),
            vec![
                "endpoints[0].addresses[0]: IPv6 address \"0:0::1\" should be in RFC 5952 canonical format (\"::1\")",
            ],
        ),
        (
            NETWORK,
            "NetworkPolicy",
            json!({"spec": {"egress": [{"to": [{"ipBlock": {"cidr": "10.0.0.1/8"}}]}]}}),
            vec![network],
        ),
        (
            "v1",
            "Node",
            json!({"spec": {"externalID": "x"}}),
            vec!["spec.externalID: this field is deprecated, and is unused by Kubernetes"],
        ),
    ]);
}

#[test]
fn noncanonical_addresses_of_statuses_cause_warnings() {
    for (kind, status, expected) in [
        (
            "Pod",
            json!({"podIPs": [{"ip": "010.0.0.1"}], "hostIPs": [{"ip": "0:0::1"}]}),
            vec![
                "status.podIPs[0].ip: non-standard IP address \"010.0.0.1\" will be considered invalid in a future Kubernetes release: use \"10.0.0.1\"",
                "status.hostIPs[0].ip: IPv6 address \"0:0::1\" should be in RFC 5952 canonical format (\"::1\")",
            ],
        ),
        (
            "Service",
            json!({"loadBalancer": {"ingress": [{"hostname": "h"}, {"ip": "0:0::1"}]}}),
            vec![
                "status.loadBalancer.ingress[1]: IPv6 address \"0:0::1\" should be in RFC 5952 canonical format (\"::1\")",
            ],
        ),
    ] {
        let rules = of(&resource("v1", kind)).unwrap();
        let warnings_of = crate::status_warnings(rules, &json!({ "status": status }));
        assert_eq!(warnings_of, expected, "{kind}");
    }
}
