//! Words: claims, allocations and names of devices, as Go prints their internal types.

use serde_json::Value;
use steersman_apimachinery::go;

use crate::fields::go_value::GoType::{self, List, Number, Plain, Pointer, Struct, Text};
use crate::fields::go_value::{NODE_SELECTOR, TOLERATION, print};

const RESULT: GoType = Struct(&[
    ("Request", "request", Text),
    ("Driver", "driver", Text),
    ("Pool", "pool", Text),
    ("Device", "device", Text),
    ("AdminAccess", "adminAccess", Plain),
    ("Tolerations", "tolerations", List(&TOLERATION)),
    ("BindingConditions", "bindingConditions", Plain),
    (
        "BindingFailureConditions", "bindingFailureConditions", Plain,
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

const DEVICES: GoType = Struct(&[
    ("Results", "results", List(&RESULT)),
    ("Config", "config", List(&CONFIGURATION)),
]);

pub(super) const ALLOCATION: GoType = Struct(&[
    ("Devices", "devices", DEVICES),
    ("NodeSelector", "nodeSelector", Pointer(&NODE_SELECTOR)),
    ("AllocationTimestamp", "allocationTimestamp", Plain),
]);

/// The identity of a device: driver, pool, name and share.
pub(super) const SHARED_DEVICE: GoType = Struct(&[
    ("Driver", "driver", Text),
    ("Pool", "pool", Text),
    ("Device", "device", Text),
    ("ShareID", "shareID", Text),
]);

const EXPRESSION: GoType = Struct(&[("Expression", "expression", Text)]);

const SELECTOR: GoType = Struct(&[("CEL", "cel", Pointer(&EXPRESSION))]);

const CAPACITY: GoType = Struct(&[("Requests", "requests", Plain)]);

const EXACT_REQUEST: GoType = Struct(&[
    ("DeviceClassName", "deviceClassName", Text),
    ("Selectors", "selectors", List(&SELECTOR)),
    ("AllocationMode", "allocationMode", Text),
    ("Count", "count", Number),
    ("AdminAccess", "adminAccess", Plain),
    ("Tolerations", "tolerations", List(&TOLERATION)),
    ("Capacity", "capacity", Pointer(&CAPACITY)),
]);

const SUB_REQUEST: GoType = Struct(&[
    ("Name", "name", Text),
    ("DeviceClassName", "deviceClassName", Text),
    ("Selectors", "selectors", List(&SELECTOR)),
    ("AllocationMode", "allocationMode", Text),
    ("Count", "count", Number),
    ("Tolerations", "tolerations", List(&TOLERATION)),
    ("Capacity", "capacity", Pointer(&CAPACITY)),
]);

const REQUEST: GoType = Struct(&[
    ("Name", "name", Text),
    ("Exactly", "exactly", Pointer(&EXACT_REQUEST)),
    ("FirstAvailable", "firstAvailable", List(&SUB_REQUEST)),
]);

const CONSTRAINT: GoType = Struct(&[
    ("Requests", "requests", Plain),
    ("MatchAttribute", "matchAttribute", Plain),
    ("DistinctAttribute", "distinctAttribute", Plain),
]);

const CLAIM_CONFIGURATION: GoType = Struct(&[
    ("Requests", "requests", Plain),
    ("Opaque", "opaque", Pointer(&OPAQUE)),
]);

const CLAIMED_DEVICES: GoType = Struct(&[
    ("Requests", "requests", List(&REQUEST)),
    ("Constraints", "constraints", List(&CONSTRAINT)),
    ("Config", "config", List(&CLAIM_CONFIGURATION)),
]);

pub(super) const CLAIM_SPEC: GoType = Struct(&[("Devices", "devices", CLAIMED_DEVICES)]);

/// The members of a template's metadata, in the order of Go's `ObjectMeta`.
const TEMPLATE_METADATA: [&str; 2] = ["labels", "annotations"];

/// Prints the spec of a template of claims. Its metadata have the names of the API.
pub(super) fn template_spec(spec: &Value) -> String {
    let mut members = String::new();
    for member in TEMPLATE_METADATA {
        let value = &spec["metadata"][member];
        if value.as_object().is_some_and(|map| !map.is_empty()) {
            members.push_str(&format!("\"{member}\":{value},"));
        }
    }
    let claim = print(&CLAIM_SPEC, &spec["spec"]);
    format!("{{{}\"Spec\":{claim}}}", go::escape_html(&members))
}
