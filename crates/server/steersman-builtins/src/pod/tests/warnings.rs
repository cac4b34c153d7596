//! Warnings about Pods, and the effects of annotations.

use serde_json::{Value, json};

use super::{completed, with};
use crate::pod::{COST, MIRROR, POD};
use crate::tests::error_texts;

/// Upstream: the cases of `TestWarnings` in `pkg/api/pod/warnings_test.go`.
#[test]
fn ineffective_and_deprecated_fields_of_pods_cause_warnings() {
    let cases = [
        (
            json!({"volumes": [{"name": "v", "configMap": {"name": "c", "items": [
                {"key": "a", "path": "test"}, {"key": "b", "path": "test/file"}]}}]}),
            "volume \"v\" (ConfigMap \"c\"): overlapping paths: \"test/file\" with \"test\"",
        ),
        (
            json!({"volumes": [{"name": "v", "gitRepo": {"repository": "r"}}]}),
            "spec.volumes[0].gitRepo: deprecated in v1.11, and disabled by default in v1.33+",
        ),
        (
            json!({"hostAliases": [{"ip": "192.0.2.1"}, {"ip": "192.0.2.1"}]}),
            "spec.hostAliases[1].ip: duplicate ip \"192.0.2.1\"",
        ),
        (
            json!({"imagePullSecrets": [{"name": ""}]}),
            "spec.imagePullSecrets[0].name: invalid empty name \"\"",
        ),
        (
            json!({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "k"}]}),
            "spec.topologySpreadConstraints[0].labelSelector: a null labelSelector results in matching no pod",
        ),
        (
            with(
                &json!({"resources": {"limits": {"memory": "500m"}, "requests": {"memory": "0"}}}),
            ),
            "spec.containers[0].resources.limits[memory]: fractional byte value \"500m\" is invalid, must be an integer",
        ),
        (
            with(&json!({"ports": [{"containerPort": 80, "hostIP": "192.0.2.1"}]})),
            "spec.containers[0].ports[0]: hostIP set without hostPort: {Name: HostPort:0 ContainerPort:80 Protocol:TCP HostIP:192.0.2.1}",
        ),
        (
            json!({"nodeSelector": {"beta.kubernetes.io/arch": "amd64"}}),
            "spec.nodeSelector[beta.kubernetes.io/arch]: deprecated since v1.14; use \"kubernetes.io/arch\" instead",
        ),
    ];
    for (spec, expected) in cases {
        assert_eq!(crate::warnings(&POD, &completed(&spec), None), [expected]);
    }
    let mut pod = completed(&json!({}));
    pod["metadata"]["name"] = json!("a.b");
    assert_eq!(
        crate::warnings(&POD, &pod, None),
        [
            "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is recommended: [must not contain dots]"
        ]
    );
}

/// Upstream: `applyAppArmorVersionSkew`, `applySchedulingGatedCondition` and
/// `applyMatchLabelKeysAndMismatchLabelKeys`.
#[test]
fn a_new_pod_is_completed_from_its_own_metadata() {
    let mut pod = completed(&json!({"schedulingGates": [{"name": "g"}],
        "topologySpreadConstraints": [{"topologyKey": "k", "labelSelector": {},
            "matchLabelKeys": ["app", "absent"]}]}));
    pod["metadata"]["labels"] = json!({"app": "a"});
    let key = "container.apparmor.security.beta.kubernetes.io/main";
    pod["metadata"]["annotations"] = json!({key: "localhost/one"});
    (POD.prepare)(&mut pod, None);
    let spec = &pod["spec"];
    assert_eq!(
        spec["containers"][0]["securityContext"]["appArmorProfile"],
        json!({"type": "Localhost", "localhostProfile": "one"})
    );
    assert_eq!(
        spec["topologySpreadConstraints"][0]["labelSelector"]["matchExpressions"],
        json!([{"key": "app", "operator": "In", "values": ["a"]}])
    );
    assert_eq!(pod["status"]["conditions"][0]["reason"], "SchedulingGated");
    assert_eq!(
        crate::warnings(&POD, &pod, None)[0],
        format!(
            "metadata.annotations[{key}]: deprecated since v1.30; use the \"appArmorProfile\" field instead"
        )
    );
}

/// Upstream: `ValidatePodSpecificAnnotations` and its like for updates, and
/// `validateSeccompAnnotationsAndFields`.
#[test]
fn annotations_with_a_meaning_are_validated() {
    let noted = |notes: Value| {
        let mut pod =
            completed(&json!({"securityContext": {"seccompProfile": {"type": "Unconfined"}}}));
        pod["metadata"]["annotations"] = notes;
        pod
    };
    let seccomp = "seccomp.security.alpha.kubernetes.io/pod";
    for (notes, expected) in [
        (
            json!({MIRROR: "x"}),
            "metadata.annotations[kubernetes.io/config.mirror] Invalid value: \"x\": must set spec.nodeName if mirror pod annotation is set",
        ),
        (
            json!({COST: "+1"}),
            "metadata.annotations[controller.kubernetes.io/pod-deletion-cost] Invalid value: \"+1\": must be a 32bit integer",
        ),
        (
            json!({"container.apparmor.security.beta.kubernetes.io/none": "unconfined"}),
            "metadata.annotations[container.apparmor.security.beta.kubernetes.io/none] Invalid value: \"none\": container not found",
        ),
        (
            json!({seccomp: "runtime/default"}),
            "spec.securityContext.seccompProfile.type Forbidden: seccomp type in annotation and field must match",
        ),
    ] {
        assert_eq!(
            error_texts(crate::validate(&POD, &noted(notes), None)),
            [expected]
        );
    }
    let (with, without) = (noted(json!({MIRROR: "x"})), noted(json!({})));
    assert!(error_texts(crate::validate(&POD, &with, Some(&without))).contains(
        &"metadata.annotations[kubernetes.io/config.mirror] Forbidden: may not add mirror pod annotation".to_owned()
    ));
}
