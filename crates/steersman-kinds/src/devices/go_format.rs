//! Words: prints allocations and names of devices as Go prints their internal types.

use serde_json::Value;

use steersman_text::go;

/// How Go prints a type. A struct prints all its fields, in the order of their declaration.
enum GoType {
    /// The value itself, or `null`.
    Plain,
    /// A text; empty if absent.
    Text,
    List(&'static Self),
    /// A struct that may be absent.
    Pointer(&'static Self),
    /// A struct: for each field its name in Go, its name in the API, and its type.
    Struct(&'static [(&'static str, &'static str, Self)]),
}

use GoType::{List, Plain, Pointer, Struct, Text};

const TOLERATION: GoType = Struct(&[
    ("Key", "key", Text),
    ("Operator", "operator", Text),
    ("Value", "value", Text),
    ("Effect", "effect", Text),
    ("TolerationSeconds", "tolerationSeconds", Plain),
]);

const RESULT: GoType = Struct(&[
    ("Request", "request", Text),
    ("Driver", "driver", Text),
    ("Pool", "pool", Text),
    ("Device", "device", Text),
    ("AdminAccess", "adminAccess", Plain),
    ("Tolerations", "tolerations", List(&TOLERATION)),
    ("BindingConditions", "bindingConditions", Plain),
    (
        "BindingFailureConditions",
        "bindingFailureConditions",
        Plain,
    ),
    ("ShareID", "shareID", Plain),
    ("ConsumedCapacity", "consumedCapacity", Plain),
]);

const OPAQUE: GoType = Struct(&[
    ("Driver", "driver", Text),
    ("Parameters", "parameters", Plain),
]);

const CONFIGURATION: GoType = Struct(&[
    ("Source", "source", Text),
    ("Requests", "requests", Plain),
    ("Opaque", "opaque", Pointer(&OPAQUE)),
]);

const REQUIREMENT: GoType = Struct(&[
    ("Key", "key", Text),
    ("Operator", "operator", Text),
    ("Values", "values", Plain),
]);

const TERM: GoType = Struct(&[
    ("MatchExpressions", "matchExpressions", List(&REQUIREMENT)),
    ("MatchFields", "matchFields", List(&REQUIREMENT)),
]);

const NODE_SELECTOR: GoType = Struct(&[("NodeSelectorTerms", "nodeSelectorTerms", List(&TERM))]);

const DEVICES: GoType = Struct(&[
    ("Results", "results", List(&RESULT)),
    ("Config", "config", List(&CONFIGURATION)),
]);

const ALLOCATION: GoType = Struct(&[
    ("Devices", "devices", DEVICES),
    ("NodeSelector", "nodeSelector", Pointer(&NODE_SELECTOR)),
    ("AllocationTimestamp", "allocationTimestamp", Plain),
]);

const SHARED_DEVICE: GoType = Struct(&[
    ("Driver", "driver", Text),
    ("Pool", "pool", Text),
    ("Device", "device", Text),
    ("ShareID", "shareID", Text),
]);

/// Prints an allocation.
pub(super) fn allocation(value: &Value) -> String {
    go::escape_html(&print(&ALLOCATION, value))
}

/// Prints the terms of a selector of nodes.
pub(super) fn node_terms(value: &Value) -> String {
    go::escape_html(&print(&List(&TERM), value))
}

/// Prints the identity of a device: driver, pool, name and share.
pub(super) fn shared_device(value: &Value) -> String {
    go::escape_html(&print(&SHARED_DEVICE, value))
}

fn print(kind: &GoType, value: &Value) -> String {
    match kind {
        Text if value.is_null() => "\"\"".to_owned(),
        Plain | Text => value.to_string(),
        List(_) | Pointer(_) if value.is_null() => "null".to_owned(),
        Pointer(inner) => print(inner, value),
        List(inner) => {
            let all = value.as_array().into_iter().flatten();
            let all: Vec<String> = all.map(|one| print(inner, one)).collect();
            format!("[{}]", all.join(","))
        }
        Struct(fields) => {
            let fields = fields.iter().map(|(name, key, kind)| {
                let value = value.get(key).unwrap_or(&Value::Null);
                format!("\"{name}\":{}", print(kind, value))
            });
            let fields: Vec<String> = fields.collect();
            format!("{{{}}}", fields.join(","))
        }
    }
}
