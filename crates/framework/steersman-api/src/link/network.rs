//! Handle: a server on the network, with the clients that share its links.

use std::collections::HashMap;
use std::sync::{Arc, Once, Weak};

use kube_client::Config;
use kube_client::client::ConfigExt as _;
use kube_client::config::AuthInfo;
use parking_lot::Mutex;
use tokio::runtime::{Handle, Id};
use tower::util::MapErrLayer;
use tower::{BoxError, Layer as _};
use tracing::warn;

use super::access::{Access, Sending};
use super::credentials::{Credentials, has_token_file};
use super::dial::Dialer;
use super::options::ConnectionOptions;
use super::pool::ConnectionPool;
use super::signing::Signer;
use crate::client_certificate::ClientCertificate;
use crate::config::explain_client;
use crate::error::{Error, Unreachable};
use crate::wire::Middleware;

/// A server on the network.
///
/// CONN-1: all clients of one runtime share its links. The links end with the last client.
pub(crate) struct Network {
    config: Config,
    endpoint: Arc<str>,
    options: ConnectionOptions,
    shared: Mutex<HashMap<Id, Weak<Access>>>,
    /// Ensures that the warning about unchecked certificates is logged once.
    unchecked: Arc<Once>,
}

impl Network {
    pub(crate) fn new(config: Config, endpoint: Arc<str>) -> Self {
        Self {
            config,
            endpoint,
            options: ConnectionOptions::default(),
            shared: Mutex::default(),
            unchecked: Arc::new(Once::new()),
        }
    }

    /// Returns a handle to the same server with changed link options. Its clients share no links with those of `self`.
    pub(crate) fn with(&self, change: impl FnOnce(&mut ConnectionOptions)) -> Self {
        let mut options = self.options.clone();
        change(&mut options);
        Self {
            config: self.config.clone(),
            endpoint: Arc::clone(&self.endpoint),
            options,
            shared: Mutex::default(),
            unchecked: Arc::clone(&self.unchecked),
        }
    }

    /// Makes a client in the current runtime. Blocks while a credential plugin runs.
    pub(crate) fn client(&self, around: &Middleware) -> Result<kube_client::Client, Error> {
        let access = self.access()?;
        let endpoint = Arc::clone(&self.endpoint);
        // The error of an unreachable server names the server.
        let named = MapErrLayer::new(move |source: BoxError| -> BoxError {
            Box::new(Unreachable {
                endpoint: endpoint.to_string(),
                source,
            })
        });
        let problem = |error: kube_client::Error| self.problem(explain_client(&error));
        let headers = self.config.extra_headers_layer().map_err(problem)?;
        let sending = headers.layer(Sending(Arc::clone(&access)));
        let service = named.layer(self.config.base_uri_layer().layer(sending));
        let namespace = self.config.default_namespace.clone();
        Ok(kube_client::Client::new(around.wrap(service), namespace))
    }

    /// Reads the certificate of the user.
    pub(crate) fn client_certificate(
        &self,
        credentials: Option<&str>,
    ) -> Option<std::io::Result<ClientCertificate>> {
        ClientCertificate::read(&self.config.auth_info, credentials)
    }

    /// Returns the links and credentials that the clients of the current runtime share.
    fn access(&self) -> Result<Arc<Access>, Error> {
        let runtime = Handle::current();
        let mut shared = self.shared.lock();
        if let Some(access) = shared.get(&runtime.id()).and_then(Weak::upgrade) {
            return Ok(access);
        }
        shared.retain(|_, access| access.strong_count() > 0);
        let id = runtime.id();
        let access = Arc::new(self.open(runtime)?);
        shared.insert(id, Arc::downgrade(&access));
        Ok(access)
    }

    fn open(&self, runtime: Handle) -> Result<Access, Error> {
        let config = &self.config;
        if config.accept_invalid_certs {
            self.unchecked.call_once(|| {
                warn!(
                    endpoint = %self.endpoint,
                    "the certificate of the api-server is not checked (insecure-skip-tls-verify): \
                     name its certificate authority in the kubeconfig"
                );
            });
        }
        let (mut inline, mut filed) = (config.clone(), config.clone());
        if has_token_file(config) {
            // `Credentials` reads it.
            inline.auth_info = AuthInfo::default();
        }
        let signer = Signer::new(inline, Arc::clone(&self.endpoint));
        let signer = signer.map_err(|problem| self.problem(problem))?;
        if signer.signs() {
            // A plugin that gives a token need not run again for a certificate.
            filed.auth_info.exec = None;
        }
        let credentials = Credentials::new(filed, Arc::clone(&self.endpoint));
        let credentials = Arc::new(credentials.map_err(|problem| self.problem(problem))?);
        let dialer = Dialer::new(config, Arc::clone(&credentials), &self.options);
        let dial = dialer.map_err(|problem| self.problem(problem))?.into_dial();
        Ok(Access {
            links: Arc::new(ConnectionPool::new(dial, self.options.clone(), runtime)),
            credentials,
            signer,
        })
    }

    fn problem(&self, problem: String) -> Error {
        Error::Config {
            place: format!("the configuration for {}", self.endpoint),
            problem,
        }
    }
}
