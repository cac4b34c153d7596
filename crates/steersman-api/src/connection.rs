//! Handle: a recipe that makes clients for one api-server.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use http::header::USER_AGENT;
use http::{HeaderValue, Request, Response};
use kube_client::client::{Body, ClientBuilder};
use tower::{BoxError, Service, ServiceExt as _};

use crate::config::{Found, Surroundings, explain_client, find, read};
use crate::error::{Error, Unreachable};

/// How to reach one api-server: a recipe that makes clients, cheap to clone.
///
/// A recipe and not a client, because a client belongs to the runtime it was made in, and because
/// some tasks (a leader's lease) need one of their own. Making a connection does no network I/O.
///
/// Clients never retry by themselves: a write that may have happened is not repeated blindly, and
/// a reflector has to see a 429.
#[derive(Clone)]
pub struct Connection {
    make: Arc<Make>,
    endpoint: Arc<str>,
    default_namespace: Arc<str>,
    credentials: Option<Arc<str>>,
}

type Make = dyn Fn() -> Result<kube_client::Client, Error> + Send + Sync;

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
        Self::checked(find(&Surroundings::of_process()).await?)
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

    /// The api-server of a configuration, with its retry layer switched off.
    #[must_use]
    pub fn from_config(mut config: kube_client::Config) -> Self {
        config.default_retry = false;
        if !config.headers.iter().any(|(name, _)| name == USER_AGENT) {
            config.headers.push((USER_AGENT, user_agent()));
        }
        let endpoint: Arc<str> = config.cluster_url.to_string().trim_end_matches('/').into();
        let default_namespace = config.default_namespace.as_str().into();
        let place = Arc::clone(&endpoint);
        let make = move || {
            let builder =
                ClientBuilder::try_from(config.clone()).map_err(|error| Error::Config {
                    place: format!("the configuration for {place}"),
                    problem: explain_client(&error),
                })?;
            let place = Arc::clone(&place);
            // The error of an unreachable server names it.
            let layer = tower::util::MapErrLayer::new(move |source: BoxError| -> BoxError {
                Box::new(Unreachable {
                    endpoint: place.to_string(),
                    source,
                })
            });
            Ok(builder.with_layer(&layer).build())
        };
        Self {
            make: Arc::new(make),
            endpoint,
            default_namespace,
            credentials: None,
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
        let make = move || {
            let service = service.clone().map_request(|mut request: Request<Body>| {
                let headers = request.headers_mut();
                headers.entry(USER_AGENT).or_insert_with(user_agent);
                request
            });
            Ok(kube_client::Client::new(service, namespace.to_string()))
        };
        Self {
            make: Arc::new(make),
            endpoint: "an api-server in this process".into(),
            default_namespace,
            credentials: None,
        }
    }

    /// Makes a client. Each call makes one with connections of its own, that lives in the
    /// current tokio runtime and is cheap to clone.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] where the credentials cannot be used, or outside a tokio runtime.
    pub fn client(&self) -> Result<kube_client::Client, Error> {
        if tokio::runtime::Handle::try_current().is_err() {
            return Err(Error::Config {
                place: format!("the configuration for {}", self.endpoint),
                problem: "a client can only be made inside a tokio runtime".to_owned(),
            });
        }
        (self.make)()
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

/// `program/steersman-version`: the server derives a field manager from its beginning.
fn user_agent() -> HeaderValue {
    let program = std::env::args_os().next();
    let program = program.as_deref().map(Path::new).and_then(Path::file_stem);
    let program = program.and_then(|p| p.to_str()).unwrap_or("unknown");
    // Up to the slash it is the field manager of those writes that name none.
    let text = format!("{program}/steersman-{}", env!("CARGO_PKG_VERSION"));
    HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static("steersman"))
}
