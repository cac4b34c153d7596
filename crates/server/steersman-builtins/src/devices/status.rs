//! Machine: checks writes to a ResourceClaim's status (upstream:
//! `ValidateResourceClaimStatusUpdate`).

use serde_json::Value;

use super::go_types;
use super::parts::{self, RequestNames};
use crate::fields::address;
use crate::fields::check;
use crate::fields::field_path::{Errors, FieldPath};
use crate::fields::go_value::print;
use crate::fields::node_selector;

const MOST_RESERVATIONS: usize = 256;
const MOST_RESULTS: usize = 32;
const MOST_CONDITIONS: usize = 8;
const MOST_ADDRESSES: usize = 16;

/// Largest number of bytes in the name, and in the hardware address, of an interface.
const MOST_INTERFACE: usize = 256;
const MOST_HARDWARE: usize = 128;

pub(super) fn check(new: &Value, old: &Value) -> Errors {
    let mut errors = Errors::default();
    let (claim, before) = (FieldPath::root(new), FieldPath::root(old));
    let (status, old_status) = (claim.at("status"), before.at("status"));
    let (reserved, allocation) = (status.at("reservedFor"), status.at("allocation"));
    parts::each_once(
        &reserved,
        MOST_RESERVATIONS,
        check_consumer,
        |one| Value::from(one.at("uid").text()).to_string(),
        &mut errors,
    );
    let results = allocation.down("devices.results");
    let allocated: Vec<String> = results
        .items()
        .map(|one| print(&go_types::SHARED_DEVICE, one.value()))
        .collect();
    parts::each_once(
        &status.at("devices"),
        usize::MAX,
        |device, errors| check_device(device, &allocated, errors),
        |device| print(&go_types::SHARED_DEVICE, device.value()),
        &mut errors,
    );
    if !reserved.is_empty() {
        check_reservations(&claim, &old_status, &mut errors);
    }
    let old_allocation = old_status.at("allocation");
    if !allocation.is_set() {
        return errors;
    }
    if !old_allocation.is_set() {
        let names = RequestNames::of(&claim.down("spec.devices"));
        check_allocation(&allocation, &names, &mut errors);
    } else if bare(allocation.value()) != bare(old_allocation.value()) {
        let shown = print(&go_types::ALLOCATION, allocation.value());
        errors.invalid_written(&allocation, &shown, check::IMMUTABLE);
    }
    errors
}

/// Returns a value without nulls, empty lists and empty maps, which Go's comparison treats as
/// absent.
fn bare(value: &Value) -> Value {
    let is_given = |value: &Value| match value {
        Value::Null => false,
        Value::Array(items) => !items.is_empty(),
        Value::Object(members) => !members.is_empty(),
        _ => true,
    };
    match value {
        Value::Array(items) => items.iter().map(bare).collect(),
        Value::Object(members) => {
            let members = members.iter().map(|(name, value)| (name, bare(value)));
            let given = members.filter(|(_, value)| is_given(value));
            let given = given.map(|(name, value)| (name.clone(), value));
            Value::Object(given.collect())
        }
        other => other.clone(),
    }
}

fn check_consumer(consumer: &FieldPath<'_>, errors: &mut Errors) {
    for field in ["resource", "name", "uid"] {
        let at = consumer.at(field);
        if at.is_empty() {
            errors.required(&at, "");
        }
    }
}

/// Checks that a reserved claim is allocated, and that a claim in deletion gets no new reservation.
fn check_reservations(claim: &FieldPath<'_>, old: &FieldPath<'_>, errors: &mut Errors) {
    let status = claim.at("status");
    let reserved = status.at("reservedFor");
    if !status.at("allocation").is_set() {
        let detail = "may not be specified when `allocated` is not set";
        errors.forbidden(&reserved, detail);
        return;
    }
    if !claim.down("metadata.deletionTimestamp").is_set() {
        return;
    }
    let consumer = |one: FieldPath<'_>| {
        ["apiGroup", "resource", "name", "uid"].map(|field| one.at(field).text().to_owned())
    };
    let known: Vec<[String; 4]> = old.at("reservedFor").items().map(consumer).collect();
    if reserved.items().any(|one| !known.contains(&consumer(one))) {
        let detail = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set";
        errors.forbidden(&reserved, detail);
    }
}

/// Checks a first allocation. An existing allocation never changes.
fn check_allocation(allocation: &FieldPath<'_>, names: &RequestNames<'_>, errors: &mut Errors) {
    let devices = allocation.at("devices");
    let check = |result: &FieldPath<'_>, errors: &mut Errors| check_result(result, names, errors);
    parts::each(&devices.at("results"), MOST_RESULTS, check, errors);
    // The list holds the configurations of the classes and those of the claim.
    let most = 2 * parts::MOST_CONFIGS;
    let check = |config: &FieldPath<'_>, errors: &mut Errors| {
        let source = config.at("source");
        check::required_one_of(&source, &["FromClaim", "FromClass"], errors);
        names.check_all(&config.at("requests"), errors);
        parts::check_configuration(config, errors);
    };
    parts::each(&devices.at("config"), most, check, errors);
    let nodes = allocation.at("nodeSelector");
    if nodes.is_set() {
        node_selector::check_node_selector(&nodes, errors);
    }
}

fn check_result(result: &FieldPath<'_>, names: &RequestNames<'_>, errors: &mut Errors) {
    names.check(&result.at("request"), errors);
    check_name(result, errors);
    parts::check_binding(result, errors);
    parts::check_tolerations(&result.at("tolerations"), errors);
    check_share(result, errors);
}

/// Checks the driver, the pool and the name of a device.
fn check_name(device: &FieldPath<'_>, errors: &mut Errors) {
    check::csi_driver(&device.at("driver"), errors);
    parts::check_pool(&device.at("pool"), errors);
    check::label(&device.at("device"), errors);
}

fn check_share(device: &FieldPath<'_>, errors: &mut Errors) {
    let share = device.at("shareID");
    if share.is_set() {
        parts::check_uid(&share, errors);
    }
}

/// Checks the status of a device, which must be one of the allocated devices.
fn check_device(device: &FieldPath<'_>, allocated: &[String], errors: &mut Errors) {
    check_name(device, errors);
    check_share(device, errors);
    let name = print(&go_types::SHARED_DEVICE, device.value());
    if !allocated.contains(&name) {
        errors.invalid_written(device, &name, "must be an allocated device in the claim");
    }
    let conditions = device.at("conditions");
    if conditions.len() > MOST_CONDITIONS {
        errors.too_many(&conditions, 8);
    }
    check::conditions(&conditions, errors);
    let (data, network) = (device.at("data"), device.at("networkData"));
    if data.is_set() {
        parts::check_data(&data, errors);
    }
    for (field, most) in [
        ("interfaceName", MOST_INTERFACE),
        ("hardwareAddress", MOST_HARDWARE),
    ] {
        let at = network.at(field);
        if at.len() > most {
            errors.too_long(&at, most);
        }
    }
    parts::each_once(
        &network.at("ips"),
        MOST_ADDRESSES,
        address::check_interface,
        |one| one.value().to_string(),
        errors,
    );
}
