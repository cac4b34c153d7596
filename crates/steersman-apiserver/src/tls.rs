//! Machine: makes a certificate authority of its own and a server certificate for loopback.

use std::net::IpAddr;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

use crate::error::Error;

/// The names under which the server is reached.
const NAMES: [&str; 3] = ["127.0.0.1", "::1", "localhost"];

/// What the HTTPS listener and its clients need.
#[derive(Debug)]
pub(crate) struct Identity {
    /// The authority's certificate, for kubeconfigs.
    pub(crate) ca_pem: String,
    /// The listener's side.
    pub(crate) config: Arc<rustls::ServerConfig>,
}

impl Identity {
    /// Makes new keys and certificates, good for loopback and for that address.
    pub(crate) fn generate(address: IpAddr) -> Result<Self, Error> {
        generate(address).map_err(|source| Error::Certificates { source })
    }
}

fn generate(address: IpAddr) -> Result<Identity, Box<dyn std::error::Error + Send + Sync>> {
    let mut ca = CertificateParams::new(Vec::new())?;
    ca.distinguished_name
        .push(DnType::CommonName, "steersman-apiserver-ca");
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    ca.key_usages = vec![
        KeyUsagePurpose::KeyCertSign,
        KeyUsagePurpose::DigitalSignature,
    ];
    let ca = CertifiedIssuer::self_signed(ca, KeyPair::generate()?)?;

    let mut names = NAMES.map(str::to_owned).to_vec();
    if !address.is_loopback() && !address.is_unspecified() {
        names.push(address.to_string());
    }
    let mut server = CertificateParams::new(names)?;
    server
        .distinguished_name
        .push(DnType::CommonName, "steersman-apiserver");
    server.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    server.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate()?;
    let certificate = server.signed_by(&key, &ca)?;

    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let private = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], private)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Identity {
        ca_pem: ca.pem(),
        config: Arc::new(config),
    })
}
