//! Machine: adds the nulls that Go prints for required lists and times that are not set.

use serde_json::{Value, json};
use steersman_schema::resource::Resource;

use crate::fields::fill::{list, set};

/// Removes empty lists, which are not stored. An empty list that the kind requires becomes null.
pub(super) fn lists(resource: &Resource, object: &mut Value) {
    drop_empty_lists(object);
    match (resource.group.as_str(), resource.kind.as_str()) {
        ("rbac.authorization.k8s.io", "Role" | "ClusterRole") => set_null(object, "rules"),
        ("", "LimitRange") => {
            if let Some(spec) = object.get_mut("spec") {
                set_null(spec, "limits");
            }
        }
        ("discovery.k8s.io", "EndpointSlice") => {
            set_null(object, "endpoints");
            set_null(object, "ports");
        }
        _ => {}
    }
}

fn set_null(object: &mut Value, name: &str) {
    set(object, name, Value::Null);
}

fn drop_empty_lists(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|_, member| member.as_array().is_none_or(|list| !list.is_empty()));
            members.values_mut().for_each(drop_empty_lists);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_empty_lists),
        _ => {}
    }
}

/// Adds the missing times of conditions as nulls.
pub(super) fn times_of_conditions(resource: &Resource, object: &mut Value) {
    let times: &[&str] = match (resource.group.as_str(), resource.kind.as_str()) {
        ("", "Pod" | "PersistentVolumeClaim") | ("batch", "Job") => {
            &["lastProbeTime", "lastTransitionTime"]
        }
        ("", "Node") => &["lastHeartbeatTime", "lastTransitionTime"],
        ("apps", "Deployment") => &["lastUpdateTime", "lastTransitionTime"],
        ("", "Namespace" | "ReplicationController") | ("apps" | "policy" | "autoscaling", _) => {
            &["lastTransitionTime"]
        }
        _ => return,
    };
    let Some(status) = object.get_mut("status") else {
        return;
    };
    for condition in list(status, "conditions") {
        for time in times {
            set(condition, time, Value::Null);
        }
    }
}

/// Adds the missing states and times of container statuses.
pub(super) fn container_statuses(pod: &mut Value) {
    let Some(status) = pod.get_mut("status") else {
        return;
    };
    for part in [
        "containerStatuses",
        "initContainerStatuses",
        "ephemeralContainerStatuses",
    ] {
        for container in list(status, part) {
            for text in ["name", "image", "imageID"] {
                set(container, text, json!(""));
            }
            set(container, "ready", json!(false));
            set(container, "restartCount", json!(0));
            for state in ["state", "lastState"] {
                set(container, state, json!({}));
                let Some(state) = container.get_mut(state) else {
                    continue;
                };
                if let Some(running) = state.get_mut("running") {
                    set_null(running, "startedAt");
                }
                if let Some(terminated) = state.get_mut("terminated") {
                    set_null(terminated, "startedAt");
                    set_null(terminated, "finishedAt");
                }
            }
        }
    }
}

/// Fills in the status of a Node, and the allocatable resources from the capacity.
pub(super) fn node(object: &mut Value) {
    set(object, "status", json!({}));
    let Some(status) = object.get_mut("status") else {
        return;
    };
    let capacity = status.get("capacity").cloned();
    if let Some(capacity) = capacity.filter(Value::is_object) {
        set(status, "allocatable", capacity);
    }
    let endpoints = json!({"kubeletEndpoint": {"Port": 0}});
    set(status, "daemonEndpoints", endpoints);
    set(status, "nodeInfo", json!({}));
    if let Some(info) = status.get_mut("nodeInfo") {
        for name in [
            "machineID",
            "systemUUID",
            "bootID",
            "kernelVersion",
            "osImage",
            "containerRuntimeVersion",
            "kubeletVersion",
            "kubeProxyVersion",
            "operatingSystem",
            "architecture",
        ] {
            set(info, name, json!(""));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(kind: &str) -> Resource {
        let all = steersman_schema::builtin::built_in();
        all.into_iter().find(|r| r.kind == kind).unwrap()
    }

    #[test]
    fn required_lists_are_null_and_others_absent() {
        let mut role = json!({"rules": []});
        lists(&of("Role"), &mut role);
        assert_eq!(role, json!({"rules": null}));
        let mut pod =
            json!({"spec": {"volumes": [], "containers": [{"env": [], "resources": {}}]}});
        lists(&of("Pod"), &mut pod);
        assert_eq!(pod, json!({"spec": {"containers": [{"resources": {}}]}}));
    }

    #[test]
    fn containers_show_unset_states() {
        let mut pod = json!({"status": {"containerStatuses": [{"name": "c",
            "state": {"running": {}}}]}});
        container_statuses(&mut pod);
        assert_eq!(
            pod["status"]["containerStatuses"],
            json!([{"name": "c", "image": "", "imageID": "", "ready": false, "restartCount": 0,
                "state": {"running": {"startedAt": null}}, "lastState": {}}])
        );
    }

    #[test]
    fn conditions_show_unset_times() {
        let mut namespace = json!({"status": {"conditions": [{"type": "A"}]}});
        times_of_conditions(&of("Namespace"), &mut namespace);
        assert_eq!(
            namespace["status"]["conditions"],
            json!([{"type": "A", "lastTransitionTime": null}])
        );
    }
}
