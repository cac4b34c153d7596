//! Machine: allocates the addresses and ports of Services, as `pkg/registry/core/service/storage`
//! of Kubernetes does on a single-stack cluster.

use std::collections::HashSet;
use std::net::IpAddr;

use serde_json::{Value, json};
use steersman_apimachinery::status::{FieldError, GroupResource, Status};
use steersman_builtins::service;

use crate::requests::metadata;
use crate::state::registry::Registry;
use crate::state::service_network::ServiceNetwork;
use crate::values::{items, items_mut, text};

/// The first and the last node port that the server assigns to Services (the default range of kube-apiserver).
const NODE_PORTS: (i64, i64) = (30_000, 32_767);

impl Registry {
    /// Assigns cluster IP addresses and node ports to a new or updated Service. 422 for an address or port in the
    /// request that is taken or out of range.
    pub(crate) fn address_service(
        &mut self,
        object: &mut Value,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        let name = metadata::text(object, "name").to_owned();
        let uid = metadata::text(object, "uid").to_owned();
        let spec = &mut object["spec"];
        let before = old.map(|old| &old["spec"]);
        if let Some(before) = before {
            restore(spec, before);
        }
        agree(spec, before);
        let invalid = |errors: Vec<FieldError>| {
            Status::invalid(GroupResource::new("", "Service"), &name, &errors)
        };
        choose_families(spec, before, &self.service_network).map_err(invalid)?;
        self.give_address(spec, before, &invalid)?;
        self.give_ports(spec, before, &uid).map_err(invalid)
    }

    fn give_address(
        &mut self,
        spec: &mut Value,
        before: Option<&Value>,
        invalid: &dyn Fn(Vec<FieldError>) -> Status,
    ) -> Result<(), Status> {
        if !service::needs_address(spec) || before.is_some_and(service::needs_address) {
            return Ok(());
        }
        let asked = text(&spec["clusterIP"]).to_owned();
        let address = match asked.as_str() {
            "None" => return Ok(()),
            "" => self.next_address().ok_or_else(|| {
                let why = "failed to allocate a serviceIP: range is full";
                Status::internal(why.to_owned())
            })?,
            asked => {
                let why = if self.service_network.contains(asked) {
                    let is_taken = asked.parse().is_ok_and(|asked| {
                        self.is_allocated(&asked) || self.taken_addresses().contains(&asked)
                    });
                    is_taken.then_some("provided IP is already allocated")
                } else {
                    Some("the provided network does not match the current range")
                };
                if let Some(why) = why {
                    let shown = spec["clusterIPs"].to_string();
                    let detail = format!("failed to allocate IP {asked}: {why}");
                    let error = FieldError::invalid("spec.clusterIPs", &shown, &detail);
                    return Err(invalid(vec![error]));
                }
                asked.to_owned()
            }
        };
        let spec = metadata::members(spec);
        spec.insert("clusterIPs".to_owned(), json!([address]));
        spec.insert("clusterIP".to_owned(), Value::String(address));
        Ok(())
    }

    fn taken_addresses(&self) -> HashSet<IpAddr> {
        let all = self.objects(("", "services"), None);
        all.filter_map(|service| text(&service.value["spec"]["clusterIP"]).parse().ok())
            .collect()
    }

    /// Returns the next free address of the service network, so that no address is used twice (SRV-IP-1); `None` if all
    /// addresses are taken.
    fn next_address(&mut self) -> Option<String> {
        let last = self.service_network.last_offset();
        let taken = self.taken_addresses();
        for _ in 0..last {
            self.last_address = self.last_address % last + 1;
            let address = self.service_network.address(self.last_address);
            if !taken.contains(&address) && !self.is_allocated(&address) {
                return Some(address.to_string());
            }
        }
        None
    }

    fn used_ports(&self, uid: &str) -> Vec<i64> {
        let mut used = Vec::new();
        for other in self.objects(("", "services"), None) {
            if other.meta("uid") == uid {
                continue;
            }
            let spec = &other.value["spec"];
            let ports = items(&spec["ports"]);
            used.extend(ports.iter().filter_map(|port| port["nodePort"].as_i64()));
            used.extend(spec["healthCheckNodePort"].as_i64());
        }
        used
    }

    fn give_ports(
        &mut self,
        spec: &mut Value,
        before: Option<&Value>,
        uid: &str,
    ) -> Result<(), Vec<FieldError>> {
        if !is_on_nodes(spec) {
            return Ok(());
        }
        let mut used = self.used_ports(uid);
        let may_choose =
            spec["type"] == "NodePort" || spec["allocateLoadBalancerNodePorts"] != false;
        let kept = before.map(ports_of).unwrap_or_default();
        let asked = ports_of(spec);
        let mut chosen: Vec<(i64, i64)> = Vec::new();
        for (index, port) in items_mut(spec, "ports").iter_mut().enumerate() {
            let own = port["nodePort"].as_i64().unwrap_or_default();
            if own == 0 && !may_choose {
                continue;
            }
            let number = port["port"].as_i64().unwrap_or_default();
            // Ports with the same number and different protocols get the same node port.
            let shared = chosen.iter().find(|(port, _)| *port == number);
            let shared = shared.map(|(_, node)| *node);
            let node = match (own, shared) {
                (0, Some(shared)) => shared,
                (0, None) => {
                    let mut asked_nodes = asked.iter();
                    match asked_nodes.find(|(port, node)| *port == number && *node != 0) {
                        Some((_, node)) => *node,
                        None => self.next_port(&used, &asked),
                    }
                }
                (own, _) => own,
            };
            let is_new = shared != Some(node) && !kept.iter().any(|(_, kept)| *kept == node);
            let why = if is_new { refusal(node, &used) } else { None };
            if let Some(why) = why {
                let field = format!("spec.ports[{index}].nodePort");
                return Err(vec![FieldError::invalid(field, &node.to_string(), &why)]);
            }
            chosen.push((number, node));
            metadata::members(port).insert("nodePort".to_owned(), json!(node));
        }
        used.extend(chosen.iter().map(|(_, node)| *node));
        let health = spec["healthCheckNodePort"].as_i64().unwrap_or_default();
        if service::needs_health_port(spec) && health == 0 {
            let port = self.next_port(&used, &[]);
            metadata::members(spec).insert("healthCheckNodePort".to_owned(), json!(port));
        }
        Ok(())
    }

    /// Returns the next free node port, neither used by another Service nor requested for another port of this Service;
    /// 0 if all node ports are used.
    fn next_port(&mut self, used: &[i64], asked: &[(i64, i64)]) -> i64 {
        let (first, last) = NODE_PORTS;
        for _ in first..=last {
            self.last_node_port = (self.last_node_port + 1) % (last - first + 1);
            let port = first + self.last_node_port;
            if !used.contains(&port) && !asked.iter().any(|(_, node)| *node == port) {
                return port;
            }
        }
        0
    }
}

fn is_on_nodes(spec: &Value) -> bool {
    matches!(text(&spec["type"]), "NodePort" | "LoadBalancer")
}

fn ports_of(spec: &Value) -> Vec<(i64, i64)> {
    let ports = items(&spec["ports"]).iter();
    let number = |value: &Value| value.as_i64().unwrap_or_default();
    ports
        .map(|port| (number(&port["port"]), number(&port["nodePort"])))
        .collect()
}

fn refusal(port: i64, used: &[i64]) -> Option<String> {
    let (first, last) = NODE_PORTS;
    if !(first..=last).contains(&port) {
        return Some(format!(
            "provided port is not in the valid range. The range of valid ports is {first}-{last}"
        ));
    }
    used.contains(&port)
        .then(|| "provided port is already allocated".to_owned())
}

fn is_absent(spec: &Value, field: &str) -> bool {
    match &spec[field] {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Number(number) => number.as_i64() == Some(0),
        Value::Bool(_) | Value::Object(_) => false,
    }
}

fn copy(spec: &mut Value, before: &Value, field: &str) {
    if let Some(value) = before.get(field) {
        metadata::members(spec).insert(field.to_owned(), value.clone());
    }
}

/// Copies the addresses and ports that an update of a Service leaves out from the stored Service `before`, so that the
/// Service keeps them (upstream: `patchAllocatedValues`).
fn restore(spec: &mut Value, before: &Value) {
    if service::needs_address(before) && service::needs_address(spec) {
        if is_absent(spec, "clusterIP") {
            copy(spec, before, "clusterIP");
        }
        if is_absent(spec, "clusterIPs") && spec["clusterIP"] == before["clusterIP"] {
            copy(spec, before, "clusterIPs");
        }
    }
    if is_on_nodes(before) && is_on_nodes(spec) {
        let old = items(&before["ports"]);
        let now = ports_of(spec);
        let mut used: Vec<i64> = ports_of(before).into_iter().map(|(_, node)| node).collect();
        used.retain(|node| now.iter().any(|(_, other)| node == other));
        for port in items_mut(spec, "ports") {
            if !is_absent(port, "nodePort") {
                continue;
            }
            let known = old
                .iter()
                .rfind(|one| text(&one["name"]) == text(&port["name"]));
            let Some(node) = known.and_then(|one| one["nodePort"].as_i64()) else {
                continue;
            };
            if !used.contains(&node) {
                used.push(node);
                metadata::members(port).insert("nodePort".to_owned(), json!(node));
            }
        }
    }
    if service::needs_health_port(before)
        && service::needs_health_port(spec)
        && is_absent(spec, "healthCheckNodePort")
    {
        copy(spec, before, "healthCheckNodePort");
    }
}

/// Makes `clusterIPs` agree with `clusterIP` if a request sets or changes only `clusterIP` (`normalizeClusterIPs`).
fn agree(spec: &mut Value, before: Option<&Value>) {
    let Some(before) = before else {
        if !is_absent(spec, "clusterIP") && is_absent(spec, "clusterIPs") {
            let list = json!([spec["clusterIP"]]);
            metadata::members(spec).insert("clusterIPs".to_owned(), list);
        }
        return;
    };
    let same = text(&spec["clusterIP"]) == text(&before["clusterIP"]);
    if same && is_absent(spec, "clusterIPs") {
        copy(spec, before, "clusterIPs");
    }
    if same || spec["clusterIPs"] != before["clusterIPs"] {
        return;
    }
    if is_absent(spec, "clusterIP") {
        metadata::members(spec).remove("clusterIPs");
    } else {
        let list = json!([spec["clusterIP"]]);
        metadata::members(spec).insert("clusterIPs".to_owned(), list);
    }
}

/// Checks and sets `ipFamilies` and `ipFamilyPolicy` of a Service for a single-stack network (upstream:
/// `initIPFamilyFields`).
fn choose_families(
    spec: &mut Value,
    before: Option<&Value>,
    network: &ServiceNetwork,
) -> Result<(), Vec<FieldError>> {
    if spec["type"] == "ExternalName" {
        return Ok(());
    }
    let selects = spec["selector"].as_object().is_some_and(|s| !s.is_empty());
    let is_free = spec["clusterIP"] == "None" && !selects;
    if is_absent(spec, "ipFamilyPolicy") {
        let known = before.map(|before| before["ipFamilyPolicy"].clone());
        let policy = match known {
            Some(known) if !known.is_null() => known,
            _ if is_free => json!("RequireDualStack"),
            _ => json!("SingleStack"),
        };
        metadata::members(spec).insert("ipFamilyPolicy".to_owned(), policy);
    }
    refuse(service::address_errors(spec))?;
    let is_single = spec["ipFamilyPolicy"] == "SingleStack";
    if let Some(before) = before.filter(|_| is_single) {
        keep_first_family(spec, before);
    }
    let mut families = named_families(spec, network)?;
    if !is_free {
        refuse(unserved_families(spec, &families, network.family()))?;
    } else if families.len() == 1 && !is_single {
        let is_ipv4 = families[0] == "IPv4";
        families.push(json!(if is_ipv4 { "IPv6" } else { "IPv4" }));
    }
    metadata::members(spec).insert("ipFamilies".to_owned(), Value::Array(families));
    Ok(())
}

fn refuse(errors: Vec<FieldError>) -> Result<(), Vec<FieldError>> {
    if errors.is_empty() {
        Ok(())
    } else {
        Err(errors)
    }
}

/// Removes the second address and family of a Service that becomes single-stack, unless the request changes them.
fn keep_first_family(spec: &mut Value, before: &Value) {
    for field in ["clusterIPs", "ipFamilies"] {
        if spec[field] == before[field]
            && let Some(list) = spec.get_mut(field).and_then(Value::as_array_mut)
        {
            list.truncate(1);
        }
    }
}

/// Returns the IP families that a Service names in its spec or by its addresses, or else the family of the network.
fn named_families(spec: &Value, network: &ServiceNetwork) -> Result<Vec<Value>, Vec<FieldError>> {
    let own = network.family();
    let other = if own == "IPv6" { "IPv4" } else { "IPv6" };
    let mut families = items(&spec["ipFamilies"]).to_vec();
    let mut errors = Vec::new();
    for (index, address) in items(&spec["clusterIPs"]).iter().enumerate() {
        let address = text(address);
        if address == "None" || index < families.len() {
            continue;
        }
        if address.contains(':') != (own == "IPv6") {
            let shown = spec["clusterIPs"].to_string();
            let field = format!("spec.clusterIPs[{index}]");
            let detail = format!("{other} is not configured on this cluster");
            errors.push(FieldError::invalid(field, &shown, &detail));
        } else {
            families.push(json!(own));
        }
    }
    refuse(errors)?;
    if families.is_empty() {
        families.push(json!(own));
    }
    Ok(families)
}

fn unserved_families(spec: &Value, families: &[Value], own: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if spec["ipFamilyPolicy"] == "RequireDualStack" {
        let detail = "this cluster is not configured for dual-stack services";
        let field = "spec.ipFamilyPolicy";
        errors.push(FieldError::invalid(field, "\"RequireDualStack\"", detail));
    }
    for (index, family) in families.iter().enumerate() {
        if *family != own {
            let field = format!("spec.ipFamilies[{index}]");
            let detail = "not configured on this cluster";
            errors.push(FieldError::invalid(field, &family.to_string(), detail));
        }
    }
    errors
}
