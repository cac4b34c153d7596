//! Machine: the form in which a stored object is compared with that of another world.

use serde_json::{Value, json};
use steersman_registry::VersionedObject;
use steersman_schema::resource::Resource;

/// Returns an object for a comparison; only its identity if it has not changed since `first_revision`, which is the last
/// one before the world began.
pub(super) fn compared_object(
    resource: &Resource,
    object: &VersionedObject,
    first_revision: u64,
) -> Value {
    if object.revision <= first_revision {
        return identity(resource, object);
    }
    match (resource.group.as_str(), resource.kind.as_str()) {
        // Its managedFields tell which ports a client chose.
        ("", "Service") => object.look_whole(),
        _ => object.stored.look(),
    }
    .into_owned()
}

/// Returns what identifies an object, in the form of the object.
fn identity(resource: &Resource, object: &VersionedObject) -> Value {
    let mut metadata = json!({
        "name": object.name(),
        "uid": object.meta("uid"),
        "resourceVersion": object.revision.to_string(),
    });
    if !object.namespace.is_empty() {
        metadata["namespace"] = Value::from(&*object.namespace);
    }
    json!({"apiVersion": resource.api_version(), "kind": resource.kind, "metadata": metadata})
}
