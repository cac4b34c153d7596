//! Machine: which rules of the generated roles the operator's account lacks.

use steersman_manifests::{PolicyRule, RoleGrant};

use crate::doctor::finding::{Finding, Seen, UnseenCause};

/// A question of one access review: one verb on one resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AccessQuestion {
    /// The role that grants it, as its position among the grants.
    pub(crate) grant: usize,
    /// The namespace; `None` for all of them.
    pub(crate) namespace: Option<String>,
    pub(crate) target: AccessTarget,
    pub(crate) verb: String,
}

/// What a verb is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AccessTarget {
    Object {
        group: String,
        /// The plural name, with a subresource after a slash.
        resource: String,
        /// The name; `None` for all objects.
        name: Option<String>,
    },
    /// A path that is no object.
    Path(String),
}

/// Returns a question for each verb, resource and name of the rules.
pub(crate) fn questions(grants: &[RoleGrant]) -> Vec<AccessQuestion> {
    let mut questions = Vec::new();
    for (position, grant) in grants.iter().enumerate() {
        for rule in &grant.rules {
            for target in targets(rule) {
                questions.extend(rule.verbs.iter().map(|verb| AccessQuestion {
                    grant: position,
                    namespace: grant.namespace.clone(),
                    target: target.clone(),
                    verb: verb.clone(),
                }));
            }
        }
    }
    questions
}

fn targets(rule: &PolicyRule) -> Vec<AccessTarget> {
    let mut names: Vec<Option<String>> = rule.resource_names.iter().cloned().map(Some).collect();
    if names.is_empty() {
        names.push(None);
    }
    let mut targets = Vec::new();
    for group in &rule.api_groups {
        for resource in &rule.resources {
            targets.extend(names.iter().map(|name| AccessTarget::Object {
                group: group.clone(),
                resource: resource.clone(),
                name: name.clone(),
            }));
        }
    }
    let paths = rule.non_resource_urls.iter().cloned();
    targets.extend(paths.map(AccessTarget::Path));
    targets
}

impl AccessQuestion {
    fn rule(&self) -> PolicyRule {
        let verbs = vec![self.verb.clone()];
        match &self.target {
            AccessTarget::Object {
                group,
                resource,
                name,
            } => PolicyRule {
                api_groups: vec![group.clone()],
                resources: vec![resource.clone()],
                resource_names: name.iter().cloned().collect(),
                verbs,
                ..PolicyRule::default()
            },
            AccessTarget::Path(path) => PolicyRule {
                non_resource_urls: vec![path.clone()],
                verbs,
                ..PolicyRule::default()
            },
        }
    }
}

/// Checks the answers for an account. There may be fewer answers than questions if the first one failed.
pub(crate) fn check_permissions(
    account: &str,
    grants: &[RoleGrant],
    questions: &[AccessQuestion],
    answers: &[Seen<bool>],
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (position, grant) in grants.iter().enumerate() {
        let answered = questions.iter().zip(answers);
        let denied = answered
            .filter(|(question, answer)| question.grant == position && **answer == Ok(false))
            .map(|(question, _)| question.rule());
        let denied: Vec<PolicyRule> = denied.collect();
        if denied.is_empty() {
            continue;
        }
        let lacking = grant.with_rules(&denied);
        let role = match &grant.namespace {
            Some(namespace) => format!("the Role {} in {namespace}", grant.role),
            None => format!("the ClusterRole {}", grant.role),
        };
        let text = format!("{account} lacks rules of {role}");
        let advice = "run `cargo steersman generate rbac` and `kubectl apply -k config/rbac`; or, if the role is bound to \
                      the account, add to it:";
        let finding = Finding::problem(text, advice);
        findings.push(
            lacking
                .yaml()
                .lines()
                .fold(finding, |finding, line| finding.advise(format!("  {line}"))),
        );
    }
    let failed: Vec<_> = answers
        .iter()
        .filter_map(|answer| answer.as_ref().err())
        .collect();
    if let Some(first) = failed.first() {
        let mut finding = first.finding(&format!("the permissions of {account}"));
        if first.cause == UnseenCause::Forbidden {
            finding.advice = vec![
                "choose with --context a user that may create subjectaccessreviews.authorization.k8s.io, such as a cluster \
                 administrator; or start the operator with --preflight, which asks for itself"
                    .to_owned(),
            ];
        }
        findings.push(finding);
    } else if findings.is_empty() {
        let number = questions.len();
        findings.push(Finding::good(format!(
            "{account} has all {number} permissions of its roles"
        )));
    }
    findings
}

#[cfg(test)]
mod tests {
    use steersman_cli::Description;
    use steersman_manifests::{Manifests, Options, RuleList};

    use super::*;
    use crate::doctor::finding::{Level, Unseen};

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
        let all: Vec<Seen<bool>> = asked.iter().map(|_| Ok(true)).collect();
        let found = check_permissions("greeter", &grants, &asked, &all);
        assert!(
            matches!(&*found, [one] if one.level == Level::Good),
            "{found:?}"
        );
        let denied = asked.iter().map(|question| {
            let AccessTarget::Object { resource, name, .. } = &question.target else {
                panic!("{question:?}");
            };
            let is_denied = name.is_some()
                || (question.verb == "create" && ["configmaps", "leases"].contains(&&**resource));
            Ok(!is_denied)
        });
        let found = check_permissions("greeter", &grants, &asked, &denied.collect::<Vec<_>>());
        let [own, election] = &*found else {
            panic!("{found:?}");
        };
        assert_eq!(own.text, "greeter lacks rules of the ClusterRole greeter");
        let expected = "  rules:\n  - apiGroups: [\"\"]\n    resources: [configmaps]\n    verbs: [create]\n  \
                        - apiGroups: [\"\"]\n    resources: [secrets]\n    resourceNames: [a, b]\n    verbs: [delete]";
        assert_eq!(own.advice[1..].join("\n"), expected);
        assert_eq!(
            election.text,
            "greeter lacks rules of the Role greeter-leader-election in greeter-system"
        );
    }

    #[test]
    fn a_user_that_may_not_ask_learns_the_way_out() {
        let grants = grants();
        let asked = questions(&grants);
        let found = check_permissions("greeter", &grants, &asked, &[Err(Unseen::forbidden("403"))]);
        let [finding] = &*found else {
            panic!("{found:?}");
        };
        assert_eq!(finding.level, Level::Unknown);
        assert!(
            finding.advice[0].contains("subjectaccessreviews"),
            "{finding:?}"
        );
    }
}
