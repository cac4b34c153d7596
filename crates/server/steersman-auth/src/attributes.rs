//! Words: the attributes of a request by which permissions are checked, and the refusal of a request.

use steersman_apimachinery::go;
use steersman_apimachinery::status::{Details, GroupResource, Status};

use super::user::User;

/// The authorization mode of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Authorization {
    /// Every user may do everything, with and without a credential.
    #[default]
    AlwaysAllow,
    /// The Roles, ClusterRoles and bindings in the store decide, as in a cluster. The server starts with the default
    /// ClusterRoles of Kubernetes.
    Rbac,
}

/// The attributes of a request that authorization checks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Attributes {
    /// The verb, such as `get` or `list`; for a path that is no resource the method in lower case.
    pub verb: String,
    /// The API group of the resource; empty for the core group.
    pub group: String,
    /// The plural name of a resource; empty if `path` is set.
    pub resource: String,
    /// The name of the subresource, for instance `status`; empty for the object itself.
    pub subresource: String,
    /// The namespace; empty for cluster-scoped objects and for requests across all namespaces.
    pub namespace: String,
    /// The name of the object; empty for all objects.
    pub name: String,
    /// The path of a request that is not for a resource, for instance `/healthz`; `None` for a resource.
    pub path: Option<String>,
}

impl Attributes {
    /// Creates the attributes of a request with a verb for a named object.
    pub fn of(verb: &str, group: &str, resource: &str, name: &str) -> Self {
        Self {
            verb: verb.to_owned(),
            group: group.to_owned(),
            resource: resource.to_owned(),
            name: name.to_owned(),
            ..Self::default()
        }
    }

    /// Sets the namespace of the request.
    #[must_use]
    pub fn within(mut self, namespace: &str) -> Self {
        namespace.clone_into(&mut self.namespace);
        self
    }

    /// Returns the resource of the request, followed by a slash and its subresource, if there is one.
    pub fn full_resource(&self) -> String {
        if self.subresource.is_empty() {
            self.resource.clone()
        } else {
            format!("{}/{}", self.resource, self.subresource)
        }
    }

    /// Builds the 403 with the message of `responsewriters.Forbidden`. The authorizer's `reason` may be empty.
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
        let group_resource = GroupResource::new(&self.group, &self.resource);
        Status::forbidden(group_resource, &self.name, &why)
    }
}
