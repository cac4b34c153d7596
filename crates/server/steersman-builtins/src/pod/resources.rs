//! Machine: checks requests and limits, and computes the quality-of-service class.

use std::collections::HashSet;

use serde_json::Value;
use steersman_apimachinery::names;
use steersman_apimachinery::quantity::Quantity;

use crate::fields::fill::lacks;
use crate::fields::{FieldPath, check};
use crate::quota::{is_extended, is_native, is_standard};

/// Resources without a domain prefix that containers use.
const OF_CONTAINERS: &[&str] = &["cpu", "ephemeral-storage", "memory"];

const HUGE_PAGES: &str = "hugepages-";

/// Checks a container's resources (upstream: `ValidateContainerResourceRequirements`).
pub(super) fn check(at: &FieldPath<'_>, claims: &HashSet<&str>) {
    check_all(at, claims, check_name);
}

/// Checks the resources of a Pod as a whole (upstream: `validatePodResources`).
pub(super) fn check_of_pod(at: &FieldPath<'_>, claims: &HashSet<&str>) {
    let detail = "claims cannot be set for Resources at pod-level";
    at.at("claims").deny(detail);
    check_all(at, claims, check_name_of_pod);
}

fn check_all(at: &FieldPath<'_>, claims: &HashSet<&str>, check_name: fn(&str, &FieldPath<'_>)) {
    let (limits, requests) = (at.at("limits"), at.at("requests"));
    let (mut computes, mut huge) = (false, false);
    let mut look = |name: &str, at: &FieldPath<'_>| {
        check_name(name, at);
        check_amount(name, at);
        computes |= matches!(name, "cpu" | "memory");
        if let Some(size) = name.strip_prefix(HUGE_PAGES) {
            huge = true;
            let [page, amount] = [size, at.text()].map(Quantity::parse);
            if !page.is_ok_and(|page| amount.is_ok_and(|amount| amount.is_multiple_of(page))) {
                let detail = format!("{} is not positive integer multiple of {name}", at.text());
                at.invalid(&detail);
            }
        }
    };
    for (name, limit) in limits.entries() {
        look(name, &limit);
    }
    for (name, request) in requests.entries() {
        look(name, &request);
        let limit = limits.at(name);
        let shares = is_native(name) && !name.starts_with(HUGE_PAGES);
        let amounts = [&request, &limit].map(|amount| Quantity::parse(amount.text()));
        if let [Ok(asked), Ok(most)] = amounts {
            let relation = match shares {
                false if asked != most => "equal to",
                true if asked > most => "less than or equal to",
                _ => continue,
            };
            let detail = format!("must be {relation} {name} limit of {}", limit.text());
            requests.invalid_as(request.value(), &detail);
        } else if !shares {
            limits.required("Limit must be set for non overcommitable resources");
        }
    }
    if huge && !computes {
        at.forbidden("HugePages require cpu or memory");
    }
    check_claims(&at.at("claims"), claims);
}

fn check_claims(at: &FieldPath<'_>, claims: &HashSet<&str>) {
    let mut seen: HashSet<String> = HashSet::new();
    for claim in at.items() {
        let (name, request) = (claim.at("name"), claim.at("request"));
        if name.is_empty() {
            claim.required("");
            continue;
        }
        let mut key = name.text().to_owned();
        if seen.contains(&key) {
            claim.duplicate_as(name.value());
        } else {
            if !request.is_empty() {
                check::label(&request);
                key = format!("{key}/{}", request.text());
            }
            if !seen.insert(key.clone()) {
                claim.duplicate_as(key);
            }
        }
        if !claims.contains(name.text()) {
            let mut sorted: Vec<&str> = claims.iter().copied().collect();
            sorted.sort_unstable();
            let known = if claims.is_empty() {
                " which is empty".to_owned()
            } else {
                format!(": {}", sorted.join(", "))
            };
            let detail = format!("must be one of the names in pod.spec.resourceClaims{known}");
            claim.not_found_as(name.value(), &detail);
        }
    }
}

/// Checks the name of a resource of a Pod as a whole.
fn check_name_of_pod(name: &str, at: &FieldPath<'_>) {
    let wrong = names::check_key(name);
    let known = matches!(name, "cpu" | "memory") || name.starts_with(HUGE_PAGES);
    if wrong.is_empty() && !known {
        let supported = &["cpu", HUGE_PAGES, "memory"];
        at.with(&Value::from(name)).not_supported(supported);
    }
    at.invalid_each(name, wrong);
}

/// Returns the amount of a resource that the containers of a Pod need together (upstream:
/// `AggregateContainerRequests` and `AggregateContainerLimits`).
pub(super) fn together(spec: &FieldPath<'_>, part: &str, name: &str) -> Option<Quantity> {
    let asked = |container: &FieldPath<'_>| {
        let amount = container.at("resources").at(part).at(name);
        Quantity::parse(amount.text()).ok()
    };
    let add = |sum: Option<Quantity>, more: Option<Quantity>| match (sum, more) {
        (Some(sum), Some(more)) => Some(sum.plus(more)),
        (sum, more) => sum.or(more),
    };
    let most = |one: Option<Quantity>, other: Option<Quantity>| match (one, other) {
        (Some(one), Some(other)) if one < other => Some(other),
        (one, other) => one.or(other),
    };
    let containers = spec.at("containers").items();
    let mut all = containers.map(|one| asked(&one)).fold(None, add);
    let (mut sidecars, mut first) = (None, None);
    for container in spec.at("initContainers").items() {
        let own = asked(&container);
        if container.at("restartPolicy").text() == "Always" {
            sidecars = add(sidecars, own);
            all = add(all, own);
            first = most(first, sidecars);
        } else {
            first = most(first, add(sidecars, own));
        }
    }
    most(all, first)
}

pub(crate) fn check_name(name: &str, at: &FieldPath<'_>) {
    let wrong = names::check_key(name);
    if !wrong.is_empty() {
        at.invalid_each(name, wrong);
    } else if !name.contains('/') {
        if !is_standard(name) {
            at.invalid_as(name, "must be a standard resource type or fully qualified");
        }
        if !OF_CONTAINERS.contains(&name) && !name.starts_with(HUGE_PAGES) {
            at.invalid_as(name, "must be a standard resource for containers");
        }
    } else if !is_native(name) && !is_extended(name) {
        at.invalid_as(name, "doesn't follow extended resource name standard");
    }
}

/// Checks that an amount is not negative, and whole for an extended resource.
pub(super) fn check_amount(name: &str, at: &FieldPath<'_>) {
    check::not_negative_amount(at);
    let whole = Quantity::parse(at.text()).is_ok_and(Quantity::is_whole);
    if is_extended(name) && !whole {
        at.invalid("must be an integer");
    }
}

/// Returns the quality-of-service class: Guaranteed, Burstable or BestEffort.
pub(super) fn quality(spec: &Value) -> &'static str {
    let own = &spec["resources"];
    let holders: Vec<&Value> = if lacks(own, "limits") && lacks(own, "requests") {
        let lists = ["initContainers", "containers"].map(|list| spec[list].as_array());
        lists.into_iter().flatten().flatten().collect()
    } else {
        vec![spec]
    };
    let asked = |holder: &Value, part: &str| -> Vec<(String, Value)> {
        let all = holder["resources"][part].as_object().cloned();
        let counted = all.into_iter().flatten().filter(|(name, amount)| {
            let amount = Quantity::parse(amount.as_str().unwrap_or_default());
            matches!(name.as_str(), "cpu" | "memory")
                && amount.is_ok_and(|amount| amount.sign() > 0)
        });
        counted.collect()
    };
    let (mut any, mut guaranteed) = (false, true);
    for holder in holders {
        let (limits, requests) = (asked(holder, "limits"), asked(holder, "requests"));
        any |= !limits.is_empty() || !requests.is_empty();
        guaranteed &= limits.len() == 2 && limits == requests;
    }
    match (any, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}
