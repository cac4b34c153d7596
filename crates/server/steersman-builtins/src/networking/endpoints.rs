//! Machine: Endpoints and EndpointSlices (upstream: `pkg/apis/core` and `discovery`).

use serde_json::{Value, json};
use steersman_apimachinery::names;
use steersman_apimachinery::names::NameRule;

use crate::Strategy;
use crate::fields::address;
use crate::fields::check;
use crate::fields::field_path::{Errors, FieldPath};
use crate::fields::fill::{list, set, set_text};
use crate::fields::shared_warnings;

pub(crate) const ENDPOINTS: Strategy = Strategy {
    defaults: |object| {
        for subset in list(object, "subsets") {
            for port in list(subset, "ports") {
                set_text(port, "protocol", "TCP");
                set(port, "port", json!(0));
            }
        }
    },
    validate: |object, _| {
        let mut errors = Errors::default();
        for subset in FieldPath::root(object).at("subsets").items() {
            check_subset(&subset, &mut errors);
        }
        errors
    },
    warnings: |new, _| {
        let (root, mut warnings) = (FieldPath::root(new), Vec::new());
        if is_managed(
            &root,
            "endpoints.kubernetes.io/managed-by",
            &["endpoint-controller"],
        ) {
            return warnings;
        }
        for subset in root.at("subsets").items() {
            for addresses in ["addresses", "notReadyAddresses"].map(|list| subset.at(list)) {
                for address in addresses.items() {
                    shared_warnings::of_ip(&address.at("ip"), &mut warnings);
                }
            }
        }
        warnings
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
    warnings: |new, _| {
        let (root, mut warnings) = (FieldPath::root(new), Vec::new());
        let managers = [
            "endpointslice-controller.k8s.io",
            "endpointslicemirroring-controller.k8s.io",
        ];
        if is_managed(&root, "endpointslice.kubernetes.io/managed-by", &managers) {
            return warnings;
        }
        for endpoint in root.at("endpoints").items() {
            for address in endpoint.at("addresses").items() {
                shared_warnings::of_ip(&address, &mut warnings);
            }
        }
        warnings
    },
    ..Strategy::PLAIN
};

/// Returns whether a label names one of these controllers as the writer of the object. Objects of
/// controllers get no warnings.
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

fn check_subset(subset: &FieldPath<'_>, errors: &mut Errors) {
    let (ready, other) = (subset.at("addresses"), subset.at("notReadyAddresses"));
    if ready.is_empty() && other.is_empty() {
        let detail = "must specify `addresses` or `notReadyAddresses`";
        errors.required(subset, detail);
    }
    for at in ready.items().chain(other.items()) {
        address::check(&at.at("ip"), errors);
        if !at.at("hostname").is_empty() {
            check::label(&at.at("hostname"), errors);
        }
        if at.at("nodeName").is_set() {
            check::name(NameRule::Subdomain, &at.at("nodeName"), errors);
        }
        address::not_special(&at.at("ip"), errors);
    }
    let ports = subset.at("ports");
    for port in ports.items() {
        let name = port.at("name");
        if !name.is_empty() {
            check::label(&name, errors);
        } else if ports.len() > 1 {
            errors.required(&name, "");
        }
        check::port(&port.at("port"), errors);
        check::required_one_of(&port.at("protocol"), PROTOCOLS, errors);
        if port.at("appProtocol").is_set() {
            check::qualified(&port.at("appProtocol"), errors);
        }
    }
}

fn too_many(at: &FieldPath<'_>, most: usize, errors: &mut Errors) -> bool {
    let many = at.len() > most;
    if many {
        errors.too_many(at, u64::try_from(most).unwrap_or(u64::MAX));
    }
    many
}

fn slice(object: &Value, old: Option<&Value>) -> Errors {
    let mut errors = Errors::default();
    let root = FieldPath::root(object);
    let kind = root.at("addressType");
    check::required_one_of(&kind, &["FQDN", "IPv4", "IPv6"], &mut errors);
    let endpoints = root.at("endpoints");
    if !too_many(&endpoints, MOST_ENDPOINTS, &mut errors) {
        for endpoint in endpoints.items() {
            check_endpoint(&endpoint, kind.text(), &mut errors);
        }
    }
    let ports = root.at("ports");
    if !too_many(&ports, MOST_PORTS, &mut errors) {
        check_ports(&ports, &mut errors);
    }
    if let Some(old) = old {
        check::immutable(&kind, &old["addressType"], &mut errors);
    }
    errors
}

fn check_ports(ports: &FieldPath<'_>, errors: &mut Errors) {
    let mut seen = Vec::new();
    for port in ports.items() {
        let name = port.at("name");
        if !name.is_empty() {
            check::label(&name, errors);
        }
        if seen.contains(&name.text()) {
            errors.duplicate(&name);
        } else {
            seen.push(name.text());
        }
        check::required_one_of(&port.at("protocol"), PROTOCOLS, errors);
        if port.at("appProtocol").is_set() {
            check::qualified(&port.at("appProtocol"), errors);
        }
    }
}

fn check_endpoint(endpoint: &FieldPath<'_>, kind: &str, errors: &mut Errors) {
    let addresses = endpoint.at("addresses");
    if addresses.is_empty() {
        errors.required(&addresses, "must contain at least 1 address");
    } else {
        too_many(&addresses, MOST_ADDRESSES, errors);
    }
    for at in addresses.items() {
        if kind == "FQDN" {
            domain(&at, errors);
            continue;
        }
        if !matches!(kind, "IPv4" | "IPv6") {
            continue;
        }
        let before = errors.len();
        address::check(&at, errors);
        if errors.len() > before {
            continue;
        }
        if at.text().contains(':') != (kind == "IPv6") {
            // As upstream, the error names the list, not the element.
            let all = FieldPath::new(addresses.path(), at.value());
            errors.invalid(&all, &format!("must be an {kind} address"));
        }
        address::not_special(&at, errors);
    }
    if endpoint.at("nodeName").is_set() {
        check::name(NameRule::Subdomain, &endpoint.at("nodeName"), errors);
    }
    let topology = endpoint.at("deprecatedTopology");
    too_many(&topology, MOST_LABELS, errors);
    check::labels(&topology, errors);
    if endpoint.at("hostname").is_set() {
        check::label(&endpoint.at("hostname"), errors);
    }
    for (field, of) in [("forZones", "zone"), ("forNodes", "node")] {
        let hints = endpoint.at("hints").at(field);
        if too_many(&hints, MOST_HINTS, errors) {
            continue;
        }
        let mut seen = Vec::new();
        for hint in hints.items() {
            let name = hint.at("name");
            if of == "zone" {
                check::qualified(&name, errors);
            } else {
                check::name(NameRule::Subdomain, &name, errors);
            }
            if seen.contains(&name.text()) {
                errors.duplicate(&name);
            }
            seen.push(name.text());
        }
    }
}

/// Checks a domain of at least two parts (upstream: `IsFullyQualifiedDomainName`).
fn domain(at: &FieldPath<'_>, errors: &mut Errors) {
    if at.is_empty() {
        errors.required(at, "");
        return;
    }
    let name = at.text().strip_suffix('.').unwrap_or(at.text());
    let wrong = names::check_name(NameRule::Subdomain, name);
    if !wrong.is_empty() {
        errors.invalid_as(at, &json!(name), &wrong.join(","));
    } else if !name.contains('.') {
        let detail = "should be a domain with at least two segments separated by dots";
        errors.invalid_as(at, &json!(name), detail);
    }
}
