//! Machine: checks whether the server serves the kinds that the program needs.

use std::collections::BTreeSet;

use serde_json::Value;
use steersman_description::{DescribedKind, Description};
use steersman_object::{json_items, json_text};

use crate::doctor::finding::{DoctorFinding, Findings, SeenFact};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NeededKind {
    pub(crate) kind: DescribedKind,
    pub(crate) is_own: bool,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct DiscoveredKinds {
    pub(crate) kinds: Vec<DescribedKind>,
    /// The groups and versions that discovery could not read, such as `apps/v1`, with the error.
    pub(crate) failed: Vec<(String, String)>,
}

/// Returns the kinds that the program watches, defines, defaults or validates, in order and without duplicates.
pub(crate) fn needed_kinds(description: &Description) -> Vec<NeededKind> {
    let own: Vec<DescribedKind> = description.definitions.iter().flat_map(defined).collect();
    let called = description.webhooks.iter().map(|webhook| &webhook.object);
    let all: BTreeSet<&DescribedKind> =
        description.kinds.iter().chain(called).chain(&own).collect();
    let is_own = |kind: &DescribedKind| {
        let mut own = own.iter();
        own.any(|own| own.group == kind.group && own.kind == kind.kind)
    };
    let needed = all.into_iter().map(|kind| NeededKind {
        is_own: is_own(kind),
        kind: kind.clone(),
    });
    needed.collect()
}

/// Returns the kinds of a definition, one per served version.
fn defined(definition: &Value) -> Vec<DescribedKind> {
    let spec = &definition["spec"];
    let text = |value: &Value| json_text(value).to_owned();
    let versions = json_items(&spec["versions"]);
    let served = versions.filter(|version| version["served"] == true);
    let kinds = served.map(|version| DescribedKind {
        group: text(&spec["group"]),
        version: text(&version["name"]),
        kind: text(&spec["names"]["kind"]),
        plural: text(&spec["names"]["plural"]),
        namespaced: spec["scope"] == "Namespaced",
    });
    kinds.collect()
}

/// Compares the kinds that the program needs with the kinds that the server serves.
pub(crate) fn check_kinds(needed: &[NeededKind], seen: &SeenFact<DiscoveredKinds>) -> Findings {
    let mut findings = Findings::default();
    if let Some(discovered) = findings.known(seen, "the served kinds") {
        let found = needed.iter().map(|kind| check(kind, discovered));
        findings.0.extend(found);
    }
    findings
}

fn check(needed: &NeededKind, discovered: &DiscoveredKinds) -> DoctorFinding {
    let kind = &needed.kind;
    let (name, version) = (resource(kind), &kind.version);
    let same = |other: &&DescribedKind| other.group == kind.group && other.kind == kind.kind;
    let served: Vec<&DescribedKind> = discovered.kinds.iter().filter(same).collect();
    if let Some(found) = served.iter().find(|found| found.version == *version) {
        if found.namespaced == kind.namespaced && found.plural == kind.plural {
            return DoctorFinding::good(format!("{name} is served in {version}"));
        }
        let (here, there) = (scope(found), scope(kind));
        let text = format!(
            "{name} is {here} here as {:?}, and the program takes it as {there} and {:?}",
            found.plural, kind.plural,
        );
        let advice = match needed.is_own {
            true => {
                "the scope of a definition cannot change: delete the definition with all objects, and install it again"
            }
            false => "build the operator with the types of the definition that this cluster has",
        };
        return DoctorFinding::problem(text, advice);
    }
    let place = match kind.group.as_str() {
        "" => version.clone(),
        group => format!("{group}/{version}"),
    };
    let mut failed = discovered.failed.iter();
    if let Some((_, problem)) = failed.find(|(failed, _)| *failed == place) {
        let text = format!("{name} may or may not be served: {place} cannot be read: {problem}");
        return DoctorFinding::unknown(text, "look for its APIService: `kubectl get apiservices`");
    }
    let advice = match (needed.is_own, is_of_kubernetes(&kind.group)) {
        (true, _) => "install its definition: see \"definitions\" below".to_owned(),
        (_, true) => format!("the operator needs a release of Kubernetes that serves {place}"),
        _ => format!("install the definition of {name}, in a release that serves {version}"),
    };
    let versions: Vec<&str> = served.iter().map(|found| found.version.as_str()).collect();
    let text = match versions.is_empty() {
        true => format!("{name} is not installed"),
        false => format!(
            "{name} is not served in {version}, only in {}",
            versions.join(", ")
        ),
    };
    DoctorFinding::problem(text, advice)
}

/// Returns the resource and its group, such as `deployments.apps`.
pub(crate) fn resource(kind: &DescribedKind) -> String {
    match kind.group.as_str() {
        "" => kind.plural.clone(),
        group => format!("{}.{group}", kind.plural),
    }
}

fn scope(kind: &DescribedKind) -> &'static str {
    match kind.namespaced {
        true => "namespaced",
        false => "cluster-scoped",
    }
}

fn is_of_kubernetes(group: &str) -> bool {
    !group.contains('.') || group.ends_with(".k8s.io")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::{FindingLevel, Unseen};

    fn kind(group: &str, version: &str, kind: &str, namespaced: bool) -> DescribedKind {
        DescribedKind {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
            plural: format!("{}s", kind.to_lowercase()),
            namespaced,
        }
    }

    #[test]
    fn each_state_of_a_kind_has_its_text_and_advice() {
        let needed = |kind, is_own| NeededKind { kind, is_own };
        let discovered = DiscoveredKinds {
            kinds: vec![
                kind("", "v1", "Node", false),
                kind("apps", "v1beta1", "Deployment", true),
                kind("example.com", "v1", "Site", false),
            ],
            failed: vec![("metrics.k8s.io/v1".to_owned(), "503".to_owned())],
        };
        for (needed, level, text, advice) in [
            (
                needed(kind("", "v1", "Node", false), false),
                FindingLevel::Good,
                "nodes is served in v1",
                "",
            ),
            (
                needed(kind("apps", "v1", "Deployment", true), false),
                FindingLevel::Problem,
                "deployments.apps is not served in v1, only in v1beta1",
                "release of Kubernetes that serves apps/v1",
            ),
            (
                needed(kind("example.com", "v1", "Site", true), true),
                FindingLevel::Problem,
                "sites.example.com is cluster-scoped here",
                "delete the definition",
            ),
            (
                needed(kind("cert-manager.io", "v1", "Issuer", true), false),
                FindingLevel::Problem,
                "issuers.cert-manager.io is not installed",
                "install the definition of issuers.cert-manager.io",
            ),
            (
                needed(kind("metrics.k8s.io", "v1", "PodMetric", true), false),
                FindingLevel::Unknown,
                "cannot be read: 503",
                "apiservices",
            ),
        ] {
            let found = check_kinds(&[needed], &Ok(discovered.clone())).0;
            assert_eq!(found[0].level, level, "{found:?}");
            assert!(found[0].text.contains(text), "{found:?}");
            assert!(found[0].advice.join("\n").contains(advice), "{found:?}");
        }
        let unseen = check_kinds(&[], &Err(Unseen::forbidden("403"))).0;
        assert_eq!(unseen[0].level, FindingLevel::Unknown);
    }
}
