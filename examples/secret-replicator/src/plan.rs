//! Machine: compares the copies of a source with the namespaces that shall have one.

use std::collections::BTreeSet;
use std::sync::Arc;

use steersman::object::Object as _;

use crate::names::{ACCEPT, NAMESPACES, NamespaceMeta, SecretMeta, annotation, label};

/// The copies of one source.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plan {
    /// The namespaces without the copy that they shall have.
    pub(crate) missing: Vec<String>,
    /// The copies that shall exist.
    pub(crate) wanted: Vec<Arc<SecretMeta>>,
    /// The copies that shall not exist.
    pub(crate) surplus: Vec<Arc<SecretMeta>>,
}

/// Compares the copies of a source with its annotation and the namespaces. Without a source all copies are surplus.
pub(crate) fn plan(
    source: Option<&SecretMeta>,
    namespaces: &[Arc<NamespaceMeta>],
    copies: Vec<Arc<SecretMeta>>,
) -> Plan {
    let targets = namespaces
        .iter()
        .filter(|namespace| source.is_some_and(|source| is_target(source, namespace)));
    let targets = targets.filter_map(|namespace| namespace.metadata.name.as_deref());
    let mut missing: BTreeSet<&str> = targets.collect();
    let mut plan = Plan::default();
    for copy in copies {
        let is_named_as_source =
            source.is_some_and(|source| source.metadata.name == copy.metadata.name);
        let namespace = copy.metadata.namespace.as_deref().unwrap_or_default();
        if is_named_as_source && missing.remove(namespace) {
            plan.wanted.push(copy);
        } else {
            plan.surplus.push(copy);
        }
    }
    plan.missing = missing.into_iter().map(str::to_owned).collect();
    plan
}

/// Returns whether a namespace shall have a copy of a source.
pub(crate) fn is_target(source: &SecretMeta, namespace: &NamespaceMeta) -> bool {
    let name = namespace.metadata.name.as_deref().unwrap_or_default();
    let names = annotation(source, NAMESPACES).unwrap_or_default();
    names
        .split(',')
        .any(|pattern| matches(pattern.trim(), name))
        && label(namespace, ACCEPT) == Some("true")
        && !namespace.is_being_deleted()
        && source.metadata.namespace.as_deref() != Some(name)
}

fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(begin) => name.starts_with(begin),
        None => name == pattern,
    }
}

#[cfg(test)]
mod tests;
