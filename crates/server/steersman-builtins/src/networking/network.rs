//! Machine: NetworkPolicies, ServiceCIDRs and IPAddresses (upstream: `pkg/apis/networking/validation`).

use serde_json::{Value, json};

use crate::Strategy;
use crate::fields::address::{self, Network};
use crate::fields::fill::{lacks, list, part, put, set, set_text, with_spec};
use crate::fields::go_value::GoType::{self, Pointer, Struct, Text};
use crate::fields::{FieldPath, check, reference, selector, shared_warnings};

const PARENT: GoType = Struct(&[
    ("group", Text),
    ("resource", Text),
    ("namespace", Text),
    ("name", Text),
]);

/// The object to which an IPAddress belongs.
const PARENT_REFERENCE: GoType = Pointer(&PARENT);

pub(crate) const NETWORK_POLICY: Strategy = Strategy {
    defaults,
    validate: policy,
    warn: |new, _| each_network(new, |network| shared_warnings::of_network(network)),
    ..Strategy::PLAIN
};

pub(crate) const SERVICE_CIDR: Strategy = Strategy {
    defaults: with_spec,
    validate: service_cidr,
    ..Strategy::PLAIN
};

pub(crate) const IP_ADDRESS: Strategy = Strategy {
    defaults: with_spec,
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

/// The directions of a policy's rules, each with the field of its peers.
const SIDES: [(&str, &str); 2] = [("ingress", "from"), ("egress", "to")];

fn each_network<'a>(policy: &FieldPath<'a>, mut visit: impl FnMut(&FieldPath<'a>)) {
    for (side, peers) in SIDES {
        for rule in policy.at("spec").at(side).items() {
            for block in rule.at(peers).items().map(|peer| peer.at("ipBlock")) {
                visit(&block.at("cidr"));
                block.at("except").items().for_each(|except| visit(&except));
            }
        }
    }
}

fn policy(object: &FieldPath<'_>, old: Option<&Value>) {
    let spec = object.at("spec");
    let mut known = Vec::new();
    if let Some(old) = old {
        each_network(&object.with(old), |network| known.push(network.text()));
    }
    selector::check(&spec.at("podSelector"));
    for (side, peers) in SIDES {
        for rule in spec.at(side).items() {
            rule.at("ports").each(check_port);
            rule.at(peers).each(|peer| check_peer(peer, &known));
        }
    }
    let types = spec.at("policyTypes");
    if types.len() > 2 {
        return types.invalid("may not specify more than two policyTypes");
    }
    types.each(|one| check::one_of(one, &["Ingress", "Egress"]));
}

fn check_port(at: &FieldPath<'_>) {
    check::optional(&at.at("protocol"), &["TCP", "UDP", "SCTP"]);
    let (port, end) = (at.at("port"), at.at("endPort"));
    if !port.is_set() {
        end.if_set(|end| end.invalid("may not be specified when `port` is not specified"));
    } else if port.value().is_string() {
        end.if_set(|end| end.invalid("may not be specified when `port` is non-numeric"));
        check::port_name(&port);
    } else {
        check::port(&port);
        end.if_set(|at| at.at_least(port.int(), "must be greater than or equal to `port`"));
        end.if_set(check::port);
    }
}

fn check_peer(peer: &FieldPath<'_>, known: &[&str]) {
    let block = peer.at("ipBlock");
    let selectors = peer.parts(["podSelector", "namespaceSelector"]);
    selectors.iter().for_each(selector::check);
    block.if_set(|block| check_block(block, known));
    match (block.is_set(), selectors.iter().any(FieldPath::is_set)) {
        (false, false) => peer.required("must specify a peer"),
        (true, true) => peer.forbidden("may not specify both ipBlock and another peer"),
        _ => {}
    }
}

fn check_block(block: &FieldPath<'_>, known: &[&str]) {
    let cidr = block.at("cidr");
    if cidr.is_empty() {
        return cidr.required("");
    }
    address::check_network(&cidr, known);
    let Some(network) = Network::parse(cidr.text()) else {
        return;
    };
    for except in block.at("except").items() {
        address::check_network(&except, known);
        if Network::parse(except.text()).is_some_and(|part| !network.surrounds(part)) {
            except.invalid("must be a strict subset of `cidr`");
        }
    }
}

fn service_cidr(object: &FieldPath<'_>, old: Option<&Value>) {
    let cidrs = object.down("spec.cidrs");
    if let Some(old) = old {
        // An update may add a network of the second IP family and change nothing else.
        let before = old["spec"]["cidrs"].as_array().map_or(0, Vec::len);
        let kept = old["spec"]["cidrs"][0] == cidrs.value()[0];
        let grown = before == 1 && cidrs.len() == 2 && kept;
        if !grown {
            check::immutable(&cidrs, &old["spec"]["cidrs"]);
            return;
        }
    }
    if cidrs.is_empty() {
        return cidrs.required("at least one CIDR required");
    }
    let networks = cidrs.items().filter_map(|at| Network::parse(at.text()));
    let networks: Vec<Network> = networks.collect();
    let six = networks.iter().filter(|network| network.is_ipv6()).count();
    if cidrs.len() > 2 || (networks.len() == 2 && six != 1) {
        cidrs.invalid("may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/96");
    }
    cidrs.each(|at| address::check_network(at, &[]));
}

fn ip_address(root: &FieldPath<'_>, old: Option<&Value>) {
    let parent = root.down("spec.parentRef");
    if let Some(old) = old {
        let old = &old["spec"]["parentRef"];
        check::immutable_struct(&parent, old, &PARENT_REFERENCE);
        return;
    }
    if !parent.need_set("") {
        return;
    }
    parent.at("group").if_filled(check::subdomain);
    reference::segment(&parent.at("resource"));
    reference::segment(&parent.at("name"));
    parent.at("namespace").if_filled(check::label);
}
