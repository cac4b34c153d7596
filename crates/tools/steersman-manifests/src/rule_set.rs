//! Machine: merges rules into the shortest list with the same permissions and reasons.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;
use steersman_apimachinery::verbs::position;
use steersman_object::PolicyRule;

use crate::rule_reason::{RuleOrigin, RuleReason};
use crate::yaml;

#[cfg(test)]
mod tests;

/// The verb that stands for every verb.
const ANY: &str = "*";

/// What a permission is about: a resource, an object, or a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RuleTarget {
    /// A resource, or one of its objects.
    Resource {
        /// The group; the core group is the empty text.
        group: String,
        /// The plural name, with a subresource after a slash if there is one.
        resource: String,
        /// The name of the object; `None` for all objects.
        name: Option<String>,
    },
    /// A path that is not a resource, such as `/metrics`.
    Url(String),
}

/// A verb on a resource, object or path, with the reasons for it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Permission {
    /// The resource, object or path on which the verb is granted.
    pub target: RuleTarget,
    /// The granted verb, such as `get`.
    pub verb: String,
    /// The reasons why the operator needs the verb; at least one.
    pub reasons: Vec<RuleReason>,
}

/// Distinct permissions with their reasons. Merging two sets is a union (MANIFEST-1).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RuleSet {
    granted: BTreeMap<RuleTarget, Verbs>,
}

/// The verbs granted on a target, each with its reasons. A file that is only merged has no reasons.
type Verbs = BTreeMap<String, BTreeSet<RuleReason>>;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct GrantedVerb {
    verb: String,
    /// The reasons with the first of all origins.
    reasons: Vec<RuleReason>,
}

/// A group, a resource and verbs.
type ResourceVerbs<'a> = (&'a str, &'a str, Vec<GrantedVerb>);

/// A group, the names of objects, and verbs.
type RuleGrant = (String, Vec<String>, Vec<GrantedVerb>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReasonedRule {
    pub(crate) rule: PolicyRule,
    verbs: Vec<GrantedVerb>,
}

impl Permission {
    /// Returns the `rules` of a role with these permissions, as YAML.
    #[must_use]
    pub fn yaml(permissions: &[Self]) -> String {
        let mut rules = RuleSet::default();
        for permission in permissions {
            let verbs = rules.granted.entry(permission.target.clone()).or_default();
            verbs.entry(permission.verb.clone()).or_default();
        }
        yaml::document(&json!({"rules": rules.merged()}))
    }
}

impl RuleSet {
    pub(crate) fn add_for(&mut self, rule: &PolicyRule, reason: &RuleReason) {
        self.grant(rule, Some(reason));
    }

    fn grant(&mut self, rule: &PolicyRule, reason: Option<&RuleReason>) {
        for target in targets(rule) {
            let verbs = self.granted.entry(target).or_default();
            for verb in &rule.verbs {
                let reasons = verbs.entry(verb.clone()).or_default();
                reasons.extend(reason.cloned());
            }
        }
    }

    /// Adds the permissions of several rules, without a reason.
    pub(crate) fn with<'a>(mut self, rules: impl IntoIterator<Item = &'a PolicyRule>) -> Self {
        for rule in rules {
            self.grant(rule, None);
        }
        self
    }

    /// Adds the permissions of another set, with its reasons.
    pub(crate) fn merge(&mut self, other: &Self) {
        for (target, verbs) in &other.granted {
            let merged = self.granted.entry(target.clone()).or_default();
            for (verb, reasons) in verbs {
                let all = merged.entry(verb.clone()).or_default();
                all.extend(reasons.iter().cloned());
            }
        }
    }

    /// Removes permissions that were only observed, and that another set grants.
    pub(crate) fn remove_observed(&mut self, other: &Self) {
        let is_observed = |reasons: &BTreeSet<RuleReason>| {
            let mut reasons = reasons.iter();
            reasons.all(|reason| reason.origin == RuleOrigin::Observed)
        };
        for (target, verbs) in &mut self.granted {
            if let Some(granted) = other.granted.get(target) {
                verbs.retain(|verb, reasons| !(granted.contains_key(verb) && is_observed(reasons)));
            }
        }
        self.granted.retain(|_, verbs| !verbs.is_empty());
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.granted.is_empty()
    }

    /// Returns each permission, with the reasons of the first origin.
    pub(crate) fn permissions(&self) -> Vec<Permission> {
        let granted = self.granted.iter();
        let all = granted.flat_map(|(target, verbs)| {
            let verbs = self.without_those_of_all(target, verbs).into_iter();
            verbs.map(|granted| Permission {
                target: target.clone(),
                verb: granted.verb,
                reasons: granted.reasons,
            })
        });
        all.collect()
    }

    /// Splits the permissions: those on resources that `is_chosen` accepts, by group and resource, and the rest.
    pub(crate) fn partition(self, is_chosen: impl Fn(&str, &str) -> bool) -> (Self, Self) {
        let chosen = |target: &RuleTarget| match target {
            RuleTarget::Resource {
                group, resource, ..
            } => is_chosen(group, resource),
            RuleTarget::Url(_) => false,
        };
        let granted = self.granted.into_iter();
        let (chosen, others) = granted.partition(|(target, _)| chosen(target));
        (Self { granted: chosen }, Self { granted: others })
    }

    /// Returns one rule per resource and set of object names.
    pub(crate) fn single(&self) -> Vec<PolicyRule> {
        let grants = self.grants().into_iter().flat_map(|(grant, resources)| {
            let resources = resources.into_iter();
            resources.map(move |resource| (grant.clone(), vec![resource]))
        });
        rules_of(self.sorted(grants))
    }

    /// Returns the rules. Resources of a group with equal verbs and reasons share a rule.
    pub(crate) fn merged(&self) -> Vec<PolicyRule> {
        rules_of(self.reasoned())
    }

    /// Returns the rules of [`merged`](Self::merged), each with its reasons.
    pub(crate) fn reasoned(&self) -> Vec<ReasonedRule> {
        self.sorted(self.grants())
    }

    fn sorted(
        &self,
        grants: impl IntoIterator<Item = (RuleGrant, Vec<String>)>,
    ) -> Vec<ReasonedRule> {
        let mut rules: Vec<ReasonedRule> = grants.into_iter().map(ReasonedRule::of).collect();
        rules.sort_by(|a, b| key(&a.rule).cmp(&key(&b.rule)));
        rules.extend(self.url_rules());
        rules
    }

    /// Returns the resources of each group that have the same object names and verbs.
    fn grants(&self) -> BTreeMap<RuleGrant, Vec<String>> {
        let mut by_resource: BTreeMap<ResourceVerbs<'_>, Vec<String>> = BTreeMap::new();
        for (target, verbs) in &self.granted {
            let RuleTarget::Resource {
                group,
                resource,
                name,
            } = target
            else {
                continue;
            };
            let verbs = self.without_those_of_all(target, verbs);
            if !verbs.is_empty() {
                let names = by_resource.entry((group, resource, verbs)).or_default();
                names.extend(name.clone());
            }
        }
        let mut grants: BTreeMap<RuleGrant, Vec<String>> = BTreeMap::new();
        for ((group, resource, verbs), names) in by_resource {
            let resources = grants.entry((group.to_owned(), names, verbs)).or_default();
            resources.push(resource.to_owned());
        }
        grants
    }

    /// Returns the verbs on an object that the rules for all objects of its resource do not grant.
    fn without_those_of_all(&self, target: &RuleTarget, verbs: &Verbs) -> Vec<GrantedVerb> {
        let mut verbs = ranked(verbs);
        let RuleTarget::Resource {
            group,
            resource,
            name: Some(_),
        } = target
        else {
            return verbs;
        };
        let all = RuleTarget::Resource {
            group: group.clone(),
            resource: resource.clone(),
            name: None,
        };
        if let Some(all) = self.granted.get(&all) {
            let is_of_all = |verb: &str| all.contains_key(verb) || all.contains_key(ANY);
            verbs.retain(|granted| !is_of_all(&granted.verb));
        }
        verbs
    }

    fn url_rules(&self) -> Vec<ReasonedRule> {
        let mut by_verbs: BTreeMap<Vec<GrantedVerb>, Vec<String>> = BTreeMap::new();
        for (target, verbs) in &self.granted {
            if let RuleTarget::Url(url) = target {
                by_verbs.entry(ranked(verbs)).or_default().push(url.clone());
            }
        }
        let rules = by_verbs.into_iter().map(|(verbs, urls)| ReasonedRule {
            rule: PolicyRule {
                non_resource_urls: urls,
                verbs: names_of(&verbs),
                ..PolicyRule::default()
            },
            verbs,
        });
        let mut rules: Vec<ReasonedRule> = rules.collect();
        rules.sort_by(|a, b| a.rule.non_resource_urls.cmp(&b.rule.non_resource_urls));
        rules
    }
}

impl ReasonedRule {
    fn of(((group, names, verbs), resources): (RuleGrant, Vec<String>)) -> Self {
        let rule = PolicyRule {
            api_groups: vec![group],
            resources,
            resource_names: names,
            verbs: names_of(&verbs),
            ..PolicyRule::default()
        };
        Self { rule, verbs }
    }

    /// Returns a comment line per reason. It names its verbs unless it applies to all verbs of the rule.
    pub(crate) fn comments(&self) -> Vec<String> {
        let mut by_reason: BTreeMap<&RuleReason, Vec<&str>> = BTreeMap::new();
        for granted in &self.verbs {
            for reason in &granted.reasons {
                by_reason.entry(reason).or_default().push(&granted.verb);
            }
        }
        let are_all = |verbs: &[&str]| verbs.len() == self.verbs.len();
        let lines = by_reason
            .into_iter()
            .map(|(reason, verbs)| match are_all(&verbs) {
                true => reason.to_string(),
                false => format!("{reason} ({})", verbs.join(", ")),
            });
        lines.collect()
    }
}

pub(crate) fn targets(rule: &PolicyRule) -> Vec<RuleTarget> {
    let mut names: Vec<Option<&String>> = rule.resource_names.iter().map(Some).collect();
    if names.is_empty() {
        names.push(None);
    }
    let mut targets = Vec::new();
    for group in &rule.api_groups {
        for resource in &rule.resources {
            targets.extend(names.iter().map(|name| RuleTarget::Resource {
                group: group.clone(),
                resource: resource.clone(),
                name: name.cloned(),
            }));
        }
    }
    targets.extend(rule.non_resource_urls.iter().cloned().map(RuleTarget::Url));
    targets
}

/// Returns the verbs in their usual order; `*` replaces all of them.
fn ranked(verbs: &Verbs) -> Vec<GrantedVerb> {
    let granted = |verb: &str, reasons: &BTreeSet<RuleReason>| {
        let first = reasons.first().map(|reason| reason.origin);
        let of_first = reasons.iter().filter(|reason| Some(reason.origin) == first);
        GrantedVerb {
            verb: verb.to_owned(),
            reasons: of_first.cloned().collect(),
        }
    };
    if let Some(reasons) = verbs.get(ANY) {
        return vec![granted(ANY, reasons)];
    }
    let mut verbs: Vec<GrantedVerb> = verbs
        .iter()
        .map(|(verb, reasons)| granted(verb, reasons))
        .collect();
    verbs.sort_by_key(|granted| position(&granted.verb));
    verbs
}

fn names_of(verbs: &[GrantedVerb]) -> Vec<String> {
    verbs.iter().map(|granted| granted.verb.clone()).collect()
}

fn rules_of(rules: Vec<ReasonedRule>) -> Vec<PolicyRule> {
    rules.into_iter().map(|reasoned| reasoned.rule).collect()
}

/// Returns the sort key of a rule: groups, resources, object names.
fn key(rule: &PolicyRule) -> (&[String], &[String], &[String]) {
    (&rule.api_groups, &rule.resources, &rule.resource_names)
}
