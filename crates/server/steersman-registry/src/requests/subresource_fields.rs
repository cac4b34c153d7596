//! Machine: merges a write to an object or subresource, which may change only some parts, with the stored object.

use serde_json::Value;
use steersman_builtins::crd;
use steersman_schema::resource::Resource;

use super::options::Subresource;
use super::{intake, metadata};
use crate::values::{items, items_mut};

/// Returns the object to store after a write to a subresource: the parts of the decoded `new` that this subresource
/// may change, and all other parts of `old`, with defaults.
pub(crate) fn complete(
    resource: &Resource,
    subresource: Subresource,
    mut new: Value,
    old: &Value,
) -> Value {
    // For a status write, sets the defaults of `new` before the merge: the parts of `old` have their defaults already.
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

/// Returns `new` in which those parts that a write to this subresource cannot change are replaced by those of `old`.
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
/// True for all resources with a status subresource except ServiceCIDR (upstream:
/// `pkg/registry/networking/servicecidr`).
pub(crate) fn keeps_status(resource: &Resource) -> bool {
    resource.status && !resource.is("networking.k8s.io", "ServiceCIDR")
}

/// Copies the field `member` in `part` (`spec` or `status`) from `new` to `object`; removes it if `new` lacks it.
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

/// Returns the stored object with the new status, and with those metadata fields of the request that a status write of
/// this kind may change (SRV-KIND-2).
fn write_status(resource: &Resource, mut new: Value, old: &Value) -> Value {
    // Not copied from `old`: the status, and for a built-in kind the metadata. Both are set below.
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
