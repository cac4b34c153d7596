//! Words: the names of types in messages: those of Go, and those of JSON.

use serde_json::Value;

use super::Scalar;
use super::table::TypeNode;

/// Fields with times in microseconds.
pub(super) const MICRO_TIMES: &[&str] = &[
    "acquireTime", "eventTime", "lastObservedTime", "pingTime", "renewTime",
];

/// Returns the Go type of a string with a type of its own.
fn named(owner: &str, field: &str) -> Option<&'static str> {
    Some(match (owner, field) {
        (_, "accessModes") => "[]v1.PersistentVolumeAccessMode",
        (_, "completionMode") => "v1.CompletionMode",
        (_, "concurrencyPolicy") => "v1.ConcurrencyPolicy",
        (_, "dnsPolicy") => "v1.DNSPolicy",
        (_, "effect") => "v1.TaintEffect",
        (_, "externalTrafficPolicy") => "v1.ServiceExternalTrafficPolicy",
        (_, "failurePolicy") => "v1.FailurePolicyType",
        (_, "fsGroupChangePolicy") => "v1.PodFSGroupChangePolicy",
        (_, "imagePullPolicy") => "v1.PullPolicy",
        (_, "internalTrafficPolicy") => "v1.ServiceInternalTrafficPolicy",
        (_, "ipFamilies") => "[]v1.IPFamily",
        (_, "ipFamilyPolicy") => "v1.IPFamilyPolicy",
        (_, "matchPolicy") => "v1.MatchPolicyType",
        (_, "medium") => "v1.StorageMedium",
        (_, "mountPropagation") => "v1.MountPropagationMode",
        (_, "nodeAffinityPolicy" | "nodeTaintsPolicy") => "v1.NodeInclusionPolicy",
        (_, "pathType") => "v1.PathType",
        (_, "persistentVolumeReclaimPolicy" | "reclaimPolicy") => {
            "v1.PersistentVolumeReclaimPolicy"
        }
        (_, "podManagementPolicy") => "v1.PodManagementPolicyType",
        (_, "podReplacementPolicy") => "v1.PodReplacementPolicy",
        (_, "policyTypes") => "[]v1.PolicyType",
        (_, "preemptionPolicy") => "v1.PreemptionPolicy",
        (_, "procMount") => "v1.ProcMountType",
        (_, "protocol") => "v1.Protocol",
        (_, "recursiveReadOnly") => "v1.RecursiveReadOnlyMode",
        (_, "scheme") => "v1.URIScheme",
        (_, "sessionAffinity") => "v1.ServiceAffinity",
        (_, "sideEffects") => "v1.SideEffectClass",
        (_, "supplementalGroupsPolicy") => "v1.SupplementalGroupsPolicy",
        (_, "terminationMessagePolicy") => "v1.TerminationMessagePolicy",
        (_, "uid") => "types.UID",
        (_, "unhealthyPodEvictionPolicy") => "v1.UnhealthyPodEvictionPolicyType",
        (_, "volumeBindingMode") => "v1.VolumeBindingMode",
        (_, "volumeMode") => "v1.PersistentVolumeMode",
        (_, "whenDeleted" | "whenScaled") => "v1.PersistentVolumeClaimRetentionPolicyType",
        (_, "whenUnsatisfiable") => "v1.UnsatisfiableConstraintAction",
        ("AppArmorProfile", "type") => "v1.AppArmorProfileType",
        ("Capabilities", "add" | "drop") => "[]v1.Capability",
        ("Container", "restartPolicy") => "v1.ContainerRestartPolicy",
        ("CustomResourceConversion", "strategy") => "v1.ConversionStrategyType",
        ("CustomResourceDefinitionSpec", "scope") => "v1.ResourceScope",
        ("DaemonSetUpdateStrategy", "type") => "v1.DaemonSetUpdateStrategyType",
        ("DeploymentStrategy", "type") => "v1.DeploymentStrategyType",
        ("EndpointSlice", "addressType") => "v1.AddressType",
        ("EphemeralContainer", "restartPolicy") => "v1.ContainerRestartPolicy",
        ("HostPathVolumeSource", "type") => "v1.HostPathType",
        ("JSONSchemaProps", "$schema") => "v1.JSONSchemaURL",
        ("JSONSchemaProps", "enum") => "[]v1.JSON",
        ("JSONSchemaProps", "x-kubernetes-validations") => "v1.ValidationRules",
        ("LabelSelectorRequirement", "operator") => "v1.LabelSelectorOperator",
        ("LimitRangeItem", "type") => "v1.LimitType",
        ("MetricSpec", "type") => "v2.MetricSourceType",
        ("NamespaceSpec", "finalizers") => "[]v1.FinalizerName",
        ("NamespaceStatus", "phase") => "v1.NamespacePhase",
        ("NodeSelectorRequirement", "operator") => "v1.NodeSelectorOperator",
        ("PersistentVolumeClaimStatus", "phase") => "v1.PersistentVolumeClaimPhase",
        ("PersistentVolumeStatus", "phase") => "v1.PersistentVolumePhase",
        ("PodFailurePolicyRule", "action") => "v1.PodFailurePolicyAction",
        ("PodSpec", "restartPolicy") => "v1.RestartPolicy",
        ("PodStatus", "phase") => "v1.PodPhase",
        ("PodStatus", "qosClass") => "v1.PodQOSClass",
        ("SeccompProfile", "type") => "v1.SeccompProfileType",
        ("Secret", "type") => "v1.SecretType",
        ("ServiceSpec", "type") => "v1.ServiceType",
        ("StatefulSetUpdateStrategy", "type") => "v1.StatefulSetUpdateStrategyType",
        ("Toleration", "operator") => "v1.TolerationOperator",
        _ => return None,
    })
}

/// Returns the Go type of a field, or of the elements of its list or map.
pub(super) fn type_of(node: &TypeNode, owner: &str, field: &str) -> String {
    match (named(owner, field), node) {
        (Some(named), TypeNode::List { .. }) => named.to_owned(),
        (Some(named), TypeNode::Scalar(Scalar::String)) => {
            named.trim_start_matches("[]").to_owned()
        }
        _ => plain(node),
    }
}

fn plain(node: &TypeNode) -> String {
    match node {
        TypeNode::Any => "interface {}".to_owned(),
        TypeNode::Int32 => "int32".to_owned(),
        TypeNode::Scalar(scalar) => match scalar {
            Scalar::String | Scalar::Time => "string",
            Scalar::Integer => "int64",
            Scalar::Number => "float64",
            Scalar::Boolean => "bool",
            Scalar::Bytes => "[]uint8",
            Scalar::Quantity => "resource.Quantity",
            Scalar::IntOrString => "int32",
        }
        .to_owned(),
        TypeNode::Ref(named) => {
            let mut parts = named.name.rsplit('.');
            let name = parts.next().unwrap_or_default();
            format!("{}.{name}", parts.next().unwrap_or_default())
        }
        TypeNode::List { items, .. } => format!("[]{}", plain(items)),
        TypeNode::Map { values, .. } => match &**values {
            TypeNode::Scalar(Scalar::Quantity) => "v1.ResourceList".to_owned(),
            values => format!("map[string]{}", plain(values)),
        },
    }
}

/// Returns the name of the JSON type of a value in the messages of Go's decoder.
pub fn type_word(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Returns the name of the JSON type of a value in the messages of schemas.
#[must_use]
pub fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(n) if n.is_i64() || n.is_u64() => "integer",
        Value::Number(n) if n.as_f64().is_some_and(|n| n.fract() == 0.0) => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
