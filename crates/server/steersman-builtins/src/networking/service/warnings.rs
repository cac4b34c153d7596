//! Machine: warnings about Services (upstream: `pkg/api/service/warnings.go`).

use serde_json::Value;

use crate::fields::field_path::FieldPath;
use crate::fields::shared_warnings;

use super::{HINTS, MODE};

/// Returns the warnings about a Service, new or changed.
pub(super) fn of(service: &Value) -> Vec<String> {
    let root = FieldPath::root(service);
    let (annotations, spec) = (root.down("metadata.annotations"), root.at("spec"));
    let mut warnings = Vec::new();
    if annotations.key(HINTS).is_set() {
        warnings.push(format!(
            "annotation {HINTS} is deprecated, please use {MODE} instead"
        ));
    }
    let named = spec.at("type").text() == "ExternalName";
    let headless = spec.at("clusterIP").text() == "None";
    if !headless {
        for address in spec.at("clusterIPs").items() {
            shared_warnings::of_ip(&address, &mut warnings);
        }
    }
    let outside = spec.at("externalIPs");
    if headless && spec.at("type").text() == "ClusterIP" {
        if !spec.at("loadBalancerIP").is_empty() {
            warnings.push("spec.loadBalancerIP is ignored for headless services".to_owned());
        }
        if !outside.is_empty() {
            warnings.push("spec.externalIPs is ignored for headless services".to_owned());
        }
        if spec.at("sessionAffinity").text() != "None" {
            warnings.push("spec.SessionAffinity is ignored for headless services".to_owned());
        }
    } else if !named && !outside.is_empty() {
        warnings.push(
            "spec.externalIPs is deprecated and may no longer be implemented in some clusters"
                .to_owned(),
        );
    }
    for address in outside.items().chain([spec.at("loadBalancerIP")]) {
        shared_warnings::of_ip(&address, &mut warnings);
    }
    for network in spec.at("loadBalancerSourceRanges").items() {
        shared_warnings::of_network(&network, &mut warnings);
    }
    if named && !outside.is_empty() {
        warnings.push("spec.externalIPs is ignored when spec.type is \"ExternalName\"".to_owned());
    }
    if !named && !spec.at("externalName").is_empty() {
        warnings
            .push("spec.externalName is ignored when spec.type is not \"ExternalName\"".to_owned());
    }
    if spec.at("trafficDistribution").text() == "PreferClose" {
        let warning =
            "spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"";
        warnings.push(warning.to_owned());
    }
    warnings
}

/// Returns the warnings about the status of a Service. They name the list element that has an
/// address, not the address.
pub(super) fn of_status(service: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    let entries = FieldPath::root(service).down("status.loadBalancer.ingress");
    for entry in entries.items() {
        let ip = entry.value().get("ip");
        if let Some(ip) = ip {
            shared_warnings::of_ip(&FieldPath::new(entry.path(), ip), &mut warnings);
        }
    }
    warnings
}
