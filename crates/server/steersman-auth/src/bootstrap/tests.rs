//! Tests of the bootstrap policy.

use super::*;
use crate::{Attributes, Rule};

fn role_of<'a>(
    all: &'a [BootstrapObject],
    binding: &BootstrapObject,
) -> Option<&'a BootstrapObject> {
    let reference = &binding.value["roleRef"];
    let plural = if reference["kind"] == "Role" {
        "roles"
    } else {
        "clusterroles"
    };
    all.iter().find(|role| {
        role.plural == plural
            && role.namespace == binding.namespace
            && reference["name"] == role.name
    })
}

#[test]
fn every_default_binding_has_its_role_and_every_rule_is_complete() {
    let all: Vec<BootstrapObject> = objects().collect();
    let count = |plural: &str| all.iter().filter(|object| object.plural == plural).count();
    assert_eq!(
        (count("clusterroles"), count("clusterrolebindings")),
        (70, 51)
    );
    assert_eq!((count("roles"), count("rolebindings")), (7, 7));
    for object in &all {
        let name = &object.name;
        if object.plural.ends_with("bindings") {
            assert!(role_of(&all, object).is_some(), "{name}");
            continue;
        }
        let rules = object.value["rules"].as_array();
        assert!(
            rules.is_some_and(|rules| !rules.is_empty())
                != object.value.get("aggregationRule").is_some(),
            "{name} has either rules or gathers them"
        );
        for rule in rules.into_iter().flatten() {
            let whole = |field: &str| rule[field].as_array().is_some_and(|l| !l.is_empty());
            let paths = whole("nonResourceURLs");
            assert!(whole("verbs") && (paths || whole("apiGroups") && whole("resources")));
        }
    }
}

/// The names of the clients of kube-controller-manager's controllers, each with a request that the controller needs.
const CONTROLLERS: [(&str, &str); 39] = [
    (
        "attachdetach-controller",
        "create storage.k8s.io volumeattachments",
    ),
    (
        "certificate-controller",
        "update certificates.k8s.io certificatesigningrequests/status",
    ),
    (
        "clusterrole-aggregation-controller",
        "escalate rbac.authorization.k8s.io clusterroles",
    ),
    ("cronjob-controller", "create batch jobs"),
    ("daemon-set-controller", "create core pods"),
    ("deployment-controller", "create apps replicasets"),
    ("device-taint-eviction-controller", "delete core pods"),
    ("disruption-controller", "get apps deployments/scale"),
    ("endpoint-controller", "create core endpoints"),
    (
        "endpointslice-controller",
        "create discovery.k8s.io endpointslices",
    ),
    (
        "endpointslicemirroring-controller",
        "update core endpoints/finalizers",
    ),
    (
        "ephemeral-volume-controller",
        "create core persistentvolumeclaims",
    ),
    (
        "expand-controller",
        "patch core persistentvolumeclaims/status",
    ),
    ("generic-garbage-collector", "delete example.com things"),
    ("horizontal-pod-autoscaler", "update apps deployments/scale"),
    ("job-controller", "update batch jobs/finalizers"),
    (
        "legacy-service-account-token-cleaner",
        "delete core secrets",
    ),
    (
        "namespace-controller",
        "deletecollection example.com things",
    ),
    ("node-controller", "patch core nodes/status"),
    ("persistent-volume-binder", "update core persistentvolumes"),
    ("pod-garbage-collector", "patch core pods/status"),
    ("pv-protection-controller", "update core persistentvolumes"),
    (
        "pvc-protection-controller",
        "update core persistentvolumeclaims",
    ),
    ("replicaset-controller", "patch core pods"),
    (
        "replication-controller",
        "update core replicationcontrollers/status",
    ),
    (
        "resource-claim-controller",
        "patch resource.k8s.io resourceclaims/binding",
    ),
    (
        "resourcequota-controller",
        "update core resourcequotas/status",
    ),
    ("root-ca-cert-publisher", "create core configmaps"),
    ("route-controller", "patch core nodes/status"),
    (
        "selinux-warning-controller",
        "watch storage.k8s.io csidrivers",
    ),
    ("service-account-controller", "create core serviceaccounts"),
    (
        "service-cidrs-controller",
        "update networking.k8s.io servicecidrs/finalizers",
    ),
    ("service-controller", "patch core services/status"),
    (
        "statefulset-controller",
        "create core persistentvolumeclaims",
    ),
    (
        "storage-version-migrator-controller",
        "patch example.com things",
    ),
    ("ttl-after-finished-controller", "delete batch jobs"),
    ("ttl-controller", "patch core nodes"),
    (
        "validatingadmissionpolicy-status-controller",
        "update admissionregistration.k8s.io validatingadmissionpolicies/status",
    ),
    (
        "volumeattributesclass-protection-controller",
        "update storage.k8s.io volumeattributesclasses",
    ),
];

/// Returns whether a role allows a request such as `VERB GROUP RESOURCE`.
fn allows(role: &Value, request: &str) -> bool {
    let words: Vec<&str> = request.split(' ').collect();
    let [verb, group, full] = words.as_slice() else {
        panic!("{request}");
    };
    let group = if *group == "core" { "" } else { group };
    let (resource, subresource) = full.split_once('/').unwrap_or((full, ""));
    let mut asked = Attributes::of(verb, group, resource, "x");
    subresource.clone_into(&mut asked.subresource);
    Rule::all(role).any(|rule| rule.allows(&asked))
}

#[test]
fn the_service_account_of_every_controller_is_bound_to_its_rules() {
    let all: Vec<BootstrapObject> = objects().collect();
    for (name, request) in CONTROLLERS {
        let bound = all.iter().find(|binding| {
            binding.plural == "clusterrolebindings"
                && binding.value["subjects"]
                    == json!([{"kind": "ServiceAccount", "name": name, "namespace": "kube-system"}])
        });
        let bound = bound.unwrap_or_else(|| panic!("{name} is not bound"));
        let role = role_of(&all, bound).unwrap();
        assert_eq!(role.name, format!("system:controller:{name}"));
        assert!(allows(&role.value, request), "{name} may not {request}");
        assert!(!allows(&role.value, "impersonate core users"), "{name}");
    }
    let roles = all.iter().filter(|object| object.plural == "clusterroles");
    let controllers = roles
        .filter(|role| role.name.starts_with(CONTROLLER))
        .count();
    assert_eq!(controllers, CONTROLLERS.len());
}

/// Features that are on by default in Kubernetes 1.36 added rules to default roles.
#[test]
fn default_roles_allow_the_requests_of_later_features() {
    let all: Vec<BootstrapObject> = objects().collect();
    let role = |name: &str| &all.iter().find(|one| one.name == name).unwrap().value;
    let scheduler = "system:kube-scheduler";
    for (name, request) in [
        (
            "system:aggregate-to-edit",
            "create resource.k8s.io resourceclaims",
        ),
        ("system:aggregate-to-edit", "create events.k8s.io events"),
        (
            "system:aggregate-to-view",
            "list resource.k8s.io resourceclaimtemplates",
        ),
        ("system:aggregate-to-view", "list events.k8s.io events"),
        (scheduler, "watch resource.k8s.io deviceclasses"),
        (scheduler, "update resource.k8s.io resourceclaims"),
        (scheduler, "create resource.k8s.io resourceclaims"),
        (scheduler, "patch resource.k8s.io resourceclaims/status"),
        (scheduler, "patch resource.k8s.io resourceclaims/binding"),
        (scheduler, "update core pods/finalizers"),
        (scheduler, "list resource.k8s.io resourceslices"),
        (scheduler, "list storage.k8s.io volumeattachments"),
        (
            scheduler,
            "deletecollection coordination.k8s.io leasecandidates",
        ),
        ("system:node", "get resource.k8s.io resourceclaims"),
        (
            "system:node",
            "deletecollection resource.k8s.io resourceslices",
        ),
        ("system:node", "get core serviceaccounts"),
        ("system:node", "patch events.k8s.io events"),
        ("system:kubelet-api-admin", "proxy core nodes/healthz"),
        ("system:monitoring", "get core nodes/metrics"),
    ] {
        assert!(allows(role(name), request), "{name} {request}");
    }
    for (name, request) in [
        ("system:node", "delete resource.k8s.io resourceclaims"),
        (scheduler, "patch core pods/finalizers"),
        ("system:monitoring", "list core nodes/metrics"),
    ] {
        assert!(!allows(role(name), request), "{name} {request}");
    }
    for path in ["/statusz", "/flagz"] {
        let asked = Attributes {
            verb: "get".to_owned(),
            path: Some(path.to_owned()),
            ..Attributes::default()
        };
        assert!(Rule::all(role("system:monitoring")).any(|rule| rule.allows(&asked)));
    }
}

#[test]
fn roles_of_namespaces_are_bound_to_the_control_plane() {
    let all: Vec<BootstrapObject> = objects().collect();
    let bindings: Vec<String> = all
        .iter()
        .filter(|object| object.plural == "rolebindings")
        .map(|binding| {
            let subjects = binding.value["subjects"].as_array().unwrap();
            let subjects: Vec<&str> = subjects
                .iter()
                .map(|s| s["name"].as_str().unwrap())
                .collect();
            let role = binding.value["roleRef"]["name"].as_str().unwrap();
            format!("{} {role}: {}", binding.namespace, subjects.join(" "))
        })
        .collect();
    let control_plane = "system:kube-controller-manager system:kube-scheduler";
    assert_eq!(
        bindings[1],
        format!("kube-system extension-apiserver-authentication-reader: {control_plane}")
    );
    assert_eq!(
        bindings[0],
        "kube-public system:controller:bootstrap-signer: bootstrap-signer"
    );
}
