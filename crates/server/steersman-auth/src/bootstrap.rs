//! Machine: the bootstrap policy: the default roles and bindings that a server with RBAC creates.

use serde_json::{Map, Value, json};

use super::rbac::GROUP;

/// The text of the bootstrap policy. The head of the file explains its format and names its source.
const TABLE: &str = include_str!("bootstrap.txt");

/// The beginning of the names of the ClusterRoles for controllers.
const CONTROLLER: &str = "system:controller:";

/// A role or a binding of the bootstrap policy.
#[derive(Debug)]
pub struct BootstrapObject {
    /// The plural name of the object's kind.
    pub plural: &'static str,
    /// The namespace; empty for a ClusterRole or ClusterRoleBinding.
    pub namespace: &'static str,
    /// The name of the role or binding.
    pub name: String,
    /// The object without its kind and version, and without the fields that the server sets at its creation.
    pub value: Value,
}

impl BootstrapObject {
    /// Creates an object; `plurals` are the plural names of a cluster-scoped and of a namespaced object.
    fn of(plurals: [&'static str; 2], namespace: &'static str, name: &str, value: Value) -> Self {
        Self {
            plural: plurals[usize::from(!namespace.is_empty())],
            namespace,
            name: name.to_owned(),
            value,
        }
    }
}

/// Returns the roles and bindings one after another, so that a start has only one of them in memory.
pub fn objects() -> impl Iterator<Item = BootstrapObject> {
    let lines = TABLE.lines().filter(|line| !line.starts_with('#'));
    let mut lines = lines.peekable();
    let mut binding_of_controller = None;
    std::iter::from_fn(move || {
        if let Some(binding) = binding_of_controller.take() {
            return Some(binding);
        }
        let mut words = lines.next()?.split_whitespace();
        let (word, name) = (words.next()?, words.next()?);
        let below = std::iter::from_fn(|| lines.next_if(|line| line.starts_with(' ')));
        let rules: Value = below.map(|line| rule(line.split_whitespace())).collect();
        Some(match word {
            "bind" => binding(name, words),
            "controller" => {
                let whole = format!("{CONTROLLER}{name}");
                let account = format!("ServiceAccount:kube-system:{name}");
                let subjects = std::iter::once(account.as_str());
                binding_of_controller =
                    Some(binding_to(&whole, ("", "ClusterRole", &whole), subjects));
                role("", &whole, words, rules)
            }
            _ => {
                let (namespace, name) = place(name);
                role(namespace, name, words, rules)
            }
        })
    })
}

/// Splits the text `NAMESPACE/NAME`, in which the namespace is optional.
fn place(name: &str) -> (&str, &str) {
    name.split_once('/').unwrap_or(("", name))
}

fn metadata(name: &str) -> Value {
    json!({
        "name": name,
        "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
        "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
    })
}

fn role<'a>(
    namespace: &'static str,
    name: &str,
    words: impl Iterator<Item = &'a str>,
    rules: Value,
) -> BootstrapObject {
    let mut value = json!({"metadata": metadata(name)});
    value["rules"] = rules;
    for word in words {
        let (what, which) = word.split_once('=').unwrap_or_default();
        let label = format!("{GROUP}/aggregate-to-{which}");
        if what == "into" {
            value["metadata"]["labels"][label] = json!("true");
        } else {
            let mut labels = Map::new();
            labels.insert(label, json!("true"));
            value["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": labels}]});
            value["rules"] = Value::Null;
        }
    }
    BootstrapObject::of(["clusterroles", "roles"], namespace, name, value)
}

fn rule<'a>(mut words: impl Iterator<Item = &'a str>) -> Value {
    let mut list = || {
        let word = words.next()?;
        Some(word.split(',').map(str::to_owned).collect::<Vec<_>>())
    };
    let mut verbs = Vec::new();
    for verb in list().unwrap_or_default() {
        match verb.as_str() {
            "r" => verbs.extend(["get", "list", "watch"].map(str::to_owned)),
            "w" => verbs.extend(
                ["create", "delete", "deletecollection", "patch", "update"].map(str::to_owned),
            ),
            _ => verbs.push(verb),
        }
    }
    verbs.sort_unstable();
    let groups = list().unwrap_or_default();
    let resources = list().unwrap_or_default();
    if groups == ["url"] {
        return json!({"verbs": verbs, "nonResourceURLs": resources});
    }
    let groups: Vec<&str> = groups
        .iter()
        .map(|group| if group == "core" { "" } else { group })
        .collect();
    let mut rule = json!({"verbs": verbs, "apiGroups": groups, "resources": resources});
    if let Some(names) = list() {
        rule["resourceNames"] = json!(names);
    }
    rule
}

fn binding(name: &'static str, words: impl Iterator<Item = &'static str>) -> BootstrapObject {
    let (namespace, name) = place(name);
    let kind = if namespace.is_empty() {
        "ClusterRole"
    } else {
        "Role"
    };
    let mut words = words.peekable();
    let to = words.next_if(|word| word.starts_with("to="));
    let role = to.map_or(name, |word| word.trim_start_matches("to="));
    binding_to(name, (namespace, kind, role), words)
}

fn binding_to<'a>(
    name: &str,
    (namespace, kind, role): (&'static str, &str, &str),
    subjects: impl Iterator<Item = &'a str>,
) -> BootstrapObject {
    let subjects: Vec<Value> = subjects
        .map(|subject| {
            let (kind, name) = subject.split_once(':').unwrap_or_default();
            match name.split_once(':').filter(|_| kind == "ServiceAccount") {
                Some((within, name)) => json!({"kind": kind, "name": name, "namespace": within}),
                None => json!({"kind": kind, "apiGroup": GROUP, "name": name}),
            }
        })
        .collect();
    let mut value = json!({
        "metadata": metadata(name),
        "roleRef": {"apiGroup": GROUP, "kind": kind, "name": role},
    });
    if !subjects.is_empty() {
        value["subjects"] = Value::from(subjects);
    }
    let plurals = ["clusterrolebindings", "rolebindings"];
    BootstrapObject::of(plurals, namespace, name, value)
}

#[cfg(test)]
mod tests;
