//! Machine: keeps the parts of a stored object that a write to a subresource does not change.

use serde_json::Value;
use steersman_builtins::crd;
use steersman_schema::resource::Resource;

use super::options::Subresource;
use super::{intake, metadata};
use crate::values::{items, items_mut};

/// Returns the object to store after a write to a subresource: the decoded `new`, with the other parts of `old`.
pub(crate) fn complete(
    resource: &Resource,
    subresource: Subresource,
    mut new: Value,
    old: &Value,
) -> Value {
    // A status write changes only the status. The other parts got their defaults when they were stored.
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

fn all_but(old: &Value, left_out: &[&str]) -> Value {
    let members = old.as_object().into_iter().flatten();
    let kept = members.filter(|(name, _)| !left_out.contains(&name.as_str()));
    Value::Object(kept.map(|(n, v)| (n.clone(), v.clone())).collect())
}

/// Returns `new` with those parts of `old` that a write to this subresource does not change.
pub(crate) fn merge(
    resource: &Resource,
    subresource: Subresource,
    mut new: Value,
    old: &Value,
) -> Value {
    let with_new_metadata =
        || with_metadata(all_but(old, &["metadata"]), new.get("metadata").cloned());
    match subresource {
        Subresource::Main | Subresource::Scale if keeps_status(resource) => {
            let members = metadata::members(&mut new);
            metadata::assign(members, "status", old.get("status").cloned());
            new
        }
        Subresource::Main | Subresource::Scale => new,
        Subresource::Finalize => with_member(with_new_metadata(), &new, ("spec", "finalizers")),
        Subresource::EphemeralContainers => {
            with_member(old.clone(), &new, ("spec", "ephemeralContainers"))
        }
        Subresource::Resize => {
            let mut merged = old.clone();
            for field in ["containers", "initContainers"] {
                resize(&mut merged["spec"], &new["spec"], field);
            }
            merged
        }
        Subresource::Approval => with_member(with_new_metadata(), &new, ("status", "conditions")),
        Subresource::Status => write_status(resource, new, old),
    }
}

/// Returns whether a write to the object itself leaves the stored status as it is.
///
/// A ServiceCIDR is the exception (upstream: `pkg/registry/networking/servicecidr`).
pub(crate) fn keeps_status(resource: &Resource) -> bool {
    resource.status && !resource.is("networking.k8s.io", "ServiceCIDR")
}

/// Copies one field in `spec` or `status` (`part`) from `new`; removes the field if `new` does not have it.
fn with_member(mut object: Value, new: &Value, (part, member): (&str, &str)) -> Value {
    let members = metadata::members(&mut object[part]);
    metadata::assign(members, member, new[part].get(member).cloned());
    object
}

fn with_metadata(mut object: Value, metadata: Option<Value>) -> Value {
    if let Some(metadata) = metadata {
        metadata::members(&mut object).insert("metadata".to_owned(), metadata);
    }
    object
}

/// Returns the stored object with the new status, and with the new metadata that the kind accepts there (SRV-KIND-2).
fn write_status(resource: &Resource, mut new: Value, old: &Value) -> Value {
    // The status is replaced below, and for a built-in kind also the metadata.
    let left_out: &[&str] = if resource.built_in {
        &["status", "metadata"]
    } else {
        &["status"]
    };
    let mut merged = all_but(old, left_out);
    if let Some(status) = new.get_mut("status").map(Value::take) {
        metadata::members(&mut merged).insert("status".to_owned(), status);
    }
    if !resource.built_in {
        // A status write of a custom resource changes only the status; even a wrong uid in it is ignored.
        return merged;
    }
    let mut sent = new.get_mut("metadata").map(Value::take).unwrap_or_default();
    for field in resource.status_metadata.kept() {
        let fields = metadata::members(&mut sent);
        metadata::assign(fields, field, old["metadata"].get(*field).cloned());
    }
    with_metadata(merged, Some(sent))
}

/// Copies the `resources` of each container in `new` to the container of the same name.
fn resize(spec: &mut Value, new: &Value, field: &str) {
    for container in items_mut(spec, field) {
        let mut wanted = items(&new[field]).iter();
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
    fn a_resize_matches_containers_by_name() {
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
