//! Machine: checks writes to a ResourceClaim's status (upstream: `ValidateResourceClaimStatusUpdate`).

use serde_json::Value;

use super::go_types;
use super::parts::{self, RequestNames};
use crate::fields::fill::is_nothing;
use crate::fields::{FieldPath, address, check, node_selector};

const MOST_RESERVATIONS: usize = 256;
const MOST_RESULTS: usize = 32;
const MOST_CONDITIONS: usize = 8;
const MOST_ADDRESSES: usize = 16;

/// Largest number of bytes in the name, and in the hardware address, of an interface.
const MOST_INTERFACE: usize = 256;
const MOST_HARDWARE: usize = 128;

pub(super) fn check(new: &FieldPath<'_>, old: &Value) {
    let (claim, before) = (new, new.with(old));
    let (status, old_status) = (claim.at("status"), before.at("status"));
    let (reserved, allocation) = (status.at("reservedFor"), status.at("allocation"));
    parts::each_once(
        &reserved,
        MOST_RESERVATIONS,
        |consumer| consumer.need_all(&["resource", "name", "uid"]),
        |consumer| Value::from(consumer.at("uid").text()).to_string(),
    );
    let results = allocation.down("devices.results");
    let allocated: Vec<String> = results
        .items()
        .map(|one| one.printed(&go_types::SHARED_DEVICE))
        .collect();
    parts::each_once(
        &status.at("devices"),
        usize::MAX,
        |device| check_device(device, &allocated),
        |device| device.printed(&go_types::SHARED_DEVICE),
    );
    if !reserved.is_empty() {
        check_reservations(claim, &old_status);
    }
    let old_allocation = old_status.at("allocation");
    if !allocation.is_set() {
        return;
    }
    if !old_allocation.is_set() {
        let names = RequestNames::of(&claim.down("spec.devices"));
        check_allocation(&allocation, &names);
    } else if bare(allocation.value()) != bare(old_allocation.value()) {
        allocation.invalid_printed(&go_types::ALLOCATION, check::IMMUTABLE);
    }
}

/// Returns a value without nulls and empty lists and maps, which Go treats as absent.
fn bare(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(bare).collect(),
        Value::Object(members) => {
            let members = members.iter().map(|(name, value)| (name, bare(value)));
            let given = members.filter(|(_, value)| !is_nothing(value));
            let given = given.map(|(name, value)| (name.clone(), value));
            Value::Object(given.collect())
        }
        other => other.clone(),
    }
}

/// Checks that a reserved claim is allocated, and that a claim in deletion gets no new reservation.
fn check_reservations(claim: &FieldPath<'_>, old: &FieldPath<'_>) {
    let status = claim.at("status");
    let reserved = status.at("reservedFor");
    if !status.at("allocation").is_set() {
        return reserved.forbidden("may not be specified when `allocated` is not set");
    }
    if !claim.down("metadata.deletionTimestamp").is_set() {
        return;
    }
    let consumer = |one: FieldPath<'_>| {
        ["apiGroup", "resource", "name", "uid"].map(|field| one.at(field).text().to_owned())
    };
    let known: Vec<[String; 4]> = old.at("reservedFor").items().map(consumer).collect();
    if reserved.items().any(|one| !known.contains(&consumer(one))) {
        reserved.forbidden("new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set");
    }
}

/// Checks a first allocation. An existing allocation never changes.
fn check_allocation(allocation: &FieldPath<'_>, names: &RequestNames<'_>) {
    let devices = allocation.at("devices");
    let check = |result: &FieldPath<'_>| check_result(result, names);
    parts::each(&devices.at("results"), MOST_RESULTS, check);
    // The list holds the configurations of the classes and those of the claim.
    let most = 2 * parts::MOST_CONFIGS;
    let check = |config: &FieldPath<'_>| {
        check::required_one_of(&config.at("source"), &["FromClaim", "FromClass"]);
        names.check_all(&config.at("requests"));
        parts::check_configuration(config);
    };
    parts::each(&devices.at("config"), most, check);
    let nodes = allocation.at("nodeSelector");
    nodes.if_set(node_selector::check_node_selector);
}

fn check_result(result: &FieldPath<'_>, names: &RequestNames<'_>) {
    names.check(&result.at("request"));
    check_name(result);
    parts::check_binding(result);
    parts::check_tolerations(&result.at("tolerations"));
    check_share(result);
}

fn check_name(device: &FieldPath<'_>) {
    check::csi_driver(&device.at("driver"));
    parts::check_pool(&device.at("pool"));
    check::label(&device.at("device"));
}

fn check_share(device: &FieldPath<'_>) {
    device.at("shareID").if_set(parts::check_uid);
}

/// Checks the status of a device, which must be one of the allocated devices.
fn check_device(device: &FieldPath<'_>, allocated: &[String]) {
    check_name(device);
    check_share(device);
    let name = device.printed(&go_types::SHARED_DEVICE);
    if !allocated.contains(&name) {
        device.invalid_written(&name, "must be an allocated device in the claim");
    }
    let conditions = device.at("conditions");
    conditions.has_too_many(MOST_CONDITIONS);
    check::conditions(&conditions);
    let (data, network) = (device.at("data"), device.at("networkData"));
    data.if_set(parts::check_data);
    let [interface, hardware] = network.parts(["interfaceName", "hardwareAddress"]);
    interface.at_most_bytes(MOST_INTERFACE);
    hardware.at_most_bytes(MOST_HARDWARE);
    parts::each_once(
        &network.at("ips"),
        MOST_ADDRESSES,
        address::check_interface,
        |one| one.value().to_string(),
    );
}
