//! Driver: the webhooks of websites, and where the API server finds them.

use std::net::TcpListener;
use std::time::Duration;

use steersman::cli::Config;
use steersman::crds::{Crd, Crds};
use steersman::object::Object as _;
use steersman::serve::ListenAddress;
use steersman::webhook::{
    AdmissionContext, BuiltInCertificates, Defaulter, FieldErrors, Refusal, Validator,
    WebhookServer,
};
use steersman::{ClientConfig, Kind, ObjectKey};

use crate::Settings;
use crate::website::{Website, conversions, crd};

/// The name of the Service, of both webhook configurations, and of the Secret's prefix.
pub const NAME: &str = "website-operator";

/// The webhooks of this program: their address, and the Service in front of them.
#[derive(Clone, Debug)]
pub struct Webhooks {
    /// The address to listen on.
    pub address: String,
    /// The namespace of the Service and of the Secret with the certificates.
    pub namespace: String,
}

/// Fills in and checks the fields of websites.
struct WebsiteRules;

impl Webhooks {
    /// Returns webhooks at an address, in the namespace of this Pod; `None` for the address `"0"`.
    #[must_use]
    pub fn of(address: &str, client_config: &ClientConfig) -> Option<Self> {
        let namespace = client_config.namespace();
        let namespace = namespace.unwrap_or_else(|| client_config.default_namespace());
        (!ListenAddress::from(address).is_off()).then(|| Self {
            address: address.to_owned(),
            namespace: namespace.to_owned(),
        })
    }

    /// Returns webhooks on a free port of this machine, for a server in this process.
    ///
    /// # Errors
    ///
    /// An error if no port is free.
    pub fn local(namespace: &str) -> std::io::Result<Self> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        Ok(Self {
            address: format!("127.0.0.1:{port}"),
            namespace: namespace.to_owned(),
        })
    }

    /// Returns the Service.
    #[must_use]
    pub fn service(&self) -> ObjectKey {
        ObjectKey::namespaced(&self.namespace, NAME)
    }

    /// Returns the server, with the certificate of `--webhook-cert-path`, or else with certificates of its own
    /// authority.
    pub fn server(&self, config: &Config<Settings>) -> WebhookServer {
        let server = config
            .webhook_server(self.address.as_str())
            .defaulter::<Website>(WebsiteRules)
            .validator::<Website>(WebsiteRules)
            .conversions(conversions());
        match config.has_webhook_certificate() {
            true => server,
            false => server.certificates(self.certificates(config.operator.certificate_overlap())),
        }
    }

    /// Returns the definition with both versions, which this server converts.
    pub fn definitions(&self) -> Crds {
        Crds::new().with(Crd::new(&crd()).converted_by(&self.service()))
    }

    fn certificates(&self, overlap: Duration) -> BuiltInCertificates {
        let secret = ObjectKey::namespaced(&self.namespace, format!("{NAME}-certificates"));
        BuiltInCertificates::new(secret, self.service())
            .overlap(overlap)
            .read_interval((overlap / 5).clamp(Duration::from_millis(100), Duration::from_secs(10)))
            .inject_into_mutating(NAME)
            .inject_into_validating(NAME)
    }
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
        let mut errors = FieldErrors::new();
        if let Some(host) = &site.spec.host
            && !is_host(host)
        {
            errors.invalid("spec.host", host, "must be a name such as www.example.com");
        }
        if errors.is_empty() {
            return Ok(());
        }
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
    let name = image.rsplit('/').next()?;
    name.split_once(['@', ':']).map(|(_, tag)| tag)
}

/// Returns whether a text is a DNS name of lower-case labels.
fn is_host(host: &str) -> bool {
    let is_label = |label: &str| {
        !label.is_empty()
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label
                .chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
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
