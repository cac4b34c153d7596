//! Machine: drops and adds members of an object as Go's encoder does. Go omits zeros that it cannot
//! distinguish from absent members, and always writes required members.

use serde_json::{Map, Value, json};
use steersman_protobuf::Message;

use super::Scalar;
use super::table::{self, Node, Type};

/// Drops the members of an object that Go cannot distinguish from absent ones: empty lists and
/// maps, and the zeros of fields that are not pointers. Leaves `metadata` unchanged.
pub fn drop_zeros(api_version: &str, kind: &str, object: &mut Value) {
    if let (Some(ty), Some(members)) = (table::kind(api_version, kind), object.as_object_mut()) {
        for (name, value) in members.iter_mut() {
            if name != "metadata" {
                walk(ty.fields.get(name.as_str()), value, retain);
            }
        }
        retain(ty, members);
    }
}

/// Adds the absent required members of an object and of its structs, with Go's zero of their types.
/// Leaves `metadata` unchanged.
pub fn write_required(api_version: &str, kind: &str, object: &mut Value) {
    if let (Some(ty), Some(members)) = (table::kind(api_version, kind), object.as_object_mut()) {
        for (name, value) in members.iter_mut() {
            if name != "metadata" {
                walk(ty.fields.get(name.as_str()), value, write_in);
            }
        }
        for name in &ty.required {
            if *name != "metadata" {
                write_member(ty, name, members);
            }
        }
    }
}

/// A function that changes the members of one struct of the given type.
type Each = fn(&'static Type, &mut Map<String, Value>);

/// Calls `each` for every struct in a value, outer structs first.
fn walk(node: Option<&'static Node>, value: &mut Value, each: Each) {
    match (node, value) {
        (Some(Node::Ref(named)), Value::Object(members)) => {
            let Some(ty) = named.ty() else {
                return;
            };
            each(ty, members);
            for (name, value) in members.iter_mut() {
                walk(ty.fields.get(name.as_str()), value, each);
            }
        }
        (Some(Node::List { items, .. }), Value::Array(list)) => {
            for item in list {
                walk(Some(items), item, each);
            }
        }
        (Some(Node::Map { values, .. }), Value::Object(members)) => {
            for value in members.values_mut() {
                walk(Some(values), value, each);
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
        if let (Node::List { .. }, Value::Array(list)) = (node, &*value) {
            return !list.is_empty();
        }
        if ty.required.contains(&name.as_str()) {
            return true;
        }
        let zero = match (node, &*value) {
            (Node::Map { .. }, Value::Object(members)) => return !members.is_empty(),
            (Node::Scalar(Scalar::String), Value::String(text)) => text.is_empty(),
            (Node::Scalar(Scalar::Boolean), Value::Bool(on)) => !on,
            (Node::Int32 | Node::Scalar(Scalar::Integer), Value::Number(number)) => {
                number.as_i64() == Some(0)
            }
            _ => false,
        };
        !zero || message.is_some_and(|message| message.keeps_zero(name))
    });
}

fn write_in(ty: &'static Type, members: &mut Map<String, Value>) {
    for name in &ty.required {
        write_member(ty, name, members);
    }
}

fn write_member(ty: &'static Type, name: &str, members: &mut Map<String, Value>) {
    // An absent pointer differs from an empty value.
    let is_pointer = Message::named(ty.name).is_some_and(|message| message.is_pointer(name));
    if members.contains_key(name) || is_pointer {
        return;
    }
    let zero = match ty.fields.get(name) {
        Some(Node::Scalar(Scalar::String)) => json!(""),
        Some(Node::Scalar(Scalar::Boolean)) => json!(false),
        Some(Node::Int32 | Node::Scalar(Scalar::Integer | Scalar::IntOrString)) => json!(0),
        Some(Node::Scalar(Scalar::Quantity)) => json!("0"),
        Some(Node::List { .. } | Node::Scalar(Scalar::Time)) => Value::Null,
        Some(Node::Ref(_)) => {
            let mut made = json!({});
            walk(ty.fields.get(name), &mut made, write_in);
            made
        }
        _ => return,
    };
    members.insert(name.to_owned(), zero);
}

#[cfg(test)]
mod tests {
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
    fn absent_required_members_are_added() {
        let mut binding = json!({"subjects": [{"kind": "User"}]});
        write_required("rbac.authorization.k8s.io/v1", "RoleBinding", &mut binding);
        assert_eq!(
            binding,
            json!({"roleRef": {"kind": "", "name": ""},
                "subjects": [{"kind": "User", "name": ""}]})
        );
        let mut node = json!({"spec": {}});
        write_required("storage.k8s.io/v1", "CSINode", &mut node);
        assert_eq!(node, json!({"spec": {"drivers": null}}));
    }
}
