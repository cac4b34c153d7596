//! Machine: the columns of workload kinds.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::age::{human, since};
use super::cells::{NONE, UNSET, at, holds, is_set, labels, list, number, text, text_or};
use super::columns::{AGE, CONTAINERS, Columns, Heading, IMAGES, SELECTOR, shown};

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
    row: |deployment, _| {
        let ready = number(deployment, "status.readyReplicas");
        json!([
            format!("{ready}/{}", number(deployment, "spec.replicas")),
            number(deployment, "status.updatedReplicas"),
            number(deployment, "status.availableReplicas")
        ])
    },
};

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
    row: |set, _| {
        let counts = ["spec.replicas", "status.replicas", "status.readyReplicas"];
        json!(counts.map(|path| number(set, path)))
    },
};

pub(super) const STATEFUL_SETS: Columns = Columns {
    headings: &[
        shown("Ready", "Number of ready pods, and of desired pods."),
        AGE,
        CONTAINERS,
        IMAGES,
    ],
    row: |set, _| {
        let ready = number(set, "status.readyReplicas");
        json!([format!("{ready}/{}", number(set, "spec.replicas"))])
    },
};

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
    row: |set, _| {
        json!([
            number(set, "status.desiredNumberScheduled"),
            number(set, "status.currentNumberScheduled"),
            number(set, "status.numberReady"),
            number(set, "status.updatedNumberScheduled"),
            number(set, "status.numberAvailable"),
            labels(at(set, "spec.template.spec.nodeSelector"))
        ])
    },
};

pub(super) const JOBS: Columns = Columns {
    headings: &[
        shown("Status", "Whether the job runs, is complete or failed."),
        shown("Completions", "Number of succeeded and desired pods."),
        shown("Duration", "Time since the job started, or until it ended."),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ],
    row: |job, now| json!([job_status(job), completions(job), duration(job, now)]),
};

fn job_status(job: &Value) -> &'static str {
    if holds(job, "Complete") {
        "Complete"
    } else if holds(job, "Failed") {
        "Failed"
    } else if is_set(job, "metadata.deletionTimestamp") {
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
    let ended = number(job, "status.succeeded");
    let wanted = at(job, "spec.completions").and_then(Value::as_i64);
    match (wanted, number(job, "spec.parallelism")) {
        (Some(wanted), _) => format!("{ended}/{wanted}"),
        (None, at_once) if at_once > 1 => format!("{ended}/1 of {at_once}"),
        (None, _) => format!("{ended}/1"),
    }
}

fn duration(job: &Value, now: Timestamp) -> String {
    let moment = |name: &str| text(&job["status"], name).parse::<Timestamp>().ok();
    moment("startTime").map_or_else(String::new, |start| {
        let end = moment("completionTime").unwrap_or(now);
        human(end.as_second().saturating_sub(start.as_second()))
    })
}

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
        let last = at(job, "status.lastScheduleTime").filter(|moment| !moment.is_null());
        let suspended = match at(job, "spec.suspend") {
            Some(Value::Bool(true)) => "True",
            Some(Value::Bool(false)) => "False",
            _ => UNSET,
        };
        json!([
            text(job, "spec.schedule"),
            text_or(job, "spec.timeZone", NONE),
            suspended,
            list(job, "status.active").len(),
            last.map_or_else(|| NONE.to_owned(), |_| since(last, now))
        ])
    },
};

pub(super) const CONTROLLER_REVISIONS: Columns = Columns {
    headings: &[
        shown("Controller", "Owner of the revision."),
        shown("Revision", "Number of the revision."),
        AGE,
    ],
    row: |revision, _| {
        let owner = list(revision, "metadata.ownerReferences")
            .iter()
            .find(|owner| owner["controller"] == true);
        let owner = owner.map(|owner| {
            let (kind, name) = (text(owner, "kind").to_lowercase(), text(owner, "name"));
            match text(owner, "apiVersion").split_once('/') {
                Some((group, _)) => format!("{kind}.{group}/{name}"),
                None => format!("{kind}/{name}"),
            }
        });
        json!([
            owner.as_deref().unwrap_or(NONE),
            number(revision, "revision")
        ])
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
    row: |scale, _| {
        json!([
            text(scale, "metadata.name"),
            number(scale, "spec.replicas"),
            number(scale, "status.replicas")
        ])
    },
};
