//! Machine: warnings about Services (upstream: `pkg/api/service/warnings.go`).

use crate::fields::{FieldPath, shared_warnings};

use super::{HINTS, MODE};

pub(super) fn of(service: &FieldPath<'_>) {
    let (annotations, spec) = (service.down("metadata.annotations"), service.at("spec"));
    if annotations.key(HINTS).is_set() {
        service.warn_as(&format!(
            "annotation {HINTS} is deprecated, please use {MODE} instead"
        ));
    }
    let named = spec.at("type").text() == "ExternalName";
    let headless = spec.at("clusterIP").text() == "None";
    if !headless {
        spec.at("clusterIPs").each(shared_warnings::of_ip);
    }
    let outside = spec.at("externalIPs");
    if headless && spec.at("type").text() == "ClusterIP" {
        if !spec.at("loadBalancerIP").is_empty() {
            service.warn_as("spec.loadBalancerIP is ignored for headless services");
        }
        if !outside.is_empty() {
            service.warn_as("spec.externalIPs is ignored for headless services");
        }
        if spec.at("sessionAffinity").text() != "None" {
            service.warn_as("spec.SessionAffinity is ignored for headless services");
        }
    } else if !named && !outside.is_empty() {
        let warning =
            "spec.externalIPs is deprecated and may no longer be implemented in some clusters";
        service.warn_as(warning);
    }
    outside.each(shared_warnings::of_ip);
    shared_warnings::of_ip(&spec.at("loadBalancerIP"));
    spec.at("loadBalancerSourceRanges")
        .each(shared_warnings::of_network);
    if named && !outside.is_empty() {
        service.warn_as("spec.externalIPs is ignored when spec.type is \"ExternalName\"");
    }
    if !named && !spec.at("externalName").is_empty() {
        service.warn_as("spec.externalName is ignored when spec.type is not \"ExternalName\"");
    }
    let distribution = spec.at("trafficDistribution");
    if distribution.text() == "PreferClose" {
        distribution.warn("\"PreferClose\" is deprecated; use \"PreferSameZone\"");
    }
}

/// Warns of the status of a Service. As upstream, the warnings name the list element.
pub(super) fn of_status(service: &FieldPath<'_>) {
    service.down("status.loadBalancer.ingress").each(|entry| {
        shared_warnings::of_ip(&entry.with(entry.at("ip").value()));
    });
}
