//! Machine: checks ResourceSlices (upstream: `validateResourceSliceSpec`).

use serde_json::Value;

use super::parts;
use crate::fields::check;
use crate::fields::field_path::{Errors, FieldPath};
use crate::fields::go_value;
use crate::fields::node_selector;
use steersman_apimachinery::names;

/// Largest number of devices in a slice, and in a slice with taints or counters.
const MOST_DEVICES: usize = 128;
const MOST_COSTLY_DEVICES: usize = 64;
const MOST_TAINTS: usize = 16;

const NODES: &str =
    "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
const DEVICE_NODES: &str = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
const UNSET_OR_TRUE: &str = "must be either unset or set to true";

pub(super) fn check(object: &Value, old: Option<&Value>) -> Errors {
    let mut errors = Errors::default();
    let spec = FieldPath::root(object).at("spec");
    let (driver, pool) = (spec.at("driver"), spec.at("pool"));
    check::csi_driver(&driver, &mut errors);
    parts::check_pool(&pool.at("name"), &mut errors);
    let count = pool.at("resourceSliceCount");
    if count.int() <= 0 {
        errors.invalid_as(&count, &count.int().into(), "must be greater than zero");
    }
    let generation = pool.at("generation");
    if generation.int() < 0 {
        errors.invalid(&generation, "must be greater than or equal to zero");
    }
    if let Some(old) = old {
        let old = &old["spec"];
        check::immutable(&pool.at("name"), &old["pool"]["name"], &mut errors);
        check::immutable(&driver, &old["driver"], &mut errors);
        check::immutable(&spec.at("nodeName"), &old["nodeName"], &mut errors);
    }
    check_nodes(&spec, &mut errors);
    let devices = spec.at("devices");
    if spec.at("sharedCounters").is_set() && devices.is_set() {
        let detail = "only one of `sharedCounters` or `devices` is allowed";
        errors.invalid_as(&spec, &"".into(), detail);
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
        |device, errors| check_device(device, known, chosen, errors),
        |device| Value::from(device.at("name").text()).to_string(),
        &mut errors,
    );
    errors
}

/// Checks `nodeName` and `nodeSelector` of a slice or a device. Returns which of them are set. `empty`
/// is the message about an empty name.
fn check_named_nodes(
    holder: &FieldPath<'_>,
    empty: &str,
    errors: &mut Errors,
) -> Vec<&'static str> {
    let mut given = Vec::new();
    let (name, selector) = (holder.at("nodeName"), holder.at("nodeSelector"));
    if !name.is_empty() {
        given.push("`nodeName`");
        check::subdomain(&name, errors);
    } else if name.is_set() {
        errors.invalid(&name, empty);
    }
    if selector.is_set() {
        given.push("`nodeSelector`");
        node_selector::check_node_selector(&selector, errors);
    }
    given
}

/// Checks the nodes that can reach the devices of a slice.
fn check_nodes(spec: &FieldPath<'_>, errors: &mut Errors) {
    let empty = "must be either unset or set to a non-empty string";
    let mut given = check_named_nodes(spec, empty, errors);
    let selector = spec.at("nodeSelector");
    let terms = selector.at("nodeSelectorTerms");
    if selector.is_set() && terms.len() != 1 {
        let shown = go_value::print(&go_value::NODE_TERMS, terms.value());
        let detail = "must have exactly one node selector term";
        errors.invalid_written(&terms, &shown, detail);
    }
    for (field, shown) in [
        ("allNodes", "`allNodes`"),
        ("perDeviceNodeSelection", "`perDeviceNodeSelection`"),
    ] {
        let at = spec.at(field);
        if at.flag() {
            given.push(shown);
        } else if at.is_set() {
            errors.invalid(&at, UNSET_OR_TRUE);
        }
    }
    match given.len() {
        0 => errors.required(spec, NODES),
        1 => {}
        _ => {
            let detail = format!("{NODES}, but multiple fields are set");
            errors.invalid_as(spec, &format!("{{{}}}", given.join(", ")).into(), &detail);
        }
    }
}

/// Checks a device. `known` are the devices of the stored slice. `chosen` is whether each device
/// names its nodes itself.
fn check_device(device: &FieldPath<'_>, known: &Value, chosen: bool, errors: &mut Errors) {
    check::label(&device.at("name"), errors);
    let taints = device.at("taints");
    let mut before = known.as_array().into_iter().flatten();
    let before = before.find(|one| one["name"] == *device.at("name").value());
    if before.is_none_or(|before| before["taints"] != *taints.value()) {
        parts::each(&taints, MOST_TAINTS, check_taint, errors);
    }
    if chosen {
        check_device_nodes(device, errors);
    } else if ["nodeName", "nodeSelector", "allNodes"]
        .iter()
        .any(|field| device.at(field).is_set())
    {
        let detail = "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
        errors.invalid_as(device, &Value::Null, detail);
    }
    parts::check_binding(device, errors);
}

/// Checks the nodes that can reach one device.
fn check_device_nodes(device: &FieldPath<'_>, errors: &mut Errors) {
    let mut given = check_named_nodes(device, "must not be empty", errors);
    let all = device.at("allNodes");
    if all.flag() {
        given.push("`allNodes`");
    } else if all.is_set() {
        errors.invalid(&all, UNSET_OR_TRUE);
    }
    match given.len() {
        0 => errors.required(device, DEVICE_NODES),
        1 => {}
        _ => {
            let shown = format!("{{{}}}", given.join(", ")).into();
            errors.invalid_as(device, &shown, DEVICE_NODES);
        }
    }
}

fn check_taint(taint: &FieldPath<'_>, errors: &mut Errors) {
    check::qualified(&taint.at("key"), errors);
    let value = taint.at("value");
    if !value.is_empty() {
        check::add_messages(&value, names::check_label_value(value.text()), errors);
    }
    check::required_one_of(&taint.at("effect"), parts::EFFECTS, errors);
}
