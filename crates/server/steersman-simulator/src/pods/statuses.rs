//! Machine: builds the Pod statuses that a kubelet reports.

use serde_json::{Value, json};

use crate::state::facts::{
    annotation, condition as find_condition, is_condition_true, items, number, pseudo_random, text,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ContainersState {
    Creating,
    Running,
    /// The containers run, but their Pod is not ready.
    Unready,
    /// The containers exited with code 0, and the Pod succeeded.
    Succeeded,
    /// The containers exited with this code, which is not 0, and the Pod failed.
    Failed(i64),
    /// The containers were stopped because the Pod is deleted.
    Killed,
    /// The containers exited, after this number of restarts, and wait for the next restart.
    CrashLoop(i64),
    /// The images of the containers cannot be pulled.
    ImagePull,
}

impl ContainersState {
    /// Returns the end state for the exit code in the Pod's annotation [`EXIT_CODE`](crate::options::EXIT_CODE); for
    /// `code` if the annotation is absent or not a number from 0 to 255.
    pub(crate) fn ended(pod: &Value, code: i64) -> Self {
        match exit_code(pod).unwrap_or(code) {
            0 => Self::Succeeded,
            code => Self::Failed(code),
        }
    }

    /// Returns whether the containers have exited and are not restarted.
    fn is_over(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed(_) | Self::Killed)
    }
}

fn exit_code(pod: &Value) -> Option<i64> {
    let code = annotation(pod, crate::options::EXIT_CODE).parse();
    code.ok().filter(|code| (0..=255).contains(code))
}

pub(crate) fn pod_address(number: u32) -> String {
    // The range from 10.244.0.0 to 10.255.255.255 has addresses for 786,000 Pods; then the addresses repeat.
    let [_, b, c, d] = (number % 0x000c_0000).to_be_bytes();
    format!("10.{}.{c}.{d}", 244 + b)
}

pub(crate) fn status(
    pod: &Value,
    containers_state: ContainersState,
    addresses: (&str, &str),
    now: &str,
) -> Value {
    let (host, own) = addresses;
    let old = &pod["status"];
    let mut status = Value::Object(old.as_object().cloned().unwrap_or_default());
    let (phase, ready) = match containers_state {
        ContainersState::Creating | ContainersState::ImagePull => ("Pending", false),
        ContainersState::Running => ("Running", true),
        ContainersState::Unready | ContainersState::CrashLoop(_) => ("Running", false),
        ContainersState::Succeeded => ("Succeeded", false),
        ContainersState::Failed(_) | ContainersState::Killed => ("Failed", false),
    };
    status["phase"] = json!(phase);
    status["hostIP"] = json!(host);
    status["hostIPs"] = json!([{"ip": host}]);
    if containers_state != ContainersState::Creating {
        status["podIP"] = json!(own);
        status["podIPs"] = json!([{"ip": own}]);
    }
    if status.get("startTime").is_none() {
        status["startTime"] = json!(now);
    }
    observe_generation(&mut status, pod);
    status["conditions"] = conditions(pod, containers_state, ready, now);
    for (list, field, init) in [
        ("containers", "containerStatuses", false),
        ("initContainers", "initContainerStatuses", true),
    ] {
        let containers = items(&pod["spec"][list]);
        let container_statuses: Vec<Value> = containers
            .map(|container| {
                let known = items(&old[field]).find(|one| one["name"] == container["name"]);
                let known = known.unwrap_or(&Value::Null);
                container_status(pod, container, known, (containers_state, init), now)
            })
            .collect();
        if !container_statuses.is_empty() {
            status[field] = Value::Array(container_statuses);
        }
    }
    status
}

/// Sets `observedGeneration` in a Pod's status or condition to the Pod's generation, if the Pod has one.
fn observe_generation(written: &mut Value, pod: &Value) {
    let generation = &pod["metadata"]["generation"];
    if !generation.is_null() {
        written["observedGeneration"] = generation.clone();
    }
}

/// Builds the conditions in a Pod's status. Conditions of types that a kubelet does not write stay.
fn conditions(pod: &Value, containers_state: ContainersState, ready: bool, now: &str) -> Value {
    let names: Vec<&str> = items(&pod["spec"]["containers"])
        .map(|container| text(container, "name"))
        .collect();
    let unready = format!("containers with unready status: [{}]", names.join(" "));
    let (reason, message) = match containers_state {
        ContainersState::Succeeded => ("PodCompleted", ""),
        ContainersState::Failed(_) | ContainersState::Killed => ("PodFailed", ""),
        _ => ("ContainersNotReady", unready.as_str()),
    };
    let sandboxed = containers_state != ContainersState::Creating && !containers_state.is_over();
    let gates_open = items(&pod["spec"]["readinessGates"])
        .all(|gate| is_condition_true(pod, text(gate, "conditionType")));
    let ready_state = if ready && !gates_open {
        let why = "the status of pod readiness gate is not \"True\", but False";
        (false, "ReadinessGatesNotReady", why)
    } else {
        (ready, reason, message)
    };
    let all = [
        ("PodReadyToStartContainers", (sandboxed, "", "")),
        ("Initialized", (true, "", "")),
        ("Ready", ready_state),
        ("ContainersReady", (ready, reason, message)),
        ("PodScheduled", (true, "", "")),
    ];
    let own = all.map(|(kind, state)| condition(pod, kind, state, now));
    let others = items(&pod["status"]["conditions"])
        .filter(|one| !all.iter().any(|(kind, _)| one["type"] == **kind));
    let mut list: Vec<Value> = own.into_iter().chain(others.cloned()).collect();
    if containers_state == ContainersState::Succeeded {
        list[1]["reason"] = json!("PodCompleted");
    }
    Value::Array(list)
}

/// Builds one condition of a Pod. The transition time stays while the status does. A true condition has no reason.
pub(super) fn condition(
    pod: &Value,
    kind: &str,
    (is_true, reason, message): (bool, &str, &str),
    now: &str,
) -> Value {
    let status = if is_true { "True" } else { "False" };
    let same = find_condition(pod, kind).filter(|one| one["status"] == status);
    let since = same.and_then(|one| one["lastTransitionTime"].as_str());
    let mut condition = json!({
        "type": kind,
        "status": status,
        "lastProbeTime": null,
        "lastTransitionTime": since.unwrap_or(now),
    });
    observe_generation(&mut condition, pod);
    for (field, text) in [("reason", reason), ("message", message)] {
        if !is_true && !text.is_empty() {
            condition[field] = json!(text);
        }
    }
    condition
}

fn container_status(
    pod: &Value,
    container: &Value,
    known: &Value,
    (containers_state, init): (ContainersState, bool),
    now: &str,
) -> Value {
    let (name, image) = (text(container, "name"), text(container, "image"));
    let uid = text(&pod["metadata"], "uid");
    let (high, low) = (pseudo_random(&[uid, name]), pseudo_random(&[name, uid]));
    let id = format!("containerd://{high:016x}{low:016x}");
    let begun = known["state"]["running"]["startedAt"].as_str();
    let times = (begun.unwrap_or(now), now);
    let stage = (containers_state, init);
    let state = state(pod, container, known, stage, (&id, times));
    let crash = match containers_state {
        ContainersState::CrashLoop(count) if !init => {
            let code = exit_code(pod).filter(|code| *code != 0).unwrap_or(1);
            Some((count, ended(code, &id, times)))
        }
        _ => None,
    };
    let (restarts, last) = crash.unwrap_or_else(|| {
        let last = known["lastState"].as_object().cloned();
        let last = Value::Object(last.unwrap_or_default());
        (number(&known["restartCount"], 0), last)
    });
    let made = match containers_state {
        ContainersState::Creating => false,
        ContainersState::ImagePull => init,
        _ => true,
    };
    let image_id = if made {
        format!("{image}@sha256:{}", digest(image))
    } else {
        String::new()
    };
    let ready = if init {
        made
    } else {
        containers_state == ContainersState::Running
    };
    let mut status = json!({
        "name": name,
        "state": state,
        "lastState": last,
        "ready": ready,
        "restartCount": restarts,
        "image": image,
        "imageID": image_id,
        "started": !init && matches!(containers_state, ContainersState::Running | ContainersState::Unready),
    });
    if made {
        status["containerID"] = json!(id);
    }
    status
}

fn ended(code: i64, id: &str, (begun, now): (&str, &str)) -> Value {
    let reason = if code == 0 { "Completed" } else { "Error" };
    json!({"terminated": {
        "exitCode": code, "reason": reason,
        "startedAt": begun, "finishedAt": now, "containerID": id,
    }})
}

fn state(
    pod: &Value,
    container: &Value,
    known: &Value,
    (containers_state, init): (ContainersState, bool),
    (id, times): (&str, (&str, &str)),
) -> Value {
    match containers_state {
        ContainersState::Creating if init => json!({"waiting": {"reason": "PodInitializing"}}),
        ContainersState::Creating => json!({"waiting": {"reason": "ContainerCreating"}}),
        _ if init && known["state"]["terminated"].is_object() => known["state"].clone(),
        _ if init => ended(0, id, times),
        ContainersState::Running | ContainersState::Unready => {
            json!({"running": {"startedAt": times.0}})
        }
        ContainersState::Succeeded => ended(0, id, times),
        ContainersState::Failed(code) => ended(code, id, times),
        ContainersState::Killed => ended(143, id, times),
        ContainersState::CrashLoop(count) => {
            let seconds = crash_delay(count);
            let wait = if seconds < 60 {
                format!("{seconds}s")
            } else {
                format!("{}m{}s", seconds / 60, seconds % 60)
            };
            let fields = ["name", "namespace", "uid"];
            let [own, namespace, uid] = fields.map(|field| text(&pod["metadata"], field));
            let container = text(container, "name");
            let message = format!(
                "back-off {wait} restarting failed container={container} pod={own}_{namespace}({uid})"
            );
            json!({"waiting": {"reason": "CrashLoopBackOff", "message": message}})
        }
        ContainersState::ImagePull => {
            let message = format!("Back-off pulling image \"{}\"", text(container, "image"));
            json!({"waiting": {"reason": "ImagePullBackOff", "message": message}})
        }
    }
}

/// Returns the delay, in seconds, before the next restart after `count` restarts: 10, 20, 40, … up to 300.
pub(crate) fn crash_delay(count: i64) -> i64 {
    let doubled = u32::try_from(count.clamp(0, 10)).unwrap_or(0);
    10_i64.saturating_mul(1 << doubled).min(300)
}

pub(crate) fn restarts(pod: &Value) -> i64 {
    number(&pod["status"]["containerStatuses"][0]["restartCount"], 0)
}

/// Returns an invented digest, because no image is pulled. Equal names of images have equal digests.
fn digest(image: &str) -> String {
    let parts = ["a", "b", "c", "d"].map(|salt| pseudo_random(&[salt, image]));
    parts.iter().map(|part| format!("{part:016x}")).collect()
}

/// Returns why the first container of a Pod waits, such as `CrashLoopBackOff`; empty if it does not wait.
pub(crate) fn waiting_reason(pod: &Value) -> &str {
    let state = &pod["status"]["containerStatuses"][0]["state"];
    text(&state["waiting"], "reason")
}
