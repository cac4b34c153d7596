//! Machine: Services: defaults, validation and warnings (upstream: `ValidateService`).

mod addresses;
mod warnings;

use serde_json::{Value, json};
use steersman_apimachinery::names;

use crate::Strategy;
use crate::fields::address;
use crate::fields::check;
use crate::fields::field_path::{Errors, FieldPath};
use crate::fields::fill::{drop, given, lacks, list, part, set, set_text};
use addresses::{balancer_class, check_addresses, update};

pub use addresses::address_errors;

pub(crate) const SERVICE: Strategy = Strategy {
    defaults,
    prepare,
    validate,
    validate_status,
    warnings: |new, _| warnings::of(new),
    status_warnings: warnings::of_status,
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

/// Drops fields that the new type of a Service does not use, unless the update changes them
/// (upstream: `dropTypeDependentFields`).
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
        let ports = spec["ports"].as_array().into_iter().flatten();
        ports.map(|port| port["nodePort"].clone()).collect()
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
        ("allocateLoadBalancerNodePorts", |spec| {
            is(spec, "LoadBalancer")
        }),
        ("loadBalancerClass", |spec| is(spec, "LoadBalancer")),
        ("externalTrafficPolicy", is_outside),
    ] {
        if needed(old) && !needed(spec) && same(spec, field) {
            drop(spec, field);
        }
    }
}

fn validate(object: &Value, old: Option<&Value>) -> Errors {
    let mut errors = Errors::default();
    let root = FieldPath::root(object);
    let spec = root.at("spec");
    if let Some(old) = old {
        update(&spec, &old["spec"], &mut errors);
    }
    topology(&root, &mut errors);
    let value = spec.value();
    let headless = is_headless(value);
    let ports = spec.at("ports");
    if ports.is_empty() && !headless && !is(value, "ExternalName") {
        errors.required(&ports, "");
    }
    by_type(&spec, &mut errors);
    let mut names = Vec::new();
    for port in ports.items() {
        check_port(&port, ports.len() > 1, &mut names, &mut errors);
    }
    check::labels(&spec.at("selector"), &mut errors);
    affinity(&spec, &mut errors);
    check_addresses(&spec, &mut errors);
    for ip in spec.at("externalIPs").items() {
        let before = errors.len();
        address::check(&ip, &mut errors);
        if errors.len() == before {
            address::not_special(&ip, &mut errors);
        }
    }
    let types = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
    check::required_one_of(&spec.at("type"), &types, &mut errors);
    ports_together(&spec, &mut errors);
    source_ranges(&root, &mut errors);
    let allocate = spec.at("allocateLoadBalancerNodePorts");
    if allocate.is_set() && !is(value, "LoadBalancer") {
        errors.forbidden(&allocate, ONLY_BALANCER);
    }
    balancer_class(&spec, None, &mut errors);
    traffic(&spec, &mut errors);
    errors
}

fn topology(root: &FieldPath<'_>, errors: &mut Errors) {
    let notes = root.down("metadata.annotations");
    let (mode, hints) = (notes.key(MODE), notes.key(HINTS));
    if mode.is_set() && hints.is_set() && mode.text() != hints.text() {
        let detail = format!("must match annotations[{HINTS}] when both are specified");
        errors.invalid(&mode, &detail);
    }
}

fn by_type(spec: &FieldPath<'_>, errors: &mut Errors) {
    let kind = spec.at("type").text();
    let headless = is_headless(spec.value());
    match kind {
        "LoadBalancer" | "NodePort" if headless => {
            if let Some(first) = spec.at("clusterIPs").items().next() {
                let detail = format!("may not be set to 'None' for {kind} services");
                errors.invalid(&first, &detail);
            }
        }
        "ExternalName" => {
            for field in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
                let at = spec.at(field);
                if !at.is_empty() {
                    errors.forbidden(&at, "may not be set for ExternalName services");
                }
            }
            let at = spec.at("externalName");
            let name = at.text().strip_suffix('.').unwrap_or(at.text());
            if name.is_empty() {
                errors.required(&at, "");
            } else {
                let wrong = names::check_name(names::NameRule::Subdomain, name);
                for detail in wrong {
                    errors.invalid_as(&at, &json!(name), &detail);
                }
            }
        }
        _ => {}
    }
}

fn check_port<'a>(
    port: &FieldPath<'a>,
    named: bool,
    names: &mut Vec<&'a str>,
    errors: &mut Errors,
) {
    let name = port.at("name");
    if name.is_empty() {
        if named {
            errors.required(&name, "");
        }
    } else {
        check::label(&name, errors);
        if names.contains(&name.text()) {
            errors.duplicate(&name);
        } else {
            names.push(name.text());
        }
    }
    check::port(&port.at("port"), errors);
    check::required_one_of(&port.at("protocol"), &["SCTP", "TCP", "UDP"], errors);
    check::port_or_name(&port.at("targetPort"), errors);
    if port.at("appProtocol").is_set() {
        check::qualified(&port.at("appProtocol"), errors);
    }
}

fn affinity(spec: &FieldPath<'_>, errors: &mut Errors) {
    let affinity = spec.at("sessionAffinity");
    check::required_one_of(&affinity, &["ClientIP", "None"], errors);
    let config = spec.at("sessionAffinityConfig");
    match affinity.text() {
        "ClientIP" => {
            let client = config.at("clientIP");
            let timeout = client.at("timeoutSeconds");
            if !config.is_set() {
                let detail = "when session affinity type is ClientIP";
                errors.required(&config, detail);
            } else if !client.is_set() {
                let detail = "when session affinity type is ClientIP";
                errors.required(&client, detail);
            } else if !timeout.is_set() {
                let detail = "when session affinity type is ClientIP";
                errors.required(&timeout, detail);
            } else if !(1..=DAY).contains(&timeout.int()) {
                let detail = format!("must be greater than 0 and less than {DAY}");
                errors.invalid(&timeout, &detail);
            }
        }
        "None" if config.is_set() => {
            let detail = "must not be set when session affinity is None";
            errors.forbidden(&config, detail);
        }
        _ => {}
    }
}

fn ports_together(spec: &FieldPath<'_>, errors: &mut Errors) {
    let ports = spec.at("ports");
    if is(spec.value(), "ClusterIP") {
        for port in ports.items().map(|port| port.at("nodePort")) {
            if port.int() != 0 {
                errors.forbidden(&port, "may not be used when `type` is 'ClusterIP'");
            }
        }
    }
    let mut seen = Vec::new();
    for port in ports.items() {
        let at = port.at("nodePort");
        let key = (port.at("protocol").text(), at.int());
        if at.int() == 0 {
            continue;
        }
        if seen.contains(&key) {
            errors.duplicate(&at);
        }
        seen.push(key);
    }
    seen.clear();
    for port in ports.items() {
        let key = (port.at("protocol").text(), port.at("port").int());
        if seen.contains(&key) {
            let (protocol, number) = key;
            let value = format!(
                "{{\"Name\":\"\",\"Protocol\":{},\"AppProtocol\":null,\"Port\":{number},\"TargetPort\":0,\"NodePort\":0}}",
                json!(protocol)
            );
            errors.push(steersman_apimachinery::status::FieldError::duplicate(
                port.path(),
                &value,
            ));
        }
        seen.push(key);
    }
}

fn source_ranges(root: &FieldPath<'_>, errors: &mut Errors) {
    let spec = root.at("spec");
    let balancer = is(spec.value(), "LoadBalancer");
    let ranges = spec.at("loadBalancerSourceRanges");
    if !ranges.is_empty() {
        // As upstream, the path has the name of the Go field.
        let at = FieldPath::new("spec.LoadBalancerSourceRanges", ranges.value());
        if !balancer {
            errors.forbidden(&at, ONLY_BALANCER);
        }
        for range in at.items() {
            address::check_network_text(&range, range.text().trim(), &[], errors);
        }
        return;
    }
    let note = root.down("metadata.annotations").key(RANGES);
    if !note.is_set() {
        return;
    }
    if !balancer {
        errors.forbidden(&note, ONLY_BALANCER);
    }
    let text = note.text().trim();
    for range in text.split(',').filter(|_| !text.is_empty()) {
        address::check_network_text(&note, range.trim(), &[], errors);
    }
}

fn traffic(spec: &FieldPath<'_>, errors: &mut Errors) {
    let value = spec.value();
    let outside = spec.at("externalTrafficPolicy");
    if is_outside(value) {
        check::required_one_of(&outside, &["Cluster", "Local"], errors);
    } else if !outside.is_empty() {
        let detail = "may only be set for externally-accessible services";
        errors.invalid(&outside, detail);
    }
    let health = spec.at("healthCheckNodePort");
    if needs_health_port(value) {
        // An absent port is allocated later.
        if health.int() != 0 {
            check::port(&health, errors);
        }
    } else if health.int() != 0 {
        let detail =
            "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
        errors.invalid(&health, detail);
    }
    let inside = spec.at("internalTrafficPolicy");
    if inside.is_set() {
        check::one_of(&inside, &["Cluster", "Local"], errors);
    } else if needs_address(value) {
        errors.required(&inside, "");
    }
    let distribution = spec.at("trafficDistribution");
    if distribution.is_set() {
        let known = ["PreferClose", "PreferSameNode", "PreferSameZone"];
        check::one_of(&distribution, &known, errors);
    }
}

fn validate_status(object: &Value, _old: &Value) -> Errors {
    let mut errors = Errors::default();
    let root = FieldPath::root(object);
    let list = root.down("status.loadBalancer.ingress");
    if !list.is_empty() && !is(&object["spec"], "LoadBalancer") {
        let detail = "may only be used when `spec.type` is \"LoadBalancer\"";
        errors.forbidden(&list, detail);
        return errors;
    }
    for ingress in list.items() {
        let (ip, mode) = (ingress.at("ip"), ingress.at("ipMode"));
        if !ip.is_empty() {
            address::check(&ip, &mut errors);
            if mode.is_set() {
                check::one_of(&mode, &["Proxy", "VIP"], &mut errors);
            } else {
                errors.required(&mode, "must be specified when `ip` is set");
            }
        } else if mode.is_set() {
            errors.forbidden(&mode, "may not be specified when `ip` is not set");
        }
        super::ingress::check_host_name(&ingress.at("hostname"), &mut errors);
    }
    errors
}
