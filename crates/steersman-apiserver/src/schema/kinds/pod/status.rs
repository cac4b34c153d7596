//! Machine: what a write to a Pod's status may bring (upstream: `ValidatePodStatusUpdate`).

use serde_json::Value;

use crate::schema::kinds::address;
use crate::schema::kinds::check;
use crate::schema::kinds::place::{Errors, Place};

pub(super) fn check(new: &Value, old: &Value) -> Errors {
    let mut errors = Errors::default();
    let (pod, before) = (Place::root(new), Place::root(old));
    let (status, old_status) = (pod.at("status"), before.at("status"));
    for (index, condition) in status.at("conditions").items().enumerate() {
        let kind = condition.at("type");
        if !matches!(kind.text(), "PodScheduled" | "Ready" | "Initialized") {
            // The real server looks for conditions below the metadata.
            let path = format!("metadata.conditions[{index}].Type");
            check::qualified(&Place::new(path, kind.value()), &mut errors);
        }
    }
    let nominated = status.at("nominatedNodeName");
    if !nominated.is_empty() && nominated.value() != old_status.at("nominatedNodeName").value() {
        check::subdomain(&nominated, &mut errors);
    }
    let class = status.at("qosClass");
    if class.text() != old_status.at("qosClass").text() {
        errors.invalid_text(&class, check::IMMUTABLE);
    }
    let restarts = before.down("spec.restartPolicy").text();
    for (field, restarts) in [
        ("containerStatuses", restarts),
        ("initContainerStatuses", restarts),
        ("ephemeralContainerStatuses", "Never"),
    ] {
        let sidecars: Vec<&str> = before
            .down("spec.initContainers")
            .items()
            .filter(|one| {
                field == "initContainerStatuses" && one.at("restartPolicy").text() == "Always"
            })
            .map(|one| one.at("name").text())
            .collect();
        let old = old_status.at(field);
        check_states(&status.at(field), &old, restarts, &sidecars, &mut errors);
    }
    check_addresses(&status, "podIP", "podIPs", &mut errors);
    check_addresses(&status, "hostIP", "hostIPs", &mut errors);
    errors
}

/// What has ended for good does not run again.
fn check_states(
    new: &Place<'_>,
    old: &Place<'_>,
    restarts: &str,
    sidecars: &[&str],
    errors: &mut Errors,
) {
    if restarts == "Always" {
        return;
    }
    for (index, before) in old.items().enumerate() {
        let ended = before.down("state.terminated");
        let name = before.at("name").text();
        let again = restarts == "OnFailure" && ended.at("exitCode").int() != 0;
        if !ended.is_set() || again || sidecars.contains(&name) {
            continue;
        }
        for after in new.items() {
            if after.at("name").text() == name && !after.down("state.terminated").is_set() {
                let path = format!("{}[{index}].state", new.path());
                let detail = "may not be transitioned to non-terminated state";
                errors.forbidden(&Place::new(path, &Value::Null), detail);
            }
        }
    }
}

/// Addresses are valid, at most one of each family, and the first is the one that is told alone.
fn check_addresses(status: &Place<'_>, one: &str, all: &str, errors: &mut Errors) {
    let listed = status.at(all);
    let addresses: Vec<Place<'_>> = listed.items().map(|item| item.at("ip")).collect();
    if let Some(first) = addresses.first()
        && one == "hostIP"
        && first.text() != status.at(one).text()
    {
        errors.invalid_text(first, "must be equal to `hostIP`");
    }
    for (item, address) in listed.items().zip(&addresses) {
        address::check(&Place::new(item.path(), address.value()), errors);
    }
    if addresses.len() < 2 {
        return;
    }
    let family = |address: &Place<'_>| address.text().contains(':');
    let both = addresses.iter().any(family) && !addresses.iter().all(family);
    if !both || addresses.len() > 2 {
        let written: Vec<String> = addresses
            .iter()
            .map(|address| format!("{{\"IP\":{}}}", Value::from(address.text())))
            .collect();
        let detail = "may specify no more than one IP for each IP family";
        errors.invalid_written(&listed, &format!("[{}]", written.join(",")), detail);
    }
}
