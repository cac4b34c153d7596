//! Defaults and validation of all families of kinds, as the real server does them.

use serde_json::json;
use steersman_schema::builtin::built_in;
use steersman_schema::types;

use super::*;
use crate::defaults;

pub(crate) use error_texts::error_texts;

fn resource(version: &str, kind: &str) -> Resource {
    let all = built_in().into_iter();
    let mut found = all.filter(|r| r.kind == kind && r.api_version() == version);
    found.next().unwrap()
}

/// Returns an object with its defaults, as a client reads it.
fn completed(version: &str, kind: &str, mut object: Value) -> Value {
    object["apiVersion"] = json!(version);
    object["kind"] = json!(kind);
    defaults::apply(&resource(version, kind), &mut object);
    object
}

/// Returns the errors of an object: fields and messages.
fn refused(version: &str, kind: &str, object: Value, old: Option<Value>) -> Vec<String> {
    let object = completed(version, kind, object);
    let old = old.map(|old| completed(version, kind, old));
    let rules = of(&resource(version, kind)).unwrap();
    let errors = validate(rules, &object, old.as_ref());
    errors
        .into_iter()
        .map(|error| format!("{}: {}", error.field, error.message))
        .collect()
}

const NETWORK: &str = "networking.k8s.io/v1";
const STORAGE: &str = "storage.k8s.io/v1";
const ADMISSION_V1: &str = "admissionregistration.k8s.io/v1";
const FLOW: &str = "flowcontrol.apiserver.k8s.io/v1";

#[test]
fn defaulting_twice_changes_nothing() {
    for resource in built_in() {
        let object = json!({"metadata": {"name": "x"}});
        let once = completed(&resource.api_version(), &resource.kind, object);
        let twice = completed(&resource.api_version(), &resource.kind, once.clone());
        assert_eq!(once, twice, "{}", resource.kind);
    }
}

/// SRV-3: `prepare` may get objects from a snapshot or a patch, which no decoder has checked.
#[test]
fn prepare_does_not_panic_on_any_value() {
    let odd = [json!("text"), json!([]), json!(7), json!(null), json!({})];
    for resource in built_in() {
        let Some(rules) = of(&resource) else { continue };
        for value in &odd {
            for member in ["metadata", "spec", "status"] {
                let object = json!({"metadata": {"name": "x"}, member: value});
                for old in [None, Some(&object)] {
                    let mut new = object.clone();
                    (rules.prepare)(&mut new, old);
                    (rules.defaults)(&mut new);
                    (rules.prepare_status)(&mut new, &object);
                    let _ = validate(rules, &new, old);
                    let _ = warnings(rules, &new, old);
                }
            }
        }
    }
}

/// SRV-3: the rules do not panic on any value that the decoder accepts.
#[test]
fn validation_does_not_panic_on_any_decoded_value() {
    let shapes = [
        json!(null),
        json!("text"),
        json!(-1),
        json!([null, {}, [], "x"]),
        json!({"a": [{}], "": null}),
    ];
    let parts = [
        "spec", "status", "data", "subsets", "webhooks", "rules", "roleRef",
    ];
    for resource in built_in() {
        let Some(rules) = of(&resource) else { continue };
        for shape in &shapes {
            let mut object = json!({"metadata": {"name": "x"}});
            for part in parts {
                object[part] = shape.clone();
            }
            let (version, kind) = (resource.api_version(), &resource.kind);
            if types::decode(&version, kind, &mut object).is_err() {
                continue;
            }
            (rules.defaults)(&mut object);
            (rules.prepare)(&mut object, None);
            let old = object.clone();
            (rules.prepare)(&mut object, Some(&old));
            let _ = validate(rules, &object, None);
            let _ = validate(rules, &object, Some(&old));
            let _ = validate_status(rules, &object, &old);
        }
    }
}

#[test]
fn a_service_is_validated_by_its_type() {
    let headless = json!({"spec": {"type": "NodePort", "clusterIP": "None",
        "clusterIPs": ["None"], "ports": [{"port": 80}]}});
    assert_eq!(
        refused("v1", "Service", headless, None),
        [
            "spec.clusterIPs[0]: Invalid value: \"None\": may not be set to 'None' for NodePort services"
        ]
    );
    let plain = json!({"spec": {"sessionAffinity": "ClientIP",
        "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 90_000}},
        "loadBalancerClass": "x.io/y", "loadBalancerSourceRanges": ["10.0.0.0/33"],
        "ports": [{"port": 80, "nodePort": 30_000, "targetPort": "no--name"}]}});
    assert_eq!(
        refused("v1", "Service", plain, None),
        [
            "spec.ports[0].targetPort: Invalid value: \"no--name\": must not contain consecutive hyphens",
            "spec.sessionAffinityConfig.clientIP.timeoutSeconds: Invalid value: 90000: must be greater than 0 and less than 86400",
            "spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'",
            "spec.LoadBalancerSourceRanges: Forbidden: may only be used when `type` is 'LoadBalancer'",
            "spec.LoadBalancerSourceRanges[0]: Invalid value: \"10.0.0.0/33\": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
            "spec.loadBalancerClass: Forbidden: may only be used when `type` is 'LoadBalancer'",
        ]
    );
}

#[test]
fn a_service_drops_the_fields_of_its_old_type() {
    let mut new = json!({"spec": {"type": "ClusterIP", "clusterIP": "10.96.0.1",
        "externalTrafficPolicy": "Cluster", "ports": [{"port": 80, "nodePort": 30_001}]}});
    let mut old = new.clone();
    old["spec"]["type"] = json!("NodePort");
    (service::SERVICE.prepare)(&mut new, Some(&old));
    assert_eq!(
        new["spec"],
        json!({"type": "ClusterIP", "clusterIP": "10.96.0.1", "ports": [{"port": 80}]})
    );
}

#[test]
fn an_ingress_class_names_its_parameters_by_scope() {
    let class = |scope: &str| {
        json!({"spec": {"controller": "acme",
            "parameters": {"kind": "K", "name": "n", "scope": scope, "namespace": "x"}}})
    };
    let controller = "spec.controller: Invalid value: \"acme\": must be a domain-prefixed path (such as \"acme.io/foo\")";
    assert_eq!(
        refused(NETWORK, "IngressClass", class("Namespace"), None),
        [controller]
    );
    assert_eq!(
        refused(NETWORK, "IngressClass", class("Cluster"), None),
        [
            controller,
            "spec.parameters.namespace: Forbidden: `parameters.scope` is set to 'Cluster'"
        ]
    );
}

#[test]
fn the_exceptions_of_a_network_policy_lie_in_its_network() {
    let policy = json!({"spec": {"egress": [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8",
        "except": ["10.1.0.0/16", "11.0.0.0/16"]}}], "ports": [{"port": 80, "endPort": 70}]}]}});
    assert_eq!(
        refused(NETWORK, "NetworkPolicy", policy, None),
        [
            "spec.egress[0].ports[0].endPort: Invalid value: 70: must be greater than or equal to `port`",
            "spec.egress[0].to[0].ipBlock.except[1]: Invalid value: \"11.0.0.0/16\": must be a strict subset of `cidr`",
        ]
    );
}

#[test]
fn limits_must_fit_each_other_and_give_defaults() {
    let range = json!({"spec": {"limits": [{"type": "Container", "max": {"cpu": "1"},
        "min": {"cpu": "2"}}]}});
    let made = completed("v1", "LimitRange", range.clone());
    assert_eq!(
        made["spec"]["limits"][0]["defaultRequest"],
        json!({"cpu": "1"})
    );
    let errors = refused("v1", "LimitRange", range, None);
    assert_eq!(
        errors[0],
        "spec.limits[0].min[cpu]: Invalid value: \"2\": min value 2 is greater than max value 1"
    );
    let quota = json!({"spec": {"hard": {"pods": "1500m", "odd": "1"}, "scopes": ["Odd"]}});
    assert_eq!(
        refused("v1", "ResourceQuota", quota, None),
        [
            "spec.hard[odd]: Invalid value: \"odd\": must be a standard resource type or fully qualified",
            "spec.hard[odd]: Invalid value: \"odd\": must be a standard resource for quota",
            "spec.hard[pods]: Invalid value: \"1500m\": must be an integer",
            "spec.scopes: Invalid value: [\"Odd\"]: unsupported scope",
        ]
    );
}

#[test]
fn an_update_of_a_bound_claim_may_only_grow_it() {
    let claim = |size: &str, phase: &str| {
        json!({"spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "a",
            "resources": {"requests": {"storage": size}}},
            "status": {"phase": phase, "capacity": {"storage": "2Gi"}}})
    };
    let errors_of = |new: Value, old: Value| refused("v1", "PersistentVolumeClaim", new, Some(old));
    assert!(errors_of(claim("3Gi", "Bound"), claim("2Gi", "Bound")).is_empty());
    let fixed = "spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
    assert_eq!(
        errors_of(claim("3Gi", "Pending"), claim("2Gi", "Pending")),
        [fixed]
    );
    assert_eq!(
        errors_of(claim("1Gi", "Bound"), claim("3Gi", "Bound")),
        ["spec.resources.requests.storage: Forbidden: field can not be less than status.capacity"]
    );
}

#[test]
fn a_volume_has_one_source() {
    let volume = json!({"spec": {"capacity": {"storage": "1Gi", "cpu": "1"},
        "accessModes": ["ReadWriteOnce", "ReadWriteOncePod"],
        "hostPath": {"path": "/a/../b", "type": "Odd"}, "nfs": {"server": "s", "path": "/"}}});
    assert_eq!(
        refused("v1", "PersistentVolume", volume, None),
        [
            "spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes",
            "spec.capacity: Unsupported value: {\"cpu\":\"1\",\"storage\":\"1Gi\"}: supported values: \"storage\"",
            "spec.hostPath.path: Invalid value: \"/a/../b\": must not contain '..'",
            "spec.hostPath.type: Unsupported value: \"Odd\": supported values: \"\", \"BlockDevice\", \"CharDevice\", \"Directory\", \"DirectoryOrCreate\", \"File\", \"FileOrCreate\", \"Socket\"",
            "spec.nfs: Forbidden: may not specify more than 1 volume type",
        ]
    );
}

#[test]
fn a_storage_class_keeps_its_parameters() {
    let class = |value: &str| json!({"provisioner": "x.io/y", "parameters": {"a": value}});
    assert_eq!(
        refused(STORAGE, "StorageClass", class("1"), Some(class("2"))),
        ["parameters: Invalid value: {\"a\":\"1\"}: field is immutable"]
    );
    let wrong = json!({"provisioner": "", "reclaimPolicy": "Odd"});
    assert_eq!(
        refused(STORAGE, "StorageClass", wrong, None),
        [
            "provisioner: Required value",
            "reclaimPolicy: Unsupported value: \"Odd\": supported values: \"Delete\", \"Retain\"",
        ]
    );
}

#[test]
fn the_path_of_a_webhook_service_has_valid_segments() {
    let hooks = json!({"webhooks": [{"name": "a.b.c", "sideEffects": "None",
        "admissionReviewVersions": ["v1"], "matchConditions": [{"name": "", "expression": " "}],
        "clientConfig": {"service": {"name": "s", "path": "/a//B"}}}]});
    let errors = refused(ADMISSION_V1, "MutatingWebhookConfiguration", hooks, None);
    let at = "webhooks[0].clientConfig.service";
    assert_eq!(errors[0], format!("{at}.name: Required value"));
    assert_eq!(
        errors[1],
        format!("{at}.path: Invalid value: \"/a//B\": segment[1] may not be empty")
    );
    assert!(errors[2].starts_with(&format!(
        "{at}.path: Invalid value: \"/a//B\": segment[2]: a lower"
    )));
    assert_eq!(
        errors[3..],
        [
            "webhooks[0].matchConditions[0].expression: Required value",
            "webhooks[0].matchConditions[0].name: Required value",
        ]
    );
}

#[test]
fn a_policy_needs_rules_and_a_binding_needs_actions() {
    let policy = json!({"spec": {"matchConstraints": {}}});
    let detail = "validations or auditAnnotations must contain at least one item";
    assert_eq!(
        refused(ADMISSION_V1, "ValidatingAdmissionPolicy", policy, None),
        [
            "spec.matchConstraints.resourceRules: Required value".to_owned(),
            format!("spec.validations: Required value: {detail}"),
            format!("spec.auditAnnotations: Required value: {detail}"),
        ]
    );
    let binding = json!({"spec": {"policyName": "p", "paramRef": {}}});
    assert_eq!(
        refused(
            ADMISSION_V1,
            "ValidatingAdmissionPolicyBinding",
            binding,
            None
        ),
        [
            "spec.paramRef: Required value: one of name or selector must be specified",
            "spec.paramRef.parameterNotFoundAction: Required value",
            "spec.validationActions: Required value: at least one validation action is required",
        ]
    );
}

#[test]
fn flow_schemas_and_priority_levels_are_validated() {
    let schema = json!({"metadata": {"name": "a"}, "spec": {"matchingPrecedence": 1, "rules": [
        {"subjects": [{"kind": "User", "group": {"name": "g"}}]}]}});
    assert_eq!(
        refused(FLOW, "FlowSchema", schema, None),
        [
            "spec.matchingPrecedence: Invalid value: 1: only the schema named 'exempt' may have matchingPrecedence 1",
            "spec.priorityLevelConfiguration.name: Required value: must reference a priority level",
            "spec.rules[0].subjects[0].user: Required value: user is required when subject kind is 'User'",
            "spec.rules[0].subjects[0].group: Forbidden: group is forbidden when subject kind is not 'Group'",
            "spec.rules[0]: Required value: at least one of resourceRules and nonResourceRules has to be non-empty",
        ]
    );
    let level = json!({"spec": {"type": "Limited",
        "limited": {"limitResponse": {"type": "Queue", "queuing": {"queues": 4}}}}});
    assert_eq!(
        refused(FLOW, "PriorityLevelConfiguration", level, None),
        [
            "spec.limited.limitResponse.queuing.handSize: Invalid value: 8: should not be greater than queues (4)"
        ]
    );
    // Upstream: `TestPriorityLevelConfigurationValidation`: 100^10 hands are more than 2^60.
    let level = |queuing: Value| {
        let response = json!({"type": "Queue", "queuing": queuing});
        json!({"spec": {"type": "Limited", "limited": {"limitResponse": response}}})
    };
    let errors_of =
        |queuing: Value| refused(FLOW, "PriorityLevelConfiguration", level(queuing), None);
    assert_eq!(errors_of(json!({"queues": 64, "handSize": 10})), [""; 0]);
    assert_eq!(
        errors_of(json!({"queues": 100, "handSize": 10})),
        [
            "spec.limited.limitResponse.queuing.handSize: Invalid value: 10: required entropy bits of deckSize 100 and handSize 10 should not be greater than 60"
        ]
    );
}

#[test]
fn signing_requests_and_api_services_are_validated() {
    let request = json!({"spec": {"request": "eA==", "usages": ["odd"], "signerName": "x"}});
    let errors = refused(
        "certificates.k8s.io/v1", "CertificateSigningRequest", request, None,
    );
    assert_eq!(
        errors[0],
        "spec.request: Invalid value: \"eA==\": PEM block type must be CERTIFICATE REQUEST"
    );
    assert!(errors[1].starts_with("spec.usages[0]: Unsupported value: \"odd\""));
    assert!(errors[2].starts_with("spec.signerName: Invalid value: \"x\": must be a fully"));
    let service = json!({"metadata": {"name": "x"}, "spec": {"group": "g.io", "version": "v1",
        "groupPriorityMinimum": 1, "versionPriority": 1}});
    assert_eq!(
        refused("apiregistration.k8s.io/v1", "APIService", service, None),
        [
            "metadata.name: Invalid value: \"x\": must be `spec.version+\".\"+spec.group`: \"v1.g.io\""
        ]
    );
}

#[test]
fn the_assigned_fields_of_a_node_are_immutable() {
    let node =
        |cidr: &str, provider: &str| json!({"spec": {"podCIDR": cidr, "providerID": provider}});
    assert!(refused("v1", "Node", node("10.0.0.0/24", "a"), Some(json!({}))).is_empty());
    assert_eq!(
        refused(
            "v1",
            "Node",
            node("10.0.1.0/24", "b"),
            Some(node("10.0.0.0/24", "a"))
        ),
        [
            "spec.podCIDRs: Forbidden: node updates may not change podCIDR except from \"\" to valid",
            "spec.providerID: Forbidden: node updates may not change providerID except from \"\" to valid",
        ]
    );
    let tainted = json!({"spec": {"taints": [{"key": "a", "effect": "NoSchedule"},
        {"key": "a", "effect": "NoSchedule"}, {"key": "b", "effect": ""}]}});
    assert_eq!(
        refused("v1", "Node", tainted, None),
        [
            "metadata.taints[1]: Duplicate value: {\"Key\":\"a\",\"Value\":\"\",\"Effect\":\"NoSchedule\",\"TimeAdded\":null}: taints must be unique by key and effect pair",
            "metadata.taints[2].effect: Required value",
        ]
    );
}

mod autoscalers;
mod error_texts;
mod full_objects;
mod volumes;
mod cells;
mod fixed;
mod warnings;

#[test]
fn conditions_of_a_status_write_are_validated() {
    let good = json!({"type": "a/Ready", "status": "True", "reason": "A,b:c_",
        "lastTransitionTime": "2026-01-01T00:00:00Z", "message": ""});
    let bad = json!({"type": "a/Ready", "status": "true", "reason": "1", "observedGeneration": -1,
        "message": "m".repeat(32 * 1024 + 1)});
    for (version, kind) in [
        (ADMISSION_V1, "ValidatingAdmissionPolicy"),
        ("policy/v1", "PodDisruptionBudget"),
    ] {
        let rules = of(&resource(version, kind)).unwrap();
        let check = |conditions: Value| -> Vec<String> {
            let object = json!({"status": {"conditions": conditions}});
            let errors = validate_status(rules, &object, &json!({})).into_iter();
            errors
                .map(|error| format!("{}: {}", error.field, error.message))
                .collect()
        };
        assert!(check(json!([good])).is_empty(), "{kind}");
        let found = check(json!([good, bad]));
        for (found, expected) in found.iter().zip([
            "status.conditions[1].type: Duplicate value: \"a/Ready\"",
            "status.conditions[1].status: Unsupported value: \"true\": supported values: \"False\", \"True\", \"Unknown\"",
            "status.conditions[1].observedGeneration: Invalid value: -1: must be greater than or equal to zero",
            "status.conditions[1].lastTransitionTime: Required value: must be set",
            "status.conditions[1].reason: Invalid value: \"1\": a condition reason must start with",
            "status.conditions[1].message: Too long: may not be more than 32768 bytes",
        ]) {
            assert!(found.starts_with(expected), "{found}");
        }
        assert_eq!(found.len(), 6, "{found:?}");
    }
    let rules = of(&resource(ADMISSION_V1, "ValidatingAdmissionPolicy")).unwrap();
    let status =
        json!({"status": {"typeChecking": {"expressionWarnings": [{"fieldRef": "spec"}]}}});
    let errors = validate_status(rules, &status, &json!({}));
    assert_eq!(
        errors[0].field,
        "status.typeChecking.expressionWarnings[0].warning"
    );
}
