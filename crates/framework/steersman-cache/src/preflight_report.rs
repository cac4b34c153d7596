//! Machine: the permissions that the informers of a cache lack, and the RBAC rules that grant them.

use std::collections::BTreeMap;
use std::fmt;

use steersman_object::Kind;

/// The result of a [preflight](crate::Cache::preflight): missing permissions and kinds that the server does not serve.
///
/// Displays as text for people, including the Roles and ClusterRoles to apply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Preflight {
    /// The missing permissions, one element per informer.
    pub missing: Vec<MissingRule>,
    /// The kinds that the server does not serve, each with a remedy if one is known.
    pub not_served: Vec<(Kind, Option<String>)>,
    /// Missing permissions that only some programs need: `create` and `patch` of Events, for programs
    /// that record them. They do not affect [`is_ready`](Self::is_ready).
    pub advice: Vec<MissingRule>,
}

/// The verbs on one kind that an informer or a live read needs and the credentials may not use.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MissingRule {
    /// The kind that the verbs are denied for.
    pub kind: Kind,
    /// The namespace of the needed rule; `None` for all namespaces and for cluster-scoped kinds.
    pub namespace: Option<String>,
    /// The only object to read, if the kind is cached by a field selector that requires
    /// `metadata.name`; `None` for all objects.
    pub name: Option<String>,
    /// The denied verbs; for an informer some of `get`, `list` and `watch`.
    pub verbs: Vec<&'static str>,
}

impl Preflight {
    /// Returns whether all permissions are granted and all kinds are served.
    pub fn is_ready(&self) -> bool {
        self.missing.is_empty() && self.not_served.is_empty()
    }

    /// Returns the missing rules as YAML, including those of [`advice`](Self::advice): one ClusterRole for cluster-wide
    /// access, and one Role per namespace. Empty if no rule is missing.
    ///
    /// Each role has the name `name` and grants the missing verbs only. No bindings are included.
    pub fn rules(&self, name: &str) -> String {
        let mut roles: BTreeMap<Option<&str>, Vec<&MissingRule>> = BTreeMap::new();
        for rule in self.missing.iter().chain(&self.advice) {
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
            f.write_str("the cache has all permissions that it needs")?;
            for rule in &self.advice {
                write!(f, "; not allowed: {rule}, for programs that record Events")?;
            }
            return Ok(());
        }
        for (kind, remedy) in &self.not_served {
            write!(f, "not served: {kind}")?;
            match remedy {
                Some(remedy) => writeln!(f, "; {remedy}")?,
                None => writeln!(f)?,
            }
        }
        for rule in &self.missing {
            writeln!(f, "not allowed: {rule}")?;
        }
        for rule in &self.advice {
            writeln!(f, "not allowed: {rule}, for programs that record Events")?;
        }
        if self.missing.is_empty() && self.advice.is_empty() {
            return Ok(());
        }
        writeln!(f, "bind these roles to the operator's service account:")?;
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
    fn missing_rules_are_grouped_into_one_role_per_namespace() {
        let found = Preflight {
            missing: vec![
                missing::<Deployment>(Some("web"), &["list", "watch"]),
                missing::<Node>(None, &["watch"]),
                missing::<ConfigMap>(Some("web"), &["get"]),
            ],
            not_served: Vec::new(),
            advice: Vec::new(),
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
