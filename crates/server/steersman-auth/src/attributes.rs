//! Words: the attributes of a request that permissions are about, and the refusal for them.

use steersman_apimachinery::go;
use steersman_apimachinery::status::{Details, GroupResource, Status};

use super::user::User;

/// The authorization mode of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Authorization {
    /// Every user may do everything, with any credential and without one.
    #[default]
    AlwaysAllow,
    /// The server's Roles, ClusterRoles and bindings decide, as in a cluster. The server starts
    /// with the default ClusterRoles of Kubernetes.
    Rbac,
}

/// The attributes of a request that authorization checks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Attributes {
    /// `get`, `list` and so on; the method in lower case for a path that is no resource.
    pub verb: String,
    /// API group, empty for core.
    pub group: String,
    /// The plural name of a resource; empty if `path` is set.
    pub resource: String,
    /// The name of the subresource, for instance `status`; empty for the object itself.
    pub subresource: String,
    /// The namespace; empty for cluster-scoped objects and for requests across all namespaces.
    pub namespace: String,
    /// The name of the object; empty for a collection.
    pub name: String,
    /// The path of a request that is not about a resource, for instance `/healthz`; `None` for a resource.
    pub path: Option<String>,
}

impl Attributes {
    /// Creates the attributes of a verb on a named object of a resource.
    pub fn of(verb: &str, group: &str, resource: &str, name: &str) -> Self {
        Self {
            verb: verb.to_owned(),
            group: group.to_owned(),
            resource: resource.to_owned(),
            name: name.to_owned(),
            ..Self::default()
        }
    }

    /// Sets the namespace.
    #[must_use]
    pub fn within(mut self, namespace: &str) -> Self {
        namespace.clone_into(&mut self.namespace);
        self
    }

    /// Returns the resource, with its subresource after a slash.
    pub fn full_resource(&self) -> String {
        if self.subresource.is_empty() {
            self.resource.clone()
        } else {
            format!("{}/{}", self.resource, self.subresource)
        }
    }

    /// Builds the 403 with the message of `responsewriters.Forbidden`; `reason` is the authorizer's
    /// and may be empty.
    pub fn forbidden(&self, user: &User, reason: &str) -> Status {
        let quoted = go::quote;
        let (who, verb) = (quoted(&user.name), &self.verb);
        let reason = if reason.is_empty() {
            String::new()
        } else {
            format!(": {reason}")
        };
        if let Some(path) = &self.path {
            let path = quoted(path);
            let message = format!("forbidden: User {who} cannot {verb} path {path}{reason}");
            return Status::failure(403, "Forbidden", message).with_details(Details::default());
        }
        let scope = if self.namespace.is_empty() {
            "at the cluster scope".to_owned()
        } else {
            format!("in the namespace {}", quoted(&self.namespace))
        };
        let (resource, group) = (quoted(&self.full_resource()), quoted(&self.group));
        let why = format!(
            "User {who} cannot {verb} resource {resource} in API group {group} {scope}{reason}"
        );
        Status::forbidden(
            GroupResource::new(&self.group, &self.resource),
            &self.name,
            &why,
        )
    }
}
