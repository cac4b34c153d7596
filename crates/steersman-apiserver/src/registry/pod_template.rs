//! Machine: what in a Pod's spec, or a template of one, excludes one another.

use serde_json::Value;

use crate::status::FieldError;

/// The sources a volume may have, in the order in which they are judged.
const SOURCES: &[&str] = &[
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
];

/// A volume has one source.
pub(super) fn check_volumes(spec: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let volumes = spec["volumes"].as_array().into_iter().flatten();
    for (index, volume) in volumes.enumerate() {
        let sources = SOURCES.iter().filter(|name| !volume[**name].is_null());
        for source in sources.skip(1) {
            let field = format!("{path}.volumes[{index}].{source}");
            let detail = "may not specify more than 1 volume type";
            errors.push(FieldError::forbidden(field, detail));
        }
    }
}

/// A variable has a value, or one source.
pub(super) fn check_variables(container: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let variables = container["env"].as_array().into_iter().flatten();
    for (index, variable) in variables.enumerate() {
        let Some(sources) = variable["valueFrom"].as_object() else {
            continue;
        };
        let sources = sources.values().filter(|source| !source.is_null()).count();
        let value = variable["value"].as_str().unwrap_or_default();
        let detail = match sources {
            0 => {
                "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`"
            }
            _ if !value.is_empty() => "may not be specified when `value` is not empty",
            1 => continue,
            _ => "may not have more than one field specified at a time",
        };
        let field = format!("{path}.env[{index}].valueFrom");
        errors.push(FieldError::invalid(field, "\"\"", detail));
    }
}

/// A Deployment that replaces its Pods at once has no pace at which to do so.
pub(super) fn check_strategy(strategy: &Value, errors: &mut Vec<FieldError>) {
    if strategy["type"] == "Recreate" && !strategy["rollingUpdate"].is_null() {
        let detail = "may not be specified when strategy `type` is 'Recreate'";
        let field = "spec.strategy.rollingUpdate";
        errors.push(FieldError::forbidden(field, detail));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn volumes_and_variables_have_one_source() {
        let mut errors = Vec::new();
        let spec = json!({"volumes": [
            {"name": "a", "emptyDir": {}},
            {"name": "b", "secret": {}, "configMap": {}, "csi": null, "nfs": {}},
        ]});
        check_volumes(&spec, "spec", &mut errors);
        let container = json!({"env": [
            {"name": "a", "value": "1"},
            {"name": "b", "valueFrom": {"fieldRef": {}}},
            {"name": "c", "valueFrom": {}},
            {"name": "d", "valueFrom": {"fieldRef": {}, "secretKeyRef": {}}},
        ]});
        check_variables(&container, "c", &mut errors);
        let fields: Vec<&str> = errors.iter().map(|error| error.field.as_str()).collect();
        let expected = [
            "spec.volumes[1].nfs",
            "spec.volumes[1].configMap",
            "c.env[2].valueFrom",
            "c.env[3].valueFrom",
        ];
        assert_eq!(fields, expected);
    }
}
