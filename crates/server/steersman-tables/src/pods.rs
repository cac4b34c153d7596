//! Machine: the columns of Pods: the state in one word, restarts, and others.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::age::since;
use super::cells::{NONE, at, containers, holds, is_set, labels, list, number, text, text_or_none};
use super::columns::{AGE, Columns, shown, wide};

pub(super) const PODS: Columns = Columns {
    headings: &[
        shown("Ready", "Number of ready and of all containers."),
        shown("Status", "State of the pod's containers, in one word."),
        shown("Restarts", "Number of restarts, and time since the last."),
        AGE,
        wide("IP", "Address of the pod."),
        wide("Node", "Node that runs the pod."),
        wide("Nominated Node", "Node that preemption frees for the pod."),
        wide("Readiness Gates", "Further conditions for readiness."),
    ],
    row: |pod, now| {
        let summary = Summary::of(pod);
        let address = list(pod, "status.podIPs")
            .first()
            .map_or(NONE, |address| text_or_none(address, "ip"));
        json!([
            format!("{}/{}", summary.ready, summary.containers),
            summary.word,
            restarts(summary.restarts, summary.last_restart.as_deref(), now),
            address,
            text_or_none(pod, "spec.nodeName"),
            text_or_none(pod, "status.nominatedNodeName"),
            gates(pod)
        ])
    },
};

pub(super) const POD_TEMPLATES: Columns = Columns {
    headings: &[
        shown("Containers", "Names of the containers of the template."),
        shown("Images", "Images of the containers of the template."),
        shown("Pod Labels", "Labels that the pods get."),
    ],
    row: |template, _| {
        let inner = at(template, "template").unwrap_or(&Value::Null);
        json!([
            containers(inner, "name"),
            containers(inner, "image"),
            labels(at(template, "template.metadata.labels"))
        ])
    },
};

fn restarts(count: i64, last: Option<&str>, now: Timestamp) -> String {
    match last {
        Some(last) if count != 0 => {
            format!("{count} ({} ago)", since(Some(&last.into()), now))
        }
        _ => count.to_string(),
    }
}

fn gates(pod: &Value) -> String {
    let gates = list(pod, "spec.readinessGates");
    if gates.is_empty() {
        return NONE.to_owned();
    }
    let is_met = |gate: &&Value| holds(pod, text(gate, "conditionType"));
    let met = gates.iter().filter(is_met).count();
    format!("{met}/{}", gates.len())
}

/// The state of a Pod, summed up from its containers.
#[derive(Debug)]
struct Summary {
    ready: usize,
    containers: usize,
    word: String,
    restarts: i64,
    last_restart: Option<String>,
}

impl Summary {
    /// Source: printPod in pkg/printers/internalversion/printers.go of Kubernetes.
    fn of(pod: &Value) -> Self {
        let phase = text(pod, "status.phase");
        let mut summary = Self {
            ready: 0,
            containers: list(pod, "spec.containers").len(),
            word: match text(pod, "status.reason") {
                "" => phase.to_owned(),
                reason => reason.to_owned(),
            },
            restarts: 0,
            last_restart: None,
        };
        if list(pod, "status.conditions").iter().any(|condition| {
            condition["type"] == "PodScheduled" && condition["reason"] == "SchedulingGated"
        }) {
            "SchedulingGated".clone_into(&mut summary.word);
        }
        let sidecars: Vec<&str> = list(pod, "spec.initContainers")
            .iter()
            .filter(|container| container["restartPolicy"] == "Always")
            .map(|container| text(container, "name"))
            .collect();
        summary.containers += sidecars.len();
        let (of_sidecars, initializing) = summary.initialize(pod, &sidecars);
        if !initializing || holds(pod, "Initialized") {
            (summary.restarts, summary.last_restart) = of_sidecars;
            summary.run(pod);
        }
        if is_set(pod, "metadata.deletionTimestamp") {
            if text(pod, "status.reason") == "NodeLost" {
                "Unknown".clone_into(&mut summary.word);
            } else if !matches!(phase, "Succeeded" | "Failed") {
                "Terminating".clone_into(&mut summary.word);
            }
        }
        summary
    }

    /// Reads the init containers up to the first that is not done. Returns the restarts of those
    /// that keep running, and whether an init container is not done.
    fn initialize(&mut self, pod: &Value, sidecars: &[&str]) -> ((i64, Option<String>), bool) {
        let mut of_sidecars = (0, None);
        let all = list(pod, "spec.initContainers").len();
        for (index, status) in list(pod, "status.initContainerStatuses").iter().enumerate() {
            let sidecar = sidecars.contains(&text(status, "name"));
            self.restarts += number(status, "restartCount");
            later(&mut self.last_restart, status);
            if sidecar {
                of_sidecars.0 += number(status, "restartCount");
                later(&mut of_sidecars.1, status);
            }
            let ended = at(status, "state.terminated").filter(|terminated| !terminated.is_null());
            let waiting = text(status, "state.waiting.reason");
            if ended.is_some_and(|ended| number(ended, "exitCode") == 0) {
                continue;
            }
            if sidecar && status["started"] == true {
                self.ready += usize::from(status["ready"] == true);
                continue;
            }
            self.word = match ended {
                Some(ended) => format!("Init:{}", end(ended)),
                None if !waiting.is_empty() && waiting != "PodInitializing" => {
                    format!("Init:{waiting}")
                }
                None => format!("Init:{index}/{all}"),
            };
            return (of_sidecars, true);
        }
        (of_sidecars, false)
    }

    /// Reads the main containers, the last first: the state of the first one counts.
    fn run(&mut self, pod: &Value) {
        let mut running = false;
        for status in list(pod, "status.containerStatuses").iter().rev() {
            self.restarts += number(status, "restartCount");
            later(&mut self.last_restart, status);
            let waiting = text(status, "state.waiting.reason");
            if !waiting.is_empty() {
                waiting.clone_into(&mut self.word);
            } else if is_set(status, "state.terminated") {
                self.word = end(&status["state"]["terminated"]);
            } else if status["ready"] == true && is_set(status, "state.running") {
                running = true;
                self.ready += 1;
            }
        }
        if self.word == "Completed" && running {
            self.word = if holds(pod, "Ready") {
                "Running".to_owned()
            } else {
                "NotReady".to_owned()
            };
        }
    }
}

/// Returns the reason why a container exited.
fn end(terminated: &Value) -> String {
    match (text(terminated, "reason"), number(terminated, "signal")) {
        ("", 0) => format!("ExitCode:{}", number(terminated, "exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

/// Keeps the later of a time and the container's last exit; the texts compare as times.
fn later(last: &mut Option<String>, status: &Value) {
    let end = text(status, "lastState.terminated.finishedAt");
    if !end.is_empty() && last.as_deref().is_none_or(|last| last < end) {
        *last = Some(end.to_owned());
    }
}
