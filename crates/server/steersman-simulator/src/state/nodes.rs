//! Machine: the scheduler's choice of a node for a Pod.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::facts::{cloned_items, items, text};

/// The key of the taint that stands for `spec.unschedulable` of a cordoned Node.
pub(crate) const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct NodeFacts {
    name: String,
    labels: Map<String, Value>,
    /// The taints in the spec, and for a cordoned Node, as the last, the taint [`UNSCHEDULABLE`].
    taints: Vec<Value>,
}

impl NodeFacts {
    pub(crate) fn of(node: &Value) -> Self {
        let labels = node["metadata"]["labels"].as_object();
        let mut taints = cloned_items(&node["spec"]["taints"]);
        if node["spec"]["unschedulable"] == true {
            taints.push(json!({"key": UNSCHEDULABLE, "effect": "NoSchedule"}));
        }
        Self {
            name: text(&node["metadata"], "name").to_owned(),
            labels: labels.cloned().unwrap_or_default(),
            taints,
        }
    }

    /// Returns why a Pod with this spec does not fit the node; `None` if it fits.
    pub(crate) fn refuses(&self, spec: &Value) -> Option<String> {
        if !self.is_selected(spec) {
            return Some("node(s) didn't match Pod's node affinity/selector".to_owned());
        }
        let mut taints = self.taints.iter();
        let taint = taints.find(|taint| {
            matches!(text(taint, "effect"), "NoSchedule" | "NoExecute") && !tolerates(spec, taint)
        })?;
        let (key, value) = (text(taint, "key"), text(taint, "value"));
        if key == UNSCHEDULABLE {
            return Some("node(s) were unschedulable".to_owned());
        }
        Some(format!(
            "node(s) had untolerated taint(s) {{{key}: {value}}}"
        ))
    }

    fn is_selected(&self, spec: &Value) -> bool {
        let plain = spec["nodeSelector"].as_object();
        let plain = plain.is_none_or(|wanted| {
            let has = |(label, value): (&String, &Value)| self.labels.get(label) == Some(value);
            wanted.iter().all(has)
        });
        let required =
            &spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
        let terms = required["nodeSelectorTerms"].as_array();
        plain && terms.is_none_or(|terms| terms.iter().any(|term| self.fits(term)))
    }

    fn fits(&self, term: &Value) -> bool {
        let of = |name: &str| items(&term[name]);
        let field = |one: &Value| {
            let known = text(one, "key") == "metadata.name";
            matches(one, Some(self.name.as_str()).filter(|_| known))
        };
        let label = |one: &Value| {
            let found = self.labels.get(text(one, "key"));
            matches(one, found.and_then(Value::as_str))
        };
        let empty = of("matchFields").next().is_none() && of("matchExpressions").next().is_none();
        !empty && of("matchFields").all(field) && of("matchExpressions").all(label)
    }
}

/// Returns whether a label or field of a Node, `None` if absent, meets one requirement of a node selector.
fn matches(requirement: &Value, found: Option<&str>) -> bool {
    let mut values = items(&requirement["values"]).filter_map(Value::as_str);
    let number = |text: &str| text.parse::<i64>().ok();
    match text(requirement, "operator") {
        "In" => found.is_some_and(|found| values.any(|one| one == found)),
        "NotIn" => found.is_none_or(|found| values.all(|one| one != found)),
        "Exists" => found.is_some(),
        "DoesNotExist" => found.is_none(),
        "Gt" => found.and_then(number) > values.next().and_then(number),
        "Lt" => {
            let found = found.and_then(number).zip(values.next().and_then(number));
            found.is_some_and(|(found, bound)| found < bound)
        }
        _ => false,
    }
}

fn tolerates(spec: &Value, taint: &Value) -> bool {
    items(&spec["tolerations"]).any(|one| {
        let effect = text(one, "effect");
        let key = text(one, "key");
        let exists = text(one, "operator") == "Exists";
        (effect.is_empty() || effect == text(taint, "effect"))
            && (key == text(taint, "key") || (key.is_empty() && exists))
            && (exists || text(one, "value") == text(taint, "value"))
    })
}

/// Returns the node with the fewest Pods among those that the Pod fits.
///
/// # Errors
/// Fails with the scheduler's message, which counts the nodes per reason.
pub(crate) fn choose(
    nodes: &BTreeMap<Arc<str>, NodeFacts>,
    pods_per_node: &HashMap<Arc<str>, i64>,
    pod: &Value,
) -> Result<Arc<str>, String> {
    let spec = &pod["spec"];
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    let mut best: Option<(i64, &Arc<str>)> = None;
    for (name, node) in nodes {
        let pod_count = pods_per_node.get(name).copied().unwrap_or(0);
        match node.refuses(spec) {
            Some(why) => *reasons.entry(why).or_default() += 1,
            None if best.is_none_or(|(least, _)| pod_count < least) => {
                best = Some((pod_count, name))
            }
            None => {}
        }
    }
    if let Some((_, name)) = best {
        return Ok(Arc::clone(name));
    }
    if nodes.is_empty() {
        return Err("no nodes available to schedule pods".to_owned());
    }
    let counted = |(why, count): (String, usize)| format!("{count} {why}");
    let reasons: Vec<String> = reasons.into_iter().map(counted).collect();
    Err(unschedulable(nodes.len(), &reasons.join(", ")))
}

/// Returns the scheduler's message about a Pod that fits no node, such as `0/1 nodes are available: …`.
pub(crate) fn unschedulable(nodes: usize, why: &str) -> String {
    format!("0/{nodes} nodes are available: {why}.")
}

/// The CPU architecture of all simulated nodes, as Go names it.
const ARCHITECTURE: &str = "amd64";

pub(crate) fn new_node(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/arch": ARCHITECTURE,
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
            },
        },
        "spec": {},
    })
}

/// Builds the status of the simulated Node `node-<number>`: the Node is ready since `now`, the wall time as text.
pub(crate) fn node_status(number: u32, now: &str) -> Value {
    let condition = |kind: &str, status: &str, reason: &str, message: &str| {
        json!({
            "type": kind, "status": status, "reason": reason, "message": message,
            "lastHeartbeatTime": now, "lastTransitionTime": now,
        })
    };
    let machine = format!("00000000-0000-4000-8000-{number:012x}");
    let room = json!({"cpu": "64", "memory": "256Gi", "pods": "1000000"});
    json!({
        "capacity": room,
        "allocatable": room,
        "addresses": [
            {"type": "InternalIP", "address": node_address(number)},
            {"type": "Hostname", "address": format!("node-{number}")},
        ],
        "conditions": [
            condition("MemoryPressure", "False", "KubeletHasSufficientMemory",
                "kubelet has sufficient memory available"),
            condition("DiskPressure", "False", "KubeletHasNoDiskPressure",
                "kubelet has no disk pressure"),
            condition("PIDPressure", "False", "KubeletHasSufficientPID",
                "kubelet has sufficient PID available"),
            condition("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
        ],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "nodeInfo": {
            "machineID": machine.replace('-', ""),
            "systemUUID": machine,
            "bootID": machine,
            "kernelVersion": "6.12.0",
            "osImage": "Played by steersman-apiserver",
            "containerRuntimeVersion": "containerd://2.2.0",
            "kubeletVersion": "v1.36.0",
            "kubeProxyVersion": "",
            "operatingSystem": "linux",
            "architecture": ARCHITECTURE,
        },
    })
}

pub(crate) fn node_address(number: u32) -> String {
    let [_, b, c, d] = number.to_be_bytes();
    format!("172.{}.{c}.{d}", 18_u8.saturating_add(b))
}
