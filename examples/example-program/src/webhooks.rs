//! Driver: makes an API server find the webhooks of a program.

use std::net::TcpListener;

use steersman::k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use steersman::serve::ListenAddress;
use steersman::webhook::BuiltInCertificates;
use steersman::{Client, ObjectKey};

use crate::BoxError;
use crate::cluster::Cluster;

/// The webhooks of a program: their address, and the Service in front of them.
#[derive(Clone, Debug)]
pub struct WebhookService {
    /// The address to listen on.
    pub address: String,
    /// The Service. Its namespace is that of the program.
    pub service: ObjectKey,
}

impl WebhookService {
    /// Returns webhooks at an address behind the Service of a name; `None` for the address `"0"`. An embedded API server
    /// sends requests for the Service to a free port of this machine instead.
    ///
    /// # Errors
    ///
    /// An error if no port is free.
    pub fn find(cluster: &Cluster, name: &str, address: &str) -> std::io::Result<Option<Self>> {
        let namespace = cluster.client_config.namespace();
        let namespace = namespace.unwrap_or_else(|| cluster.client_config.default_namespace());
        let address = match &cluster.embedded {
            Some(server) => {
                let free = TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string();
                server.route_service(namespace, name, 443, &format!("https://{free}"));
                free
            }
            None if ListenAddress::from(address).is_off() => return Ok(None),
            None => address.to_owned(),
        };
        let service = ObjectKey::namespaced(namespace, name);
        Ok(Some(Self { address, service }))
    }

    /// Returns certificates of an authority of the program, for its Service and both configurations of its name.
    pub fn certificates(&self) -> BuiltInCertificates {
        let name = self.service.name();
        let secret = self.service.sibling(format!("{name}-certificates"));
        BuiltInCertificates::new(secret, self.service.clone())
            .inject_into_mutating(name)
            .inject_into_validating(name)
    }

    /// Makes the API server call the webhooks. The manifest has a Service in `namespace`, a configuration of mutating
    /// webhooks and one of validating webhooks.
    ///
    /// # Errors
    ///
    /// The error of the server.
    pub async fn configure(
        &self,
        client: &Client,
        manifest: &str,
        namespace: &str,
    ) -> Result<(), BoxError> {
        let ours = self.service.namespace().unwrap_or_default();
        let manifest = manifest.replace(namespace, ours);
        let mut documents = manifest.split("\n---\n").skip(1);
        let mut next = || documents.next().unwrap_or_default();
        let mutating: MutatingWebhookConfiguration = serde_saphyr::from_str(next())?;
        let validating: ValidatingWebhookConfiguration = serde_saphyr::from_str(next())?;
        client.apply(&mutating).await?;
        client.apply(&validating).await?;
        Ok(())
    }
}
