//! Machine: merges rules into the shortest list that grants the same.

use std::collections::{BTreeMap, BTreeSet};

use steersman_text::verbs::position;

use crate::rule::PolicyRule;

#[cfg(test)]
mod tests;

/// Every verb, in a rule.
const ANY: &str = "*";

/// What a verb is granted on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Target {
    /// A resource, or one object of it.
    Resource {
        group: String,
        resource: String,
        name: Option<String>,
    },
    /// A path that is no object.
    Url(String),
}

/// Permissions, each once: merging is a union. (MANIFEST-1)
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RuleSet {
    granted: BTreeMap<Target, BTreeSet<String>>,
}

/// A verb that orders as in the list of verbs.
type RankedVerb = (usize, String);

/// A group, a resource and verbs.
type ResourceVerbs<'a> = (&'a str, &'a str, Vec<RankedVerb>);

/// A group, the names of objects, and verbs.
type Grant = (String, Vec<String>, Vec<RankedVerb>);

impl RuleSet {
    /// Grants what the rule grants.
    pub(crate) fn add(&mut self, rule: &PolicyRule) {
        for target in targets(rule) {
            let verbs = self.granted.entry(target).or_default();
            verbs.extend(rule.verbs.iter().cloned());
        }
    }

    /// Grants what the rules grant.
    pub(crate) fn with<'a>(mut self, rules: impl IntoIterator<Item = &'a PolicyRule>) -> Self {
        for rule in rules {
            self.add(rule);
        }
        self
    }

    /// Divides the permissions into those on the chosen resources, given as group and resource, and all others.
    pub(crate) fn partition(self, is_chosen: impl Fn(&str, &str) -> bool) -> (Self, Self) {
        let chosen = |target: &Target| match target {
            Target::Resource {
                group, resource, ..
            } => is_chosen(group, resource),
            Target::Url(_) => false,
        };
        let parts = self
            .granted
            .into_iter()
            .partition(|(target, _)| chosen(target));
        let (chosen, others) = parts;
        (Self { granted: chosen }, Self { granted: others })
    }

    /// Returns one rule per resource, with the names of its objects.
    pub(crate) fn single(&self) -> Vec<PolicyRule> {
        let grants = self.grants().into_iter().flat_map(|(grant, resources)| {
            let resources = resources.into_iter();
            resources.map(move |resource| (grant.clone(), vec![resource]))
        });
        let mut rules: Vec<PolicyRule> = grants.map(to_rule).collect();
        rules.sort_by(|a, b| key(a).cmp(&key(b)));
        rules.extend(self.url_rules());
        rules
    }

    /// Returns the rules, in which resources of one group with equal verbs are together.
    pub(crate) fn merged(&self) -> Vec<PolicyRule> {
        let mut rules: Vec<PolicyRule> = self.grants().into_iter().map(to_rule).collect();
        rules.sort_by(|a, b| key(a).cmp(&key(b)));
        rules.extend(self.url_rules());
        rules
    }

    /// Returns the resources of each group that have the same names and verbs.
    fn grants(&self) -> BTreeMap<Grant, Vec<String>> {
        let mut by_resource: BTreeMap<ResourceVerbs<'_>, Vec<String>> = BTreeMap::new();
        for (target, verbs) in &self.granted {
            let Target::Resource {
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
        let mut grants: BTreeMap<Grant, Vec<String>> = BTreeMap::new();
        for ((group, resource, verbs), names) in by_resource {
            let resources = grants.entry((group.to_owned(), names, verbs)).or_default();
            resources.push(resource.to_owned());
        }
        grants
    }

    /// Returns the verbs that a target has and that all objects of the resource do not have.
    fn without_those_of_all(&self, target: &Target, verbs: &BTreeSet<String>) -> Vec<RankedVerb> {
        let mut verbs = ranked(verbs);
        let Target::Resource {
            group,
            resource,
            name: Some(_),
        } = target
        else {
            return verbs;
        };
        let all = Target::Resource {
            group: group.clone(),
            resource: resource.clone(),
            name: None,
        };
        if let Some(all) = self.granted.get(&all) {
            verbs.retain(|(_, verb)| !all.contains(verb) && !all.contains(ANY));
        }
        verbs
    }

    fn url_rules(&self) -> Vec<PolicyRule> {
        let mut by_verbs: BTreeMap<Vec<RankedVerb>, Vec<String>> = BTreeMap::new();
        for (target, verbs) in &self.granted {
            if let Target::Url(url) = target {
                by_verbs.entry(ranked(verbs)).or_default().push(url.clone());
            }
        }
        let rules = by_verbs.into_iter().map(|(verbs, urls)| PolicyRule {
            non_resource_urls: urls,
            verbs: unranked(verbs),
            ..PolicyRule::default()
        });
        let mut rules: Vec<PolicyRule> = rules.collect();
        rules.sort_by(|a, b| a.non_resource_urls.cmp(&b.non_resource_urls));
        rules
    }
}

fn targets(rule: &PolicyRule) -> Vec<Target> {
    let names: Vec<Option<&String>> = if rule.resource_names.is_empty() {
        vec![None]
    } else {
        rule.resource_names.iter().map(Some).collect()
    };
    let mut targets = Vec::new();
    for group in &rule.api_groups {
        for resource in &rule.resources {
            targets.extend(names.iter().map(|name| Target::Resource {
                group: group.clone(),
                resource: resource.clone(),
                name: name.cloned(),
            }));
        }
    }
    targets.extend(rule.non_resource_urls.iter().cloned().map(Target::Url));
    targets
}

/// Returns the verbs in their order. `*` stands for all of them.
fn ranked(verbs: &BTreeSet<String>) -> Vec<RankedVerb> {
    if verbs.contains(ANY) {
        return vec![(0, ANY.to_owned())];
    }
    let verbs = verbs.iter();
    let mut verbs: Vec<RankedVerb> = verbs.map(|verb| (position(verb), verb.clone())).collect();
    verbs.sort();
    verbs
}

fn unranked(verbs: Vec<RankedVerb>) -> Vec<String> {
    verbs.into_iter().map(|(_, verb)| verb).collect()
}

fn to_rule(((group, names, verbs), resources): (Grant, Vec<String>)) -> PolicyRule {
    PolicyRule {
        api_groups: vec![group],
        resources,
        resource_names: names,
        verbs: unranked(verbs),
        ..PolicyRule::default()
    }
}

/// Returns what rules are sorted by: group, resources, names.
fn key(rule: &PolicyRule) -> (&[String], &[String], &[String]) {
    (&rule.api_groups, &rule.resources, &rule.resource_names)
}
