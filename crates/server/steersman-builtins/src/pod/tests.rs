//! Validation of Pods, with the real server's messages and order.

use serde_json::{Value, json};

use super::*;
use crate::tests::error_texts;

fn completed(spec: &Value) -> Value {
    let mut pod = json!({"metadata": {"name": "p", "namespace": "n"}, "spec": {
        "containers": [{"name": "main", "image": "img:1"}]}});
    for (field, value) in spec.as_object().into_iter().flatten() {
        pod["spec"][field] = value.clone();
    }
    (POD.defaults)(&mut pod);
    (POD.prepare)(&mut pod, None);
    pod
}

fn new(spec: &Value) -> Vec<String> {
    error_texts(crate::validate(&POD, &completed(spec), None))
}

fn changed(before: &Value, after: &Value) -> Vec<String> {
    error_texts(crate::validate(
        &POD,
        &completed(after),
        Some(&completed(before)),
    ))
}

/// Checks that each spec is refused for the given reason alone.
fn refused(cases: &[(Value, &str)]) {
    for (spec, why) in cases {
        assert_eq!(new(spec), [*why], "{spec}");
    }
}

fn with(container: &Value) -> Value {
    let mut one = json!({"name": "c", "image": "img:1"});
    for (field, value) in container.as_object().into_iter().flatten() {
        one[field] = value.clone();
    }
    json!({"containers": [one]})
}

#[test]
fn a_common_pod_is_accepted() {
    for spec in [
        json!({}),
        json!({"volumes": [{"name": "v"}], "hostNetwork": true,
            "containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80}],
                "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]}),
        json!({"initContainers": [{"name": "s", "image": "i", "restartPolicy": "Always",
            "readinessProbe": {"tcpSocket": {"port": 1}}}]}),
        json!({"tolerations": [{"operator": "Exists"}], "priorityClassName": "system-node-critical"}),
        json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
            [{"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"a": "b"}}}]}}}),
        with(&json!({"resources": {"limits": {"hugepages-2Mi": "4Mi", "memory": "1Gi"}}})),
        with(
            &json!({"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['a/b']"}}}]}),
        ),
    ] {
        assert_eq!(new(&spec), [""; 0], "{spec}");
    }
}

#[test]
fn invalid_containers_are_refused_with_upstream_messages() {
    let at = "spec.containers[0]";
    refused(&[
        (
            with(&json!({"livenessProbe": {"exec": {"command": []}}})),
            &format!("{at}.livenessProbe.exec.command Required value"),
        ),
        (
            with(&json!({"livenessProbe": {"httpGet": {"port": "a_"}}})),
            &format!("{at}.livenessProbe.httpGet.port Invalid value: \"a_\": must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"),
        ),
        (
            with(&json!({"lifecycle": {"preStop": {"sleep": {"seconds": 31}}}})),
            &format!("{at}.lifecycle.preStop.sleep Invalid value: 31: must be non-negative and less than terminationGracePeriodSeconds (30)"),
        ),
        (
            with(&json!({"resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}})),
            &format!("{at}.resources.requests Invalid value: \"2\": must be less than or equal to cpu limit of 1"),
        ),
        (
            with(&json!({"envFrom": [{}]})),
            &format!("{at}.envFrom Invalid value: \"\": must specify one of: `configMapRef` or `secretRef`"),
        ),
        (
            with(&json!({"ports": [{"containerPort": 80, "hostPort": 8}, {"containerPort": 81, "hostPort": 8}]})),
            &format!("{at}.ports[1].hostPort Duplicate value: \"TCP//8\""),
        ),
        (
            with(&json!({"securityContext": {"runAsUser": -1}})),
            &format!("{at}.securityContext.runAsUser Invalid value: -1: must be between 0 and 2147483647, inclusive"),
        ),
    ]
    .map(|(spec, why)| (spec, why.to_owned()))
    .each_ref()
    .map(|(spec, why)| (spec.clone(), why.as_str())));
}

#[test]
fn invalid_specs_are_refused_with_upstream_messages() {
    refused(&[
        (
            json!({"volumes": [{"name": "a", "secret": {"secretName": "s"}, "nfs": {}}]}),
            "spec.volumes[0].nfs Forbidden: may not specify more than 1 volume type",
        ),
        (
            json!({"volumes": [{"name": "a", "hostPath": {"path": "/../x"}}]}),
            "spec.volumes[0].hostPath.path Invalid value: \"/../x\": must not contain '..'",
        ),
        (
            json!({"initContainers": [{"name": "main", "image": "i"}]}),
            "spec.initContainers[0].name Duplicate value: \"main\"",
        ),
        (
            json!({"tolerations": [{"key": "a", "operator": "Near"}]}),
            "spec.tolerations[0].operator Unsupported value: \"Near\": supported values: \"Equal\", \"Exists\"",
        ),
        (
            json!({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "k", "whenUnsatisfiable": "Never"}]}),
            "spec.topologySpreadConstraints[0].whenUnsatisfiable Unsupported value: \"Never\": supported values: \"DoNotSchedule\", \"ScheduleAnyway\"",
        ),
        (
            json!({"hostAliases": [{"ip": "x"}]}),
            "spec.hostAliases[0].ip Invalid value: \"x\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
        ),
        (
            json!({"activeDeadlineSeconds": 0}),
            "spec.activeDeadlineSeconds Invalid value: 0: must be between 1 and 2147483647, inclusive",
        ),
        (
            json!({"os": {"name": "linux"}, "securityContext": {"windowsOptions": {}}}),
            "spec.securityContext.windowsOptions Forbidden: windows options cannot be set for a linux pod",
        ),
        (
            json!({"ephemeralContainers": [{"name": "e", "image": "i"}]}),
            "spec.ephemeralContainers Forbidden: cannot be set on create",
        ),
        (
            json!({"nodeName": "n", "schedulingGates": [{"name": "g"}]}),
            "spec.nodeName Forbidden: cannot be set until all schedulingGates have been cleared",
        ),
    ]);
}

#[test]
fn a_pod_update_may_change_images_and_deadlines_and_add_tolerations() {
    let before = json!({"activeDeadlineSeconds": 100, "terminationGracePeriodSeconds": 30,
        "tolerations": [{"key": "k", "operator": "Exists"}]});
    let change = |more: Value| {
        let mut after = before.clone();
        for (field, value) in more.as_object().unwrap() {
            after[field] = value.clone();
        }
        changed(&before, &after)
    };
    for allowed in [
        json!({"containers": [{"name": "main", "image": "img:2", "tty": false}]}),
        json!({"activeDeadlineSeconds": 50}),
        json!({"tolerations": [{"key": "new", "operator": "Exists"}, {"key": "k", "operator": "Exists"}]}),
        json!({"hostNetwork": false}),
    ] {
        assert_eq!(change(allowed.clone()), [""; 0], "{allowed}");
    }
    for (refusal, field) in [
        (json!({"hostname": "h"}), "spec "),
        (json!({"terminationGracePeriodSeconds": 1}), "spec "),
        (
            json!({"activeDeadlineSeconds": 101}),
            "spec.activeDeadlineSeconds ",
        ),
        (json!({"tolerations": []}), "spec.tolerations "),
        (
            json!({"containers": [{"name": "main", "image": "i"}, {"name": "b", "image": "i"}]}),
            "spec.containers Forbidden: pod updates may not add",
        ),
    ] {
        let error_texts = change(refusal.clone());
        assert!(
            error_texts.len() == 1 && error_texts[0].starts_with(field),
            "{refusal}: {error_texts:?}"
        );
    }
}

#[test]
fn a_gated_pod_may_lose_gates_and_narrow_its_nodes() {
    let gated = json!({"schedulingGates": [{"name": "g"}], "nodeSelector": {"a": "b"}});
    let opened = json!({"nodeSelector": {"a": "b", "c": "d"}});
    assert_eq!(changed(&gated, &opened), [""; 0]);
    let other = json!({"schedulingGates": [{"name": "h"}], "nodeSelector": {"a": "b"}});
    assert_eq!(
        changed(&gated, &other),
        [
            "spec.schedulingGates[0].name Forbidden: only deletion is allowed, but found new scheduling gate 'h'"
        ]
    );
    let moved = changed(&gated, &json!({"nodeSelector": {"a": "x"}}));
    assert!(
        moved.len() == 1 && moved[0].contains("only additions to spec.nodeSelector"),
        "{moved:?}"
    );
}

#[test]
fn ephemeral_containers_are_added_and_never_changed() {
    let pod = |containers: Value| completed(&json!({"ephemeralContainers": containers}));
    let debugger = json!({"name": "dbg", "image": "a"});
    let reasons =
        |new: Value, old: Value| error_texts(crate::validate_ephemeral(&pod(new), &pod(old)));
    assert_eq!(reasons(json!([debugger]), json!([])), [""; 0]);
    for (new, reason) in [
        (json!([]), "may not be removed"),
        (json!([{"name": "dbg", "image": "b"}]), "may not be changed"),
        (
            json!([debugger, {"name": "main", "image": "b"}]),
            "Duplicate value: \"main\"",
        ),
        (json!([debugger, {"name": "x"}]), "[1].image Required value"),
        (
            json!([debugger, {"name": "x", "image": "i", "ports": [{"containerPort": 1}]}]),
            "[1].ports Forbidden: cannot be set for an Ephemeral Container",
        ),
    ] {
        let found = reasons(new.clone(), json!([debugger]));
        assert!(
            found.len() == 1 && found[0].contains(reason),
            "{new}: {found:?}"
        );
    }
}

#[test]
fn a_resize_keeps_the_quality_of_service_class_and_all_resources() {
    let pod = |resources: Value| completed(&with(&json!({"resources": resources})));
    let reasons =
        |new: Value, old: Value| error_texts(crate::validate_resize(&pod(new), &pod(old)));
    let small = json!({"requests": {"cpu": "1"}});
    assert_eq!(
        reasons(json!({"requests": {"cpu": "2"}}), small.clone()),
        [""; 0]
    );
    assert_eq!(
        reasons(json!({"requests": {"memory": "1Gi"}}), small.clone()),
        ["spec.containers[0].resources.requests Forbidden: resource requests cannot be removed"]
    );
    let found = reasons(json!({}), small);
    assert!(
        found[0].contains("Pod QOS Class may not change"),
        "{found:?}"
    );
}

#[test]
fn a_pod_that_has_ended_never_restarts() {
    let state = |state: Value| {
        let mut pod = completed(&json!({"restartPolicy": "Never"}));
        pod["status"]["containerStatuses"] = json!([{"name": "main", "state": state}]);
        pod
    };
    let ended = state(json!({"terminated": {"exitCode": 0}}));
    let again = error_texts(crate::validate_status(
        &POD,
        &state(json!({"running": {}})),
        &ended,
    ));
    assert_eq!(
        again,
        [
            "status.containerStatuses[0].state Forbidden: may not be transitioned to non-terminated state"
        ]
    );
}

#[test]
fn duplicate_names_and_overlapping_files_cause_warnings() {
    let pod = completed(&with(&json!({
        "ports": [{"containerPort": 80}, {"containerPort": 80}],
        "env": [{"name": "A", "value": "1"}, {"name": "A", "value": "$(A)2"}, {"name": "A"}]})));
    assert_eq!(
        crate::warnings(&POD, &pod, None),
        [
            "spec.containers[0].env[2]: hides previous definition of \"A\", which may be dropped when using apply",
            "spec.containers[0].ports[1]: duplicate port definition with spec.containers[0].ports[0]"
        ]
    );
    assert_eq!(crate::warnings(&POD, &pod, Some(&pod)), [""; 0]);
}

/// Upstream: `TestValidateVolumes`, `TestValidatePodResources`, `TestValidateWindowsPodSecurityContext`
/// and `TestValidateSpec…` in `pkg/apis/core/validation/validation_test.go`.
#[test]
fn invalid_sources_and_resource_sums_are_refused_with_upstream_messages() {
    let volume = |source: Value| {
        let mut one = json!({"name": "v"});
        for (field, value) in source.as_object().into_iter().flatten() {
            one[field] = value.clone();
        }
        json!({"volumes": [one]})
    };
    let asks = |whole: Value, own: Value| {
        json!({"resources": whole, "containers": [
            {"name": "c", "image": "i", "resources": own},
            {"name": "d", "image": "i", "resources": own}]})
    };
    refused(&[
        (
            volume(json!({"iscsi": {"targetPortal": "a", "iqn": "iqn.x", "lun": 1}})),
            "spec.volumes[0].iscsi.iqn Invalid value: \"iqn.x\": must be valid format",
        ),
        (
            volume(json!({"quobyte": {"registry": "a:1,b", "volume": "v"}})),
            "spec.volumes[0].quobyte.registry Invalid value: \"a:1,b\": must be a host:port pair or multiple pairs separated by commas",
        ),
        (
            volume(json!({"azureDisk": {"diskName": "d", "diskURI": "blob:x", "kind": "Shared"}})),
            "spec.volumes[0].azureDisk.diskURI Unsupported value: \"blob:x\": supported values: \"https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd\"",
        ),
        (
            volume(json!({"csi": {"driver": "d", "nodePublishSecretRef": {"name": "A"}}})),
            "spec.volumes[0].csi.name Invalid value: \"A\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
        ),
        (
            volume(json!({"image": {}})),
            "spec.volumes[0].image.reference Required value",
        ),
        (
            json!({"volumes": [{"name": "v"}, {"name": "w", "nfs": {"server": "s", "path": "x"}}],
                "containers": [{"name": "c", "image": "i"}]}),
            "spec.volumes[1].nfs.path Invalid value: \"x\": must be an absolute path",
        ),
        (
            asks(
                json!({"requests": {"cpu": "1"}}),
                json!({"requests": {"cpu": "750m"}}),
            ),
            "spec.resources.requests[cpu] Invalid value: \"1\": must be greater than or equal to aggregate container requests of 1500m",
        ),
        (
            with(&json!({"securityContext": {"windowsOptions": {"runAsUserName": "a\\b\\c"}}})),
            "spec.containers[0].securityContext.windowsOptions.runAsUserName Invalid value: \"a\\\\b\\\\c\": runAsUserName cannot contain more than one backslash",
        ),
        (
            with(&json!({"securityContext": {"windowsOptions": {"hostProcess": true}}})),
            "spec.hostNetwork Invalid value: false: hostNetwork must be true if pod contains any hostProcess containers",
        ),
        (
            json!({"os": {"name": "plan9"}}),
            "spec.os Unsupported value: \"plan9\": supported values: \"linux\", \"windows\"",
        ),
        (
            json!({"overhead": {"cpu": "-1"}}),
            "spec.overhead.limits[cpu] Invalid value: \"-1\": must be greater than or equal to 0",
        ),
    ]);
    // An invalid volume does not exist for the mounts of containers.
    let error_texts = new(
        &json!({"volumes": [{"name": "v", "nfs": {"server": "", "path": "/x"}}],
        "containers": [{"name": "c", "image": "i", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]}),
    );
    assert_eq!(
        error_texts,
        [
            "spec.volumes[0].nfs.server Required value",
            "spec.containers[0].volumeMounts[0].name Not found: \"v\""
        ]
    );
}

/// Upstream: `TestValidatePodUpdate`, the cases of node affinity of gated Pods.
#[test]
fn the_node_affinity_of_a_gated_pod_may_only_grow() {
    let gated = |expressions: Value| {
        json!({"schedulingGates": [{"name": "g"}], "affinity": {"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms":
                [{"matchExpressions": expressions}]}}}})
    };
    let one = |key: &str| json!({"key": key, "operator": "Exists"});
    let before = gated(json!([one("a")]));
    assert_eq!(
        changed(&before, &gated(json!([one("a"), one("b")]))),
        [""; 0]
    );
    let terms = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms";
    assert_eq!(
        changed(&before, &gated(json!([one("b")]))),
        [format!(
            "{terms}[0] Invalid value: {{\"MatchExpressions\":[{{\"Key\":\"b\",\"Operator\":\"Exists\",\"Values\":null}}],\"MatchFields\":null}}: only additions are allowed (no mutations or deletions)"
        )]
    );
    let open = json!({"schedulingGates": [{"name": "g"}]});
    assert_eq!(
        changed(&before, &open),
        [format!(
            "{terms} Invalid value: null: no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        )]
    );
    assert_eq!(changed(&open, &before), [""; 0]);
}

/// Upstream: `TestValidatePodStatusUpdate`: rules of a container decide before its Pod's policy.
#[test]
fn restart_rules_of_a_container_precede_its_restart_policy() {
    let rules = json!([{"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}]);
    let again = |container: Value, code: i64| {
        let mut spec = with(&container);
        spec["restartPolicy"] = json!("Never");
        let state = |state: Value| {
            let mut pod = completed(&spec);
            pod["status"]["containerStatuses"] = json!([{"name": "c", "state": state}]);
            pod
        };
        let ended = state(json!({"terminated": {"exitCode": code}}));
        error_texts(crate::validate_status(
            &POD,
            &state(json!({"running": {}})),
            &ended,
        ))
        .is_empty()
    };
    let ruled = json!({"restartPolicy": "Never", "restartPolicyRules": rules});
    assert!(again(ruled.clone(), 42) && !again(ruled, 1));
    assert!(again(json!({"restartPolicy": "OnFailure"}), 1));
    assert!(!again(json!({"restartPolicy": "OnFailure"}), 0));
    assert!(again(json!({"restartPolicy": "Always"}), 0) && !again(json!({}), 1));
}

/// Upstream: `validateMatchLabelKeysAndMismatchLabelKeys`. A selector with the requirements that
/// the server added is valid.
#[test]
fn match_label_keys_do_not_repeat_keys_of_the_selector() {
    let spread = |labels: Value| {
        let mut pod = completed(&json!({"topologySpreadConstraints": [{"maxSkew": 1,
            "topologyKey": "k", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": labels,
            "matchLabelKeys": ["app"]}]}));
        pod["metadata"]["labels"] = json!({"app": "a"});
        (POD.prepare)(&mut pod, None);
        error_texts(crate::validate(&POD, &pod, None))
    };
    assert_eq!(spread(json!({})), [""; 0]);
    assert_eq!(
        spread(json!({"matchLabels": {"app": "a"}})),
        [
            "spec.topologySpreadConstraints[0].matchLabelKeys[0] Invalid value: \"app\": exists in both matchLabelKeys and labelSelector"
        ]
    );
}

#[test]
fn the_quality_of_service_class_follows_from_all_containers() {
    let class = |resources: Value| {
        let pod = completed(&with(&json!({"resources": resources})));
        pod["status"]["qosClass"].clone()
    };
    assert_eq!(class(json!({})), "BestEffort");
    assert_eq!(
        class(json!({"limits": {"cpu": "1", "memory": "1Gi"}})),
        "Guaranteed"
    );
    assert_eq!(class(json!({"requests": {"cpu": "1"}})), "Burstable");
}

mod warnings;
