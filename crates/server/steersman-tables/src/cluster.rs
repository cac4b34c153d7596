//! Machine: the columns of kinds of cluster setup and configuration: ConfigMaps, Secrets, Namespaces, Nodes and others.

use serde_json::{Value, json};

use super::cells::{NONE, at, boolean, condition, entries, joined, list, number, text};
use super::columns::{AGE, Columns, shown, wide};

pub(super) const CONFIG_MAPS: Columns = Columns {
    headings: &[shown("Data", "Number of entries."), AGE],
    row: |map, _| json!([entries(map, "data") + entries(map, "binaryData")]),
};

pub(super) const SECRETS: Columns = Columns {
    headings: &[
        shown("Type", "Type of the secret."),
        shown("Data", "Number of entries."),
        AGE,
    ],
    row: |secret, _| json!([text(secret, "type"), entries(secret, "data")]),
};

pub(super) const NAMESPACES: Columns = Columns {
    headings: &[shown("Status", "Active or Terminating."), AGE],
    row: |namespace, _| json!([text(namespace, "status.phase")]),
};

pub(super) const NODES: Columns = Columns {
    headings: &[
        shown("Status", "Whether the node is ready."),
        shown("Roles", "Roles from the node's labels."),
        AGE,
        shown("Version", "Version of the kubelet."),
        wide("Internal-IP", "Address inside the cluster."),
        wide("External-IP", "Address outside the cluster."),
        wide("OS-Image", "Operating system."),
        wide("Kernel-Version", "Version of the kernel."),
        wide("Container-Runtime", "Container runtime of the node."),
    ],
    row: |node, _| {
        let ready = condition(node, "Ready");
        let mut status = match ready.map(|condition| text(condition, "status")) {
            Some("True") => "Ready",
            Some(_) => "NotReady",
            None => "Unknown",
        }
        .to_owned();
        if boolean(node, "spec.unschedulable", false) {
            status.push_str(",SchedulingDisabled");
        }
        let address = |kind: &str| {
            list(node, "status.addresses")
                .iter()
                .find(|address| address["type"] == kind)
                .map_or(NONE, |address| text(address, "address"))
        };
        let info = |name: &str| match text(&node["status"]["nodeInfo"], name) {
            "" => "<unknown>",
            found => found,
        };
        json!([
            status,
            roles(node),
            text(node, "status.nodeInfo.kubeletVersion"),
            address("InternalIP"),
            address("ExternalIP"),
            info("osImage"),
            info("kernelVersion"),
            info("containerRuntimeVersion")
        ])
    },
};

/// Returns the roles that a node's labels name, sorted.
fn roles(node: &Value) -> String {
    let labels = at(node, "metadata.labels").and_then(Value::as_object);
    let mut roles: Vec<&str> = labels
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| match key.as_str() {
            "kubernetes.io/role" => value.as_str(),
            key => key.strip_prefix("node-role.kubernetes.io/"),
        })
        .filter(|role| !role.is_empty())
        .collect();
    roles.sort_unstable();
    roles.dedup();
    joined(&roles, NONE)
}

pub(super) const SERVICE_ACCOUNTS: Columns = Columns {
    headings: &[shown("Secrets", "Number of secrets of the account."), AGE],
    row: |account, _| json!([list(account, "secrets").len()]),
};

pub(super) const COMPONENTS: Columns = Columns {
    headings: &[
        shown("Status", "Whether the component is healthy."),
        shown("Message", "Message of the component."),
        shown("Error", "Error of the component."),
    ],
    row: |component, _| {
        let condition = list(component, "conditions")
            .iter()
            .find(|it| it["type"] == "Healthy");
        let status = match condition.map(|condition| text(condition, "status")) {
            None => "Unknown",
            Some("True") => "Healthy",
            Some(_) => "Unhealthy",
        };
        let member = |name: &str| condition.map_or("", |it| text(it, name));
        json!([status, member("message"), member("error")])
    },
};

pub(super) const PRIORITY_CLASSES: Columns = Columns {
    headings: &[
        shown("Value", "Priority of the pods.").integer(),
        shown("Global-Default", "Whether pods without a class get this.").boolean(),
        AGE,
        shown("PreemptionPolicy", "Whether its pods preempt others."),
    ],
    row: |class, _| {
        json!([
            number(class, "value"),
            boolean(class, "globalDefault", false),
            text(class, "preemptionPolicy")
        ])
    },
};

pub(super) const RUNTIME_CLASSES: Columns = Columns {
    headings: &[shown("Handler", "Handler of the container runtime."), AGE],
    row: |class, _| json!([text(class, "handler")]),
};
