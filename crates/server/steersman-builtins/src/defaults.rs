//! Machine: fills in the defaults of built-in objects, and brings the objects into their stored form.

use serde_json::Value;
use steersman_schema::resource::Resource;
use steersman_schema::types;

use crate::cluster::events;

use crate as kinds;

/// Fills in a built-in object's defaults and brings the object into its stored form. Applies to
/// creates and updates. Fields that depend on the server's state are set by the registry.
pub fn apply(resource: &Resource, object: &mut Value) {
    match (resource.group.as_str(), resource.kind.as_str()) {
        ("apiextensions.k8s.io", _) => {
            drop_nulls(object);
            return;
        }
        ("", "Event") => events::complete_core(object),
        ("events.k8s.io", "Event") => events::complete_newer(object),
        _ => {}
    }
    let is_event = resource.kind == "Event";
    let version = resource.api_version();
    if !is_event {
        types::drop_zeros(&version, &resource.kind, object);
    }
    if let Some(kind) = kinds::of(resource) {
        (kind.defaults)(object);
    }
    if !is_event {
        types::write_always(&version, &resource.kind, object);
    }
}

/// Removes nulls, which typed objects do not have, except in the defaults of schemas.
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use steersman_schema::builtin::built_in;

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
                "template": {"metadata": {"labels": {"app": "d"}},
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
