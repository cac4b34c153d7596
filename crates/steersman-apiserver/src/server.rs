//! Handle: `ApiServer`, a Kubernetes API server inside this process.

mod clock;
mod names;
mod options;
mod socket;
mod serving;
mod persist;

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use http_body_util::Full;
use jiff::Timestamp;
use serde_json::Value;
use tokio::net::ToSocketAddrs;
use tokio_util::sync::CancellationToken;

use names::{find, of_object, scope};
pub use options::ApiServerBuilder;
pub use serving::Serving;

use crate::error::Error;
use crate::faults::{Faults, RequestLog, Restart};
use crate::http::{ApiService, Context, Tuning};
use crate::tls::Pem;
#[cfg(feature = "player")]
use steersman_player::Player;
use steersman_registry::auth::User;
use steersman_registry::{
    DeleteOptions, GetOptions, ListOptions, PatchKind, Registry, Target, WriteOptions,
};
use steersman_text::status::Status;

/// A Kubernetes API server inside this process. Cheap to clone; clones are the same server.
///
/// Clients in the process use [`service`](Self::service), others [`serve`](Self::serve). The
/// methods that read and write objects directly are conveniences for tests: they do what the
/// verbs do, and neither appear in the request log nor meet faults.
///
/// They name resources as kubectl does: `pods`, `deployments.apps`, `websites.example.com`, and
/// `deployments.apps/status` where a subresource is meant. `namespace` is empty for cluster-scoped
/// resources.
#[derive(Clone)]
pub struct ApiServer {
    context: Arc<Context>,
    #[cfg(feature = "player")]
    player: Player,
    pem: Arc<Pem>,
    http2_streams: u32,
    stop: CancellationToken,
}

impl ApiServerBuilder {
    /// Makes the server. It has Kubernetes' own kinds and the namespaces `default`, `kube-system`,
    /// `kube-public` and `kube-node-lease`.
    #[must_use]
    pub fn build(self) -> ApiServer {
        let clock = self
            .clock
            .unwrap_or_else(|| clock::default_clock(self.starts_at));
        let seed = self.registry.seed;
        let tuning = Tuning {
            watch_list: self.watch_list,
            gzip_watches: self.gzip_watches,
            bookmark_every: self.bookmark_every,
            watch_timeout: self.watch_timeout,
        };
        let mut registry = Registry::new(self.registry, clock());
        if let Some(snapshot) = &self.snapshot {
            registry.restore(snapshot);
            registry.bootstrap(clock());
        }
        let log = RequestLog::new(self.log_capacity);
        let context = Arc::new(Context::new(
            registry,
            clock,
            tuning,
            (log, Faults::new(seed)),
        ));
        let server = ApiServer {
            context,
            #[cfg(feature = "player")]
            player: Player::new(&self.played, seed),
            pem: Arc::new(self.pem),
            http2_streams: self.http2_streams,
            stop: CancellationToken::new(),
        };
        server.drive();
        server
    }
}

impl Default for ApiServer {
    fn default() -> Self {
        Self::new()
    }
}

impl ApiServer {
    /// A server with the default options.
    #[must_use]
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// Sets up a server.
    pub fn builder() -> ApiServerBuilder {
        ApiServerBuilder::default()
    }

    /// The server as a `tower::Service`, for clients in this process. Use it within a tokio
    /// runtime: watches and delays need its timers.
    ///
    /// Requests are those of [`User::admin`], who may do everything, unless they bring a credential
    /// of their own.
    #[must_use]
    pub fn service(&self) -> ApiService {
        self.service_as(User::admin())
    }

    /// Like [`service`](Self::service), for somebody else. A user who is in neither of the groups
    /// `system:authenticated` and `system:unauthenticated` counts as authenticated.
    #[must_use]
    pub fn service_as(&self, user: User) -> ApiService {
        self.drive();
        let context = Arc::clone(&self.context);
        ApiService::new(context, user.authenticated(), self.stop.clone())
    }

    /// Makes a token for a user, with which clients of [`serve`](Self::serve) show who they are.
    /// The user counts as authenticated. What he may do is for Roles and bindings to say.
    #[must_use = "the token is what lets the user in"]
    pub fn add_user(&self, user: User) -> String {
        self.add_token(user, true)
    }

    /// A listener's own token ends with it and is not kept: the next one makes another.
    fn add_token(&self, user: User, kept: bool) -> String {
        let token = secret();
        let known = token.clone();
        self.context
            .with_registry(|registry| registry.add_token(known, user, kept));
        token
    }

    /// Serves HTTPS on a loopback address, for kubectl and other processes. Port 0 takes any free
    /// one. Unless the server was built with
    /// [`Authorization::Rbac`](crate::auth::Authorization::Rbac) any credential, and none, is
    /// accepted. Sockets live in real time: not for a paused clock.
    ///
    /// # Errors
    /// [`Error::Listen`] where the address cannot be used, [`Error::NotLoopback`] where others
    /// could reach it, [`Error::Certificates`] where no certificates could be made.
    ///
    /// # Cancel safety
    /// Safe: nothing is listening before it returns.
    pub async fn serve(&self, address: impl ToSocketAddrs + fmt::Debug) -> Result<Serving, Error> {
        self.listen(address, false).await
    }

    /// As [`serve`](Self::serve), on any address, so that other machines can connect. Whoever does
    /// may do everything, unless the server was built with
    /// [`Authorization::Rbac`](crate::auth::Authorization::Rbac): then it is for tokens and roles to
    /// say. The certificate names loopback and the address, if it is a single one.
    ///
    /// # Errors
    /// [`Error::Listen`] where the address cannot be used, [`Error::Certificates`] where no
    /// certificates could be made.
    ///
    /// # Cancel safety
    /// Safe: nothing is listening before it returns.
    pub async fn serve_others(
        &self,
        address: impl ToSocketAddrs + fmt::Debug,
    ) -> Result<Serving, Error> {
        self.listen(address, true).await
    }

    async fn listen<A>(&self, address: A, others: bool) -> Result<Serving, Error>
    where
        A: ToSocketAddrs + fmt::Debug,
    {
        self.drive();
        let described = format!("{address:?}");
        let stop = self.stop.child_token();
        Serving::start(self.clone(), stop, address, described, others).await
    }

    /// The service behind a listener. Who shows no credential is nobody, where it matters; `shown` is
    /// the user of a connection whose client showed a certificate.
    fn network(&self, shown: Option<User>, stop: CancellationToken) -> ApiService {
        let context = Arc::clone(&self.context);
        let everybody = context.with_registry(|registry| registry.authorizer().allows_all());
        let caller = shown.unwrap_or_else(|| {
            if everybody {
                User::admin()
            } else {
                User::anonymous()
            }
        });
        ApiService::new(context, caller, stop)
    }

    /// Stops every listener, ends every watch, and refuses later requests with 503.
    pub fn shut_down(&self) {
        self.stop.cancel();
        self.context.faults.end_stopped();
    }

    /// What was asked of the server.
    #[must_use]
    pub fn requests(&self) -> &RequestLog {
        &self.context.log
    }

    /// Failures on demand.
    #[must_use]
    pub fn faults(&self) -> &Faults {
        &self.context.faults
    }

    /// Leads the webhooks of a Service to a service in this process: an axum router, for instance,
    /// or `tower::service_fn`. It is asked without sockets and TLS, so on a paused clock too. A
    /// webhook configured with a URL is led there as well where its host is
    /// `name.namespace.svc`.
    ///
    /// Without a route a Service leads to the addresses of its Endpoints, over HTTPS.
    ///
    /// ```
    /// use bytes::Bytes;
    /// use http::{Request, Response};
    /// use http_body_util::{BodyExt, Full};
    /// use serde_json::{Value, json};
    /// use steersman_apiserver::ApiServer;
    /// use tower::ServiceExt;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let server = ApiServer::new();
    /// server.route_service_to("hooks", "judge", tower::service_fn(|request: Request<Full<Bytes>>| async {
    ///     let body = request.into_body().collect().await?.to_bytes();
    ///     let review: Value = serde_json::from_slice(&body).unwrap_or_default();
    ///     let answer = json!({
    ///         "apiVersion": "admission.k8s.io/v1",
    ///         "kind": "AdmissionReview",
    ///         "response": {
    ///             "uid": review["request"]["uid"],
    ///             "allowed": review["request"]["object"]["data"]["colour"] != "red",
    ///         },
    ///     });
    ///     Ok::<_, std::convert::Infallible>(Response::new(Full::new(Bytes::from(answer.to_string()))))
    /// }));
    /// server.create(json!({
    ///     "apiVersion": "admissionregistration.k8s.io/v1",
    ///     "kind": "ValidatingWebhookConfiguration",
    ///     "metadata": {"name": "judge"},
    ///     "webhooks": [{
    ///         "name": "judge.example.com",
    ///         "clientConfig": {"service": {"namespace": "hooks", "name": "judge"}},
    ///         "rules": [{
    ///             "operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"],
    ///             "resources": ["configmaps"],
    ///         }],
    ///         "sideEffects": "None",
    ///         "admissionReviewVersions": ["v1"],
    ///     }],
    /// }))?;
    /// let red = json!({"metadata": {"name": "a"}, "data": {"colour": "red"}});
    /// let request = Request::post("/api/v1/namespaces/default/configmaps").body(Full::new(Bytes::from(red.to_string())));
    /// let response = server.service().oneshot(request?).await?;
    /// assert_eq!(response.status(), 400);
    /// # Ok(())
    /// # }
    /// ```
    pub fn route_service_to<S, B>(&self, namespace: &str, name: &str, service: S)
    where
        S: tower::Service<Request<Full<Bytes>>, Response = Response<B>>,
        S: Clone + Send + Sync + 'static,
        S::Future: Send,
        S::Error: fmt::Display + Send,
        B: Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let host = format!("{name}.{namespace}.svc");
        self.context.webhooks.route_in_process(host, service);
    }

    /// Leads the webhooks behind a port of a Service to another `https://` URL, of which scheme,
    /// host and port count. Its certificate must be one for that host or for the Service
    /// (`name.namespace.svc`), and be believed by the webhook's `caBundle`.
    pub fn route_service(&self, namespace: &str, name: &str, port: u16, url: &str) {
        let host = format!("{name}.{namespace}.svc");
        self.context.webhooks.route(host, port, url.to_owned());
    }

    /// What is played of a cluster: troubles of Pods, and the speed. It acts as soon as the server is
    /// used within a tokio runtime.
    #[cfg(feature = "player")]
    #[must_use]
    pub fn player(&self) -> &Player {
        &self.player
    }

    /// Starts the task that drives the player, unless one runs already or there is no runtime.
    #[cfg_attr(
        not(feature = "player"),
        expect(clippy::unused_self, reason = "there is no player")
    )]
    fn drive(&self) {
        #[cfg(feature = "player")]
        steersman_player::start(&self.player, &self.context, &self.stop);
    }

    /// Forgets every past revision. Watches that resume from before now end with 410, and so do
    /// continue tokens of lists that began before.
    pub fn compact(&self) {
        self.context.with_registry(Registry::compact);
    }

    /// Does to clients what a restart of the server does, and returns the number of watches that were open.
    /// These break off, idle connections are closed, and objects and the count of revisions stay. Without its
    /// history, watches and lists that resume from before are answered 410.
    /// A [`History`](crate::History) alone takes no time; a [`Restart`] has phases, see there.
    pub fn restart(&self, restart: impl Into<Restart>) -> usize {
        self.context.restart(restart.into())
    }

    /// The newest revision.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.context.with_registry(|registry| registry.revision())
    }

    /// The server's wall time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.context.now()
    }

    /// Creates or replaces a CustomResourceDefinition, which is served at once.
    ///
    /// # Errors
    /// The Status with which the definition was refused.
    pub fn install_crd(&self, crd: Value) -> Result<Value, Status> {
        let now = self.context.now();
        let written = self
            .context
            .with_registry(|registry| registry.install_crd(crd, now))?;
        Ok(written.object.look().into_owned())
    }

    /// An object, if it exists.
    #[must_use]
    pub fn get(&self, resource: &str, namespace: &str, name: &str) -> Option<Value> {
        self.context.with_registry(|registry| {
            let (resource, subresource) = find(registry, resource).ok()?;
            let target = Target::object(&resource, scope(&resource, namespace), name);
            let options = GetOptions::default();
            let found = registry.get(target.part(subresource), &options).ok()?;
            Some(found.look().into_owned())
        })
    }

    /// The objects of a namespace, or of all with an empty one.
    #[must_use]
    pub fn list(&self, resource: &str, namespace: &str) -> Vec<Value> {
        let page = self.context.with_registry(|registry| {
            let (resource, _) = find(registry, resource)?;
            let namespace = scope(&resource, namespace);
            registry.list(&resource, namespace, &ListOptions::default())
        });
        let items = page.map(|page| page.items).unwrap_or_default();
        items
            .iter()
            .map(|object| object.look().into_owned())
            .collect()
    }

    /// Creates an object; its kind and version say where. Without a namespace it goes to `default`.
    ///
    /// # Errors
    /// The Status with which it was refused.
    pub fn create(&self, object: Value) -> Result<Value, Status> {
        let now = self.context.now();
        self.context.with_registry(|registry| {
            let resource = of_object(registry, &object)?;
            // Nothing that cannot be read back is kept.
            if !resource.verbs.contains(&"create") || !resource.verbs.contains(&"get") {
                return Err(Status::method_not_allowed());
            }
            let namespace = object["metadata"]["namespace"]
                .as_str()
                .unwrap_or("default")
                .to_owned();
            let target = Target::collection(&resource, scope(&resource, &namespace));
            let options = WriteOptions::default();
            let written = registry.create(target, object, &options, now)?;
            Ok(written.object.look().into_owned())
        })
    }

    /// Replaces the object that `object["metadata"]` names, as PUT does, and returns it as it is
    /// stored then. Without a namespace it is looked for in `default`.
    ///
    /// `resource` is the plural with its group: `pods`, `deployments.apps`, for a part of the object
    /// `deployments.apps/status` or `…/scale`. A `metadata.resourceVersion` has to be the current one.
    ///
    /// # Errors
    /// The Status of the refusal: 404 if it is not there, 409 for another version, 422 if invalid.
    pub fn update(&self, resource: &str, object: Value) -> Result<Value, Status> {
        let now = self.context.now();
        self.context.with_registry(|registry| {
            let (resource, subresource) = find(registry, resource)?;
            let metadata = object["metadata"].clone();
            let namespace = scope(
                &resource,
                metadata["namespace"].as_str().unwrap_or("default"),
            );
            let name = metadata["name"].as_str().unwrap_or_default();
            let options = WriteOptions::default();
            let target = Target::object(&resource, namespace, name).part(subresource);
            let written = registry.update(target, object, &options, now)?;
            Ok(written.object.look().into_owned())
        })
    }

    /// Changes an object by a JSON merge patch (RFC 7386), and returns it as it is stored then. A patch
    /// that changes nothing writes nothing, and watches see no event.
    ///
    /// `resource` is named as for [`ApiServer::update`]; `namespace` counts for namespaced ones alone.
    ///
    /// # Errors
    /// The Status of the refusal: 404 if it is not there, 409 for another version, 422 if invalid.
    pub fn merge_patch(
        &self,
        resource: &str,
        namespace: &str,
        name: &str,
        patch: &Value,
    ) -> Result<Value, Status> {
        let now = self.context.now();
        let body = patch.to_string();
        self.context.with_registry(|registry| {
            let (resource, subresource) = find(registry, resource)?;
            let (namespace, options) = (scope(&resource, namespace), WriteOptions::default());
            let target = Target::object(&resource, namespace, name).part(subresource);
            let body = body.as_bytes();
            let written = registry.patch(target, PatchKind::Merge, body, &options, now)?;
            Ok(written.object.look().into_owned())
        })
    }

    /// Deletes an object as a request without options does: one with finalizers, a Pod on a node and a
    /// namespace stay, with a `deletionTimestamp`, until finalizers, grace period or contents are gone.
    /// Dependents go in the background, where the server plays the garbage collector.
    ///
    /// `resource` is named as for [`ApiServer::update`]; `namespace` counts for namespaced ones alone.
    ///
    /// # Errors
    /// The Status of the refusal: 404 if it is not there, 403 for a namespace that must stay.
    pub fn delete(&self, resource: &str, namespace: &str, name: &str) -> Result<(), Status> {
        let now = self.context.now();
        self.context.with_registry(|registry| {
            let (resource, _) = find(registry, resource)?;
            let target = Target::object(&resource, scope(&resource, namespace), name);
            registry.delete(target, &DeleteOptions::default(), now)?;
            Ok(())
        })
    }
}

/// A token that nobody can guess.
fn secret() -> String {
    let mut bytes = [0; 24];
    let random = rustls::crypto::ring::default_provider().secure_random;
    match random.fill(&mut bytes) {
        Ok(()) => URL_SAFE_NO_PAD.encode(bytes),
        // An empty token is none, and lets nobody in.
        Err(_) => String::new(),
    }
}

impl fmt::Debug for ApiServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiServer").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
