//! Machine: the columns of the kinds that run pods.

use serde_json::{Value, json};

use super::age::since;
use super::cells::{NONE, at, containers, labels, list, number, selector, text};
use super::columns::{AGE, CONTAINERS, Columns, IMAGES, SELECTOR, age, shown};

const TEMPLATE: [&str; 4] = ["spec", "template", "spec", "containers"];

/// Deployments.
pub(super) const DEPLOYMENTS: Columns = Columns {
    headings: &[
        shown("Ready", "Pods that are ready, of those wanted."),
        shown("Up-to-date", "Pods of the newest template."),
        shown("Available", "Pods that have been ready long enough."),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ],
    row: |deployment, now| {
        let ready = number(deployment, &["status", "readyReplicas"]);
        vec![
            format!("{ready}/{}", number(deployment, &["spec", "replicas"])).into(),
            number(deployment, &["status", "updatedReplicas"]).into(),
            number(deployment, &["status", "availableReplicas"]).into(),
            age(deployment, now),
            containers(deployment, &TEMPLATE, "name").into(),
            containers(deployment, &TEMPLATE, "image").into(),
            selector(at(deployment, &["spec", "selector"])).into(),
        ]
    },
};

/// ReplicaSets and ReplicationControllers.
pub(super) const REPLICA_SETS: Columns = Columns {
    headings: &[
        shown("Desired", "Pods wanted."),
        shown("Current", "Pods there are."),
        shown("Ready", "Pods that are ready."),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ],
    row: |set, now| {
        let chosen = at(set, &["spec", "selector"]);
        // A ReplicationController's selector is a plain map of labels.
        let chosen = match chosen.and_then(|chosen| chosen.get("matchLabels")) {
            Some(_) => selector(chosen),
            None => labels(chosen),
        };
        vec![
            number(set, &["spec", "replicas"]).into(),
            number(set, &["status", "replicas"]).into(),
            number(set, &["status", "readyReplicas"]).into(),
            age(set, now),
            containers(set, &TEMPLATE, "name").into(),
            containers(set, &TEMPLATE, "image").into(),
            chosen.into(),
        ]
    },
};

/// StatefulSets.
pub(super) const STATEFUL_SETS: Columns = Columns {
    headings: &[
        shown("Ready", "Pods that are ready, of those wanted."),
        AGE,
        CONTAINERS,
        IMAGES,
    ],
    row: |set, now| {
        let ready = number(set, &["status", "readyReplicas"]);
        vec![
            format!("{ready}/{}", number(set, &["spec", "replicas"])).into(),
            age(set, now),
            containers(set, &TEMPLATE, "name").into(),
            containers(set, &TEMPLATE, "image").into(),
        ]
    },
};

/// DaemonSets.
pub(super) const DAEMON_SETS: Columns = Columns {
    headings: &[
        shown("Desired", "Nodes that should run a pod."),
        shown("Current", "Nodes that run a pod and should."),
        shown("Ready", "Nodes whose pod is ready."),
        shown("Up-to-date", "Nodes whose pod is of the newest template."),
        shown("Available", "Nodes whose pod has been ready long enough."),
        shown("Node Selector", "Labels of the nodes."),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ],
    row: |set, now| {
        vec![
            number(set, &["status", "desiredNumberScheduled"]).into(),
            number(set, &["status", "currentNumberScheduled"]).into(),
            number(set, &["status", "numberReady"]).into(),
            number(set, &["status", "updatedNumberScheduled"]).into(),
            number(set, &["status", "numberAvailable"]).into(),
            labels(at(set, &["spec", "template", "spec", "nodeSelector"])).into(),
            age(set, now),
            containers(set, &TEMPLATE, "name").into(),
            containers(set, &TEMPLATE, "image").into(),
            selector(at(set, &["spec", "selector"])).into(),
        ]
    },
};

/// Jobs.
pub(super) const JOBS: Columns = Columns {
    headings: &[
        shown("Status", "Whether the job runs, is complete or failed."),
        shown("Completions", "Pods that ended well, of those wanted."),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ],
    row: |job, now| {
        let holds = |kind: &str| {
            list(job, &["status", "conditions"])
                .iter()
                .any(|condition| condition["type"] == kind && condition["status"] == "True")
        };
        let status = ["Complete", "Failed", "Suspended"]
            .into_iter()
            .find(|kind| holds(kind));
        let wanted = at(job, &["spec", "completions"])
            .and_then(Value::as_i64)
            .unwrap_or(1);
        vec![
            status.unwrap_or("Running").into(),
            format!("{}/{wanted}", number(job, &["status", "succeeded"])).into(),
            age(job, now),
            containers(job, &TEMPLATE, "name").into(),
            containers(job, &TEMPLATE, "image").into(),
            selector(at(job, &["spec", "selector"])).into(),
        ]
    },
};

/// CronJobs.
pub(super) const CRON_JOBS: Columns = Columns {
    headings: &[
        shown("Schedule", "When jobs start, in cron's notation."),
        shown("Suspend", "Whether no jobs start."),
        shown("Active", "Jobs that run."),
        shown("Last Schedule", "Time since the last job started."),
        AGE,
    ],
    row: |job, now| {
        let last = at(job, &["status", "lastScheduleTime"]);
        let suspended = at(job, &["spec", "suspend"]) == Some(&Value::Bool(true));
        vec![
            text(job, &["spec", "schedule"]).into(),
            if suspended { "True" } else { "False" }.into(),
            list(job, &["status", "active"]).len().into(),
            last.map_or_else(|| json!(NONE), |_| since(last, now).into()),
            age(job, now),
        ]
    },
};
