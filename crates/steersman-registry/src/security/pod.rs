//! Words: a Pod as checks look at it, and how they tell what they find.

use std::collections::BTreeSet;

use serde_json::Value;

/// A short reason, and the details.
pub(super) type Violation = (String, String);

/// What is checked.
pub(super) struct Pod<'a> {
    pub(super) annotations: &'a Value,
    pub(super) spec: &'a Value,
    /// The minor version of the standard.
    pub(super) version: u32,
}

impl<'a> Pod<'a> {
    pub(super) fn containers(&self) -> impl Iterator<Item = &'a Value> + use<'a> {
        let spec = self.spec;
        let parts = ["initContainers", "containers", "ephemeralContainers"];
        parts
            .into_iter()
            .flat_map(move |part| spec[part].as_array().into_iter().flatten())
    }

    /// The names of the containers that are so.
    pub(super) fn named(&self, is_so: impl Fn(&Value) -> bool) -> Vec<&'a str> {
        let bad = self.containers().filter(|one| is_so(one));
        bad.map(|one| one["name"].as_str().unwrap_or_default())
            .collect()
    }

    /// A member of the security context of the Pod.
    pub(super) fn context(&self, member: &str) -> &'a Value {
        &self.spec["securityContext"][member]
    }

    pub(super) fn is_windows(&self) -> bool {
        self.version >= 25 && self.spec["os"]["name"] == "windows"
    }

    /// Whether the users of the Pod are none of the node's.
    pub(super) fn has_own_users(&self) -> bool {
        self.version >= 35 && self.spec["hostUsers"] == false
    }

    /// Who is so: `pod and container "a"`.
    pub(super) fn setters(&self, is_so: impl Fn(&Value) -> bool) -> Option<String> {
        let mut setters = Vec::new();
        if is_so(self.spec) {
            setters.push("pod".to_owned());
        }
        let containers = self.named(&is_so);
        if !containers.is_empty() {
            setters.push(list("container", &containers));
        }
        (!setters.is_empty()).then(|| setters.join(" and "))
    }

    /// What is found in the Pod and its containers, each once and in order.
    pub(super) fn all<'b>(
        &'b self,
        find: impl Fn(&'a Value) -> Option<&'a str> + 'b,
    ) -> BTreeSet<&'a str> {
        let each = std::iter::once(self.spec).chain(self.containers());
        each.filter_map(find).collect()
    }
}

pub(super) fn quoted<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.into_iter().collect();
    format!("\"{}\"", names.join("\", \""))
}

/// `container "a"`, `containers "a", "b"`.
pub(super) fn list(word: &str, names: &[&str]) -> String {
    format!(
        "{} {}",
        counted(word, names.len()),
        quoted(names.iter().copied())
    )
}

pub(super) fn counted(word: &str, count: usize) -> String {
    format!("{word}{}", if count == 1 { "" } else { "s" })
}

pub(super) fn uses(count: usize) -> &'static str {
    if count == 1 { "uses" } else { "use" }
}

pub(super) fn violation(reason: &str, detail: String) -> Option<Violation> {
    Some((reason.to_owned(), detail))
}
