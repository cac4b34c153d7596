//! Handle: users other than the administrator, and their permissions.

use std::collections::BTreeMap;
use std::task::{Context, Poll};

use http::{HeaderName, HeaderValue, Request};
use kube_client::config::Kubeconfig;
use kube_client::{Client, Config};
use serde_json::{Value, json};
use steersman_apiserver::ApiService;
use tower::Service;

use crate::environment::TestEnv;
use crate::error::Error;
use crate::rest::{Rest, with_headers};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const API_GROUP: &str = "rbac.authorization.k8s.io";
/// The prefix of the names of users' roles; a random suffix follows.
const PREFIX: &str = "steersman-testenv-";

/// A user by impersonation: requests have the administrator's credentials and impersonation headers, on every server.
#[derive(Debug, Clone)]
pub struct User {
    name: String,
    access: Access,
    kubeconfig: Option<String>,
}

#[derive(Debug, Clone)]
enum Access {
    InProcess(UserService),
    Network(Box<Config>),
}

/// A builder of a [`User`]. Does nothing before `create`.
#[derive(Debug)]
#[must_use = "a builder does nothing until `create`"]
pub struct UserBuilder<'a> {
    env: &'a TestEnv,
    name: String,
    groups: Vec<String>,
    grants: Vec<UserGrant>,
}

#[derive(Debug)]
struct UserGrant {
    /// `None` for a grant cluster-wide.
    namespace: Option<String>,
    role: GrantedRole,
}

#[derive(Debug)]
enum GrantedRole {
    /// A role to create, with these rules.
    New(Value),
    Existing(String),
}

/// The embedded server in process with the user's identity: a [`tower::Service`] for
/// `Connection::in_process` and `kube_client::Client::new`.
#[derive(Debug, Clone)]
pub struct UserService {
    service: ApiService,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl TestEnv {
    /// Starts to build a user. The server need not know the name: `ann`, or a ServiceAccount as
    /// `system:serviceaccount:<namespace>:<name>`.
    ///
    /// Without grants the user has no permissions if RBAC is on, as it is on real servers. An
    /// embedded server without RBAC permits everything.
    pub fn user(&self, name: impl Into<String>) -> UserBuilder<'_> {
        UserBuilder {
            env: self,
            name: name.into(),
            groups: Vec::new(),
            grants: Vec::new(),
        }
    }
}

// === impl UserBuilder ===

impl UserBuilder<'_> {
    /// Adds groups, besides those that the server adds (`system:authenticated`).
    pub fn groups(mut self, groups: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.groups.extend(groups.into_iter().map(Into::into));
        self
    }

    /// Grants `verbs` on `resources` cluster-wide. Resources are written as in kubectl: `pods`,
    /// `deployments.apps`, `websites.example.com/status`.
    pub fn allow<V: Into<String>, R: AsRef<str>>(
        self,
        verbs: impl IntoIterator<Item = V>,
        resources: impl IntoIterator<Item = R>,
    ) -> Self {
        self.grant(None, GrantedRole::New(rules(verbs, resources)))
    }

    /// Grants `verbs` on `resources` in one namespace.
    pub fn allow_in<V: Into<String>, R: AsRef<str>>(
        self,
        namespace: &str,
        verbs: impl IntoIterator<Item = V>,
        resources: impl IntoIterator<Item = R>,
    ) -> Self {
        let role = GrantedRole::New(rules(verbs, resources));
        self.grant(Some(namespace.to_owned()), role)
    }

    /// Binds a ClusterRole, such as `view`, in one namespace.
    pub fn bind(self, cluster_role: impl Into<String>, namespace: impl Into<String>) -> Self {
        let role = GrantedRole::Existing(cluster_role.into());
        self.grant(Some(namespace.into()), role)
    }

    /// Binds a ClusterRole, such as `cluster-admin`, cluster-wide.
    pub fn bind_everywhere(self, cluster_role: impl Into<String>) -> Self {
        self.grant(None, GrantedRole::Existing(cluster_role.into()))
    }

    fn grant(mut self, namespace: Option<String>, role: GrantedRole) -> Self {
        self.grants.push(UserGrant { namespace, role });
        self
    }

    /// Creates the roles and bindings, and returns the user.
    ///
    /// # Errors
    /// If the server refuses a role or binding, or a name is not a valid header value.
    ///
    /// # Cancel safety
    /// Cancel safe: some roles may already exist.
    pub async fn create(self) -> Result<User, Error> {
        let headers = impersonation(&self.name, &self.groups)?;
        let rest = self.env.rest()?;
        for grant in &self.grants {
            self.write(&rest, grant).await?;
        }
        let access = match (self.env.config(), self.env.server()) {
            (None, Some(server)) => Access::InProcess(UserService {
                service: server.service(),
                headers,
            }),
            (config, _) => {
                let mut config = config
                    .cloned()
                    .unwrap_or_else(|| Config::new(http::Uri::default()));
                config.headers.extend(headers);
                Access::Network(Box::new(config))
            }
        };
        let kubeconfig = self
            .env
            .kubeconfig_as(|kubeconfig| impersonate(kubeconfig, &self.name, &self.groups));
        Ok(User {
            name: self.name,
            access,
            kubeconfig,
        })
    }

    async fn write(&self, rest: &Rest, grant: &UserGrant) -> Result<(), Error> {
        let namespace = grant.namespace.as_deref();
        let scope = if namespace.is_some() { "" } else { "Cluster" };
        let (kind, name) = match &grant.role {
            GrantedRole::Existing(name) => ("ClusterRole".to_owned(), name.clone()),
            GrantedRole::New(rules) => {
                let kind = format!("{scope}Role");
                let role = json!({"rules": rules});
                let name = self.make(rest, namespace, &kind, role).await?;
                (kind, name)
            }
        };
        let binding = json!({
            "roleRef": {"apiGroup": API_GROUP, "kind": kind, "name": name},
            "subjects": [{"apiGroup": API_GROUP, "kind": "User", "name": self.name}],
        });
        let kind = format!("{scope}RoleBinding");
        self.make(rest, namespace, &kind, binding).await.map(drop)
    }

    async fn make(
        &self,
        rest: &Rest,
        namespace: Option<&str>,
        kind: &str,
        mut body: Value,
    ) -> Result<String, Error> {
        body["apiVersion"] = format!("{API_GROUP}/v1").into();
        body["kind"] = kind.into();
        body["metadata"] = json!({"generateName": PREFIX});
        let plural = format!("{}s", kind.to_lowercase());
        let collection = match namespace {
            Some(namespace) => format!("{RBAC}/namespaces/{namespace}/{plural}"),
            None => format!("{RBAC}/{plural}"),
        };
        let doing = || format!("the {kind} of the user {}", self.name);
        let created = rest.create(&collection, &body, doing).await?;
        let name = created["metadata"]["name"].as_str().unwrap_or_default();
        self.env.leftovers.add(format!("{collection}/{name}"));
        Ok(name.to_owned())
    }
}

fn rules<V: Into<String>, R: AsRef<str>>(
    verbs: impl IntoIterator<Item = V>,
    resources: impl IntoIterator<Item = R>,
) -> Value {
    let verbs: Vec<String> = verbs.into_iter().map(Into::into).collect();
    let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for resource in resources {
        let resource = resource.as_ref();
        let (full, subresource) = resource.split_at(resource.find('/').unwrap_or(resource.len()));
        let (plural, group) = full.split_once('.').unwrap_or((full, ""));
        let names = groups.entry(group.to_owned()).or_default();
        names.push(format!("{plural}{subresource}"));
    }
    groups
        .into_iter()
        .map(|(group, resources)| json!({"apiGroups": [group], "resources": resources, "verbs": verbs}))
        .collect()
}

fn impersonation(name: &str, groups: &[String]) -> Result<Vec<(HeaderName, HeaderValue)>, Error> {
    let value = |text: &str| {
        HeaderValue::from_str(text).map_err(|error| {
            let source = kube_client::Error::HttpError(error.into());
            Error::request(format!("the impersonation of user {name:?}"), source)
        })
    };
    let mut headers = vec![(HeaderName::from_static("impersonate-user"), value(name)?)];
    for group in groups {
        headers.push((HeaderName::from_static("impersonate-group"), value(group)?));
    }
    Ok(headers)
}

fn impersonate(kubeconfig: &mut Kubeconfig, name: &str, groups: &[String]) {
    for user in &mut kubeconfig.auth_infos {
        if let Some(user) = &mut user.auth_info {
            user.impersonate = Some(name.to_owned());
            user.impersonate_groups = (!groups.is_empty()).then(|| groups.to_vec());
        }
    }
}

// === impl User ===

impl User {
    /// Returns the user's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Creates a client of the user. The client belongs to the runtime in which it is created.
    ///
    /// # Errors
    /// If the configuration is invalid, for example because a certificate cannot be read.
    pub fn client(&self) -> Result<Client, kube_client::Error> {
        match &self.access {
            Access::InProcess(service) => Ok(Client::new(service.clone(), "default")),
            Access::Network(config) => Client::try_from((**config).clone()),
        }
    }

    /// Returns the configuration of a client over the network; `None` in process.
    pub fn config(&self) -> Option<&Config> {
        match &self.access {
            Access::InProcess(_) => None,
            Access::Network(config) => Some(config),
        }
    }

    /// Returns the server with the user's identity, in process; `None` over the network.
    pub fn service(&self) -> Option<UserService> {
        match &self.access {
            Access::InProcess(service) => Some(service.clone()),
            Access::Network(_) => None,
        }
    }

    /// Returns a kubeconfig for kubectl as text; `None` in process, and for a cluster that was found without one.
    pub fn kubeconfig(&self) -> Option<&str> {
        self.kubeconfig.as_deref()
    }
}

// === impl UserService ===

impl<B> Service<Request<B>> for UserService
where
    ApiService: Service<Request<B>>,
{
    type Response = <ApiService as Service<Request<B>>>::Response;
    type Error = <ApiService as Service<Request<B>>>::Error;
    type Future = <ApiService as Service<Request<B>>>::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.service.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let request = with_headers(request, &self.headers);
        self.service.call(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_are_written_as_kubectl_writes_them() {
        let verbs = ["get".to_owned()];
        let resources = [
            "pods", "pods/log", "deployments.apps/status", "websites.example.com",
        ];
        assert_eq!(
            rules(&verbs, resources),
            json!([
                {"apiGroups": [""], "resources": ["pods", "pods/log"], "verbs": ["get"]},
                {"apiGroups": ["apps"], "resources": ["deployments/status"], "verbs": ["get"]},
                {"apiGroups": ["example.com"], "resources": ["websites"], "verbs": ["get"]},
            ])
        );
    }

    #[test]
    fn a_user_name_that_is_no_header_value_is_refused() {
        let text = impersonation("a\nb", &[]).unwrap_err().to_string();
        assert_eq!(text, "the impersonation of user \"a\\nb\" failed");
    }
}
