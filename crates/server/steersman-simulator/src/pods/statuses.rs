//! Machine: the Pod statuses that a kubelet reports.

use serde_json::{Value, json};

use crate::state::facts::{annotation, number, pseudo_random, text};

/// The state of a Pod's containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ContainersState {
    /// About to start.
    Creating,
    /// Running and ready.
    Running,
    /// Running and not ready.
    Unready,
    /// Exited with 0.
    Succeeded,
    /// Exited with this code, which is not 0.
    Failed(i64),
    /// Stopped on request.
    Killed,
    /// Exited, and waiting before this restart.
    CrashLoop(i64),
    /// Images cannot be pulled.
    ImagePull,
}

impl ContainersState {
    /// Returns the end state with the exit code of the Pod's annotation, or else with this one.
    pub(crate) fn ended(pod: &Value, code: i64) -> Self {
        match exit_code(pod).unwrap_or(code) {
            0 => Self::Succeeded,
            code => Self::Failed(code),
        }
    }

    /// Returns whether the containers are stopped for good.
    fn is_over(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed(_) | Self::Killed)
    }
}

/// Returns the exit code of the Pod's annotation.
fn exit_code(pod: &Value) -> Option<i64> {
    let code = annotation(pod, crate::options::EXIT_CODE).parse();
    code.ok().filter(|code| (0..=255).contains(code))
}

/// Returns the address of the Pod with this number.
pub(crate) fn pod_address(number: u32) -> String {
    // Addresses from 10.244.0.0 to 10.255.255.255: room for 786,000 Pods.
    let [_, b, c, d] = (number % 0x000c_0000).to_be_bytes();
    format!("10.{}.{c}.{d}", 244 + b)
}

/// Builds the status of a Pod with containers in this state.
pub(crate) fn status(
    pod: &Value,
    containers_state: ContainersState,
    addresses: (&str, &str),
    now: &str,
) -> Value {
    let (host, own) = addresses;
    let old = &pod["status"];
    let mut status = old.as_object().cloned().unwrap_or_default();
    let (phase, ready) = match containers_state {
        ContainersState::Creating | ContainersState::ImagePull => ("Pending", false),
        ContainersState::Running => ("Running", true),
        ContainersState::Unready | ContainersState::CrashLoop(_) => ("Running", false),
        ContainersState::Succeeded => ("Succeeded", false),
        ContainersState::Failed(_) | ContainersState::Killed => ("Failed", false),
    };
    status.insert("phase".to_owned(), json!(phase));
    status.insert("hostIP".to_owned(), json!(host));
    status.insert("hostIPs".to_owned(), json!([{"ip": host}]));
    if containers_state != ContainersState::Creating {
        status.insert("podIP".to_owned(), json!(own));
        status.insert("podIPs".to_owned(), json!([{"ip": own}]));
    }
    status.entry("startTime").or_insert_with(|| json!(now));
    let generation = &pod["metadata"]["generation"];
    if !generation.is_null() {
        status.insert("observedGeneration".to_owned(), generation.clone());
    }
    status.insert(
        "conditions".to_owned(),
        conditions(pod, containers_state, ready, now),
    );
    for (list, field, init) in [
        ("containers", "containerStatuses", false),
        ("initContainers", "initContainerStatuses", true),
    ] {
        let containers = pod["spec"][list].as_array().into_iter().flatten();
        let container_statuses: Vec<Value> = containers
            .map(|container| {
                let known = old[field].as_array().into_iter().flatten();
                let mut known = known.filter(|one| one["name"] == container["name"]);
                let known = known.next().unwrap_or(&Value::Null);
                container_status(pod, container, known, (containers_state, init), now)
            })
            .collect();
        if !container_statuses.is_empty() {
            status.insert(field.to_owned(), Value::Array(container_statuses));
        }
    }
    Value::Object(status)
}

/// Builds the conditions of a Pod. Conditions of other writers stay, and an unchanged condition
/// keeps its transition time.
fn conditions(pod: &Value, containers_state: ContainersState, ready: bool, now: &str) -> Value {
    let names: Vec<&str> = pod["spec"]["containers"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|container| text(container, "name"))
        .collect();
    let unready = format!("containers with unready status: [{}]", names.join(" "));
    let (reason, message) = match containers_state {
        ContainersState::Succeeded => ("PodCompleted", ""),
        ContainersState::Failed(_) | ContainersState::Killed => ("PodFailed", ""),
        _ => ("ContainersNotReady", unready.as_str()),
    };
    let begun = containers_state != ContainersState::Creating;
    let gates = pod["spec"]["readinessGates"].as_array();
    let gates_open = gates
        .into_iter()
        .flatten()
        .all(|gate| crate::state::facts::is_condition_true(pod, text(gate, "conditionType")));
    let condition_state = |is_true: bool, reason: &'static str, message: &str| {
        if is_true {
            (true, "", String::new())
        } else {
            (false, reason, message.to_owned())
        }
    };
    let ready_state = if ready && !gates_open {
        let why = "the status of pod readiness gate is not \"True\", but False";
        (false, "ReadinessGatesNotReady", why.to_owned())
    } else {
        condition_state(ready, reason, message)
    };
    let initialized = if containers_state == ContainersState::Succeeded {
        (true, "PodCompleted", String::new())
    } else {
        (true, "", String::new())
    };
    let all = [
        (
            "PodReadyToStartContainers",
            condition_state(begun && !containers_state.is_over(), "", ""),
        ),
        ("Initialized", initialized),
        ("Ready", ready_state),
        ("ContainersReady", condition_state(ready, reason, message)),
        ("PodScheduled", (true, "", String::new())),
    ];
    let known = pod["status"]["conditions"].as_array();
    let known: Vec<&Value> = known.into_iter().flatten().collect();
    let mut list: Vec<Value> = Vec::with_capacity(all.len() + known.len());
    for (kind, (is_true, reason, message)) in &all {
        let before = known.iter().find(|one| one["type"] == **kind).copied();
        let generation = &pod["metadata"]["generation"];
        let state = (*is_true, *reason, message.as_str());
        list.push(condition(kind, state, before, generation, now));
    }
    let others = known
        .into_iter()
        .filter(|one| !all.iter().any(|(kind, _)| one["type"] == **kind));
    list.extend(others.cloned());
    Value::Array(list)
}

/// Builds one condition; its time is kept if the status is as `before`.
fn condition(
    kind: &str,
    (is_true, reason, message): (bool, &str, &str),
    before: Option<&Value>,
    generation: &Value,
    now: &str,
) -> Value {
    let status = if is_true { "True" } else { "False" };
    let same = before.filter(|one| one["status"] == status);
    let since = same.and_then(|one| one["lastTransitionTime"].as_str());
    let mut condition = json!({"type": kind});
    if !generation.is_null() {
        condition["observedGeneration"] = generation.clone();
    }
    condition["status"] = json!(status);
    condition["lastProbeTime"] = Value::Null;
    condition["lastTransitionTime"] = json!(since.unwrap_or(now));
    for (field, text) in [("reason", reason), ("message", message)] {
        if !text.is_empty() {
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
    let state = state(
        pod,
        container,
        known,
        (containers_state, init),
        (&id, times),
    );
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

/// Builds the state of a container that exited with this code.
fn ended(code: i64, id: &str, (begun, now): (&str, &str)) -> Value {
    let reason = if code == 0 { "Completed" } else { "Error" };
    json!({"terminated": {
        "exitCode": code, "reason": reason,
        "startedAt": begun, "finishedAt": now, "containerID": id,
    }})
}

/// Builds the current state of a container.
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

/// Returns the seconds of delay before the restart of a container that exited `count` times.
pub(crate) fn crash_delay(count: i64) -> i64 {
    let doubled = u32::try_from(count.clamp(0, 10)).unwrap_or(0);
    10_i64.saturating_mul(1 << doubled).min(300)
}

/// Returns the number of restarts of the Pod's containers.
pub(crate) fn restarts(pod: &Value) -> i64 {
    number(&pod["status"]["containerStatuses"][0]["restartCount"], 0)
}

/// Returns a fake image digest, always the same for the same image.
fn digest(image: &str) -> String {
    let parts = ["a", "b", "c", "d"].map(|salt| pseudo_random(&[salt, image]));
    parts.iter().map(|part| format!("{part:016x}")).collect()
}

/// Returns the reason for which the containers of a Pod wait; empty if they do not wait.
pub(crate) fn waiting_reason(pod: &Value) -> &str {
    text(
        &pod["status"]["containerStatuses"][0]["state"]["waiting"],
        "reason",
    )
}
