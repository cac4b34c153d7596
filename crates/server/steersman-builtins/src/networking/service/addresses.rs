//! Machine: checks cluster IPs and IP families of Services, and their updates (upstream:
//! `ValidateServiceClusterIPsRelatedFields` and `validateUpgradeDowngrade*`).

use std::collections::HashSet;

use serde_json::Value;

use super::{FIXED, ONLY_BALANCER, is, is_headless, needs_health_port};
use crate::fields::fill::elements;
use crate::fields::{FieldPath, Findings, address, check};

/// Checks the cluster IPs and IP families (upstream: `ValidateServiceClusterIPsRelatedFields`).
pub(super) fn check_addresses(spec: &FieldPath<'_>) {
    if is(spec.value(), "ExternalName") {
        return;
    }
    let (one, all) = (spec.at("clusterIP"), spec.at("clusterIPs"));
    let first = all.items().next();
    match (&first, one.is_empty()) {
        (None, false) => all.required(""),
        (Some(first), false) if first.text() != one.text() => {
            all.invalid("first value must match `clusterIP`");
        }
        (Some(_), true) => all.invalid("must be empty when `clusterIP` is not specified"),
        _ => {}
    }
    let families = spec.at("ipFamilies");
    let mut seen = HashSet::new();
    for family in families.items() {
        check::one_of(&family, &["IPv4", "IPv6"]);
        family.unique(&mut seen);
    }
    let policies = ["PreferDualStack", "RequireDualStack", "SingleStack"];
    check::optional(&spec.at("ipFamilyPolicy"), &policies);
    let before = all.error_count();
    for (index, ip) in all.items().enumerate() {
        if index == 0 && ip.text() == "None" {
            if all.len() > 1 {
                all.invalid("'None' must be the first and only value");
            }
            continue;
        }
        address::check(&ip);
    }
    let bad = all.error_count() > before;
    if all.len() > 2 {
        all.invalid("may only hold up to 2 values");
    }
    if bad {
        return;
    }
    let is_six = |ip: &FieldPath<'_>| ip.text().contains(':');
    let six = all.items().filter(is_six).count();
    if all.len() > 1 && (six == 0 || six == all.len()) {
        all.invalid("may specify no more than one IP for each IP family");
    }
    if !is_headless(spec.value()) {
        for (index, (ip, family)) in all.items().zip(families.items()).enumerate() {
            let wanted_six = match family.text() {
                "IPv4" => false,
                "IPv6" => true,
                _ => continue,
            };
            if is_six(&ip) != wanted_six {
                let family = family.text();
                let detail =
                    format!("expected an {family} value as indicated by `ipFamilies[{index}]`");
                ip.invalid(&detail);
            }
        }
    }
}

/// Returns the errors of a Service's cluster IPs before any is allocated.
pub fn address_errors(spec: &Value) -> Vec<steersman_apimachinery::status::FieldError> {
    Findings::errors(spec, |root| {
        check_addresses(&root.named("spec", Some(root.value())))
    })
}

pub(super) fn balancer_class(spec: &FieldPath<'_>, old: Option<&Value>) {
    let class = spec.at("loadBalancerClass");
    let balancer = is(spec.value(), "LoadBalancer");
    if let Some(old) = old.filter(|old| balancer && is(old, "LoadBalancer"))
        && old["loadBalancerClass"] != *class.value()
    {
        class.invalid(FIXED);
    }
    if balancer {
        class.if_set(check::qualified);
    } else {
        class.deny(ONLY_BALANCER);
    }
}

pub(super) fn update(spec: &FieldPath<'_>, old: &Value) {
    let new = spec.value();
    let external = is(new, "ExternalName") || is(old, "ExternalName");
    let (was, headless) = (is_headless(old), is_headless(new));
    if !external {
        if !was || !headless {
            addresses_kept(spec, old);
        }
        if !was && !headless {
            families_kept(spec, old);
        }
    }
    balancer_class(spec, Some(old));
    if needs_health_port(old)
        && needs_health_port(new)
        && old["healthCheckNodePort"] != new["healthCheckNodePort"]
    {
        spec.at("healthCheckNodePort").forbidden(check::IMMUTABLE);
    }
}

/// Checks that an update keeps the cluster IPs. Upstream: `validateUpgradeDowngradeClusterIPs`.
fn addresses_kept(spec: &FieldPath<'_>, old: &Value) {
    let all = spec.at("clusterIPs");
    let (before, now) = (elements(&old["clusterIPs"]), elements(all.value()));
    let numbered = |index: usize| all.index(index, all.value());
    if before.len() == now.len() {
        for (index, (before, now)) in before.iter().zip(now).enumerate() {
            if before != now {
                numbered(index).invalid(FIXED);
            }
        }
        return;
    }
    match (before.first(), now.first()) {
        (Some(_), None) => numbered(0).invalid("primary clusterIP can not be unset"),
        (Some(before), Some(now)) if before != now => numbered(0).invalid(FIXED),
        _ => {}
    }
    check_release(spec, before, now, "clusterIP");
}

/// Checks that an update that removes the second IP family says so in the policy.
fn check_release(spec: &FieldPath<'_>, before: &[Value], now: &[Value], what: &str) {
    let policy = spec.at("ipFamilyPolicy");
    if before.len() > now.len() && now.len() == 1 && policy.text() != "SingleStack" {
        let detail = format!("must be set to 'SingleStack' when releasing the secondary {what}");
        policy.invalid(&detail);
    }
}

/// Checks that an update keeps the IP families. Upstream: `validateUpgradeDowngradeIPFamilies`.
fn families_kept(spec: &FieldPath<'_>, old: &Value) {
    let all = spec.at("ipFamilies");
    let (before, now) = (elements(&old["ipFamilies"]), elements(all.value()));
    let first = all.index(0, all.value());
    if before.len() == now.len() {
        for _ in before.iter().zip(now).filter(|(before, now)| before != now) {
            first.invalid(FIXED);
        }
        return;
    }
    if before.len() > now.len() && spec.at("clusterIPs").is_empty() {
        first.invalid("primary ipFamily can not be unset");
    }
    if let (Some(before), Some(now)) = (before.first(), now.first())
        && before != now
    {
        first.invalid_as(spec.at("clusterIPs").value(), FIXED);
    }
    check_release(spec, before, now, "ipFamily");
}
