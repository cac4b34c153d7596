//! Machine: maps each built-in kind to its columns.

use serde_json::json;

use super::cells::text;
use super::columns::{AGE, Columns, Heading, shown};
use super::{access, cluster, devices, events, network, pods, policies, storage, workloads};

/// Returns the columns of a kind; only `Age` for kinds without columns of their own.
///
/// Source: pkg/printers/internalversion/printers.go of Kubernetes, and the stores of the kinds that
/// are not printed there.
pub(super) fn columns(resource: &str) -> Columns {
    match resource {
        "pods" => pods::PODS,
        "podtemplates" => pods::POD_TEMPLATES,
        "services" => network::SERVICES,
        "endpoints" => network::ENDPOINTS,
        "configmaps" => cluster::CONFIG_MAPS,
        "secrets" => cluster::SECRETS,
        "namespaces" => cluster::NAMESPACES,
        "nodes" => cluster::NODES,
        "events" => events::EVENTS,
        "limitranges" => CREATED_AT,
        "serviceaccounts" => cluster::SERVICE_ACCOUNTS,
        "resourcequotas" => policies::QUOTAS,
        "persistentvolumes" => storage::VOLUMES,
        "persistentvolumeclaims" => storage::CLAIMS,
        "componentstatuses" => cluster::COMPONENTS,
        "replicationcontrollers" => workloads::REPLICA_SETS,
        "controllerrevisions" => workloads::CONTROLLER_REVISIONS,
        "deployments" => workloads::DEPLOYMENTS,
        "replicasets" => workloads::REPLICA_SETS,
        "statefulsets" => workloads::STATEFUL_SETS,
        "daemonsets" => workloads::DAEMON_SETS,
        "jobs" => workloads::JOBS,
        "cronjobs" => workloads::CRON_JOBS,
        "horizontalpodautoscalers" => devices::AUTOSCALERS,
        "poddisruptionbudgets" => policies::BUDGETS,
        "priorityclasses" => cluster::PRIORITY_CLASSES,
        "runtimeclasses" => cluster::RUNTIME_CLASSES,
        "storageclasses" => storage::STORAGE_CLASSES,
        "volumeattributesclasses" => storage::ATTRIBUTES_CLASSES,
        "volumeattachments" => storage::ATTACHMENTS,
        "csinodes" => storage::CSI_NODES,
        "csidrivers" => storage::CSI_DRIVERS,
        "csistoragecapacities" => storage::CSI_CAPACITIES,
        "mutatingwebhookconfigurations" | "validatingwebhookconfigurations" => policies::WEBHOOKS,
        "validatingadmissionpolicies" => policies::VALIDATING,
        "mutatingadmissionpolicies" => policies::MUTATING,
        "validatingadmissionpolicybindings" => policies::POLICY_BINDINGS,
        "mutatingadmissionpolicybindings" => policies::POLICY_BINDINGS,
        "flowschemas" => policies::FLOW_SCHEMAS,
        "prioritylevelconfigurations" => policies::PRIORITY_LEVELS,
        "apiservices" => policies::API_SERVICES,
        "ingresses" => network::INGRESSES,
        "ingressclasses" => network::INGRESS_CLASSES,
        "networkpolicies" => network::NETWORK_POLICIES,
        "ipaddresses" => network::IP_ADDRESSES,
        "servicecidrs" => network::SERVICE_CIDRS,
        "endpointslices" => network::ENDPOINT_SLICES,
        "leases" => access::LEASES,
        "certificatesigningrequests" => access::SIGNING_REQUESTS,
        "rolebindings" | "clusterrolebindings" => access::BINDINGS,
        "resourceclaims" => devices::RESOURCE_CLAIMS,
        "resourceslices" => devices::RESOURCE_SLICES,
        "storageversionmigrations" => storage::MIGRATIONS,
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
        let cells = storage::MIGRATIONS.cells(&migration, Timestamp::UNIX_EPOCH);
        assert_eq!(cells, ["m", "websites.example.com"]);
    }
}
