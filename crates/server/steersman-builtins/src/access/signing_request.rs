//! Words: certificate signing requests (PKCS#10 in PEM).
//!
//! Upstream: `ParseCSR` and `validateCSR` of `pkg/apis/certificates`, which use Go's
//! `encoding/pem`, `encoding/asn1` and `crypto/x509`. The messages are the same.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::error::X509Error;
use x509_parser::pem::Pem;
use x509_parser::prelude::FromDer as _;
use x509_parser::public_key::PublicKey;

const LABEL: &str = "CERTIFICATE REQUEST";
/// The size in bits of the shortest RSA key with signatures that the verifier can check.
const CHECKED_RSA: usize = 2048;

/// A parsed request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SigningRequest {
    der: Vec<u8>,
}

impl SigningRequest {
    /// Parses `spec.request`, which is PEM in base64. Only the first PEM block is used.
    ///
    /// # Errors
    /// Fails with Go's message if the request is invalid.
    pub fn read(request: &str) -> Result<Self, String> {
        let text = STANDARD.decode(request).unwrap_or_default();
        // Like Go, skips text that only resembles a PEM block.
        let first = Pem::iter_from_buffer(&text).find_map(Result::ok);
        let Some(block) = first.filter(|block| block.label == LABEL) else {
            return Err(format!("PEM block type must be {LABEL}"));
        };
        match X509CertificationRequest::from_der(&block.contents) {
            Ok(([], _)) => Ok(Self {
                der: block.contents,
            }),
            Ok(_) => Err("asn1: syntax error: trailing data".to_owned()),
            Err(_) => Err(why_not_der(&block.contents)),
        }
    }

    fn parsed(&self) -> Option<X509CertificationRequest<'_>> {
        let parsed = X509CertificationRequest::from_der(&self.der);
        parsed.ok().map(|(_, parsed)| parsed)
    }

    /// Returns whether the request is for a member of an organization, which is a group of users.
    pub fn is_of(&self, organization: &str) -> bool {
        self.parsed().is_some_and(|parsed| {
            let subject = &parsed.certification_request_info.subject;
            subject
                .iter_organization()
                .any(|one| one.as_str().is_ok_and(|one| one == organization))
        })
    }

    /// Checks the signature, which proves that the author of the request has the private key.
    ///
    /// # Errors
    /// Fails with Go's message for a wrong signature. Signatures of unsupported algorithms are accepted.
    pub fn check_signature(&self) -> Result<(), String> {
        let Some(parsed) = self.parsed() else {
            return Ok(());
        };
        let key = &parsed.certification_request_info.subject_pki;
        let why = match key.parsed() {
            Ok(PublicKey::RSA(key)) if key.key_size() < CHECKED_RSA => return Ok(()),
            Ok(PublicKey::RSA(_)) => "crypto/rsa: verification error",
            Ok(PublicKey::EC(_)) => "x509: ECDSA verification failure",
            _ => "x509: Ed25519 verification failure",
        };
        match parsed.verify_signature() {
            Err(X509Error::SignatureVerificationError) => Err(why.to_owned()),
            _ => Ok(()),
        }
    }
}

/// Returns Go's message for bytes that are not a request; an approximation for inner errors.
fn why_not_der(der: &[u8]) -> String {
    let syntax = |why: &str| format!("asn1: syntax error: {why}");
    let [first, rest @ ..] = der else {
        return syntax("sequence truncated");
    };
    let tag = first & 0x1f;
    let (length, header) = match rest {
        [] => return syntax("truncated tag or length"),
        _ if tag == 0x1f => return syntax("data truncated"),
        [short @ 0..0x80, ..] => (usize::from(*short), 2),
        [0x80, ..] => return syntax("indefinite length found (not DER)"),
        [long, rest @ ..] => {
            let count = usize::from(long & 0x7f);
            let Some(bytes) = rest.get(..count) else {
                return syntax("truncated tag or length");
            };
            if count > 4 {
                return "asn1: structure error: length too large".to_owned();
            }
            let length = bytes
                .iter()
                .fold(0, |sum, byte| sum << 8 | usize::from(*byte));
            (length, 2 + count)
        }
    };
    let (class, compound) = (first >> 6, first & 0x20 != 0);
    if (class, tag, compound) != (0, 16, true) {
        return format!(
            "asn1: structure error: tags don't match (16 vs {{class:{class} tag:{tag} \
             length:{length} isCompound:{compound}}}) {{optional:false explicit:false \
             application:false private:false defaultValue:<nil> tag:<nil> stringType:0 timeType:0 \
             set:false omitEmpty:false}} certificateRequest @{header}"
        );
    }
    if length > der.len().saturating_sub(header) {
        return syntax("data truncated");
    }
    "asn1: structure error: sequence tag mismatch".to_owned()
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use rcgen::{CertificateParams, DnType, KeyPair};

    use super::SigningRequest;

    fn pem(organization: &str) -> String {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        let name = &mut params.distinguished_name;
        name.push(DnType::OrganizationName, organization);
        let made = params.serialize_request(&KeyPair::generate().unwrap());
        made.unwrap().pem().unwrap()
    }

    fn block(label: &str, bytes: &[u8]) -> String {
        let text = STANDARD.encode(bytes);
        format!("-----BEGIN {label}-----\n{text}\n-----END {label}-----\n")
    }

    fn read(pem: &str) -> Result<SigningRequest, String> {
        SigningRequest::read(&STANDARD.encode(pem))
    }

    #[test]
    fn the_first_valid_block_counts() {
        let odd = "Subject: me\n-----BEGIN CERTIFICATE REQUEST-----\n!\n-----END CERTIFICATE REQUEST-----\n";
        let asked = read(&format!("{odd}{}{}", pem("team"), pem("others"))).unwrap();
        assert!(asked.is_of("team") && !asked.is_of("others"));
        assert_eq!(asked.check_signature(), Ok(()));
        let other = "PEM block type must be CERTIFICATE REQUEST";
        for text in ["", "x", "-----BEGIN CERTIFICATE REQUEST-----"] {
            assert_eq!(read(text).unwrap_err(), other);
        }
        let key = block("PRIVATE KEY", b"k") + &pem("team");
        assert_eq!(read(&key).unwrap_err(), other);
    }

    #[test]
    fn invalid_requests_have_the_messages_of_go() {
        let cases: [(&[u8], &str); 5] = [
            (b"", "asn1: syntax error: sequence truncated"),
            (
                b"fake",
                "asn1: structure error: tags don't match (16 vs {class:1 tag:6 length:97 isCompound:true}) {optional:false explicit:false application:false private:false defaultValue:<nil> tag:<nil> stringType:0 timeType:0 set:false omitEmpty:false} certificateRequest @2",
            ),
            (
                b"\x30\x82\x01",
                "asn1: syntax error: truncated tag or length",
            ),
            (b"\x30\x05\x02", "asn1: syntax error: data truncated"),
            (
                b"\x30\x85\x01\x01\x01\x01\x01",
                "asn1: structure error: length too large",
            ),
        ];
        for (bytes, why) in cases {
            let pem = block("CERTIFICATE REQUEST", bytes);
            assert_eq!(read(&pem).unwrap_err(), why, "{bytes:?}");
        }
    }

    #[test]
    fn a_signature_by_another_key_is_refused() {
        let pem = pem("team");
        let mut der = read(&pem).unwrap().der;
        // A letter of the organization.
        let at = der.windows(4).position(|bytes| bytes == b"team").unwrap();
        der[at] = b's';
        let changed = read(&block("CERTIFICATE REQUEST", &der)).unwrap();
        assert!(changed.is_of("seam"));
        let why = changed.check_signature().unwrap_err();
        assert_eq!(why, "x509: ECDSA verification failure");
    }
}
