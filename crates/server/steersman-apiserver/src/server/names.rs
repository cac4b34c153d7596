//! Machine: resolves the resource names and namespaces that callers of `ApiServer` pass.

use std::sync::Arc;

use serde_json::Value;
use steersman_apimachinery::status::{GroupResource, Status};
use steersman_registry::{Registry, Subresource};
use steersman_schema::resource::Resource;

/// Returns the resource that kubectl would choose for a name such as `deployments.apps/status`, in
/// its storage version if that is served.
pub(super) fn find(
    registry: &Registry,
    name: &str,
) -> Result<(Arc<Resource>, Subresource), Status> {
    let (full, subresource) = match name.split_once('/') {
        None => (name, Subresource::Main),
        Some((full, "status")) => (full, Subresource::Status),
        Some((full, "scale")) => (full, Subresource::Scale),
        Some(_) => return Err(Status::no_such_path()),
    };
    let (plural, group) = full.split_once('.').unwrap_or((full, ""));
    let mut served = registry
        .resources()
        .iter()
        .filter(|resource| resource.plural == plural && resource.group == group);
    let stored = served
        .clone()
        .find(|resource| resource.version == resource.storage_version);
    match stored.or_else(|| served.next()) {
        Some(resource) => Ok((Arc::clone(resource), subresource)),
        None => Err(Status::not_found(GroupResource::new("", "resources"), name)),
    }
}

/// Returns the resource of an object's kind and version.
pub(super) fn of_object(registry: &Registry, object: &Value) -> Result<Arc<Resource>, Status> {
    let api_version = object["apiVersion"].as_str().unwrap_or_default();
    let kind = object["kind"].as_str().unwrap_or_default();
    let found = registry
        .resources()
        .iter()
        .find(|resource| resource.kind == kind && resource.api_version() == api_version);
    found.cloned().ok_or_else(|| {
        Status::bad_request(format!(
            "no resource serves kind \"{kind}\" of \"{api_version}\""
        ))
    })
}

/// Returns the namespace as the registry expects it: `None` for cluster-scoped resources and for
/// all namespaces.
pub(super) fn scope<'a>(resource: &Resource, namespace: &'a str) -> Option<&'a str> {
    if resource.namespaced && !namespace.is_empty() {
        Some(namespace)
    } else {
        None
    }
}
