//! Machine: makes TLS settings from certificates and keys in PEM.

use std::sync::Arc;

use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{RootCertStore, ServerConfig};

/// A certificate chain and its key, in PEM, and the authorities of clients.
#[derive(Clone, Default, PartialEq, Eq, derive_more::Debug)]
// The key is secret.
#[debug("PemPair {{ .. }}")]
pub(crate) struct PemPair {
    pub(crate) chain: Vec<u8>,
    pub(crate) key: Vec<u8>,
    /// The authorities that must have signed a client's certificate; `None` if clients need no certificate.
    pub(crate) client_authorities: Option<Vec<u8>>,
}

/// The names in a self-signed certificate.
const NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

impl PemPair {
    pub(crate) fn self_signed() -> Result<Self, String> {
        let generate = || {
            let mut params = CertificateParams::new(NAMES.map(str::to_owned).to_vec())?;
            params
                .distinguished_name
                .push(DnType::CommonName, "steersman-serve");
            params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
            let key = KeyPair::generate()?;
            let certificate = params.self_signed(&key)?;
            Ok(Self {
                chain: certificate.pem().into_bytes(),
                key: key.serialize_pem().into_bytes(),
                client_authorities: None,
            })
        };
        generate().map_err(|error: rcgen::Error| error.to_string())
    }

    /// Returns the TLS settings with this certificate. Fails if the key does not belong to the certificate.
    pub(crate) fn server_config(&self, http2: bool) -> Result<Arc<ServerConfig>, String> {
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&self.chain).collect();
        let chain = chain.map_err(|error| format!("the certificate is no PEM: {error}"))?;
        if chain.is_empty() {
            return Err("there is no certificate in the PEM text".to_owned());
        }
        let key = PrivateKeyDer::from_pem_slice(&self.key)
            .map_err(|error| format!("the key is no PEM: {error}"))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let clients = match &self.client_authorities {
            Some(authorities) => verifier(authorities, &provider)?,
            None => WebPkiClientVerifier::no_client_auth(),
        };
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?;
        let mut config = config
            .with_client_cert_verifier(clients)
            .with_single_cert(chain, key)
            .map_err(|error| error.to_string())?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        if http2 {
            config.alpn_protocols.insert(0, b"h2".to_vec());
        }
        Ok(Arc::new(config))
    }
}

fn verifier(
    authorities: &[u8],
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, String> {
    let mut roots = RootCertStore::empty();
    for authority in CertificateDer::pem_slice_iter(authorities) {
        let authority =
            authority.map_err(|error| format!("the authority of clients is no PEM: {error}"))?;
        let added = roots.add(authority);
        added.map_err(|error| format!("the authority of clients cannot be used: {error}"))?;
    }
    let builder =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
    let verifier = builder.build();
    verifier.map_err(|error| format!("the authority of clients cannot be used: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_of_another_certificate_is_refused() {
        let (one, other) = (
            PemPair::self_signed().unwrap(),
            PemPair::self_signed().unwrap(),
        );
        assert!(one.server_config(true).is_ok());
        let mixed = PemPair {
            key: other.key,
            ..one
        };
        assert!(mixed.server_config(true).is_err());
    }

    #[test]
    fn texts_without_a_certificate_or_a_key_are_refused() {
        let good = PemPair::self_signed().unwrap();
        let texts: [&[u8]; 4] = [
            b"",
            b"no PEM",
            b"\xff\xfe",
            b"-----BEGIN CERTIFICATE-----\n",
        ];
        for text in texts {
            let chain = PemPair {
                chain: text.to_vec(),
                ..good.clone()
            };
            assert!(chain.server_config(false).is_err());
            let key = PemPair {
                key: text.to_vec(),
                ..good.clone()
            };
            assert!(key.server_config(false).is_err());
            let clients = PemPair {
                client_authorities: Some(text.to_vec()),
                ..good.clone()
            };
            assert!(clients.server_config(false).is_err());
        }
    }
}
