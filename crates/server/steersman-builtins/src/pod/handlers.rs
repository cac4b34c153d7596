//! Machine: checks probes and lifecycle hooks of containers.

use crate::fields::check;
use crate::fields::field_path::{Errors, FieldPath};

/// Checks the hooks and the probes of a container.
pub(super) fn check(container: &FieldPath<'_>, grace: Option<i64>, errors: &mut Errors) {
    let lifecycle = container.at("lifecycle");
    for hook in ["postStart", "preStop"] {
        let hook = lifecycle.at(hook);
        if hook.is_set() {
            check_handler(
                &hook,
                &["exec", "httpGet", "tcpSocket", "sleep"],
                grace,
                errors,
            );
        }
    }
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        check_probe(&container.at(probe), probe, errors);
    }
}

/// Checks one probe (upstream: `validateProbe` and its three callers).
fn check_probe(probe: &FieldPath<'_>, kind: &str, errors: &mut Errors) {
    if !probe.is_set() {
        return;
    }
    check_handler(
        probe,
        &["exec", "httpGet", "tcpSocket", "grpc"],
        None,
        errors,
    );
    for field in [
        "initialDelaySeconds",
        "timeoutSeconds",
        "periodSeconds",
        "successThreshold",
        "failureThreshold",
    ] {
        check::not_negative(&probe.at(field), errors);
    }
    let grace = probe.at("terminationGracePeriodSeconds");
    if grace.number().is_some_and(|seconds| seconds <= 0) {
        errors.invalid(&grace, "must be greater than 0");
    }
    if kind == "readinessProbe" {
        if grace.is_set() {
            errors.invalid(&grace, "must not be set for readinessProbes");
        }
    } else if probe.at("successThreshold").int() != 1 {
        errors.invalid(&probe.at("successThreshold"), "must be 1");
    }
}

/// Checks that there is exactly one handler, and checks the handler (upstream: `validateHandler`).
fn check_handler(at: &FieldPath<'_>, kinds: &[&str], grace: Option<i64>, errors: &mut Errors) {
    let mut found = false;
    for kind in kinds {
        let handler = at.at(kind);
        if !handler.is_set() {
            continue;
        }
        if found {
            errors.forbidden(&handler, "may not specify more than 1 handler type");
            continue;
        }
        found = true;
        match *kind {
            "exec" => {
                if handler.at("command").is_empty() {
                    errors.required(&handler.at("command"), "");
                }
            }
            "httpGet" => check_get(&handler, errors),
            "sleep" => {
                let seconds = handler.at("seconds").int();
                if let Some(grace) = grace.filter(|grace| !(0..=*grace).contains(&seconds)) {
                    let detail = format!(
                        "must be non-negative and less than terminationGracePeriodSeconds ({grace})"
                    );
                    errors.invalid_as(&handler, &seconds.into(), &detail);
                }
            }
            _ => check::port_or_name(&handler.at("port"), errors),
        }
    }
    if !found {
        errors.required(at, "must specify a handler type");
    }
}

fn check_get(get: &FieldPath<'_>, errors: &mut Errors) {
    if get.at("path").is_empty() {
        errors.required(&get.at("path"), "");
    }
    check::port_or_name(&get.at("port"), errors);
    check::one_of(&get.at("scheme"), &["HTTP", "HTTPS"], errors);
    for header in get.at("httpHeaders").items() {
        check::header_name(&get.at("httpHeaders"), header.at("name").text(), errors);
    }
}
