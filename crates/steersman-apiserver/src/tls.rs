//! Machine: the certificates of the listener: given ones, or an authority and a certificate for loopback
//! that are made for it.

use std::net::IpAddr;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;

use crate::error::Error;

/// The names under which the server is reached.
const NAMES: [&str; 3] = ["127.0.0.1", "::1", "localhost"];

type Problem = Box<dyn std::error::Error + Send + Sync>;

/// What a listener is told of certificates, in PEM.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pem {
    /// The listener's own certificate, with those that vouch for it behind it, and its key.
    pub(crate) own: Option<(String, String)>,
    /// The authorities whose certificates clients may show.
    pub(crate) clients: Option<String>,
}

/// What the HTTPS listener and its clients need.
#[derive(Debug)]
pub(crate) struct Identity {
    /// The authority's certificate, for kubeconfigs.
    pub(crate) ca_pem: String,
    /// The listener's side.
    pub(crate) config: Arc<rustls::ServerConfig>,
}

impl Identity {
    /// As it is told, else with new keys and certificates, good for loopback and for that address.
    pub(crate) fn new(pem: &Pem, address: IpAddr) -> Result<Self, Error> {
        build(pem, address).map_err(|source| Error::Certificates { source })
    }
}

fn build(pem: &Pem, address: IpAddr) -> Result<Identity, Problem> {
    let (ca_pem, chain, key) = match &pem.own {
        Some((chain, key)) => (chain.clone(), certificates(chain)?, private_key(key)?),
        None => generate(address)?,
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()?;
    let config = match &pem.clients {
        None => config.with_no_client_auth(),
        Some(authorities) => {
            let mut roots = RootCertStore::empty();
            for authority in certificates(authorities)? {
                roots.add(authority)?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                // Others show a token.
                .allow_unauthenticated()
                .build()?;
            config.with_client_cert_verifier(verifier)
        }
    };
    let mut config = config.with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Identity {
        ca_pem,
        config: Arc::new(config),
    })
}

fn certificates(pem: &str) -> Result<Vec<CertificateDer<'static>>, Problem> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    let all = all?;
    if all.is_empty() {
        return Err("there is no certificate in the PEM text".into());
    }
    Ok(all)
}

fn private_key(pem: &str) -> Result<PrivateKeyDer<'static>, Problem> {
    Ok(PrivateKeyDer::from_pem_slice(pem.as_bytes())?)
}

/// An authority in PEM, a certificate of it, and the key of that.
fn generate(
    address: IpAddr,
) -> Result<(String, Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), Problem> {
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

    let private = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    Ok((ca.pem(), vec![certificate.der().clone()], private))
}
