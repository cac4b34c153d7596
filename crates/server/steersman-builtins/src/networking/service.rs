//! Machine: Services: defaults, validation and warnings (upstream: `ValidateService`).

mod addresses;
mod warnings;

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::Strategy;
use crate::fields::fill::{drop, elements, given, lacks, list, part, set, set_text};
use crate::fields::{FieldPath, address, check};
use addresses::{balancer_class, check_addresses, update};

pub use addresses::address_errors;

pub(crate) const SERVICE: Strategy = Strategy {
    defaults,
    prepare,
    validate,
    validate_status,
    warn: |new, _| warnings::of(new),
    warn_of_status: warnings::of_status,
    ..Strategy::PLAIN
};

const ONLY_BALANCER: &str = "may only be used when `type` is 'LoadBalancer'";
const FIXED: &str = "may not change once set";
const RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";
const HINTS: &str = "service.kubernetes.io/topology-aware-hints";
const MODE: &str = "service.kubernetes.io/topology-mode";

/// Longest timeout of session affinity, in seconds: one day.
const DAY: i64 = 86_400;

fn is(spec: &Value, kind: &str) -> bool {
    spec["type"] == kind
}

fn is_balancer(spec: &Value) -> bool {
    is(spec, "LoadBalancer")
}

/// Returns whether the Service may use node ports.
fn on_nodes(spec: &Value) -> bool {
    is(spec, "NodePort") || is(spec, "LoadBalancer")
}

/// Returns whether load balancers ask nodes by a health check port if they have an endpoint.
pub fn needs_health_port(spec: &Value) -> bool {
    is(spec, "LoadBalancer") && spec["externalTrafficPolicy"] == "Local"
}

/// Returns whether the Service has cluster IPs, or `None` instead of one.
pub fn needs_address(spec: &Value) -> bool {
    is(spec, "ClusterIP") || on_nodes(spec)
}

/// Returns whether the Service accepts traffic from outside the cluster.
fn is_outside(spec: &Value) -> bool {
    on_nodes(spec) || (is(spec, "ClusterIP") && !lacks(spec, "externalIPs"))
}

/// Returns whether the Service is headless: its cluster IP is `None`.
pub fn is_headless(spec: &Value) -> bool {
    spec["clusterIPs"] == json!(["None"])
}

fn defaults(object: &mut Value) {
    let Some(spec) = part(object, "spec") else {
        return;
    };
    set_text(spec, "sessionAffinity", "None");
    if spec["sessionAffinity"] == "None" {
        drop(spec, "sessionAffinityConfig");
    } else if spec["sessionAffinity"] == "ClientIP"
        && let Some(config) = part(spec, "sessionAffinityConfig")
        && let Some(client) = part(config, "clientIP")
    {
        set(client, "timeoutSeconds", json!(10_800));
    }
    set_text(spec, "type", "ClusterIP");
    for port in list(spec, "ports") {
        set_text(port, "protocol", "TCP");
        if port["targetPort"].is_null() || port["targetPort"] == 0 || port["targetPort"] == "" {
            let number = port["port"].as_i64().unwrap_or_default();
            drop(port, "targetPort");
            set(port, "targetPort", json!(number));
        }
        set(port, "port", json!(0));
    }
    if is_outside(spec) {
        set_text(spec, "externalTrafficPolicy", "Cluster");
    }
    if needs_address(spec) {
        set(spec, "internalTrafficPolicy", json!("Cluster"));
    }
    let balancer = is(spec, "LoadBalancer");
    if balancer {
        set(spec, "allocateLoadBalancerNodePorts", json!(true));
    }
    if let Some(status) = part(object, "status") {
        set(status, "loadBalancer", json!({}));
        if balancer && let Some(state) = given(status, "loadBalancer") {
            for ingress in list(state, "ingress") {
                if !lacks(ingress, "ip") {
                    set(ingress, "ipMode", json!("VIP"));
                }
            }
        }
    }
}

/// Drops unchanged fields that a new type does not use (upstream: `dropTypeDependentFields`).
fn prepare(object: &mut Value, old: Option<&Value>) {
    let Some(old) = old.map(|old| &old["spec"]) else {
        return;
    };
    let Some(spec) = given(object, "spec") else {
        return;
    };
    let same = |spec: &Value, field: &str| spec.get(field) == old.get(field);
    if needs_address(old) && !needs_address(spec) {
        if same(spec, "clusterIP") && same(spec, "clusterIPs") {
            drop(spec, "clusterIP");
            drop(spec, "clusterIPs");
        }
        for field in ["ipFamilies", "ipFamilyPolicy"] {
            if same(spec, field) {
                drop(spec, field);
            }
        }
    }
    let node_ports = |spec: &Value| -> Vec<Value> {
        elements(&spec["ports"])
            .iter()
            .map(|port| port["nodePort"].clone())
            .collect()
    };
    if on_nodes(old) && !on_nodes(spec) && node_ports(old) == node_ports(spec) {
        for port in list(spec, "ports") {
            drop(port, "nodePort");
        }
    }
    for (field, needed) in [
        (
            "healthCheckNodePort",
            needs_health_port as fn(&Value) -> bool,
        ),
        ("allocateLoadBalancerNodePorts", is_balancer),
        ("loadBalancerClass", is_balancer),
        ("externalTrafficPolicy", is_outside),
    ] {
        if needed(old) && !needed(spec) && same(spec, field) {
            drop(spec, field);
        }
    }
}

fn validate(root: &FieldPath<'_>, old: Option<&Value>) {
    let spec = root.at("spec");
    if let Some(old) = old {
        update(&spec, &old["spec"]);
    }
    topology(root);
    let value = spec.value();
    let headless = is_headless(value);
    let ports = spec.at("ports");
    if ports.is_empty() && !headless && !is(value, "ExternalName") {
        ports.required("");
    }
    by_type(&spec);
    let mut names = HashSet::new();
    for port in ports.items() {
        check_port(&port, ports.len() > 1, &mut names);
    }
    check::labels(&spec.at("selector"));
    affinity(&spec);
    check_addresses(&spec);
    spec.at("externalIPs").each(|ip| {
        if ip.passes(address::check) {
            address::not_special(ip);
        }
    });
    let types = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
    check::required_one_of(&spec.at("type"), &types);
    ports_together(&spec);
    source_ranges(root);
    let allocate = spec.at("allocateLoadBalancerNodePorts");
    if allocate.is_set() && !is(value, "LoadBalancer") {
        allocate.forbidden(ONLY_BALANCER);
    }
    balancer_class(&spec, None);
    traffic(&spec);
}

fn topology(root: &FieldPath<'_>) {
    let notes = root.down("metadata.annotations");
    let (mode, hints) = (notes.key(MODE), notes.key(HINTS));
    if mode.is_set() && hints.is_set() && mode.text() != hints.text() {
        let detail = format!("must match annotations[{HINTS}] when both are specified");
        mode.invalid(&detail);
    }
}

fn by_type(spec: &FieldPath<'_>) {
    let kind = spec.at("type").text();
    match kind {
        "LoadBalancer" | "NodePort" if is_headless(spec.value()) => {
            if let Some(first) = spec.at("clusterIPs").items().next() {
                first.invalid(&format!("may not be set to 'None' for {kind} services"));
            }
        }
        "ExternalName" => {
            for at in spec.parts(["clusterIPs", "ipFamilies", "ipFamilyPolicy"]) {
                at.deny_filled("may not be set for ExternalName services");
            }
            let at = spec.at("externalName");
            let name = at.text().strip_suffix('.').unwrap_or(at.text());
            check::required(&at.with(&json!(name)), check::subdomain);
        }
        _ => {}
    }
}

fn check_port<'a>(port: &FieldPath<'a>, named: bool, names: &mut HashSet<&'a str>) {
    let name = port.at("name");
    if !name.is_empty() {
        check::label(&name);
        name.unique(names);
    } else if named {
        name.required("");
    }
    check::port(&port.at("port"));
    check::required_one_of(&port.at("protocol"), &["SCTP", "TCP", "UDP"]);
    check::port_or_name(&port.at("targetPort"));
    port.at("appProtocol").if_set(check::qualified);
}

fn affinity(spec: &FieldPath<'_>) {
    let affinity = spec.at("sessionAffinity");
    check::required_one_of(&affinity, &["ClientIP", "None"]);
    let config = spec.at("sessionAffinityConfig");
    match affinity.text() {
        "ClientIP" => {
            let client = config.at("clientIP");
            let timeout = client.at("timeoutSeconds");
            if let Some(absent) = [&config, &client, &timeout].iter().find(|at| !at.is_set()) {
                absent.required("when session affinity type is ClientIP");
            } else if !(1..=DAY).contains(&timeout.int()) {
                timeout.invalid(&format!("must be greater than 0 and less than {DAY}"));
            }
        }
        "None" if config.is_set() => {
            config.forbidden("must not be set when session affinity is None");
        }
        _ => {}
    }
}

fn ports_together(spec: &FieldPath<'_>) {
    let ports = spec.at("ports");
    if is(spec.value(), "ClusterIP") {
        for port in ports.items().map(|port| port.at("nodePort")) {
            if port.int() != 0 {
                port.forbidden("may not be used when `type` is 'ClusterIP'");
            }
        }
    }
    let mut seen = HashSet::new();
    for port in ports.items() {
        let at = port.at("nodePort");
        let key = (port.at("protocol").text(), at.int());
        if at.int() != 0 && !seen.insert(key) {
            at.duplicate();
        }
    }
    seen.clear();
    for port in ports.items() {
        let (protocol, number) = (port.at("protocol").text(), port.at("port").int());
        if !seen.insert((protocol, number)) {
            let protocol = json!(protocol);
            port.duplicate_written(&format!(
                "{{\"Name\":\"\",\"Protocol\":{protocol},\"AppProtocol\":null,\"Port\":{number},\"TargetPort\":0,\"NodePort\":0}}"
            ));
        }
    }
}

fn source_ranges(root: &FieldPath<'_>) {
    let spec = root.at("spec");
    let balancer = is(spec.value(), "LoadBalancer");
    let ranges = spec.at("loadBalancerSourceRanges");
    if !ranges.is_empty() {
        // As upstream, the path has the name of the Go field.
        let at = spec.named("LoadBalancerSourceRanges", Some(ranges.value()));
        if !balancer {
            at.forbidden(ONLY_BALANCER);
        }
        at.each(|range| address::check_network_text(range, range.text().trim(), &[]));
        return;
    }
    let note = root.down("metadata.annotations").key(RANGES);
    if !balancer {
        note.deny(ONLY_BALANCER);
    }
    let text = note.text().trim();
    for range in text.split(',').filter(|_| !text.is_empty()) {
        address::check_network_text(&note, range.trim(), &[]);
    }
}

fn traffic(spec: &FieldPath<'_>) {
    let value = spec.value();
    let outside = spec.at("externalTrafficPolicy");
    if is_outside(value) {
        check::required_one_of(&outside, &["Cluster", "Local"]);
    } else if !outside.is_empty() {
        outside.invalid("may only be set for externally-accessible services");
    }
    let health = spec.at("healthCheckNodePort");
    // An absent port is allocated later.
    if health.int() != 0 && needs_health_port(value) {
        check::port(&health);
    } else if health.int() != 0 {
        let detail =
            "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
        health.invalid(detail);
    }
    let inside = spec.at("internalTrafficPolicy");
    if inside.is_set() {
        check::one_of(&inside, &["Cluster", "Local"]);
    } else if needs_address(value) {
        inside.required("");
    }
    let known = ["PreferClose", "PreferSameNode", "PreferSameZone"];
    check::optional(&spec.at("trafficDistribution"), &known);
}

fn validate_status(root: &FieldPath<'_>, _old: &Value) {
    let list = root.down("status.loadBalancer.ingress");
    if !list.is_empty() && !is(&root.value()["spec"], "LoadBalancer") {
        return list.forbidden("may only be used when `spec.type` is \"LoadBalancer\"");
    }
    for ingress in list.items() {
        let [ip, mode] = ingress.parts(["ip", "ipMode"]);
        if ip.is_empty() {
            mode.deny("may not be specified when `ip` is not set");
        } else {
            address::check(&ip);
            check::optional(&mode, &["Proxy", "VIP"]);
            mode.need_set("must be specified when `ip` is set");
        }
        super::ingress::check_host_name(&ingress.at("hostname"));
    }
}
