//! Machine: checks requests and limits, and computes the quality-of-service class.

use std::collections::HashSet;

use serde_json::{Map, Value};
use steersman_apimachinery::names;
use steersman_apimachinery::quantity::Quantity;

use crate::fields::check;
use crate::fields::field_path::{Errors, FieldPath};

/// Resources without a domain prefix, of containers and of quotas.
const STANDARD: &[&str] = &[
    "configmaps",
    "cpu",
    "ephemeral-storage",
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "memory",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
    "requests.storage",
    "resourcequotas",
    "secrets",
    "services",
    "services.loadbalancers",
    "services.nodeports",
    "storage",
];

/// Resources without a domain prefix that containers use.
const OF_CONTAINERS: &[&str] = &["cpu", "ephemeral-storage", "memory"];

const HUGE_PAGES: &str = "hugepages-";

/// Checks a container's resources (upstream: `ValidateContainerResourceRequirements`). `claims`
/// are the names of the Pod's resource claims.
pub(super) fn check(at: &FieldPath<'_>, claims: &HashSet<&str>, errors: &mut Errors) {
    check_all(at, claims, check_name, errors);
}

/// Checks the resources of a Pod as a whole, which support fewer resource names (upstream:
/// `validatePodResources`).
pub(super) fn check_of_pod(at: &FieldPath<'_>, claims: &HashSet<&str>, errors: &mut Errors) {
    if at.at("claims").is_set() {
        let detail = "claims cannot be set for Resources at pod-level";
        errors.forbidden(&at.at("claims"), detail);
    }
    check_all(at, claims, check_name_of_pod, errors);
}

fn check_all(
    at: &FieldPath<'_>,
    claims: &HashSet<&str>,
    check_name: fn(&str, &FieldPath<'_>, &mut Errors),
    errors: &mut Errors,
) {
    let (limits, requests) = (at.at("limits"), at.at("requests"));
    let (mut computes, mut huge) = (false, false);
    let mut look = |name: &str, at: &FieldPath<'_>, errors: &mut Errors| {
        check_name(name, at, errors);
        check_amount(name, at, errors);
        computes |= matches!(name, "cpu" | "memory");
        if let Some(size) = name.strip_prefix(HUGE_PAGES) {
            huge = true;
            let pages = Quantity::parse(size).ok();
            let amount = Quantity::parse(at.text()).ok();
            let whole = pages
                .zip(amount)
                .is_some_and(|(page, amount)| amount.is_multiple_of(page));
            if !whole {
                let detail = format!("{} is not positive integer multiple of {name}", at.text());
                errors.invalid(at, &detail);
            }
        }
    };
    for (name, limit) in limits.entries() {
        look(name, &limit, errors);
    }
    for (name, request) in requests.entries() {
        look(name, &request, errors);
        let limit = limits.at(name);
        let shares = is_native(name) && !name.starts_with(HUGE_PAGES);
        let amounts = (
            Quantity::parse(request.text()),
            Quantity::parse(limit.text()),
        );
        if let (true, (Ok(asked), Ok(most))) = (limit.is_set(), amounts) {
            let text = limit.text();
            if asked != most && !shares {
                let detail = format!("must be equal to {name} limit of {text}");
                errors.invalid_as(&requests, request.value(), &detail);
            } else if asked > most {
                let detail = format!("must be less than or equal to {name} limit of {text}");
                errors.invalid_as(&requests, request.value(), &detail);
            }
        } else if !shares {
            errors.required(
                &limits,
                "Limit must be set for non overcommitable resources",
            );
        }
    }
    if huge && !computes {
        errors.forbidden(at, "HugePages require cpu or memory");
    }
    check_claims(&at.at("claims"), claims, errors);
}

fn check_claims(at: &FieldPath<'_>, claims: &HashSet<&str>, errors: &mut Errors) {
    let mut seen: HashSet<String> = HashSet::new();
    for claim in at.items() {
        let (name, request) = (claim.at("name"), claim.at("request"));
        if name.is_empty() {
            errors.required(&claim, "");
            continue;
        }
        let mut key = name.text().to_owned();
        if seen.contains(&key) {
            errors.duplicate_as(&claim, name.value());
        } else {
            if !request.is_empty() {
                check::label(&request, errors);
                key = format!("{key}/{}", request.text());
            }
            if !seen.insert(key.clone()) {
                errors.duplicate_as(&claim, &Value::from(key));
            }
        }
        if !claims.contains(name.text()) {
            let mut detail = "must be one of the names in pod.spec.resourceClaims".to_owned();
            if claims.is_empty() {
                detail.push_str(" which is empty");
            } else {
                let mut sorted: Vec<&str> = claims.iter().copied().collect();
                sorted.sort_unstable();
                detail = format!("{detail}: {}", sorted.join(", "));
            }
            errors.not_found_as(&claim, name.value(), &detail);
        }
    }
}

/// Checks the name of a resource of a Pod as a whole.
fn check_name_of_pod(name: &str, at: &FieldPath<'_>, errors: &mut Errors) {
    let shown = Value::from(name);
    let wrong = names::check_key(name);
    let plain = wrong.is_empty();
    for detail in wrong {
        errors.invalid_as(at, &shown, &detail);
    }
    let known = matches!(name, "cpu" | "memory") || name.starts_with(HUGE_PAGES);
    if plain && !known {
        let supported = &["cpu", HUGE_PAGES, "memory"];
        errors.not_supported(&FieldPath::new(at.path(), &shown), supported);
    }
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

/// Checks the name of a resource of a container.
pub(crate) fn check_name(name: &str, at: &FieldPath<'_>, errors: &mut Errors) {
    let shown = Value::from(name);
    let wrong = names::check_key(name);
    if !wrong.is_empty() {
        for detail in wrong {
            errors.invalid_as(at, &shown, &detail);
        }
        return;
    }
    if !name.contains('/') {
        let huge = name.starts_with(HUGE_PAGES) || name.starts_with("requests.hugepages-");
        if !STANDARD.contains(&name) && !huge {
            errors.invalid_as(
                at,
                &shown,
                "must be a standard resource type or fully qualified",
            );
        }
        if !OF_CONTAINERS.contains(&name) && !name.starts_with(HUGE_PAGES) {
            errors.invalid_as(at, &shown, "must be a standard resource for containers");
        }
    } else if !is_native(name) && !is_extended(name) {
        errors.invalid_as(at, &shown, "doesn't follow extended resource name standard");
    }
}

/// Checks that an amount is not negative, and that the amount of an extended resource is an
/// integer.
pub(super) fn check_amount(name: &str, at: &FieldPath<'_>, errors: &mut Errors) {
    check::not_negative_amount(at, errors);
    let whole = Quantity::parse(at.text()).is_ok_and(Quantity::is_whole);
    if is_extended(name) && !whole {
        errors.invalid(at, "must be an integer");
    }
}

/// Returns whether the resource name has no domain prefix, or one of Kubernetes.
fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Returns whether a resource name is an extended resource, which a node announces under its own
/// domain.
fn is_extended(name: &str) -> bool {
    !is_native(name)
        && !name.starts_with("requests.")
        && names::check_key(&format!("requests.{name}")).is_empty()
}

/// Returns the quality-of-service class: Guaranteed, Burstable or BestEffort.
pub(super) fn quality(spec: &Value) -> &'static str {
    let own = std::iter::once(spec).filter(|spec| {
        let has = |part: &str| {
            spec["resources"][part]
                .as_object()
                .is_some_and(|m| !m.is_empty())
        };
        has("limits") || has("requests")
    });
    let mut holders: Vec<&Value> = own.collect();
    if holders.is_empty() {
        let lists = ["initContainers", "containers"].into_iter();
        holders = lists
            .flat_map(|list| spec[list].as_array().into_iter().flatten())
            .collect();
    }
    let asked = |holder: &Value, part: &str| -> Map<String, Value> {
        let all = holder["resources"][part]
            .as_object()
            .cloned()
            .unwrap_or_default();
        let counted = all.into_iter().filter(|(name, amount)| {
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
