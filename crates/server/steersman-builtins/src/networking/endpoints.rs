//! Machine: Endpoints and EndpointSlices (upstream: `pkg/apis/core` and `discovery`).

use std::collections::HashSet;

use serde_json::{Value, json};
use steersman_apimachinery::names::{self, NameRule};

use crate::Strategy;
use crate::fields::fill::{list, set, set_text};
use crate::fields::{FieldPath, address, check, shared_warnings};

pub(crate) const ENDPOINTS: Strategy = Strategy {
    defaults: |object| {
        for subset in list(object, "subsets") {
            for port in list(subset, "ports") {
                set_text(port, "protocol", "TCP");
                set(port, "port", json!(0));
            }
        }
    },
    validate: |object, _| object.at("subsets").each(check_subset),
    warn: |new, _| {
        let label = "endpoints.kubernetes.io/managed-by";
        if is_managed(new, label, &["endpoint-controller"]) {
            return;
        }
        for subset in new.at("subsets").items() {
            for addresses in subset.parts(["addresses", "notReadyAddresses"]) {
                addresses.each(|address| shared_warnings::of_ip(&address.at("ip")));
            }
        }
    },
    ..Strategy::PLAIN
};

pub(crate) const ENDPOINT_SLICE: Strategy = Strategy {
    defaults: |object| {
        for endpoint in list(object, "endpoints") {
            set(endpoint, "addresses", Value::Null);
            set(endpoint, "conditions", json!({}));
        }
        for port in list(object, "ports") {
            set(port, "name", json!(""));
            set(port, "protocol", json!("TCP"));
        }
    },
    validate: slice,
    warn: |new, _| {
        let managers = [
            "endpointslice-controller.k8s.io",
            "endpointslicemirroring-controller.k8s.io",
        ];
        if !is_managed(new, "endpointslice.kubernetes.io/managed-by", &managers) {
            let endpoints = new.at("endpoints");
            endpoints.each(|endpoint| endpoint.at("addresses").each(shared_warnings::of_ip));
        }
    },
    ..Strategy::PLAIN
};

/// Returns whether a label names a controller. Objects of controllers get no warnings.
fn is_managed(root: &FieldPath<'_>, label: &str, controllers: &[&str]) -> bool {
    let labels = root.down("metadata.labels");
    let manager = labels.value().get(label).and_then(Value::as_str);
    manager.is_some_and(|manager| controllers.contains(&manager))
}

const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];
const MOST_ENDPOINTS: usize = 1000;
const MOST_PORTS: usize = 20_000;
const MOST_ADDRESSES: usize = 100;
const MOST_LABELS: usize = 16;
const MOST_HINTS: usize = 8;

fn check_subset(subset: &FieldPath<'_>) {
    let (ready, other) = (subset.at("addresses"), subset.at("notReadyAddresses"));
    if ready.is_empty() && other.is_empty() {
        subset.required("must specify `addresses` or `notReadyAddresses`");
    }
    for at in ready.items().chain(other.items()) {
        address::check(&at.at("ip"));
        at.at("hostname").if_filled(check::label);
        at.at("nodeName").if_set(check::subdomain);
        address::not_special(&at.at("ip"));
    }
    let ports = subset.at("ports");
    for port in ports.items() {
        let name = port.at("name");
        name.if_filled(check::label);
        if ports.len() > 1 {
            name.need("");
        }
        check::port(&port.at("port"));
        check::required_one_of(&port.at("protocol"), PROTOCOLS);
        port.at("appProtocol").if_set(check::qualified);
    }
}

fn slice(root: &FieldPath<'_>, old: Option<&Value>) {
    let kind = root.at("addressType");
    check::required_one_of(&kind, &["FQDN", "IPv4", "IPv6"]);
    let endpoints = root.at("endpoints");
    if !endpoints.has_too_many(MOST_ENDPOINTS) {
        endpoints.each(|endpoint| check_endpoint(endpoint, kind.text()));
    }
    let ports = root.at("ports");
    if !ports.has_too_many(MOST_PORTS) {
        check_ports(&ports);
    }
    check::immutable(&kind, old.map(|old| &old["addressType"]));
}

fn check_ports(ports: &FieldPath<'_>) {
    let mut seen = HashSet::new();
    for port in ports.items() {
        let name = port.at("name");
        name.if_filled(check::label);
        name.unique(&mut seen);
        check::required_one_of(&port.at("protocol"), PROTOCOLS);
        port.at("appProtocol").if_set(check::qualified);
    }
}

fn check_endpoint(endpoint: &FieldPath<'_>, kind: &str) {
    let addresses = endpoint.at("addresses");
    addresses.need("must contain at least 1 address");
    addresses.has_too_many(MOST_ADDRESSES);
    match kind {
        "FQDN" => addresses.each(domain),
        "IPv4" | "IPv6" => addresses.each(|at| {
            if !at.passes(address::check) {
                return;
            }
            if at.text().contains(':') != (kind == "IPv6") {
                // As upstream, the error names the list, not the element.
                let all = addresses.with(at.value());
                all.invalid(&format!("must be an {kind} address"));
            }
            address::not_special(at);
        }),
        _ => {}
    }
    endpoint.at("nodeName").if_set(check::subdomain);
    let topology = endpoint.at("deprecatedTopology");
    topology.has_too_many(MOST_LABELS);
    check::labels(&topology);
    endpoint.at("hostname").if_set(check::label);
    for (field, rule) in [
        ("forZones", check::qualified as fn(&FieldPath<'_>)),
        ("forNodes", check::subdomain),
    ] {
        let hints = endpoint.at("hints").at(field);
        if hints.has_too_many(MOST_HINTS) {
            continue;
        }
        let mut seen = HashSet::new();
        for name in hints.items().map(|hint| hint.at("name")) {
            rule(&name);
            name.unique(&mut seen);
        }
    }
}

/// Checks a domain of at least two parts (upstream: `IsFullyQualifiedDomainName`).
fn domain(at: &FieldPath<'_>) {
    if at.is_empty() {
        return at.required("");
    }
    let name = at.text().strip_suffix('.').unwrap_or(at.text());
    let wrong = names::check_name(NameRule::Subdomain, name);
    if !wrong.is_empty() {
        at.invalid_as(name, &wrong.join(","));
    } else if !name.contains('.') {
        let detail = "should be a domain with at least two segments separated by dots";
        at.invalid_as(name, detail);
    }
}
