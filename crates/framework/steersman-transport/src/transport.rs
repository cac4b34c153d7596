//! Handle: the connections to one server over the network.

use std::collections::HashMap;
use std::sync::{Arc, Once, Weak};

use kube_client::Config;
use kube_client::config::AuthInfo;
use parking_lot::Mutex;
use tokio::runtime::{Handle, Id};
use tracing::warn;

use crate::access::{Sending, SharedAccess};
use crate::credentials::{Credentials, token_file};
use crate::dial::Dialer;
use crate::options::ConnectionOptions;
use crate::pool::ConnectionPool;
use crate::signing::Signer;

/// The connections to one server over the network. Its clients share them.
///
/// CONN-1: all clients of one runtime share its connections, which end with the last client.
#[derive(derive_more::Debug)]
#[debug("Transport {{ endpoint: {endpoint:?}, .. }}")]
pub struct Transport {
    config: Config,
    endpoint: Arc<str>,
    options: ConnectionOptions,
    shared: Mutex<HashMap<Id, Weak<SharedAccess>>>,
    /// Logs the warning about unverified certificates only once.
    unchecked: Arc<Once>,
}

impl Transport {
    /// Makes a transport from the address, credentials and proxy of a configuration. `endpoint` names the server in
    /// logs and errors. Opens no connection.
    pub fn new(config: Config, endpoint: Arc<str>) -> Self {
        Self {
            config,
            endpoint,
            options: ConnectionOptions::default(),
            shared: Mutex::default(),
            unchecked: Arc::new(Once::new()),
        }
    }

    /// Returns a transport to the same server with changed options, which shares no connections with `self`.
    #[must_use]
    pub fn with(&self, change: impl FnOnce(&mut ConnectionOptions)) -> Self {
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

    /// Returns the configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the service that sends requests, for a client in the current runtime. Requests need a path; the service
    /// adds the `Authorization` header. Blocks while a credential plugin runs.
    ///
    /// # Errors
    ///
    /// The problem with the credentials or with the address of the proxy.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn service(&self) -> Result<Sending, String> {
        let runtime = Handle::current();
        let id = runtime.id();
        let mut shared = self.shared.lock();
        if let Some(access) = shared.get(&id).and_then(Weak::upgrade) {
            return Ok(Sending(access));
        }
        shared.retain(|_, access| access.strong_count() > 0);
        let access = Arc::new(self.open(runtime)?);
        shared.insert(id, Arc::downgrade(&access));
        Ok(Sending(access))
    }

    fn open(&self, runtime: Handle) -> Result<SharedAccess, String> {
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
        if token_file(config).is_some() {
            // `Credentials` reads the client certificate.
            inline.auth_info = AuthInfo::default();
        }
        let signer = Signer::new(inline, Arc::clone(&self.endpoint))?;
        if signer.signs() {
            // A plugin that gives a token does not have to run again for a certificate.
            filed.auth_info.exec = None;
        }
        let credentials = Arc::new(Credentials::new(filed, Arc::clone(&self.endpoint))?);
        let dialer = Dialer::new(config, Arc::clone(&credentials), &self.options)?;
        let pool = ConnectionPool::new(dialer.into_dial(), self.options.clone(), runtime);
        Ok(SharedAccess {
            pool: Arc::new(pool),
            credentials,
            signer,
        })
    }
}
