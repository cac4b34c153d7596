//! Words: the rule that names of each built-in kind obey, with its source.

use steersman_apimachinery::names::NameRule;
use steersman_apimachinery::names::NameRule::{IpAddress, Label, PathSegment, Subdomain};

/// Group (empty for core), kind and rule of each kind that is kept. The source is a function below
/// `pkg/apis/<group>/validation` of Kubernetes, unless it is given with its path; `generateName` is
/// checked by the same function. Where upstream has no rule, `rest.BeforeCreate` wants a path
/// segment.
const TABLE: &[(&str, &str, NameRule)] = &[
    // core: ValidateConfigMapName.
    ("", "ConfigMap", Subdomain),
    // core: ValidateEndpointsName.
    ("", "Endpoints", Subdomain),
    // core/validation/events.go: ValidateEventCreate does not check names of core/v1.
    ("", "Event", PathSegment),
    // core: ValidateLimitRangeName.
    ("", "LimitRange", Subdomain),
    // core: ValidateNamespaceName.
    ("", "Namespace", Label),
    // core: ValidateNodeName.
    ("", "Node", Subdomain),
    // core: ValidatePersistentVolumeName.
    ("", "PersistentVolume", Subdomain),
    // core: ValidatePersistentVolumeName.
    ("", "PersistentVolumeClaim", Subdomain),
    // core: ValidatePodName.
    ("", "Pod", Subdomain),
    // core: ValidatePodName.
    ("", "PodTemplate", Subdomain),
    // core: ValidateReplicationControllerName.
    ("", "ReplicationController", Subdomain),
    // core: ValidateResourceQuotaName.
    ("", "ResourceQuota", Subdomain),
    // core: ValidateSecretName.
    ("", "Secret", Subdomain),
    // core: ValidateServiceName with RelaxedServiceNameValidation, on since 1.36.
    ("", "Service", Label),
    // core: ValidateServiceAccountName.
    ("", "ServiceAccount", Subdomain),
    // kube-aggregator/pkg/apis/apiregistration/validation: and "version.group".
    ("apiregistration.k8s.io", "APIService", PathSegment),
    // apps: ValidateControllerRevisionName.
    ("apps", "ControllerRevision", Subdomain),
    // apps: ValidateDaemonSetName.
    ("apps", "DaemonSet", Subdomain),
    // apps: ValidateDeploymentName.
    ("apps", "Deployment", Subdomain),
    // apps: ValidateReplicaSetName.
    ("apps", "ReplicaSet", Subdomain),
    // apps: ValidateStatefulSetName.
    ("apps", "StatefulSet", Label),
    // core/validation/events.go: ValidateEventCreate.
    ("events.k8s.io", "Event", Subdomain),
    // autoscaling: ValidateHorizontalPodAutoscalerName.
    ("autoscaling", "HorizontalPodAutoscaler", Subdomain),
    // batch: ValidateReplicationControllerName, and at most 52 characters.
    ("batch", "CronJob", Subdomain),
    // batch: ValidateReplicationControllerName.
    ("batch", "Job", Subdomain),
    // certificates: ValidateCertificateRequestName accepts every name.
    (
        "certificates.k8s.io",
        "CertificateSigningRequest",
        PathSegment,
    ),
    // networking: ValidateIPAddressName.
    ("networking.k8s.io", "IPAddress", IpAddress),
    // networking: ValidateIngressName.
    ("networking.k8s.io", "Ingress", Subdomain),
    // networking: ValidateIngressClassName.
    ("networking.k8s.io", "IngressClass", Subdomain),
    // networking: ValidateNetworkPolicyName.
    ("networking.k8s.io", "NetworkPolicy", Subdomain),
    // networking: ValidateServiceCIDRName.
    ("networking.k8s.io", "ServiceCIDR", Subdomain),
    // policy: ValidatePodDisruptionBudget checks only the spec.
    ("policy", "PodDisruptionBudget", PathSegment),
    // rbac: ValidateRBACName.
    ("rbac.authorization.k8s.io", "ClusterRole", PathSegment),
    // rbac: ValidateRBACName.
    (
        "rbac.authorization.k8s.io",
        "ClusterRoleBinding",
        PathSegment,
    ),
    // rbac: ValidateRBACName.
    ("rbac.authorization.k8s.io", "Role", PathSegment),
    // rbac: ValidateRBACName.
    ("rbac.authorization.k8s.io", "RoleBinding", PathSegment),
    // storage: ValidateCSIDriver has a rule of its own, and reports the field "name".
    ("storage.k8s.io", "CSIDriver", PathSegment),
    // storage: ValidateNodeName.
    ("storage.k8s.io", "CSINode", Subdomain),
    // storage: ValidateCSIStorageCapacityName.
    ("storage.k8s.io", "CSIStorageCapacity", Subdomain),
    // storage: ValidateClassName.
    ("storage.k8s.io", "StorageClass", Subdomain),
    // storage: ValidateClassName.
    ("storage.k8s.io", "VolumeAttachment", Subdomain),
    // storage: ValidateClassName.
    ("storage.k8s.io", "VolumeAttributesClass", Subdomain),
    // admissionregistration: NameIsDNSSubdomain.
    (
        "admissionregistration.k8s.io",
        "MutatingAdmissionPolicy",
        Subdomain,
    ),
    // admissionregistration: NameIsDNSSubdomain.
    (
        "admissionregistration.k8s.io",
        "MutatingAdmissionPolicyBinding",
        Subdomain,
    ),
    // admissionregistration: NameIsDNSSubdomain.
    (
        "admissionregistration.k8s.io",
        "MutatingWebhookConfiguration",
        Subdomain,
    ),
    // admissionregistration: NameIsDNSSubdomain.
    (
        "admissionregistration.k8s.io",
        "ValidatingAdmissionPolicy",
        Subdomain,
    ),
    // admissionregistration: NameIsDNSSubdomain.
    (
        "admissionregistration.k8s.io",
        "ValidatingAdmissionPolicyBinding",
        Subdomain,
    ),
    // admissionregistration: NameIsDNSSubdomain.
    (
        "admissionregistration.k8s.io",
        "ValidatingWebhookConfiguration",
        Subdomain,
    ),
    // apiextensions: NameIsDNSSubdomain, and "plural.group".
    (
        "apiextensions.k8s.io",
        "CustomResourceDefinition",
        Subdomain,
    ),
    // scheduling: NameIsDNSSubdomain.
    ("scheduling.k8s.io", "PriorityClass", Subdomain),
    // coordination: NameIsDNSSubdomain.
    ("coordination.k8s.io", "Lease", Subdomain),
    // node: NameIsDNSSubdomain.
    ("node.k8s.io", "RuntimeClass", Subdomain),
    // discovery: ValidateEndpointSliceName.
    ("discovery.k8s.io", "EndpointSlice", Subdomain),
    // flowcontrol: ValidateFlowSchemaName.
    ("flowcontrol.apiserver.k8s.io", "FlowSchema", Subdomain),
    // flowcontrol: ValidatePriorityLevelConfigurationName.
    (
        "flowcontrol.apiserver.k8s.io",
        "PriorityLevelConfiguration",
        Subdomain,
    ),
    // resource: ValidateClassName.
    ("resource.k8s.io", "DeviceClass", Subdomain),
    // resource: ValidateResourceClaimName.
    ("resource.k8s.io", "ResourceClaim", Subdomain),
    // resource: ValidateResourceClaimTemplateName.
    ("resource.k8s.io", "ResourceClaimTemplate", Subdomain),
    // resource: NameIsDNSSubdomain.
    ("resource.k8s.io", "ResourceSlice", Subdomain),
    // storagemigration: NameIsDNSSubdomain.
    (
        "storagemigration.k8s.io",
        "StorageVersionMigration",
        Subdomain,
    ),
];

/// Returns the name rule of a built-in kind. Kinds without stored objects have the rule of
/// `rest.BeforeCreate`.
pub(crate) fn name_rule(group: &str, kind: &str) -> NameRule {
    let mut rows = TABLE.iter();
    let row = rows.find(|(of, name, _)| (*of, *name) == (group, kind));
    row.map_or(PathSegment, |(_, _, rule)| *rule)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin::built_in;
    use steersman_apimachinery::names;

    /// Returns whether objects of a core kind are created but not kept, or not created at all.
    fn is_nameless(kind: &str) -> bool {
        matches!(kind, "Binding" | "ComponentStatus") || kind.ends_with("Review")
    }

    #[test]
    fn every_stored_kind_has_one_row_and_every_row_has_a_kind() {
        let all = built_in();
        for (group, kind, _) in TABLE {
            let rows = TABLE.iter().filter(|row| (row.0, row.1) == (group, kind));
            assert_eq!(rows.count(), 1, "{group} {kind}");
            assert!(
                all.iter()
                    .any(|one| one.group == *group && one.kind == *kind),
                "{group} {kind}"
            );
        }
        for resource in &all {
            let nameless = is_nameless(&resource.kind);
            let mut rows = TABLE.iter();
            let row = rows.find(|row| (row.0, row.1) == (&resource.group, &resource.kind));
            assert_eq!(
                row.is_some(),
                !nameless,
                "{} {}",
                resource.group,
                resource.kind
            );
            assert_eq!(resource.names, row.map_or(PathSegment, |row| row.2));
        }
    }

    /// A text, the rules that accept it as a name, and the rules that accept it as a prefix.
    type Case<'a> = (&'a str, &'a [NameRule], &'a [NameRule]);

    #[test]
    fn each_rule_accepts_its_names_and_prefixes() {
        let long = "a".repeat(64);
        let cases: [Case<'_>; 10] = [
            (
                "shop",
                &[Subdomain, Label, PathSegment],
                &[Subdomain, Label, PathSegment],
            ),
            ("shop-", &[PathSegment], &[Subdomain, Label, PathSegment]),
            ("shop.", &[PathSegment], &[PathSegment]),
            (
                "shop.a",
                &[Subdomain, PathSegment],
                &[Subdomain, PathSegment],
            ),
            ("Shop_1", &[PathSegment], &[PathSegment]),
            (&long, &[Subdomain, PathSegment], &[Subdomain, PathSegment]),
            ("a%b", &[], &[]),
            ("..", &[], &[PathSegment]),
            (
                "2001:db8::1",
                &[PathSegment, IpAddress],
                &[PathSegment, IpAddress],
            ),
            (
                "10.0.0.1",
                &[Subdomain, PathSegment, IpAddress],
                &[Subdomain, PathSegment, IpAddress],
            ),
        ];
        for (name, good, good_prefix) in cases {
            for rule in [Subdomain, Label, PathSegment, IpAddress] {
                let wrong = names::check_name(rule, name);
                assert_eq!(
                    wrong.is_empty(),
                    good.contains(&rule),
                    "{rule:?} {name}: {wrong:?}"
                );
                let wrong = names::check_prefix(rule, name);
                let is_good = good_prefix.contains(&rule);
                assert_eq!(wrong.is_empty(), is_good, "{rule:?} {name}: {wrong:?}");
            }
        }
    }

    #[test]
    fn only_canonical_addresses_are_valid_names() {
        let message = |name: &str| names::check_name(IpAddress, name).join("");
        let invalid = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
        assert_eq!(message("shop"), invalid);
        assert_eq!(message("10.0.0.256"), invalid);
        assert_eq!(message("010.0.0.1"), "must not have leading 0s");
        assert_eq!(
            message("::ffff:10.0.0.1"),
            "must not be an IPv4-mapped IPv6 address"
        );
        assert_eq!(
            message("2001:DB8::1"),
            "must be in canonical form (\"2001:db8::1\")"
        );
    }
}
