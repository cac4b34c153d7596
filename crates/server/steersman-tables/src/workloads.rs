//! Machine: the columns of workload kinds.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::age::{human, since};
use super::cells::{
    NONE, UNSET, at, containers, holds, is_set, labels, list, number, selector, text, text_or,
};
use super::columns::{AGE, CONTAINERS, Columns, Heading, IMAGES, SELECTOR, age, shown};

const TEMPLATE: [&str; 4] = ["spec", "template", "spec", "containers"];

/// The columns of Deployments.
pub(super) const DEPLOYMENTS: Columns = Columns {
    headings: &[
        shown("Ready", "Number of ready pods, and of desired pods."),
        shown("Up-to-date", "Pods of the newest template."),
        shown("Available", "Number of available pods."),
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

/// The columns of ReplicaSets and ReplicationControllers.
pub(super) const REPLICA_SETS: Columns = Columns {
    headings: &[
        shown("Desired", "Number of desired pods.").integer(),
        shown("Current", "Number of existing pods.").integer(),
        shown("Ready", "Pods that are ready.").integer(),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ],
    row: |set, now| {
        let chosen = at(set, &["spec", "selector"]);
        // The selector of a ReplicationController is a plain map of labels.
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

/// The columns of StatefulSets.
pub(super) const STATEFUL_SETS: Columns = Columns {
    headings: &[
        shown("Ready", "Number of ready pods, and of desired pods."),
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

/// The columns of DaemonSets.
pub(super) const DAEMON_SETS: Columns = Columns {
    headings: &[
        shown("Desired", "Nodes that should run a pod.").integer(),
        shown("Current", "Nodes that run a pod and should.").integer(),
        shown("Ready", "Nodes with a ready pod.").integer(),
        shown("Up-to-date", "Nodes with a pod of the newest template.").integer(),
        shown("Available", "Nodes with an available pod.").integer(),
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

/// The columns of Jobs.
pub(super) const JOBS: Columns = Columns {
    headings: &[
        shown("Status", "Whether the job runs, is complete or failed."),
        shown(
            "Completions",
            "Number of succeeded pods, and of desired ones.",
        ),
        shown("Duration", "Time since the job started, or until it ended."),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ],
    row: |job, now| {
        vec![
            job_status(job).into(),
            completions(job).into(),
            duration(job, now).into(),
            age(job, now),
            containers(job, &TEMPLATE, "name").into(),
            containers(job, &TEMPLATE, "image").into(),
            selector(at(job, &["spec", "selector"])).into(),
        ]
    },
};

fn job_status(job: &Value) -> &'static str {
    if holds(job, "Complete") {
        "Complete"
    } else if holds(job, "Failed") {
        "Failed"
    } else if is_set(job, &["metadata", "deletionTimestamp"]) {
        "Terminating"
    } else if holds(job, "Suspended") {
        "Suspended"
    } else if holds(job, "FailureTarget") {
        "FailureTarget"
    } else {
        "Running"
    }
}

fn completions(job: &Value) -> String {
    let ended = number(job, &["status", "succeeded"]);
    let wanted = at(job, &["spec", "completions"]).and_then(Value::as_i64);
    match (wanted, number(job, &["spec", "parallelism"])) {
        (Some(wanted), _) => format!("{ended}/{wanted}"),
        (None, at_once) if at_once > 1 => format!("{ended}/1 of {at_once}"),
        (None, _) => format!("{ended}/1"),
    }
}

fn duration(job: &Value, now: Timestamp) -> String {
    let moment = |name: &str| text(job, &["status", name]).parse::<Timestamp>().ok();
    moment("startTime").map_or_else(String::new, |start| {
        let end = moment("completionTime").unwrap_or(now);
        human(end.as_second().saturating_sub(start.as_second()))
    })
}

/// The columns of CronJobs.
pub(super) const CRON_JOBS: Columns = Columns {
    headings: &[
        shown("Schedule", "Times at which jobs start, in cron's notation."),
        shown("Timezone", "Time zone of the schedule."),
        shown("Suspend", "Whether the schedule is suspended.").boolean(),
        shown("Active", "Jobs that run.").integer(),
        shown("Last Schedule", "Time since the last job started."),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ],
    row: |job, now| {
        let last = at(job, &["status", "lastScheduleTime"]).filter(|moment| !moment.is_null());
        let inner = at(job, &["spec", "jobTemplate"]).unwrap_or(&Value::Null);
        let suspended = match at(job, &["spec", "suspend"]) {
            Some(Value::Bool(true)) => "True",
            Some(Value::Bool(false)) => "False",
            _ => UNSET,
        };
        vec![
            text(job, &["spec", "schedule"]).into(),
            text_or(job, &["spec", "timeZone"], NONE).into(),
            suspended.into(),
            list(job, &["status", "active"]).len().into(),
            last.map_or_else(|| json!(NONE), |_| since(last, now).into()),
            age(job, now),
            containers(inner, &TEMPLATE, "name").into(),
            containers(inner, &TEMPLATE, "image").into(),
            selector(at(inner, &["spec", "selector"])).into(),
        ]
    },
};

/// The columns of ControllerRevisions.
pub(super) const CONTROLLER_REVISIONS: Columns = Columns {
    headings: &[
        shown("Controller", "Owner of the revision."),
        shown("Revision", "Number of the revision."),
        AGE,
    ],
    row: |revision, now| {
        let owner = list(revision, &["metadata", "ownerReferences"])
            .iter()
            .find(|owner| owner["controller"] == true);
        let owner = owner.map_or_else(
            || NONE.to_owned(),
            |owner| {
                let kind = text(owner, &["kind"]).to_lowercase();
                let name = text(owner, &["name"]);
                match text(owner, &["apiVersion"]).split_once('/') {
                    Some((group, _)) => format!("{kind}.{group}/{name}"),
                    None => format!("{kind}/{name}"),
                }
            },
        );
        vec![
            owner.into(),
            number(revision, &["revision"]).into(),
            age(revision, now),
        ]
    },
};

/// The columns of the scales of all other kinds. Their name column has no format.
pub(super) const SCALES: Columns = Columns {
    headings: &[
        Heading {
            format: "",
            ..Heading::NAME
        },
        shown("Desired", "Number of desired pods.").integer(),
        shown("Available", "Number of existing pods.").integer(),
        AGE,
    ],
    row: |scale, now| {
        vec![
            text(scale, &["metadata", "name"]).into(),
            number(scale, &["spec", "replicas"]).into(),
            number(scale, &["status", "replicas"]).into(),
            age(scale, now),
        ]
    },
};
