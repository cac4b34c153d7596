//! Machine: which parts of an object each of its subresources writes.

use serde_json::Value;

use crate::schema::{Resource, crd};

use super::intake;
use super::metadata;
use super::options::Subresource;

/// A decoded object in the shape in which it is stored, with the parts of the old one that this
/// subresource does not write.
pub(super) fn complete(
    resource: &Resource,
    subresource: Subresource,
    mut new: Value,
    old: &Value,
) -> Value {
    // Of a status nothing else is taken, and what is stored was completed when it was.
    let alone = subresource == Subresource::Status && !intake::is_definition(resource);
    if alone {
        intake::complete(resource, &mut new);
    }
    let mut merged = merge(resource, subresource, new, old);
    if !alone {
        intake::complete(resource, &mut merged);
    }
    if subresource == Subresource::Main && intake::is_definition(resource) {
        crd::remember_storage(&mut merged);
    }
    merged
}

/// An object without one of its members.
fn all_but(old: &Value, member: &str) -> Value {
    let members = old.as_object().into_iter().flatten();
    let kept = members.filter(|(name, _)| *name != member);
    Value::Object(kept.map(|(n, v)| (n.clone(), v.clone())).collect())
}

/// The new object with the parts of the old one that this subresource does not write.
pub(super) fn merge(
    resource: &Resource,
    subresource: Subresource,
    new: Value,
    old: &Value,
) -> Value {
    match subresource {
        Subresource::Main | Subresource::Scale if resource.status => {
            let mut merged = new;
            let members = metadata::members(&mut merged);
            match old.get("status") {
                Some(status) => members.insert("status".to_owned(), status.clone()),
                None => members.remove("status"),
            };
            merged
        }
        Subresource::Main | Subresource::Scale => new,
        Subresource::Finalize => {
            let mut merged = old.clone();
            let spec = metadata::members(&mut merged["spec"]);
            match new["spec"].get("finalizers") {
                Some(finalizers) => spec.insert("finalizers".to_owned(), finalizers.clone()),
                None => spec.remove("finalizers"),
            };
            merged
        }
        Subresource::EphemeralContainers => {
            let mut merged = old.clone();
            let spec = metadata::members(&mut merged["spec"]);
            match new["spec"].get("ephemeralContainers") {
                Some(containers) => {
                    spec.insert("ephemeralContainers".to_owned(), containers.clone())
                }
                None => spec.remove("ephemeralContainers"),
            };
            merged
        }
        Subresource::Resize => {
            let mut merged = old.clone();
            for field in ["containers", "initContainers"] {
                resize(&mut merged["spec"], &new["spec"], field);
            }
            merged
        }
        Subresource::Approval => {
            let mut merged = old.clone();
            let status = metadata::members(&mut merged["status"]);
            match new["status"].get("conditions") {
                Some(conditions) => status.insert("conditions".to_owned(), conditions.clone()),
                None => status.remove("conditions"),
            };
            merged
        }
        Subresource::Status => {
            let mut new = new;
            let mut merged = all_but(old, "status");
            if let Some(status) = new.get_mut("status").map(Value::take) {
                metadata::members(&mut merged).insert("status".to_owned(), status);
            }
            let taken: &[&str] = match (resource.built_in, resource.kind.as_str()) {
                (true, "Pod" | "Node") => &["labels", "annotations", "uid"],
                // Upstream means to reset what is sent, and resets it to itself.
                (true, "CustomResourceDefinition") => &[
                    "labels",
                    "annotations",
                    "finalizers",
                    "ownerReferences",
                    "uid",
                ],
                (true, _) => &["uid"],
                // Nothing but the status: even another uid passes unseen.
                (false, _) => &[],
            };
            let fields = metadata::of(&mut merged);
            let mut sent = new.get_mut("metadata").and_then(Value::as_object_mut);
            for field in taken {
                match sent.as_mut().and_then(|sent| sent.remove(*field)) {
                    Some(value) => fields.insert((*field).to_owned(), value),
                    None => fields.remove(*field),
                };
            }
            merged
        }
    }
}

/// Gives the containers of a spec the resources that those of their names have in another.
fn resize(spec: &mut Value, new: &Value, field: &str) {
    let Some(containers) = spec.get_mut(field).and_then(Value::as_array_mut) else {
        return;
    };
    for container in containers {
        let mut wanted = new[field].as_array().into_iter().flatten();
        let named = wanted.find(|one| one["name"] == container["name"]);
        if let Some(resources) = named.and_then(|one| one.get("resources")) {
            metadata::members(container).insert("resources".to_owned(), resources.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_resize_finds_containers_by_name() {
        let mut spec = json!({"containers": [{"name": "a", "image": "i"}, {"name": "b"}]});
        let new = json!({"containers": [
            {"name": "b", "image": "other", "resources": {"limits": {"cpu": "1"}}},
            {"name": "c", "resources": {}},
        ]});
        resize(&mut spec, &new, "containers");
        resize(&mut spec, &new, "initContainers");
        assert_eq!(
            spec,
            json!({"containers": [{"name": "a", "image": "i"},
                {"name": "b", "resources": {"limits": {"cpu": "1"}}}]})
        );
    }
}
