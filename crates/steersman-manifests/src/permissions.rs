//! Machine: decides which rules each part of an operator needs.

use crate::definition::OwnKind;
use crate::operator::Operator;
use crate::rule::PolicyRule;
use crate::rule_set::RuleSet;

/// The verbs with which a cache holds a kind.
const READ: &[&str] = &["get", "list", "watch"];

const DEFINITIONS: &str = "apiextensions.k8s.io";
const WEBHOOKS: &str = "admissionregistration.k8s.io";

/// The kinds without a namespace of Kubernetes itself, as group and plural, and what only rules name: the users to
/// impersonate, and the signers to approve for.
const CLUSTER_SCOPED: &[(&str, &str)] = &[
    ("", "componentstatuses"),
    ("", "groups"),
    ("", "namespaces"),
    ("", "nodes"),
    ("", "persistentvolumes"),
    ("", "users"),
    (WEBHOOKS, "mutatingadmissionpolicies"),
    (WEBHOOKS, "mutatingadmissionpolicybindings"),
    (WEBHOOKS, "mutatingwebhookconfigurations"),
    (WEBHOOKS, "validatingadmissionpolicies"),
    (WEBHOOKS, "validatingadmissionpolicybindings"),
    (WEBHOOKS, "validatingwebhookconfigurations"),
    (DEFINITIONS, "customresourcedefinitions"),
    ("apiregistration.k8s.io", "apiservices"),
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authentication.k8s.io", "tokenreviews"),
    ("authentication.k8s.io", "uids"),
    ("authentication.k8s.io", "userextras"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
    ("certificates.k8s.io", "certificatesigningrequests"),
    ("certificates.k8s.io", "clustertrustbundles"),
    ("certificates.k8s.io", "signers"),
    ("flowcontrol.apiserver.k8s.io", "flowschemas"),
    (
        "flowcontrol.apiserver.k8s.io",
        "prioritylevelconfigurations",
    ),
    ("networking.k8s.io", "ingressclasses"),
    ("networking.k8s.io", "ipaddresses"),
    ("networking.k8s.io", "servicecidrs"),
    ("node.k8s.io", "runtimeclasses"),
    ("rbac.authorization.k8s.io", "clusterrolebindings"),
    ("rbac.authorization.k8s.io", "clusterroles"),
    ("resource.k8s.io", "deviceclasses"),
    ("resource.k8s.io", "devicetaintrules"),
    ("resource.k8s.io", "resourceslices"),
    ("scheduling.k8s.io", "priorityclasses"),
    ("storage.k8s.io", "csidrivers"),
    ("storage.k8s.io", "csinodes"),
    ("storage.k8s.io", "storageclasses"),
    ("storage.k8s.io", "volumeattachments"),
    ("storage.k8s.io", "volumeattributesclasses"),
    ("storagemigration.k8s.io", "storageversionmigrations"),
];

/// The permissions of an operator's own account. (MANIFEST-2)
#[derive(Debug)]
pub(crate) struct Permissions {
    /// Those in all namespaces, and on objects without one.
    pub(crate) everywhere: RuleSet,
    /// Those in each watched namespace. Empty if the operator watches all namespaces.
    pub(crate) watched: RuleSet,
}

impl Permissions {
    /// Adds the rules of the parts to the observed rules. (MANIFEST-1)
    pub(crate) fn of(operator: &Operator, observed: &[PolicyRule]) -> Self {
        let reads = operator
            .kinds
            .iter()
            .map(|kind| PolicyRule::new(&kind.group, &[&kind.plural], READ));
        let reads: Vec<PolicyRule> = reads.chain(finalizers(operator)).collect();
        let work = RuleSet::default().with(&reads).with(observed);
        let parts = [definitions(operator), webhook_configurations(operator)].concat();
        if operator.options.namespaces.is_empty() {
            return Self {
                everywhere: work.with(&parts),
                watched: RuleSet::default(),
            };
        }
        let (watched, everywhere) =
            work.partition(|group, resource| is_namespaced(operator, group, resource));
        Self {
            everywhere: everywhere.with(&parts),
            watched,
        }
    }
}

/// Returns the rules for owner references to the operator's own kinds, where a cluster checks them, as OpenShift does.
fn finalizers(operator: &Operator) -> impl Iterator<Item = PolicyRule> {
    let own = operator.own.iter().filter(|_| operator.has_controllers);
    own.map(|own| {
        PolicyRule::new(
            &own.group,
            &[&format!("{}/finalizers", own.plural)],
            &["update"],
        )
    })
}

/// Returns the rules with which the leader installs the definitions and migrates their objects.
fn definitions(operator: &Operator) -> Vec<PolicyRule> {
    if operator.own.is_empty() {
        return Vec::new();
    }
    let names: Vec<String> = operator.own.iter().map(OwnKind::name).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let resources = [
        "customresourcedefinitions",
        "customresourcedefinitions/status",
    ];
    let migrations = ("storagemigration.k8s.io", "storageversionmigrations");
    // Stored objects are migrated in all namespaces. A definition with one version has none to migrate; one that loses
    // its last old version keeps it as not served until the objects are migrated.
    let is_limited = !operator.options.namespaces.is_empty();
    let own = operator.own.iter();
    let own = own.filter(|own| !is_limited || !own.is_namespaced || own.has_versions);
    let own = own.map(|own| PolicyRule::new(&own.group, &[&own.plural], &["list", "patch"]));
    let rules = [
        PolicyRule::new(DEFINITIONS, &resources[..1], &["create"]),
        PolicyRule::new(DEFINITIONS, &resources, &["get", "patch"]).named(&names),
        PolicyRule::new(migrations.0, &[migrations.1], &["create", "get", "delete"]),
    ];
    rules.into_iter().chain(own).collect()
}

/// Returns the rules with which the leader injects its authority into the configurations of its webhooks.
fn webhook_configurations(operator: &Operator) -> Vec<PolicyRule> {
    let resources = [
        (true, "mutatingwebhookconfigurations"),
        (false, "validatingwebhookconfigurations"),
    ];
    let resources = resources
        .iter()
        .filter(|(mutates, _)| operator.has_webhooks(*mutates));
    resources
        .map(|(_, resource)| {
            PolicyRule::new(WEBHOOKS, &[resource], &["get", "patch"]).named(&[&operator.name])
        })
        .collect()
}

/// Returns whether the objects of a resource are in namespaces. A resource of an unknown kind is taken as one of them.
fn is_namespaced(operator: &Operator, group: &str, resource: &str) -> bool {
    let plural = resource.split('/').next().unwrap_or_default();
    let mut kinds = operator.kinds.iter();
    if let Some(kind) = kinds.find(|kind| kind.group == group && kind.plural == plural) {
        return kind.namespaced;
    }
    let mut own = operator.own.iter();
    if let Some(own) = own.find(|own| own.group == group && own.plural == plural) {
        return own.is_namespaced;
    }
    !CLUSTER_SCOPED.contains(&(group, plural))
}

/// Returns the rules of the leader election, in the operator's namespace.
pub(crate) fn leader_election() -> RuleSet {
    RuleSet::default().with(&[
        PolicyRule::new(
            "coordination.k8s.io",
            &["leases"],
            &["get", "create", "update"],
        ),
        PolicyRule::new("events.k8s.io", &["events"], &["create", "patch"]),
    ])
}

/// Returns the rules of the built-in certificates, in the operator's namespace.
pub(crate) fn certificates(secret: &str) -> RuleSet {
    RuleSet::default().with(&[
        PolicyRule::new("", &["secrets"], &["create"]),
        PolicyRule::new("", &["secrets"], &["get", "update"]).named(&[secret]),
    ])
}

/// Returns the rules with which the server of the metrics checks the readers.
pub(crate) fn metrics_auth() -> RuleSet {
    RuleSet::default().with(&[
        PolicyRule::new("authentication.k8s.io", &["tokenreviews"], &["create"]),
        PolicyRule::new(
            "authorization.k8s.io",
            &["subjectaccessreviews"],
            &["create"],
        ),
    ])
}

/// Returns the rule of a user that reads the metrics.
pub(crate) fn metrics_reader() -> RuleSet {
    RuleSet::default().with(&[PolicyRule {
        non_resource_urls: vec!["/metrics".to_owned()],
        verbs: vec!["get".to_owned()],
        ..PolicyRule::default()
    }])
}

/// Roles on the operator's own kinds for users, with their verbs.
pub(crate) const USER_ROLES: &[(&str, &[&str])] = &[
    ("admin", &["*"]),
    (
        "editor",
        &[
            "get", "list", "watch", "create", "update", "patch", "delete",
        ],
    ),
    ("viewer", READ),
];

/// Returns the rules of a role for users of a kind.
pub(crate) fn of_users(own: &OwnKind, verbs: &[&str]) -> RuleSet {
    let status = format!("{}/status", own.plural);
    RuleSet::default().with(&[
        PolicyRule::new(&own.group, &[&own.plural], verbs),
        PolicyRule::new(&own.group, &[&status], &["get"]),
    ])
}
