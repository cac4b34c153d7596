//! Words: the FlowSchemas, PriorityLevelConfigurations and APIServices that a kube-apiserver creates (upstream:
//! `apiserver/pkg/apis/flowcontrol/bootstrap`, and the priorities of groups in `cmd/kube-apiserver/app/aggregator.go`
//! and `pkg/controlplane/apiserver/aggregator.go`).

use serde_json::{Value, json};

use crate::values::text;

/// The number of queues of a priority level, and the number of queues that one flow may use (the hand size).
type Queues = (u64, u64);

/// Name, nominal shares, lendable percent and queues of a PriorityLevelConfiguration. A level without queues rejects
/// excess requests.
type PriorityLevel = (&'static str, u64, u64, Option<Queues>);

const LEVELS: [PriorityLevel; 7] = [
    ("catch-all", 5, 0, None),
    ("system", 30, 33, Some((64, 6))),
    ("node-high", 40, 25, Some((64, 6))),
    ("leader-election", 10, 0, Some((16, 4))),
    ("workload-high", 40, 50, Some((128, 6))),
    ("workload-low", 100, 90, Some((128, 6))),
    ("global-default", 20, 50, Some((128, 6))),
];

const QUEUE_LENGTH: u64 = 50;

/// An API group, its priority among the API groups, and its versions, each with a priority among the versions.
type Priority = (&'static str, u64, &'static [(&'static str, u64)]);

const GROUPS: [Priority; 21] = [
    ("", 18000, &[("v1", 1)]),
    ("apps", 17800, V1),
    ("events.k8s.io", 17750, V1),
    ("authentication.k8s.io", 17700, V1),
    ("authorization.k8s.io", 17600, V1),
    ("autoscaling", 17500, &[("v1", 15), ("v2", 30)]),
    ("batch", 17400, V1),
    ("certificates.k8s.io", 17300, V1),
    ("networking.k8s.io", 17200, V1),
    ("policy", 17100, V1),
    ("rbac.authorization.k8s.io", 17000, V1),
    ("storage.k8s.io", 16800, V1),
    ("apiextensions.k8s.io", 16700, V1),
    ("admissionregistration.k8s.io", 16700, V1),
    ("scheduling.k8s.io", 16600, V1),
    ("coordination.k8s.io", 16500, V1),
    ("node.k8s.io", 16300, V1),
    ("discovery.k8s.io", 16200, V1),
    ("flowcontrol.apiserver.k8s.io", 16100, &[("v1", 21)]),
    ("resource.k8s.io", 15900, V1),
    ("storagemigration.k8s.io", 15800, &[("v1beta1", 9)]),
];

const V1: &[(&str, u64)] = &[("v1", 15)];

/// The kind and the name of a subject of a FlowSchema. The namespace of ServiceAccounts is `kube-system`.
type FlowSubject = (&'static str, &'static str);

const EVERYBODY: &[FlowSubject] = &[
    ("Group", "system:unauthenticated"),
    ("Group", "system:authenticated"),
];
const NODES: &[FlowSubject] = &[("Group", "system:nodes")];
const ACCOUNTS: &[FlowSubject] = &[("ServiceAccount", "*")];
const MANAGER: FlowSubject = ("User", "system:kube-controller-manager");
const SCHEDULER: FlowSubject = ("User", "system:kube-scheduler");

/// The priority level of a FlowSchema, its matching precedence, and its distinguisher, by which it separates flows,
/// such as `ByUser`.
type FlowLevel = (&'static str, u64, Option<&'static str>);

const fn by_user(level: &'static str, precedence: u64) -> FlowLevel {
    (level, precedence, Some("ByUser"))
}

pub(crate) fn priority_levels() -> Vec<Value> {
    let exempt = json!({
        "metadata": metadata("exempt"),
        "spec": {"type": "Exempt", "exempt": {"nominalConcurrencyShares": 0, "lendablePercent": 0}},
    });
    let limited = LEVELS.iter().map(|(name, shares, lendable, queues)| {
        let response = match queues {
            None => json!({"type": "Reject"}),
            Some((queues, hand)) => json!({"type": "Queue", "queuing": {
                "queues": queues, "handSize": hand, "queueLengthLimit": QUEUE_LENGTH}}),
        };
        json!({
            "metadata": metadata(name),
            "spec": {"type": "Limited", "limited": {
                "nominalConcurrencyShares": shares, "lendablePercent": lendable,
                "limitResponse": response}},
        })
    });
    std::iter::once(exempt).chain(limited).collect()
}

pub(crate) fn flow_schemas() -> Vec<Value> {
    let mut schemas = schemas_of_the_system();
    schemas.extend(schemas_of_workloads());
    schemas
}

fn schemas_of_the_system() -> Vec<Value> {
    let leases = |verbs| resources(verbs, "coordination.k8s.io", &["leases"], false);
    let few = &["get", "create", "update"];
    let elections = || json!({"resourceRules": [leases(few)]});
    let probes = json!({"nonResourceRules": [
        {"verbs": ["get"], "nonResourceURLs": ["/healthz", "/readyz", "/livez"]}]});
    let endpoints = json!({"resourceRules": [resources(few, "", &["endpoints"], false)]});
    let nodes = json!({"resourceRules": [
        resources(&["*"], "", &["nodes", "nodes/status"], true), leases(&["*"])]});
    let masters = &[("Group", "system:masters")];
    let system = &[MANAGER, SCHEDULER, ("ServiceAccount", "*")];
    let controllers = &[
        MANAGER,
        ("ServiceAccount", "endpoint-controller"),
        ("ServiceAccount", "endpointslicemirroring-controller"),
    ];
    let leading = |precedence| by_user("leader-election", precedence);
    vec![
        schema("exempt", ("exempt", 1, None), masters, everything()),
        schema("probes", ("exempt", 2, None), EVERYBODY, probes),
        schema("system-leader-election", leading(100), system, elections()),
        schema(
            "endpoint-controller",
            by_user("workload-high", 150),
            controllers,
            endpoints,
        ),
        schema(
            "workload-leader-election",
            leading(200),
            ACCOUNTS,
            elections(),
        ),
        schema("system-node-high", by_user("node-high", 400), NODES, nodes),
        schema("system-nodes", by_user("system", 500), NODES, everything()),
    ]
}

fn schemas_of_workloads() -> Vec<Value> {
    let accounts: &[FlowSubject] = &[("Group", "system:serviceaccounts")];
    let high = |precedence| ("workload-high", precedence, Some("ByNamespace"));
    let all = [
        ("kube-controller-manager", high(800), &[MANAGER][..]),
        ("kube-scheduler", high(800), &[SCHEDULER]),
        ("kube-system-service-accounts", high(900), ACCOUNTS),
        ("service-accounts", by_user("workload-low", 9000), accounts),
        ("global-default", by_user("global-default", 9900), EVERYBODY),
        ("catch-all", by_user("catch-all", 10_000), EVERYBODY),
    ];
    all.into_iter()
        .map(|(name, level, whom)| schema(name, level, whom, everything()))
        .collect()
}

fn everything() -> Value {
    json!({
        "resourceRules": [resources(&["*"], "*", &["*"], true)],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    })
}

pub(crate) fn found(schema: &Value, now: &str) -> Value {
    let level = text(&schema["spec"]["priorityLevelConfiguration"]["name"]);
    json!({"conditions": [{
        "type": "Dangling", "status": "False", "lastTransitionTime": now, "reason": "Found",
        "message": format!(
            "This FlowSchema references the PriorityLevelConfiguration object named \"{level}\" and it exists"
        ),
    }]})
}

/// The label of an APIService that the server creates. With the value `true`, the server also deletes the APIService
/// when its version is no longer served; with `onstart`, it does not.
pub(crate) const AUTOMANAGED: &str = "kube-aggregator.kubernetes.io/automanaged";

/// Returns the name of the APIService of a version of custom resources, and the APIService, with the priorities that
/// upstream gives all such versions.
pub(crate) fn api_service(group: &str, version: &str) -> (String, Value) {
    local_service((group, version), "true", (1000, 100))
}

pub(crate) fn api_services() -> Vec<Value> {
    let versions = GROUPS.iter().flat_map(|(group, minimum, versions)| {
        versions.iter().map(move |(version, priority)| {
            let (_, service) = local_service((*group, *version), "onstart", (*minimum, *priority));
            service
        })
    });
    versions.collect()
}

/// Returns the name of an APIService of this server, and the APIService. `managed` is the value of its label
/// [`AUTOMANAGED`].
fn local_service(
    (group, version): (&str, &str),
    managed: &str,
    (minimum, priority): (u64, u64),
) -> (String, Value) {
    let name = format!("{version}.{group}");
    let service = json!({
        "metadata": {"name": name, "labels": {AUTOMANAGED: managed}},
        "spec": {"group": group, "version": version,
            "groupPriorityMinimum": minimum, "versionPriority": priority},
    });
    (name, service)
}

pub(crate) fn available(now: &str) -> Value {
    json!({"conditions": [{
        "type": "Available", "status": "True", "lastTransitionTime": now, "reason": "Local",
        "message": "Local APIServices are always available",
    }]})
}

fn metadata(name: &str) -> Value {
    json!({"name": name, "annotations": {"apf.kubernetes.io/autoupdate-spec": "true"}})
}

fn schema(
    name: &str,
    (level, precedence, method): FlowLevel,
    whom: &[FlowSubject],
    mut rules: Value,
) -> Value {
    let subject = |(kind, name): &FlowSubject| match *kind {
        "Group" => json!({"kind": kind, "group": {"name": name}}),
        "User" => json!({"kind": kind, "user": {"name": name}}),
        _ => json!({"kind": kind, "serviceAccount": {"name": name, "namespace": "kube-system"}}),
    };
    rules["subjects"] = whom.iter().map(subject).collect();
    let mut spec = json!({
        "priorityLevelConfiguration": {"name": level},
        "matchingPrecedence": precedence,
        "rules": [rules],
    });
    if let Some(method) = method {
        spec["distinguisherMethod"] = json!({"type": method});
    }
    json!({"metadata": metadata(name), "spec": spec})
}

fn resources(verbs: &[&str], group: &str, resources: &[&str], cluster: bool) -> Value {
    let mut rule = json!({"verbs": verbs, "apiGroups": [group], "resources": resources,
        "namespaces": ["*"]});
    if cluster {
        rule["clusterScope"] = json!(true);
    }
    rule
}
