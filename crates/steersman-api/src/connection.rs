//! Handle: a recipe that makes clients for one api-server.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::USER_AGENT;
use http::{HeaderValue, Request, Response};
use kube_client::client::Body;
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;
use tower::{BoxError, Layer, Service};

use crate::config::{Environment, Found, find, read};
use crate::error::Error;
use crate::link::{LinkOptions, Network};
use crate::warning::Warning;
use crate::wire::{Middleware, Wire};

/// How to reach one api-server: a recipe that makes clients, cheap to clone.
///
/// A recipe and not a client, because a client belongs to the runtime it was made in. Making a connection does
/// no network I/O.
///
/// Over TLS, HTTP/2 is spoken where the server offers it, with [pings](Self::ping_interval) that find out about
/// dead links. Certificates and tokens that are files are read again before a connection opens, each minute,
/// and where the server refuses them (TLS, 401); a request that was refused so is sent once more if they have
/// changed (`CONN-4`). Besides that, and requests that the server says it did not process (`CONN-5`), clients
/// never retry by themselves: a write that may have happened is not repeated blindly, and a reflector has to
/// see a 429.
///
/// What is put on a connection, every request of every client made from it passes: reads, writes, lists and
/// watches. [`layer`](Self::layer) puts a tower layer on it, [`on_warning`](Self::on_warning) hears what the
/// server warns of, [`user_agent`](Self::user_agent) names the program.
///
/// ```
/// use steersman_api::Connection;
/// use steersman_apiserver::ApiServer;
/// use tower::layer::layer_fn;
/// use tower::util::MapRequest;
///
/// # let server = ApiServer::new();
/// let connection = Connection::in_process(server.service(), "default")
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
#[derive(Clone)]
pub struct Connection {
    way: Way,
    endpoint: Arc<str>,
    default_namespace: Arc<str>,
    credentials: Option<Arc<str>>,
    around: Middleware,
}

/// Where the clients of a connection send their requests.
#[derive(Clone)]
enum Way {
    Network(Arc<Network>),
    InProcess(Arc<Make>),
}

type Make = dyn Fn(&Middleware) -> Result<kube_client::Client, Error> + Send + Sync;

impl Connection {
    /// The api-server that the surroundings name: the kubeconfig files in `KUBECONFIG`, else
    /// `~/.kube/config`, else the service account of the pod this runs in.
    ///
    /// # Errors
    ///
    /// [`Error::NoConfig`] where there is none of them, [`Error::Config`] where the first that is
    /// there cannot be used. Both name what was looked at. The server itself is not asked.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn infer() -> Result<Self, Error> {
        Self::checked(find(&Environment::of_process()).await?)
    }

    /// The api-server that the current context of a kubeconfig file names.
    ///
    /// # Errors
    ///
    /// [`Error::Config`], naming the file and what is wrong with it.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn from_kubeconfig(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref().to_owned();
        Self::checked(read(&[path], "it was asked for").await?)
    }

    /// The api-server of a configuration. Of its options, `read_timeout`, `write_timeout` and `default_retry`
    /// have no effect: see [`ping_interval`](Self::ping_interval), and the time limits of requests.
    #[must_use]
    pub fn from_config(mut config: kube_client::Config) -> Self {
        // One place names the program; a configuration that does so is obeyed there.
        let mut agent = user_agent();
        for (_, given) in config
            .headers
            .extract_if(.., |(name, _)| *name == USER_AGENT)
        {
            agent = given;
        }
        let endpoint: Arc<str> = config.cluster_url.to_string().trim_end_matches('/').into();
        let default_namespace = config.default_namespace.as_str().into();
        let network = Network::new(config, Arc::clone(&endpoint));
        Self {
            way: Way::Network(Arc::new(network)),
            endpoint,
            default_namespace,
            credentials: None,
            around: Middleware::new(agent),
        }
    }

    /// An api-server in this process: no socket, and so usable under a paused clock.
    ///
    /// The service gets requests as a server would see them, without a host; each client made
    /// from this connection has a clone of it.
    #[must_use]
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
            way: Way::InProcess(Arc::new(make)),
            endpoint: "an api-server in this process".into(),
            default_namespace,
            credentials: None,
            around: Middleware::new(user_agent()),
        }
    }

    /// Names the program and its version to the server: `website-operator/1.4.2 (linux/x86_64)
    /// steersman/0.1.0`. Without it, the name is that of the binary, and the version Steersman's.
    ///
    /// The name is what the server notes as field manager of writes that name none. `env!("CARGO_PKG_NAME")`
    /// and `env!("CARGO_PKG_VERSION")` are good values. A text that no header can hold changes nothing.
    #[must_use]
    pub fn user_agent(mut self, program: &str, version: &str) -> Self {
        let ours = env!("CARGO_PKG_VERSION");
        let text = format!("{program}/{version} ({}) steersman/{ours}", platform());
        if let Ok(agent) = HeaderValue::from_str(&text) {
            self.around.agent = agent;
        }
        self
    }

    /// Calls `hook` for each warning that an answer carries, repeated ones too.
    ///
    /// With and without a hook, each warning is logged once, as long as it is among the last 512 different
    /// ones. The hook runs in the task of the request: it should not block. A panic of it is logged and
    /// ends nothing.
    #[must_use]
    pub fn on_warning(mut self, hook: impl Fn(&Warning) + Send + Sync + 'static) -> Self {
        self.around.hook(hook);
        self
    }

    /// Puts a layer on the way of every request of clients made from here on; the one put last sees a request
    /// first. This is where requests are traced, measured, delayed or refused.
    ///
    /// A layer sees requests without the `User-Agent`, which is set where none is, and without credentials.
    /// Its service need not be `Clone`: a client has one, behind a queue. One that panics fails that request.
    #[must_use]
    pub fn layer<L, B>(mut self, layer: L) -> Self
    where
        L: Layer<Wire> + Send + Sync + 'static,
        L::Service: Service<Request<Body>, Response = Response<B>> + Send + 'static,
        <L::Service as Service<Request<Body>>>::Future: Send + 'static,
        <L::Service as Service<Request<Body>>>::Error: Into<BoxError>,
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        self.around.layer(layer);
        self
    }

    /// How long nothing may come from the server before a ping is sent over an HTTP/2 connection; 30 s by
    /// default, as in client-go. Where the server speaks HTTP/1.1, TCP keepalive has the same times.
    ///
    /// A server that does not answer within [`ping_timeout`](Self::ping_timeout) is taken for gone: all requests
    /// and watches on that connection fail, and new ones open another. So a dead link is noticed after 45 s at
    /// the latest. Zero, and more than a year, disable both.
    ///
    /// Clients that were made before are not concerned.
    #[must_use]
    pub fn ping_interval(self, interval: Duration) -> Self {
        self.with_links(|options| options.ping_interval = interval)
    }

    /// How long the server may take to answer a ping; 15 s by default, as in client-go. Zero, and more than a
    /// year, disable pings and TCP keepalive.
    #[must_use]
    pub fn ping_timeout(self, timeout: Duration) -> Self {
        self.with_links(|options| options.ping_timeout = timeout)
    }

    /// Whether HTTP/2 is not offered to the server, for proxies that carry it badly; off by default.
    ///
    /// With it each watch has a connection of its own, and a dead link is found by TCP keepalive alone, which a
    /// proxy in between may answer.
    #[must_use]
    pub fn http1_only(self, http1_only: bool) -> Self {
        self.with_links(|options| options.http1_only = http1_only)
    }

    fn with_links(mut self, change: impl FnOnce(&mut LinkOptions)) -> Self {
        if let Way::Network(network) = &self.way {
            self.way = Way::Network(Arc::new(network.with(change)));
        }
        self
    }

    /// Makes a client, which lives in the current tokio runtime and is cheap to clone.
    ///
    /// All clients that a connection and its clones make in one runtime share their HTTP connections
    /// (`CONN-1`), whatever layers they have: one of HTTP/2, more where the server allows fewer streams than
    /// there are watches and requests, or one per concurrent request where the server speaks HTTP/1.1. These end
    /// with the last client, and 90 s after their last request.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] where the credentials cannot be used, or outside a tokio runtime.
    pub fn client(&self) -> Result<kube_client::Client, Error> {
        if Handle::try_current().is_err() {
            return Err(Error::Config {
                place: format!("the configuration for {}", self.endpoint),
                problem: "a client can only be made inside a tokio runtime".to_owned(),
            });
        }
        match &self.way {
            Way::Network(network) => network.client(&self.around),
            Way::InProcess(make) => make(&self.around),
        }
    }

    /// As [`client`](Self::client), on a thread where it may wait: making a client may run a credential plugin
    /// and wait for it, which is no work for a thread that other tasks need.
    ///
    /// # Errors
    ///
    /// As [`client`](Self::client).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn connect(&self) -> Result<kube_client::Client, Error> {
        if Handle::try_current().is_err() {
            // It says what is missing.
            return self.client();
        }
        let connection = self.clone();
        let made = spawn_blocking(move || connection.client()).await;
        made.map_err(|error| Error::Config {
            place: format!("the client for {}", self.endpoint),
            problem: format!("it was not made to the end: {error}"),
        })?
    }

    /// What the program calls itself to the server, up to the slash: the field manager of writes that name
    /// none.
    #[must_use]
    pub fn program(&self) -> String {
        let agent = String::from_utf8_lossy(self.around.agent.as_bytes());
        agent.split('/').next().unwrap_or_default().to_owned()
    }

    /// The address of the api-server, for people.
    #[must_use]
    pub fn endpoint(&self) -> String {
        self.endpoint.to_string()
    }

    /// The namespace of the current context or of this pod; `default` where none is named.
    #[must_use]
    pub fn default_namespace(&self) -> &str {
        &self.default_namespace
    }

    /// Whose credentials are sent and where they are kept, for people: a user of a kubeconfig, or
    /// the service account of this pod. None where the configuration came from the program itself.
    #[must_use]
    pub fn credentials(&self) -> Option<&str> {
        self.credentials.as_deref()
    }

    /// Finds credentials that cannot be read before the first request does. Where a program has
    /// to be run for them, that is left to the first client.
    fn checked(found: Found) -> Result<Self, Error> {
        let runs_a_program = found.config.auth_info.exec.is_some();
        let mut connection = Self::from_config(found.config);
        connection.credentials = Some(found.credentials.into());
        if !runs_a_program {
            connection.client()?;
        }
        Ok(connection)
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("endpoint", &self.endpoint)
            .field("default_namespace", &self.default_namespace)
            .finish_non_exhaustive()
    }
}

/// `program/steersman-version (platform)`: the server derives a field manager from its beginning.
fn user_agent() -> HeaderValue {
    let program = std::env::args_os().next();
    let program = program.as_deref().map(Path::new).and_then(Path::file_stem);
    let program = program.and_then(|p| p.to_str()).unwrap_or("unknown");
    // Up to the slash it is the field manager of those writes that name none.
    let ours = env!("CARGO_PKG_VERSION");
    let text = format!("{program}/steersman-{ours} ({})", platform());
    HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static("steersman"))
}

fn platform() -> String {
    format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH)
}
