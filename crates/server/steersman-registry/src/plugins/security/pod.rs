//! Words: a Pod as the pod security checks read it, and the wording of violations.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::values::{items, text};

/// The short reason and the details of one failed check.
pub(super) type Violation = (&'static str, String);

pub(super) struct Pod<'a> {
    pub(super) annotations: &'a Value,
    pub(super) spec: &'a Value,
    /// The minor version of the standard with which the Pod is checked.
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

    /// Returns whether the Pod runs in a user namespace of its own (`hostUsers: false`), which relaxes some checks.
    pub(super) fn has_own_users(&self) -> bool {
        self.version >= 35 && self.spec["hostUsers"] == false
    }

    /// Lists the containers for which `is_so` is true, as in `containers "a", "b"`; `None` if there are none.
    pub(super) fn list(&self, is_so: impl Fn(&Value) -> bool) -> Option<String> {
        list("container", &self.named(is_so))
    }

    /// Lists the Pod itself and the containers for which `is_so` is true, as in `pod and container "a"`.
    pub(super) fn setters(&self, is_so: impl Fn(&Value) -> bool) -> Option<String> {
        let mut setters = Vec::from_iter(is_so(self.spec).then(|| "pod".to_owned()));
        setters.extend(self.list(is_so));
        (!setters.is_empty()).then(|| setters.join(" and "))
    }

    /// Returns what `find` finds in the Pod's spec and in its containers, sorted and without duplicates.
    pub(super) fn all(&self, find: impl Fn(&'a Value) -> Option<&'a str>) -> BTreeSet<&'a str> {
        let each = std::iter::once(self.spec).chain(self.containers());
        each.filter_map(find).collect()
    }
}

pub(super) fn quoted<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.into_iter().collect();
    format!("\"{}\"", names.join("\", \""))
}

/// Formats names, as in `container "a"` or `containers "a", "b"`; `None` if there are none.
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

/// Formats what containers use, as in `container "a" uses probe host "b"`; `None` if there are no containers.
pub(super) fn used(
    (holder, names): (&str, &[&str]),
    (value, values): (&str, &BTreeSet<&str>),
) -> Option<String> {
    let holders = list(holder, names)?;
    let (uses, value) = (uses(names.len()), counted(value, values.len()));
    let values = quoted(values.iter().copied());
    Some(format!("{holders} {uses} {value} {values}"))
}
