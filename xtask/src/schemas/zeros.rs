//! Fields with a meaningful zero: facts about Kubernetes' Go types, written by hand.
//!
//! A protobuf message from Go holds every scalar that is not a pointer, even if it was never set. JSON
//! leaves such a zero out if the tag has `omitempty`. Sources: `types.go` of `k8s.io/api`,
//! `k8s.io/apimachinery` and `k8s.io/apiextensions-apiserver`.

/// Optional numbers and booleans that are not pointers: zero means unset. All other optional numbers and
/// booleans are pointers. `*` stands for any type.
const PLAIN: &[(&str, &[&str])] = &[
    (
        "*",
        &[
            "observedGeneration",
            "generation",
            "minReadySeconds",
            "availableReplicas",
            "currentReplicas",
            "fullyLabeledReplicas",
            "readyReplicas",
            "unavailableReplicas",
            "updatedReplicas",
            "numberAvailable",
            "numberUnavailable",
            "updatedNumberScheduled",
            "paused",
            "stdin",
            "stdinOnce",
            "tty",
            "hostPort",
            "count",
            "deprecatedCount",
            "chapAuthDiscovery",
            "chapAuthSession",
            "sslEnabled",
        ],
    ),
    (
        "apiextensions.v1.CustomResourceColumnDefinition",
        &["priority"],
    ),
    (
        "apiextensions.v1.CustomResourceDefinitionSpec",
        &["preserveUnknownFields"],
    ),
    (
        "apiextensions.v1.CustomResourceDefinitionVersion",
        &["deprecated"],
    ),
    (
        "apiextensions.v1.JSONSchemaProps",
        &[
            "exclusiveMaximum",
            "exclusiveMinimum",
            "nullable",
            "uniqueItems",
            "x-kubernetes-embedded-resource",
            "x-kubernetes-int-or-string",
        ],
    ),
    (
        "apiregistration.v1.APIServiceSpec",
        &["insecureSkipTLSVerify"],
    ),
    ("apps.v1.DeploymentStatus", &["replicas"]),
    ("authentication.v1.TokenReviewStatus", &["authenticated"]),
    ("authorization.v1.SubjectAccessReviewStatus", &["denied"]),
    ("autoscaling.v1.ScaleSpec", &["replicas"]),
    ("batch.v1.JobStatus", &["active", "failed", "succeeded"]),
    ("core.v1.AWSElasticBlockStoreVolumeSource", &["partition"]),
    ("core.v1.ContainerImage", &["sizeBytes"]),
    ("core.v1.ContainerStateTerminated", &["signal"]),
    ("core.v1.GCEPersistentDiskVolumeSource", &["partition"]),
    ("core.v1.NodeSpec", &["unschedulable"]),
    ("core.v1.PodSpec", &["hostIPC", "hostNetwork", "hostPID"]),
    (
        "core.v1.Probe",
        &[
            "failureThreshold",
            "initialDelaySeconds",
            "periodSeconds",
            "successThreshold",
            "timeoutSeconds",
        ],
    ),
    ("core.v1.ServicePort", &["nodePort", "targetPort"]),
    (
        "core.v1.ServiceSpec",
        &["healthCheckNodePort", "publishNotReadyAddresses"],
    ),
    ("flowcontrol.v1.FlowSchemaSpec", &["matchingPrecedence"]),
    (
        "flowcontrol.v1.QueuingConfiguration",
        &["handSize", "queueLengthLimit", "queues"],
    ),
    ("flowcontrol.v1.ResourcePolicyRule", &["clusterScope"]),
    ("meta.v1.Status", &["code"]),
    ("meta.v1.StatusDetails", &["retryAfterSeconds"]),
    ("networking.v1.ServiceBackendPort", &["number"]),
    ("scheduling.v1.PriorityClass", &["globalDefault"]),
];

/// Types in which `readOnly` is a pointer.
const READ_ONLY: &[&str] = &[
    "core.v1.AzureDiskVolumeSource",
    "core.v1.CSIVolumeSource",
    "core.v1.GlusterfsPersistentVolumeSource",
];

/// Types in which `observedGeneration` is a pointer.
const OBSERVED: &[&str] = &[
    "autoscaling.v1.HorizontalPodAutoscalerStatus",
    "autoscaling.v2.HorizontalPodAutoscalerStatus",
];

/// Optional strings that are pointers: an empty string differs from an unset one. All other optional
/// strings are not pointers.
const TEXTS: &[(&str, &[&str])] = &[
    ("*", &["apiGroup", "appProtocol"]),
    ("admissionregistration.v1.ServiceReference", &["path"]),
    ("admissionregistration.v1.WebhookClientConfig", &["url"]),
    (
        "apiextensions.v1.CustomResourceDefinitionVersion",
        &["deprecationWarning"],
    ),
    (
        "apiextensions.v1.CustomResourceSubresourceScale",
        &["labelSelectorPath"],
    ),
    ("apiextensions.v1.ServiceReference", &["path"]),
    ("apiextensions.v1.WebhookClientConfig", &["url"]),
    ("batch.v1.CronJobSpec", &["timeZone"]),
    ("batch.v1.JobSpec", &["managedBy"]),
    ("batch.v1.SuccessPolicyRule", &["succeededIndexes"]),
    (
        "coordination.v1.LeaseSpec",
        &["holderIdentity", "preferredHolder", "strategy"],
    ),
    ("core.v1.AppArmorProfile", &["localhostProfile"]),
    ("core.v1.AzureDiskVolumeSource", &["fsType"]),
    (
        "core.v1.AzureFilePersistentVolumeSource",
        &["secretNamespace"],
    ),
    ("core.v1.CSIVolumeSource", &["fsType"]),
    (
        "core.v1.ClusterTrustBundleProjection",
        &["name", "signerName"],
    ),
    ("core.v1.EndpointAddress", &["nodeName"]),
    ("core.v1.GRPCAction", &["service"]),
    (
        "core.v1.GlusterfsPersistentVolumeSource",
        &["endpointsNamespace"],
    ),
    ("core.v1.ISCSIPersistentVolumeSource", &["initiatorName"]),
    ("core.v1.ISCSIVolumeSource", &["initiatorName"]),
    ("core.v1.LocalVolumeSource", &["fsType"]),
    (
        "core.v1.PersistentVolumeClaimSpec",
        &["storageClassName", "volumeAttributesClassName"],
    ),
    (
        "core.v1.PersistentVolumeClaimStatus",
        &["currentVolumeAttributesClassName"],
    ),
    (
        "core.v1.PersistentVolumeSpec",
        &["volumeAttributesClassName"],
    ),
    ("core.v1.PodDNSConfigOption", &["value"]),
    (
        "core.v1.PodResourceClaim",
        &["resourceClaimName", "resourceClaimTemplateName"],
    ),
    ("core.v1.PodSpec", &["hostnameOverride", "runtimeClassName"]),
    ("core.v1.SeccompProfile", &["localhostProfile"]),
    (
        "core.v1.ServiceSpec",
        &["loadBalancerClass", "trafficDistribution"],
    ),
    ("core.v1.TypedObjectReference", &["namespace"]),
    (
        "core.v1.WindowsSecurityContextOptions",
        &[
            "gmsaCredentialSpec",
            "gmsaCredentialSpecName",
            "runAsUserName",
        ],
    ),
    ("discovery.v1.Endpoint", &["hostname", "nodeName", "zone"]),
    ("discovery.v1.EndpointPort", &["name"]),
    ("meta.v1.Preconditions", &["resourceVersion", "uid"]),
    (
        "networking.v1.IngressClassParametersReference",
        &["namespace"],
    ),
    ("networking.v1.IngressSpec", &["ingressClassName"]),
    (
        "storage.v1.VolumeAttachmentSource",
        &["persistentVolumeName"],
    ),
];

/// Returns whether the zero of an optional field differs from an unset field.
pub(super) fn matter(owner: &str, field: &str, is_text: bool) -> bool {
    if is_text {
        let plain = owner == "rbac.v1.RoleRef" || owner == "rbac.v1.Subject";
        return !plain && named(TEXTS, owner, field);
    }
    match field {
        "readOnly" => READ_ONLY.contains(&owner),
        "observedGeneration" => OBSERVED.contains(&owner),
        _ => !named(PLAIN, owner, field),
    }
}

fn named(facts: &[(&str, &[&str])], owner: &str, field: &str) -> bool {
    facts
        .iter()
        .any(|(name, fields)| (*name == "*" || *name == owner) && fields.contains(&field))
}

/// Returns the pairs of type and field in these facts, to check that the fields exist.
pub(super) fn named_fields() -> impl Iterator<Item = (&'static str, &'static str)> {
    PLAIN
        .iter()
        .chain(TEXTS)
        .filter(|(name, _)| *name != "*")
        .flat_map(|(name, fields)| fields.iter().map(|field| (*name, *field)))
}
