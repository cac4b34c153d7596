//! Machine: reads values by their types: how managers share a value, the identity of a list element, the mistakes in a
//! configuration, and the fields that it names.

use std::sync::LazyLock;

use serde_json::{Map, Value};
use steersman_apimachinery::go;
use steersman_schema::types::{ListKind, Scalar, TypeRef, ValueShape};

use super::field_set::{FieldNode, FieldSet};
use super::path_element::{Atom, PathElement};

/// The way in which managers share the ownership of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SharedForm {
    /// An atomic value: one manager owns it as a whole.
    Leaf,
    /// An object; each member has owners of its own.
    Members,
    /// A list; each element has owners of its own.
    Elements,
}

/// Returns the way in which managers share a value of this type. Null fits every type.
pub(super) fn form(ty: TypeRef<'_>, value: &Value) -> SharedForm {
    let granular = !ty.is_atomic_map();
    match (ty.shape(), value) {
        (ValueShape::Struct | ValueShape::Map, Value::Null | Value::Object(_)) if granular => {
            SharedForm::Members
        }
        (ValueShape::Any, Value::Object(_)) if granular => SharedForm::Members,
        (ValueShape::List, Value::Null | Value::Array(_)) if ty.list() != ListKind::Atomic => {
            SharedForm::Elements
        }
        _ => SharedForm::Leaf,
    }
}

/// Returns whether a value is absent, null or empty.
pub(super) fn is_hollow(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => true,
        Some(Value::Object(members)) => members.is_empty(),
        Some(Value::Array(items)) => items.is_empty(),
        Some(_) => false,
    }
}

/// Returns the type of a member, or the untyped one if the type does not declare the member.
pub(super) fn member_type<'a>(ty: TypeRef<'a>, name: &str) -> TypeRef<'a> {
    ty.field(name).unwrap_or(TypeRef::untyped())
}

/// Returns the identity of a list element, or why the element has none of its own.
pub(super) fn identify(ty: TypeRef<'_>, item: &Value) -> Result<PathElement, String> {
    match ty.list() {
        ListKind::Map(keys) => {
            let Value::Object(members) = item else {
                let what = if item.is_null() {
                    "a null element"
                } else {
                    "non-map elements"
                };
                let why = format!("associative list with keys may not have {what}");
                return Err(why);
            };
            // A key field with neither a value nor a default is left out of the identity, unless all key fields are.
            let fields = keys.iter().filter_map(|key| {
                let value = members.get(key).cloned().or_else(|| key_default(ty, key));
                Some((key.clone(), Atom(value?)))
            });
            let mut fields: Vec<_> = fields.collect();
            if fields.is_empty() {
                let keys: Vec<String> = keys.iter().map(|key| format!("\"{key}\"")).collect();
                return Err(format!(
                    "associative list with keys has an element that omits all key fields [{}] (and doesn't have default values for any key fields)",
                    keys.join(" ")
                ));
            }
            fields.sort();
            Ok(PathElement::Key(fields))
        }
        _ => {
            let why = match item {
                Value::Object(_) => {
                    "associative list without keys has an element that's a map type"
                }
                Value::Array(_) => "not supported: associative list with lists as elements",
                Value::Null => {
                    "associative list without keys has an element that's an explicit null"
                }
                scalar => return Ok(PathElement::Value(Atom(scalar.clone()))),
            };
            Err(why.to_owned())
        }
    }
}

/// Returns the elements of a list that have an identity, each with its identity.
pub(super) fn identified<'a>(ty: TypeRef<'_>, list: &'a [Value]) -> Vec<(PathElement, &'a Value)> {
    let items = list.iter();
    items
        .filter_map(|item| Some((identify(ty, item).ok()?, item)))
        .collect()
}

/// Returns the elements of a list; none for a value that is no list.
pub(super) fn items(list: Option<&Value>) -> &[Value] {
    list.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Returns the value that stands for an absent key field: its default, or in a built-in type the empty value.
fn key_default(ty: TypeRef<'_>, key: &str) -> Option<Value> {
    if let Some(default) = ty.key_default(key) {
        return Some(default.into_owned());
    }
    let items = ty.items();
    items.name()?;
    match items.field(key)?.shape() {
        ValueShape::Scalar(Scalar::String) => Some(Value::from("")),
        ValueShape::Scalar(Scalar::Integer) => Some(Value::from(0)),
        _ => None,
    }
}

/// Checks that a configuration fits its type.
///
/// # Errors
/// Fails with all mistakes.
pub fn check_configuration(ty: TypeRef<'_>, value: &Value) -> Result<(), String> {
    match validate(ty, value).as_slice() {
        [] => Ok(()),
        [one] => Err(one.clone()),
        several => Err(format!("errors:\n  {}", several.join("\n  "))),
    }
}

/// Returns the mistakes of a configuration, each with its path.
pub(super) fn validate(ty: TypeRef<'_>, value: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    check(ty, value, "", &mut wrong);
    wrong
}

fn check(ty: TypeRef<'_>, value: &Value, path: &str, wrong: &mut Vec<String>) {
    let shape = ty.shape();
    let shape = match (shape, value) {
        (_, Value::Null) => return,
        (ValueShape::Any, Value::Array(_)) => ValueShape::List,
        (ValueShape::Any, Value::Object(_)) => ValueShape::Map,
        (ValueShape::Any, _) => return,
        (shape, _) => shape,
    };
    match shape {
        ValueShape::Scalar(scalar) => {
            if let Some(why) = scalar_mistake(scalar, value) {
                wrong.push(format!("{path}: {why}"));
            }
        }
        ValueShape::List => check_list(ty, value, path, wrong),
        ValueShape::Struct | ValueShape::Map | ValueShape::Any => {
            let Value::Object(members) = value else {
                wrong.push(format!("{path}: {}", mismatch("map", value)));
                return;
            };
            for (name, member) in members {
                let below = format!("{path}.{name}");
                let Some(field) = ty.field(name) else {
                    // As upstream, only one unknown field of each object is reported, and the object is not checked
                    // further.
                    wrong.push(format!("{below}: field not declared in schema"));
                    return;
                };
                check(field, member, &below, wrong);
            }
        }
    }
}

fn check_list(ty: TypeRef<'_>, value: &Value, path: &str, wrong: &mut Vec<String>) {
    let Value::Array(items) = value else {
        wrong.push(format!("{path}: {}", mismatch("list", value)));
        return;
    };
    let mut seen = FieldSet::default();
    for (at, item) in items.iter().enumerate() {
        let element = if ty.list() == ListKind::Atomic {
            PathElement::Index(at as u64)
        } else {
            match identify(ty, item) {
                Ok(element) => element,
                Err(why) => {
                    wrong.push(format!("{path}: element {at}: {why}"));
                    return;
                }
            }
        };
        if seen.node(&element).is_some() {
            wrong.push(format!("{path}: duplicate entries for key {element}"));
            return;
        }
        check(ty.items(), item, &format!("{path}{element}"), wrong);
        seen.insert(element);
    }
}

fn scalar_mistake(scalar: Scalar, value: &Value) -> Option<String> {
    let composite = value.is_object() || value.is_array();
    match scalar {
        Scalar::String | Scalar::Bytes if !value.is_string() => Some(format!(
            "expected string, got &value.valueUnstructured{{Value:{}}}",
            go_syntax(value)
        )),
        Scalar::Integer | Scalar::Number if !value.is_number() => Some(format!(
            "expected numeric (int or float), got {}",
            go::type_of(value)
        )),
        Scalar::Boolean if !value.is_boolean() => Some(mismatch("boolean", value)),
        Scalar::Time | Scalar::Quantity | Scalar::IntOrString if composite => {
            Some(mismatch("any scalar", value))
        }
        _ => None,
    }
}

fn mismatch(wanted: &str, value: &Value) -> String {
    format!("expected {wanted}, got &{{{}}}", go::print(value))
}

/// Prints a value as Go's `%#v` does.
fn go_syntax(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(go_syntax).collect();
            format!("[]interface {{}}{{{}}}", items.join(", "))
        }
        Value::Object(members) => {
            let member = |(k, v): (&String, &Value)| format!("{}:{}", go::quote(k), go_syntax(v));
            let members: Vec<String> = members.iter().map(member).collect();
            format!("map[string]interface {{}}{{{}}}", members.join(", "))
        }
        other => other.to_string(),
    }
}

/// Returns the fields that a value names: each scalar, each element of a granular list, and each null or empty object.
/// An object with members does not name the field of the object itself.
pub(super) fn fields_of(ty: TypeRef<'_>, value: &Value) -> FieldSet {
    let mut set = FieldSet::default();
    match (form(ty, value), value) {
        (SharedForm::Members, Value::Object(members)) => {
            for (name, member) in members {
                let field = member_type(ty, name);
                let named = !ty.declares(name)
                    || is_hollow(Some(member)) && !member.is_array()
                    || form(field, member) == SharedForm::Leaf;
                let node = FieldNode {
                    member: named,
                    below: fields_of(field, member),
                };
                set.put(PathElement::field(name), node);
            }
        }
        (SharedForm::Elements, Value::Array(items)) => {
            for item in items {
                if let Ok(element) = identify(ty, item) {
                    let mut below = fields_of(ty.items(), item);
                    if let Some(known) = set.node(&element) {
                        below.extend(known.below.clone());
                    }
                    let member = true;
                    set.put(element, FieldNode { member, below });
                }
            }
        }
        _ => {}
    }
    set
}

/// Returns a set with the declared parent fields of its members added.
pub(super) fn with_parents(ty: TypeRef<'_>, set: &FieldSet) -> FieldSet {
    let mut all = FieldSet::default();
    for (element, node) in set.nodes() {
        let (declared, below) = match element {
            PathElement::Field(name) => (ty.declares(name), member_type(ty, name)),
            _ => (false, ty.items()),
        };
        let node = FieldNode {
            member: node.member || declared && !node.below.is_empty(),
            below: with_parents(below, &node.below),
        };
        all.put(element.clone(), node);
    }
    all
}

/// Normalises the nulls that the merge of a configuration left to the stored form of a built-in kind: a null value of a
/// map becomes the empty value, and any other null is removed.
pub(super) fn complete(ty: TypeRef<'_>, value: &mut Value) {
    match value {
        Value::Object(members) => {
            let map = ty.shape() == ValueShape::Map;
            for (name, member) in members.iter_mut() {
                let field = member_type(ty, name);
                if map && member.is_null() && field.shape() == ValueShape::Scalar(Scalar::String) {
                    *member = Value::from("");
                }
                complete(field, member);
            }
            if ty.shape() != ValueShape::Any {
                members.retain(|_, member| !member.is_null());
            }
        }
        Value::Array(items) => {
            for item in items {
                complete(ty.items(), item);
            }
        }
        _ => {}
    }
}

/// Struct fields that every object of a built-in kind has, even without content, because the Go struct contains the
/// value and no pointer. By the name of the surrounding type. Source: the types of `k8s.io/api` 1.36.
const HELD_BY_VALUE: &[(&str, &[&str])] = &[
    ("CronJobSpec", &["jobTemplate"]),
    ("CustomResourceDefinitionSpec", &["names"]),
    ("DaemonSetSpec", &["template", "updateStrategy"]),
    ("DeploymentSpec", &["template", "strategy"]),
    ("Event", &["source", "deprecatedSource"]),
    ("FlowSchemaSpec", &["priorityLevelConfiguration"]),
    ("HorizontalPodAutoscalerSpec", &["scaleTargetRef"]),
    ("IngressStatus", &["loadBalancer"]),
    ("JobSpec", &["template"]),
    ("NodeDaemonEndpoints", &["kubeletEndpoint"]),
    ("NodeStatus", &["daemonEndpoints", "nodeInfo"]),
    ("NetworkPolicySpec", &["podSelector"]),
    ("PersistentVolumeClaimSpec", &["resources"]),
    ("PodTemplate", &["template"]),
    ("ReplicaSetSpec", &["template"]),
    ("ResourceClaimSpec", &["devices"]),
    ("ResourceClaimTemplateSpec", &["spec"]),
    ("ResourceSliceSpec", &["pool"]),
    ("ServiceStatus", &["loadBalancer"]),
    ("StatefulSetSpec", &["template", "updateStrategy"]),
    ("VolumeAttachmentSpec", &["source"]),
];

/// Fields that Go writes even if they are empty: lists and times as null, texts as `""`, numbers as zero. By the name
/// of the surrounding type.
const HELD_EMPTY: &[(&str, &[&str])] = &[
    ("CustomResourceDefinitionStatus", &["conditions"]),
    (
        "Event",
        &[
            "deprecatedFirstTimestamp", "deprecatedLastTimestamp", "eventTime", "firstTimestamp",
            "lastTimestamp", "reportingComponent", "reportingInstance",
        ],
    ),
    (
        "PodDisruptionBudgetStatus",
        &[
            "currentHealthy", "desiredHealthy", "disruptionsAllowed", "expectedPods",
        ],
    ),
    ("PodSpec", &["containers"]),
];

static EMPTY: LazyLock<Value> = LazyLock::new(|| Value::Object(Map::new()));
static NO_TEXT: LazyLock<Value> = LazyLock::new(|| Value::from(""));
static ZERO: LazyLock<Value> = LazyLock::new(|| Value::from(0));
static NULL: Value = Value::Null;

/// Returns the zero value of a field that the Go struct contains as a value; `None` for a field behind a pointer.
pub(super) fn held(ty: TypeRef<'_>, name: &str) -> Option<&'static Value> {
    let holder = ty.name()?;
    let listed = |table: &[(&str, &[&str])]| {
        let mut found = table.iter().filter(|(known, _)| *known == holder);
        found.any(|(_, fields)| fields.contains(&name))
    };
    let usual = matches!(name, "metadata" | "spec" | "status");
    if usual || listed(HELD_BY_VALUE) {
        let shape = ty.field(name)?.shape();
        return (shape == ValueShape::Struct).then(|| &*EMPTY);
    }
    if !listed(HELD_EMPTY) {
        return None;
    }
    Some(match ty.field(name)?.shape() {
        ValueShape::Scalar(Scalar::String) => &NO_TEXT,
        ValueShape::Scalar(Scalar::Integer) => &ZERO,
        _ => &NULL,
    })
}
