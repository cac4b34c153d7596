//! Machine: what kube-apiserver fills in for built-in kinds, kind by kind.

mod pod;
mod absent;

use serde_json::{Value, json};

use super::events;
use super::kinds;
use super::resource::Resource;

/// Sets a member that is absent.
fn set(object: &mut Value, name: &str, default: Value) {
    if let Some(members) = object.as_object_mut()
        && members.get(name).is_none_or(Value::is_null)
    {
        members.insert(name.to_owned(), default);
    }
}

/// The member as an object, made when absent.
fn part<'a>(object: &'a mut Value, name: &str) -> Option<&'a mut Value> {
    set(object, name, json!({}));
    object.get_mut(name).filter(|part| part.is_object())
}

/// The elements of a member that is a list; none when it is absent or something else. (Indexing
/// a value that is no object would panic, and clients send what they like.)
fn list<'a>(object: &'a mut Value, name: &str) -> impl Iterator<Item = &'a mut Value> {
    object
        .get_mut(name)
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
}

/// Fills in a built-in object's defaults and brings it into the shape it is stored in. Applies
/// to creates and updates alike; what depends on the server's state is the registry's.
pub(crate) fn apply(resource: &Resource, object: &mut Value) {
    for part in ["data", "binaryData"] {
        // A null in a map of strings is the empty string, not an absent member.
        for value in object
            .get_mut(part)
            .and_then(Value::as_object_mut)
            .into_iter()
            .flatten()
        {
            if value.1.is_null() {
                *value.1 = json!("");
            }
        }
    }
    match (resource.group.as_str(), resource.kind.as_str()) {
        ("apiextensions.k8s.io", _) => {
            drop_nulls(object);
            return;
        }
        ("", "Event") => events::complete_core(object),
        ("events.k8s.io", "Event") => events::complete_newer(object),
        _ => drop_nulls(object),
    }
    absent::lists(resource, object);
    if let Some(kind) = kinds::of(resource) {
        (kind.defaults)(object);
    }
    match (resource.group.as_str(), resource.kind.as_str()) {
        ("", "Pod") => {
            pod::pod(object);
            absent::container_statuses(object);
        }
        ("", "PodTemplate") => template(object),
        ("", "Node") => absent::node(object),
        ("apps", "Deployment") => deployment(object),
        ("apps", "ReplicaSet") => replica_set(object),
        ("apps", "StatefulSet") => stateful_set(object),
        ("apps", "DaemonSet") => daemon_set(object),
        ("batch", "Job") => job(object),
        ("batch", "CronJob") => cron_job(object),
        _ => {}
    }
    if resource.status {
        set(object, "status", json!({}));
    }
    absent::times_of_conditions(resource, object);
}

/// Typed objects have no nulls, but for the defaults that a schema gives.
fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|name, member| !member.is_null() || name == "default");
            members.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

fn persistent_volume_claim(object: &mut Value) {
    if let Some(spec) = part(object, "spec") {
        set(spec, "volumeMode", json!("Filesystem"));
    }
}

fn template(spec: &mut Value) {
    if let Some(template) = part(spec, "template") {
        part(template, "metadata");
        if let Some(spec) = part(template, "spec") {
            pod::spec(spec);
        }
    }
}

fn deployment(object: &mut Value) {
    let Some(spec) = part(object, "spec") else {
        return;
    };
    set(spec, "replicas", json!(1));
    set(spec, "revisionHistoryLimit", json!(10));
    set(spec, "progressDeadlineSeconds", json!(600));
    if let Some(strategy) = part(spec, "strategy") {
        set(strategy, "type", json!("RollingUpdate"));
        if strategy["type"] == "RollingUpdate"
            && let Some(rolling) = part(strategy, "rollingUpdate")
        {
            set(rolling, "maxUnavailable", json!("25%"));
            set(rolling, "maxSurge", json!("25%"));
        }
    }
    template(spec);
}

fn replica_set(object: &mut Value) {
    if let Some(spec) = part(object, "spec") {
        set(spec, "replicas", json!(1));
        template(spec);
    }
    if let Some(status) = part(object, "status") {
        set(status, "replicas", json!(0));
    }
}

fn stateful_set(object: &mut Value) {
    if let Some(spec) = part(object, "spec") {
        set(spec, "replicas", json!(1));
        set(spec, "podManagementPolicy", json!("OrderedReady"));
        set(spec, "revisionHistoryLimit", json!(10));
        let retain = json!({"whenDeleted": "Retain", "whenScaled": "Retain"});
        set(spec, "persistentVolumeClaimRetentionPolicy", retain);
        if let Some(strategy) = part(spec, "updateStrategy") {
            set(strategy, "type", json!("RollingUpdate"));
            if strategy["type"] == "RollingUpdate" {
                set(strategy, "rollingUpdate", json!({"partition": 0}));
            }
        }
        for claim in list(spec, "volumeClaimTemplates") {
            set(claim, "kind", json!("PersistentVolumeClaim"));
            set(claim, "apiVersion", json!("v1"));
            set(claim, "status", json!({"phase": "Pending"}));
            persistent_volume_claim(claim);
        }
        template(spec);
    }
    if let Some(status) = part(object, "status") {
        set(status, "replicas", json!(0));
        set(status, "availableReplicas", json!(0));
    }
}

fn daemon_set(object: &mut Value) {
    if let Some(spec) = part(object, "spec") {
        set(spec, "revisionHistoryLimit", json!(10));
        if let Some(strategy) = part(spec, "updateStrategy") {
            set(strategy, "type", json!("RollingUpdate"));
            if strategy["type"] == "RollingUpdate" {
                set(
                    strategy,
                    "rollingUpdate",
                    json!({"maxSurge": 0, "maxUnavailable": 1}),
                );
            }
        }
        template(spec);
    }
    if let Some(status) = part(object, "status") {
        for count in [
            "currentNumberScheduled",
            "numberMisscheduled",
            "desiredNumberScheduled",
            "numberReady",
        ] {
            set(status, count, json!(0));
        }
    }
}

fn job_spec(spec: &mut Value) {
    if spec["completions"].is_null() && spec["parallelism"].is_null() {
        set(spec, "completions", json!(1));
    }
    set(spec, "parallelism", json!(1));
    set(spec, "backoffLimit", json!(6));
    set(spec, "completionMode", json!("NonIndexed"));
    set(spec, "suspend", json!(false));
    set(spec, "manualSelector", json!(false));
    set(spec, "podReplacementPolicy", json!("TerminatingOrFailed"));
    template(spec);
}

fn job(object: &mut Value) {
    if let Some(spec) = part(object, "spec") {
        job_spec(spec);
    }
}

fn cron_job(object: &mut Value) {
    let Some(spec) = part(object, "spec") else {
        return;
    };
    set(spec, "concurrencyPolicy", json!("Allow"));
    set(spec, "suspend", json!(false));
    set(spec, "successfulJobsHistoryLimit", json!(3));
    set(spec, "failedJobsHistoryLimit", json!(1));
    if let Some(template) = spec.get_mut("jobTemplate")
        && let Some(spec) = part(template, "spec")
    {
        self::template(spec);
    }
}

#[cfg(test)]
mod tests {
    use super::super::builtin::built_in;
    use super::*;

    fn defaulted(kind: &str, mut object: Value) -> Value {
        let resource = built_in().into_iter().find(|r| r.kind == kind).unwrap();
        apply(&resource, &mut object);
        object
    }

    #[test]
    fn a_deployment_is_filled_in_as_the_server_does() {
        let made = defaulted(
            "Deployment",
            json!({"metadata": {"name": "d"}, "spec": {
                "selector": {"matchLabels": {"app": "d"}},
                "template": {"metadata": {"creationTimestamp": null, "labels": {"app": "d"}},
                    "spec": {"containers": [{"name": "a", "image": "img:1"}]}}}}),
        );
        assert_eq!(
            made,
            json!({"metadata": {"name": "d"}, "spec": {
                "replicas": 1, "selector": {"matchLabels": {"app": "d"}},
                "template": {"metadata": {"labels": {"app": "d"}}, "spec": {
                    "containers": [{"name": "a", "image": "img:1", "resources": {},
                        "terminationMessagePath": "/dev/termination-log",
                        "terminationMessagePolicy": "File", "imagePullPolicy": "IfNotPresent"}],
                    "restartPolicy": "Always", "terminationGracePeriodSeconds": 30,
                    "dnsPolicy": "ClusterFirst", "securityContext": {},
                    "schedulerName": "default-scheduler"}},
                "strategy": {"type": "RollingUpdate",
                    "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}},
                "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600}, "status": {}})
        );
    }

    #[test]
    fn defaulting_twice_changes_nothing() {
        for resource in built_in() {
            let mut once = json!({"metadata": {"name": "x"}, "spec": {"template": {"spec": {
                "containers": [{"name": "a", "ports": [{"containerPort": 1}]}]}}}});
            apply(&resource, &mut once);
            let mut twice = once.clone();
            apply(&resource, &mut twice);
            assert_eq!(once, twice, "{}", resource.kind);
        }
    }
}
