//! Machine: maps each built-in kind to its columns.

use serde_json::json;

use super::access::{BINDINGS, LEASES, SIGNING_REQUESTS};
use super::cells::text;
use super::cluster::{
    COMPONENTS, CONFIG_MAPS, NAMESPACES, NODES, PRIORITY_CLASSES, RUNTIME_CLASSES, SECRETS,
    SERVICE_ACCOUNTS,
};
use super::columns::{AGE, Columns, Heading, shown};
use super::devices::{AUTOSCALERS, RESOURCE_CLAIMS, RESOURCE_SLICES};
use super::events::EVENTS;
use super::network::{
    ENDPOINT_SLICES, ENDPOINTS, INGRESS_CLASSES, INGRESSES, IP_ADDRESSES, NETWORK_POLICIES,
    SERVICE_CIDRS, SERVICES,
};
use super::pods::{POD_TEMPLATES, PODS};
use super::policies::{
    API_SERVICES, BUDGETS, FLOW_SCHEMAS, MUTATING, POLICY_BINDINGS, PRIORITY_LEVELS, QUOTAS,
    VALIDATING, WEBHOOKS,
};
use super::storage::{
    ATTACHMENTS, ATTRIBUTES_CLASSES, CLAIMS, CSI_CAPACITIES, CSI_DRIVERS, CSI_NODES, MIGRATIONS,
    STORAGE_CLASSES, VOLUMES,
};
use super::workloads::{
    CONTROLLER_REVISIONS, CRON_JOBS, DAEMON_SETS, DEPLOYMENTS, JOBS, REPLICA_SETS, STATEFUL_SETS,
};

/// Returns the columns of a kind; only `Age` for kinds without columns of their own.
///
/// Source: pkg/printers/internalversion/printers.go of Kubernetes, and the stores of the kinds that
/// are not printed there.
pub(super) fn columns(resource: &str) -> Columns {
    match resource {
        "pods" => PODS,
        "podtemplates" => POD_TEMPLATES,
        "services" => SERVICES,
        "endpoints" => ENDPOINTS,
        "configmaps" => CONFIG_MAPS,
        "secrets" => SECRETS,
        "namespaces" => NAMESPACES,
        "nodes" => NODES,
        "events" => EVENTS,
        "limitranges" => CREATED_AT,
        "serviceaccounts" => SERVICE_ACCOUNTS,
        "resourcequotas" => QUOTAS,
        "persistentvolumes" => VOLUMES,
        "persistentvolumeclaims" => CLAIMS,
        "componentstatuses" => COMPONENTS,
        "replicationcontrollers" => REPLICA_SETS,
        "controllerrevisions" => CONTROLLER_REVISIONS,
        "deployments" => DEPLOYMENTS,
        "replicasets" => REPLICA_SETS,
        "statefulsets" => STATEFUL_SETS,
        "daemonsets" => DAEMON_SETS,
        "jobs" => JOBS,
        "cronjobs" => CRON_JOBS,
        "horizontalpodautoscalers" => AUTOSCALERS,
        "poddisruptionbudgets" => BUDGETS,
        "priorityclasses" => PRIORITY_CLASSES,
        "runtimeclasses" => RUNTIME_CLASSES,
        "storageclasses" => STORAGE_CLASSES,
        "volumeattributesclasses" => ATTRIBUTES_CLASSES,
        "volumeattachments" => ATTACHMENTS,
        "csinodes" => CSI_NODES,
        "csidrivers" => CSI_DRIVERS,
        "csistoragecapacities" => CSI_CAPACITIES,
        "mutatingwebhookconfigurations" | "validatingwebhookconfigurations" => WEBHOOKS,
        "validatingadmissionpolicies" => VALIDATING,
        "mutatingadmissionpolicies" => MUTATING,
        "validatingadmissionpolicybindings" | "mutatingadmissionpolicybindings" => POLICY_BINDINGS,
        "flowschemas" => FLOW_SCHEMAS,
        "prioritylevelconfigurations" => PRIORITY_LEVELS,
        "apiservices" => API_SERVICES,
        "ingresses" => INGRESSES,
        "ingressclasses" => INGRESS_CLASSES,
        "networkpolicies" => NETWORK_POLICIES,
        "ipaddresses" => IP_ADDRESSES,
        "servicecidrs" => SERVICE_CIDRS,
        "endpointslices" => ENDPOINT_SLICES,
        "leases" => LEASES,
        "certificatesigningrequests" => SIGNING_REQUESTS,
        "rolebindings" | "clusterrolebindings" => BINDINGS,
        "resourceclaims" => RESOURCE_CLAIMS,
        "resourceslices" => RESOURCE_SLICES,
        "storageversionmigrations" => MIGRATIONS,
        "roles" | "clusterroles" | "customresourcedefinitions" => CREATED_AT,
        _ => AGE_ALONE,
    }
}

const AGE_ALONE: Columns = Columns {
    headings: &[AGE],
    row: |_, _| json!([]),
};

const CREATED_AT: Columns = Columns {
    headings: &[Heading {
        kind: "date",
        ..shown("Created At", "When the object was created.")
    }],
    row: |object, _| json!([text(object, "metadata.creationTimestamp")]),
};

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use steersman_schema::builtin;

    use super::*;

    /// A kind that is new in the table of kinds needs its columns, or a place in this list of the kinds
    /// with none but `Age` upstream.
    #[test]
    fn each_kind_has_the_columns_that_upstream_prints() {
        let without_columns = ["deviceclasses", "resourceclaimtemplates"];
        let mut found = Vec::new();
        for resource in builtin::built_in() {
            let listed = resource.verbs.contains(&"list");
            let headings = columns(&resource.plural).headings;
            let is_age_alone = headings.len() == 1 && headings[0].name == AGE.name;
            if listed && is_age_alone {
                found.push(resource.plural.clone());
            }
        }
        assert_eq!(found, without_columns);
    }

    #[test]
    fn a_migration_shows_its_resource_with_the_group() {
        let migration = json!({"metadata": {"name": "m"},
            "spec": {"resource": {"group": "example.com", "resource": "websites"}}});
        let cells = MIGRATIONS.cells(&migration, Timestamp::UNIX_EPOCH);
        assert_eq!(cells, ["m", "websites.example.com"]);
    }
}
