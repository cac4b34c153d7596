//! Words: claims, allocations and names of devices, as Go prints their internal types.

use serde_json::Value;
use steersman_apimachinery::go;

use crate::fields::go_value::GoType::{self, List, Number, Plain, Pointer, Struct, Text};
use crate::fields::go_value::{NODE_SELECTOR, TOLERATION, print};

const RESULT: GoType = Struct(&[
    ("request", Text),
    ("driver", Text),
    ("pool", Text),
    ("device", Text),
    ("adminAccess", Plain),
    ("tolerations", List(&TOLERATION)),
    ("bindingConditions", Plain),
    ("bindingFailureConditions", Plain),
    ("shareID", Plain),
    ("consumedCapacity", Plain),
]);

const OPAQUE: GoType = Struct(&[("driver", Text), ("parameters", Plain)]);

const CONFIGURATION: GoType = Struct(&[
    ("source", Text),
    ("requests", Plain),
    ("opaque", Pointer(&OPAQUE)),
]);

const DEVICES: GoType = Struct(&[("results", List(&RESULT)), ("config", List(&CONFIGURATION))]);

pub(super) const ALLOCATION: GoType = Struct(&[
    ("devices", DEVICES),
    ("nodeSelector", Pointer(&NODE_SELECTOR)),
    ("allocationTimestamp", Plain),
]);

/// The identity of a device: driver, pool, name and share.
pub(super) const SHARED_DEVICE: GoType = Struct(&[
    ("driver", Text),
    ("pool", Text),
    ("device", Text),
    ("shareID", Text),
]);

const EXPRESSION: GoType = Struct(&[("expression", Text)]);

const SELECTOR: GoType = Struct(&[("cel", Pointer(&EXPRESSION))]);

const CAPACITY: GoType = Struct(&[("requests", Plain)]);

const EXACT_REQUEST: GoType = Struct(&[
    ("deviceClassName", Text),
    ("selectors", List(&SELECTOR)),
    ("allocationMode", Text),
    ("count", Number),
    ("adminAccess", Plain),
    ("tolerations", List(&TOLERATION)),
    ("capacity", Pointer(&CAPACITY)),
]);

const SUB_REQUEST: GoType = Struct(&[
    ("name", Text),
    ("deviceClassName", Text),
    ("selectors", List(&SELECTOR)),
    ("allocationMode", Text),
    ("count", Number),
    ("tolerations", List(&TOLERATION)),
    ("capacity", Pointer(&CAPACITY)),
]);

const REQUEST: GoType = Struct(&[
    ("name", Text),
    ("exactly", Pointer(&EXACT_REQUEST)),
    ("firstAvailable", List(&SUB_REQUEST)),
]);

const CONSTRAINT: GoType = Struct(&[
    ("requests", Plain),
    ("matchAttribute", Plain),
    ("distinctAttribute", Plain),
]);

const CLAIM_CONFIGURATION: GoType = Struct(&[("requests", Plain), ("opaque", Pointer(&OPAQUE))]);

const CLAIMED_DEVICES: GoType = Struct(&[
    ("requests", List(&REQUEST)),
    ("constraints", List(&CONSTRAINT)),
    ("config", List(&CLAIM_CONFIGURATION)),
]);

pub(super) const CLAIM_SPEC: GoType = Struct(&[("devices", CLAIMED_DEVICES)]);

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
