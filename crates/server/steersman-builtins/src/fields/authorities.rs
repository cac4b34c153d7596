//! Words: checks that a bundle of certificate authorities can be read (upstream: `rootCertPool` of
//! `client-go/transport`, above Go's `encoding/pem` and `crypto/x509`).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use x509_parser::certificate::X509Certificate;
use x509_parser::pem::Pem;
use x509_parser::prelude::FromDer as _;

/// Returns Go's message for a PEM bundle in base64 of which no certificate can be parsed.
pub(crate) fn mistake(bundle: &str) -> Option<&'static str> {
    if bundle.is_empty() {
        return None;
    }
    let text = STANDARD.decode(bundle).unwrap_or_default();
    let blocks: Vec<Pem> = Pem::iter_from_buffer(&text).flatten().collect();
    let certificates = blocks.iter().filter(|block| block.label == "CERTIFICATE");
    let mut read = certificates.map(is_certificate).peekable();
    if read.peek().is_none() {
        return Some(if blocks.is_empty() {
            "unable to parse bytes as PEM block"
        } else {
            "no valid certificate authority data seen"
        });
    }
    (!read.any(|read| read)).then_some("failed to parse certificate: x509: malformed certificate")
}

/// Checks a certificate in PEM. Returns the message of upstream's `validateCertificate`.
pub(crate) fn certificate_mistake(text: &[u8]) -> Option<String> {
    if text.is_empty() {
        return None;
    }
    let mut has_any = false;
    for block in Pem::iter_from_buffer(text).flatten() {
        if block.label != "CERTIFICATE" {
            let label = block.label;
            return Some(format!(
                "only CERTIFICATE PEM blocks are allowed, found {label:?}"
            ));
        }
        if !is_certificate(&block) {
            return Some("x509: malformed certificate".to_owned());
        }
        has_any = true;
    }
    (!has_any).then(|| "must contain at least one CERTIFICATE PEM block".to_owned())
}

/// Returns whether a block is one certificate and nothing more.
fn is_certificate(block: &Pem) -> bool {
    X509Certificate::from_der(&block.contents).is_ok_and(|(rest, _)| rest.is_empty())
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair};

    use super::*;

    #[test]
    fn one_certificate_is_enough() {
        let key = KeyPair::generate().unwrap();
        let made = CertificateParams::new(Vec::new()).unwrap();
        let good = made.self_signed(&key).unwrap().pem();
        let broken = "-----BEGIN CERTIFICATE-----\neHg=\n-----END CERTIFICATE-----\n";
        let message = |text: &str| mistake(&STANDARD.encode(text));
        assert_eq!(mistake(""), None);
        assert_eq!(message(&good), None);
        assert_eq!(message(&format!("{broken}{good}")), None);
        assert_eq!(message("x"), Some("unable to parse bytes as PEM block"));
        let other = message(&key.serialize_pem());
        assert_eq!(other, Some("no valid certificate authority data seen"));
        assert_eq!(
            message(broken),
            Some("failed to parse certificate: x509: malformed certificate")
        );
    }
    #[test]
    fn a_signed_request_holds_certificates_alone() {
        let key = KeyPair::generate().unwrap();
        let made = CertificateParams::new(Vec::new()).unwrap();
        let good = made.self_signed(&key).unwrap().pem();
        let message = |text: &str| certificate_mistake(text.as_bytes());
        assert_eq!(message(""), None);
        assert_eq!(message(&format!("{good}{good}")), None);
        let none = "must contain at least one CERTIFICATE PEM block";
        assert_eq!(message("a").as_deref(), Some(none));
        let key = "only CERTIFICATE PEM blocks are allowed, found \"PRIVATE KEY\"";
        let both = format!("{good}{}", KeyPair::generate().unwrap().serialize_pem());
        assert_eq!(message(&both).as_deref(), Some(key));
        let broken = "-----BEGIN CERTIFICATE-----\neHg=\n-----END CERTIFICATE-----\n";
        assert_eq!(
            message(broken).as_deref(),
            Some("x509: malformed certificate")
        );
    }
}
