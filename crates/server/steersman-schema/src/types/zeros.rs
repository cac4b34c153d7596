//! Machine: drops and adds members of an object as Go's encoder does. Go omits zeros that it cannot
//! distinguish from absent members, and writes members without `omitempty` always.

use serde_json::{Map, Value};
use steersman_protobuf::{Message, complete_object};

use super::Scalar;
use super::table::{self, Type, TypeNode};

/// Drops the members of an object that Go cannot distinguish from absent ones: empty lists and
/// maps, and the zeros of fields that are not pointers. Leaves `metadata` unchanged.
pub fn drop_zeros(api_version: &str, kind: &str, object: &mut Value) {
    if let (Some(ty), Some(members)) = (table::kind(api_version, kind), object.as_object_mut()) {
        for (name, value) in members.iter_mut() {
            if name != "metadata" {
                walk(ty.fields.get(name.as_str()), value);
            }
        }
        retain(ty, members);
    }
}

/// Returns whether an object has an empty list or map outside `metadata`, which Go distinguishes until it is stored.
#[must_use]
pub fn has_empty(api_version: &str, kind: &str, object: &Value) -> bool {
    let (Some(ty), Some(members)) = (table::kind(api_version, kind), object.as_object()) else {
        return false;
    };
    let mut members = members.iter().filter(|(name, _)| *name != "metadata");
    members.any(|(name, value)| is_or_has_empty(ty.fields.get(name.as_str()), value))
}

fn is_or_has_empty(node: Option<&'static TypeNode>, value: &Value) -> bool {
    match (node, value) {
        (Some(TypeNode::Ref(named)), Value::Object(members)) => named.ty().is_some_and(|ty| {
            let mut members = members.iter();
            members.any(|(name, value)| is_or_has_empty(ty.fields.get(name.as_str()), value))
        }),
        (Some(TypeNode::List { items, .. }), Value::Array(list)) => {
            list.is_empty() || list.iter().any(|item| is_or_has_empty(Some(items), item))
        }
        (Some(TypeNode::Map { values, .. }), Value::Object(members)) => {
            let mut inside = members.values();
            members.is_empty() || inside.any(|value| is_or_has_empty(Some(values), value))
        }
        _ => false,
    }
}

/// Adds the absent members of an object and of its parts that Go writes even if they are not set, with the zero of
/// their types (SRV-KIND-3). Leaves `metadata` unchanged.
pub fn write_always(api_version: &str, kind: &str, object: &mut Value) {
    if let (Some(message), Some(members)) =
        (Message::of_kind(api_version, kind), object.as_object_mut())
    {
        complete_object(message, members);
    }
}

/// Drops the zeros of every struct in a value, outer structs first.
fn walk(node: Option<&'static TypeNode>, value: &mut Value) {
    match (node, value) {
        (Some(TypeNode::Ref(named)), Value::Object(members)) => {
            let Some(ty) = named.ty() else {
                return;
            };
            retain(ty, members);
            for (name, value) in members.iter_mut() {
                walk(ty.fields.get(name.as_str()), value);
            }
        }
        (Some(TypeNode::List { items, .. }), Value::Array(list)) => {
            for item in list {
                walk(Some(items), item);
            }
        }
        (Some(TypeNode::Map { values, .. }), Value::Object(members)) => {
            for value in members.values_mut() {
                walk(Some(values), value);
            }
        }
        _ => {}
    }
}

fn retain(ty: &'static Type, members: &mut Map<String, Value>) {
    let message = Message::named(ty.name);
    members.retain(|name, value| {
        let Some(node) = ty.fields.get(name.as_str()) else {
            return true;
        };
        // Storage drops every empty list, even if the field is required.
        if let (TypeNode::List { .. }, Value::Array(list)) = (node, &*value) {
            return !list.is_empty();
        }
        let zero = match (node, &*value) {
            (TypeNode::Map { .. }, Value::Object(members)) => return !members.is_empty(),
            (TypeNode::Scalar(Scalar::String | Scalar::Bytes), Value::String(text)) => {
                text.is_empty()
            }
            (TypeNode::Scalar(Scalar::Boolean), Value::Bool(on)) => !on,
            (TypeNode::Int32 | TypeNode::Scalar(Scalar::Integer), Value::Number(number)) => {
                number.as_i64() == Some(0)
            }
            _ => false,
        };
        !zero || message.is_some_and(|message| message.keeps_zero(name))
    });
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn zeros_of_fields_that_are_not_pointers_are_dropped() {
        let mut pod = json!({"metadata": {"labels": {}}, "spec": {"hostNetwork": false,
            "nodeName": "", "nodeSelector": {}, "shareProcessNamespace": false,
            "containers": [{"name": "", "command": [], "stdin": false, "resources": {"limits": {}},
                "securityContext": {"privileged": false, "runAsUser": 0},
                "ports": [{"hostPort": 0, "containerPort": 0, "name": ""}]}],
            "volumes": [{"name": "v", "emptyDir": {"medium": ""}},
                {"name": "h", "hostPath": {"path": "", "type": ""}}]}});
        drop_zeros("v1", "Pod", &mut pod);
        assert_eq!(
            pod,
            json!({"metadata": {"labels": {}}, "spec": {"shareProcessNamespace": false,
                "containers": [{"name": "", "resources": {},
                    "securityContext": {"privileged": false, "runAsUser": 0},
                    "ports": [{"containerPort": 0}]}],
                "volumes": [{"name": "v", "emptyDir": {}},
                    {"name": "h", "hostPath": {"path": "", "type": ""}}]}})
        );
    }

    #[test]
    fn members_that_go_always_writes_are_added() {
        let mut binding = json!({"subjects": [{"kind": "User"}]});
        write_always("rbac.authorization.k8s.io/v1", "RoleBinding", &mut binding);
        assert_eq!(
            binding,
            json!({"roleRef": {"apiGroup": "", "kind": "", "name": ""},
                "subjects": [{"kind": "User", "name": ""}]})
        );
        let mut claim = json!({"spec": {"dataSource": {"kind": "K", "name": "n"}}});
        write_always("v1", "PersistentVolumeClaim", &mut claim);
        assert_eq!(
            claim,
            json!({"spec": {"dataSource": {"apiGroup": null, "kind": "K", "name": "n"}, "resources": {}},
                "status": {}})
        );
        let mut node = json!({"spec": {}});
        write_always("storage.k8s.io/v1", "CSINode", &mut node);
        assert_eq!(node, json!({"spec": {"drivers": null}}));
    }
}
