//! Machine: decides whether a client certificate is accepted, after the handshake.

use jiff::Timestamp;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{
    WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature_with_raw_key,
};
use rustls::pki_types::{CertificateDer, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};

use x509_parser::x509::X509Version;

use super::chain::{KeyPurpose, Pool, parse};

/// The authorities of client certificates (`--client-ca-file` of a kube-apiserver).
///
/// As in kube-apiserver, the handshake only shows that the client has the key of its certificate; the certificate
/// itself is checked afterwards, so that the client gets an answer (AUTH-10).
#[derive(Debug)]
pub(crate) struct ClientAuthorities {
    authorities: Vec<CertificateDer<'static>>,
    /// The subjects of the authorities. The handshake names them, so that a client can choose a fitting certificate.
    subjects: Vec<DistinguishedName>,
    known: WebPkiSupportedAlgorithms,
}

impl ClientAuthorities {
    pub(super) fn new(
        authorities: Vec<CertificateDer<'static>>,
        known: WebPkiSupportedAlgorithms,
    ) -> Result<Self, String> {
        let mut subjects = Vec::new();
        for (number, authority) in authorities.iter().enumerate() {
            let parsed = parse(authority)
                .ok_or_else(|| format!("certificate {} is no X.509", number + 1))?;
            let subject = parsed.subject().as_raw().to_vec();
            subjects.push(DistinguishedName::from(subject));
        }
        Ok(Self {
            authorities,
            subjects,
            known,
        })
    }

    /// Checks the certificates that a client presented, its own first, as Go's verifier checks them for client
    /// authentication. Unlike Go's verifier it ignores name constraints of authorities, because they constrain hosts.
    pub(crate) fn check(
        &self,
        presented: &[CertificateDer<'_>],
        now: Timestamp,
    ) -> Result<(), String> {
        let malformed = || "x509: malformed certificate".to_owned();
        let (own, others) = presented.split_first().ok_or_else(malformed)?;
        let own = parse(own).ok_or_else(malformed)?;
        let roots: Vec<_> = self.authorities.iter().filter_map(parse).collect();
        let others: Vec<_> = others.iter().filter_map(parse).collect();
        let pool = Pool {
            roots: &roots,
            others: &others,
            now: now.as_second(),
            purpose: KeyPurpose::Client,
        };
        pool.check_leaf(&own)?;
        pool.chain(&own).map(drop)
    }
}

impl ClientCertVerifier for ClientAuthorities {
    fn client_auth_mandatory(&self) -> bool {
        // A certificate is not mandatory, because a client may use a token instead.
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.subjects
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let parsed = parse(certificate).ok_or(CertificateError::BadEncoding)?;
        if parsed.version() == X509Version::V3 {
            return verify_tls12_signature(message, certificate, signature, &self.known);
        }
        // `openssl x509` can make certificates of version 1, but webpki cannot parse them, so only the key is used
        // here. A scheme may have several algorithms: those for keys of another length refuse the signature.
        let key = &parsed.public_key().subject_public_key.data;
        let schemes = self.known.mapping.iter();
        let fitting = schemes.filter(|(scheme, _)| *scheme == signature.scheme);
        let mut fitting = fitting.flat_map(|(_, algorithms)| algorithms.iter());
        let signature = signature.signature();
        match fitting.any(|one| one.verify_signature(key, message, signature).is_ok()) {
            true => Ok(HandshakeSignatureValid::assertion()),
            false => Err(CertificateError::BadSignature.into()),
        }
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let parsed = parse(certificate).ok_or(CertificateError::BadEncoding)?;
        // Passes the key alone, because webpki cannot parse certificates of version 1.
        let key = SubjectPublicKeyInfoDer::from(parsed.public_key().raw);
        verify_tls13_signature_with_raw_key(message, &key, signature, &self.known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.known.supported_schemes()
    }
}
