//! Machine: checks the spec of a Pod or of a template.

use std::collections::HashSet;

use serde_json::{Value, json};
use steersman_apimachinery::names;
use steersman_apimachinery::quantity::Quantity;

use crate::fields::address;
use crate::fields::check;
use crate::fields::field_path::{Errors, FieldPath};

use super::containers::{self, PodContext};
use super::{SpecOwner, resources, scheduling, security, volumes};

/// Checks a spec. The order of the errors is upstream's (`ValidatePodSpec`).
pub(super) fn check(spec: &FieldPath<'_>, owner: SpecOwner<'_>, errors: &mut Errors) {
    let grace = spec.at("terminationGracePeriodSeconds");
    if !grace.is_set() {
        errors.required(&grace, "");
    }
    let volumes = volumes::check(&spec.at("volumes"), owner, errors);
    check_claims(&spec.at("resourceClaims"), errors);
    let users = spec.at("hostUsers");
    let context = PodContext {
        volumes,
        claims: spec
            .at("resourceClaims")
            .items()
            .map(|claim| claim.at("name").text())
            .filter(|name| !name.is_empty())
            .collect(),
        grace: grace.number(),
        restarts: spec.at("restartPolicy").text(),
        host_users: !users.is_set() || users.flag(),
    };
    let (main, init) = (spec.at("containers"), spec.at("initContainers"));
    containers::check(&main, &context, errors);
    containers::check_init(&init, &main, &context, errors);
    let ephemeral = spec.at("ephemeralContainers");
    containers::check_ephemeral(&ephemeral, &[main, init], &context, errors);
    check_own_resources(spec, &context, errors);
    check_host_ports(spec, owner, errors);
    let restarts = spec.at("restartPolicy");
    check::required_one_of(&restarts, &["Always", "OnFailure", "Never"], errors);
    let policies = &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    check::required_one_of(&spec.at("dnsPolicy"), policies, errors);
    check::labels(&spec.at("nodeSelector"), errors);
    security::check_pod(spec, errors);
    scheduling::check_affinity(&spec.at("affinity"), errors);
    check_dns(spec, errors);
    for gate in spec.at("readinessGates").items() {
        check::qualified(&gate.at("conditionType"), errors);
    }
    scheduling::check_gates(&spec.at("schedulingGates"), errors);
    scheduling::check_spreading(&spec.at("topologySpreadConstraints"), errors);
    security::check_host_processes(spec, errors);
    security::check_host_users(spec, errors);
    check_names(spec, errors);
    let deadline = spec.at("activeDeadlineSeconds");
    if deadline.is_set() {
        check::in_range(&deadline, 1, i64::from(i32::MAX), errors);
    }
    for field in ["hostname", "subdomain"] {
        let field = spec.at(field);
        if !field.is_empty() {
            check::label(&field, errors);
        }
    }
    scheduling::check_tolerations(&spec.at("tolerations"), errors);
    for alias in spec.at("hostAliases").items() {
        address::check(&alias.at("ip"), errors);
        for hostname in alias.at("hostnames").items() {
            check::subdomain(&hostname, errors);
        }
    }
    check_classes(spec, errors);
    security::check_system(spec, errors);
}

fn check_names(spec: &FieldPath<'_>, errors: &mut Errors) {
    for field in ["serviceAccountName", "nodeName"] {
        let field = spec.at(field);
        if !field.is_empty() {
            check::subdomain(&field, errors);
        }
    }
}

fn check_classes(spec: &FieldPath<'_>, errors: &mut Errors) {
    let priority = spec.at("priorityClassName");
    if !priority.is_empty() {
        check::subdomain(&priority, errors);
    }
    let runtime = spec.at("runtimeClassName");
    if runtime.is_set() {
        check::subdomain(&runtime, errors);
    }
    let preemption = spec.at("preemptionPolicy");
    if preemption.is_set() {
        check::required_one_of(&preemption, &["PreemptLowerPriority", "Never"], errors);
    }
    check_overhead(&spec.at("overhead"), errors);
}

/// Checks the overhead of running a Pod (upstream: `ValidateOverhead`). The amounts follow the
/// rules of limits.
pub(crate) fn check_overhead(at: &FieldPath<'_>, errors: &mut Errors) {
    let limits = json!({"limits": at.value()});
    resources::check(&FieldPath::new(at.path(), &limits), &HashSet::new(), errors);
}

/// Checks the Pod's references to ResourceClaims.
fn check_claims(claims: &FieldPath<'_>, errors: &mut Errors) {
    let mut names = HashSet::new();
    for claim in claims.items() {
        let name = claim.at("name");
        if name.is_empty() {
            errors.required(&name, "");
        } else if names.contains(name.text()) {
            errors.duplicate(&name);
        } else {
            check::label(&name, errors);
            names.insert(name.text());
        }
        let (own, template) = (
            claim.at("resourceClaimName"),
            claim.at("resourceClaimTemplateName"),
        );
        let detail = match (own.is_set(), template.is_set()) {
            (true, true) => {
                "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            }
            (false, false) => {
                "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            }
            _ => "",
        };
        if !detail.is_empty() {
            let written = format!(
                "{{\"Name\":{},\"ResourceClaimName\":{},\"ResourceClaimTemplateName\":{}}}",
                Value::from(name.text()),
                own.value(),
                template.value()
            );
            errors.invalid_written(&claim, &written, detail);
        }
        for field in [own, template] {
            if field.is_set() {
                check::subdomain(&field, errors);
            }
        }
    }
}

/// Checks the resources of a Pod as a whole (upstream: `validatePodResources`).
fn check_own_resources(spec: &FieldPath<'_>, context: &PodContext<'_>, errors: &mut Errors) {
    let own = spec.at("resources");
    if !own.is_set() {
        return;
    }
    resources::check_of_pod(&own, &context.claims, errors);
    for part in ["requests", "limits"] {
        for (name, amount) in own.at(part).entries() {
            let together = resources::together(spec, part, name);
            let counted = part == "requests" || name.starts_with("hugepages-");
            let given = Quantity::parse(amount.text()).ok();
            if let (Some(together), Some(given)) = (together, given)
                && counted
                && together > given
            {
                let detail = format!(
                    "must be greater than or equal to aggregate container {part} of {together}"
                );
                errors.invalid(&amount, &detail);
            }
        }
    }
    // As upstream, errors name the containers below the Pod's own resources.
    let containers = own.named("containers", Some(spec.at("containers").value()));
    for container in containers.items() {
        for (name, limit) in container.down("resources.limits").entries() {
            let most = own.at("limits").at(name);
            let both = (Quantity::parse(limit.text()), Quantity::parse(most.text()));
            if let (Ok(limit_read), Ok(most_read)) = both
                && limit_read > most_read
            {
                let detail = format!(
                    "must be less than or equal to pod limits of {}",
                    most.text()
                );
                let field = container.key(name).at("limits");
                errors.invalid_as(&field, limit.value(), &detail);
            }
        }
    }
}

/// Checks that on the host's network the host port of a container equals its port (upstream:
/// `validatePodHostNetworkDeps`).
fn check_host_ports(spec: &FieldPath<'_>, owner: SpecOwner<'_>, errors: &mut Errors) {
    if !spec.at("hostNetwork").flag() {
        return;
    }
    for container in spec.at("containers").items() {
        for port in container.at("ports").items() {
            let (host, own) = (port.at("hostPort"), port.at("containerPort").int());
            let open = owner == SpecOwner::Template && host.int() == 0;
            if !open && host.int() != own {
                let detail = "must match `containerPort` when `hostNetwork` is true";
                errors.invalid_as(&host, &Value::from(host.int()), detail);
            }
        }
    }
}

/// Checks the DNS configuration (upstream: `validatePodDNSConfig`).
fn check_dns(spec: &FieldPath<'_>, errors: &mut Errors) {
    let config = spec.at("dnsConfig");
    let (servers, searches) = (config.at("nameservers"), config.at("searches"));
    if spec.at("dnsPolicy").text() == "None" {
        if !config.is_set() {
            let detail = "must provide `dnsConfig` when `dnsPolicy` is None";
            errors.required(&config, detail);
            return;
        }
        if servers.is_empty() {
            let detail = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            errors.required(&servers, detail);
            return;
        }
    }
    if servers.len() > 3 {
        errors.invalid(&servers, "must not have more than 3 nameservers");
    }
    for server in servers.items() {
        address::check(&server, errors);
    }
    if searches.len() > 32 {
        errors.invalid(&searches, "must not have more than 32 search paths");
    }
    let length: usize = searches.items().map(|one| one.len() + 1).sum();
    if length > 2049 {
        let detail =
            "must not have more than 2048 characters (including spaces) in the search list";
        errors.invalid(&searches, detail);
    }
    for search in searches.items() {
        let text = search.text();
        let bare = text.strip_suffix('.').unwrap_or(text);
        if text == "." {
            continue;
        }
        for detail in names::check_search(bare) {
            errors.invalid_as(&search, &Value::from(bare), &detail);
        }
    }
    for option in config.at("options").items() {
        if option.at("name").is_empty() {
            errors.required(&option, "must not be empty");
        }
    }
}
