//! Driver: signs requests with a credential that is not in a file: a token, a password, or the token of a plugin.

use std::sync::Arc;

use futures::future::BoxFuture;
use http::header::AUTHORIZATION;
use http::{HeaderValue, Request, Response};
use kube_client::Config;
use kube_client::client::middleware::AuthLayer;
use kube_client::client::{AuthError, Body, ConfigExt as _};
use parking_lot::Mutex;
use tokio::task::spawn_blocking;
use tower::{BoxError, Layer as _, ServiceExt as _, service_fn};
use tracing::{debug, warn};

use crate::explain::explain_client;
use crate::plugin;

/// Signs the requests of a transport.
///
/// CONN-4: a plugin runs again shortly before its token expires, and when the server refuses the token.
pub(crate) struct Signer {
    config: Config,
    endpoint: Arc<str>,
    /// The signing layer of kube-client; `None` without such a credential.
    layer: Mutex<Option<Arc<AuthLayer>>>,
    /// Held by the one task that runs the plugin after a refusal.
    running: tokio::sync::Mutex<()>,
}

impl Signer {
    /// Reads the credential of a configuration. Blocks while a credential plugin runs.
    pub(crate) fn new(config: Config, endpoint: Arc<str>) -> Result<Self, String> {
        let layer = make(&config)?;
        Ok(Self {
            config,
            endpoint,
            layer: Mutex::new(layer),
            running: tokio::sync::Mutex::default(),
        })
    }

    pub(crate) fn signs(&self) -> bool {
        self.layer.lock().is_some()
    }

    /// Returns the `Authorization` header. Runs the plugin again if its token is about to expire.
    pub(crate) async fn header(&self) -> Result<Option<HeaderValue>, BoxError> {
        let Some(layer) = self.layer.lock().clone() else {
            return Ok(None);
        };
        // The layer signs a dummy request, from which the header is taken.
        let signed = layer.layer(service_fn(|request: Request<Body>| async move {
            let mut answer = Response::new(());
            if let Some(header) = request.headers().get(AUTHORIZATION) {
                answer.headers_mut().insert(AUTHORIZATION, header.clone());
            }
            Ok::<_, BoxError>(answer)
        }));
        let signed: BoxFuture<'_, _> = Box::pin(signed.oneshot(Request::new(Body::empty())));
        match signed.await {
            Ok(mut answer) => Ok(answer.headers_mut().remove(AUTHORIZATION)),
            Err(error) => Err(self.explain(error)),
        }
    }

    /// Runs the plugin again because the server refused the header `refused`. Returns whether the token has changed.
    pub(crate) async fn renew(&self, refused: Option<&HeaderValue>) -> bool {
        if self.config.auth_info.exec.is_none() || refused.is_none() {
            return false;
        }
        let _one_run = self.running.lock().await;
        let is_another = |header: Result<Option<HeaderValue>, BoxError>| {
            header.is_ok_and(|header| header.as_ref() != refused)
        };
        if is_another(self.header().await) {
            return true;
        }
        let config = self.config.clone();
        // A failed task has changed nothing.
        let Ok(made) = spawn_blocking(move || make(&config)).await else {
            return false;
        };
        match made {
            Ok(layer) => *self.layer.lock() = layer,
            Err(problem) => {
                warn!(endpoint = %self.endpoint, "the server refused the token, and {problem}");
                return false;
            }
        }
        debug!(endpoint = %self.endpoint, "the credential plugin was run again");
        is_another(self.header().await)
    }

    fn explain(&self, error: BoxError) -> BoxError {
        match (&self.config.auth_info.exec, error.downcast::<AuthError>()) {
            (Some(exec), Ok(error)) => plugin::explain(exec, &error).into(),
            (None, Ok(error)) => error,
            (_, Err(other)) => other,
        }
    }
}

fn make(config: &Config) -> Result<Option<Arc<AuthLayer>>, String> {
    match config.auth_layer() {
        Ok(layer) => Ok(layer.map(Arc::new)),
        Err(kube_client::Error::Auth(error)) if config.auth_info.exec.is_some() => {
            let exec = config.auth_info.exec.as_ref();
            Err(exec.map_or_else(String::new, |exec| plugin::explain(exec, &error)))
        }
        Err(error) => Err(explain_client(&error)),
    }
}
