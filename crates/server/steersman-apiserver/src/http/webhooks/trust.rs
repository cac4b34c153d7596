//! Machine: decides whether a webhook's certificate is trusted.

mod names;

use std::net::IpAddr;
use std::sync::Arc;

use names::check_host;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, DigitallySignedStruct, Error, OtherError, RootCertStore, SignatureScheme,
};

use crate::tls::{KeyPurpose, Pool, parse};

/// Verifies certificates of webhooks as Go's verifier does with a CA bundle as its roots (HOOK-1). It trusts
/// certificates with a chain that ends in a certificate of the bundle, and the certificates of the bundle themselves,
/// independently of their issuer: tools that make certificates for tests put the serving certificate into the bundle.
#[derive(Debug)]
pub(crate) struct Trust {
    given: Vec<CertificateDer<'static>>,
    also: Option<String>,
    provider: Arc<CryptoProvider>,
}

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Refused(String);

impl Trust {
    /// Creates a verifier that trusts the certificates of a bundle in PEM, and none if the bundle is empty. The
    /// certificate of a webhook must be valid for the host of the call or for `also`, a second host. PEM blocks that
    /// are no certificates are ignored.
    pub(crate) fn of(
        bundle: &[u8],
        also: Option<String>,
        provider: Arc<CryptoProvider>,
    ) -> Result<Self, String> {
        let all = CertificateDer::pem_slice_iter(bundle).flatten();
        let given: Vec<_> = all.filter(|one| parse(one).is_some()).collect();
        if given.is_empty() && !bundle.is_empty() {
            let why = "unable to load root certificates: unable to parse bytes as PEM block";
            return Err(why.to_owned());
        }
        Ok(Self {
            given,
            also,
            provider,
        })
    }

    fn check(
        &self,
        shown: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        now: UnixTime,
    ) -> Result<(), Error> {
        let leaf = parse(shown).ok_or(CertificateError::BadEncoding)?;
        let roots: Vec<_> = self.given.iter().filter_map(parse).collect();
        let sent: Vec<_> = others.iter().filter_map(parse).collect();
        let pool = Pool {
            roots: &roots,
            others: &sent,
            now: i64::try_from(now.as_secs()).unwrap_or(i64::MAX),
            purpose: KeyPurpose::Server,
        };
        pool.check_leaf(&leaf).map_err(refused)?;
        let host = host(name);
        if let Err(why) = check_host(&leaf, &host) {
            let also = self.also.as_deref();
            if also.is_none_or(|also| check_host(&leaf, also).is_err()) {
                return Err(refused(why));
            }
        }
        let chain = pool.chain(&leaf).map_err(refused)?;
        let mut authorities = chain.iter().skip(1);
        if authorities.any(|one| !matches!(one.name_constraints(), Ok(None))) {
            // The checks above ignore name constraints. If an authority of the chain has some, webpki checks them.
            let checked = self.check_by_webpki(shown, others, name, now);
            checked.map_err(|_| {
                refused(format!(
                    "x509: a root or intermediate certificate is not authorized to sign for this name: {host}"
                ))
            })?;
        }
        Ok(())
    }

    fn check_by_webpki(
        &self,
        shown: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(self.given.iter().cloned());
        let provider = Arc::clone(&self.provider);
        let webpki = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .map_err(|error| Error::General(error.to_string()))?;
        webpki.verify_server_cert(shown, others, name, &[], now)
    }
}

impl ServerCertVerifier for Trust {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        _ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.check(shown, others, name, now)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let known = &self.provider.signature_verification_algorithms;
        known.supported_schemes()
    }
}

fn refused(why: String) -> Error {
    CertificateError::Other(OtherError(Arc::new(Refused(why)))).into()
}

/// Returns the name of a server as text: a host name, or an IP address without brackets.
fn host(name: &ServerName<'_>) -> String {
    match name {
        ServerName::DnsName(name) => name.as_ref().to_owned(),
        ServerName::IpAddress(address) => IpAddr::from(*address).to_string(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests;
