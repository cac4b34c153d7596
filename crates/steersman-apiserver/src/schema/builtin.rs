//! Machine: the table of Kubernetes' own kinds that are served.

use super::names::NameRule;
use super::resource::{
    FieldRefusal, Generation, Resource, ScalePaths, SelectableField, StorageKey,
};

/// Verbs of a custom resource, in discovery's order.
pub(super) const CUSTOM_VERBS: &[&str] = &[
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "create",
    "update",
    "watch",
];

/// Verbs of a full resource, in discovery's order.
const VERBS: &[&str] = &[
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
];

/// A Binding is only made.
const BINDING_VERBS: &[&str] = &["create"];

/// The statuses of components are only read.
const COMPONENT_VERBS: &[&str] = &["get", "list"];

/// Namespaces have no deletecollection.
const NAMESPACE_VERBS: &[&str] = &[
    "create", "delete", "get", "list", "patch", "update", "watch",
];

/// One line of the table.
struct Row {
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    plural: &'static str,
    short: &'static [&'static str],
    flags: &'static str,
}

const fn row(
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    plural: &'static str,
    short: &'static [&'static str],
    flags: &'static str,
) -> Row {
    Row {
        group,
        version,
        kind,
        plural,
        short,
        flags,
    }
}

const RBAC: &str = "rbac.authorization.k8s.io";
const ADMISSION: &str = "admissionregistration.k8s.io";

/// Flags: `n` namespaced, `s` status subresource, `c` scale, `a` in the category `all`,
/// `g` generation of the spec, `G` generation of everything outside metadata and status,
/// `o` a delete answers the object, `u` a PUT creates, `v` a PUT needs a resource version,
/// `p` names are path segments, `f` field selectors are refused with the second wording.
const TABLE: &[Row] = &[
    row("", "v1", "Binding", "bindings", &[], "n"),
    row(
        "",
        "v1",
        "ComponentStatus",
        "componentstatuses",
        &["cs"],
        "",
    ),
    row("", "v1", "ConfigMap", "configmaps", &["cm"], "n"),
    row("", "v1", "Endpoints", "endpoints", &["ep"], "nu"),
    row("", "v1", "Event", "events", &["ev"], "nuf"),
    row("", "v1", "LimitRange", "limitranges", &["limits"], "nu"),
    row("", "v1", "Namespace", "namespaces", &["ns"], "sof"),
    row("", "v1", "Node", "nodes", &["no"], "sf"),
    row(
        "",
        "v1",
        "PersistentVolume",
        "persistentvolumes",
        &["pv"],
        "so",
    ),
    row(
        "",
        "v1",
        "PersistentVolumeClaim",
        "persistentvolumeclaims",
        &["pvc"],
        "nso",
    ),
    row("", "v1", "Pod", "pods", &["po"], "nsagof"),
    row("", "v1", "PodTemplate", "podtemplates", &[], "nGo"),
    row(
        "",
        "v1",
        "ReplicationController",
        "replicationcontrollers",
        &["rc"],
        "nscagf",
    ),
    row(
        "",
        "v1",
        "ResourceQuota",
        "resourcequotas",
        &["quota"],
        "nso",
    ),
    row("", "v1", "Secret", "secrets", &[], "nf"),
    row("", "v1", "Service", "services", &["svc"], "nsaouf"),
    row("", "v1", "ServiceAccount", "serviceaccounts", &["sa"], "no"),
    row(
        "apps",
        "v1",
        "ControllerRevision",
        "controllerrevisions",
        &[],
        "n",
    ),
    row("apps", "v1", "DaemonSet", "daemonsets", &["ds"], "nsag"),
    row(
        "apps",
        "v1",
        "Deployment",
        "deployments",
        &["deploy"],
        "nscag",
    ),
    row("apps", "v1", "ReplicaSet", "replicasets", &["rs"], "nscagf"),
    row(
        "apps",
        "v1",
        "StatefulSet",
        "statefulsets",
        &["sts"],
        "nscag",
    ),
    row("batch", "v1", "CronJob", "cronjobs", &["cj"], "nsag"),
    row("batch", "v1", "Job", "jobs", &[], "nsagf"),
    row(
        "autoscaling",
        "v2",
        "HorizontalPodAutoscaler",
        "horizontalpodautoscalers",
        &["hpa"],
        "nsa",
    ),
    row(
        "networking.k8s.io",
        "v1",
        "Ingress",
        "ingresses",
        &["ing"],
        "nsgu",
    ),
    row(
        "networking.k8s.io",
        "v1",
        "IngressClass",
        "ingressclasses",
        &[],
        "g",
    ),
    row(
        "networking.k8s.io",
        "v1",
        "NetworkPolicy",
        "networkpolicies",
        &["netpol"],
        "ng",
    ),
    row(
        "policy",
        "v1",
        "PodDisruptionBudget",
        "poddisruptionbudgets",
        &["pdb"],
        "nsg",
    ),
    row(RBAC, "v1", "ClusterRole", "clusterroles", &[], "up"),
    row(
        RBAC,
        "v1",
        "ClusterRoleBinding",
        "clusterrolebindings",
        &[],
        "up",
    ),
    row(RBAC, "v1", "Role", "roles", &[], "nup"),
    row(RBAC, "v1", "RoleBinding", "rolebindings", &[], "nup"),
    row(
        "storage.k8s.io",
        "v1",
        "StorageClass",
        "storageclasses",
        &["sc"],
        "o",
    ),
    row(
        "scheduling.k8s.io",
        "v1",
        "PriorityClass",
        "priorityclasses",
        &["pc"],
        "G",
    ),
    row("coordination.k8s.io", "v1", "Lease", "leases", &[], "nuv"),
    row(
        "discovery.k8s.io",
        "v1",
        "EndpointSlice",
        "endpointslices",
        &[],
        "nG",
    ),
    row("events.k8s.io", "v1", "Event", "events", &["ev"], "nuf"),
    row(
        ADMISSION,
        "v1",
        "MutatingWebhookConfiguration",
        "mutatingwebhookconfigurations",
        &[],
        "Gv",
    ),
    row(
        ADMISSION,
        "v1",
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
        &[],
        "Gv",
    ),
    row(
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        &["crd", "crds"],
        "sgv",
    ),
];

/// Field labels by group and plural: the label, and the path where it is another one.
const FIELDS: &[(&str, &str, &[&str])] = &[
    (
        "",
        "pods",
        &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork=false",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        ],
    ),
    ("", "namespaces", &["status.phase"]),
    ("", "nodes", &["spec.unschedulable=false"]),
    ("", "secrets", &["type"]),
    ("", "services", &["spec.clusterIP", "spec.type"]),
    ("", "replicationcontrollers", &["status.replicas=0"]),
    ("apps", "replicasets", &["status.replicas=0"]),
    ("batch", "jobs", &["status.successful=0"]),
    ("", "events", EVENT_FIELDS),
    ("events.k8s.io", "events", NEWER_EVENT_FIELDS),
];

/// Under the names of the newer group; the paths are those of the stored shape.
const NEWER_EVENT_FIELDS: &[&str] = &[
    "regarding.kind",
    "regarding.namespace",
    "regarding.name",
    "regarding.uid",
    "regarding.apiVersion",
    "regarding.resourceVersion",
    "regarding.fieldPath",
    "reason",
    "reportingController",
    "type",
];

const EVENT_FIELDS: &[&str] = &[
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.resourceVersion",
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "source",
    "type",
];

/// Every built-in resource, groups in discovery's order.
#[must_use]
pub(crate) fn built_in() -> Vec<Resource> {
    TABLE.iter().map(resource).collect()
}

fn resource(row: &Row) -> Resource {
    let has = |flag: char| row.flags.contains(flag);
    let keys = |path: &str| path.split('.').map(str::to_owned).collect::<Vec<_>>();
    Resource {
        group: row.group.to_owned(),
        version: row.version.to_owned(),
        kind: row.kind.to_owned(),
        list_kind: format!("{}List", row.kind),
        plural: row.plural.to_owned(),
        singular: row.kind.to_lowercase(),
        short_names: row.short.iter().map(|&s| s.to_owned()).collect(),
        categories: categories(row),
        namespaced: has('n'),
        verbs: match row.kind {
            "Binding" => BINDING_VERBS,
            "ComponentStatus" => COMPONENT_VERBS,
            "Namespace" => NAMESPACE_VERBS,
            _ => VERBS,
        },
        status: has('s'),
        scale: has('c').then(|| ScalePaths {
            spec_replicas: keys("spec.replicas"),
            status_replicas: keys("status.replicas"),
            selector: Some(keys("spec.selector")),
        }),
        columns: Vec::new(),
        fields: fields(row),
        field_refusal: if has('f') {
            FieldRefusal::NotSupported
        } else {
            FieldRefusal::OnlyMetadata
        },
        schema: None,
        structural: None,
        storage_structural: None,
        built_in: true,
        generation: match (has('g'), has('G')) {
            (true, _) => Generation::Spec,
            (_, true) => Generation::OutsideMetadata,
            _ => Generation::Unmanaged,
        },
        delete_returns_object: has('o'),
        create_on_update: has('u'),
        unconditional_update: !has('v'),
        names: match row.kind {
            "Namespace" => NameRule::Label,
            "Service" => NameRule::Label1035,
            _ if has('p') => NameRule::PathSegment,
            _ => NameRule::Subdomain,
        },
        storage: match row.kind {
            // Both groups show the same Events.
            "Event" => StorageKey::new("", row.plural),
            _ => StorageKey::new(row.group, row.plural),
        },
        storage_version: row.version.to_owned(),
        deprecation_warning: (row.kind == "Endpoints").then(|| {
            "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice".to_owned()
        }),
        defaults_on_read: false,
        installation: 0,
    }
}

fn categories(row: &Row) -> Vec<String> {
    let name = match row.group {
        "apiextensions.k8s.io" | ADMISSION => "api-extensions",
        _ if row.flags.contains('a') => "all",
        _ => return Vec::new(),
    };
    vec![name.to_owned()]
}

fn fields(row: &Row) -> Vec<SelectableField> {
    let of_row = FIELDS
        .iter()
        .find(|(group, plural, _)| (*group, *plural) == (row.group, row.plural));
    let labels = of_row.map_or(&[][..], |(_, _, labels)| labels);
    labels
        .iter()
        .map(|entry| {
            let (label, default) = entry.split_once('=').unwrap_or((entry, ""));
            let path = match label {
                "source" => "source.component",
                "status.successful" => "status.succeeded",
                "reportingController" => "reportingComponent",
                other => other,
            };
            SelectableField {
                label: label.to_owned(),
                path: path
                    .replace("regarding.", "involvedObject.")
                    .split('.')
                    .map(str::to_owned)
                    .collect(),
                default,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_served_once_and_has_its_names() {
        let all = built_in();
        let mut paths: Vec<_> = all
            .iter()
            .map(|r| (r.group.clone(), r.version.clone(), r.plural.clone()))
            .collect();
        paths.sort();
        paths.dedup();
        assert_eq!(paths.len(), all.len());
        let deployment = all.iter().find(|r| r.kind == "Deployment").unwrap();
        assert_eq!(deployment.short_names, ["deploy"]);
        assert_eq!(deployment.categories, ["all"]);
        assert_eq!(
            (deployment.status, deployment.scale.is_some()),
            (true, true)
        );
        assert_eq!(deployment.api_version(), "apps/v1");
        assert!(
            all.iter()
                .all(|r| r.singular.chars().all(char::is_lowercase))
        );
    }
}
