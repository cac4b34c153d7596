//! Machine: what of a Pod's spec may change once it exists.

use serde_json::{Map, Value};

use crate::status::FieldError;

use super::metadata::members;

/// The rule in the words of the real server, which goes on with a difference of Go values.
const RULE: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// Switches that say the same when they are left out.
const OFF: [&str; 9] = [
    "hostIPC",
    "hostNetwork",
    "hostPID",
    "optional",
    "readOnly",
    "stdin",
    "stdinOnce",
    "tty",
    "publishNotReadyAddresses",
];

/// Checks an update of a Pod by its main path.
pub(super) fn check(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let (before, after) = (&old["spec"], &new["spec"]);
    for field in ["containers", "initContainers"] {
        if count(&before[field]) != count(&after[field]) {
            let detail = "pod updates may not add or remove containers";
            errors.push(FieldError::forbidden(format!("spec.{field}"), detail));
        }
    }
    if !errors.is_empty() {
        return errors;
    }
    errors.extend(deadline(after, before));
    let mut compared = after.clone();
    let put_back = |compared: &mut Value, field: &str| {
        let fields = members(compared);
        match before.get(field) {
            Some(value) => fields.insert(field.to_owned(), value.clone()),
            None => fields.remove(field),
        };
    };
    for field in ["containers", "initContainers"] {
        put_back_images(&mut compared[field], &before[field]);
    }
    put_back(&mut compared, "activeDeadlineSeconds");
    if !kept(&before["tolerations"], &after["tolerations"]) {
        let detail = "existing toleration can not be modified except its tolerationSeconds";
        errors.push(FieldError::forbidden("spec.tolerations", detail));
    }
    put_back(&mut compared, "tolerations");
    let grace = |spec: &Value| spec["terminationGracePeriodSeconds"].as_i64();
    if grace(before).is_some_and(i64::is_negative) && grace(after) == Some(1) {
        put_back(&mut compared, "terminationGracePeriodSeconds");
    }
    if let Some(gates) = before["schedulingGates"].as_array() {
        let left = after["schedulingGates"].as_array().into_iter().flatten();
        let added = left.into_iter().find(|gate| !gates.contains(gate));
        if let Some(gate) = added {
            let name = gate["name"].as_str().unwrap_or_default();
            let detail =
                format!("only deletion is allowed, but found new scheduling gate '{name}'");
            errors.push(FieldError::forbidden("spec.schedulingGates", &detail));
        }
        // What a gated Pod asks of its node is still open.
        for field in ["schedulingGates", "nodeSelector", "affinity"] {
            put_back(&mut compared, field);
        }
    }
    if meant(&compared) != meant(before) {
        errors.push(FieldError::forbidden("spec", RULE));
    }
    errors
}

/// Checks an update of a Pod's ephemeral containers: they are added, and stay as they are.
pub(super) fn check_ephemeral(new: &Value, old: &Value) -> Vec<FieldError> {
    const FIELD: &str = "spec.ephemeralContainers";
    let mut errors = Vec::new();
    let listed = |pod: &Value, field: &str| -> Vec<Value> {
        pod["spec"][field].as_array().cloned().unwrap_or_default()
    };
    let mut names: Vec<Value> = ["containers", "initContainers"]
        .iter()
        .flat_map(|field| listed(new, field))
        .map(|container| container["name"].clone())
        .collect();
    let after = listed(new, "ephemeralContainers");
    for (index, container) in after.iter().enumerate() {
        for field in ["name", "image"] {
            if container[field].as_str().is_none_or(str::is_empty) {
                errors.push(FieldError::required(
                    format!("{FIELD}[{index}].{field}"),
                    "",
                ));
            }
        }
        let name = &container["name"];
        if names.contains(name) {
            let field = format!("{FIELD}[{index}].name");
            errors.push(FieldError::duplicate(field, &name.to_string()));
        }
        names.push(name.clone());
    }
    for before in listed(old, "ephemeralContainers") {
        let name = before["name"].as_str().unwrap_or_default();
        let what = match after.iter().find(|one| one["name"] == before["name"]) {
            None => "removed",
            Some(same) if meant(same) != meant(&before) => "changed",
            Some(_) => continue,
        };
        let detail = format!("existing ephemeral containers \"{name}\" may not be {what}\n");
        errors.push(FieldError::forbidden(FIELD, &detail));
    }
    errors
}

fn count(list: &Value) -> usize {
    list.as_array().map_or(0, Vec::len)
}

fn put_back_images(containers: &mut Value, before: &Value) {
    let old = before.as_array().into_iter().flatten();
    for (container, old) in containers.as_array_mut().into_iter().flatten().zip(old) {
        let fields = members(container);
        match old.get("image") {
            Some(image) => fields.insert("image".to_owned(), image.clone()),
            None => fields.remove("image"),
        };
    }
}

/// A deadline may be set and shortened.
fn deadline(after: &Value, before: &Value) -> Option<FieldError> {
    const FIELD: &str = "spec.activeDeadlineSeconds";
    let seconds = |spec: &Value| spec["activeDeadlineSeconds"].as_i64();
    let detail = match (seconds(before), seconds(after)) {
        (_, Some(new)) if !(0..=i64::from(i32::MAX)).contains(&new) => {
            "must be between 0 and 2147483647, inclusive"
        }
        (Some(old), Some(new)) if new > old => "must be less than or equal to previous value",
        (Some(_), None) => "must not update from a positive integer to nil value",
        _ => return None,
    };
    let value = after["activeDeadlineSeconds"].to_string();
    Some(FieldError::invalid(FIELD, &value, detail))
}

/// Whether every toleration is still there, whatever became of its seconds.
fn kept(before: &Value, after: &Value) -> bool {
    let shown = |tolerations: &Value| -> Vec<Value> {
        let all = tolerations.as_array().into_iter().flatten();
        all.map(|one| {
            let mut one = one.clone();
            members(&mut one).remove("tolerationSeconds");
            meant(&one)
        })
        .collect()
    };
    let after = shown(after);
    shown(before).iter().all(|one| after.contains(one))
}

/// A value without the members that say as much as being left out.
fn meant(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let said = fields.iter().filter(|(name, value)| {
                let off = **value == Value::Bool(false) && OFF.contains(&name.as_str());
                !off && value.as_str() != Some("")
            });
            let said: Map<String, Value> = said
                .map(|(name, value)| (name.clone(), meant(value)))
                .filter(|(_, value)| !is_empty(value))
                .collect();
            Value::Object(said)
        }
        Value::Array(items) => items.iter().map(meant).collect(),
        other => other.clone(),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(change: &Value) -> Value {
        let mut pod = json!({"spec": {
            "containers": [{"name": "main", "image": "a", "env": [{"name": "X", "value": ""}]}],
            "activeDeadlineSeconds": 100,
            "tolerations": [{"key": "k", "operator": "Exists", "tolerationSeconds": 3}],
            "terminationGracePeriodSeconds": 30,
        }});
        for (field, value) in change.as_object().into_iter().flatten() {
            pod["spec"][field] = value.clone();
        }
        pod
    }

    fn fields(new: &Value, old: &Value) -> Vec<String> {
        let errors = check(&pod(new), &pod(old));
        errors.into_iter().map(|error| error.field).collect()
    }

    #[test]
    fn images_deadlines_and_more_tolerations_may_change() {
        let none = json!({});
        for allowed in [
            json!({"containers": [{"name": "main", "image": "b", "env": [{"name": "X"}], "tty": false}]}),
            json!({"activeDeadlineSeconds": 50}),
            json!({"tolerations": [{"key": "new"}, {"key": "k", "operator": "Exists"}]}),
            json!({"volumes": [], "nodeSelector": null, "hostNetwork": false}),
        ] {
            assert_eq!(fields(&allowed, &none), [""; 0], "{allowed}");
        }
        let negative = json!({"terminationGracePeriodSeconds": -1});
        assert_eq!(
            fields(&json!({"terminationGracePeriodSeconds": 1}), &negative),
            [""; 0]
        );
        let gated = json!({"schedulingGates": [{"name": "g"}]});
        let opened = json!({"schedulingGates": [], "nodeSelector": {"a": "b"}});
        assert_eq!(fields(&opened, &gated), [""; 0]);
    }

    #[test]
    fn ephemeral_containers_are_added_and_stay() {
        let with = |containers: Value| pod(&json!({"ephemeralContainers": containers}));
        let debugger = json!({"name": "dbg", "image": "a"});
        let reasons = |new: Value, old: Value| -> Vec<String> {
            let errors = check_ephemeral(&with(new), &with(old));
            let shown = errors
                .into_iter()
                .map(|e| format!("{} {}", e.field, e.message));
            shown.collect()
        };
        assert_eq!(reasons(json!([debugger]), json!([])), [""; 0]);
        let both = json!([debugger, {"name": "more", "image": "b"}]);
        assert_eq!(reasons(both, json!([debugger])), [""; 0]);
        for (new, reason) in [
            (json!([]), "may not be removed"),
            (json!([{"name": "dbg", "image": "b"}]), "may not be changed"),
            (
                json!([debugger, {"name": "main", "image": "b"}]),
                "Duplicate value: \"main\"",
            ),
            (json!([debugger, {"name": "x"}]), "[1].image Required value"),
        ] {
            let found = reasons(new.clone(), json!([debugger]));
            assert!(
                found.len() == 1 && found[0].contains(reason),
                "{new}: {found:?}"
            );
        }
    }

    #[test]
    fn nothing_else_may() {
        let none = json!({});
        for (refused, field) in [
            (json!({"nodeName": "n"}), "spec"),
            (
                json!({"containers": [{"name": "main", "image": "a"}]}),
                "spec",
            ),
            (json!({"containers": []}), "spec.containers"),
            (
                json!({"initContainers": [{"name": "i"}]}),
                "spec.initContainers",
            ),
            (
                json!({"activeDeadlineSeconds": 101}),
                "spec.activeDeadlineSeconds",
            ),
            (
                json!({"activeDeadlineSeconds": null}),
                "spec.activeDeadlineSeconds",
            ),
            (json!({"terminationGracePeriodSeconds": 1}), "spec"),
        ] {
            assert_eq!(fields(&refused, &none), [field], "{refused}");
        }
        assert_eq!(
            fields(&json!({"tolerations": []}), &none),
            ["spec.tolerations"]
        );
        let gated = json!({"schedulingGates": [{"name": "g"}]});
        let other = json!({"schedulingGates": [{"name": "h"}]});
        assert_eq!(fields(&other, &gated), ["spec.schedulingGates"]);
    }
}
