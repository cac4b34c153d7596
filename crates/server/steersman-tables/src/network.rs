//! Machine: the columns of networking kinds.

use serde_json::{Value, json};

use super::cells::{
    NONE, UNSET, at, first_three, joined, labels, list, number, plain, selector, text, text_or,
    texts,
};
use super::columns::{AGE, Columns, age, shown, wide};

pub(super) const SERVICES: Columns = Columns {
    headings: &[
        shown("Type", "How the service is exposed."),
        shown("Cluster-IP", "Address inside the cluster."),
        shown("External-IP", "Addresses outside the cluster."),
        shown("Port(s)", "Ports and their protocols."),
        AGE,
        wide("Selector", "Labels of the pods behind the service."),
    ],
    row: |service, _| {
        let ports: Vec<String> = list(service, "spec.ports")
            .iter()
            .map(|port| {
                let (number, node) = (number(port, "port"), number(port, "nodePort"));
                let protocol = text(port, "protocol");
                if node > 0 {
                    format!("{number}:{node}/{protocol}")
                } else {
                    format!("{number}/{protocol}")
                }
            })
            .collect();
        let kind = text(service, "spec.type");
        let addresses = texts(service, "spec.clusterIPs");
        json!([
            kind,
            addresses.first().unwrap_or(&NONE),
            external_addresses(service, kind),
            joined(&ports, NONE),
            labels(at(service, "spec.selector"))
        ])
    },
};

fn external_addresses(service: &Value, kind: &str) -> String {
    let own = texts(service, "spec.externalIPs");
    match kind {
        "ExternalName" => text(service, "spec.externalName").to_owned(),
        "LoadBalancer" => {
            let mut all = balancer(service);
            all.extend(own);
            joined(&all, "<pending>")
        }
        _ => joined(&own, NONE),
    }
}

/// Returns the addresses of the load balancer in order, without duplicates.
fn balancer(object: &Value) -> Vec<&str> {
    let mut all: Vec<&str> = list(object, "status.loadBalancer.ingress")
        .iter()
        .map(|ingress| match text(ingress, "ip") {
            "" => text(ingress, "hostname"),
            address => address,
        })
        .filter(|address| !address.is_empty())
        .collect();
    all.sort_unstable();
    all.dedup();
    all
}

pub(super) const INGRESSES: Columns = Columns {
    headings: &[
        shown("Class", "Class of the controller that serves it."),
        shown("Hosts", "Hosts of the rules."),
        shown("Address", "Addresses of the load balancer."),
        shown("Ports", "Open ports of the load balancer."),
        AGE,
    ],
    row: |ingress, _| {
        let secure = !list(ingress, "spec.tls").is_empty();
        json!([
            text_or(ingress, "spec.ingressClassName", NONE),
            hosts(list(ingress, "spec.rules")),
            balancer(ingress).join(","),
            if secure { "80, 443" } else { "80" }
        ])
    },
};

/// Formats the first three hosts. The number of further ones counts rules, with or without a host.
fn hosts(rules: &[Value]) -> String {
    const SHOWN: usize = 3;
    let named = rules.iter().enumerate().filter_map(|(index, rule)| {
        let host = text(rule, "host");
        (!host.is_empty()).then_some((index, host))
    });
    let shown: Vec<(usize, &str)> = named.take(SHOWN).collect();
    let names: Vec<&str> = shown.iter().map(|(_, host)| *host).collect();
    match shown.last() {
        None => "*".to_owned(),
        Some((last, _)) if shown.len() == SHOWN && last + 1 < rules.len() => {
            format!("{} + {} more...", names.join(","), rules.len() - SHOWN)
        }
        Some(_) => names.join(","),
    }
}

pub(super) const INGRESS_CLASSES: Columns = Columns {
    headings: &[
        shown("Controller", "Controller that serves the class."),
        shown("Parameters", "Object with more settings."),
        AGE,
    ],
    row: |class, _| {
        let parameters = at(class, "spec.parameters").filter(|it| it.is_object());
        let parameters = parameters.map(|it| {
            let (kind, name) = (text(it, "kind"), text(it, "name"));
            match at(it, "apiGroup").and_then(Value::as_str) {
                Some(group) => format!("{kind}.{group}/{name}"),
                None => format!("{kind}/{name}"),
            }
        });
        json!([
            text(class, "spec.controller"),
            parameters.as_deref().unwrap_or(NONE)
        ])
    },
};

pub(super) const NETWORK_POLICIES: Columns = Columns {
    headings: &[shown("Pod-Selector", "Label selector of the pods."), AGE],
    row: |policy, _| json!([selector(at(policy, "spec.podSelector"))]),
};

pub(super) const ENDPOINTS: Columns = Columns {
    headings: &[shown("Endpoints", "Addresses and ports."), AGE],
    row: |endpoints, _| {
        let subsets = list(endpoints, "subsets");
        let none = if subsets.is_empty() { NONE } else { "" };
        let all: Vec<String> = subsets.iter().flat_map(addresses).collect();
        json!([first_three(&all, none)])
    },
};

/// Returns the addresses of a subset combined with each of its ports, or alone without ports.
fn addresses(subset: &Value) -> Vec<String> {
    let ports = list(subset, "ports");
    let addresses = list(subset, "addresses")
        .iter()
        .map(|address| text(address, "ip"));
    if ports.is_empty() {
        return addresses.map(str::to_owned).collect();
    }
    let ports = ports.iter().map(|port| number(port, "port"));
    ports
        .flat_map(|port| {
            addresses.clone().map(move |address| {
                if address.contains(':') {
                    format!("[{address}]:{port}")
                } else {
                    format!("{address}:{port}")
                }
            })
        })
        .collect()
}

pub(super) const ENDPOINT_SLICES: Columns = Columns {
    headings: &[
        shown("AddressType", "Type of the addresses: IPv4, IPv6 or FQDN."),
        shown("Ports", "Ports of every endpoint."),
        shown("Endpoints", "Addresses of the endpoints."),
        AGE,
    ],
    row: |slice, _| {
        let ports: Vec<String> = list(slice, "ports")
            .iter()
            .map(|port| match at(port, "port") {
                Some(number) if !number.is_null() => plain(number),
                _ => text_or(port, "name", "*").to_owned(),
            })
            .collect();
        let addresses: Vec<String> = list(slice, "endpoints")
            .iter()
            .flat_map(|endpoint| texts(endpoint, "addresses"))
            .map(str::to_owned)
            .collect();
        json!([
            text(slice, "addressType"),
            first_three(&ports, UNSET),
            first_three(&addresses, UNSET)
        ])
    },
};

pub(super) const SERVICE_CIDRS: Columns = Columns {
    headings: &[shown("CIDRs", "Ranges of addresses."), AGE],
    row: |range, _| json!([texts(range, "spec.cidrs").join(",")]),
};

/// The columns of IPAddresses. Their rows have a cell for the age, but no heading for it.
pub(super) const IP_ADDRESSES: Columns = Columns {
    headings: &[shown("ParentRef", "Object that has the address.")],
    row: |address, now| {
        let parent = at(address, "spec.parentRef").filter(|it| it.is_object());
        let parent = parent.map(|it| {
            let mut all = text(it, "resource").to_lowercase();
            for (before, member) in [('.', "group"), ('/', "namespace")] {
                let part = text(it, member);
                if !part.is_empty() {
                    all.push(before);
                    all.push_str(part);
                }
            }
            format!("{all}/{}", text(it, "name"))
        });
        json!([parent.as_deref().unwrap_or(NONE), age(address, now)])
    },
};
