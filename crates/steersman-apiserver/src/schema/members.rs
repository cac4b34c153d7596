//! Words: the fields that Kubernetes' own kinds have, as far as they are kept here.

const RBAC: &str = "rbac.authorization.k8s.io";
const ADMISSION: &str = "admissionregistration.k8s.io";

/// The members of a built-in object beside its type and metadata; nothing for kinds whose list
/// is not kept here.
pub(crate) fn members(group: &str, kind: &str) -> Option<&'static [&'static str]> {
    Some(match (group, kind) {
        ("", "ConfigMap") => &["data", "binaryData", "immutable"],
        ("", "Secret") => &["data", "stringData", "type", "immutable"],
        ("", "ServiceAccount") => &[
            "secrets",
            "imagePullSecrets",
            "automountServiceAccountToken",
        ],
        ("", "Endpoints") => &["subsets"],
        ("", "PodTemplate") => &["template"],
        ("", "LimitRange") => &["spec"],
        ("apps", "ControllerRevision") => &["data", "revision"],
        ("discovery.k8s.io", _) => &["addressType", "endpoints", "ports"],
        (RBAC, "Role") => &["rules"],
        (RBAC, "ClusterRole") => &["rules", "aggregationRule"],
        (RBAC, _) => &["subjects", "roleRef"],
        (ADMISSION, _) => &["webhooks"],
        ("scheduling.k8s.io", _) => &["value", "globalDefault", "description", "preemptionPolicy"],
        ("events.k8s.io" | "storage.k8s.io", _) | ("", "Event") => return None,
        _ => &["spec", "status"],
    })
}

/// The fields of a built-in kind's spec; nothing for kinds whose list is not kept here.
pub(crate) fn spec_members(group: &str, kind: &str) -> Option<&'static [&'static str]> {
    Some(match (group, kind) {
        ("apps", "Deployment") => &[
            "replicas",
            "selector",
            "template",
            "strategy",
            "minReadySeconds",
            "revisionHistoryLimit",
            "paused",
            "progressDeadlineSeconds",
        ],
        ("apps", "ReplicaSet") => &["replicas", "minReadySeconds", "selector", "template"],
        ("apps", "StatefulSet") => &[
            "replicas",
            "selector",
            "template",
            "volumeClaimTemplates",
            "serviceName",
            "podManagementPolicy",
            "updateStrategy",
            "revisionHistoryLimit",
            "minReadySeconds",
            "persistentVolumeClaimRetentionPolicy",
            "ordinals",
        ],
        ("apps", "DaemonSet") => &[
            "selector",
            "template",
            "updateStrategy",
            "minReadySeconds",
            "revisionHistoryLimit",
        ],
        ("coordination.k8s.io", "Lease") => &[
            "holderIdentity",
            "leaseDurationSeconds",
            "acquireTime",
            "renewTime",
            "leaseTransitions",
            "strategy",
            "preferredHolder",
        ],
        ("batch", "CronJob") => &[
            "schedule",
            "timeZone",
            "startingDeadlineSeconds",
            "concurrencyPolicy",
            "suspend",
            "jobTemplate",
            "successfulJobsHistoryLimit",
            "failedJobsHistoryLimit",
        ],
        ("", "Namespace") => &["finalizers"],
        ("policy", "PodDisruptionBudget") => &[
            "minAvailable",
            "selector",
            "maxUnavailable",
            "unhealthyPodEvictionPolicy",
        ],
        _ => return None,
    })
}
