//! Defaults and validation of the kinds of `apps`.

use serde_json::{Value, json};

use super::*;
use crate::tests::error_texts;

fn object(spec: &Value) -> Value {
    let mut object = json!({"metadata": {"name": "w"}, "spec": {
        "selector": {"matchLabels": {"app": "x"}},
        "template": {"metadata": {"labels": {"app": "x"}},
            "spec": {"containers": [{"name": "c", "image": "img:1"}]}}}});
    for (field, value) in spec.as_object().into_iter().flatten() {
        object["spec"][field] = value.clone();
    }
    object
}

fn errors_of(strategy: &Strategy, spec: &Value, old: Option<&Value>) -> Vec<String> {
    let mut new = object(spec);
    (strategy.defaults)(&mut new);
    let old = old.map(|old| {
        let mut old = object(old);
        (strategy.defaults)(&mut old);
        old
    });
    (strategy.prepare)(&mut new, old.as_ref());
    error_texts(crate::validate(strategy, &new, old.as_ref()))
}

#[test]
fn valid_workloads_pass_and_selectors_are_immutable() {
    for strategy in [&DEPLOYMENT, &REPLICA_SET, &STATEFUL_SET, &DAEMON_SET] {
        assert_eq!(errors_of(strategy, &json!({}), None), [""; 0]);
        assert_eq!(errors_of(strategy, &json!({}), Some(&json!({}))), [""; 0]);
        let other = json!({"selector": {"matchLabels": {"app": "x", "b": "c"}},
            "template": {"metadata": {"labels": {"app": "x", "b": "c"}},
                "spec": {"containers": [{"name": "c", "image": "img:1"}]}}});
        let found = errors_of(strategy, &other, Some(&json!({})));
        assert!(
            found.len() == 1 && found[0].starts_with("spec"),
            "{found:?}"
        );
    }
}

#[test]
fn invalid_strategies_are_refused_with_upstream_messages() {
    for (strategy, spec, why) in [
        (
            &DEPLOYMENT,
            json!({"progressDeadlineSeconds": 5, "minReadySeconds": 5}),
            "spec.progressDeadlineSeconds Invalid value: 5: must be greater than minReadySeconds",
        ),
        (
            &DEPLOYMENT,
            json!({"strategy": {"type": "Odd"}}),
            "spec.strategy Unsupported value: {\"Type\":\"Odd\",\"RollingUpdate\":null}: supported values: \"Recreate\", \"RollingUpdate\"",
        ),
        (
            &DAEMON_SET,
            json!({"updateStrategy": {"rollingUpdate": {"maxSurge": 1}}}),
            "spec.updateStrategy.rollingUpdate.maxSurge Invalid value: 1: may not be set when maxUnavailable is non-zero",
        ),
        (
            &DAEMON_SET,
            json!({"updateStrategy": {"rollingUpdate": {"maxUnavailable": 0}}}),
            "spec.updateStrategy.rollingUpdate.maxUnavailable Required value: cannot be 0 when maxSurge is 0",
        ),
        (
            &STATEFUL_SET,
            json!({"podManagementPolicy": "Odd"}),
            "spec.podManagementPolicy Invalid value: \"Odd\": must be 'OrderedReady' or 'Parallel'",
        ),
        (
            &STATEFUL_SET,
            json!({"updateStrategy": {"rollingUpdate": {"partition": -1}}}),
            "spec.updateStrategy.rollingUpdate.partition Invalid value: -1: must be greater than or equal to 0",
        ),
        (
            &REPLICA_SET,
            json!({"selector": {}}),
            "spec.selector Invalid value: {}: empty selector is invalid for deployment",
        ),
    ] {
        assert_eq!(errors_of(strategy, &spec, None), [why]);
    }
}

#[test]
fn containers_may_mount_the_claims_of_a_stateful_set() {
    let spec = json!({
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}],
        "template": {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [
            {"name": "c", "image": "i", "volumeMounts": [{"name": "data", "mountPath": "/d"}]}]}}});
    assert_eq!(errors_of(&STATEFUL_SET, &spec, None), [""; 0]);
}

#[test]
fn a_daemon_set_counts_its_templates() {
    const COUNT: &str = "/metadata/annotations/deprecated.daemonset.template.generation";
    let mut old = object(&json!({}));
    (DAEMON_SET.defaults)(&mut old);
    (DAEMON_SET.prepare)(&mut old, None);
    assert_eq!(old.pointer(COUNT), Some(&json!("1")));
    let mut later = old.clone();
    *later.pointer_mut(COUNT).unwrap() = json!("7");
    (DAEMON_SET.prepare)(&mut later, None);
    assert_eq!(later.pointer(COUNT), Some(&json!("7")));
    let mut new = old.clone();
    *new.pointer_mut(COUNT).unwrap() = json!("7");
    (DAEMON_SET.prepare)(&mut new, Some(&old));
    assert_eq!(new.pointer(COUNT), Some(&json!("1")));
    new["spec"]["template"]["spec"]["hostname"] = json!("h");
    (DAEMON_SET.prepare)(&mut new, Some(&old));
    assert_eq!(new.pointer(COUNT), Some(&json!("2")));
}

#[test]
fn counts_of_a_status_must_fit_each_other() {
    let status = |status: Value| json!({"status": status});
    let errors = crate::validate_status(
        &DEPLOYMENT,
        &status(json!({"replicas": 1, "readyReplicas": 2, "availableReplicas": -1})),
        &status(json!({"collisionCount": 1})),
    );
    let fields: Vec<_> = errors.iter().map(|error| error.field.as_str()).collect();
    assert_eq!(
        fields,
        [
            "status.availableReplicas", "status.readyReplicas", "status.collisionCount"
        ]
    );
}
