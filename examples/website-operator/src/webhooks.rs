//! Driver: the webhooks of websites: defaults, checks, and the conversion between the versions.

use std::net::TcpListener;
use std::time::Duration;

use example_program::BoxError;
use example_program::cluster::Cluster;
use steersman::cli::Config;
use steersman::crds::Crd;
use steersman::k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use steersman::kube_core::CustomResourceExt as _;
use steersman::object::Object as _;
use steersman::serve::ListenAddress;
use steersman::webhook::{
    AdmissionContext, BuiltInCertificates, Defaulter, FieldErrors, Refusal, Validator,
    WebhookServer,
};
use steersman::{Client, Kind, ObjectKey};
use thiserror::Error;

use crate::Settings;
use crate::website::{Website, conversions, crd};

/// The name of the Service, of both webhook configurations, and of the Secret's prefix.
pub const NAME: &str = "website-operator";

/// Both versions of the kind would be installed without the webhooks, and the fields in which the versions differ would
/// be lost.
#[derive(Debug, Error)]
#[error(
    "the program cannot install both versions without its webhook: run again with --webhook-bind-address=:9443, or \
     with --install-newest-version-only in place of --install"
)]
pub struct Unconverted(#[from] steersman::crds::Error);

/// The address of the webhooks, and the Service in front of them.
#[derive(Clone, Debug)]
pub struct WebhookService {
    /// The address to listen on.
    pub address: String,
    /// The Service. Its namespace is that of the program.
    pub service: ObjectKey,
}

/// Fills in and checks the fields of websites.
struct WebsiteRules;

impl WebhookService {
    /// Returns webhooks at an address; `None` for the address `"0"`. An embedded API server sends requests for the
    /// Service to a free port of this machine instead.
    ///
    /// # Errors
    ///
    /// An error if no port is free.
    pub fn find(cluster: &Cluster, address: &str) -> std::io::Result<Option<Self>> {
        let namespace = cluster.client_config.namespace();
        let namespace = namespace.unwrap_or_else(|| cluster.client_config.default_namespace());
        let address = match &cluster.embedded {
            Some(server) => {
                let free = TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string();
                server.route_service(namespace, NAME, 443, &format!("https://{free}"));
                free
            }
            None if ListenAddress::from(address).is_off() => return Ok(None),
            None => address.to_owned(),
        };
        let service = ObjectKey::namespaced(namespace, NAME);
        Ok(Some(Self { address, service }))
    }

    fn certificates(&self) -> BuiltInCertificates {
        let secret = self.service.sibling(format!("{NAME}-certificates"));
        BuiltInCertificates::new(secret, self.service.clone())
            .inject_into_mutating(NAME)
            .inject_into_validating(NAME)
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

/// Returns the server, with the certificate of `--webhook-cert-path`, or else with certificates of its own authority.
pub fn server(webhooks: &WebhookService, config: &Config<Settings>) -> WebhookServer {
    let server = config
        .webhook_server(webhooks.address.as_str())
        .defaulter::<Website>(WebsiteRules)
        .validator::<Website>(WebsiteRules)
        .conversions(conversions());
    if config.has_webhook_certificate() {
        return server;
    }
    let overlap = config.operator.certificate_overlap_seconds.unwrap_or(300);
    let overlap = Duration::from_secs(overlap.into());
    let read_interval = (overlap / 5).clamp(Duration::from_millis(100), Duration::from_secs(10));
    let certificates = webhooks.certificates().overlap(overlap);
    server.certificates(certificates.read_interval(read_interval))
}

/// Returns the definition with both versions, which the webhooks behind a Service convert.
pub fn converted(service: &ObjectKey) -> Crd {
    Crd::new(&crd()).converted_by(service)
}

/// Returns the definition that the operator installs. With its newest version alone it needs no webhooks.
///
/// # Errors
///
/// [`Unconverted`] if there are no webhooks that convert objects between the versions.
pub fn definition(
    webhooks: Option<&WebhookService>,
    is_newest_only: bool,
) -> Result<Crd, Unconverted> {
    let definition = match webhooks {
        _ if is_newest_only => Crd::new(&Website::crd()),
        Some(webhooks) => converted(&webhooks.service),
        None => Crd::new(&crd()),
    };
    definition.check()?;
    Ok(definition)
}

impl Defaulter<Website> for WebsiteRules {
    /// Gives an image without a tag the tag `stable`, so that all web servers of a site are of one release.
    async fn default(&self, site: &mut Website, _: &AdmissionContext) -> Result<(), Refusal> {
        let image = &mut site.spec.image;
        if tag(image).is_none() {
            image.push_str(":stable");
        }
        Ok(())
    }
}

impl Validator<Website> for WebsiteRules {
    async fn validate_create(&self, site: &Website, ctx: &AdmissionContext) -> Result<(), Refusal> {
        if tag(&site.spec.image) == Some("latest") {
            ctx.warn("spec.image: web servers that start later may run another release of latest");
        }
        let Some(host) = site.spec.host.as_ref().filter(|host| !is_host(host)) else {
            return Ok(());
        };
        let mut errors = FieldErrors::new();
        errors.invalid("spec.host", host, "must be a name such as www.example.com");
        let (kind, key) = (Kind::of::<Website>(), site.key());
        Err(Refusal::invalid(kind.gvk(), key.name(), &errors))
    }

    async fn validate_update(
        &self,
        _: &Website,
        site: &Website,
        ctx: &AdmissionContext,
    ) -> Result<(), Refusal> {
        self.validate_create(site, ctx).await
    }
}

/// Returns the tag or the digest of an image. A colon before the last slash is that of a port.
fn tag(image: &str) -> Option<&str> {
    Some(image.rsplit('/').next()?.split_once(['@', ':'])?.1)
}

/// Returns whether a text is a DNS name of lower-case labels.
fn is_host(host: &str) -> bool {
    let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let is_label = |label: &str| {
        !label.is_empty() && label.trim_matches('-') == label && label.chars().all(is_part)
    };
    host.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tag_of_an_image_is_not_its_port() {
        assert_eq!(tag("nginx"), None);
        assert_eq!(tag("registry:5000/web/nginx"), None);
        assert_eq!(tag("registry:5000/web/nginx:1.29"), Some("1.29"));
        assert_eq!(tag("nginx@sha256:00"), Some("sha256:00"));
    }

    #[test]
    fn a_host_is_a_dns_name() {
        assert!(is_host("www.example.com") && is_host("a"));
        for host in ["", "a..b", "-a", "a-", "A.b", "a b", "https://a"] {
            assert!(!is_host(host), "{host}");
        }
    }
}
