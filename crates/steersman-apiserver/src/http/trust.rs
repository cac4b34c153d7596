//! Machine: which certificates a webhook may show.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use x509_parser::prelude::{FromDer as _, X509Certificate};

/// Believes what descends from the given certificates, as everybody does; and, as Go does, one of
/// these itself, even where it is an authority's: whoever makes a certificate for a test often makes
/// a single one for both ends.
#[derive(Debug)]
pub(crate) struct Trust {
    usual: Option<Arc<WebPkiServerVerifier>>,
    given: Vec<CertificateDer<'static>>,
    provider: Arc<CryptoProvider>,
}

impl Trust {
    /// What a bundle in PEM says; nobody is believed where it is empty.
    ///
    /// # Errors
    /// What is wrong with a certificate in it.
    pub(crate) fn of(bundle: &[u8], provider: Arc<CryptoProvider>) -> Result<Self, String> {
        let given: Vec<_> = CertificateDer::pem_slice_iter(bundle).flatten().collect();
        let mut roots = RootCertStore::empty();
        for certificate in &given {
            let added = roots.add(certificate.clone());
            added.map_err(|error| error.to_string())?;
        }
        // Without any root there is nobody to ask.
        let usual = if roots.is_empty() {
            None
        } else {
            let builder =
                WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
            Some(builder.build().map_err(|error| error.to_string())?)
        };
        Ok(Self {
            usual,
            given,
            provider,
        })
    }
}

impl ServerCertVerifier for Trust {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if self.given.iter().any(|given| given == shown) {
            is_in_time(shown, now)?;
            verify_server_name(&ParsedCertificate::try_from(shown)?, name)?;
            return Ok(ServerCertVerified::assertion());
        }
        match &self.usual {
            Some(usual) => usual.verify_server_cert(shown, others, name, ocsp, now),
            None => Err(CertificateError::UnknownIssuer.into()),
        }
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

/// Whether a certificate is good at a time.
fn is_in_time(certificate: &CertificateDer<'_>, now: UnixTime) -> Result<(), Error> {
    let (_, parsed) =
        X509Certificate::from_der(certificate).map_err(|_| CertificateError::BadEncoding)?;
    let validity = parsed.validity();
    let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    if now < validity.not_before.timestamp() {
        return Err(CertificateError::NotValidYet.into());
    }
    if now > validity.not_after.timestamp() {
        return Err(CertificateError::Expired.into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair, date_time_ymd};

    use super::*;

    fn own(names: &[&str]) -> (String, CertificateDer<'static>) {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2030, 1, 1);
        let made = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        (made.pem(), made.der().clone())
    }

    #[test]
    fn a_certificate_vouches_for_itself() {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let (pem, shown) = own(&["hook.example.com"]);
        let (_, other) = own(&["hook.example.com"]);
        let trust = Trust::of(pem.as_bytes(), Arc::clone(&provider)).unwrap();
        let check = |trust: &Trust, shown: &CertificateDer<'_>, name: &str, year: u64| {
            let name = ServerName::try_from(name.to_owned()).unwrap();
            let now = Duration::from_secs((year - 1970) * 31_556_952);
            let now = UnixTime::since_unix_epoch(now);
            let checked = trust.verify_server_cert(shown, &[], &name, &[], now);
            checked.map(|_| ())
        };
        let name = "hook.example.com";
        assert!(check(&trust, &shown, name, 2025).is_ok());
        assert!(check(&trust, &shown, "other.example.com", 2025).is_err());
        assert_eq!(
            check(&trust, &shown, name, 2031).unwrap_err(),
            CertificateError::Expired.into()
        );
        assert_eq!(
            check(&trust, &shown, name, 2015).unwrap_err(),
            CertificateError::NotValidYet.into()
        );
        assert!(check(&trust, &other, name, 2025).is_err());
        let nobody = Trust::of(b"", provider).unwrap();
        assert_eq!(
            check(&nobody, &shown, name, 2025).unwrap_err(),
            CertificateError::UnknownIssuer.into()
        );
    }
}
