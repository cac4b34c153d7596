//! Machine: the certificates of the listener: given ones, or a generated authority and a certificate for loopback.

use std::net::IpAddr;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use super::client_certificates::ClientAuthorities;
use crate::error::Error;

const NAMES: [&str; 3] = ["127.0.0.1", "::1", "localhost"];

type TlsError = Box<dyn std::error::Error + Send + Sync>;

#[derive(Debug, Clone, Default)]
pub(crate) struct Pem {
    pub(crate) own: Option<(String, String)>,
    /// The key of the authority that signs the generated certificate of the listener; not used if `own` is set.
    pub(crate) authority_key: Option<String>,
    pub(crate) clients: Option<String>,
}

#[derive(Debug)]
pub(crate) struct TlsIdentity {
    /// The certificate of the authority, or the configured certificates, in PEM: kubeconfigs contain them.
    pub(crate) ca_pem: String,
    pub(crate) config: Arc<rustls::ServerConfig>,
    /// The authorities of client certificates; `None` if clients are not asked for certificates.
    pub(crate) clients: Option<Arc<ClientAuthorities>>,
}

impl TlsIdentity {
    /// Uses the configured certificate, or generates one for loopback and for `address`.
    pub(crate) fn new(pem: &Pem, address: IpAddr) -> Result<Self, Error> {
        build(pem, address).map_err(|source| Error::Certificates { source })
    }
}

fn build(pem: &Pem, address: IpAddr) -> Result<TlsIdentity, TlsError> {
    let (ca_pem, chain, key) = match &pem.own {
        Some((chain, key)) => (chain.clone(), certificates(chain)?, private_key(key)?),
        None => generate(address, pem.authority_key.as_deref())?,
    };
    let provider = rustls::crypto::ring::default_provider();
    let known = provider.signature_verification_algorithms;
    let config = rustls::ServerConfig::builder_with_provider(Arc::new(provider))
        .with_safe_default_protocol_versions()?;
    let clients = pem.clients.as_deref().map(certificates).transpose()?;
    let clients = clients.map(|clients| ClientAuthorities::new(clients, known));
    let clients = clients.transpose()?.map(Arc::new);
    let config = match clients.clone() {
        None => config.with_no_client_auth(),
        Some(authorities) => config.with_client_cert_verifier(authorities),
    };
    let mut config = config.with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsIdentity {
        ca_pem,
        config: Arc::new(config),
        clients,
    })
}

fn certificates(pem: &str) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    let all = all?;
    if all.is_empty() {
        return Err("there is no certificate in the PEM text".into());
    }
    Ok(all)
}

fn private_key(pem: &str) -> Result<PrivateKeyDer<'static>, TlsError> {
    Ok(PrivateKeyDer::from_pem_slice(pem.as_bytes())?)
}

/// Generates an authority, with the key `authority_key` if there is one, and a certificate that it signs. Returns the
/// certificate of the authority in PEM, the signed certificate, and its key.
///
/// Clients trust an authority by its name and its key: a client that has an earlier certificate of an authority with
/// the same key accepts the new server certificates.
fn generate(
    address: IpAddr,
    authority_key: Option<&str>,
) -> Result<(String, Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), TlsError> {
    let mut ca = CertificateParams::new(Vec::new())?;
    ca.distinguished_name
        .push(DnType::CommonName, "steersman-apiserver-ca");
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    ca.key_usages = vec![
        KeyUsagePurpose::KeyCertSign,
        KeyUsagePurpose::DigitalSignature,
    ];
    let ca_key = match authority_key {
        Some(pem) => KeyPair::from_pem(pem)?,
        None => KeyPair::generate()?,
    };
    let ca = CertifiedIssuer::self_signed(ca, ca_key)?;

    let mut names = NAMES.map(str::to_owned).to_vec();
    if !address.is_loopback() && !address.is_unspecified() {
        names.push(address.to_string());
    }
    let mut server = CertificateParams::new(names)?;
    let name = &mut server.distinguished_name;
    name.push(DnType::CommonName, "steersman-apiserver");
    server.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    server.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate()?;
    let certificate = server.signed_by(&key, &ca)?;

    let private = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    Ok((ca.pem(), vec![certificate.der().clone()], private))
}
