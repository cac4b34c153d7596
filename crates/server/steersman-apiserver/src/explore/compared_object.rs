//! Machine: the form in which a stored object is compared with that of another world.

use serde_json::{Value, json};
use steersman_registry::VersionedObject;
use steersman_schema::resource::Resource;

/// The API groups of the kinds of which a new server has many objects: roles, levels of priority and aggregated APIs. It
/// creates all of them before it serves a request.
const OF_NEW_SERVER: [&str; 4] = [
    "rbac.authorization.k8s.io", "flowcontrol.apiserver.k8s.io", "apiregistration.k8s.io",
    "scheduling.k8s.io",
];

/// Returns an object for a comparison. `first_revision` is the last one before the world began: of what a new server has,
/// and no client has changed since, only the identity is compared.
pub(super) fn compared_object(
    resource: &Resource,
    object: &VersionedObject,
    first_revision: u64,
) -> Value {
    let is_of_new_server = OF_NEW_SERVER.contains(&resource.group.as_str());
    if is_of_new_server && object.revision <= first_revision {
        return identity(resource, object);
    }
    match (resource.group.as_str(), resource.kind.as_str()) {
        // Its managedFields tell which ports a client chose.
        ("", "Service") => object.look_whole(),
        _ => object.stored.look(),
    }
    .into_owned()
}

/// Returns the version, kind, names and uid of an object, in the form of the object.
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
