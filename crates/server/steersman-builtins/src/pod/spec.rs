//! Machine: checks the spec of a Pod or of a template.

use std::collections::HashSet;

use serde_json::json;
use steersman_apimachinery::names;
use steersman_apimachinery::quantity::Quantity;

use crate::fields::go_value::GoType::{self, Plain, Struct, Text};
use crate::fields::{FieldPath, address, check};

use super::containers::{self, PodContext};
use super::{SpecOwner, resources, scheduling, security, volumes};

/// Checks a spec. The order of the errors is upstream's (`ValidatePodSpec`).
pub(super) fn check(spec: &FieldPath<'_>, owner: SpecOwner<'_>) {
    let grace = spec.at("terminationGracePeriodSeconds");
    grace.need("");
    let volumes = volumes::check(&spec.at("volumes"), owner);
    let [claims, users] = spec.parts(["resourceClaims", "hostUsers"]);
    check_claims(&claims);
    let claims = claims.items().map(|claim| claim.at("name").text());
    let context = PodContext {
        volumes,
        claims: claims.filter(|name| !name.is_empty()).collect(),
        grace: grace.number(),
        restarts: spec.at("restartPolicy").text(),
        host_users: !users.is_set() || users.flag(),
    };
    let (main, init) = (spec.at("containers"), spec.at("initContainers"));
    containers::check(&main, &context);
    containers::check_init(&init, &main, &context);
    containers::check_ephemeral(&spec.at("ephemeralContainers"), &[main, init], &context);
    check_own_resources(spec, &context);
    check_host_ports(spec, owner);
    check::required_one_of(&spec.at("restartPolicy"), &["Always", "OnFailure", "Never"]);
    let policies = &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    check::required_one_of(&spec.at("dnsPolicy"), policies);
    check::labels(&spec.at("nodeSelector"));
    security::check_pod(spec);
    scheduling::check_affinity(&spec.at("affinity"));
    check_dns(spec);
    let gates = spec.at("readinessGates");
    gates.each(|gate| check::qualified(&gate.at("conditionType")));
    scheduling::check_gates(&spec.at("schedulingGates"));
    scheduling::check_spreading(&spec.at("topologySpreadConstraints"));
    security::check_host_processes(spec);
    security::check_host_users(spec);
    for field in spec.parts(["serviceAccountName", "nodeName"]) {
        field.if_filled(check::subdomain);
    }
    let deadline = spec.at("activeDeadlineSeconds");
    deadline.if_set(|deadline| check::in_range(deadline, 1, i64::from(i32::MAX)));
    for field in spec.parts(["hostname", "subdomain"]) {
        field.if_filled(check::label);
    }
    scheduling::check_tolerations(&spec.at("tolerations"));
    for alias in spec.at("hostAliases").items() {
        address::check(&alias.at("ip"));
        alias.at("hostnames").each(check::subdomain);
    }
    spec.at("priorityClassName").if_filled(check::subdomain);
    spec.at("runtimeClassName").if_set(check::subdomain);
    let policies = ["PreemptLowerPriority", "Never"];
    let preemption = spec.at("preemptionPolicy");
    preemption.if_set(|preemption| check::required_one_of(preemption, &policies));
    check_overhead(&spec.at("overhead"));
    security::check_system(spec);
}

/// Checks the overhead of a Pod by the rules of limits (upstream: `ValidateOverhead`).
pub(crate) fn check_overhead(at: &FieldPath<'_>) {
    let limits = json!({"limits": at.value()});
    resources::check(&at.with(&limits), &HashSet::new());
}

const CLAIM: GoType = Struct(&[
    ("name", Text),
    ("resourceClaimName", Plain),
    ("resourceClaimTemplateName", Plain),
]);

fn check_claims(claims: &FieldPath<'_>) {
    let mut names = HashSet::new();
    for claim in claims.items() {
        let name = claim.at("name");
        name.need("");
        if !name.is_empty() && names.insert(name.text()) {
            check::label(&name);
        } else if !name.is_empty() {
            name.duplicate();
        }
        let [own, template] = claim.parts(["resourceClaimName", "resourceClaimTemplateName"]);
        match (own.is_set(), template.is_set()) {
            (true, true) => claim.invalid_printed(
                &CLAIM,
                "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified",
            ),
            (false, false) => claim.invalid_printed(
                &CLAIM,
                "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
            ),
            _ => {}
        }
        for field in [own, template] {
            field.if_set(check::subdomain);
        }
    }
}

/// Checks the resources of a Pod as a whole (upstream: `validatePodResources`).
fn check_own_resources(spec: &FieldPath<'_>, context: &PodContext<'_>) {
    let own = spec.at("resources");
    if !own.is_set() {
        return;
    }
    resources::check_of_pod(&own, &context.claims);
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
                amount.invalid(&detail);
            }
        }
    }
    // As upstream, errors name the containers below the Pod's own resources.
    let containers = own.named("containers", Some(spec.at("containers").value()));
    for container in containers.items() {
        for (name, limit) in container.down("resources.limits").entries() {
            let most = own.at("limits").at(name);
            let both = [&limit, &most].map(|amount| Quantity::parse(amount.text()));
            if let [Ok(limit_read), Ok(most_read)] = both
                && limit_read > most_read
            {
                let most = most.text();
                let detail = format!("must be less than or equal to pod limits of {most}");
                let shown = container.key(name).at("limits");
                shown.invalid_as(limit.value(), &detail);
            }
        }
    }
}

/// Checks ports on the host's network (upstream: `validatePodHostNetworkDeps`).
fn check_host_ports(spec: &FieldPath<'_>, owner: SpecOwner<'_>) {
    if !spec.at("hostNetwork").flag() {
        return;
    }
    for container in spec.at("containers").items() {
        for port in container.at("ports").items() {
            let (host, own) = (port.at("hostPort"), port.at("containerPort").int());
            let open = owner == SpecOwner::Template && host.int() == 0;
            if !open && host.int() != own {
                let detail = "must match `containerPort` when `hostNetwork` is true";
                host.invalid_as(host.int(), detail);
            }
        }
    }
}

/// Checks the DNS configuration (upstream: `validatePodDNSConfig`).
fn check_dns(spec: &FieldPath<'_>) {
    let config = spec.at("dnsConfig");
    let (servers, searches) = (config.at("nameservers"), config.at("searches"));
    if spec.at("dnsPolicy").text() == "None" {
        if !config.need_set("must provide `dnsConfig` when `dnsPolicy` is None") {
            return;
        }
        if servers.is_empty() {
            servers.required("must provide at least one DNS nameserver when `dnsPolicy` is None");
            return;
        }
    }
    if servers.len() > 3 {
        servers.invalid("must not have more than 3 nameservers");
    }
    servers.each(address::check);
    if searches.len() > 32 {
        searches.invalid("must not have more than 32 search paths");
    }
    let length: usize = searches.items().map(|one| one.len() + 1).sum();
    if length > 2049 {
        let detail =
            "must not have more than 2048 characters (including spaces) in the search list";
        searches.invalid(detail);
    }
    for search in searches.items() {
        let text = search.text();
        let bare = text.strip_suffix('.').unwrap_or(text);
        if text == "." {
            continue;
        }
        search.invalid_each(bare, names::check_search(bare));
    }
    for option in config.at("options").items() {
        if option.at("name").is_empty() {
            option.required("must not be empty");
        }
    }
}
