//! Machine: checks writes to a Pod's status (upstream: `ValidatePodStatusUpdate`).

use serde_json::Value;

use crate::fields::{FieldPath, address, check};

pub(super) fn check(pod: &FieldPath<'_>, old: &Value) {
    let before = pod.with(old);
    let (status, old_status) = (pod.at("status"), before.at("status"));
    for (index, condition) in status.at("conditions").items().enumerate() {
        let kind = condition.at("type");
        if !matches!(kind.text(), "PodScheduled" | "Ready" | "Initialized") {
            // As upstream, the path of a condition lies below the metadata.
            let path = format!("metadata.conditions[{index}].Type");
            check::qualified(&kind.shown_at(path, kind.value()));
        }
    }
    let nominated = status.at("nominatedNodeName");
    if !nominated.is_empty() && nominated.value() != old_status.at("nominatedNodeName").value() {
        check::subdomain(&nominated);
        if !before.down("spec.nodeName").is_empty() {
            nominated.forbidden("may not be set on pods that are already bound to a node");
        }
    }
    let class = status.at("qosClass");
    if class.text() != old_status.at("qosClass").text() {
        class.invalid_text(check::IMMUTABLE);
    }
    let spec = before.at("spec");
    let policy = spec.at("restartPolicy").text();
    for (field, listed, policy) in [
        ("containerStatuses", "containers", policy),
        ("initContainerStatuses", "initContainers", policy),
        ("ephemeralContainerStatuses", "ephemeralContainers", "Never"),
    ] {
        let listed = spec.at(listed);
        let may_restart = |name: &str, code: i64| {
            let own = last_named(&listed, name);
            own.map_or(policy == "Always", |own| restarts(&own, policy, code))
        };
        check_states(&status.at(field), &old_status.at(field), &may_restart);
    }
    check_addresses(&status, "podIP", "podIPs");
    check_addresses(&status, "hostIP", "hostIPs");
}

/// Returns whether a container that ended restarts (upstream: `containerShouldRestart`).
fn restarts(container: &FieldPath<'_>, policy: &str, code: i64) -> bool {
    for rule in container.at("restartPolicyRules").items() {
        let codes = rule.at("exitCodes");
        let mut values = codes.at("values").items();
        let listed = values.any(|value| value.number() == Some(code));
        let applies = match codes.at("operator").text() {
            "In" => listed,
            "NotIn" => !listed,
            _ => false,
        };
        if codes.is_set() && applies {
            return rule.at("action").text().starts_with("Restart");
        }
    }
    let own = container.at("restartPolicy").text();
    match if own.is_empty() { policy } else { own } {
        "Always" => true,
        "OnFailure" => code != 0,
        _ => false,
    }
}

/// Returns the last item with a name, which counts as in a Go map.
fn last_named<'a>(list: &FieldPath<'a>, name: &str) -> Option<FieldPath<'a>> {
    list.items()
        .filter(|one| one.at("name").text() == name)
        .last()
}

/// Checks that a container that ended for good does not run again.
fn check_states(new: &FieldPath<'_>, old: &FieldPath<'_>, may_restart: &dyn Fn(&str, i64) -> bool) {
    for (index, before) in old.items().enumerate() {
        let ended = before.down("state.terminated");
        let name = before.at("name").text();
        if !ended.is_set() || may_restart(name, ended.at("exitCode").int()) {
            continue;
        }
        let after = last_named(new, name);
        if after.is_some_and(|after| !after.down("state.terminated").is_set()) {
            let at = new.shown_at(format!("{}[{index}].state", new.path()), new.value());
            at.forbidden("may not be transitioned to non-terminated state");
        }
    }
}

/// Checks that each IP family has one address, and that the first is the single address.
fn check_addresses(status: &FieldPath<'_>, one: &str, all: &str) {
    let listed = status.at(all);
    let addresses: Vec<FieldPath<'_>> = listed.items().map(|item| item.at("ip")).collect();
    if let Some(first) = addresses.first()
        && one == "hostIP"
        && first.text() != status.at(one).text()
    {
        first.invalid_text("must be equal to `hostIP`");
    }
    for (item, address) in listed.items().zip(&addresses) {
        address::check(&item.with(address.value()));
    }
    if addresses.len() < 2 {
        return;
    }
    let family = |address: &FieldPath<'_>| address.text().contains(':');
    let both = addresses.iter().any(family) && !addresses.iter().all(family);
    if !both || addresses.len() > 2 {
        let written: Vec<String> = addresses
            .iter()
            .map(|address| format!("{{\"IP\":{}}}", Value::from(address.text())))
            .collect();
        let detail = "may specify no more than one IP for each IP family";
        listed.invalid_written(&format!("[{}]", written.join(",")), detail);
    }
}
