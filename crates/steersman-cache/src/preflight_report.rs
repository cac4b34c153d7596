//! Machine: what the informers of a cache are not allowed, and the rules that would allow it.

use std::collections::BTreeMap;
use std::fmt;

use steersman_object::Kind;

/// What a [preflight](crate::Cache::preflight) found: what keeps the cache's informers from working
/// with the credentials and the server there are.
///
/// Displays as a text for people: what is not served, what is not allowed, and the Roles and
/// ClusterRoles to paste.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Preflight {
    /// Every kind, and namespace of it, of which some verb is not allowed.
    pub missing: Vec<MissingRule>,
    /// The kinds that the server does not serve, with what to do about it where that is known.
    pub not_served: Vec<(Kind, Option<String>)>,
}

/// Verbs that one informer, or who reads its objects live, needs and is not allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MissingRule {
    /// The kind that is to be read.
    pub kind: Kind,
    /// The namespace in which; `None` for all of them, and for kinds that have none.
    pub namespace: Option<String>,
    /// The name of the one object that is to be read, where the kind is cached by a field selector
    /// that requires `metadata.name`; `None` for all objects.
    pub name: Option<String>,
    /// What is not allowed, of `get`, `list` and `watch`.
    pub verbs: Vec<&'static str>,
}

impl Preflight {
    /// Whether nothing is missing.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.missing.is_empty() && self.not_served.is_empty()
    }

    /// The missing rules as YAML: one ClusterRole for what is read everywhere, and one Role for each
    /// namespace. Empty where none are missing.
    ///
    /// Each is called `name`. They allow what is missing and no more, and bind nobody.
    #[must_use]
    pub fn rules(&self, name: &str) -> String {
        let mut roles: BTreeMap<Option<&str>, Vec<&MissingRule>> = BTreeMap::new();
        for rule in &self.missing {
            let role = roles.entry(rule.namespace.as_deref()).or_default();
            role.push(rule);
        }
        let documents: Vec<String> = roles
            .iter()
            .map(|(namespace, rules)| role(name, *namespace, rules))
            .collect();
        documents.join("---\n")
    }
}

fn role(name: &str, namespace: Option<&str>, rules: &[&MissingRule]) -> String {
    let (kind, placed) = match namespace {
        Some(namespace) => ("Role", format!("  namespace: {namespace}\n")),
        None => ("ClusterRole", String::new()),
    };
    let rules: String = rules.iter().map(|rule| rule.yaml()).collect();
    format!(
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: {kind}\nmetadata:\n  name: {name}\n\
         {placed}rules:\n{rules}"
    )
}

impl MissingRule {
    fn yaml(&self) -> String {
        let name = self.name.iter();
        let names: String = name
            .map(|name| format!("  resourceNames: [{name:?}]\n"))
            .collect();
        format!(
            "- apiGroups: [{:?}]\n  resources: [{:?}]\n{names}  verbs: [{}]\n",
            self.kind.gvk().group(),
            self.kind.plural(),
            self.verbs.join(", ")
        )
    }
}

impl fmt::Display for MissingRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {}",
            self.verbs.join(", "),
            self.kind.qualified_plural()
        )?;
        if let Some(name) = &self.name {
            write!(f, " named {name:?}")?;
        }
        match &self.namespace {
            Some(namespace) => write!(f, " in namespace {namespace:?}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Preflight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_ready() {
            return f.write_str("the cache may read all that it is to");
        }
        for (kind, way_out) in &self.not_served {
            write!(f, "not served: {kind}")?;
            match way_out {
                Some(way_out) => writeln!(f, "; {way_out}")?,
                None => writeln!(f)?,
            }
        }
        for rule in &self.missing {
            writeln!(f, "not allowed: {rule}")?;
        }
        if self.missing.is_empty() {
            return Ok(());
        }
        writeln!(
            f,
            "what would allow it, bound to the operator's service account:"
        )?;
        f.write_str(&self.rules("operator-cache"))
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::Deployment;
    use k8s_openapi::api::core::v1::{ConfigMap, Node};
    use steersman_object::TypedObject;

    use super::*;

    fn missing<K: TypedObject>(namespace: Option<&str>, verbs: &[&'static str]) -> MissingRule {
        MissingRule {
            kind: Kind::of::<K>(),
            namespace: namespace.map(Into::into),
            name: None,
            verbs: verbs.to_vec(),
        }
    }

    #[test]
    fn rules_are_gathered_by_where_they_are_needed() {
        let found = Preflight {
            missing: vec![
                missing::<Deployment>(Some("web"), &["list", "watch"]),
                missing::<Node>(None, &["watch"]),
                missing::<ConfigMap>(Some("web"), &["get"]),
            ],
            not_served: Vec::new(),
        };
        let expected = "\
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: x
rules:
- apiGroups: [\"\"]
  resources: [\"nodes\"]
  verbs: [watch]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: x
  namespace: web
rules:
- apiGroups: [\"apps\"]
  resources: [\"deployments\"]
  verbs: [list, watch]
- apiGroups: [\"\"]
  resources: [\"configmaps\"]
  verbs: [get]
";
        assert_eq!(found.rules("x"), expected);
        let text = found.to_string();
        assert!(
            text.starts_with("not allowed: list, watch deployments.apps in namespace \"web\"\n"),
            "{text}"
        );
        assert!(text.contains("not allowed: watch nodes\n"), "{text}");
        assert!(Preflight::default().is_ready() && Preflight::default().rules("x").is_empty());
    }
}
