//! PersistentVolumes, volume sources, and the data sources of claims.

use serde_json::{Value, json};

use super::{completed, of, refused, resource};

/// Upstream: `TestValidatePersistentVolumes` and `TestValidateOverhead`.
#[test]
fn a_volume_needs_the_required_fields_of_its_source() {
    let volume = |spec: Value| {
        let mut object = json!({"metadata": {"name": "v"},
            "spec": {"capacity": {"storage": "1"}, "accessModes": ["ReadWriteOnce"]}});
        for (field, value) in spec.as_object().into_iter().flatten() {
            object["spec"][field] = value.clone();
        }
        object
    };
    for (spec, expected) in [
        (
            json!({"local": {"path": "/x"}, "nodeAffinity": {}}),
            "spec.nodeAffinity.required: Required value: must specify required node constraints",
        ),
        (
            json!({"storageos": {"volumeName": "v", "secretRef": {"name": "s"}}}),
            "spec.storageos.secretRef.namespace: Required value",
        ),
        (
            json!({"glusterfs": {"endpoints": "e", "path": "p", "endpointsNamespace": ""}}),
            "spec.glusterfs.endpointsNamespace: Invalid value: \"\": if the endpointnamespace is set, it must be a valid namespace name",
        ),
        (
            json!({"hostPath": {"path": "/x", "type": "Odd"}}),
            "spec.hostPath.type: Unsupported value: \"Odd\": supported values: \"\", \"BlockDevice\", \"CharDevice\", \"Directory\", \"DirectoryOrCreate\", \"File\", \"FileOrCreate\", \"Socket\"",
        ),
    ] {
        assert_eq!(
            refused("v1", "PersistentVolume", volume(spec), None),
            [expected]
        );
    }
    let on = |key: &str| {
        volume(
            json!({"local": {"path": "/x"}, "nodeAffinity": {"required": {"nodeSelectorTerms":
            [{"matchExpressions": [{"key": key, "operator": "Exists"}]}]}}}),
        )
    };
    let changed = |key: &str| {
        let old = Some(on("beta.kubernetes.io/os"));
        refused("v1", "PersistentVolume", on(key), old)
    };
    assert_eq!(changed("kubernetes.io/os"), [""; 0]);
    assert_eq!(
        changed("other"),
        [concat!(
            r#"nodeAffinity: Invalid value: {"Required":{"NodeSelectorTerms":[{"MatchExpressions":"#,
            r#"[{"Key":"other","Operator":"Exists","Values":null}],"MatchFields":null}]}}: "#,
            "field is immutable, except for updating from beta label to GA"
        )]
    );
    let class = json!({"handler": "h", "overhead": {"podFixed": {"cpu": "-1"}},
        "scheduling": {"tolerations": [{"operator": "Exists"}, {"operator": "Exists"}]}});
    assert_eq!(
        refused("node.k8s.io/v1", "RuntimeClass", class, None),
        [
            "overhead.limits[cpu]: Invalid value: \"-1\": must be greater than or equal to 0",
            "scheduling.tolerations[1]: Duplicate value: {\"Key\":\"\",\"Operator\":\"Exists\",\"Value\":\"\",\"Effect\":\"\",\"TolerationSeconds\":null}",
        ]
    );
}

/// Upstream: `TestEnforceDataSourceBackwardsCompatibility` and `TestDropDisabledFields`.
#[test]
fn a_claim_keeps_supported_data_sources() {
    let rules = of(&resource("v1", "PersistentVolumeClaim")).unwrap();
    let made = |spec: Value, old: Option<Value>| {
        let claim = |spec| completed("v1", "PersistentVolumeClaim", json!({"spec": spec}));
        let mut new = claim(spec);
        let old = old.map(claim);
        (rules.prepare)(&mut new, old.as_ref());
        (
            new["spec"]["dataSource"].clone(),
            new["spec"]["dataSourceRef"].clone(),
        )
    };
    let claim = json!({"kind": "PersistentVolumeClaim", "name": "a"});
    let other = json!({"apiGroup": "a.io", "kind": "Other", "name": "a"});
    let foreign = json!({"kind": "PersistentVolumeClaim", "name": "a", "namespace": "n"});
    let none = Value::Null;
    let source = |source: &Value| json!({"dataSource": source});
    // Go writes the group even if it is not set.
    let stored = json!({"apiGroup": null, "kind": "PersistentVolumeClaim", "name": "a"});
    assert_eq!(made(source(&claim), None), (stored.clone(), stored));
    assert_eq!(made(source(&other), None), (none.clone(), none.clone()));
    let old = Some(source(&other));
    assert_eq!(made(source(&other), old), (other.clone(), other.clone()));
    let reference = json!({"dataSourceRef": other});
    assert_eq!(made(reference, None), (other.clone(), other));
    let reference = json!({"dataSourceRef": foreign});
    assert_eq!(made(reference, None), (none.clone(), none));
}
