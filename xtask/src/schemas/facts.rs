//! What the sources of `k8s-openapi` do not hold: facts of Kubernetes' Go types, by hand.
//!
//! Their merge code knows one key for a list, the one of strategic merges where there is one, and
//! no structs that are owned as a whole. The differences stand here. Sources: the markers
//! `+structType`, `+listType`, `+listMapKey` and `+default` and the tags `patchStrategy` and
//! `patchMergeKey` in `types.go` of `k8s.io/api`, `k8s.io/apimachinery` and
//! `k8s.io/apiextensions-apiserver`, for Kubernetes 1.36.

/// Structs that have one owner as a whole: `+structType=atomic`.
pub(super) const ATOMIC: &[&str] = &[
    "admissionregistration.v1.MatchResources",
    "admissionregistration.v1.NamedRuleWithOperations",
    "admissionregistration.v1.ParamKind",
    "admissionregistration.v1.ParamRef",
    "admissionregistration.v1.Variable",
    "autoscaling.v1.CrossVersionObjectReference",
    "core.v1.ConfigMapKeySelector",
    "core.v1.EndpointAddress",
    "core.v1.EndpointPort",
    "core.v1.FileKeySelector",
    "core.v1.LocalObjectReference",
    "core.v1.NodeSelector",
    "core.v1.NodeSelectorTerm",
    "core.v1.ObjectFieldSelector",
    "core.v1.ObjectReference",
    "core.v1.ResourceFieldSelector",
    "core.v1.ScopeSelector",
    "core.v1.SecretKeySelector",
    "core.v1.SecretReference",
    "core.v1.TopologySelectorTerm",
    "core.v1.TypedLocalObjectReference",
    "discovery.v1.EndpointPort",
    "meta.v1.LabelSelector",
    "meta.v1.OwnerReference",
    "networking.v1.ServiceBackendPort",
    "rbac.v1.RoleRef",
    "rbac.v1.Subject",
];

/// Lists whose rules differ from what the merge code says: the type, the field's JSON name, and
/// what stands in the list's brackets.
pub(super) const LISTS: &[(&str, &str, &str)] = &[
    // listType=map without a patchStrategy: strategic merges replace them.
    (
        "apiextensions.v1.CustomResourceDefinitionStatus",
        "conditions",
        "map:type|replace",
    ),
    (
        "certificates.v1.CertificateSigningRequestStatus",
        "conditions",
        "map:type|replace",
    ),
    ("core.v1.ResourceRequirements", "claims", "map:name|replace"),
    (
        "core.v1.ResourceStatus",
        "resources",
        "map:resourceID|replace",
    ),
    (
        "resource.v1.AllocatedDeviceStatus",
        "conditions",
        "map:type|replace",
    ),
    // listType=atomic with a patchMergeKey: two writers share nothing, a patch merges.
    ("batch.v1.JobStatus", "conditions", "|by:type"),
    ("core.v1.PodStatus", "hostIPs", "|by:ip"),
    // Two listMapKeys, one patchMergeKey.
    (
        "core.v1.Container",
        "ports",
        "map:containerPort,protocol=TCP|by:containerPort",
    ),
    (
        "core.v1.EphemeralContainer",
        "ports",
        "map:containerPort,protocol=TCP|by:containerPort",
    ),
    (
        "core.v1.PodSpec",
        "topologySpreadConstraints",
        "map:topologyKey,whenUnsatisfiable|by:topologyKey",
    ),
    (
        "core.v1.ServiceSpec",
        "ports",
        "map:port,protocol=TCP|by:port",
    ),
    // patchStrategy=merge on single values.
    ("core.v1.NodeSpec", "podCIDRs", "set|union"),
    ("meta.v1.ObjectMeta", "finalizers", "set|union"),
    // listType=atomic; the merge code goes by name all the same.
    ("apps.v1.StatefulSetSpec", "volumeClaimTemplates", ""),
];

/// Types whose JSON is not what their structs in Rust look like.
pub(super) const SCALARS: &[(&str, &str)] = &[
    ("io.k8s.apimachinery.pkg.api.resource.Quantity", "quantity"),
    ("io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime", "time"),
    ("io.k8s.apimachinery.pkg.apis.meta.v1.Time", "time"),
    (
        "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
        "intOrString",
    ),
];
