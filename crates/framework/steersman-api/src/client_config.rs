//! Handle: the client configuration: makes clients of one API server.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::USER_AGENT;
use http::uri::Authority;
use http::{HeaderValue, Request, Response, Uri};
use kube_client::client::Body;
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;
use tower::{BoxError, Layer, Service};

use crate::config::client_certificate::ClientCertificate;
use crate::config::proxy::is_local;
use crate::config::{ConfigChoice, Environment, FoundConfig, find};
use crate::encoding::{Encoding, SharedEncoding};
use crate::error::Error;
use crate::metrics::ConnectionMetrics;
use crate::network::Network;
use crate::warning::Warning;
use crate::wire::{Middleware, Wire, erase};
use steersman_transport::ConnectionOptions;

/// Makes clients of one API server. Cheap to clone.
///
/// A client belongs to the runtime in which it was made; a configuration does not. Making a configuration does no
/// network I/O.
///
/// Over TLS, clients use HTTP/2 if the server offers it, with [pings](Self::ping_interval) that detect dead
/// connections. Certificates and tokens in files are read again before a connection opens, once per minute, and when
/// the server refuses them (TLS, 401); a refused request is sent once more if they have changed (CONN-4). A request
/// that the server did not process is sent again, too (CONN-5). Clients repeat no other request: a write may have been
/// executed, and a reflector must see a 429.
///
/// Every request of every client goes through the layers and hooks of the configuration: reads, writes, lists and
/// watches. [`layer`](Self::layer) adds a tower layer, [`on_warning`](Self::on_warning) a hook for warnings of the
/// server, [`user_agent`](Self::user_agent) names the program, and [`metrics`](Self::metrics) counts and measures
/// requests.
///
/// ```
/// use steersman_api::ClientConfig;
/// use steersman_apiserver::ApiServer;
/// use tower::layer::layer_fn;
/// use tower::util::MapRequest;
///
/// # let server = ApiServer::new();
/// let connection = ClientConfig::in_process(server.service(), "default")
///     .user_agent("website-operator", "1.4.2")
///     .on_warning(|warning| println!("{}: {}", warning.request, warning.text))
///     .layer(layer_fn(|wire| {
///         MapRequest::new(wire, |mut request: http::Request<_>| {
///             request.headers_mut().insert("x-cost-centre", "42".parse().unwrap());
///             request
///         })
///     }));
/// # let _ = connection;
/// ```
///
/// # Cancel safety
///
/// Every method is cancel safe.
#[derive(Clone, derive_more::Debug)]
#[debug("ClientConfig {{ endpoint: {endpoint:?}, default_namespace: {default_namespace:?}, .. }}")]
#[must_use = "a client configuration does nothing until a client is made of it"]
pub struct ClientConfig {
    destination: Destination,
    endpoint: Arc<str>,
    host: Arc<str>,
    default_namespace: Arc<str>,
    /// Whether the kubeconfig, the Pod or the program sets the namespace.
    names_namespace: bool,
    credentials: Option<Arc<str>>,
    context: Option<Arc<str>>,
    /// Whether the program or its configuration set the `User-Agent`.
    names_program: bool,
    around: Middleware,
}

#[derive(Clone)]
enum Destination {
    Network(Arc<Network>),
    InProcess(Arc<Make>),
}

const UNNAMED_NAMESPACE: &str = "default";

type Make = dyn Fn(&Middleware) -> Result<kube_client::Client, Error> + Send + Sync;

impl ClientConfig {
    /// Returns the first configuration in the order of controller-runtime: the kubeconfig files in `KUBECONFIG`, the
    /// service account of the Pod if one is mounted, or `~/.kube/config`.
    ///
    /// Connections go through the http proxy that the cluster's `proxy-url` names or, without it, `HTTPS_PROXY` with
    /// the exceptions of `NO_PROXY`. The choice follows the rules of Go's clients: a server on this machine has a proxy
    /// only if `proxy-url` names one. Only http proxies can be used, always with `CONNECT`.
    ///
    /// # Errors
    ///
    /// [`Error::NoConfig`] if no configuration exists, [`Error::Config`] if the first existing configuration cannot be
    /// used. Both name the searched places. No request is sent.
    pub async fn infer() -> Result<Self, Error> {
        Self::infer_with(&ConfigChoice::new()).await
    }

    /// Returns the configuration as [`infer`](Self::infer) does, with a kubeconfig or a context of the caller's choice.
    ///
    /// # Errors
    ///
    /// As [`infer`](Self::infer); [`Error::Config`] also if the kubeconfig has no such context.
    pub async fn infer_with(choice: &ConfigChoice) -> Result<Self, Error> {
        Self::checked(find(&Environment::of_process(), choice).await?)
    }

    /// Returns the configuration that the current context of a kubeconfig file names.
    ///
    /// # Errors
    ///
    /// [`Error::Config`], naming the file and the problem.
    pub async fn from_kubeconfig(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::infer_with(&ConfigChoice::new().kubeconfig(path.as_ref())).await
    }

    /// Wraps a configuration of kube-client. The options `read_timeout`, `write_timeout` and `default_retry` of
    /// `config` have no effect: see [`ping_interval`](Self::ping_interval), and the time limits of requests.
    /// `proxy_url` has no effect for a server on this machine, because kube-client sets it from `HTTPS_PROXY` even
    /// there.
    pub fn from_config(mut config: kube_client::Config) -> Self {
        if is_local(&config.cluster_url) {
            config.proxy_url = None;
        }
        Self::of_config(config)
    }

    fn of_config(mut config: kube_client::Config) -> Self {
        // The middleware sets the `User-Agent`, so a value in the configuration is moved there.
        let mut agent = user_agent();
        let mut names_program = false;
        for (_, given) in config
            .headers
            .extract_if(.., |(name, _)| *name == USER_AGENT)
        {
            agent = given;
            names_program = true;
        }
        let endpoint: Arc<str> = config.cluster_url.to_string().trim_end_matches('/').into();
        let host = host(&config.cluster_url).into();
        let default_namespace: Arc<str> = config.default_namespace.as_str().into();
        let network = Network::new(config, Arc::clone(&endpoint));
        Self {
            destination: Destination::Network(Arc::new(network)),
            endpoint,
            host,
            // kube-client's default namespace cannot be told from a namespace that is set to the same name.
            names_namespace: &*default_namespace != UNNAMED_NAMESPACE,
            default_namespace,
            credentials: None,
            context: None,
            names_program,
            around: Middleware::new(agent),
        }
    }

    /// Returns a configuration for an API server in this process, without a socket, so that it works under a paused
    /// clock.
    ///
    /// The service receives requests as a server would, without a host. Each client of the configuration has a clone of
    /// the service.
    pub fn in_process<S, B>(service: S, default_namespace: &str) -> Self
    where
        S: Service<Request<Body>, Response = Response<B>> + Clone + Send + Sync + 'static,
        S::Future: Send + 'static,
        S::Error: Into<BoxError>,
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let default_namespace: Arc<str> = default_namespace.into();
        let namespace = Arc::clone(&default_namespace);
        let make = move |around: &Middleware| {
            let service = around.wrap(service.clone());
            Ok(kube_client::Client::new(service, namespace.to_string()))
        };
        Self {
            destination: Destination::InProcess(Arc::new(make)),
            endpoint: "an api-server in this process".into(),
            host: "in-process".into(),
            default_namespace,
            names_namespace: true,
            credentials: None,
            context: None,
            names_program: false,
            around: Middleware::new(user_agent()),
        }
    }

    /// Sets the program and its version in the `User-Agent`: `website-operator/1.4.2 (linux/x86_64) steersman/0.1.0`.
    /// By default, the name is that of the binary and the version is Steersman's.
    ///
    /// The server records the name as the field manager of writes without a field manager. `env!("CARGO_PKG_NAME")` and
    /// `env!("CARGO_PKG_VERSION")` are good values. A text that is no valid header changes nothing.
    pub fn user_agent(mut self, program: &str, version: &str) -> Self {
        let ours = env!("CARGO_PKG_VERSION");
        let text = format!("{program}/{version} ({}) steersman/{ours}", platform());
        if let Ok(agent) = HeaderValue::from_str(&text) {
            self.around.agent = agent;
            self.names_program = true;
        }
        self
    }

    /// Adds a part of the program to the `User-Agent`, as client-go's `AddUserAgent` does:
    /// `website-operator/1.4.2 (linux/x86_64) steersman/0.1.0/leader-election`. A text that is no valid header changes
    /// nothing.
    pub fn user_agent_suffix(mut self, part: &str) -> Self {
        let agent = String::from_utf8_lossy(self.around.agent.as_bytes());
        if let Ok(agent) = HeaderValue::from_str(&format!("{agent}/{part}")) {
            self.around.agent = agent;
        }
        self
    }

    /// Calls `hook` for each warning in an answer, also for repeated ones.
    ///
    /// Each warning is also logged, and not repeated while it is among the last 512 different ones. The hook runs in
    /// the task of the request and should not block. A panic of the hook is logged and has no other effect.
    pub fn on_warning(mut self, hook: impl Fn(&Warning) + Send + Sync + 'static) -> Self {
        self.around.hooks.push(Arc::new(hook));
        self
    }

    /// Adds a layer to every request of the clients that are made from now on. The layer that was added last sees a
    /// request first. Layers can trace, measure, delay or refuse requests.
    ///
    /// A layer sees requests without credentials, and without the `User-Agent` unless the caller set one. Its service
    /// need not be `Clone`: a client has one, behind a queue. A panic of the service fails that request.
    pub fn layer<L, B>(mut self, layer: L) -> Self
    where
        L: Layer<Wire> + Send + Sync + 'static,
        L::Service: Service<Request<Body>, Response = Response<B>> + Send + 'static,
        <L::Service as Service<Request<Body>>>::Future: Send + 'static,
        <L::Service as Service<Request<Body>>>::Error: Into<BoxError>,
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let wrap = move |wire: Wire| erase(layer.layer(wire));
        self.around.layers.push(Arc::new(wrap));
        self
    }

    /// Sets the encoding of objects. The default is [`Encoding::Protobuf`], or the encoding that the environment
    /// variable `STEERSMAN_ENCODING` names (`json` or `protobuf`). Use JSON for a proxy or a server that damages
    /// protobuf, or to read the traffic.
    ///
    /// Answers are decoded by their content type. If a server refuses protobuf or sends broken protobuf, requests ask
    /// for JSON from then on (CONN-7). Existing clients are not affected.
    pub fn encoding(mut self, encoding: Encoding) -> Self {
        self.around.encoding = SharedEncoding::new(encoding);
        self
    }

    /// Counts and measures the requests of the clients that are made from now on (CONN-6). By default there are no
    /// metrics; a manager sets metrics for a configuration that [has none](Self::has_metrics).
    ///
    /// Metrics are outside of all layers, so a request that a layer refuses counts as a request without an answer.
    ///
    /// ```
    /// use steersman_api::{ClientConfig, ConnectionMetrics};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = steersman_apiserver::ApiServer::new();
    /// let registry = prometheus::Registry::new();
    /// let metrics = ConnectionMetrics::register(&registry)?;
    /// let connection = ClientConfig::in_process(server.service(), "default").metrics(metrics);
    /// # let _ = connection; Ok(()) }
    /// ```
    pub fn metrics(mut self, metrics: ConnectionMetrics) -> Self {
        self.around.metrics = Some(Arc::new(metrics.of_host(&self.host)));
        self
    }

    /// Returns whether metrics were set.
    pub fn has_metrics(&self) -> bool {
        self.around.metrics.is_some()
    }

    /// Sets the time without any data from the server after which a ping is sent over an HTTP/2 connection; 30 s by
    /// default, as in client-go. Over HTTP/1.1, TCP keepalive has the same times.
    ///
    /// A server that does not answer within [`ping_timeout`](Self::ping_timeout) counts as gone: all requests and
    /// watches on that connection fail, and later requests open another connection. So a dead connection is detected
    /// after 45 s at the latest. Zero, and more than a year, disable pings and TCP keepalive.
    ///
    /// Existing clients are not affected.
    pub fn ping_interval(self, interval: Duration) -> Self {
        self.with_options(|options| options.ping_interval = interval)
    }

    /// Sets the time that the server may take to answer a ping; 15 s by default, as in client-go. Zero, and more than
    /// a year, disable pings and TCP keepalive.
    pub fn ping_timeout(self, timeout: Duration) -> Self {
        self.with_options(|options| options.ping_timeout = timeout)
    }

    /// Sets whether clients use HTTP/1.1 only, for proxies that handle HTTP/2 badly; off by default.
    ///
    /// Each watch then has its own connection, and a dead connection is detected only by TCP keepalive, which a proxy
    /// in between may answer.
    pub fn http1_only(self, http1_only: bool) -> Self {
        self.with_options(|options| options.http1_only = http1_only)
    }

    fn with_options(mut self, change: impl FnOnce(&mut ConnectionOptions)) -> Self {
        if let Destination::Network(network) = &self.destination {
            self.destination = Destination::Network(Arc::new(network.with(change)));
        }
        self
    }

    /// Makes a client, which belongs to the current tokio runtime and is cheap to clone.
    ///
    /// All clients that a configuration and its clones make in one runtime share their HTTP connections (CONN-1),
    /// whatever layers they have: one HTTP/2 connection, or more if the server allows fewer streams than there are
    /// watches and requests, or one connection per concurrent request over HTTP/1.1. The connections end with the
    /// last client, and 90 s after their last request.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] if the credentials cannot be used, or outside a tokio runtime.
    pub fn client(&self) -> Result<kube_client::Client, Error> {
        if Handle::try_current().is_err() {
            let place = format!("the configuration for {}", self.endpoint);
            let problem = "a client can only be made inside a tokio runtime";
            return Err(Error::config(place, problem));
        }
        match &self.destination {
            Destination::Network(network) => network.client(&self.around),
            Destination::InProcess(make) => make(&self.around),
        }
    }

    /// Makes a client as [`client`](Self::client) does, on a thread that may block, because a credential plugin may
    /// take long. A client for a server in this process is made at once, so that tests on a paused clock do not depend
    /// on threads.
    ///
    /// # Errors
    ///
    /// As [`client`](Self::client).
    pub async fn connect(&self) -> Result<kube_client::Client, Error> {
        // Without a runtime, `client` returns the error that names it.
        if self.is_in_process() || Handle::try_current().is_err() {
            return self.client();
        }
        let client_config = self.clone();
        let made = spawn_blocking(move || client_config.client()).await;
        made.map_err(|error| {
            let problem = format!("it was not made to the end: {error}");
            Error::config(format!("the client for {}", self.endpoint), problem)
        })?
    }

    /// Returns the program's name in the `User-Agent`, up to the slash: the field manager of writes without a field
    /// manager.
    pub fn program(&self) -> String {
        let agent = String::from_utf8_lossy(self.around.agent.as_bytes());
        agent.split('/').next().unwrap_or_default().to_owned()
    }

    /// Returns whether [`user_agent`](Self::user_agent), or a configuration with a `User-Agent`, named the program;
    /// otherwise its name is that of the binary.
    pub fn names_program(&self) -> bool {
        self.names_program
    }

    /// Returns the address of the API server, for people.
    pub fn endpoint(&self) -> String {
        self.endpoint.to_string()
    }

    /// Returns the host of the API server, and the port if the configuration names one, as in the label `host` of
    /// metrics; `in-process` for a server in this process.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the namespace of the current context or of this Pod; `default` if none is named.
    pub fn default_namespace(&self) -> &str {
        &self.default_namespace
    }

    /// Returns the namespace that the current context, the Pod, or the program names; `None` if none of them names
    /// one, so that [`default_namespace`](Self::default_namespace) is `default` by default.
    pub fn namespace(&self) -> Option<&str> {
        self.names_namespace.then_some(&*self.default_namespace)
    }

    /// Returns the user of the credentials and the location of the credentials, for people: a user of a kubeconfig, or
    /// the service account of this Pod. `None` if the program itself made the configuration.
    pub fn credentials(&self) -> Option<&str> {
        self.credentials.as_deref()
    }

    /// Reads the client certificate of the user; `None` if a token, a password or a credential plugin names the user.
    /// Blocks while a file is read.
    pub fn client_certificate(&self) -> Option<std::io::Result<ClientCertificate>> {
        match &self.destination {
            Destination::Network(network) => network.client_certificate(self.credentials()),
            Destination::InProcess(_) => None,
        }
    }

    /// Returns whether the API server is in this process.
    pub fn is_in_process(&self) -> bool {
        matches!(self.destination, Destination::InProcess(_))
    }

    /// Returns the context of the kubeconfig; `None` in a Pod, or if the program itself made the configuration.
    pub fn context(&self) -> Option<&str> {
        self.context.as_deref()
    }

    /// Checks that the credentials can be read. Credentials of a plugin are first requested by a client.
    fn checked(found: FoundConfig) -> Result<Self, Error> {
        let runs_a_program = found.config.auth_info.exec.is_some();
        let mut client_config = Self::of_config(found.config);
        client_config.credentials = Some(found.credentials.into());
        client_config.context = found.context.map(Into::into);
        client_config.names_namespace = found.names_namespace;
        if !runs_a_program {
            client_config.client()?;
        }
        Ok(client_config)
    }
}

/// Returns the `User-Agent`: `program/steersman-version (platform)`. The server derives a field manager from its
/// beginning.
fn user_agent() -> HeaderValue {
    let program = std::env::args_os().next();
    let program = program.as_deref().map(Path::new).and_then(Path::file_stem);
    let program = program.and_then(|p| p.to_str()).unwrap_or("unknown");
    // The text before the first slash is the field manager of writes without a field manager.
    let ours = env!("CARGO_PKG_VERSION");
    let text = format!("{program}/steersman-{ours} ({})", platform());
    HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static("steersman"))
}

/// Returns the host of an address, and the port if there is one, without the path and the user.
fn host(address: &Uri) -> &str {
    let authority = address.authority().map_or("", Authority::as_str);
    authority
        .rsplit_once('@')
        .map_or(authority, |(_, host)| host)
}

fn platform() -> String {
    format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH)
}
