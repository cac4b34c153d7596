//! Words: the parts of a Pod that the pod security checks read, and functions that word violations.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::values::{items, text};

/// The short reason and the details of one failed check of a Pod Security Standard.
pub(super) type Violation = (&'static str, String);

pub(super) struct Pod<'a> {
    pub(super) annotations: &'a Value,
    pub(super) spec: &'a Value,
    /// The minor version of the Pod Security Standards that the Pod is checked against.
    pub(super) version: u32,
}

impl<'a> Pod<'a> {
    pub(super) fn containers(&self) -> impl Iterator<Item = &'a Value> + use<'a> {
        let spec = self.spec;
        let parts = ["initContainers", "containers", "ephemeralContainers"];
        parts.into_iter().flat_map(move |part| items(&spec[part]))
    }

    pub(super) fn named(&self, is_so: impl Fn(&Value) -> bool) -> Vec<&'a str> {
        let bad = self.containers().filter(|one| is_so(one));
        bad.map(|one| text(&one["name"])).collect()
    }

    pub(super) fn context(&self, member: &str) -> &'a Value {
        &self.spec["securityContext"][member]
    }

    pub(super) fn is_windows(&self) -> bool {
        self.version >= 25 && self.spec["os"]["name"] == "windows"
    }

    /// Returns whether the Pod runs in its own user namespace (`hostUsers: false`): for such Pods, the Pod Security
    /// Standards from version 1.35 on relax some checks.
    pub(super) fn has_own_users(&self) -> bool {
        self.version >= 35 && self.spec["hostUsers"] == false
    }

    /// Returns a text with the names of the containers for which `is_so` is true, such as `containers "a", "b"`; `None`
    /// without such containers.
    pub(super) fn list(&self, is_so: impl Fn(&Value) -> bool) -> Option<String> {
        list("container", &self.named(is_so))
    }

    /// Returns a text that names the Pod, if `is_so` is true for its spec, and the containers for which `is_so` is
    /// true, such as `pod and container "a"`; `None` if `is_so` is always false.
    pub(super) fn setters(&self, is_so: impl Fn(&Value) -> bool) -> Option<String> {
        let mut setters = Vec::from_iter(is_so(self.spec).then(|| "pod".to_owned()));
        setters.extend(self.list(is_so));
        (!setters.is_empty()).then(|| setters.join(" and "))
    }

    /// Returns the values that `find` returns for the Pod's spec and for each container, sorted and without duplicates.
    pub(super) fn all(&self, find: impl Fn(&'a Value) -> Option<&'a str>) -> BTreeSet<&'a str> {
        let each = std::iter::once(self.spec).chain(self.containers());
        each.filter_map(find).collect()
    }
}

pub(super) fn quoted<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.into_iter().collect();
    format!("\"{}\"", names.join("\", \""))
}

/// Formats a noun with names, such as `container "a"` or `containers "a", "b"`; `None` without names.
pub(super) fn list(word: &str, names: &[&str]) -> Option<String> {
    let words = counted(word, names.len());
    (!names.is_empty()).then(|| format!("{words} {}", quoted(names.iter().copied())))
}

pub(super) fn counted(word: &str, count: usize) -> String {
    format!("{word}{}", if count == 1 { "" } else { "s" })
}

pub(super) fn uses(count: usize) -> &'static str {
    if count == 1 { "uses" } else { "use" }
}

/// Formats holders and the values that they use, such as `container "a" uses probe host "b"`; `None` without holders.
pub(super) fn used(
    (holder, names): (&str, &[&str]),
    (value, values): (&str, &BTreeSet<&str>),
) -> Option<String> {
    let holders = list(holder, names)?;
    let (uses, value) = (uses(names.len()), counted(value, values.len()));
    let values = quoted(values.iter().copied());
    Some(format!("{holders} {uses} {value} {values}"))
}
