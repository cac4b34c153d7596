//! Handle: a server on the network, and the clients that share its connections.

use std::sync::Arc;

use kube_client::Config;
use kube_client::client::ConfigExt as _;
use steersman_transport::{ConnectionOptions, Transport, explain_client};
use tower::util::MapErrLayer;
use tower::{BoxError, Layer as _};

use crate::config::client_certificate::ClientCertificate;
use crate::error::{Error, Unreachable};
use crate::wire::Middleware;

pub(crate) struct Network {
    transport: Transport,
    endpoint: Arc<str>,
}

impl Network {
    pub(crate) fn new(config: Config, endpoint: Arc<str>) -> Self {
        Self {
            transport: Transport::new(config, Arc::clone(&endpoint)),
            endpoint,
        }
    }

    /// Returns a handle to the same server with changed options. Its clients share no connections with those of `self`.
    pub(crate) fn with(&self, change: impl FnOnce(&mut ConnectionOptions)) -> Self {
        Self {
            transport: self.transport.with(change),
            endpoint: Arc::clone(&self.endpoint),
        }
    }

    /// Makes a client in the current runtime. Blocks while a credential plugin runs.
    pub(crate) fn client(&self, around: &Middleware) -> Result<kube_client::Client, Error> {
        let config = self.transport.config();
        let sending = self
            .transport
            .service()
            .map_err(|problem| self.problem(problem))?;
        let endpoint = Arc::clone(&self.endpoint);
        // Adds the address of the server to the error of an unreachable server.
        let named = MapErrLayer::new(move |source: BoxError| -> BoxError {
            Box::new(Unreachable {
                endpoint: endpoint.to_string(),
                source,
            })
        });
        let headers = config.extra_headers_layer();
        let headers = headers.map_err(|error| self.problem(explain_client(&error)))?;
        let service = named.layer(config.base_uri_layer().layer(headers.layer(sending)));
        let namespace = config.default_namespace.clone();
        Ok(kube_client::Client::new(around.wrap(service), namespace))
    }

    pub(crate) fn client_certificate(
        &self,
        credentials: Option<&str>,
    ) -> Option<std::io::Result<ClientCertificate>> {
        ClientCertificate::read(&self.transport.config().auth_info, credentials)
    }

    fn problem(&self, problem: String) -> Error {
        Error::config(format!("the configuration for {}", self.endpoint), problem)
    }
}
