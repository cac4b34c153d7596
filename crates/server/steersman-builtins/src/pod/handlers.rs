//! Machine: checks probes and lifecycle hooks of containers.

use crate::fields::{FieldPath, check};

pub(super) fn check(container: &FieldPath<'_>, grace: Option<i64>) {
    for hook in container.at("lifecycle").parts(["postStart", "preStop"]) {
        let kinds = ["exec", "httpGet", "tcpSocket", "sleep"];
        hook.if_set(|hook| check_handler(hook, &kinds, grace));
    }
    for kind in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let probe = container.at(kind);
        probe.if_set(|probe| check_probe(probe, kind));
    }
}

/// Checks one probe (upstream: `validateProbe` and its three callers).
fn check_probe(probe: &FieldPath<'_>, kind: &str) {
    check_handler(probe, &["exec", "httpGet", "tcpSocket", "grpc"], None);
    let numbers = [
        "initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold",
        "failureThreshold",
    ];
    check::not_negative_members(probe, &numbers);
    let grace = probe.at("terminationGracePeriodSeconds");
    if grace.number().is_some_and(|seconds| seconds <= 0) {
        grace.invalid("must be greater than 0");
    }
    if kind == "readinessProbe" {
        if grace.is_set() {
            grace.invalid("must not be set for readinessProbes");
        }
    } else if probe.at("successThreshold").int() != 1 {
        probe.at("successThreshold").invalid("must be 1");
    }
}

/// Checks that there is exactly one handler, and checks the handler (upstream: `validateHandler`).
fn check_handler(at: &FieldPath<'_>, kinds: &[&str], grace: Option<i64>) {
    let mut found = false;
    for kind in kinds {
        let handler = at.at(kind);
        if !handler.is_set() {
            continue;
        }
        if found {
            handler.forbidden("may not specify more than 1 handler type");
            continue;
        }
        found = true;
        match *kind {
            "exec" => handler.at("command").need(""),
            "httpGet" => check_get(&handler),
            "sleep" => {
                let seconds = handler.at("seconds").int();
                if let Some(grace) = grace.filter(|grace| !(0..=*grace).contains(&seconds)) {
                    let detail = format!(
                        "must be non-negative and less than terminationGracePeriodSeconds ({grace})"
                    );
                    handler.invalid_as(seconds, &detail);
                }
            }
            _ => check::port_or_name(&handler.at("port")),
        }
    }
    if !found {
        at.required("must specify a handler type");
    }
}

fn check_get(get: &FieldPath<'_>) {
    get.at("path").need("");
    check::port_or_name(&get.at("port"));
    check::one_of(&get.at("scheme"), &["HTTP", "HTTPS"]);
    for header in get.at("httpHeaders").items() {
        check::header_name(&get.at("httpHeaders"), header.at("name").text());
    }
}
