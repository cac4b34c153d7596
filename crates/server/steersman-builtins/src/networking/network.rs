//! Machine: NetworkPolicies, ServiceCIDRs and IPAddresses (upstream: `pkg/apis/networking/validation`).

use serde_json::{Value, json};

use crate::Strategy;
use crate::fields::address::{self, Network};
use crate::fields::check;
use crate::fields::field_path::{Errors, FieldPath};
use crate::fields::fill::{lacks, list, part, put, set, set_text};
use crate::fields::go_value::GoType::{self, Pointer, Struct, Text};
use crate::fields::reference;
use crate::fields::selector;
use crate::fields::shared_warnings;

const PARENT: GoType = Struct(&[
    ("Group", "group", Text),
    ("Resource", "resource", Text),
    ("Namespace", "namespace", Text),
    ("Name", "name", Text),
]);

/// The object to which an IPAddress belongs.
const PARENT_REFERENCE: GoType = Pointer(&PARENT);

pub(crate) const NETWORK_POLICY: Strategy = Strategy {
    defaults,
    validate: policy,
    warnings: |new, _| {
        let (spec, mut warnings) = (FieldPath::root(new).at("spec"), Vec::new());
        for (side, peers) in [("ingress", "from"), ("egress", "to")] {
            for rule in spec.at(side).items() {
                for block in rule.at(peers).items().map(|peer| peer.at("ipBlock")) {
                    shared_warnings::of_network(&block.at("cidr"), &mut warnings);
                    for except in block.at("except").items() {
                        shared_warnings::of_network(&except, &mut warnings);
                    }
                }
            }
        }
        warnings
    },
    ..Strategy::PLAIN
};

pub(crate) const SERVICE_CIDR: Strategy = Strategy {
    defaults: |object| {
        part(object, "spec");
    },
    validate: service_cidr,
    ..Strategy::PLAIN
};

pub(crate) const IP_ADDRESS: Strategy = Strategy {
    defaults: |object| {
        part(object, "spec");
    },
    validate: ip_address,
    ..Strategy::PLAIN
};

fn defaults(object: &mut Value) {
    let Some(spec) = part(object, "spec") else {
        return;
    };
    set(spec, "podSelector", json!({}));
    for side in ["ingress", "egress"] {
        for rule in list(spec, side) {
            for port in list(rule, "ports") {
                set_text(port, "protocol", "TCP");
            }
        }
    }
    if lacks(spec, "policyTypes") {
        let mut types = vec!["Ingress"];
        if !lacks(spec, "egress") {
            types.push("Egress");
        }
        put(spec, "policyTypes", json!(types));
    }
}

/// Returns the networks that a policy names.
fn networks(policy: &Value) -> Vec<&str> {
    let mut all = Vec::new();
    for (side, peers) in [("ingress", "from"), ("egress", "to")] {
        for rule in policy["spec"][side].as_array().into_iter().flatten() {
            for peer in rule[peers].as_array().into_iter().flatten() {
                let except = peer["ipBlock"]["except"].as_array().into_iter().flatten();
                all.extend(peer["ipBlock"]["cidr"].as_str());
                all.extend(except.filter_map(Value::as_str));
            }
        }
    }
    all
}

fn policy(object: &Value, old: Option<&Value>) -> Errors {
    let mut errors = Errors::default();
    let spec = FieldPath::root(object).at("spec");
    let known = old.map(networks).unwrap_or_default();
    selector::check(&spec.at("podSelector"), &mut errors);
    for (side, peers) in [("ingress", "from"), ("egress", "to")] {
        for rule in spec.at(side).items() {
            for port in rule.at("ports").items() {
                check_port(&port, &mut errors);
            }
            for peer in rule.at(peers).items() {
                check_peer(&peer, &known, &mut errors);
            }
        }
    }
    let types = spec.at("policyTypes");
    if types.len() > 2 {
        errors.invalid(&types, "may not specify more than two policyTypes");
        return errors;
    }
    for one in types.items() {
        check::one_of(&one, &["Ingress", "Egress"], &mut errors);
    }
    errors
}

fn check_port(at: &FieldPath<'_>, errors: &mut Errors) {
    let protocol = at.at("protocol");
    if protocol.is_set() {
        check::one_of(&protocol, &["TCP", "UDP", "SCTP"], errors);
    }
    let (port, end) = (at.at("port"), at.at("endPort"));
    if !port.is_set() {
        if end.is_set() {
            errors.invalid(&end, "may not be specified when `port` is not specified");
        }
    } else if port.value().is_string() {
        if end.is_set() {
            errors.invalid(&end, "may not be specified when `port` is non-numeric");
        }
        check::port_or_name(&port, errors);
    } else {
        check::port(&port, errors);
        if end.is_set() {
            if end.int() < port.int() {
                errors.invalid(&end, "must be greater than or equal to `port`");
            }
            check::port(&end, errors);
        }
    }
}

fn check_peer(peer: &FieldPath<'_>, known: &[&str], errors: &mut Errors) {
    let block = peer.at("ipBlock");
    let mut count = usize::from(block.is_set());
    for field in ["podSelector", "namespaceSelector"] {
        count += usize::from(peer.at(field).is_set());
        selector::check(&peer.at(field), errors);
    }
    if block.is_set() {
        check_block(&block, known, errors);
    }
    if count == 0 {
        errors.required(peer, "must specify a peer");
    } else if count > 1 && block.is_set() {
        errors.forbidden(peer, "may not specify both ipBlock and another peer");
    }
}

fn check_block(block: &FieldPath<'_>, known: &[&str], errors: &mut Errors) {
    let cidr = block.at("cidr");
    if cidr.is_empty() {
        errors.required(&cidr, "");
        return;
    }
    address::check_network(&cidr, known, errors);
    let Some(network) = Network::parse(cidr.text()) else {
        return;
    };
    for except in block.at("except").items() {
        address::check_network(&except, known, errors);
        if Network::parse(except.text()).is_some_and(|part| !network.surrounds(part)) {
            errors.invalid(&except, "must be a strict subset of `cidr`");
        }
    }
}

fn service_cidr(object: &Value, old: Option<&Value>) -> Errors {
    let mut errors = Errors::default();
    let cidrs = FieldPath::root(object).down("spec.cidrs");
    if let Some(old) = old {
        // An update may add a network of the second IP family and change nothing else.
        let before = old["spec"]["cidrs"].as_array().map_or(0, Vec::len);
        let kept = old["spec"]["cidrs"][0] == cidrs.value()[0];
        let grown = before == 1 && cidrs.len() == 2 && kept;
        if !grown {
            check::immutable(&cidrs, &old["spec"]["cidrs"], &mut errors);
            return errors;
        }
    }
    if cidrs.is_empty() {
        errors.required(&cidrs, "at least one CIDR required");
        return errors;
    }
    let networks: Vec<Network> = cidrs
        .items()
        .filter_map(|at| Network::parse(at.text()))
        .collect();
    let six = networks.iter().filter(|network| network.is_ipv6()).count();
    if cidrs.len() > 2 || (networks.len() == 2 && six != 1) {
        let detail = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/96";
        errors.invalid(&cidrs, detail);
    }
    for at in cidrs.items() {
        address::check_network(&at, &[], &mut errors);
    }
    errors
}

fn ip_address(object: &Value, old: Option<&Value>) -> Errors {
    let mut errors = Errors::default();
    let root = FieldPath::root(object);
    let parent = root.down("spec.parentRef");
    if let Some(old) = old {
        let old = &old["spec"]["parentRef"];
        check::immutable_struct(&parent, old, &PARENT_REFERENCE, &mut errors);
        return errors;
    }
    if !parent.is_set() {
        errors.required(&parent, "");
        return errors;
    }
    if !parent.at("group").is_empty() {
        check::subdomain(&parent.at("group"), &mut errors);
    }
    reference::segment(&parent.at("resource"), &mut errors);
    reference::segment(&parent.at("name"), &mut errors);
    if !parent.at("namespace").is_empty() {
        check::label(&parent.at("namespace"), &mut errors);
    }
    errors
}
