//! Machine: the columns of kinds of cluster setup and configuration: ConfigMaps, Secrets,
//! Namespaces, Nodes and others.

use serde_json::Value;

use super::cells::{NONE, at, boolean, entries, list, number, text};
use super::columns::{AGE, Columns, age, shown, wide};

/// The columns of ConfigMaps.
pub(super) const CONFIG_MAPS: Columns = Columns {
    headings: &[shown("Data", "Number of entries."), AGE],
    row: |map, now| {
        vec![
            (entries(map, &["data"]) + entries(map, &["binaryData"])).into(),
            age(map, now),
        ]
    },
};

/// The columns of Secrets.
pub(super) const SECRETS: Columns = Columns {
    headings: &[
        shown("Type", "Type of the secret."),
        shown("Data", "Number of entries."),
        AGE,
    ],
    row: |secret, now| {
        vec![
            text(secret, &["type"]).into(),
            entries(secret, &["data"]).into(),
            age(secret, now),
        ]
    },
};

/// The columns of Namespaces.
pub(super) const NAMESPACES: Columns = Columns {
    headings: &[
        shown("Status", "Whether the namespace is active or terminating."),
        AGE,
    ],
    row: |namespace, now| {
        vec![
            text(namespace, &["status", "phase"]).into(),
            age(namespace, now),
        ]
    },
};

/// The columns of Nodes.
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
    row: |node, now| {
        let ready = list(node, &["status", "conditions"])
            .iter()
            .find(|condition| condition["type"] == "Ready");
        let mut status = match ready.map(|condition| text(condition, &["status"])) {
            Some("True") => "Ready",
            Some(_) => "NotReady",
            None => "Unknown",
        }
        .to_owned();
        if at(node, &["spec", "unschedulable"]) == Some(&Value::Bool(true)) {
            status.push_str(",SchedulingDisabled");
        }
        let address = |kind: &str| {
            list(node, &["status", "addresses"])
                .iter()
                .find(|address| address["type"] == kind)
                .map_or(NONE, |address| text(address, &["address"]))
                .into()
        };
        let info = |name: &str| match text(node, &["status", "nodeInfo", name]) {
            "" => "<unknown>".into(),
            found => found.into(),
        };
        vec![
            status.into(),
            roles(node).into(),
            age(node, now),
            text(node, &["status", "nodeInfo", "kubeletVersion"]).into(),
            address("InternalIP"),
            address("ExternalIP"),
            info("osImage"),
            info("kernelVersion"),
            info("containerRuntimeVersion"),
        ]
    },
};

/// Returns the roles that a node's labels name, sorted.
fn roles(node: &Value) -> String {
    let labels = at(node, &["metadata", "labels"]).and_then(Value::as_object);
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
    if roles.is_empty() {
        NONE.to_owned()
    } else {
        roles.join(",")
    }
}

/// The columns of ServiceAccounts.
pub(super) const SERVICE_ACCOUNTS: Columns = Columns {
    headings: &[shown("Secrets", "Number of secrets of the account."), AGE],
    row: |account, now| vec![list(account, &["secrets"]).len().into(), age(account, now)],
};

/// The columns of ComponentStatuses.
pub(super) const COMPONENTS: Columns = Columns {
    headings: &[
        shown("Status", "Whether the component is healthy."),
        shown("Message", "Message of the component."),
        shown("Error", "Error of the component."),
    ],
    row: |component, _| {
        let condition = list(component, &["conditions"])
            .iter()
            .find(|condition| condition["type"] == "Healthy");
        let status = match condition.map(|condition| text(condition, &["status"])) {
            None => "Unknown",
            Some("True") => "Healthy",
            Some(_) => "Unhealthy",
        };
        let member = |name: &str| condition.map_or("", |it| text(it, &[name])).into();
        vec![status.into(), member("message"), member("error")]
    },
};

/// The columns of PriorityClasses.
pub(super) const PRIORITY_CLASSES: Columns = Columns {
    headings: &[
        shown("Value", "Priority of the pods.").integer(),
        shown(
            "Global-Default",
            "Whether this is the class of pods without one.",
        )
        .boolean(),
        AGE,
        shown(
            "PreemptionPolicy",
            "Whether its pods preempt pods of lower priority.",
        ),
    ],
    row: |class, now| {
        vec![
            number(class, &["value"]).into(),
            boolean(class, &["globalDefault"], false).into(),
            age(class, now),
            text(class, &["preemptionPolicy"]).into(),
        ]
    },
};

/// The columns of RuntimeClasses.
pub(super) const RUNTIME_CLASSES: Columns = Columns {
    headings: &[shown("Handler", "Handler of the container runtime."), AGE],
    row: |class, now| vec![text(class, &["handler"]).into(), age(class, now)],
};
