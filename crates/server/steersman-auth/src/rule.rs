//! Machine: one rule of a role: the requests that the rule allows, and whether the rule covers another rule.

use std::collections::BTreeMap;

use serde_json::Value;
use steersman_apimachinery::go;

use super::attributes::Attributes;

/// Maximum number of single permissions into which a rule is split for comparisons. A rule has as many as the product
/// of the lengths of its lists, which clients choose.
const MOST_PARTS: usize = 10_000;

/// A rule of a role.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rule<'a> {
    /// The verbs that the rule allows (`verbs`); `*` stands for all verbs.
    pub verbs: Vec<&'a str>,
    /// The API groups of the resources (`apiGroups`); `*` stands for all groups.
    pub groups: Vec<&'a str>,
    /// The resources, with a subresource after a slash (`resources`); `*` stands for all resources.
    pub resources: Vec<&'a str>,
    /// The names of the objects (`resourceNames`); empty for all objects.
    pub names: Vec<&'a str>,
    /// The paths that are no resources (`nonResourceURLs`); a path may end in a star.
    pub urls: Vec<&'a str>,
}

impl<'a> Rule<'a> {
    /// Reads an item in the `rules` of a role.
    pub fn read(rule: &'a Value) -> Self {
        let texts = |field: &str| -> Vec<&'a str> {
            let list = rule[field].as_array().into_iter().flatten();
            list.filter_map(Value::as_str).collect()
        };
        Self {
            verbs: texts("verbs"),
            groups: texts("apiGroups"),
            resources: texts("resources"),
            names: texts("resourceNames"),
            urls: texts("nonResourceURLs"),
        }
    }

    /// Returns the rules of a Role or ClusterRole.
    pub fn all(role: &'a Value) -> impl Iterator<Item = Rule<'a>> + use<'a> {
        let rules = role["rules"].as_array().into_iter();
        rules.flatten().map(Rule::read)
    }

    /// Returns the rules that together allow everything.
    pub fn everything() -> [Self; 2] {
        let resources = Self {
            verbs: vec!["*"],
            groups: vec!["*"],
            resources: vec!["*"],
            ..Self::default()
        };
        let urls = Self {
            verbs: vec!["*"],
            urls: vec!["*"],
            ..Self::default()
        };
        [resources, urls]
    }

    /// Returns whether the rule allows a request (upstream: `rbac.RuleAllows`).
    pub fn allows(&self, asked: &Attributes) -> bool {
        if !holds(&self.verbs, &asked.verb) {
            return false;
        }
        if let Some(path) = &asked.path {
            return self.urls.iter().any(|own| url_covers(own, path));
        }
        holds(&self.groups, &asked.group)
            && self.has_resource(&asked.full_resource(), &asked.subresource)
            && (self.names.is_empty() || self.names.contains(&asked.name.as_str()))
    }

    /// Returns whether the rule names a resource. `full` is the resource with its subresource after a slash. `*` stands
    /// for all resources and subresources, `*/x` for the subresource `x` of every resource.
    fn has_resource(&self, full: &str, subresource: &str) -> bool {
        self.resources.iter().any(|own| {
            *own == "*"
                || *own == full
                || (!subresource.is_empty() && own.strip_prefix("*/") == Some(subresource))
        })
    }

    /// Splits the rule into rules with one permission each, unless it has more than [`MOST_PARTS`] permissions.
    fn parts(&self) -> Vec<Self> {
        let many = self.groups.len().saturating_mul(self.resources.len());
        let many = many.saturating_mul(self.names.len().max(1));
        let many = many.saturating_add(self.urls.len());
        if many.saturating_mul(self.verbs.len()) > MOST_PARTS {
            return vec![self.clone()];
        }
        let mut parts = Vec::new();
        let names: Vec<Vec<&str>> = if self.names.is_empty() {
            vec![Vec::new()]
        } else {
            self.names.iter().map(|name| vec![*name]).collect()
        };
        for group in &self.groups {
            for resource in &self.resources {
                for verb in &self.verbs {
                    parts.extend(names.iter().map(|names| Self {
                        verbs: vec![verb],
                        groups: vec![group],
                        resources: vec![resource],
                        names: names.clone(),
                        urls: Vec::new(),
                    }));
                }
            }
        }
        for url in &self.urls {
            parts.extend(self.verbs.iter().map(|verb| Self {
                verbs: vec![verb],
                urls: vec![url],
                ..Self::default()
            }));
        }
        parts
    }

    /// Returns whether this rule allows everything that another rule allows (upstream: `ruleCovers`).
    fn covers(&self, other: &Self) -> bool {
        let all = |own: &[&str], wanted: &[&str]| wanted.iter().all(|one| holds(own, one));
        let resource = |full: &&str| {
            let subresource = full.split_once('/').map_or("", |(_, below)| below);
            self.has_resource(full, subresource)
        };
        let named = self.names.is_empty()
            || (!other.names.is_empty() && other.names.iter().all(|one| self.names.contains(one)));
        named
            && all(&self.verbs, &other.verbs)
            && all(&self.groups, &other.groups)
            && other.resources.iter().all(resource)
            && other
                .urls
                .iter()
                .all(|url| self.urls.iter().any(|own| url_covers(own, url)))
    }

    /// Returns the rule as an item in the `rules` of a role, without empty lists.
    pub(super) fn to_value(&self) -> Value {
        let lists = [
            ("verbs", &self.verbs),
            ("apiGroups", &self.groups),
            ("resources", &self.resources),
            ("resourceNames", &self.names),
            ("nonResourceURLs", &self.urls),
        ];
        let lists = lists.into_iter().filter(|(_, list)| !list.is_empty());
        lists
            .map(|(name, list)| (name.to_owned(), Value::from(list.clone())))
            .collect()
    }

    /// Formats the rule as the message of a refusal shows it.
    fn describe(&self) -> String {
        let lists = [
            ("APIGroups", &self.groups),
            ("Resources", &self.resources),
            ("NonResourceURLs", &self.urls),
            ("ResourceNames", &self.names),
            ("Verbs", &self.verbs),
        ];
        let lists = lists.iter().filter(|(_, list)| !list.is_empty());
        let print = |(name, list): &(&str, &Vec<&str>)| format!("{name}:{}", quoted(list));
        let parts: Vec<String> = lists.map(print).collect();
        format!("{{{}}}", parts.join(", "))
    }
}

/// Formats texts as Go prints a list with `%q`.
pub(super) fn quoted<T: AsRef<str>>(list: &[T]) -> String {
    let all: Vec<String> = list.iter().map(|one| go::quote(one.as_ref())).collect();
    format!("[{}]", all.join(" "))
}

fn holds(list: &[&str], wanted: &str) -> bool {
    list.iter().any(|own| *own == "*" || *own == wanted)
}

/// Returns whether the path in a rule, which may end in a star, matches the path of a request.
fn url_covers(own: &str, path: &str) -> bool {
    own == "*" || own == path || (own.ends_with('*') && path.starts_with(own.trim_end_matches('*')))
}

/// Returns the permissions in `wanted` that no rule in `held` covers, each as a rule (upstream: `validation.Covers`).
pub(super) fn uncovered<'a>(held: &[Rule<'a>], wanted: &[Rule<'a>]) -> Vec<Rule<'a>> {
    let parts = wanted.iter().flat_map(Rule::parts);
    parts
        .filter(|part| !held.iter().any(|own| own.covers(part)))
        .collect()
}

/// Returns the permissions in `wanted` that `held` lacks, one line per resource (upstream: `ConfirmNoEscalation`).
pub(super) fn missing<'a>(held: &[Rule<'a>], wanted: &[Rule<'a>]) -> Vec<String> {
    let mut simple: BTreeMap<(&str, &str), Rule<'a>> = BTreeMap::new();
    let mut lines = Vec::new();
    for part in uncovered(held, wanted) {
        match (part.groups.as_slice(), part.resources.as_slice()) {
            ([group], [resource]) if part.names.is_empty() => {
                let known = simple.entry((*group, *resource));
                known
                    .and_modify(|rule| rule.verbs.extend(&part.verbs))
                    .or_insert(part);
            }
            _ => lines.push(part.describe()),
        }
    }
    lines.extend(simple.values().map(Rule::describe));
    lines.sort_unstable();
    lines.dedup();
    lines
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn asked(verb: &str, resource: &str, subresource: &str) -> Attributes {
        let mut asked = Attributes::of(verb, "apps", resource, "x");
        subresource.clone_into(&mut asked.subresource);
        asked
    }

    #[test]
    fn stars_in_rules_match_as_upstream() {
        let rule = json!({"verbs": ["get"], "apiGroups": ["*"], "resources": ["*/scale", "jobs"]});
        let rule = Rule::read(&rule);
        assert!(rule.allows(&asked("get", "deployments", "scale")));
        assert!(!rule.allows(&asked("get", "deployments", "")));
        assert!(rule.allows(&asked("get", "jobs", "")));
        assert!(!rule.allows(&asked("get", "jobs", "status")));
        assert!(!rule.allows(&asked("list", "jobs", "")));
        let all = json!({"verbs": ["*"], "apiGroups": ["apps"], "resources": ["*"]});
        assert!(Rule::read(&all).allows(&asked("odd", "jobs", "status")));
    }

    #[test]
    fn a_rule_with_names_does_not_match_a_collection() {
        let rule = json!({"verbs": ["get", "list"], "apiGroups": ["apps"], "resources": ["jobs"],
            "resourceNames": ["x"]});
        let rule = Rule::read(&rule);
        assert!(rule.allows(&asked("get", "jobs", "")));
        let mut all = asked("list", "jobs", "");
        all.name.clear();
        assert!(!rule.allows(&all));
    }

    #[test]
    fn a_path_matches_exactly_or_by_the_prefix_before_a_star() {
        let rule = json!({"verbs": ["get"], "nonResourceURLs": ["/a", "/b/*"]});
        let rule = Rule::read(&rule);
        let asks = |path: &str| Attributes {
            verb: "get".to_owned(),
            path: Some(path.to_owned()),
            ..Attributes::default()
        };
        assert!(rule.allows(&asks("/a")) && rule.allows(&asks("/b/c/d")));
        assert!(!rule.allows(&asks("/a/b")) && !rule.allows(&asks("/b")));
        // A rule with paths allows no requests for resources.
        assert!(!rule.allows(&asked("get", "jobs", "")));
    }

    /// AUTH-3: the refusal lists the missing permissions, with the verbs for one resource together.
    #[test]
    fn missing_permissions_are_listed_by_resource() {
        let held = [json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods", "*/log"]})];
        let held: Vec<Rule<'_>> = held.iter().map(Rule::read).collect();
        let wanted = [
            json!({"verbs": ["get", "list", "watch"], "apiGroups": [""], "resources": ["pods"]}),
            json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods/log"]}),
            json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"],
                "resourceNames": ["x"]}),
            json!({"verbs": ["list"], "apiGroups": [""], "resources": ["pods"],
                "resourceNames": ["x", "y"]}),
            json!({"verbs": ["get"], "nonResourceURLs": ["/metrics"]}),
        ];
        let wanted: Vec<Rule<'_>> = wanted.iter().map(Rule::read).collect();
        assert_eq!(
            missing(&held, &wanted),
            [
                r#"{APIGroups:[""], Resources:["pods"], ResourceNames:["x"], Verbs:["list"]}"#,
                r#"{APIGroups:[""], Resources:["pods"], ResourceNames:["y"], Verbs:["list"]}"#,
                r#"{APIGroups:[""], Resources:["pods"], Verbs:["list" "watch"]}"#,
                r#"{NonResourceURLs:["/metrics"], Verbs:["get"]}"#,
            ]
        );
        assert!(missing(&Rule::everything(), &wanted).is_empty());
    }

    #[test]
    fn a_rule_for_one_name_does_not_cover_all_names() {
        let held = json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"],
            "resourceNames": ["x"]});
        let wanted = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]});
        assert_eq!(
            missing(&[Rule::read(&held)], &[Rule::read(&wanted)]).len(),
            1
        );
    }

    #[test]
    fn a_rule_with_too_many_permissions_is_compared_as_a_whole() {
        let many: Vec<String> = (0..2_000).map(|n| n.to_string()).collect();
        let wanted = json!({"verbs": many, "apiGroups": many, "resources": many,
            "resourceNames": many});
        let wanted = [Rule::read(&wanted)];
        assert_eq!(missing(&[], &wanted).len(), 1);
        assert!(missing(&Rule::everything(), &wanted).is_empty());
    }
}
