//! Words: the certificate and the private key of a TLS Secret.
//!
//! Upstream: `warningsForSecret` of `pkg/registry/core/secret`, which uses Go's `tls.X509KeyPair`. The messages are
//! the same.

use x509_parser::asn1_rs::{Any, Class, Tag};
use x509_parser::certificate::X509Certificate;
use x509_parser::pem::Pem;
use x509_parser::prelude::FromDer as _;
use x509_parser::public_key::PublicKey;

/// The DER of the object identifiers of key algorithms.
const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
const ELLIPTIC: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
const ED25519: &[u8] = &[0x2b, 0x65, 0x70];

/// The context-specific tag of the public key in a SEC 1 private key.
const PUBLIC_KEY: Tag = Tag(1);

/// A private key, by what it tells of its public key.
#[derive(Debug, PartialEq, Eq)]
enum PrivateKey {
    /// The modulus, without leading zeros.
    Rsa(Vec<u8>),
    /// The point, if the key holds it.
    Elliptic(Option<Vec<u8>>),
    Ed25519,
}

/// Checks that a certificate and a private key, both in PEM, belong together. An Ed25519 key is not compared.
///
/// # Errors
/// Fails with Go's message.
pub(crate) fn check(certificate: &[u8], key: &[u8]) -> Result<(), String> {
    let leaf = leaf(certificate)?;
    let key = key_block(key)?;
    let Ok(([], leaf)) = X509Certificate::from_der(&leaf) else {
        return Err("x509: malformed certificate".to_owned());
    };
    let key = private_key(&key)?;
    let matches = match (leaf.public_key().parsed(), key) {
        (Ok(PublicKey::RSA(public)), PrivateKey::Rsa(modulus)) => {
            without_zeros(public.modulus) == modulus
        }
        (Ok(PublicKey::EC(point)), PrivateKey::Elliptic(own)) => {
            own.is_none_or(|own| own == point.data())
        }
        (Ok(PublicKey::RSA(_) | PublicKey::EC(_)), _) => {
            return Err("tls: private key type does not match public key type".to_owned());
        }
        (_, PrivateKey::Ed25519) => true,
        _ => return Err("tls: unknown public key algorithm".to_owned()),
    };
    let differ = || "tls: private key does not match public key".to_owned();
    matches.then_some(()).ok_or_else(differ)
}

/// Returns the DER of the first certificate.
fn leaf(pem: &[u8]) -> Result<Vec<u8>, String> {
    let (found, skipped) = block(pem, |label| label == "CERTIFICATE");
    found.ok_or_else(|| match &skipped[..] {
        [] => "tls: failed to find any PEM data in certificate input".to_owned(),
        [one] if one.ends_with("PRIVATE KEY") => {
            "tls: failed to find certificate PEM data in certificate input, but did find a private key; PEM inputs may have been switched".to_owned()
        }
        skipped => format!(
            "tls: failed to find \"CERTIFICATE\" PEM block in certificate input after skipping PEM blocks of the following types: [{}]",
            skipped.join(" ")
        ),
    })
}

/// Returns the DER of the first private key.
fn key_block(pem: &[u8]) -> Result<Vec<u8>, String> {
    let is_key = |label: &str| label == "PRIVATE KEY" || label.ends_with(" PRIVATE KEY");
    let (found, skipped) = block(pem, is_key);
    found.ok_or_else(|| match &skipped[..] {
        [] => "tls: failed to find any PEM data in key input".to_owned(),
        [one] if one == "CERTIFICATE" => {
            "tls: found a certificate rather than a key in the PEM for the private key".to_owned()
        }
        skipped => format!(
            "tls: failed to find PEM block with type ending in \"PRIVATE KEY\" in key input after skipping PEM blocks of the following types: [{}]",
            skipped.join(" ")
        ),
    })
}

/// Returns the content of the first block with a wanted label, and the labels of the blocks before it.
fn block(pem: &[u8], is_wanted: impl Fn(&str) -> bool) -> (Option<Vec<u8>>, Vec<String>) {
    let mut skipped = Vec::new();
    for block in Pem::iter_from_buffer(pem).filter_map(Result::ok) {
        if is_wanted(&block.label) {
            return (Some(block.contents), skipped);
        }
        skipped.push(block.label);
    }
    (None, skipped)
}

/// Reads a key in PKCS#1, PKCS#8 or SEC 1.
fn private_key(der: &[u8]) -> Result<PrivateKey, String> {
    let plain = || rsa(der).or_else(|| elliptic(der));
    let Some((algorithm, key)) = pkcs8(der) else {
        return plain().ok_or_else(|| "tls: failed to parse private key".to_owned());
    };
    let found = match algorithm {
        RSA => rsa(key),
        ELLIPTIC => elliptic(key),
        ED25519 => Some(PrivateKey::Ed25519),
        _ => return Err("tls: found unknown private key type in PKCS#8 wrapping".to_owned()),
    };
    found.ok_or_else(|| "tls: failed to parse private key".to_owned())
}

/// Returns the algorithm and the key of a PKCS#8 document.
fn pkcs8(der: &[u8]) -> Option<(&[u8], &[u8])> {
    let document = only(Tag::Sequence, der)?;
    let (_, rest) = value(Tag::Integer, document)?;
    let (algorithm, rest) = value(Tag::Sequence, rest)?;
    let (identifier, _) = value(Tag::Oid, algorithm)?;
    let (key, _) = value(Tag::OctetString, rest)?;
    Some((identifier, key))
}

fn rsa(der: &[u8]) -> Option<PrivateKey> {
    let key = only(Tag::Sequence, der)?;
    let (_, rest) = value(Tag::Integer, key)?;
    let (modulus, _) = value(Tag::Integer, rest)?;
    Some(PrivateKey::Rsa(without_zeros(modulus).to_owned()))
}

fn elliptic(der: &[u8]) -> Option<PrivateKey> {
    let key = only(Tag::Sequence, der)?;
    let (_, rest) = value(Tag::Integer, key)?;
    let (_, mut rest) = value(Tag::OctetString, rest)?;
    let mut point = None;
    while let Some((next, after)) = element(rest) {
        if next.class() == Class::ContextSpecific && next.tag() == PUBLIC_KEY {
            // The first byte counts unused bits.
            let (bits, _) = value(Tag::BitString, next.data)?;
            point = bits.get(1..).map(<[u8]>::to_vec);
        }
        rest = after;
    }
    Some(PrivateKey::Elliptic(point))
}

fn without_zeros(number: &[u8]) -> &[u8] {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    &number[zeros..]
}

/// Returns the content of a value that is the whole input.
fn only(tag: Tag, der: &[u8]) -> Option<&[u8]> {
    let (content, rest) = value(tag, der)?;
    rest.is_empty().then_some(content)
}

/// Returns the content of the next value, which must have this universal tag, and the bytes after it.
fn value(tag: Tag, der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (next, after) = element(der)?;
    let is_wanted = next.class() == Class::Universal && next.tag() == tag;
    is_wanted.then_some((next.data, after))
}

/// Returns the next value, and the bytes after it.
fn element(der: &[u8]) -> Option<(Any<'_>, &[u8])> {
    let (after, next) = Any::from_der(der).ok()?;
    Some((next, after))
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use rcgen::{CertificateParams, KeyPair, PKCS_ED25519, SignatureAlgorithm};

    use super::{PrivateKey, check, elliptic};

    fn pair(algorithm: &'static SignatureAlgorithm) -> (String, String) {
        let key = KeyPair::generate_for(algorithm).unwrap();
        let params = CertificateParams::new(Vec::new()).unwrap();
        (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
    }

    fn block(label: &str, bytes: &[u8]) -> String {
        let text = STANDARD.encode(bytes);
        format!("-----BEGIN {label}-----\n{text}\n-----END {label}-----\n")
    }

    fn why(certificate: &str, key: &str) -> String {
        check(certificate.as_bytes(), key.as_bytes()).unwrap_err()
    }

    #[test]
    fn a_certificate_and_its_key_belong_together() {
        for algorithm in [&rcgen::PKCS_ECDSA_P256_SHA256, &PKCS_ED25519] {
            let (certificate, key) = pair(algorithm);
            assert_eq!(check(certificate.as_bytes(), key.as_bytes()), Ok(()));
        }
    }

    #[test]
    fn pairs_that_do_not_fit_have_the_messages_of_go() {
        let (certificate, key) = pair(&rcgen::PKCS_ECDSA_P256_SHA256);
        let (_, other) = pair(&rcgen::PKCS_ECDSA_P256_SHA256);
        let (_, edwards) = pair(&PKCS_ED25519);
        assert_eq!(
            why(&certificate, &other),
            "tls: private key does not match public key"
        );
        assert_eq!(
            why(&certificate, &edwards),
            "tls: private key type does not match public key type"
        );
        assert_eq!(
            why("x", &key),
            "tls: failed to find any PEM data in certificate input"
        );
        assert_eq!(
            why(&certificate, "x"),
            "tls: failed to find any PEM data in key input"
        );
        assert!(why(&key, &certificate).ends_with("PEM inputs may have been switched"));
        assert_eq!(
            why(&certificate, &certificate),
            "tls: found a certificate rather than a key in the PEM for the private key"
        );
        let odd = block("A", b"a") + &block("B", b"b");
        assert!(why(&odd, &key).ends_with("PEM blocks of the following types: [A B]"));
        assert_eq!(
            why(&block("CERTIFICATE", b"c"), &key),
            "x509: malformed certificate"
        );
        assert_eq!(
            why(&certificate, &block("PRIVATE KEY", b"k")),
            "tls: failed to parse private key"
        );
    }

    #[test]
    fn the_class_of_a_tag_is_compared() {
        let mut key = vec![0x30, 0x0c, 2, 1, 1, 4, 1, 7, 0xa1, 4, 3, 2, 0, 5];
        let public = Some(vec![5]);
        assert_eq!(elliptic(&key), Some(PrivateKey::Elliptic(public)));
        // A BOOLEAN has the number of the public key's tag, but another class.
        key.truncate(8);
        key.extend([1, 4, 3, 2, 0, 5]);
        assert_eq!(elliptic(&key), Some(PrivateKey::Elliptic(None)));
        // A context-specific value with the number of a SEQUENCE.
        key[0] = 0xb0;
        assert_eq!(elliptic(&key), None);
    }

    #[test]
    fn no_bytes_of_a_key_cause_a_panic() {
        let (certificate, key) = pair(&rcgen::PKCS_ECDSA_P256_SHA256);
        let text: String = key.lines().filter(|line| !line.starts_with('-')).collect();
        let der = STANDARD.decode(text).unwrap();
        for end in 0..der.len() {
            let _ = check(
                certificate.as_bytes(),
                block("PRIVATE KEY", &der[..end]).as_bytes(),
            );
            let mut changed = der.clone();
            changed[end] ^= 0xff;
            let _ = check(
                certificate.as_bytes(),
                block("PRIVATE KEY", &changed).as_bytes(),
            );
        }
    }
}
