//! Facts about Kubernetes' Go types that the sources of `k8s-openapi` do not hold, written by hand.
//!
//! The merge code of `k8s-openapi` has one key per list (that of strategic merge patches, if there is one) and no
//! atomic structs. This file lists the differences. Sources: the markers `+structType`, `+listType`, `+listMapKey` and
//! `+default` and the tags `patchStrategy` and `patchMergeKey` in `types.go` of `k8s.io/api`, `k8s.io/apimachinery` and
//! `k8s.io/apiextensions-apiserver`, for Kubernetes 1.36.

/// Group versions that clusters do not serve by default and that an option of the server enables.
pub(super) const ENABLED: &[&str] = &["storagemigration.k8s.io/v1beta1"];

/// Structs with one owner for all fields: `+structType=atomic`.
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

/// Fields with one owner for each member although their type has one owner: `+structType=granular`.
pub(super) const GRANULAR: &[&str] = &["core.v1.PersistentVolumeSpec.claimRef"];

/// Lists with other rules than the merge code has: the type with the JSON name of the field, and the content of the
/// brackets in the table.
pub(super) const LISTS: &[(&str, &str)] = &[
    // listType=map without a patchStrategy: strategic merge patches replace these lists.
    (
        "apiextensions.v1.CustomResourceDefinitionStatus.conditions",
        "map:type|replace",
    ),
    (
        "certificates.v1.CertificateSigningRequestStatus.conditions",
        "map:type|replace",
    ),
    ("core.v1.ResourceRequirements.claims", "map:name|replace"),
    ("core.v1.ResourceStatus.resources", "map:resourceID|replace"),
    (
        "resource.v1.AllocatedDeviceStatus.conditions",
        "map:type|replace",
    ),
    // listType=atomic with a patchMergeKey: one owner for the list, but a patch merges its elements.
    ("batch.v1.JobStatus.conditions", "|by:type"),
    ("core.v1.PodStatus.hostIPs", "|by:ip"),
    // Two listMapKeys, one patchMergeKey.
    (
        "core.v1.Container.ports",
        "map:containerPort,protocol=TCP|by:containerPort",
    ),
    (
        "core.v1.EphemeralContainer.ports",
        "map:containerPort,protocol=TCP|by:containerPort",
    ),
    (
        "core.v1.PodSpec.topologySpreadConstraints",
        "map:topologyKey,whenUnsatisfiable|by:topologyKey",
    ),
    ("core.v1.ServiceSpec.ports", "map:port,protocol=TCP|by:port"),
    // patchStrategy=merge on single values.
    ("core.v1.NodeSpec.podCIDRs", "set|union"),
    ("meta.v1.ObjectMeta.finalizers", "set|union"),
    // listType=atomic, although the merge code merges by name.
    ("apps.v1.StatefulSetSpec.volumeClaimTemplates", ""),
];

/// Types with another form in JSON than their Rust structs.
pub(super) const SCALARS: &[(&str, &str)] = &[
    ("io.k8s.apimachinery.pkg.api.resource.Quantity", "quantity"),
    ("io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime", "time"),
    ("io.k8s.apimachinery.pkg.apis.meta.v1.Time", "time"),
    (
        "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
        "intOrString",
    ),
];
