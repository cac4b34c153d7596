//! Words: what is to be done, as permissions speak of it, and how it is refused.

use steersman_text::go;
use steersman_text::status::{Details, Status, Subject};

use super::user::User;

/// Who decides what a user may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Authorization {
    /// Everybody may do everything, with any credential and with none.
    #[default]
    AlwaysAllow,
    /// The Roles, ClusterRoles and bindings that the server holds, as in a cluster. The server
    /// begins with the ClusterRoles that Kubernetes itself begins with.
    Rbac,
}

/// What a request does, and to what.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Attributes {
    /// `get`, `list` and so on; for a path that is no resource the method in lower case.
    pub verb: String,
    /// API group, empty for core.
    pub group: String,
    /// The plural name of a resource; empty where there is a path.
    pub resource: String,
    /// For instance `status`; may be empty.
    pub subresource: String,
    /// Empty for cluster-scoped objects and for all namespaces.
    pub namespace: String,
    /// Empty for a collection.
    pub name: String,
    /// A path that is no resource.
    pub path: Option<String>,
}

impl Attributes {
    /// A verb on a named object of a resource.
    pub fn of(verb: &str, group: &str, resource: &str, name: &str) -> Self {
        Self {
            verb: verb.to_owned(),
            group: group.to_owned(),
            resource: resource.to_owned(),
            name: name.to_owned(),
            ..Self::default()
        }
    }

    /// The same in a namespace.
    #[must_use]
    pub fn within(mut self, namespace: &str) -> Self {
        namespace.clone_into(&mut self.namespace);
        self
    }

    /// The resource, with its subresource behind a slash.
    pub fn full_resource(&self) -> String {
        if self.subresource.is_empty() {
            self.resource.clone()
        } else {
            format!("{}/{}", self.resource, self.subresource)
        }
    }

    /// 403 in the words of `responsewriters.Forbidden`; `reason` is what the authorizer had to
    /// say, and may be empty.
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
        Status::forbidden(Subject::new(&self.group, &self.resource), &self.name, &why)
    }
}
