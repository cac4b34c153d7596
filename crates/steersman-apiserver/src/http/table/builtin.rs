//! Machine: the columns of Kubernetes' own kinds, as a table.

use serde_json::Value;

use super::age::since;
use super::cells::{NONE, at, entries, labels, list, number, text, text_or_none};
use super::columns::{AGE, Columns, age, shown, wide};
use super::workloads::{CRON_JOBS, DAEMON_SETS, DEPLOYMENTS, JOBS, REPLICA_SETS, STATEFUL_SETS};

/// The columns of a kind, `Age` alone for those without columns of their own.
pub(super) fn columns(group: &str, resource: &str) -> Columns {
    match (group, resource) {
        ("", "pods") => PODS,
        ("", "services") => SERVICES,
        ("", "configmaps") => CONFIG_MAPS,
        ("", "secrets") => SECRETS,
        ("", "namespaces") => NAMESPACES,
        ("", "nodes") => NODES,
        ("" | "events.k8s.io", "events") => EVENTS,
        ("", "serviceaccounts") => SERVICE_ACCOUNTS,
        ("apps", "deployments") => DEPLOYMENTS,
        ("apps", "replicasets") | ("", "replicationcontrollers") => REPLICA_SETS,
        ("apps", "statefulsets") => STATEFUL_SETS,
        ("apps", "daemonsets") => DAEMON_SETS,
        ("batch", "jobs") => JOBS,
        ("batch", "cronjobs") => CRON_JOBS,
        ("coordination.k8s.io", "leases") => LEASES,
        ("apiextensions.k8s.io", "customresourcedefinitions") => CREATED_AT,
        _ => AGE_ALONE,
    }
}

const AGE_ALONE: Columns = Columns {
    headings: &[AGE],
    row: |object, now| vec![age(object, now)],
};

const CREATED_AT: Columns = Columns {
    headings: &[shown("Created At", "When the object was created.")],
    row: |object, _| vec![text(object, &["metadata", "creationTimestamp"]).into()],
};

const PODS: Columns = Columns {
    headings: &[
        shown("Ready", "Containers that are ready, of all."),
        shown(
            "Status",
            "What the pod's containers are doing, in one word.",
        ),
        shown("Restarts", "How often the containers were restarted."),
        AGE,
        wide("IP", "Address of the pod."),
        wide("Node", "Node that runs the pod."),
        wide("Nominated Node", "Node that is being cleared for the pod."),
        wide(
            "Readiness Gates",
            "Conditions beside the containers that make the pod ready.",
        ),
    ],
    row: |pod, now| {
        let statuses = list(pod, &["status", "containerStatuses"]);
        let ready = statuses
            .iter()
            .filter(|status| status["ready"] == true)
            .count();
        let restarts: i64 = statuses
            .iter()
            .map(|status| number(status, &["restartCount"]))
            .sum();
        let gates = list(pod, &["spec", "readinessGates"]);
        let gates = if gates.is_empty() {
            NONE.to_owned()
        } else {
            let conditions = list(pod, &["status", "conditions"]);
            let met = gates
                .iter()
                .filter(|gate| {
                    conditions.iter().any(|condition| {
                        condition["type"] == gate["conditionType"] && condition["status"] == "True"
                    })
                })
                .count();
            format!("{met}/{}", gates.len())
        };
        vec![
            format!("{ready}/{}", list(pod, &["spec", "containers"]).len()).into(),
            pod_status(pod).into(),
            restarts.to_string().into(),
            age(pod, now),
            text_or_none(pod, &["status", "podIP"]).into(),
            text_or_none(pod, &["spec", "nodeName"]).into(),
            text_or_none(pod, &["status", "nominatedNodeName"]).into(),
            gates.into(),
        ]
    },
};

/// The pod's phase, or why a container waits or ended, or that the pod is going.
fn pod_status(pod: &Value) -> String {
    let mut word = match text(pod, &["status", "reason"]) {
        "" => text(pod, &["status", "phase"]).to_owned(),
        reason => reason.to_owned(),
    };
    let mut running = false;
    for status in list(pod, &["status", "containerStatuses"]).iter().rev() {
        let waiting = text(status, &["state", "waiting", "reason"]);
        let terminated = at(status, &["state", "terminated"]).filter(|state| !state.is_null());
        if !waiting.is_empty() {
            waiting.clone_into(&mut word);
        } else if let Some(state) = terminated {
            word = match (text(state, &["reason"]), number(state, &["signal"])) {
                ("", 0) => format!("ExitCode:{}", number(state, &["exitCode"])),
                ("", signal) => format!("Signal:{signal}"),
                (reason, _) => reason.to_owned(),
            };
        } else if status["ready"] == true {
            running = true;
        }
    }
    if word == "Completed" && running {
        "Running".clone_into(&mut word);
    }
    if !text(pod, &["metadata", "deletionTimestamp"]).is_empty() {
        "Terminating".clone_into(&mut word);
    }
    word
}

const SERVICES: Columns = Columns {
    headings: &[
        shown("Type", "How the service is exposed."),
        shown("Cluster-IP", "Address inside the cluster."),
        shown("External-IP", "Addresses outside the cluster."),
        shown("Port(s)", "Ports and their protocols."),
        AGE,
        wide("Selector", "Labels of the pods behind the service."),
    ],
    row: |service, now| {
        let ports: Vec<String> = list(service, &["spec", "ports"])
            .iter()
            .map(|port| {
                let (number, protocol) = (number(port, &["port"]), text(port, &["protocol"]));
                match at(port, &["nodePort"])
                    .and_then(Value::as_i64)
                    .filter(|port| *port > 0)
                {
                    Some(node) => format!("{number}:{node}/{protocol}"),
                    None => format!("{number}/{protocol}"),
                }
            })
            .collect();
        let kind = text(service, &["spec", "type"]);
        vec![
            kind.into(),
            text_or_none(service, &["spec", "clusterIP"]).into(),
            external_addresses(service, kind).into(),
            if ports.is_empty() {
                NONE.into()
            } else {
                ports.join(",").into()
            },
            age(service, now),
            labels(at(service, &["spec", "selector"])).into(),
        ]
    },
};

fn external_addresses(service: &Value, kind: &str) -> String {
    if kind == "ExternalName" {
        return text_or_none(service, &["spec", "externalName"]).to_owned();
    }
    let mut addresses: Vec<&str> = list(service, &["status", "loadBalancer", "ingress"])
        .iter()
        .map(|ingress| match text(ingress, &["ip"]) {
            "" => text(ingress, &["hostname"]),
            address => address,
        })
        .collect();
    addresses.extend(
        list(service, &["spec", "externalIPs"])
            .iter()
            .filter_map(Value::as_str),
    );
    match (addresses.is_empty(), kind) {
        (false, _) => addresses.join(","),
        (true, "LoadBalancer") => "<pending>".to_owned(),
        (true, _) => NONE.to_owned(),
    }
}

const CONFIG_MAPS: Columns = Columns {
    headings: &[shown("Data", "How many entries there are."), AGE],
    row: |map, now| {
        vec![
            (entries(map, &["data"]) + entries(map, &["binaryData"])).into(),
            age(map, now),
        ]
    },
};

const SECRETS: Columns = Columns {
    headings: &[
        shown("Type", "What the secret is for."),
        shown("Data", "How many entries there are."),
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

const NAMESPACES: Columns = Columns {
    headings: &[
        shown("Status", "Whether the namespace is in use or going."),
        AGE,
    ],
    row: |namespace, now| {
        vec![
            text(namespace, &["status", "phase"]).into(),
            age(namespace, now),
        ]
    },
};

const NODES: Columns = Columns {
    headings: &[
        shown("Status", "Whether the node is ready."),
        shown("Roles", "Roles from the node's labels."),
        AGE,
        shown("Version", "Version of the kubelet."),
        wide("Internal-IP", "Address inside the cluster."),
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
        let roles: Vec<&str> = at(node, &["metadata", "labels"])
            .and_then(Value::as_object)
            .into_iter()
            .flat_map(|labels| labels.keys())
            .filter_map(|label| label.strip_prefix("node-role.kubernetes.io/"))
            .collect();
        let address = list(node, &["status", "addresses"])
            .iter()
            .find(|address| address["type"] == "InternalIP")
            .map_or(NONE, |address| text(address, &["address"]));
        vec![
            status.into(),
            if roles.is_empty() {
                NONE.into()
            } else {
                roles.join(",").into()
            },
            age(node, now),
            text(node, &["status", "nodeInfo", "kubeletVersion"]).into(),
            address.into(),
        ]
    },
};

const EVENTS: Columns = Columns {
    headings: &[
        shown("Last Seen", "Time since the event was last observed."),
        shown("Type", "Normal or Warning."),
        shown("Reason", "Why it happened, for programs."),
        shown("Object", "What it happened to."),
        shown("Message", "What happened, for people."),
    ],
    row: |event, now| {
        let seen = [
            "lastTimestamp",
            "deprecatedLastTimestamp",
            "eventTime",
            "firstTimestamp",
        ]
        .iter()
        .find_map(|field| event.get(*field).filter(|time| time.is_string()))
        .or_else(|| at(event, &["metadata", "creationTimestamp"]));
        let object = event
            .get("involvedObject")
            .or_else(|| event.get("regarding"));
        let object = object.map_or_else(String::new, |object| {
            format!(
                "{}/{}",
                text(object, &["kind"]).to_lowercase(),
                text(object, &["name"])
            )
        });
        let message = match text(event, &["message"]) {
            "" => text(event, &["note"]),
            message => message,
        };
        vec![
            since(seen, now).into(),
            text(event, &["type"]).into(),
            text(event, &["reason"]).into(),
            object.into(),
            message.trim().into(),
        ]
    },
};

const SERVICE_ACCOUNTS: Columns = Columns {
    headings: &[
        shown("Secrets", "How many secrets the account may use."),
        AGE,
    ],
    row: |account, now| vec![list(account, &["secrets"]).len().into(), age(account, now)],
};

const LEASES: Columns = Columns {
    headings: &[shown("Holder", "Who holds the lease."), AGE],
    row: |lease, now| {
        vec![
            text(lease, &["spec", "holderIdentity"]).into(),
            age(lease, now),
        ]
    },
};
