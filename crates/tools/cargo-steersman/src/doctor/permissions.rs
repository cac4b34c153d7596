//! Machine: finds the rules of the generated roles that the operator's account lacks.

use std::collections::BTreeMap;

use steersman_manifests::{Permission, RoleGrant, RuleReason, RuleTarget};

use crate::doctor::finding::{DoctorFinding, Findings, SeenFact, UnseenCause};

/// One access review: whether the account may use one verb on one resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AccessQuestion {
    /// The index of the role that grants the verb.
    pub(crate) grant: usize,
    /// The namespace of the review; `None` for all namespaces.
    pub(crate) namespace: Option<String>,
    pub(crate) permission: Permission,
}

/// Returns an access review for each permission of the roles.
pub(crate) fn questions(grants: &[RoleGrant]) -> Vec<AccessQuestion> {
    let grants = grants.iter().enumerate();
    let questions = grants.flat_map(|(position, grant)| {
        let permissions = grant.permissions().into_iter();
        permissions.map(move |permission| AccessQuestion {
            grant: position,
            namespace: grant.namespace.clone(),
            permission,
        })
    });
    questions.collect()
}

/// Returns a line per resource, object or path and set of reasons: the missing verbs, the resource, and the reasons.
fn denials(denied: &[Permission]) -> Vec<String> {
    let mut by_target: BTreeMap<(String, &[RuleReason]), Vec<&str>> = BTreeMap::new();
    for permission in denied {
        let target = (target_text(&permission.target), &*permission.reasons);
        by_target.entry(target).or_default().push(&permission.verb);
    }
    let lines = by_target.into_iter().map(|((target, reasons), verbs)| {
        let reasons: Vec<String> = reasons.iter().map(ToString::to_string).collect();
        format!("- {} {target}; {}", verbs.join(", "), reasons.join("; "))
    });
    lines.collect()
}

fn target_text(target: &RuleTarget) -> String {
    match target {
        RuleTarget::Resource {
            group,
            resource,
            name,
        } => {
            let qualified = match (&**group, resource.split_once('/')) {
                ("", _) => resource.clone(),
                (group, Some((plural, part))) => format!("{plural}.{group}/{part}"),
                (group, None) => format!("{resource}.{group}"),
            };
            let name = name.as_ref().map(|name| format!(" named {name}"));
            qualified + &name.unwrap_or_default()
        }
        RuleTarget::Url(url) => url.clone(),
    }
}

/// Checks the answers to the access reviews of an account. If the first review failed, later ones may have no answer.
pub(crate) fn check_permissions(
    account: &str,
    grants: &[RoleGrant],
    questions: &[AccessQuestion],
    answers: &[SeenFact<bool>],
) -> Findings {
    let mut findings = Findings::default();
    for (position, grant) in grants.iter().enumerate() {
        let answered = questions.iter().zip(answers);
        let denied = answered
            .filter(|(question, answer)| question.grant == position && **answer == Ok(false))
            .map(|(question, _)| question.permission.clone());
        let denied: Vec<Permission> = denied.collect();
        if denied.is_empty() {
            continue;
        }
        let role = match &grant.namespace {
            Some(namespace) => format!("the Role {} in {namespace}", grant.role),
            None => format!("the ClusterRole {}", grant.role),
        };
        let advice = "run `cargo steersman generate rbac` and `kubectl apply -k config/rbac`; or, if the role is bound to the \
                      account, add to it:";
        let text = format!("{account} lacks rules of {role}");
        let mut finding = DoctorFinding::problem(text, advice).detail(denials(&denied));
        let rules = Permission::yaml(&denied);
        let rules = rules.lines().map(|line| format!("  {line}"));
        finding.advice.extend(rules);
        findings.0.push(finding);
    }
    if let Some(first) = answers.iter().find_map(|answer| answer.as_ref().err()) {
        let mut finding = first.finding(&format!("the permissions of {account}"));
        if first.cause == UnseenCause::Forbidden {
            finding.advice = vec![
                "choose with --context a user that may create subjectaccessreviews.authorization.k8s.io, such as a cluster \
                 administrator; or start the operator with --preflight, which asks for itself"
                    .to_owned(),
            ];
        }
        findings.0.push(finding);
    } else if findings.0.is_empty() {
        let number = questions.len();
        findings.good(format!(
            "{account} has all {number} permissions of its roles"
        ));
    }
    findings
}

#[cfg(test)]
mod tests {
    use steersman_description::Description;
    use steersman_manifests::{Manifests, Options, PolicyRule, RuleList};

    use super::*;
    use crate::doctor::finding::{FindingLevel, Unseen};

    fn grants() -> Vec<RoleGrant> {
        let mut description = Description::default();
        description.name = "greeter".to_owned();
        let mut observed = RuleList::default();
        observed.add(&PolicyRule::new(
            "",
            &["configmaps", "secrets"],
            &["get", "create"],
        ));
        observed.add(&PolicyRule::new("", &["secrets"], &["delete"]).named(&["a", "b"]));
        let manifests = Manifests::new(&description, &observed, &Options::default()).unwrap();
        manifests.grants()
    }

    #[test]
    fn denied_verbs_are_rules_to_paste() {
        let grants = grants();
        let asked = questions(&grants);
        let all: Vec<SeenFact<bool>> = asked.iter().map(|_| Ok(true)).collect();
        let found = check_permissions("greeter", &grants, &asked, &all).0;
        assert!(
            matches!(&*found, [one] if one.level == FindingLevel::Good),
            "{found:?}"
        );
        let denied = asked.iter().map(|question| {
            let permission = &question.permission;
            let RuleTarget::Resource { resource, name, .. } = &permission.target else {
                panic!("{question:?}");
            };
            let is_denied = name.is_some()
                || (permission.verb == "create" && ["configmaps", "leases"].contains(&&**resource));
            Ok(!is_denied)
        });
        let found = check_permissions("greeter", &grants, &asked, &denied.collect::<Vec<_>>()).0;
        let [own, election] = &*found else {
            panic!("{found:?}");
        };
        assert_eq!(own.text, "greeter lacks rules of the ClusterRole greeter");
        let expected = "  rules:\n  - apiGroups: [\"\"]\n    resources: [configmaps]\n    verbs: [create]\n  \
                        - apiGroups: [\"\"]\n    resources: [secrets]\n    resourceNames: [a, b]\n    verbs: [delete]";
        let lines = [
            "- create configmaps; observed: the tests saw the requests",
            "- delete secrets named a; observed: the tests saw the requests",
            "- delete secrets named b; observed: the tests saw the requests",
        ];
        assert_eq!(own.advice[..3], lines);
        assert_eq!(own.advice[4..].join("\n"), expected);
        assert_eq!(
            election.text,
            "greeter lacks rules of the Role greeter-leader-election in greeter-system"
        );
        assert_eq!(
            election.advice[0],
            "- create leases.coordination.k8s.io; implied: the replicas elect their leader; implied: with --shards, the replicas share the work"
        );
    }

    #[test]
    fn a_user_that_may_not_ask_learns_the_way_out() {
        let grants = grants();
        let asked = questions(&grants);
        let refused = [Err(Unseen::forbidden("403"))];
        let found = check_permissions("greeter", &grants, &asked, &refused).0;
        let [finding] = &*found else {
            panic!("{found:?}");
        };
        assert_eq!(finding.level, FindingLevel::Unknown);
        assert!(
            finding.advice[0].contains("subjectaccessreviews"),
            "{finding:?}"
        );
    }
}
