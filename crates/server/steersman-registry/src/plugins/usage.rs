//! Machine: computes the amount of each resource that an object uses, to count it in quotas (upstream:
//! `pkg/quota/v1/evaluator/core`).

use serde_json::Value;
use steersman_apimachinery::quantity::Quantity;
use steersman_schema::resource::StorageKey;

use super::limits::{Amounts, add, amounts, asked_by_pod};
use crate::values::{has_text, items, text};

const OF_SERVICES: &[&str] = &[
    "count/services", "services", "services.nodeports", "services.loadbalancers",
];

/// Storages of kinds that a quota can count under two names, such as `secrets` and the newer `count/secrets`.
const OLD_NAMES: &[&str] = &[
    "configmaps.", "resourcequotas.", "replicationcontrollers.", "secrets.",
];

/// If a quota limits one of these resources, every container of a new Pod must set a request or limit for it.
const NAMED_BY_ALL: &[&str] = &[
    "cpu", "limits.cpu", "limits.memory", "memory", "requests.cpu", "requests.memory",
];

const CLASS: &str = ".storageclass.storage.k8s.io/";
const OF_CLAIMS: [&str; 2] = ["persistentvolumeclaims", "requests.storage"];

pub(crate) fn may_change(storage: &StorageKey) -> bool {
    matches!(
        storage.as_str(),
        "pods." | "services." | "persistentvolumeclaims."
    )
}

/// Returns whether quotas never count the objects of a storage: true for both kinds of Kubernetes Events.
pub(crate) fn is_ignored(storage: &StorageKey) -> bool {
    matches!(storage.as_str(), "events." | "events.events.k8s.io")
}

/// Returns the name under which a quota limits the number of objects in a storage, such as `count/deployments.apps`.
fn count_name(storage: &StorageKey) -> String {
    format!("count/{}", storage.as_str().trim_end_matches('.'))
}

pub(crate) fn covers(storage: &StorageKey, resource: &str) -> bool {
    match storage.as_str() {
        "pods." => {
            let huge = resource.strip_prefix("requests.").unwrap_or(resource);
            matches!(resource, "pods" | "count/pods")
                || steersman_builtins::COMPUTE.contains(&resource)
                || huge.starts_with("hugepages-")
                || (resource.starts_with("requests.") && is_announced(resource))
        }
        "services." => OF_SERVICES.contains(&resource),
        "persistentvolumeclaims." => {
            let of_class = |name: &str| resource.ends_with(&format!("{CLASS}{name}"));
            resource == "count/persistentvolumeclaims"
                || OF_CLAIMS.contains(&resource)
                || OF_CLAIMS.iter().any(|name| of_class(name))
        }
        name => {
            resource == count_name(storage)
                || (OLD_NAMES.contains(&name) && resource == name.trim_end_matches('.'))
        }
    }
}

/// Returns whether a resource is an extended resource, such as `example.com/gpu`, and not built into Kubernetes.
fn is_announced(name: &str) -> bool {
    name.contains('/') && !name.contains("kubernetes.io/")
}

pub(crate) fn usage(storage: &StorageKey, object: &Value) -> Amounts {
    let mut used = Amounts::new();
    if is_ignored(storage) {
        return used;
    }
    let one = Quantity::of(1);
    used.insert(count_name(storage), one);
    match storage.as_str() {
        "pods." if matches!(text(&object["status"]["phase"]), "Failed" | "Succeeded") => {}
        "pods." => {
            let asked = asked_by_pod(&object["spec"]);
            used.extend(computed(asked.requests, asked.limits));
        }
        "services." => used.extend(of_service(&object["spec"])),
        "persistentvolumeclaims." => used.extend(of_claim(object)),
        name if OLD_NAMES.contains(&name) => {
            used.insert(name.trim_end_matches('.').to_owned(), one);
        }
        _ => {}
    }
    used
}

/// Returns the usage of a Pod from its requests and limits, under all names that a quota may use: `cpu` is the same as
/// `requests.cpu`, for instance.
fn computed(requests: Amounts, limits: Amounts) -> Amounts {
    let mut used = Amounts::from([("pods".to_owned(), Quantity::of(1))]);
    for (name, amount) in requests {
        let is_computed = matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage")
            || name.starts_with("hugepages-");
        if is_computed || (is_announced(&name) && !name.starts_with("requests.")) {
            used.insert(format!("requests.{name}"), amount);
        }
        if is_computed {
            used.insert(name, amount);
        }
    }
    for (name, amount) in limits {
        if matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage") {
            used.insert(format!("limits.{name}"), amount);
        }
    }
    used
}

fn of_service(spec: &Value) -> Amounts {
    let count = |found: usize| Quantity::of(i64::try_from(found).unwrap_or(i64::MAX));
    let ports = items(&spec["ports"]);
    let (node_ports, balancers) = match spec["type"].as_str() {
        Some("NodePort") => (ports.len(), 0),
        Some("LoadBalancer") if spec["allocateLoadBalancerNodePorts"] == false => {
            let is_given = |port: &&Value| port["nodePort"].as_i64().unwrap_or_default() != 0;
            (ports.iter().filter(is_given).count(), 1)
        }
        Some("LoadBalancer") => (ports.len(), 1),
        _ => (0, 0),
    };
    Amounts::from([
        ("services".to_owned(), Quantity::of(1)),
        ("services.nodeports".to_owned(), count(node_ports)),
        ("services.loadbalancers".to_owned(), count(balancers)),
    ])
}

fn of_claim(claim: &Value) -> Amounts {
    let mut used = Amounts::new();
    let old = &claim["metadata"]["annotations"]["volume.beta.kubernetes.io/storage-class"];
    let class = old.as_str().or(claim["spec"]["storageClassName"].as_str());
    let mut put = |name: &str, amount: Quantity| {
        used.insert(name.to_owned(), amount);
        if let Some(class) = class.filter(|class| !class.is_empty()) {
            used.insert(format!("{class}{CLASS}{name}"), amount);
        }
    };
    put("persistentvolumeclaims", Quantity::of(1));
    let asked = amounts(&claim["spec"]["resources"]["requests"]);
    let given = amounts(&claim["status"]["allocatedResources"]);
    if let Some(asked) = asked.get("storage") {
        let more = given.get("storage").filter(|given| *given > asked);
        put("requests.storage", more.unwrap_or(asked).rounded_up());
    }
    used
}

/// Lists the requests and limits that a quota requires and containers of a Pod do not set, such as
/// `limits.cpu for: a,b; memory for: a`; `None` if all are set.
pub(crate) fn unnamed(pod: &Value, limited: &Amounts) -> Option<String> {
    let mut missing = Vec::new();
    let names = NAMED_BY_ALL.iter().copied();
    for name in names.filter(|name| limited.contains_key(*name)) {
        let mut containers = Vec::new();
        let (field, resource) = name.split_once('.').unwrap_or(("requests", name));
        for part in ["containers", "initContainers"] {
            for container in items(&pod["spec"][part]) {
                if container["resources"][field][resource].is_null() {
                    containers.push(text(&container["name"]));
                }
            }
        }
        containers.sort_unstable();
        containers.dedup();
        if !containers.is_empty() {
            missing.push(format!("{name} for: {}", containers.join(",")));
        }
    }
    (!missing.is_empty()).then(|| missing.join("; "))
}

pub(crate) fn in_scopes(storage: &StorageKey, spec: &Value, object: &Value) -> bool {
    let is_in = |scope: &Value, operator: &str, values: &Value| {
        in_scope(storage, text(scope), (operator, values), object)
    };
    let mut plain = items(&spec["scopes"]).iter();
    let mut selected = items(&spec["scopeSelector"]["matchExpressions"]).iter();
    plain.all(|scope| is_in(scope, "Exists", &Value::Null))
        && selected.all(|one| is_in(&one["scopeName"], text(&one["operator"]), &one["values"]))
}

fn in_scope(
    storage: &StorageKey,
    scope: &str,
    (operator, values): (&str, &Value),
    object: &Value,
) -> bool {
    let spec = &object["spec"];
    match (storage.as_str(), scope) {
        ("pods.", "Terminating") => is_ending(spec),
        ("pods.", "NotTerminating") => !is_ending(spec),
        ("pods.", "BestEffort") => object["status"]["qosClass"] == "BestEffort",
        ("pods.", "NotBestEffort") => object["status"]["qosClass"] != "BestEffort",
        ("pods.", "PriorityClass") => names(&[text(&spec["priorityClassName"])], operator, values),
        ("pods.", "CrossNamespacePodAffinity") => looks_across(&spec["affinity"]),
        ("persistentvolumeclaims.", "VolumeAttributesClass") => {
            let status = &object["status"];
            let classes = [
                &spec["volumeAttributesClassName"],
                &status["currentVolumeAttributesClassName"],
                &status["modifyVolumeStatus"]["targetVolumeAttributesClassName"],
            ];
            names(&classes.map(text), operator, values)
        }
        _ => false,
    }
}

fn is_ending(spec: &Value) -> bool {
    let seconds = spec["activeDeadlineSeconds"].as_i64();
    seconds.is_some_and(|seconds| seconds >= 0)
}

/// Returns whether a scope selector matches one of the class names in `found`; an empty name counts as absent.
fn names(found: &[&str], operator: &str, values: &Value) -> bool {
    let listed = |name: &&&str| has_text(values, name);
    let mut found = found.iter().filter(|name| !name.is_empty()).peekable();
    let any = found.peek().is_some();
    match operator {
        "Exists" => any,
        "DoesNotExist" => !any,
        "In" => found.any(|name| listed(&name)),
        "NotIn" => !any || found.any(|name| !listed(&name)),
        _ => false,
    }
}

/// Returns whether a Pod's affinity names namespaces, which puts the Pod into the scope `CrossNamespacePodAffinity`.
fn looks_across(affinity: &Value) -> bool {
    let across = |term: &Value| {
        !items(&term["namespaces"]).is_empty() || !term["namespaceSelector"].is_null()
    };
    ["podAffinity", "podAntiAffinity"].iter().any(|kind| {
        let listed = |field: &str| items(&affinity[kind][field]).iter();
        listed("requiredDuringSchedulingIgnoredDuringExecution").any(across)
            || listed("preferredDuringSchedulingIgnoredDuringExecution")
                .any(|one| across(&one["podAffinityTerm"]))
    })
}

pub(crate) fn add_masked(to: &mut Amounts, used: Amounts, hard: &Amounts) {
    let masked = used.into_iter().filter(|(name, _)| hard.contains_key(name));
    add(to, masked.collect());
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn within(plural: &str, selector: &Value, object: &Value) -> bool {
        let spec = json!({"scopeSelector": {"matchExpressions": [selector]}});
        in_scopes(&StorageKey::new("", plural), &spec, object)
    }

    #[test]
    fn objects_match_quota_scopes() {
        let scope = |name: &str| json!({"scopeName": name, "operator": "Exists"});
        let ending = json!({"spec": {"activeDeadlineSeconds": 5}});
        let poor = json!({"status": {"qosClass": "BestEffort"}});
        let pod = |name: &str, object: &Value| within("pods", &scope(name), object);
        assert!(pod("Terminating", &ending) && !pod("NotTerminating", &ending));
        assert!(!pod("Terminating", &poor) && pod("NotTerminating", &poor));
        assert!(pod("BestEffort", &poor) && !pod("NotBestEffort", &poor));
        assert!(!pod("BestEffort", &ending) && pod("NotBestEffort", &ending));
        let near = |term: Value| {
            json!({"spec": {"affinity": {"podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [term]}}}})
        };
        for (term, across) in [
            (json!({}), false),
            (json!({"namespaces": []}), false),
            (json!({"namespaces": ["a"]}), true),
            (json!({"namespaceSelector": {}}), true),
        ] {
            let found = pod("CrossNamespacePodAffinity", &near(term.clone()));
            assert_eq!(found, across, "{term}");
        }
        assert!(!within("configmaps", &scope("Terminating"), &ending));
    }

    #[test]
    fn priority_classes_match_scope_selectors() {
        let classed = json!({"spec": {"priorityClassName": "high"}});
        let plain = json!({"spec": {}});
        for (operator, values, of_classed, of_plain) in [
            ("Exists", json!([]), true, false),
            ("DoesNotExist", json!([]), false, true),
            ("In", json!(["high"]), true, false),
            ("In", json!(["low"]), false, false),
            ("NotIn", json!(["high"]), false, true),
            ("NotIn", json!(["low"]), true, true),
        ] {
            let selector =
                json!({"scopeName": "PriorityClass", "operator": operator, "values": values});
            let counted = [&classed, &plain].map(|pod| within("pods", &selector, pod));
            assert_eq!(counted, [of_classed, of_plain], "{selector}");
        }
    }

    #[test]
    fn quota_resources_belong_to_kinds() {
        for (plural, resource, covered) in [
            ("pods", "requests.cpu", true),
            ("pods", "hugepages-2Mi", true),
            ("pods", "requests.example.com/gpu", true),
            ("pods", "requests.node.kubernetes.io/gpu", false),
            ("pods", "services", false),
            (
                "persistentvolumeclaims", "count/persistentvolumeclaims", true,
            ),
            ("persistentvolumeclaims", "requests.storage", true),
            (
                "persistentvolumeclaims",
                "fast.storageclass.storage.k8s.io/requests.storage",
                true,
            ),
            ("persistentvolumeclaims", "count/pods", false),
            ("configmaps", "configmaps", true),
            ("leases", "leases", false),
        ] {
            let storage = StorageKey::new("", plural);
            assert_eq!(covers(&storage, resource), covered, "{plural} {resource}");
        }
    }

    #[test]
    fn a_claim_uses_its_allocated_storage_if_that_is_more() {
        let claim = |given: &str| {
            let claim = json!({"spec": {"resources": {"requests": {"storage": "2Gi"}}},
                "status": {"allocatedResources": {"storage": given}}});
            usage(&StorageKey::new("", "persistentvolumeclaims"), &claim)["requests.storage"]
                .to_string()
        };
        assert_eq!(claim("3Gi"), "3Gi");
        assert_eq!(claim("1Gi"), "2Gi");
    }
}
