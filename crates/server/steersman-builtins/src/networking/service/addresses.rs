//! Machine: checks cluster IPs and IP families of Services, and their updates (upstream:
//! `ValidateServiceClusterIPsRelatedFields` and `validateUpgradeDowngrade*`).

use serde_json::Value;

use super::{FIXED, ONLY_BALANCER, is, is_headless, needs_health_port};
use crate::fields::address;
use crate::fields::check;
use crate::fields::field_path::{Errors, FieldPath};

/// Checks the cluster IPs and IP families (upstream: `ValidateServiceClusterIPsRelatedFields`).
pub(super) fn check_addresses(spec: &FieldPath<'_>, errors: &mut Errors) {
    if is(spec.value(), "ExternalName") {
        return;
    }
    let (one, all) = (spec.at("clusterIP"), spec.at("clusterIPs"));
    let first = all.items().next();
    match (&first, one.is_empty()) {
        (None, false) => errors.required(&all, ""),
        (Some(first), false) if first.text() != one.text() => {
            errors.invalid(&all, "first value must match `clusterIP`");
        }
        (Some(_), true) => errors.invalid(&all, "must be empty when `clusterIP` is not specified"),
        _ => {}
    }
    let families = spec.at("ipFamilies");
    let mut seen = Vec::new();
    for family in families.items() {
        check::one_of(&family, &["IPv4", "IPv6"], errors);
        if seen.contains(&family.text()) {
            errors.duplicate(&family);
        }
        seen.push(family.text());
    }
    let policy = spec.at("ipFamilyPolicy");
    if policy.is_set() {
        let policies = ["PreferDualStack", "RequireDualStack", "SingleStack"];
        check::one_of(&policy, &policies, errors);
    }
    let before = errors.len();
    for (index, ip) in all.items().enumerate() {
        if index == 0 && ip.text() == "None" {
            if all.len() > 1 {
                errors.invalid(&all, "'None' must be the first and only value");
            }
            continue;
        }
        address::check(&ip, errors);
    }
    let bad = errors.len() > before;
    if all.len() > 2 {
        errors.invalid(&all, "may only hold up to 2 values");
    }
    if bad {
        return;
    }
    let is_six = |ip: &FieldPath<'_>| ip.text().contains(':');
    let six = all.items().filter(is_six).count();
    if all.len() > 1 && (six == 0 || six == all.len()) {
        let detail = "may specify no more than one IP for each IP family";
        errors.invalid(&all, detail);
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
                errors.invalid(&ip, &detail);
            }
        }
    }
}

/// Returns the errors of a Service's cluster IPs before any is allocated.
pub fn address_errors(spec: &Value) -> Vec<steersman_apimachinery::status::FieldError> {
    let mut errors = Errors::default();
    check_addresses(&FieldPath::new("spec", spec), &mut errors);
    errors.into()
}

pub(super) fn balancer_class(spec: &FieldPath<'_>, old: Option<&Value>, errors: &mut Errors) {
    let class = spec.at("loadBalancerClass");
    let balancer = is(spec.value(), "LoadBalancer");
    if let Some(old) = old.filter(|old| balancer && is(old, "LoadBalancer"))
        && old["loadBalancerClass"] != *class.value()
    {
        errors.invalid(&class, FIXED);
    }
    if !class.is_set() {
        return;
    }
    if balancer {
        check::qualified(&class, errors);
    } else {
        errors.forbidden(&class, ONLY_BALANCER);
    }
}

pub(super) fn update(spec: &FieldPath<'_>, old: &Value, errors: &mut Errors) {
    let new = spec.value();
    let external = is(new, "ExternalName") || is(old, "ExternalName");
    let (was, headless) = (is_headless(old), is_headless(new));
    if !external {
        if !was || !headless {
            addresses_kept(spec, old, errors);
        }
        if !was && !headless {
            families_kept(spec, old, errors);
        }
    }
    balancer_class(spec, Some(old), errors);
    if needs_health_port(old)
        && needs_health_port(new)
        && old["healthCheckNodePort"] != new["healthCheckNodePort"]
    {
        errors.forbidden(&spec.at("healthCheckNodePort"), check::IMMUTABLE);
    }
}

fn elements(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Checks that an update keeps the cluster IPs. Upstream: `validateUpgradeDowngradeClusterIPs`.
fn addresses_kept(spec: &FieldPath<'_>, old: &Value, errors: &mut Errors) {
    let all = spec.at("clusterIPs");
    let (before, now) = (elements(&old["clusterIPs"]), elements(all.value()));
    let numbered = |index: usize| FieldPath::new(format!("{}[{index}]", all.path()), all.value());
    if before.len() == now.len() {
        for (index, (before, now)) in before.iter().zip(now).enumerate() {
            if before != now {
                errors.invalid(&numbered(index), FIXED);
            }
        }
        return;
    }
    match (before.first(), now.first()) {
        (Some(_), None) => errors.invalid(&numbered(0), "primary clusterIP can not be unset"),
        (Some(before), Some(now)) if before != now => errors.invalid(&numbered(0), FIXED),
        _ => {}
    }
    let policy = spec.at("ipFamilyPolicy");
    if before.len() > now.len() && now.len() == 1 && policy.text() != "SingleStack" {
        let detail = "must be set to 'SingleStack' when releasing the secondary clusterIP";
        errors.invalid(&policy, detail);
    }
}

/// Checks that an update keeps the IP families. Upstream: `validateUpgradeDowngradeIPFamilies`.
fn families_kept(spec: &FieldPath<'_>, old: &Value, errors: &mut Errors) {
    let all = spec.at("ipFamilies");
    let (before, now) = (elements(&old["ipFamilies"]), elements(all.value()));
    let first = FieldPath::new(format!("{}[0]", all.path()), all.value());
    if before.len() == now.len() {
        for _ in before.iter().zip(now).filter(|(before, now)| before != now) {
            errors.invalid(&first, FIXED);
        }
        return;
    }
    if before.len() > now.len() && spec.at("clusterIPs").is_empty() {
        errors.invalid(&first, "primary ipFamily can not be unset");
    }
    if let (Some(before), Some(now)) = (before.first(), now.first())
        && before != now
    {
        errors.invalid_as(&first, spec.at("clusterIPs").value(), FIXED);
    }
    let policy = spec.at("ipFamilyPolicy");
    if before.len() > now.len() && now.len() == 1 && policy.text() != "SingleStack" {
        let detail = "must be set to 'SingleStack' when releasing the secondary ipFamily";
        errors.invalid(&policy, detail);
    }
}
