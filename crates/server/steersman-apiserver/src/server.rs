//! Handle: `ApiServer`, a Kubernetes API server inside this process.

mod background_task;
mod migrator;
mod removals;
mod options;
mod socket;
mod serving;
mod objects;

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use http_body_util::Full;
use jiff::{SignedDuration, Timestamp};
use tokio::net::ToSocketAddrs;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use background_task::BackgroundTask;
pub use options::ApiServerBuilder;
pub use serving::Serving;

use crate::error::Error;
use crate::faults::{Faults, RequestInterceptor, RequestLog, Restart};
use crate::http::{ApiService, Caller, Clock, Context};
use crate::tls::Pem;
use steersman_auth::User;
use steersman_registry::{Registry, Snapshot};
#[cfg(feature = "simulator")]
use steersman_simulator::Simulator;

/// A Kubernetes API server inside this process. Cheap to clone; clones are handles of one server.
///
/// Clients in the process use [`service`](Self::service), other clients [`serve`](Self::serve). The methods that read
/// and write objects directly are conveniences for tests: they do what requests do, but they do not appear in the
/// request log and are not affected by faults.
///
/// Resources are named as in kubectl: `pods`, `deployments.apps`, `websites.example.com`, and
/// `deployments.apps/status` for a subresource. `namespace` is empty for cluster-scoped resources.
#[derive(Clone, derive_more::Debug)]
#[debug("ApiServer {{ .. }}")]
pub struct ApiServer {
    context: Arc<Context>,
    migrator: Arc<BackgroundTask>,
    removals: Arc<BackgroundTask>,
    #[cfg(feature = "simulator")]
    simulator: Simulator,
    pem: Arc<Pem>,
    admin_token: Option<Arc<str>>,
    http2_streams: u32,
    stop: CancellationToken,
}

impl ApiServerBuilder {
    /// Builds the server. It has the built-in kinds and the namespaces `default`, `kube-system`, `kube-public` and
    /// `kube-node-lease`.
    #[must_use]
    pub fn build(self) -> ApiServer {
        let clock = self.clock.unwrap_or_else(|| default_clock(self.starts_at));
        let seed = self.registry.seed;
        let mut registry = Registry::new(self.registry, clock());
        if let Some(recovery) = &self.recovery {
            registry.recover(recovery);
        }
        for (token, user) in self.static_tokens {
            registry.add_token(token, user, false);
        }
        let removes_later = !registry.removes_at_once() || registry.has_marked();
        let migrator = Arc::new(BackgroundTask::new(registry.migrates_storage()));
        let removals = Arc::new(BackgroundTask::new(removes_later));
        let parts = (RequestLog::new(self.log_capacity), Faults::new(seed));
        let mut context = Context::new(registry, clock, self.tuning, parts);
        if let Some(wal) = self.wal {
            context.log_writes(wal);
        }
        if self.recovery.is_some() {
            let now = context.now();
            context.with_registry(|registry| registry.bootstrap(now));
        }
        let server = ApiServer {
            context: Arc::new(context),
            migrator,
            removals,
            #[cfg(feature = "simulator")]
            simulator: Simulator::new(&self.played, seed),
            pem: Arc::new(self.pem),
            admin_token: self.admin_token.map(Arc::from),
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
    /// Creates a server with the default options.
    #[must_use]
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// Returns a builder, for a server with options other than the defaults.
    pub fn builder() -> ApiServerBuilder {
        ApiServerBuilder::default()
    }

    /// Returns the server as a `tower::Service`, for clients in this process. Use it within a tokio
    /// runtime: watches and delays need its timers.
    ///
    /// Requests without a credential of their own are those of [`User::admin`], which may do everything.
    pub fn service(&self) -> ApiService {
        self.service_as(User::admin())
    }

    /// Returns the server as a `tower::Service`, like [`service`](Self::service), but requests without a credential of
    /// their own are those of `user`. A user in neither of the groups `system:authenticated` and
    /// `system:unauthenticated` counts as authenticated.
    pub fn service_as(&self, user: User) -> ApiService {
        self.drive();
        let context = Arc::clone(&self.context);
        let caller = Caller::Usual(Arc::new(user.authenticated()));
        ApiService::new(context, caller, self.stop.clone())
    }

    /// Registers a user and returns a bearer token for clients of [`serve`](Self::serve). The user counts as
    /// authenticated; its permissions come from Roles and bindings.
    #[must_use = "the token is what lets the user in"]
    pub fn add_user(&self, user: User) -> String {
        self.add_token(secret(), user, true)
    }

    /// Registers a bearer token of a user. Snapshots include the token if it is `kept`; the token in a listener's
    /// kubeconfig is not kept.
    fn add_token(&self, token: String, user: User, kept: bool) -> String {
        let known = token.clone();
        self.context
            .with_registry(|registry| registry.add_token(known, user, kept));
        token
    }

    /// Serves HTTPS on a loopback address, for kubectl and other processes. Port 0 takes any free port. Requests with
    /// any credential, or with none, are accepted, unless the server was built with
    /// [`Authorization::Rbac`](crate::auth::Authorization::Rbac). Needs real time, not a paused clock.
    ///
    /// # Errors
    /// [`Error::Listen`] if the address cannot be used, [`Error::NotLoopback`] if other machines
    /// could reach it, [`Error::Option`] for an option that cannot be used,
    /// [`Error::Certificates`] if no certificates could be generated.
    ///
    /// # Cancel safety
    /// Safe: nothing is listening before it returns.
    pub async fn serve(&self, address: impl ToSocketAddrs + fmt::Debug) -> Result<Serving, Error> {
        self.serve_listener(serving::bind(address, false).await?)
    }

    /// Serves HTTPS on any address, so that other machines can connect; [`serve`](Self::serve) allows only loopback.
    /// Every client may do everything, unless the server was built with
    /// [`Authorization::Rbac`](crate::auth::Authorization::Rbac). A generated certificate names loopback, and the
    /// address unless it stands for all addresses (`0.0.0.0` or `::`).
    ///
    /// # Errors
    /// [`Error::Listen`] if the address cannot be used, [`Error::Option`] for an option that cannot
    /// be used, [`Error::Certificates`] if no certificates could be generated.
    ///
    /// # Cancel safety
    /// Safe: nothing is listening before it returns.
    pub async fn serve_others(
        &self,
        address: impl ToSocketAddrs + fmt::Debug,
    ) -> Result<Serving, Error> {
        self.serve_listener(serving::bind(address, true).await?)
    }

    /// Stops every listener, ends every watch, and refuses later requests with 503.
    pub fn shut_down(&self) {
        self.stop.cancel();
        self.context.faults.watches.end_stopped();
    }

    /// Returns the log of the requests that the server received.
    pub fn requests(&self) -> &RequestLog {
        &self.context.log
    }

    /// Returns the handle that injects faults.
    pub fn faults(&self) -> &Faults {
        &self.context.faults
    }

    /// Routes the webhooks of a Service to a service in this process: an axum router, for instance,
    /// or `tower::service_fn`. Calls use neither sockets nor TLS, so they work on a paused clock.
    /// Webhooks configured with a URL are routed too if its host is `name.namespace.svc`.
    ///
    /// Without a route the webhooks of a Service are called over HTTPS at its Endpoints' addresses.
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

    /// Routes the webhooks behind a port of a Service to another `https://` URL. Only the scheme,
    /// host and port of the URL are used. The certificate must be valid for that host or for the
    /// Service (`name.namespace.svc`), and trusted by the webhook's `caBundle`.
    pub fn route_service(&self, namespace: &str, name: &str, port: u16, url: &str) {
        let host = format!("{name}.{namespace}.svc");
        self.context.webhooks.route(host, port, url.to_owned());
    }

    /// Lets every call of a webhook fail, as if no webhook listened, or lets calls arrive again.
    pub fn refuse_webhooks(&self, is_refused: bool) {
        self.context.webhooks.refuse(is_refused);
    }

    /// Sets the interceptor that each request on objects passes, before it is carried out and before it is answered; `None`
    /// removes the interceptor. Requests that are in progress pass the interceptor that they began with.
    pub fn set_interceptor(&self, interceptor: Option<Arc<dyn RequestInterceptor>>) {
        self.context.interceptor.set(interceptor);
    }

    /// Returns the simulator, which lets Pods fail and sets their speed. The simulator acts once the server is used
    /// within a tokio runtime.
    #[cfg(feature = "simulator")]
    pub fn simulator(&self) -> &Simulator {
        &self.simulator
    }

    /// Starts the background tasks, unless they run already, or this thread is outside a tokio runtime.
    fn drive(&self) {
        let (context, stop) = (&self.context, &self.stop);
        self.migrator.start(context, stop, migrator::run);
        self.removals.start(context, stop, removals::run);
        #[cfg(feature = "simulator")]
        steersman_simulator::start(&self.simulator, &self.context, &self.stop);
    }

    /// Compacts every past revision. Watches that resume from an earlier revision then end with 410, and so do continue
    /// tokens of earlier lists.
    pub fn compact(&self) {
        self.context.with_registry(Registry::compact);
    }

    /// Simulates a restart of the server as clients see it, and returns the number of watches that were open. The
    /// watches break and idle connections are closed; objects and revisions stay. If the restart loses the history,
    /// watches and lists that resume from an earlier revision are answered 410. A [`History`](crate::History) alone is
    /// a restart that takes no time; a [`Restart`] has phases.
    pub fn restart(&self, restart: impl Into<Restart>) -> usize {
        self.context.restart(restart.into())
    }

    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.context
    }

    pub(crate) fn stop_token(&self) -> &CancellationToken {
        &self.stop
    }

    /// Returns the newest revision: the resource version of the last write.
    pub fn revision(&self) -> u64 {
        self.context.with_registry(|registry| registry.revision())
    }

    /// Returns the server's wall time, by the clock that the builder was given.
    pub fn now(&self) -> Timestamp {
        self.context.now()
    }

    /// Returns the whole state of the server, for [`ApiServerBuilder::restore`]. Cheap, because objects are shared.
    /// With a [`WriteAheadLog`](crate::WriteAheadLog) the next transaction starts a new file of the log.
    pub fn snapshot(&self) -> Snapshot {
        self.context.snapshot()
    }
}

/// Returns a wall clock that advances with tokio's clock, so that pausing tokio's clock pauses it.
fn default_clock(starts_at: Option<Timestamp>) -> Clock {
    let begin = starts_at.unwrap_or_else(Timestamp::now);
    let started = Instant::now();
    Arc::new(move || {
        let elapsed = SignedDuration::try_from(started.elapsed());
        let now = begin.checked_add(elapsed.unwrap_or(SignedDuration::MAX));
        now.unwrap_or(Timestamp::MAX)
    })
}

/// Returns a random text that cannot be guessed.
pub(crate) fn secret() -> String {
    let mut bytes = [0; 24];
    let random = rustls::crypto::ring::default_provider().secure_random;
    match random.fill(&mut bytes) {
        Ok(()) => URL_SAFE_NO_PAD.encode(bytes),
        // If the operating system gives no random bytes, the token is empty, and an empty token authenticates no user.
        Err(_) => String::new(),
    }
}

#[cfg(test)]
mod tests;
