//! Machine: checks ResourceSlices (upstream: `validateResourceSliceSpec`).

use serde_json::Value;

use super::parts;
use crate::fields::fill::elements;
use crate::fields::go_value::NODE_TERMS;
use crate::fields::{FieldPath, check, node_selector};

/// Largest number of devices in a slice, and in a slice with taints or counters.
const MOST_DEVICES: usize = 128;
const MOST_COSTLY_DEVICES: usize = 64;
const MOST_TAINTS: usize = 16;

const NODES: &str =
    "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
const DEVICE_NODES: &str = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true in the ResourceSlice spec";

pub(super) fn check(object: &FieldPath<'_>, old: Option<&Value>) {
    let spec = object.at("spec");
    let (driver, pool) = (spec.at("driver"), spec.at("pool"));
    check::csi_driver(&driver);
    parts::check_pool(&pool.at("name"));
    let count = pool.at("resourceSliceCount");
    count.at_least(1, "must be greater than zero");
    let generation = pool.at("generation");
    generation.at_least(0, "must be greater than or equal to zero");
    if let Some(old) = old {
        let old = &old["spec"];
        check::immutable(&pool.at("name"), &old["pool"]["name"]);
        check::immutable(&driver, &old["driver"]);
        check::immutable(&spec.at("nodeName"), &old["nodeName"]);
    }
    check_nodes(&spec);
    let devices = spec.at("devices");
    if spec.at("sharedCounters").is_set() && devices.is_set() {
        spec.invalid_as("", "only one of `sharedCounters` or `devices` is allowed");
    }
    let is_costly = |device: FieldPath<'_>| {
        !device.at("taints").is_empty() || !device.at("consumesCounters").is_empty()
    };
    let most = if devices.items().any(is_costly) {
        MOST_COSTLY_DEVICES
    } else {
        MOST_DEVICES
    };
    let chosen = spec.at("perDeviceNodeSelection").flag();
    let known = old.map_or(&Value::Null, |old| &old["spec"]["devices"]);
    parts::each_once(
        &devices,
        most,
        |device| check_device(device, known, chosen),
        |device| Value::from(device.at("name").text()).to_string(),
    );
}

/// Checks `nodeName` and `nodeSelector`. Returns which of them are set.
fn check_named_nodes(holder: &FieldPath<'_>, empty: &str) -> Vec<&'static str> {
    let mut given = Vec::new();
    let (name, selector) = (holder.at("nodeName"), holder.at("nodeSelector"));
    if !name.is_empty() {
        given.push("nodeName");
        check::subdomain(&name);
    } else if name.is_set() {
        name.invalid(empty);
    }
    if selector.is_set() {
        given.push("nodeSelector");
        node_selector::check_node_selector(&selector);
    }
    given
}

fn check_nodes(spec: &FieldPath<'_>) {
    let empty = "must be either unset or set to a non-empty string";
    let mut given = check_named_nodes(spec, empty);
    let selector = spec.at("nodeSelector");
    let terms = selector.at("nodeSelectorTerms");
    if selector.is_set() && terms.len() != 1 {
        terms.invalid_printed(&NODE_TERMS, "must have exactly one node selector term");
    }
    check_flag(spec, "allNodes", &mut given);
    check_flag(spec, "perDeviceNodeSelection", &mut given);
    check_number(spec, &given, NODES, ", but multiple fields are set");
}

/// Checks a field that is either unset or true, and adds the set field to those that are given.
fn check_flag(holder: &FieldPath<'_>, field: &'static str, given: &mut Vec<&'static str>) {
    let at = holder.at(field);
    if at.flag() {
        given.push(field);
    } else if at.is_set() {
        at.invalid("must be either unset or set to true");
    }
}

/// Checks that one field is given. `rule` is the error; `many` is added to it if several fields are given.
fn check_number(holder: &FieldPath<'_>, given: &[&str], rule: &str, many: &str) {
    match given.len() {
        0 => holder.required(rule),
        1 => {}
        _ => {
            let quoted: Vec<String> = given.iter().map(|field| format!("`{field}`")).collect();
            let shown = format!("{{{}}}", quoted.join(", "));
            holder.invalid_as(shown, &format!("{rule}{many}"));
        }
    }
}

/// Checks a device. `chosen` is whether each device names its nodes itself.
fn check_device(device: &FieldPath<'_>, known: &Value, chosen: bool) {
    check::label(&device.at("name"));
    let taints = device.at("taints");
    let before = elements(known)
        .iter()
        .find(|one| one["name"] == *device.at("name").value());
    if before.is_none_or(|before| before["taints"] != *taints.value()) {
        parts::each(&taints, MOST_TAINTS, check_taint);
    }
    if chosen {
        let mut given = check_named_nodes(device, "must not be empty");
        check_flag(device, "allNodes", &mut given);
        check_number(device, &given, DEVICE_NODES, "");
    } else if ["nodeName", "nodeSelector", "allNodes"]
        .iter()
        .any(|field| device.at(field).is_set())
    {
        device.invalid_as(&Value::Null, "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the ResourceSlice spec");
    }
    parts::check_binding(device);
}

fn check_taint(taint: &FieldPath<'_>) {
    check::qualified(&taint.at("key"));
    taint.at("value").if_filled(check::label_value);
    check::required_one_of(&taint.at("effect"), parts::EFFECTS);
}
